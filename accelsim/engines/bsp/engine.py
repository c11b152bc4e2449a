"""A machine of tiles as an engine type: one superstep after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from accelsim.engines.base import Improvement, Lowering, Mapped, MappingKind, Offer, Price
from accelsim.engines.bsp import words
from accelsim.engines.clocked import Clocked
from accelsim.program.commands import Command, Stages
from accelsim.program.roles import Unit
from accelsim.spec.buffer import Buffer
from accelsim.spec.chip import Chip

if TYPE_CHECKING:
    from accelsim.engines.bsp.spec import BspUnit


class Bsp(Clocked):
    """Tiles that compute on memories of their own, meet, and exchange: products and functions alike."""

    type = "bsp"
    title = "the tiles"
    plural = True
    rank = 0
    reasons, categories, pieces = words.REASONS, words.CATEGORIES, words.PIECES
    keeps = True
    hue = "green"

    @property
    def mapping(self) -> MappingKind:
        """How a product is cut into parts, one for each tile."""
        from accelsim.engines.bsp.partition import Parts

        return Parts

    def accepts(self, offer: Offer) -> str | None:
        """Products in its formats, functions that its spec lists."""
        from accelsim.engines.bsp.accepting import refusal

        return refusal(offer)

    def lower(self, lowering: Lowering) -> Mapped | None:
        """One command for each superstep."""
        from accelsim.engines.bsp.lower import StepWriter

        return StepWriter(lowering).lower()

    def stages(self, command: Command) -> tuple[tuple[str, int], ...]:
        """Sync, exchange, computation."""
        return cast(Stages, command.work).stages

    def has_epilogue(self, spec: BspUnit) -> bool:
        """Functions of each element of a product: the tile that has it computes them."""
        return True

    def keeps_B(self, spec: BspUnit, buffer: Buffer) -> int:
        """What code leaves of the memories of all tiles."""
        return spec.tiles * spec.room_B(buffer)

    def prices(self, chip: Chip, unit: Unit) -> dict[str, Price]:
        """Of the energy table of the chip, and of its own spec."""
        return words.prices(chip, unit.spec)

    def improvements(self, chip: Chip, unit: Unit) -> Iterator[Improvement]:
        """See ``improve``."""
        from accelsim.engines.bsp.improve import improvements

        return improvements(chip, unit)


ENGINE = Bsp()
