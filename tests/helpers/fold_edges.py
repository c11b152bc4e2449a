"""Edges of the products of a run: what a waveform of the array would show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from accelsim.engines.device import History
from accelsim.engines.systolic.streaming import Streaming
from accelsim.machine.run import Run, Slice
from accelsim.program.roles import spec_of
from accelsim.time import Clock, clock_of


class FoldEdges(NamedTuple):
    """Edges of one product: after the last row before it, of its first stationary and its first streamed row, and when
    it is done; ``ready``: those at which its tokens could be acquired (0 without one); its folds as in ``Streaming``."""

    command: int
    free: int
    load_first: int
    stream_first: int
    done: int
    ready: Mapping[str, int]
    stream: Streaming

    @property
    def last(self) -> int:
        """Edge at which the last fold begins to stream."""
        return self.stream_first + (self.stream.folds - 1) * self.stream.step


Ready = Callable[[int, str], int]


def fold_edges(
    clock: Clock, pieces: Iterable[Slice], histories: Mapping[int, History], ready: Ready = lambda command, why: 0
) -> list[FoldEdges]:
    """Return the edges of the products of one array, in order."""
    found: list[FoldEdges] = []
    for piece in pieces:
        (stream,) = [each for each in histories[piece.command].activities if isinstance(each, Streaming)]
        tokens = {why: ready(piece.command, why) for why in ("w", "a", "acc")}
        free = found[-1].last + found[-1].stream.rows if found else 1
        allowed = found[-1].last + found[-1].stream.reload if found else 1
        first, done = clock.edge(piece.data) + 1, clock.edge(piece.end)
        found.append(FoldEdges(piece.command, free, max(allowed, tokens["w"]), first, done, tokens, stream))
    return found


def folds_of(run: Run) -> list[FoldEdges]:
    """Return the edges of all products of systolic arrays, array by array."""
    delay_fs = Clock(run.chip.clock).at(run.chip.token_delay)

    def found(engine: str) -> list[FoldEdges]:
        clock = clock_of(spec_of(run.chip, engine).clock or run.chip.clock)

        def ready(command: int, why: str) -> int:
            waits = [wait for wait in run.program.commands[command].waits if wait.why == why]
            released = [run.histories[w.command].read(w.phase, run.slices[w.command].end) for w in waits]
            return clock.edge(max(released) + delay_fs) if released else 0

        pieces = [piece for piece in run.slices if piece.engine == engine]
        return fold_edges(clock, pieces, dict(enumerate(run.histories)), ready)

    return [each for engine, kind in run.program.engines.items() if kind == "systolic" for each in found(engine)]
