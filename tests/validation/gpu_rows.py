"""Shared rows of the sets of ``gpu-models``: a measured network with its simulated time."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

from accelsim.account import critical_path
from accelsim.machine.run import Run
from accelsim.request import Request
from accelsim.request.job import execute, prepare
from accelsim.spec.chip import Chip
from accelsim.time import FS
from accelsim.workload.graph import Graph

EAGER = "pytorch-eager"
"""The site of what PyTorch computes kernel by kernel."""
PUBLISHED, NEWER = "published_results.csv", "published_new.csv"


class Row(NamedTuple):
    """A network on a chip: seconds measured and predicted; ``by_others``: predicted by what all chips share, or by
    numbers that come of other chips alone; ``inside``: whether the interval that is printed holds the measured time
    (None where a set has no such column)."""

    name: str
    measured: float
    predicted: float
    by_others: float | None = None
    inside: bool | None = None

    @property
    def error(self) -> float:
        """Relative."""
        return self.predicted / self.measured - 1


def simulated(model: str | Graph, chip: str | Chip, dtype: str, **options: object) -> Run:
    """A run without values."""
    asked: dict[str, object] = {
        "model": model, "on": chip, "dtype": dtype, "values": "off", "edges": "outside", "ignore_capacity": True,
        **options,
    }  # fmt: skip
    return execute(prepare(Request(**asked)))  # type: ignore[arg-type]


def without_link_s(run: Run) -> float:
    """Seconds of a run whose inputs came while the batch before it was computed."""
    spent = critical_path.by_blame(run)
    return run.seconds - FS * sum(fs for blame, fs in spent.items() if "pcie" in blame.text)


def rows_of(path: Path) -> list[dict[str, str]]:
    """Lines of a CSV by their columns."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
