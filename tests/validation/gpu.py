"""Checks ``gpu-gemm``, ``gpu-conv``, ``gpu-vector``: kernels of GPUs against measured times, device by device.

A set is the rows of one file on one device. Its constants are fitted to it; every row is compared with the prediction
of a fit that had not seen it (cross-validation in five parts). A row of a check is a set, and agrees where the mean
error is no more than is claimed, and nine of ten rows lie within their intervals, or nearly. Beside it stand a
roofline of three constants, fitted and compared in the same way, and the same kernels by constants of the other
devices alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from accelsim.fit.search import ROBUST, Knob, Values
from accelsim.fit.validation import left_out, residuals
from accelsim.kernels.calibrate import PARTS, Calibrated, calibrate
from accelsim.kernels.predict import Kernels
from accelsim.kernels.table import Table, read_table
from accelsim.kernels.uncalibrated import UNCALIBRATED
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.load import load_chip
from accelsim.types import Floats, Ints
from tests.validation.base import Check, check
from tests.validation.kernel_plot import Compared
from tests.validation.measured import ABSENT, folder
from tests.validation.shared_constants import Measured
from tests.validation.shared_constants import left_out as by_others

COVERED, NEAR, SPREADS = 0.9, 0.04, 2
"""Share of rows that intervals should hold; how far off is near, on sets of any size; and on small ones so many
standard deviations of the share of that many rows."""
LEAST = 0.85
"""Share of the rows of a device that the interval of a chip that nobody has calibrated should hold at least."""


class Rows(NamedTuple):
    """Rows of a file on a chip (of one ``precision``, where the file has several), the mean error that is claimed, and
    the group of devices whose constants stand in for this one's ('' for none)."""

    file: str
    chip: str
    precision: str
    claimed: float
    group: str = ""

    @property
    def name(self) -> str:
        """In tables."""
        return " ".join(part for part in (self.file.split("_")[0], self.chip, self.precision[:4]) if part)


VIDUR, NEUSIGHT, DEEPBENCH = "vidur_llm_gemm_fp16.csv", "neusight_gemm.csv", "deepbench_gemm.csv"
TENSOR = "fp16_in_fp32_acc_tensorcore"
GEMM = (
    Rows(VIDUR, "a100-80-sxm", "", 0.057, "tensor"), Rows(VIDUR, "h100-sxm", "", 0.076, "tensor"),
    Rows(NEUSIGHT, "a100-80-pcie", "", 0.035, "lanes"), Rows(NEUSIGHT, "a100-40-pcie", "", 0.067, "lanes"),
    Rows(NEUSIGHT, "h100-sxm", "", 0.061, "lanes"), Rows(NEUSIGHT, "v100-pcie", "", 0.084, "lanes"),
    Rows(NEUSIGHT, "t4", "", 0.139, "lanes"), Rows(NEUSIGHT, "p100-pcie", "", 0.16, "lanes"),
    Rows(DEEPBENCH, "v100-sxm2-16", TENSOR, 0.1, "tensor"), Rows(DEEPBENCH, "t4", TENSOR, 0.083, "tensor"),
    Rows(DEEPBENCH, "v100-sxm2-16", "fp32", 0.066), Rows(DEEPBENCH, "t4", "fp32", 0.101),
    Rows(DEEPBENCH, "mi25", "fp32", 0.15),
)  # fmt: skip
CONV = (
    Rows("neusight_conv.csv", "v100-pcie", "", 0.157), Rows("neusight_conv.csv", "t4", "", 0.16),
    Rows("neusight_conv.csv", "a100-80-pcie", "", 0.21), Rows("deepbench_conv.csv", "v100-sxm2-16", "fp32", 0.215),
    Rows("deepbench_conv.csv", "t4", "fp32", 0.215), Rows("deepbench_conv.csv", "v100-sxm2-16", TENSOR, 0.205),
    Rows("deepbench_conv.csv", "t4", TENSOR, 0.242),
)  # fmt: skip
KIND = {"tensor": "product", "lanes": "product", "vector": "function"}
"""Group -> kind of kernels, a key of ``UNCALIBRATED``."""
VECTOR = tuple(
    Rows("neusight_vector.csv", chip, "", claimed, "vector")
    for chip, claimed in (
        ("p4", 0.04),
        ("v100-pcie", 0.024),
        ("t4", 0.05),
        ("a100-40-pcie", 0.049),
        ("a100-80-pcie", 0.067),
    )
)
"""Sets, with the mean errors that are claimed of them: a little more than what they are."""


class Shared(NamedTuple):
    """A set by constants of other devices: the mean error, and the share of rows within the interval of chips that
    nobody has calibrated."""

    mean: float
    covered: float


class Outcome(NamedTuple):
    """A set: its calibration, the mean error of a fitted roofline, and how near other devices' constants come (None:
    not asked)."""

    rows: Rows
    found: Calibrated
    roofline: float
    shared: Shared | None


def _shared(seconds: Floats, measured: Floats, factor: float) -> Shared:
    inside = np.abs(np.log(seconds / measured)) <= np.log(factor)
    return Shared(residuals(seconds, measured).mean, float(inside.mean()))


@cache
def table(path: Path) -> Table:
    """A file, read once."""
    return read_table(path, timed=True)


