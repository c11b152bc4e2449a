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
        """Return the same between other devices: device i becomes ``ranks[i]``."""
        names = np.asarray(ranks, np.int64)
        return replace(self, source=names[self.source], target=names[self.target])


def starts(counts: Ints) -> Ints:
    """Return where each of the rows with so many entries begins, and the end of the last."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
