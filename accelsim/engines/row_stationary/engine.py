"""The row-stationary array as an engine type, and words for its uses of time and energy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from accelsim.engines.base import Category, Improvement, Lowering, Mapped, MappingKind, Offer, Price, Reason
from accelsim.engines.clocked import Clocked
from accelsim.engines.device import Device, History
from accelsim.engines.prices import mac_prices
from accelsim.program.actions import WAYS
from accelsim.program.commands import Command
from accelsim.program.roles import Unit
from accelsim.program.work import Cycles
from accelsim.spec.chip import Chip
from accelsim.time import Clock

LOAD, STEPS = "pass_load", "pass_steps"
LOADING = "loading filters and first windows into the PEs"


class RowStationary(Clocked):
    """An array of PEs that keep rows of filters and of sums; its commands are processing passes."""

    type = "row_stationary"
    title = "the PE array"
    rank = 0
    reasons = (
        Reason(STEPS, "compute", "computing in the PE array", "steps of passes", "#2a6f97", computing=True),
        Reason(LOAD, "loading PEs", LOADING, "loading PEs", "#89c2d9", "////", True),
    )
    categories = (
        Category("MAC", "#0072b2"),
        Category("PE registers", "#56b4e9", "////"),
        Category("PE network", "#003f63", "----"),
    )
    pieces = (
        (STEPS, "the PEs multiply, or wait for the networks of the array"),
        (LOAD, "filters and first windows of a processing pass go into the PEs"),
    )
    searches = True
    hue = "blue"

    @property
    def mapping(self) -> MappingKind:
        """Return how a convolution is cut into processing passes."""
        from accelsim.engines.row_stationary.shape import Mapping

        return Mapping

    def accepts(self, offer: Offer) -> str | None:
        """Accept convolutions whose rows fit the PEs, and products as convolutions of single pixels."""
        from accelsim.engines.row_stationary.viewing import refusal

        return refusal(offer)

    def lower(self, lowering: Lowering) -> Mapped:
        """Write a product pass by pass, by the pinned mapping or the best of those that are tried."""
        from accelsim.engines.row_stationary.lower import lower_product

        return lower_product(lowering)

    def prices(self, chip: Chip, unit: Unit) -> dict[str, Price]:
        """Return the prices of multiplications by format, of bytes of each kind of PE register, and of the networks.

        The energy table has one figure for registers and one for the network; a word on a bus costs what a hop costs,
        however many PEs take it.
        """
        from accelsim.engines.row_stationary.costing import NETWORKS, REGISTERS, register

        table = chip.energy
        found = mac_prices(table)
        for kind, what in REGISTERS.items():
            price = Price(float(table.register), "PE registers", what, table.status_of("register"))
            found |= {register(kind, way): price for way in WAYS}
        for action, what in NETWORKS.items():
            found[action] = Price(float(table.network or 0.0), "PE network", what, table.status_of("network"))
        return found

    def improvements(self, chip: Chip, unit: Unit) -> Iterator[Improvement]:
        """Propose wider buses of filters and psums."""
        for operand, key in (("filter", LOAD), ("psum", STEPS)):
            twice = f"{unit.name}.{operand}_bus={2 * getattr(unit.spec, f'{operand}_bus')}"
            yield Improvement(f"a bus of {operand}s that is twice as wide", (twice,), (key,), 0.5)

    def stages(self, command: Command) -> tuple[tuple[str, int], ...]:
        """Return the load of a pass, then its steps."""
        work = cast(Cycles, command.work)
        return ((LOAD, work.w), (STEPS, work.clocks - work.w))

    def carry_out(
        self, device: Device, command: Command, clock: Clock, first: int, last: int, history: History
    ) -> None:
        """Free filters and ifmaps before the last psum is written."""
        work = cast(Cycles, command.work)
        w, a = clock.at(first + work.w - 1), clock.at(first + work.a - 1)
        device.publish(command.id, "w", w)
        device.check_reads(command, "w", clock.at(first), w)
        device.publish(command.id, "a", a)
        device.check_reads(command, "a", clock.at(first), a)
        begin = clock.at(first - 1)
        device.complete(command, (begin, begin, clock.at(last)), history._replace(w=w, a=a))


ENGINE = RowStationary()
