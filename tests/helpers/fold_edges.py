"""Edges of the products of a run: what a waveform of the array would show."""

from __future__ import annotations

from typing import NamedTuple

from accelsim.engines.device import History
from accelsim.engines.systolic.streaming import Streaming
from accelsim.machine.run import Run, Slice
from accelsim.program.roles import spec_of
from accelsim.time import Clock, clock_of


class FoldEdges(NamedTuple):
    """First edges at which a product loads and streams, that at which it is done; its folds as in ``Streaming``."""

    command: int
    load_first: int
    stream_first: int
    done: int
    stream: Streaming


def fold_edges(clock: Clock, piece: Slice, history: History) -> FoldEdges:
    """Return the edges of one product."""
    (stream,) = [each for each in history.activities if isinstance(each, Streaming)]
    first, (_, before) = clock.edge(piece.data) + 1, history.early or ("", history)
    load = clock.edge(before.begins[0]) + 1 if history.early else first
    if not history.early and stream.load:  # of several folds
        load = clock.edge(history.begins[0]) + 1 if len(history.begins) > 1 else first - stream.load
    return FoldEdges(piece.command, load, first, clock.edge(piece.end), stream)


def folds_of(run: Run) -> list[FoldEdges]:
    """Return the edges of all products of systolic arrays, in order."""
    return [
        fold_edges(
            clock_of(spec_of(run.chip, piece.engine).clock or run.chip.clock),
            piece,
            run.histories[piece.command],
        )
        for piece in run.slices
        if run.program.engines[piece.engine] == "systolic"
    ]
