"""The systolic array as an engine type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from accelsim.engines.base import (
    Device,
    EngineLog,
    EngineType,
    Lowering,
    Mapped,
    Offer,
    Point,
    Times,
    Walk,
)
from accelsim.engines.systolic.accepting import refusal
from accelsim.engines.systolic.mapping.search import lower_product
from accelsim.engines.systolic.path import ArrayPath
from accelsim.engines.systolic.process import MatrixEngine
from accelsim.engines.systolic.records import FoldRecord, streamed, weights_free
from accelsim.engines.systolic.times import ArrayTime
from accelsim.program.commands import Command, Phase, Program
from accelsim.spec.models import Chip, MatrixUnit
from accelsim.time import Clock, clock_of


class Systolic(EngineType):
    """An array of PEs through which operands move; a loader and a streamer run its queue side by side."""

    type = "systolic"
    drains = True
    hue = "blue"

    def accepts(self, offer: Offer) -> str | None:
        """Products of activations that stream past what stays in the array."""
        return refusal(offer)

    def lower(self, lowering: Lowering) -> Mapped:
        """In the tiles of the mapping that the search finds."""
        return lower_product(lowering)

    def clock(self, chip: Chip) -> Clock:
        """Clock of the array, else of the chip."""
        return clock_of((chip.matrix.clock if chip.matrix else None) or chip.clock)

    def start(self, device: Device, engine: str, queue: Sequence[Command]) -> None:
        """Both processes."""
        MatrixEngine(device, engine, _unit(device.chip), self.clock(device.chip), queue).start()

    def back(self, walk: Walk, command: Command, event: str) -> Point | None:
        """To the command before, or to the operand or slot that came last."""
        return ArrayPath(walk, _unit(walk.chip), self.clock(walk.chip)).back(command, event)

    def passed(self, chip: Chip, record: FoldRecord, phase: Phase) -> int:
        """When an operand has been read for the last time, fs."""
        return self.clock(chip).at(streamed(record) if phase == "a" else weights_free(record))

    def times(
        self, program: Program, engine: str, log: EngineLog, records: Sequence[FoldRecord],
        summed: Callable[[EngineLog], Times],
    ) -> Times:  # fmt: skip
        """From the edges of its commands: streaming, or why not."""
        commands = program.commands
        mine = [record for record in records if commands[record.command].engine == engine]
        steps = np.array([commands[record.command].op for record in mine], np.int64)
        time = ArrayTime(mine, steps, self.clock(program.chip))
        return Times(time.busy, dict(time.stalled), {op: dict(why) for op, why in time.by_step.items()})

    def read_until(self, chip: Chip, record: Any, role: str, end_fs: int) -> int:
        """The last edge at which the operand is read."""
        return self.passed(chip, record, role) if role in ("a", "w") else end_fs  # type: ignore[arg-type]


def _unit(chip: Chip) -> MatrixUnit:
    assert chip.matrix is not None
    return chip.matrix


ENGINE = Systolic()
