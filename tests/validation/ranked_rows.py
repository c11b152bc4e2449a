"""Rows for the check ``ranking``: one network on several chips, measured and predicted as a user gets it.

MLPerf inference, closed, by TensorRT, on chips that are here: **Offline** (samples per second; a batch of 256 images or
64 questions, inputs there), **MultiStream** (8 images) and **SingleStream** (1), both with the transfer of their inputs.
A chip has the median of all its submissions of all rounds that had not limited its power. TensorRT measures p90 or p99;
predictions are of one pass. ``whole_rows`` has the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import NamedTuple

from accelsim.account.interval import key_of, latency_interval
from tests.validation.gpu_models import CHIPS, SUBMITTED, format_of
from tests.validation.gpu_rows import NEWER, PUBLISHED, rows_of, simulated, without_link_s
from tests.validation.whole_rows import Row, family, row

MORE: Mapping[str, str] = {
    **CHIPS, "nvidia-a40": "a40", "nvidia-l4": "l4", "nvidia-l40s": "l40s", "nvidia-rtx4090": "rtx4090",
    "nvidia-a100-40-sxm": "a100-40-sxm",
}  # fmt: skip
"""MLPerf's chips that are here, with those that ``gpu-models`` does not compare."""
BATCHES: Mapping[str, int | None] = {"Offline": None, "MultiStream": 8, "SingleStream": 1}
"""Scenario -> its batch, None: that of ``SUBMITTED``."""
SOFTWARE = re.compile("tensorrt|nvidia inference", re.IGNORECASE)
"""What submissions ran that are compared: a few T4 ran a reference that takes ten times as long."""


class Asked(NamedTuple):
    """A workload in a scenario."""

    workload: str
    scenario: str


def mlperf_ranked(data: Path) -> Iterator[Row]:
    """Every workload, scenario and chip."""
    for (asked, chip), figure in submitted(data).items():
        network, usual, batch = SUBMITTED[asked.workload]
        offline, batch = asked.scenario == "Offline", BATCHES[asked.scenario] or batch
        run = simulated(network, chip, format_of(asked.workload, usual, chip), batch=batch)
        measured, predicted = (batch / figure, without_link_s(run)) if offline else (figure, run.seconds)
        who = (f"MLPerf {asked.scenario}", family(network), chip)
        yield row(key_of(run), who, f"{asked.workload}, {chip}", measured, predicted, latency_interval(run))


def submitted(data: Path) -> dict[tuple[Asked, str], float]:
    """Samples per second and chip (Offline), or seconds: medians."""
    found: dict[tuple[Asked, str], list[float]] = {}
    for line in (*rows_of(data / PUBLISHED), *rows_of(data / NEWER)):
        asked, chip = Asked(line["workload"], line["shape_or_batch"]), MORE.get(line["chip_id"])
        known = asked.workload in SUBMITTED and asked.scenario in BATCHES and chip is not None
        ours = line["source"].startswith("MLPerf Inference") and SOFTWARE.search(line["software"])
        if known and ours and not line["power_w"] and chip is not None:
            offline = asked.scenario == "Offline"
            figure = float(line["per_chip_value"]) if offline else float(line["value"]) * 1e-3
            found.setdefault((asked, chip), []).append(figure)
    return {key: median(figures) for key, figures in sorted(found.items())}
