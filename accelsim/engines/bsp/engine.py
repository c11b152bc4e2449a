"""A machine of tiles as an engine type: one superstep after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from accelsim.engines.base import REMAPPED, Improvement, Lowering, Mapped, MappingKind, Offer, Price
from accelsim.engines.bsp import words
from accelsim.engines.bsp.spec import BspUnit
from accelsim.engines.clocked import Clocked, not_a_function
from accelsim.program.commands import Command
from accelsim.program.roles import Unit
from accelsim.program.work import Stages
from accelsim.spec.chip import Chip
from accelsim.spec.memory import Buffer
from accelsim.units import spell
from accelsim.workload.nodes import gemm_view

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
        """Return how a product is cut into parts, one for each tile."""
        from accelsim.engines.bsp.partition import Parts

        return Parts

    def accepts(self, offer: Offer) -> str | None:
        """Products in its formats, functions that its spec lists."""

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
        """Return what code leaves of the memories of all tiles."""
        return spec.tiles * spec.room_B(buffer)

    def prices(self, chip: Chip, unit: Unit) -> dict[str, Price]:
        """Return prices from the chip's energy table and from the engine's own spec."""
        return words.prices(chip, unit.spec)

    def improvements(self, chip: Chip, unit: Unit) -> Iterator[Improvement]:
        """See ``improve``."""

        return improvements(chip, unit)


ENGINE = Bsp()


def refusal(offer: Offer) -> str | None:
    """Return why the tiles cannot do a node, '' where they can."""
    tensors = offer.graph.tensors
    if offer.op.kind == "matrix":
        view = gemm_view(offer.graph, offer.node)
        if view is None:
            return "has no form as a matrix product"
        if tensors[view.a].is_constant:
            return "its left operand is a constant, and the tiles exchange activations"
        if not offer.multiplies:
            return f"the tiles do not multiply {tensors[view.a].dtype} by {tensors[view.b].dtype}"
        return ""
    return not_a_function(offer, "the tiles", "have")


def improvements(chip: Chip, unit: Unit) -> Iterator[Improvement]:
    """Weights that stay, a wider exchange, a shorter sync, less to do around each pass, more tiles."""
    spec: BspUnit = unit.spec
    if spec.weights == "loaded":
        resident = f"{unit.name}.weights=resident"
        yield Improvement("weights on the tiles before the run begins", (resident,), ("weights",), 1.0)
    widths = tuple(
        f"{unit.name}.{way}_width={spell(2 * getattr(spec, f'{way}_width'), 'B')}" for way in ("send", "receive")
    )
    yield Improvement("twice the width of the exchange", widths, ("exchange",), 0.5)
    yield Improvement("half the sync of the tiles", (f"{unit.name}.sync={spec.sync // 2}",), ("sync",), 0.5)
    overheads = tuple(f"{unit.name}.{name}={getattr(spec, name) // 2}" for name in ("pass_overhead", "thread_overhead"))
    yield Improvement("half the overhead of passes and threads", overheads, ("tiles",), REMAPPED)
    for name, buffer in chip.buffers.items():
        twice = (
            f"{unit.name}.tiles={2 * spec.tiles}",
            f"{chip.called(name)}.parts={2 * spec.tiles}",
            f"{chip.called(name)}.capacity={spell(2 * buffer.capacity, 'B')}",
        )
        yield Improvement("twice as many tiles", twice, ("tiles", "exchange"), REMAPPED)
