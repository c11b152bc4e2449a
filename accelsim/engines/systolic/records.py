"""What a systolic array notes of each of its commands: edges, from which everything about its time follows."""

from __future__ import annotations

from dataclasses import dataclass

from accelsim.engines.device import Edges


@dataclass(frozen=True, slots=True)
class FoldRecord:
    """Edges (cycle numbers of the array clock) of one MatMul command: what a waveform of the array would show.

    ``free``: the last row of the command before was streamed at the edge before this one. ``stream_first``: first row
    of the first fold; later folds follow every ``step`` edges, each streaming for ``rows`` edges. ``load_first``: first
    stationary row of the first fold (``load`` edges each); later folds load ``reload`` edges after the stream before.
    ``ready``: for each operand ('w', 'a', 'acc') the first edge at which its token could be acquired, for 'port' that
    at which the buffers had ports free; 0 where the command had none to acquire. ``done``: last accumulator write.
    ``held``: edges of ``rows`` in which rows wait for the port of a buffer; ``leaving``: edges of ``step`` in which
    sums do.
    """

    command: int
    free: int
    load_first: int
    stream_first: int
    step: int
    reload: int
    load: int
    rows: int
    folds: int
    done: int
    ready: dict[str, int]
    held: int = 0
    leaving: int = 0


def last_fold(record: FoldRecord) -> int:
    """Edge at which the last fold of a command begins to stream."""
    return record.stream_first + (record.folds - 1) * record.step


def streamed(record: FoldRecord) -> int:
    """Edge of the last row of a command."""
    return last_fold(record) + record.rows - 1


def weights_free(record: FoldRecord) -> int:
    """Edge at which the stationary operand has been read for the last time, as ``MatrixEngine`` publishes it."""
    if not record.load:
        return streamed(record)
    if record.folds == 1:
        return record.load_first + record.load - 1
    return last_fold(record) - record.step + record.reload + record.load - 1


def held_edges(record: FoldRecord, until: int) -> tuple[int, int]:
    """Count the edges from a command's first row to ``until``: those in which rows, and in which sums wait for a
    port."""
    if not record.held and not record.leaving:
        return 0, 0
    edges = max(0, until - record.stream_first + 1)
    folds, rest = divmod(edges, record.step) if record.folds > 1 else (0, edges)
    part = min(rest, record.rows) * record.held // max(1, record.rows)
    left = max(0, rest - record.step + record.leaving) if record.folds > 1 else 0
    return folds * record.held + part, folds * record.leaving + left


def stream_edges(record: FoldRecord, until: int) -> Edges:
    """Count the edges from a command's first row to ``until``: with a row, with a shift and no row, with neither."""
    gap = record.step - record.rows
    shift = min(gap, max(0, min(record.load, record.reload + record.load - record.rows)))
    folds, rest = divmod(max(0, until - record.stream_first + 1), record.step) if record.folds > 1 else (0, 0)
    if record.folds == 1:
        return max(0, until - record.stream_first + 1), 0, 0
    streamed = folds * record.rows + min(rest, record.rows)
    fill_first = max(
        0, rest - record.rows
    )  # a gap begins with what the schedule asks for and ends with the shift
    idle = folds * (gap - shift) + min(fill_first, gap - shift)
    return streamed, folds * shift + max(0, fill_first - (gap - shift)), idle
