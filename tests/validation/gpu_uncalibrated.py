"""Check ``gpu-uncalibrated``: products of boards whose constants nobody fitted, by the defaults that all GPUs share.

Square products of 1,024 to 10,240 that owners of boards timed in PyTorch (30 calls after 6), or the fastest of these.
A row of the check is a board and a unit: formats on Tensor Cores, FP32 on lanes. It agrees where the mean error is no
more than is claimed. Beside it stand a roofline with the stated peaks, and the same by constants chosen on the other
boards alone: of how a falling clock saves power, of the energy of an operation of small Tensor Cores and of the clock
above the stated one (``GRID``).
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np

from accelsim.engines.simt import drawn, products
from accelsim.kernels.predict import Kernels
from accelsim.kernels.table import several
from accelsim.types import Floats
from tests.validation.base import Check, check
from tests.validation.shipped import plain_chip

ROWS = Path(__file__).parent / "data" / "published" / "torch_products.csv"
SIZES = (1024, 2048, 4096, 8192, 10240)
BEST = "best"
"""In place of a size: the fastest of all."""
CLAIMED: Mapping[tuple[str, str], float] = {
    ("rtx4090", "lanes"): 0.08,
    ("rtx4090", "tensor"): 0.075,
    ("a40", "lanes"): 0.086,
    ("a40", "tensor"): 0.063,
    ("l4", "lanes"): 0.092,
    ("l4", "tensor"): 0.146,
    ("a10g", "lanes"): 0.111,
    ("a10g", "tensor"): 0.107,
    ("rtx-pro-6000-server", "lanes"): 0.147,
    ("rtx-pro-6000-server", "tensor"): 0.088,
    ("rtx3090", "lanes"): 0.032,
    ("rtx3090", "tensor"): 0.082,
    ("rtx-a6000", "lanes"): 0.055,
    ("rtx-a6000", "tensor"): 0.045,
    ("l40s", "lanes"): 0.195,
    ("l40s", "tensor"): 0.066,
    ("p40", "lanes"): 0.072,
    ("b200-sxm", "lanes"): 0.04,
    ("b200-sxm", "tensor"): 0.047,
}
"""Board and unit -> mean error that is claimed: a little more than what it is."""
GRID = tuple(product((1.0, 1.3, 1.6, 2.0, 2.5), (0.6e-12, 0.9e-12, 1.05e-12, 1.2e-12), (0.5, 1.0, 1.3)))
"""``falls``, energy on Tensor Cores of 512 multiplications at 5 nm, ``above`` (``hwspecs/power/gpu.yaml``)."""


class Board(NamedTuple):
    """Products of a board in a format: measured, per size or the fastest alone, in operations per second."""

    chip: str
    format: str
    measured: Floats
    best: bool
    kernels: Kernels

    @property
    def row(self) -> tuple[str, str]:
        """Board and unit."""
        return self.chip, "lanes" if self.format == "fp32" else "tensor"

    def error(self, seconds: Floats) -> Floats:
        """Relative errors of the time."""
        rate = 2 * np.array(SIZES, float) ** 3 / seconds
        found: Floats = self.measured / (rate.max(keepdims=True) if self.best else rate) - 1
        return found


@cache
def boards() -> tuple[Board, ...]:
    """Every board and format of the table."""
    groups: dict[tuple[str, str, bool], list[float]] = {}
    with ROWS.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            key = (row["chip"], row["dtype"], row["size"] == BEST)
            groups.setdefault(key, []).append(float(row["tflops"]) * 1e12)
    found = []
    for (chip, name, best), rates in groups.items():
        cells = [dict.fromkeys("MKN", str(size)) for size in SIZES]
        kernels = Kernels(several("gemm", name, cells), plain_chip(chip))
        found.append(Board(chip, name, np.array(rates), best, kernels))
    return tuple(found)


def by_defaults() -> list[Floats]:
    """Errors of each board and format."""
    return [each.error(each.kernels.predicted(each.kernels.chip).seconds) for each in boards()]


def by_roofline() -> list[Floats]:
    """The same of the stated peaks alone."""
    return [each.error(each.kernels.predicted(each.kernels.chip).times.bound) for each in boards()]


def by_others() -> list[Floats]:
    """The same by the point of the grid that is best for all boards but this one."""
    tried, table = [], drawn.shipped()
    for falls, small_J, above in GRID:
        clock = table.clock.model_copy(update={"falls": falls, "above": above})
        newest = drawn.nodes()[5]
        nodes = {**drawn.nodes(), 5: newest.model_copy(update={"sizes": newest.sizes | {"512": small_J}})}
        other = table.model_copy(update={"clock": clock})
        with (
            patch.object(products, "shipped", lambda other=other: other),
            patch.object(drawn, "nodes", lambda nodes=nodes: nodes),
        ):
            tried.append(by_defaults())
    means = np.array([[float(np.abs(errors).mean()) for errors in each] for each in tried])
    chosen = []
    for index, each in enumerate(boards()):
        others = [place for place, other in enumerate(boards()) if other.chip != each.chip]
        chosen.append(tried[int(np.argmin(means[:, others].mean(axis=1)))][index])
    return chosen


def means(errors: Sequence[Floats]) -> dict[tuple[str, str], float]:
    """Mean error of each board and unit."""
    parts: dict[tuple[str, str], list[Floats]] = {}
    for each, own in zip(boards(), errors, strict=True):
        parts.setdefault(each.row, []).append(own)
    return {row: float(np.abs(np.concatenate(own)).mean()) for row, own in parts.items()}


@check("gpu-uncalibrated")
def gpu_uncalibrated() -> Check:
    """Errors by board and unit."""
    errors = by_defaults()
    own, plain, other = (means(each) for each in (errors, by_roofline(), by_others()))
    told = [
        f"{chip}, {unit}: mean {own[chip, unit]:.1%} (claimed: {claimed:.1%}); a roofline with the stated peaks "
        f"{plain[chip, unit]:.1%}, by constants of the other boards {other[chip, unit]:.1%}"
        for (chip, unit), claimed in CLAIMED.items()
    ]
    kept = [own[row] <= claimed for row, claimed in CLAIMED.items()]
    what = "products of boards without constants of their own against measured times"
    return Check("gpu-uncalibrated", what, len(kept), sum(kept), np.concatenate(errors), told, "mean error as claimed")
