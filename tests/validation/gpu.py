"""Checks ``gpu-gemm``, ``gpu-conv``, ``gpu-vector``: kernels of GPUs against measured times, device by device.

A set is the rows of one file on one device that had no part in the constants of the chip that comes with the tool
(:mod:`tests.validation.shipped`). Each is predicted as ``accelsim kernel --csv FILE --on CHIP --site SITE`` does, with
these constants. A row of a check is a set, and agrees where the mean error is no more than is claimed, and as many rows
lie within their intervals as should, or nearly. Beside it stand the errors of a fit to this set alone on rows that it
had not seen (cross-validation in five parts, all rows), a roofline of three constants fitted in the same way, and the
same kernels by constants of the other devices alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from accelsim.fit.search import ROBUST, Knob, Misfit, Values
from accelsim.fit.validation import Residuals, left_out, residuals
from accelsim.kernels.calibrate import PARTS, calibrate
from accelsim.kernels.explain import ends
from accelsim.kernels.predict import Kernels
from accelsim.kernels.table import Table
from accelsim.kernels.whole import uncalibrated
from accelsim.spec.chip import Chip
from accelsim.spec.site import with_site
from accelsim.spec.yaml.chips import load_site
from accelsim.spec.yaml.load import load_chip
from accelsim.types import Array, Floats, Ints
from tests.validation.base import Check, check
from tests.validation.kernel_plot import Compared
from tests.validation.measured import ABSENT, folder
from tests.validation.shared_constants import Measured
from tests.validation.shared_constants import left_out as by_others
from tests.validation.shipped import BENCH, EAGER, VIDUR_GEMM, Source, plain_chip, selected, split

LEAST, MOST, SPREADS = 0.85, 0.95, 2
"""Shares of rows that intervals should hold at least and at most, on sets of any size; on small ones beyond them by so
many standard deviations of the share of that many rows."""
SITE = {"eager": "calibration-lab-eager"}
"""How the host of a source works -> the site at which its rows are predicted; else ``calibration-lab``."""


class Rows(NamedTuple):
    """Rows of a file on a chip, the mean error that is claimed, and the group of devices whose constants stand in for
    this one's ('' for none)."""

    source: Source
    chip: str
    claimed: float
    group: str = ""

    @property
    def name(self) -> str:
        """In tables."""
        return " ".join(part for part in (self.source.file.split("_")[0], self.chip, self.source.precision[:4]) if part)


PRODUCTS, FUNCTIONS, CONVOLUTIONS = EAGER
GEMM = (
    Rows(VIDUR_GEMM, "a100-80-sxm", 0.062, "tensor"), Rows(VIDUR_GEMM, "h100-sxm", 0.08, "tensor"),
    Rows(PRODUCTS, "a100-80-pcie", 0.033, "lanes"), Rows(PRODUCTS, "a100-40-pcie", 0.069, "lanes"),
    Rows(PRODUCTS, "h100-sxm", 0.066, "lanes"), Rows(PRODUCTS, "v100-pcie", 0.1, "lanes"),
    Rows(PRODUCTS, "t4", 0.172, "lanes"), Rows(PRODUCTS, "p100-pcie", 0.165, "lanes"),
    Rows(PRODUCTS, "p4", 0.285), Rows(PRODUCTS, "mi100", 0.195),
    Rows(BENCH[1], "v100-sxm2-16", 0.08, "tensor"), Rows(BENCH[1], "t4", 0.103, "tensor"),
    Rows(BENCH[0], "v100-sxm2-16", 0.097), Rows(BENCH[0], "t4", 0.138), Rows(BENCH[0], "mi25", 0.147),
)  # fmt: skip
CONV = (
    Rows(CONVOLUTIONS, "v100-pcie", 0.159, "convolution"), Rows(CONVOLUTIONS, "t4", 0.166, "convolution"),
    Rows(CONVOLUTIONS, "a100-80-pcie", 0.192, "convolution"), Rows(CONVOLUTIONS, "p100-pcie", 0.262, "convolution"),
    Rows(CONVOLUTIONS, "p4", 0.207, "convolution"), Rows(BENCH[2], "v100-sxm2-16", 0.225, "convolution"),
    Rows(BENCH[2], "t4", 0.17, "convolution"), Rows(BENCH[2], "mi25", 0.23, "convolution"),
    Rows(BENCH[3], "v100-sxm2-16", 0.213, "convolution"), Rows(BENCH[3], "t4", 0.263, "convolution"),
    Rows(BENCH[2], "gtx1080ti", 0.28, "convolution"),
)  # fmt: skip
"""The GTX 1080 Ti has no calibration: all of its rows are compared, by the defaults, in which it had no part."""
KIND = {"tensor": "product", "lanes": "product", "vector": "function", "convolution": "convolution"}
"""Group -> kind of kernels, as in ``hwspecs/intervals/kernels.yaml``."""
VECTOR = tuple(
    Rows(FUNCTIONS, chip, claimed, "vector")
    for chip, claimed in (
        ("p4", 0.046),
        ("v100-pcie", 0.03),
        ("t4", 0.05),
        ("a100-40-pcie", 0.049),
        ("a100-80-pcie", 0.07),
        ("p100-pcie", 0.1),
        ("mi100", 0.084),
    )
)
"""Sets, with the mean errors that are claimed of them: a little more than what they are."""


