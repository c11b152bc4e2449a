"""Times of the folds of a product on its array: constants of commands with equal work, and segments of a path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from accelsim.engines.device import Activity, Piece
from accelsim.engines.systolic.spec import MatrixUnit
from accelsim.engines.systolic.timing import FoldTiming, fold_timing
from accelsim.program.work import Folds
from accelsim.time import Clock


def timing_of(unit: MatrixUnit, work: Folds) -> FoldTiming[int]:
    """Edges between the folds of a command on its array, see ``fold_timing``."""
    return fold_timing(
        unit.rows,
        unit.cols,
        unit.dataflow,
        unit.schedule,
        unit.shadow_load,
        work.rows * work.cycles_per_row,
        unit.load_rows_per_clock,
        unit.min_interval * work.cycles_per_row,
        work.leave,
    )


@dataclass(frozen=True, slots=True)
class Streaming(Activity):
    """Edges of the array while a product streams and drains.

    ``folds`` follow each other every ``step`` edges, each streams for ``rows`` edges; the stationary operand of the
    first is loaded in ``load`` edges, those of the others ``reload`` edges after the stream before. ``held``: edges of
    ``rows`` in which rows wait for the port of the buffer ``held_by``; ``leaving``: edges of ``step``, ``draining``:
    edges after the last fold, in which sums wait for that of ``sums``.
    """

    clock: Clock
    rows: int
    folds: int
    step: int
    load: int
    reload: int
    held: int
    held_by: str
    leaving: int
    draining: int
    sums: str

    def pieces(self, begin_fs: int, end_fs: int, event: str) -> Iterator[Piece]:
        """Yield port, drain and stream, from ``end_fs`` back; edges that a port held up come last in a stream."""
        at, first, until = self.clock.at, self.clock.edge(begin_fs), self.clock.edge(end_fs)
        last = first + (self.folds - 1) * self.step + self.rows
        yield (at(max(last, until - (self.draining if event == "done" else self.leaving))), "port_width", self.sums, ())
        yield at(last), "fill_drain", self.resource, ()
        until = min(until, last)
        rows, sums = self._held_edges(until - first)
        yield at(until - sums), "port_width", self.sums, ()
        yield at(until - sums - rows), "port_width", self.held_by, ()
        streamed, shifted, idle = self._stream_edges(until - first)
        mix = ("compute", streamed - rows), ("weight_shift", shifted), ("fill_drain", idle - sums)
        yield begin_fs, self.kind, self.resource, mix

    def _held_edges(self, edges: int) -> tuple[int, int]:
        """Count the edges, of so many from the first row on, in which rows, and in which sums wait for a port."""
        folds, rest = divmod(edges, self.step) if self.folds > 1 else (0, edges)
        part = min(rest, self.rows) * self.held // max(1, self.rows)
        left = max(0, rest - self.step + self.leaving) if self.folds > 1 else 0
        return folds * self.held + part, folds * self.leaving + left

    def _stream_edges(self, edges: int) -> tuple[int, int, int]:
        """Count the edges, of so many from the first row on, with a row, with a shift and no row, with neither.

        A gap between folds begins with what the schedule asks for and ends with the shift.
        """
        if self.folds == 1:
            return edges, 0, 0
        gap = self.step - self.rows
        shift = min(gap, max(0, min(self.load, self.reload + self.load - self.rows)))
        folds, rest = divmod(edges, self.step)
        fill_first = max(0, rest - self.rows)
        idle = folds * (gap - shift) + min(fill_first, gap - shift)
        return (folds * self.rows + min(rest, self.rows), folds * shift + max(0, fill_first - (gap - shift)), idle)


class Timed:
    """Constants of all commands with equal work: ``timing`` of their folds, ``stream`` of their rows; ``edges`` in
    which they stream, those from the first fold ``to_last``; times that a log takes, fs; the reason of a ``gap``."""

    def __init__(self, unit: MatrixUnit, clock: Clock, resource: str, work: Folds) -> None:
        self.timing = timing = timing_of(unit, work)
        wide, at, rows, leaving, draining = timing, clock.at, work.rows * work.cycles_per_row, 0, 0
        if work.leave > 1:
            wide = timing_of(unit, work._replace(leave=1))
            leaving, draining = timing.step - wide.step, timing.drain - wide.drain
        self.rows, self.to_last = rows, (work.n - 1) * timing.step
        self.edges = self.to_last + rows
        self.stream = Streaming(
            "stream", resource, clock, rows, work.n, timing.step, timing.load, timing.reload, work.held, work.held_by,
            leaving, draining, work.sums,
        )  # fmt: skip
        self.gap = "shift" if timing.load else "array"
        self.active_fs = at(work.n * (rows - work.held))
        self.port_fs = at(work.n * work.held + (work.n - 1) * leaving)
        self.gaps_fs = at((work.n - 1) * (timing.step - rows)) - at((work.n - 1) * leaving)

    def weights_read(self, load_first: int, stream_first: int) -> int:
        """Return the edge at which the stationary operand has been read for the last time."""
        timing, last = self.timing, stream_first + self.to_last
        if not timing.load:
            return last + self.rows - 1
        if not self.to_last:
            return load_first + timing.load - 1
        return last - timing.step + timing.reload + timing.load - 1
