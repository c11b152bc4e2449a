"""A unit that runs one command at a time, each for a number of its clocks."""

from __future__ import annotations

from collections.abc import Iterator

from accelsim.engines.base import REMAPPED, Category, Improvement, Lowering, Offer, Price, Reason
from accelsim.engines.clocked import Clocked, clocks_of, not_a_function
from accelsim.engines.prices import op_prices
from accelsim.program.commands import Command
from accelsim.program.roles import Unit
from accelsim.spec.chip import Chip


class Simd(Clocked):
    """The vector unit: for everything that is not a matrix product."""

    type = "simd"
    asks_spaces = True
    title = "the vector unit"
    rank = 2
    reasons = (Reason("vector", "{resource} unit", "the {resource} unit", "vector unit", "#cc79a7", "....", True),)
    categories = (Category("vector unit", "#cc79a7", "...."),)
    pieces = (("vector", "the vector unit works"),)
    hue = "purple"

    def accepts(self, offer: Offer) -> str | None:
        """Accept functions that its spec lists, on numbers that it knows."""
        return not_a_function(offer, self.title)

    def lower(self, lowering: Lowering) -> None:
        """Write one command, or as many as the buffer asks for."""
        from accelsim.engines.simd.lower import VectorStep

        VectorStep(lowering).lower()

    def prices(self, chip: Chip, unit: Unit) -> dict[str, Price]:
        """Return the prices of operations by format, of the energy table of the chip."""
        return op_prices(chip.energy, "vector unit", "the vector unit")

    def called(self, unit: Unit) -> str:
        """Return its name, because a chip may have several."""
        return f"the {unit.name} unit"

    def improvements(self, chip: Chip, unit: Unit) -> Iterator[Improvement]:
        """Propose more lanes, and fused functions that follow each other within a clock."""
        keys = ("vector",)
        yield Improvement(
            f"twice the lanes of {self.called(unit)}", (f"{unit.name}.lanes={2 * unit.spec.lanes}",), keys, 0.5
        )
        if not unit.spec.chained:
            chained = f"fused functions of {self.called(unit)} in one pass"
            yield Improvement(chained, (f"{unit.name}.chained=true",), keys, REMAPPED)

    def stages(self, command: Command) -> tuple[tuple[str, int], ...]:
        """Return one stage: all of it is work of the unit."""
        return (("vector", clocks_of(command)),)


ENGINE = Simd()
