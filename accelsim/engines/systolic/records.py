"""What a systolic array notes of each of its commands: edges, from which everything about its time follows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from accelsim.engines.device import Edges, Times
from accelsim.time import Clock
from accelsim.types import Ints


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


UNTIL = ("weights", "array", "shift", "activations", "accumulator", "buffer port", "array")
"""Reasons why no row is streamed before a command's first, in the order in which they are asked: no weight tile to
shift in, the fold before does not allow the shift yet, the weights are being shifted in, no activation tile, no free
accumulator slot, no free port of a buffer, the array itself is not free."""


def time_spent(records: Sequence[FoldRecord], steps: Ints, clock: Clock) -> Times:
    """Return how an array spent its time on commands of ``steps``: busy streaming, stalled by reason, and both by step
    ('active'). Each edge between two commands has one reason, the first that applies."""
    if not records:
        return Times(0, {}, {})
    free, first, rows, folds, step, load, held, leaving, *limits = np.array(
        list(map(_edges, records)), np.int64
    ).T
    last = first + (folds - 1) * step
    port = clock.at_all(folds * held + (folds - 1) * leaving)
    between = clock.at_all((folds - 1) * (step - rows)) - clock.at_all((folds - 1) * leaving)
    lost = [("buffer port", port)]
    edge = free
    for why, limit in zip(UNTIL, limits, strict=True):
        end = np.maximum(edge, np.minimum(limit, first))
        lost.append((why, clock.at_all(end - 1) - clock.at_all(edge - 1)))
        edge = end
    lost += [("shift", np.where(load > 0, between, 0)), ("array", np.where(load > 0, 0, between))]
    stalled = defaultdict[str, int](int)
    by_step = defaultdict[int, dict[str, int]](lambda: defaultdict(int))
    for why, fs in [("active", clock.at_all(folds * (rows - held))), *lost]:
        if not fs.any():
            continue
        if why != "active":
            stalled[why] += int(fs.sum())
        totals = np.zeros(int(steps.max()) + 1, fs.dtype)
        np.add.at(totals, steps, fs)
        for op in np.flatnonzero(totals).tolist():
            by_step[op][why] += int(totals[op])
    busy = int(np.sum(clock.at_all(last + rows - 1) - clock.at_all(first - 1) - between - port))
    return Times(busy, dict(stalled), {op: dict(reasons) for op, reasons in by_step.items()})


def _edges(record: FoldRecord) -> tuple[int, ...]:
    """Eight figures of a command, then until when each of ``UNTIL`` lasts at the most."""
    ready = record.ready
    return (
        record.free, record.stream_first, record.rows, record.folds, record.step, record.load, record.held,
        record.leaving, ready["w"], record.load_first, record.load_first + record.load, ready["a"], ready["acc"],
        ready["port"], record.stream_first,
    )  # fmt: skip
