"""The row-stationary array as an engine type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from accelsim.engines.base import EngineType, Improvement, Lowering, Mapped, Offer, Price
from accelsim.engines.device import Device, Point, Walk
from accelsim.engines.row_stationary import process, words
from accelsim.engines.row_stationary.accepting import refusal
from accelsim.engines.row_stationary.lower import lower_product
from accelsim.engines.row_stationary.process import PassRecord
from accelsim.engines.row_stationary.spec import RowStationary as Spec
from accelsim.program.commands import Command, Phase
from accelsim.program.roles import Unit, spec_of
from accelsim.spec.models import Chip
from accelsim.time import Clock, clock_of


class RowStationary(EngineType):
    """An array of PEs that keep rows of filters and of sums; its commands are processing passes."""

    type = "row_stationary"
    title = "the PE array"
    rank = 0
    reasons, categories, pieces = words.REASONS, words.CATEGORIES, words.PIECES
    hue = "blue"

    def accepts(self, offer: Offer) -> str | None:
        """Convolutions whose rows fit the PEs, and products as convolutions of single pixels."""
        return refusal(offer)

    def lower(self, lowering: Lowering) -> Mapped:
        """Pass by pass, by the mapping that is pinned or the best of those that are tried."""
        return lower_product(lowering)

    def macs_per_clock(self, spec: Spec, mac_format: str) -> Fraction:
        """One of each PE. Raises KeyError for a format that it lacks."""
        if mac_format not in spec.formats:
            raise KeyError(mac_format)
        return Fraction(spec.rows * spec.cols)

    def gates_zeros(self, spec: Spec) -> bool:
        """As its spec says."""
        return spec.zero_gating

    def has_epilogue(self, spec: Spec) -> bool:
        """Element by element, between the global buffer and the memory outside. It pools nothing: sums are there only
        for a strip of rows."""
        return True

    def prices(self, chip: Chip, unit: Unit) -> dict[str, Price]:
        """Of the energy table of the chip."""
        return words.prices(chip)

    def improvements(self, chip: Chip, unit: Unit) -> Iterator[Improvement]:
        """Wider buses of filters and psums."""
        for operand, key in (("filter", words.LOAD), ("psum", words.STEPS)):
            twice = f"{unit.name}.{operand}_bus={2 * getattr(unit.spec, f'{operand}_bus')}"
            yield Improvement(f"a bus of {operand}s that is twice as wide", (twice,), (key,), 0.5)

    def clock(self, chip: Chip, engine: str) -> Clock:
        """Clock of the array, else of the chip."""
        return clock_of(spec_of(chip, engine).clock or chip.clock)

    def start(self, device: Device, engine: str, queue: Sequence[Command]) -> None:
        """One process."""
        device.env.process(process.run(device, engine, self.clock(device.chip, engine), queue))

    def back(self, walk: Walk, command: Command, event: str) -> Point | None:
        """To the command before, or to the operand or room that came last."""
        return process.back(walk, self.clock(walk.chip, command.engine), command)

    def passed(self, chip: Chip, engine: str, record: PassRecord, phase: Phase) -> int:
        """When an operand has been read for the last time, fs."""
        return self.clock(chip, engine).at(record.w if phase == "w" else record.a)

    def worked_until(self, chip: Chip, engine: str, record: PassRecord, data_fs: int) -> int:
        """With its last sum."""
        return self.clock(chip, engine).at(record.last)

    def read_until(self, chip: Chip, engine: str, record: Any, role: str, end_fs: int) -> int:
        """The last edge at which the operand is read."""
        return self.passed(chip, engine, record, role) if role in ("a", "w") else end_fs  # type: ignore[arg-type]


ENGINE = RowStationary()