class Shared(NamedTuple):
    """A set by constants of other devices: the mean error, the middle of the errors, and the share of rows within the
    interval of chips that nobody has calibrated."""

    mean: float
    middle: float
    covered: float


class Shipped(NamedTuple):
    """Rows as ``accelsim kernel`` predicts them: measured and predicted times, s, regimes, whether each is within its
    interval, and the factor of that."""

    measured: Floats
    predicted: Floats
    regime: Array
    inside: Array
    factor: Floats

    @property
    def error(self) -> Floats:
        """Relative."""
        return self.predicted / self.measured - 1

    @property
    def residuals(self) -> Residuals:
        """Sizes of the errors."""
        return residuals(self.predicted, self.measured)


class Outcome(NamedTuple):
    """A set as it ships, the mean errors of fits to it alone and of a fitted roofline, of rows that these had not seen,
    and how near other devices' constants come, and those that all chips share (None: not asked)."""

    rows: Rows
    found: Shipped
    refit: float
    roofline: float
    shared: Shared | None
    defaults: Shared | None


def _shared(seconds: Floats, measured: Floats, factor: float) -> Shared:
    inside = np.abs(np.log(seconds / measured)) <= np.log(factor)
    middle = float(np.median(seconds / measured - 1))
    return Shared(residuals(seconds, measured).mean, middle, float(inside.mean()))


def shipped(rows: Table, chip: Chip) -> Shipped:
    """Rows on a chip, at its site if it has one, as ``accelsim kernel --csv`` predicts them."""
    kernels = Kernels(rows, chip)
    found = kernels.predicted(chip)
    interval, measured = ends(kernels, found), rows.measured
    inside = (interval.low <= measured) & (measured <= interval.high)
    return Shipped(measured, found.seconds, found.times.regime, inside, interval.high / found.seconds)


def in_its_lab(rows: Rows, plain: bool = False) -> Chip:
    """The chip that comes with the tool, where it was measured; ``plain``: with the defaults that all share."""
    site = load_site(SITE.get(rows.source.host, "calibration-lab"))
    return with_site(plain_chip(rows.chip) if plain else load_chip(rows.chip), site)


def roofline(kernels: Kernels) -> Floats:
    """Each row by a roofline of three constants (launch, shares of both peaks) that had not seen it, s."""
    bound, measured = kernels.predicted(kernels.chip).times.bound, kernels.table.measured
    knobs = [Knob(("launch",), 0.0, 200e-6, 10e-6), Knob(("share",), 0.05, 1.5, 0.6)]

    def model(values: Values, rows: Ints) -> Floats:
        return values["launch"] + bound[rows] / values["share"]

    return left_out(model, measured, knobs, PARTS, 0, ROBUST)


def outcomes(data: Path, sets: Sequence[Rows]) -> list[Outcome]:
    """Every set compared."""
    tables = [selected(data, load_chip(each.chip), each.source) for each in sets]
    others = _by_others(tables, sets)
    found = []
    for each, rows, shared in zip(sets, tables, others, strict=True):
        chip = plain_chip(each.chip)
        refit = residuals(calibrate(rows, chip, each.name, "2026-11").left_out, rows.measured).mean
        plain = residuals(roofline(Kernels(rows, chip)), rows.measured).mean
        unseen = split(rows)[1] if load_chip(each.chip).calibration is not None else rows
        found.append(Outcome(each, shipped(unseen, in_its_lab(each)), refit, plain, shared, _by_defaults(rows, each)))
    return found


def _by_defaults(rows: Table, each: Rows) -> Shared | None:
    """Convolutions by the defaults of the engine, which are made of all of these sets; None for what else there is."""
    if each.group != "convolution":
        return None
    chip = in_its_lab(each, plain=True)
    seconds = Kernels(rows, chip).predicted(chip).seconds
    return _shared(seconds, rows.measured, uncalibrated("convolution"))


