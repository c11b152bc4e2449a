"""The row-stationary array as an engine type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from accelsim.engines.base import Improvement, Lowering, Mapped, MappingKind, Offer, Price
from accelsim.engines.clocked import Clocked
from accelsim.engines.device import Device, History
from accelsim.engines.row_stationary import words
from accelsim.program.commands import Command
from accelsim.program.roles import Unit
from accelsim.program.work import Cycles
from accelsim.spec.chip import Chip
from accelsim.time import Clock

if TYPE_CHECKING:
    from accelsim.engines.row_stationary.spec import RowStationary as Spec


class RowStationary(Clocked):
    """An array of PEs that keep rows of filters and of sums; its commands are processing passes."""

    type = "row_stationary"
    title = "the PE array"
    rank = 0
    reasons, categories, pieces = words.REASONS, words.CATEGORIES, words.PIECES
    searches = True
    hue = "blue"

    @property
    def mapping(self) -> MappingKind:
        """Return how a convolution is cut into processing passes."""
        from accelsim.engines.row_stationary.shape import Mapping

        return Mapping

    def accepts(self, offer: Offer) -> str | None:
        """Convolutions whose rows fit the PEs, and products as convolutions of single pixels."""
        from accelsim.engines.row_stationary.viewing import refusal

        return refusal(offer)

    def lower(self, lowering: Lowering) -> Mapped:
        """Pass by pass, by the mapping that is pinned or the best of those that are tried."""
        from accelsim.engines.row_stationary.lower import lower_product

        return lower_product(lowering)

    def gates_zeros(self, spec: Spec) -> bool:
        """Return what the engine's spec states."""
        return spec.zero_gating

    def has_epilogue(self, spec: Spec) -> bool:
        """Element by element, between the global buffer and the memory outside. It pools nothing: sums are there only
        for a strip of rows."""
        return True

    def prices(self, chip: Chip, unit: Unit) -> dict[str, Price]:
        """Return prices from the chip's energy table."""
        return words.prices(chip)

    def improvements(self, chip: Chip, unit: Unit) -> Iterator[Improvement]:
        """Wider buses of filters and psums."""
        for operand, key in (("filter", words.LOAD), ("psum", words.STEPS)):
            twice = f"{unit.name}.{operand}_bus={2 * getattr(unit.spec, f'{operand}_bus')}"
            yield Improvement(f"a bus of {operand}s that is twice as wide", (twice,), (key,), 0.5)

    def stages(self, command: Command) -> tuple[tuple[str, int], ...]:
        """The load of a pass, then its steps."""
        work = cast(Cycles, command.work)
        return ((words.LOAD, work.w), (words.STEPS, work.clocks - work.w))

    def carry_out(
        self, device: Device, command: Command, clock: Clock, first: int, last: int, history: History
    ) -> None:
        """Filters and ifmaps are free before the last psum is written."""
        work = cast(Cycles, command.work)
        w, a = clock.at(first + work.w - 1), clock.at(first + work.a - 1)
        device.publish(command.id, "w", w)
        device.check_reads(command, "w", clock.at(first), w)
        device.publish(command.id, "a", a)
        device.check_reads(command, "a", clock.at(first), a)
        device.begin_now(command, clock.at(first))
        begin = clock.at(first - 1)
        device.complete(command, (begin, begin, clock.at(last)), history._replace(w=w, a=a))


ENGINE = RowStationary()
