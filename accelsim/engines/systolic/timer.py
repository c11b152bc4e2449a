"""When the folds of an array stream, without events: what its loader and its streamer do (``process``)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np

from accelsim.engines.device import Times
from accelsim.engines.systolic.process import leaving_of, timing_of
from accelsim.engines.systolic.records import FoldRecord
from accelsim.engines.systolic.spec import MatrixUnit
from accelsim.engines.timer import Row, Table, Timer, Token
from accelsim.program.commands import Command, Folds
from accelsim.time import Clock
from accelsim.types import Ints

UNTIL = ("weights", "array", "shift", "activations", "accumulator", "buffer port", "array")
"""Reasons why no row is streamed before a command's first, in the order in which they are asked; see ``_limits``."""


class ArrayTime:
    """Times of one array, fs: ``busy`` streaming, ``stalled`` by reason; ``by_step`` the same per step ('active')."""

    def __init__(self, table: Ints, steps: Ints, clock: Clock) -> None:
        """``table``: a column for each command (see ``edges_of``), int64 [15, commands]."""
        self.by_step: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self.stalled: dict[str, int] = defaultdict(int)
        self.busy = 0
        if not table.size:
            return
        free, first, rows, folds, step, load, held, leaving = table[:8]
        last = first + (folds - 1) * step
        port = clock.at_all(folds * held + (folds - 1) * leaving)
        inner = clock.at_all((folds - 1) * (step - rows)) - clock.at_all((folds - 1) * leaving)
        self.busy = int(np.sum(clock.at_all(last + rows - 1) - clock.at_all(first - 1) - inner - port))
        self._add(steps, "active", clock.at_all(folds * (rows - held)), stalled=False)
        self._add(steps, "buffer port", port)
        for why, lost in _waits(table[8:], free, first, clock):
            self._add(steps, why, lost)
        self._add(steps, "shift", np.where(load > 0, inner, 0))
        self._add(steps, "array", np.where(load > 0, 0, inner))

    @property
    def times(self) -> Times:
        """Return the times as the accounts take them."""
        return Times(self.busy, dict(self.stalled), {op: dict(why) for op, why in self.by_step.items()})

    def _add(self, steps: Ints, why: str, lost: Ints, stalled: bool = True) -> None:
        if not lost.any():
            return
        if stalled:
            self.stalled[why] += int(lost.sum())
        totals = np.zeros(int(steps.max()) + 1, lost.dtype)
        np.add.at(totals, steps, lost)
        for op in np.flatnonzero(totals):
            self.by_step[int(op)][why] += int(totals[op])


def edges_of(records: Sequence[FoldRecord]) -> Ints:
    """Edges of commands, each as a column: eight figures, then until when each of ``UNTIL`` lasts at the most."""
    return np.array([_edges(record) for record in records], np.int64).T


def _edges(record: FoldRecord) -> tuple[int, ...]:
    shifted, ready = record.load_first + record.load, record.ready
    return (
        record.free, record.stream_first, record.rows, record.folds, record.step, record.load,
        record.held, record.leaving,
        ready["w"], record.load_first, shifted, ready["a"], ready["acc"], ready["port"], record.stream_first,
    )  # fmt: skip


def _waits(limits: Ints, free: Ints, first: Ints, clock: Clock) -> list[tuple[str, Ints]]:
    """Each edge between two commands has one reason, the first that applies: there is no weight tile to shift in
    ('weights'), the fold before does not allow the shift yet ('array'), the weights are being shifted in ('shift'),
    there is no activation tile ('activations'), no free accumulator slot ('accumulator'), no free port of a buffer
    ('buffer port'), the array itself is not free ('array')."""
    found, edge = [], free
    for why, limit in zip(UNTIL, limits, strict=True):
        end = np.maximum(edge, np.minimum(limit, first))
        found.append((why, clock.at_all(end - 1) - clock.at_all(edge - 1)))
        edge = end
    return found


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
        """Return when the folds of a command follow each other."""
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
