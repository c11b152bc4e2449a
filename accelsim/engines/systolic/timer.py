"""When the folds of an array stream, without events: what its loader and its streamer do (``process``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np

from accelsim.engines.device import Times
from accelsim.engines.systolic.process import leaving_of, timing_of
from accelsim.engines.systolic.records import FoldRecord
from accelsim.engines.systolic.spec import MatrixUnit
from accelsim.engines.systolic.times import ArrayTime
from accelsim.engines.timer import Row, Table, Timer, Token
from accelsim.program.commands import Command, Folds
from accelsim.time import Clock
from accelsim.types import Ints


class Made(NamedTuple):
    """Edges of the folds of a command: ``more`` from the first to the last."""

    load: int
    reload: int
    step: int
    interval: int
    rows: int
    folds: int
    more: int
    done: int
    held: int
    leaving: int


class ArrayTimer(Timer):
    """One array. Noted are seven edges: free, first load, first row, done, and when w, a and acc were ready."""

    columns, groups = 7, ("w", "a", "acc")

    def __init__(self, table: Table, delay_fs: int, unit: MatrixUnit, clock: Clock) -> None:
        super().__init__(table, delay_fs)
        self._unit, self._clock = unit, clock
        self._made: dict[Folds, Made] = {}
        self._free = self._load_from = self._stream_from = 1

    def make(self, command: Command) -> Made:
        """When the folds of a command follow each other."""
        work = cast(Folds, command.work)
        if work not in self._made:
            timing, rows = timing_of(self._unit, work), work.rows * work.cycles_per_row
            done = rows - 1 + timing.drain + self._unit.accumulator_latency
            more = (work.n - 1) * timing.step
            self._made[work] = Made(
                timing.load, timing.reload, timing.step, timing.interval, rows, work.n, more, more + done,
                work.held, leaving_of(self._unit, work)[0],
            )  # fmt: skip
        return self._made[work]

    def take(self, number: int, row: Row) -> None:
        """Loaded as early as the command before and its tile allow, streamed when all is there."""
        made, at = cast(Made, row.made), self._clock.at
        w, a, acc = [self._edge(number, tokens) for tokens in row.tokens]
        load_first = max(self._load_from, w)
        first = max(self._stream_from, load_first + made.load, w, a, acc)
        last, done = first + made.more, first + made.done
        self.noted.extend((self._free, load_first, first, done, w, a, acc))
        table, streamed = self.table, last + made.rows - 1
        table.start[number] = at(max(self._free, load_first) - 1)
        table.data[number], table.end[number] = at(first - 1), at(done)
        table.a[number] = at(streamed)
        table.w[number] = at(weights_read(made, load_first, last))
        self._free, self._load_from, self._stream_from = (
            streamed + 1,
            last + made.reload,
            last + made.interval,
        )

    def _edge(self, number: int, tokens: Sequence[Token]) -> int:
        return self._clock.edge(self.latest(number, tokens)[0]) if tokens else 0

    def record(self, number: int, command: Command, figures: Sequence[int]) -> FoldRecord:
        """The record of a command, under this number."""
        free, load_first, first, done, w, a, acc = figures
        made = self.make(command)
        return FoldRecord(
            number, free, load_first, first, made.step, made.reload, made.load, made.rows, made.folds, done,
            {"w": w, "a": a, "acc": acc, "port": 0}, made.held, made.leaving,
        )  # fmt: skip

    def spent(self, noted: Ints, commands: Sequence[Command], later_fs: int) -> Times:
        """Return the times from the edges of its commands; a token that was not waited for (0) is none later either."""
        laps = len(noted) // len(commands)
        made = np.array([self.make(command) for command in commands], np.int64)
        load, _, step, _, rows, folds, _, _, held, leaving = np.tile(made, (laps, 1)).T
        later = self._clock.edge(later_fs)
        free, load_first, first = noted[:, :3].T + later
        w, a, acc = (np.where(ready, ready + later, 0) for ready in noted[:, 4:].T)
        table = np.stack([
            free, first, rows, folds, step, load, held, leaving, w, load_first, load_first + load, a, acc, 0 * w, first,
        ])  # fmt: skip
        steps = np.tile(np.array([command.op for command in commands], np.int64), laps)
        return ArrayTime(table, steps, self._clock).times


def weights_read(made: Made, load_first: int, last: int) -> int:
    """Edge at which the stationary operand has been read for the last time, see ``records.weights_free``."""
    if not made.load:
        return last + made.rows - 1
    if made.folds == 1:
        return load_first + made.load - 1
    return last - made.step + made.reload + made.load - 1
