"""Errors of kernels on chips that nobody has calibrated, and in other labs than that which measured the chip.

The numbers are in ``hwspecs/intervals/kernels.yaml``, with where they come from. Where a framework asks for kernels one
by one, give a site.
"""

from __future__ import annotations

from functools import cache
from math import exp, hypot, log

from accelsim.spec.intervals import KernelIntervals

SHIPPED = "kernels"
"""File of ``hwspecs/intervals`` that the numbers come of."""


@cache
def of_kernels() -> KernelIntervals:
    """Return the numbers that come with the tool."""
    from accelsim.spec.yaml.chips import load_intervals

    found = load_intervals(SHIPPED).kernels
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
