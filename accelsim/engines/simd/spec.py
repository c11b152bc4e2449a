"""The spec of a vector unit, and what its fields must agree on."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Annotated, Literal

from accelsim.spec.base import Model
from accelsim.spec.counts import Clocks, FractionalPace, Lanes, Pace, PositiveInt
from accelsim.spec.declaring import Field
from accelsim.spec.engine import Built, EngineSpec
from accelsim.spec.laws.finding import Finding, functions_are_known
from accelsim.spec.names import FUNCTIONS, format_bits, nearest_format
from accelsim.spec.yaml.tree import PathTo

if TYPE_CHECKING:
    from accelsim.spec.chip import Chip


class OperandPaces(Model):
    """Paces of functions for certain operands from the buffer of the activations."""

    tensors: PositiveInt | None = Field(None, description="operands that are no constants; absent: any number")
    formats: list[str] = Field([], description="number formats that operands and results have; absent: any")
    functions: Annotated[dict[str, FractionalPace], FUNCTIONS] = Field(
        min_length=1, description="op or [family](#families) -> clocks per element and lane"
    )

    def holds(self, op: str, formats: Collection[str], tensors: int) -> bool:
        """Return whether the row has a pace for an operator on so many tensors of these formats."""
        fits = not self.formats or all(name in self.formats for name in formats)
        return op in self.functions and fits and self.tensors in (None, tensors)


class VectorUnit(EngineSpec):
    """The unit for activations, pooling, normalisation and other operators without products."""

    type: Literal["simd"] = Field(description="type of the engine")
    lanes: Lanes = Field(description="elements per clock")
    latency: Clocks = Field(0, description="clocks from the first operand to the first result")
    min_interval: Clocks = Field(0, description="least clocks of a command, without `latency`")
    whole: bool = Field(False, description="a pace is that of a whole function, however many operations it has")
    chained: bool = Field(False, description="fused functions follow each other within a clock")
    requantisation: Literal["fp32", "fixed_point"] = Field(
        "fp32", description="how sums become codes: times an FP32 number, or integer multiplication and rounding shift"
    )
    functions: Annotated[dict[str, Pace], FUNCTIONS] = Field(
        description="op or [family](#families) -> clocks per element and lane; `none`: not this op. An op "
        "wins over its family; other ops go to the host"
    )
    operands: list[OperandPaces] = Field(
        [], description="other paces for certain operands; the first row that fits wins over `functions`"
    )

    def built(self) -> Built:
        """Return its lanes."""
        return Built(lanes=self.lanes)

    def pace(self, op: str, formats: Collection[str], tensors: int) -> int | Fraction:
        """Return the clocks per element and lane of an operator whose operands lie in the buffer of the activations.

        ``formats``: those of its operands and results; ``tensors``: operands that are no constants.
        """
        row = next((row for row in self.operands if row.holds(op, formats, tensors)), self)
        return row.functions.get(op, 1)

    def command_clocks(
        self, chip: Chip, functions: list[tuple[str, int]], read_B: int, write_B: int, source: str, target: str,
        paces: Sequence[int | Fraction] | None = None,
    ) -> int:  # fmt: skip
        """Return the clocks of a command: of functions on so many elements each, or of the buffers on both sides, whose
        bytes move in that time. ``paces``: of each function, where its operands decide (``pace``).

        Chained functions follow each other within a clock, so the slowest sets the pace; others take their turns.
        """
        paces = paces or [self.functions.get(name, 1) for name, _ in functions]
        passes = [-(-size // self.lanes) * pace for (_, size), pace in zip(functions, paces, strict=True)] or [1]
        compute = ceil(max(passes) if self.chained else sum(passes))
        ratio = Fraction(self.clock or chip.clock) / Fraction(chip.clock)
        moved: list[int] = [
            ceil(-(-size // getattr(chip.buffers[buffer], width)) * ratio)
            for size, buffer, width in ((read_B, source, "read_width"), (write_B, target, "write_width"))
            if buffer in chip.buffers
        ]
        return self.latency + max(1, self.min_interval, compute, *moved)


def operands_are_known(unit: VectorUnit, chip: Chip, path: PathTo) -> Iterator[Finding]:
    """Rows of ``operands`` name operators and number formats."""
    for index, row in enumerate(unit.operands):
        yield from functions_are_known(row, chip, (*path, "operands", index))
        for name in row.formats:
            if format_bits(name) is None:
                what, near = f"{name} is no number format", nearest_format(name)
                yield Finding((*path, "operands", index, "formats"), what, "bf16, fp16, ...", near)


SPEC = VectorUnit
LAWS = (functions_are_known, operands_are_known)
"""Every law of a vector unit; a new one is a function and a line here."""
