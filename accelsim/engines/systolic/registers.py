"""Register-level model of a systolic array: operands move through every PE register, one edge at a time.

It knows no closed form: control starts each fold as early as the state of the hardware lets it, tokens do the
rest, and every access is counted at the register or port at which it happens. It runs a batch of GEMMs of any
sizes at once. What the closed forms of :mod:`accelsim.engines.systolic.timing` and ``counts`` say must equal it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from accelsim.engines.systolic.accumulating import AccumulatingArray
from accelsim.engines.systolic.counts import COUNTS, Counts
from accelsim.engines.systolic.dataflow import DATAFLOWS
from accelsim.engines.systolic.fabric import Batch, Fabric, Setup
from accelsim.engines.systolic.spec import SHADOW_LOADS
from accelsim.engines.systolic.stationary import StationaryArray
from accelsim.errors import UsageError, known
from accelsim.types import Array, Ints

HARDWARE_SCHEDULES = ("sequential", "overlapped")
"""Schedules that a machine follows ('scalesim' is a way to report)."""


@dataclass(frozen=True)
class Result:
    """``cycles`` [n]: edge of the last scheduled output; ``products``: Y[M,N] of each case; ``counts``."""

    cycles: Ints
    products: list[Array]
    counts: Counts[Ints]


def build(a: Sequence[Array], b: Sequence[Array], setup: Setup) -> Fabric:
    """Arrays about to run the products ``a[i]`` [M,K] x ``b[i]`` [K,N]; raises as :func:`simulate`."""
    known("schedule", setup.schedule, HARDWARE_SCHEDULES)
    known("shadow load", setup.shadow_load, SHADOW_LOADS)
    flow = DATAFLOWS[known("dataflow", setup.dataflow, DATAFLOWS)]
    if len(a) != len(b) or any(x.shape[1] != y.shape[0] for x, y in zip(a, b, strict=False)):
        raise UsageError("the operands of a product do not fit: A[M,K] x B[K,N] needs one K")
    machine = StationaryArray if flow.stationary else AccumulatingArray
    return machine(Batch(a, b, setup), setup)


def simulate(a: Sequence[Array], b: Sequence[Array], setup: Setup) -> Result:
    """Run the products ``a[i]`` [M,K] x ``b[i]`` [K,N] (integers or floats), each alone on its array.

    Raises UsageError for an unknown name or operands that do not fit; HazardError should the control ever
    make a PE lose a word that is still needed.
    """
    machine = build(a, b, setup)
    while machine.running():
        machine.step()
    seen = machine.counts()
    return Result(machine.finished, machine.batch.products(), Counts(*(seen[c] for c in COUNTS)))
