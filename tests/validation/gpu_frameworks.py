"""ResNet-50 and BERT by batch, as NVIDIA's DeepLearningExamples publish them: what frameworks make of a GPU.

A framework on a machine has two numbers: the least time of a pass, in which its host asks for all kernels, and by how
much longer than simulated, eager, its kernels take. A pass takes the larger of that floor and the simulated time
times that factor. Both come of the other rows of that framework, network and chip (a row never helps to predict
itself); and, for ``by_others``, of the other chips alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.validation.gpu_rows import PUBLISHED, Row, rows_of, simulated, without_link_s

CHIPS: Mapping[str, str] = {
    "nvidia-t4": "t4", "nvidia-v100-sxm2-16": "v100-sxm2-16", "nvidia-a100-40-sxm": "a100-40-sxm",
    "nvidia-a100-80-sxm": "a100-80-sxm",
}  # fmt: skip
FRAMEWORKS = ("MxNet", "PyTorch", "TensorFlow", "TensorFlow2")
NETWORKS: Mapping[str, str] = {
    "ResNet-50 v1.5": "resnet50",
    "BERT-Base fine-tune": "bert-base",
    "BERT-Large fine-tune": "bert-large",
}
MIXED = "FP16 mixed"


class Measured(NamedTuple):
    """A pass: where it ran, what it computed, its seconds, and the seconds that are simulated for its kernels."""

    framework: str
    network: str
    chip: str
    batch: int
    seconds: float
    simulated: float

    @property
    def site(self) -> tuple[str, str]:
        """Return what two numbers are of, chip by chip."""
        return self.framework, self.network.split("?")[0]


def frameworks(data: Path) -> Iterator[Row]:
    """Every published pass in mixed precision on one GPU, without its transfers."""
    found = list(_measured(data))
    for index, row in enumerate(found):
        same = [other for other in found if other.site == row.site]
        here = [other for at, other in enumerate(found) if at != index and other in same and other.chip == row.chip]
        away = [other for other in same if other.chip != row.chip]
        name = f"{row.framework}, {row.network}, batch {row.batch}, on {row.chip}"
        yield Row(name, row.seconds, _pass_s(row, here), _pass_s(row, away))


def _pass_s(row: Measured, others: Sequence[Measured]) -> float:
    floor, factor = _fitted(others)
    return max(floor, factor * row.simulated)


def _fitted(rows: Sequence[Measured]) -> tuple[float, float]:
    """Floor and factor with the least sum of absolute log errors: both are among those of single rows."""
    seconds, kernels = (np.array([getattr(row, name) for row in rows]) for name in ("seconds", "simulated"))
    floors, factors = np.append(seconds, 0.0), seconds / kernels
    passes = np.maximum(floors[:, None, None], factors[:, None] * kernels)
    errors = np.abs(np.log(passes / seconds)).sum(axis=2)
    floor, factor = np.unravel_index(int(np.argmin(errors)), errors.shape)
    return float(floors[floor]), float(factors[factor])


def _measured(data: Path) -> Iterator[Measured]:
    known: dict[tuple[str, str, int], float] = {}
    for line in rows_of(data / PUBLISHED):
        found = told(line)
        if found is None:
            continue
        framework, network, chip, batch, seconds = found
        if (network, chip, batch) not in known:
            run = simulated(network, chip, "fp16", batch=batch, fusion="eager")
            known[network, chip, batch] = without_link_s(run)
        yield Measured(framework, network, chip, batch, seconds, known[network, chip, batch])


def told(line: Mapping[str, str]) -> tuple[str, str, str, int, float] | None:
    """Framework, network, chip, batch, seconds of a line; None for what is something else."""
    where = re.match(r"NVIDIA/DeepLearningExamples (\w+)/", line["source"])
    batch = re.search(r"batch size=(\d+)", line["shape_or_batch"], re.IGNORECASE)
    network, chip = NETWORKS.get(line["workload"]), CHIPS.get(line["chip_id"])
    wanted = line["phase"] == "inference" and line["precision"] == MIXED and line["n_chips"] in ("1", "")
    if not (where and batch and network and chip and wanted) or where[1] not in FRAMEWORKS:
        return None
    tokens, images = re.search(r"Sequence Length=(\d+)", line["shape_or_batch"]), int(batch[1])
    if tokens is None and "hroughput" in line["metric"]:
        return where[1], network, chip, images, images / float(line["value"])
    if tokens is not None and line["metric"] == "Latency-Average(ms)":
        return where[1], f"{network}?seq={tokens[1]}", chip, images, float(line["value"]) * 1e-3
    return None
