"""The spec of a vector unit, and what its fields must agree on."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Annotated, Literal

from accelsim.spec.counts import Clocks, Lanes, Pace
from accelsim.spec.declaring import Field
from accelsim.spec.engine import Built, EngineSpec
from accelsim.spec.laws.finding import functions_are_known
from accelsim.spec.names import FUNCTIONS

if TYPE_CHECKING:
    from accelsim.spec.chip import Chip


class VectorUnit(EngineSpec):
    """The unit for activations, pooling, normalisation and other operators without products."""

    type: Literal["simd"] = Field(description="type of the engine")
    lanes: Lanes = Field(description="elements per clock")
    latency: Clocks = Field(0, description="clocks from the first operand to the first result")
    chained: bool = Field(False, description="fused functions follow each other within a clock")
    requantisation: Literal["fp32", "fixed_point"] = Field(
        "fp32", description="how sums become codes: times an FP32 number, or integer multiplication and rounding shift"
    )
    functions: Annotated[dict[str, Pace], FUNCTIONS] = Field(
        description="op or [family](#families) -> clocks per element and lane; `none`: not this op. An op "
        "wins over its family; other ops go to the host"
    )

    def built(self) -> Built:
        """Return its lanes."""
        return Built(lanes=self.lanes)

    def command_clocks(
        self, chip: Chip, functions: list[tuple[str, int]], read_B: int, write_B: int, source: str, target: str
    ) -> int:
        """Return the clocks of a command: of functions on so many elements each, or of the buffers on both sides, whose
        bytes move in that time.

        Chained functions follow each other within a clock, so the slowest sets the pace; others take their turns.
        """
        passes = [-(-elements // self.lanes) * self.functions.get(name, 1) for name, elements in functions] or [1]
        compute = max(passes) if self.chained else sum(passes)
        ratio = Fraction(self.clock or chip.clock) / Fraction(chip.clock)
        moved: list[int] = [
            ceil(-(-size // getattr(chip.buffers[buffer], width)) * ratio)
            for size, buffer, width in ((read_B, source, "read_width"), (write_B, target, "write_width"))
            if buffer in chip.buffers
        ]
        return self.latency + max(1, compute, *moved)


SPEC = VectorUnit
LAWS = (functions_are_known,)
"""Every law of a vector unit; a new one is a function and a line here."""
