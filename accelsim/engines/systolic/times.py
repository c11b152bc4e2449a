"""Where the time of a systolic array went: streaming, or why not, from the edges of its commands."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from accelsim.engines.device import Times
from accelsim.engines.systolic.records import FoldRecord
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
