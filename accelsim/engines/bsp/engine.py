"""A machine of tiles as an engine type: one superstep after the other, with words for its uses of time and energy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from accelsim.engines.base import REMAPPED, Category, Improvement, Lowering, Mapped, MappingKind, Offer, Price, Reason
from accelsim.engines.bsp.spec import BspUnit
from accelsim.engines.clocked import Clocked, not_a_function, not_a_product
from accelsim.engines.prices import mac_prices, op_prices
from accelsim.program.actions import PADDING
from accelsim.program.commands import Command
from accelsim.program.roles import Unit
from accelsim.program.work import Stages
from accelsim.spec.chip import Chip
from accelsim.spec.status import UNSTATED
from accelsim.units import spell


class Bsp(Clocked):
    """Tiles that compute on memories of their own, meet, and exchange: products and functions alike."""

    type = "bsp"
    title = "the tiles"
    rank = 0
    reasons = (
        Reason("tiles", "tiles", "computing in the slowest tile", "tiles", "#225ea8", computing=True),
        Reason("exchange", "exchange", "the exchange between tiles", "exchange between tiles", "#41b6c4", "////", True),
        Reason("sync", "sync", "tiles waiting for each other", "sync of tiles", "#253494", "....", True),
    )
    categories = (Category("MAC", "#0072b2"), Category("exchange", "#41b6c4", "////"))
    pieces = (
        ("tiles", "the slowest tile computes"),
        ("exchange", "tiles send and receive"),
        ("sync", "tiles wait for each other"),
    )
    hue = "green"

    @property
    def mapping(self) -> MappingKind:
        """Return how a product is cut into parts, one for each tile."""
        from accelsim.engines.bsp.supersteps import Parts

        return Parts

    def accepts(self, offer: Offer) -> str | None:
        """Accept products in its formats, and functions that its spec lists."""
        if offer.op.kind == "matrix":
            return not_a_product(offer, "the tiles do", "and the tiles exchange activations")
        return not_a_function(offer, "the tiles", "have")

    def lower(self, lowering: Lowering) -> Mapped | None:
        """Write one command for each superstep."""
        from accelsim.engines.bsp.lower import StepWriter

        return StepWriter(lowering).lower()

    def stages(self, command: Command) -> tuple[tuple[str, int], ...]:
        """Return sync, exchange, computation."""
        return cast(Stages, command.work).stages

    def prices(self, chip: Chip, unit: Unit) -> dict[str, Price]:
        """Return the prices of multiplications and operations by format, and of bytes of the exchange. Zeros that fill
        a block up cost nothing."""
        from accelsim.engines.bsp.lower import SEND

        table, spec = chip.energy, unit.spec
        found = mac_prices(table) | op_prices(table, "vector unit", "functions")
        found[PADDING] = Price(0.0, "MAC", "zeros that fill blocks", UNSTATED)
        status = spec.energy_status or UNSTATED
        return found | {SEND: Price(float(spec.exchange_energy), "exchange", "the exchange", status)}

    def improvements(self, chip: Chip, unit: Unit) -> Iterator[Improvement]:
        """Propose weights that stay, a wider exchange, a shorter sync, less to do around each pass, more tiles."""
        spec: BspUnit = unit.spec
        if spec.weights == "loaded":
            resident = f"{unit.name}.weights=resident"
            yield Improvement("weights on the tiles before the run begins", (resident,), ("weights",), 1.0)
        widths = tuple(
            f"{unit.name}.{way}_width={spell(2 * getattr(spec, f'{way}_width'), 'B')}" for way in ("send", "receive")
        )
        yield Improvement("twice the width of the exchange", widths, ("exchange",), 0.5)
        yield Improvement("half the sync of the tiles", (f"{unit.name}.sync={spec.sync // 2}",), ("sync",), 0.5)
        overheads = tuple(
            f"{unit.name}.{name}={getattr(spec, name) // 2}" for name in ("pass_overhead", "thread_overhead")
        )
        yield Improvement("half the overhead of passes and threads", overheads, ("tiles",), REMAPPED)
        for name, buffer in chip.buffers.items():
            twice = (
                f"{unit.name}.tiles={2 * spec.tiles}",
                f"{chip.called(name)}.parts={2 * spec.tiles}",
                f"{chip.called(name)}.capacity={spell(2 * buffer.capacity, 'B')}",
            )
            yield Improvement("twice as many tiles", twice, ("tiles", "exchange"), REMAPPED)


ENGINE = Bsp()