def plain_chip(name: str) -> Chip:
    """A chip with the defaults that all share, whatever it was calibrated to."""
    return load_chip(name, ["calibration=null"])


def selected(data: Path, rows: Rows) -> Table:
    """The rows of a set."""
    whole, chip = table(data / rows.file), load_chip(rows.chip)
    called = {chip.name, *chip.also}
    return whole.only(
        [
            row
            for row, cells in enumerate(whole.cells)
            if whole.devices[row] in called and rows.precision in ("", cells.get("precision"))
        ]
    )


def roofline(kernels: Kernels) -> Floats:
    """Each row by a roofline of three constants (launch, shares of both peaks) that had not seen it, s."""
    bound, measured = kernels.predicted(kernels.chip).times.bound, kernels.table.measured
    knobs = [Knob(("launch",), 0.0, 200e-6, 10e-6), Knob(("share",), 0.05, 1.5, 0.6)]

    def model(values: Values, rows: Ints) -> Floats:
        return values["launch"] + bound[rows] / values["share"]

    return left_out(model, measured, knobs, PARTS, 0, ROBUST)


def outcomes(data: Path, sets: Sequence[Rows]) -> list[Outcome]:
    """Every set calibrated and compared."""
    tables = [selected(data, each) for each in sets]
    others = _by_others(tables, sets)
    found = []
    for each, rows, shared in zip(sets, tables, others, strict=True):
        chip = plain_chip(each.chip)
        made = calibrate(rows, chip, each.name, "2026-11")
        plain = residuals(roofline(Kernels(rows, chip)), rows.measured).mean
        found.append(Outcome(each, made, plain, shared))
    return found


def _by_others(tables: Sequence[Table], sets: Sequence[Rows]) -> list[Shared | None]:
    """Each set by constants that the other devices of its group share, None where it has no group."""
    found: list[Shared | None] = [None] * len(sets)
    for group in dict.fromkeys(each.group for each in sets if each.group):
        places = [index for index, each in enumerate(sets) if each.group == group]
        chips = [plain_chip(sets[index].chip) for index in places]
        devices = [
            Measured(chip, Kernels(tables[index], chip)) for index, chip in zip(places, chips, strict=True)
        ]
        kept = KEPT[group]
        for index, device, seconds in zip(places, devices, by_others(devices, kept), strict=True):
            found[index] = _shared(seconds, device.kernels.table.measured, UNCALIBRATED[KIND[group]])
    return found


KEPT = {"tensor": (0, 1, 2), "lanes": (0, 1, 2), "vector": (0, 1)}
"""Group -> places of the constants that its devices share, in ``Kernels.constants``: of products the shares of both
peaks and the time of launch or host, of functions the share of the memory's peak and the host. What else a fit turns
stays at its default: of several devices together it tells their differences, which are no shared constant's."""


def _check(name: str, what: str, sets: Sequence[Rows]) -> Check:
    data = folder()
    if data is None:
        return Check(name, what, 0, 0, np.zeros(0), [ABSENT])
    found = outcomes(data, sets)
    errors = [each.found.left_out / each.found.table.measured - 1 for each in found]
    agree = [
        float(np.abs(own).mean()) <= each.rows.claimed
        and covered(each.found)
        and (each.shared is None or each.shared.covered >= LEAST)
        for each, own in zip(found, errors, strict=True)
    ]
    return Check(
        name, what, len(found), sum(agree), np.concatenate(errors), [_said(each) for each in found],
        "mean error and coverage as claimed", compared=[_compared(each) for each in found],
    )  # fmt: skip


def _compared(each: Outcome) -> Compared:
    """The rows of a set by fits that had not seen them."""
    made = each.found
    return Compared(
        each.rows.name, made.table.measured, made.left_out, made.fitted.times.regime, made.coverage.factor
    )


def covered(found: Calibrated) -> bool:
    """Whether about nine of ten rows lie within their intervals."""
    spread = SPREADS * float(np.sqrt(COVERED * (1 - COVERED) / len(found.table.ops)))
    return abs(found.coverage.share - COVERED) <= max(NEAR, spread)


def _said(each: Outcome) -> str:
    """A set in a sentence."""
    left = residuals(each.found.left_out, each.found.table.measured)
    text = (
        f"{each.rows.name}: {left.rows:,} rows, mean {left.mean:.1%}, median {left.median:.1%}, 90th percentile "
        f"{left.p90:.1%} of rows left out (claimed: {each.rows.claimed:.1%}); a fitted roofline {each.roofline:.1%}; "
        f"{each.found.coverage.share:.1%} within intervals of / and x {each.found.coverage.factor:.2f}"
    )
    if each.shared is None:
        return text
    mean, inside = each.shared
    return (
        f"{text}; by constants of the other devices {mean:.1%}, {inside:.1%} within the interval of a chip that nobody "
        "has calibrated"
    )


def _register(name: str, what: str, sets: Sequence[Rows]) -> Callable[[], Check]:
    return check(name)(lambda: _check(name, what, sets))


_register("gpu-gemm", "matrix products on GPUs against measured times, by cross-validation", GEMM)
_register("gpu-conv", "convolutions on GPUs against measured times, by cross-validation", CONV)
_register("gpu-vector", "functions on GPUs against measured times, by cross-validation", VECTOR)
