"""What one could change about a systolic array to make a run shorter."""

from __future__ import annotations

from collections.abc import Iterator

from accelsim.engines.base import REMAPPED, Improvement
from accelsim.engines.systolic.dataflow import DATAFLOWS
from accelsim.program.roles import Unit
from accelsim.spec.chip import Chip
from accelsim.units import spell

HALF = 0.5
"""Weight of the time that something twice as fast takes less of."""


def improvements(chip: Chip, unit: Unit) -> Iterator[Improvement]:
    """Its sides, the rate of its weight shift, how folds follow each other, its dataflow."""
    spec, path = unit.spec, unit.name
    for side in ("rows", "cols"):
        size = getattr(spec, side)
        larger = (f"{path}.{side}={2 * size}", *_slots(chip))
        yield Improvement(f"twice the {side} of the array", larger, ("compute", "weight_shift"), HALF)
        if size > 1:
            idle = ("padding", "fill_drain", "weight_shift")
            yield Improvement(
                f"half the {side} of the array", (f"{path}.{side}={size // 2}",), idle, REMAPPED
            )
    rate = f"{path}.load_rows_per_clock={2 * spec.load_rows_per_clock}"
    yield Improvement("twice as many weight rows shifted per clock", (rate,), ("weight_shift",), HALF)
    if spec.schedule == "sequential":
        late, overlapped = ("weight_shift", "fill_drain"), (f"{path}.schedule=overlapped",)
        yield Improvement("folds that overlap", overlapped, late, 1.0, "array_timing")
    for name in DATAFLOWS:
        if name != spec.dataflow:
            idle = ("padding", "weight_shift", "fill_drain")
            yield Improvement(f"dataflow {name}", (f"{path}.dataflow={name}",), idle, REMAPPED, "dataflow")


def _slots(chip: Chip) -> Iterator[str]:
    """Slots for the larger stationary tile, where their size is stated."""
    for name, buffer in chip.buffers.items():
        if buffer.slot_capacity is not None and "weights" in buffer.holds:
            yield f"{chip.called(name)}.capacity={spell(2 * buffer.capacity, 'B')}"
            yield f"{chip.called(name)}.slot_capacity={spell(2 * buffer.slot_capacity, 'B')}"
