"""Messages between devices as columns: who sends how much to whom, after which others, and what it carries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from accelsim.types import Bools, Ints


@dataclass(frozen=True, eq=False)
class MessageGraph:
    """Messages in the order of their numbers; each column has one entry per message.

    ``source``, ``target``: devices. ``needs[needs_start[m]:needs_start[m + 1]]``: messages that must have arrived
    before ``m`` may leave. ``ready_fs``: not before that time; None: 0 for all.
    A message carries elements ``begin`` to ``end`` of its sender's buffer to the place ``into`` of its target's, where
    they are added (``reduces``) or replace what is there. ``round``: rounds of a graph never decrease; within one, all
    messages read before any of them writes.
    """

    source: Ints
    target: Ints
    nbytes: Ints
    needs_start: Ints
    needs: Ints
    begin: Ints
    end: Ints
    into: Ints
    reduces: Bools
    round: Ints
    ready_fs: Ints | None = None

    def __len__(self) -> int:
        return len(self.source)

    def on(self, ranks: Sequence[int]) -> MessageGraph:
        """The same between other devices: device i becomes ``ranks[i]``."""
        names = np.asarray(ranks, np.int64)
        return replace(self, source=names[self.source], target=names[self.target])


def plain_messages(
    source: Sequence[int], target: Sequence[int], nbytes: Sequence[int],
    needs: Sequence[Sequence[int]] = (), ready_fs: Sequence[int] | None = None,
) -> MessageGraph:  # fmt: skip
    """Messages that carry no elements, from lists; ``needs``: for each message those before it, none without."""
    after = needs or [()] * len(source)
    count = np.array([len(each) for each in after], np.int64)
    none = np.zeros(len(source), np.int64)
    return MessageGraph(
        np.array(source, np.int64), np.array(target, np.int64), np.array(nbytes, np.int64),
        starts(count), np.array([number for each in after for number in each], np.int64),
        none, none, none, none.astype(bool), np.arange(len(source), dtype=np.int64),
        None if ready_fs is None else np.array(ready_fs, np.int64),
    )  # fmt: skip


def starts(counts: Ints) -> Ints:
    """Where each of the rows with so many entries begins, and the end of the last."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def side_by_side(graphs: Sequence[MessageGraph]) -> MessageGraph:
    """Several graphs as one, none waiting for another; rounds of the same number at once."""
    sizes = [len(graph) for graph in graphs]
    shifts = np.cumsum([0, *sizes])[:-1]
    counts = np.concatenate([np.diff(graph.needs_start) for graph in graphs])
    needs = np.concatenate([graph.needs + shift for graph, shift in zip(graphs, shifts, strict=True)])
    columns = {
        name: np.concatenate([getattr(graph, name) for graph in graphs])
        for name in ("source", "target", "nbytes", "begin", "end", "into", "reduces", "round")
    }
    known = [graph.ready_fs is not None for graph in graphs]
    ready = [np.zeros(len(graph), np.int64) if graph.ready_fs is None else graph.ready_fs for graph in graphs]
    return MessageGraph(
        **columns,
        needs_start=starts(counts),
        needs=needs,
        ready_fs=np.concatenate(ready) if any(known) else None,
    )
