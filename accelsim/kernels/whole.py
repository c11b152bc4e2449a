"""Intervals of kernels, on chips that nobody has calibrated and in other labs than that which measured the chip, and
of whole things: networks, training steps, generations, joules.

Whole things have two stages. The first adds up the intervals of kernels (``together``). Kernels' errors within one
model go together more than kernels alone tell, and the network, the host and the mechanism have errors of their own: so
the second stage takes the two factors between which nine of ten whole things lie that were measured
(``hwspecs/intervals``), and what is printed is the wider of the two (``widened``).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import cache
from math import exp, hypot, log, sqrt
from typing import NamedTuple

from accelsim.engines.kernel_times import KernelModel, ServingKernel
from accelsim.fit.validation import POOLED
from accelsim.spec.chip import Chip
from accelsim.spec.constants import constants, is_calibrated
from accelsim.spec.intervals import Intervals, KernelIntervals
from accelsim.spec.site import FIELDS

SHIPPED, OF_KERNELS = "whole", "kernels"
"""Files of ``hwspecs/intervals`` with the factors of whole things and of kernels, and where they come from."""
PLANS = "plans"
"""First part of the keys of pairs of plans: how many times as long one takes as another."""
KERNELS = "kernels"
"""Basis of an interval that is as wide as that of its kernels alone."""


@cache
def of_kernels() -> KernelIntervals:
    """Return the numbers that come with the tool."""
    from accelsim.spec.yaml.chips import load_intervals

    found = load_intervals(OF_KERNELS).kernels
    assert found is not None
    return found


def uncalibrated(kind: str) -> float:
    """Return the factor of the interval of a kind of kernel on a chip that nobody has calibrated."""
    return float(of_kernels().uncalibrated[kind])


def lab_spread(kind: str) -> float:
    """Return the spread between labs that measured one chip, beside that of kernels in one lab."""
    labs = of_kernels().labs
    return float(labs.get(kind, labs["attention"]))


def in_other_labs(kind: str, factor: float) -> float:
    """Return the factor of an interval of a calibrated chip that holds in other labs too: both spreads are
    independent."""
    return exp(hypot(log(factor), log(lab_spread(kind))))


def correlation(own: bool) -> float:
    """Return how far errors of different kernels go together, of a calibrated chip (``own``) or another. Kernels of one
    shape err together."""
    return float(of_kernels().correlation_own if own else of_kernels().correlation_other)


def calibrated(chip: Chip, groups: Sequence[Sequence[str]]) -> bool:
    """Return whether the calibration of a chip gives the most telling constants of some kernels: those of the first two
    groups that are not of a site."""
    known = constants(chip)
    names = [name for group in groups[:2] for name in group if name.rsplit(".", 1)[-1] not in FIELDS]
    return all(is_calibrated(chip, known[name]) for name in names)


class Width(NamedTuple):
    """Factor of the interval of a kernel, and whether it comes of a calibration of its chip."""

    factor: float
    calibrated: bool


class KernelSeconds(NamedTuple):
    """Seconds that a kernel adds; kernels that are ``like`` each other err together. ``family``: its kind."""

    seconds: float
    width: Width
    like: Hashable
    family: str = ""


class Interval(NamedTuple):
    """Nine of ten take no less and no more, s; the share of the time whose kernels are calibrated.

    ``basis``: what it stands on, a key of ``Intervals.wholes`` or ``KERNELS``. ``family``: the kind of kernels that
    most of the width of its kernels comes of, '' for none; ``kernels``: factor of that width.
    """

    low_s: float
    high_s: float
    calibrated: float
    basis: str = KERNELS
    family: str = ""
    kernels: float = 1.0

    def rates(self, amount: float) -> tuple[float, float]:
        """Return the ends of ``amount`` per second: the interval of the time, turned over."""
        return amount / self.high_s, amount / self.low_s

    def scaled(self, share: float, seconds: float, alone_s: float) -> Interval:
        """Return the interval of a time of ``seconds``, ``share`` of which goes to these kernels, which take
        ``alone_s``; all else is exact."""
        low, high = (1 + share * (end / alone_s - 1) for end in (self.low_s, self.high_s))
        return Interval(
            seconds * low, seconds * high, self.calibrated * share, self.basis, self.family, sqrt(high / low)
        )


@cache
def shipped() -> Intervals:
    """Return the factors that come with the tool."""
    from accelsim.spec.yaml.chips import load_intervals

    return load_intervals(SHIPPED)


def widened(found: Interval | None, seconds: float, key: str) -> Interval | None:
    """Return the interval of a time of ``seconds`` as it is printed: that of its kernels, or that of the wholes of
    ``key`` where it is wider; None for None."""
    whole = ends(key, seconds)
    if found is None or whole is None or whole[1] * found.low_s <= whole[0] * found.high_s:
        return found
    return found._replace(low_s=whole[0], high_s=whole[1], basis=key)


def ends(key: str, figure: float) -> tuple[float, float] | None:
    """Return the ends of a figure of wholes of ``key``; None where none of these was measured."""
    known = shipped().wholes.get(key)
    return None if known is None else (figure / known.below, figure * known.above)


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
    return Width(uncalibrated(family), False)


def served_width(kernel: ServingKernel) -> Width:
    """Return the width for a kernel of a serving stack: by its own constants, in any lab and stack; linear layers vary
    from lab to lab as products do."""
    if not kernel.factor:
        return Width(uncalibrated(kernel.family), False)
    like = "product" if kernel.family == "layer" else "attention"
    return Width(in_other_labs(like, kernel.factor), True)


def together(parts: Iterable[KernelSeconds]) -> Interval:
    """Return the interval of all kernels one after the other.

    With errors e of the parts, standard deviations in the ratio of their widths h and a correlation r between parts
    that are not alike, the log of the sum has a width of sqrt(r (sum w h)^2 + (1 - r) sum (w h)^2), w the share of the
    time. r is that of calibrated chips where most of the time is calibrated.
    """
    groups: dict[Hashable, float] = {}
    families: dict[str, float] = {}
    total = own = 0.0
    for part in parts:
        weighted = part.seconds * log(part.width.factor)
        groups[part.like] = groups.get(part.like, 0.0) + weighted
        families[part.family] = families.get(part.family, 0.0) + weighted
        total += part.seconds
        own += part.seconds * part.width.calibrated
    if not total:
        return Interval(0.0, 0.0, 0.0)
    shares = [weighted / total for weighted in groups.values()]
    r = correlation(own > total / 2)
    half = sqrt(r * sum(shares) ** 2 + (1 - r) * sum(share**2 for share in shares))
    widest = max(families, key=lambda name: families[name])
    return Interval(total * exp(-half), total * exp(half), own / total, family=widest, kernels=exp(half))


def added(found: Sequence[Interval]) -> Interval:
    """Return the interval of times one after the other that err together."""
    low, high = sum(each.low_s for each in found), sum(each.high_s for each in found)
    most = max(found, key=lambda each: each.high_s - each.low_s)
    share = sum(each.calibrated * each.high_s for each in found) / high if high else 0.0
    return Interval(low, high, share, family=most.family, kernels=sqrt(high / low) if low else 1.0)
