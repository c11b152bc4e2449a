"""The interval of a whole network from those of its kernels."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from math import exp, log, sqrt
from typing import NamedTuple

from accelsim.engines.kernel_times import KernelModel, ServingKernel
from accelsim.fit.validation import POOLED
from accelsim.kernels.told import calibrated
from accelsim.kernels.uncalibrated import CORRELATION_OTHER, CORRELATION_OWN, UNCALIBRATED, in_other_labs
from accelsim.spec.chip import Chip


class Width(NamedTuple):
    """Factor of the interval of a kernel, and whether it comes of a calibration of its chip."""

    factor: float
    calibrated: bool


class Part(NamedTuple):
    """Seconds that a kernel adds; kernels that are ``like`` each other err together."""

    seconds: float
    width: Width
    like: Hashable


class Interval(NamedTuple):
    """Nine of ten networks take no less and no more, s; the share of the time whose kernels are calibrated."""

    low_s: float
    high_s: float
    calibrated: float


def width(chip: Chip, model: KernelModel, family: str, name: str) -> Width:
    """Return the width for kernels of a family in a number format on a chip."""
    block = chip.calibration
    own = (
        block is not None
        and family in block.kinds
        and POOLED in block.intervals
        and calibrated(chip, model.constants(family, name))
    )
    if own:
        assert block is not None
        factor = block.intervals.get(family, block.intervals[POOLED]).factor
        return Width(in_other_labs(family, factor) if block.elsewhere else factor, True)
    return Width(UNCALIBRATED[family], False)


def served_width(kernel: ServingKernel) -> Width:
    """Return the width for a kernel of a serving stack: by its own constants, in any lab and stack; linear layers vary
    from lab to lab as products do."""
    if not kernel.factor:
        return Width(UNCALIBRATED[kernel.family], False)
    like = "product" if kernel.family == "layer" else "attention"
    return Width(in_other_labs(like, kernel.factor), True)


def together(parts: Iterable[Part]) -> Interval:
    """Return the interval of all kernels one after the other.

    With errors e of the parts, standard deviations in the ratio of their widths h and a correlation r between parts
    that are not alike, the log of the sum has a width of sqrt(r (sum w h)^2 + (1 - r) sum (w h)^2), w the share of the
    time. r is that of calibrated chips where most of the time is calibrated.
    """
    groups: dict[Hashable, float] = {}
    total = own = 0.0
    for part in parts:
        groups[part.like] = groups.get(part.like, 0.0) + part.seconds * log(part.width.factor)
        total += part.seconds
        own += part.seconds * part.width.calibrated
    if not total:
        return Interval(0.0, 0.0, 0.0)
    shares = [weighted / total for weighted in groups.values()]
    r = CORRELATION_OWN if own > total / 2 else CORRELATION_OTHER
    half = sqrt(r * sum(shares) ** 2 + (1 - r) * sum(share**2 for share in shares))
    return Interval(total * exp(-half), total * exp(half), own / total)
