"""Clocks that a vector unit takes for a command: those of its functions, or of the buffers on both sides."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from accelsim.engines.simd.spec import VectorUnit
from accelsim.spec.chip import Chip


def vector_clocks(
    chip: Chip, unit: VectorUnit, functions: list[tuple[str, int]], read_B: int, write_B: int, source: str, target: str
) -> int:
    """Clocks of the vector unit for functions on so many elements each, or what the two buffers can move in that time.

    Chained functions follow each other within a clock, so the slowest sets the pace; others take their turns.
    """
    passes = [-(-elements // unit.lanes) * unit.functions.get(name, 1) for name, elements in functions] or [1]
    compute = max(passes) if unit.chained else sum(passes)
    ratio = Fraction(unit.clock or chip.clock) / Fraction(chip.clock)
    moved: list[int] = [
        ceil(-(-size // getattr(chip.buffers[buffer], width)) * ratio)
        for size, buffer, width in ((read_B, source, "read_width"), (write_B, target, "write_width"))
        if buffer in chip.buffers
    ]
    return unit.latency + max(1, compute, *moved)