def _by_others(tables: Sequence[Table], sets: Sequence[Rows]) -> list[Shared | None]:
    """Each set by constants that the other devices of its group share, None where it has no group."""
    found: list[Shared | None] = [None] * len(sets)
    for group in dict.fromkeys(each.group for each in sets if each.group):
        places = [index for index, each in enumerate(sets) if each.group == group]
        of_kernels = group == "convolution"
        chips = [
            in_its_lab(sets[index], plain=True) if of_kernels else plain_chip(sets[index].chip) for index in places
        ]
        devices = [Measured(chip, Kernels(tables[index], chip)) for index, chip in zip(places, chips, strict=True)]
        others = by_others(devices, KEPT[group], EVEN if of_kernels else ROBUST, dies=of_kernels)
        for index, device, seconds in zip(places, devices, others, strict=True):
            found[index] = _shared(seconds, device.kernels.table.measured, uncalibrated(KIND[group]))
    return found


EVEN = Misfit(np.log, 0.1)
"""Misfit of convolutions: twice and half the time count alike, so that the middle is not below what was measured."""
KEPT = {"tensor": (0, 1, 2), "lanes": (0, 1, 2), "vector": (0, 1), "convolution": (3, 4, 5)}
"""Group -> places of the constants that its devices share, in ``Kernels.constants``: of products the shares of both
peaks and the time of launch or host, of functions the share of the memory's peak and the host, of convolutions what
Winograd's algorithms take. What else a fit turns
stays at its default: of several devices together it tells their differences, which are no shared constant's."""


def _check(name: str, what: str, sets: Sequence[Rows]) -> Check:
    data = folder()
    if data is None:
        return Check(name, what, 0, 0, np.zeros(0), [ABSENT])
    found = outcomes(data, sets)
    agree = [
        each.found.residuals.mean <= each.rows.claimed
        and covered(each.found)
        and (each.shared is None or each.shared.covered >= LEAST)
        for each in found
    ]
    return Check(
        name, what, len(found), sum(agree), np.concatenate([each.found.error for each in found]),
        [_said(each) for each in found], CLAIMED, compared=[compared(each.rows.name, each.found) for each in found],
    )  # fmt: skip


CLAIMED = "mean error and coverage as claimed"
"""What a row must keep."""


def compared(name: str, found: Shipped) -> Compared:
    """A panel of the picture."""
    return Compared(name, found.measured, found.predicted, found.regime, float(np.median(found.factor)))


def covered(found: Shipped, most: float = MOST) -> bool:
    """Return whether about nine of ten rows lie within their intervals."""
    low, high = (SPREADS * float(np.sqrt(share * (1 - share) / len(found.measured))) for share in (LEAST, most))
    return LEAST - low <= float(found.inside.mean()) <= most + high


def told(name: str, found: Shipped, claimed: float) -> str:
    """A set as it ships in a sentence."""
    own = found.residuals
    return (
        f"{name}: {own.rows:,} rows without part in the fit, mean {own.mean:.1%} (claimed: {claimed:.1%}), median "
        f"{own.median:.1%}, 90th percentile {own.p90:.1%}; {found.inside.mean():.1%} within intervals of / and x "
        f"{np.median(found.factor):.2f}"
    )


def _said(each: Outcome) -> str:
    """A set with what stands beside it."""
    text = (
        f"{told(each.rows.name, each.found, each.rows.claimed)}; by cross-validated fits to this set alone "
        f"{each.refit:.1%}, a fitted roofline {each.roofline:.1%}"
    )
    if each.shared is None:
        return text
    text += (
        f"; by constants of the other devices {each.shared.mean:.1%}, {each.shared.covered:.1%} within the interval of "
        "a chip that nobody has calibrated"
    )
    if each.defaults is None:
        return text
    return (
        f"{text}, the middle {each.shared.middle:+.1%}; by the defaults {each.defaults.mean:.1%}, "
        f"{each.defaults.covered:.1%} within, the middle {each.defaults.middle:+.1%}"
    )


def _register(name: str, what: str, sets: Sequence[Rows]) -> Callable[[], Check]:
    return check(name)(lambda: _check(name, what, sets))


_register("gpu-gemm", "matrix products on GPUs against measured times, by the constants that ship", GEMM)
_register("gpu-conv", "convolutions on GPUs against measured times, by the constants that ship", CONV)
_register("gpu-vector", "functions on GPUs against measured times, by the constants that ship", VECTOR)
