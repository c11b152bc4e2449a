"""Items that wait, and the line in which they do."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import simpy

from accelsim.serving.requests import NEVER

FULL, LATE = "queue full", "timeout"
"""Why an item gets no answer."""
RANKS = 2
"""Usual classes of items; those of class 0 go before those of class 1."""


class Arrival(NamedTuple):
    """A request that comes: seconds of its arrival, its class, whether it needs the chip, and its ``items``."""

    arrival_s: float
    rank: int = 1
    kept: bool = True
    items: int = 1


@dataclass(slots=True, eq=False)
class Item:
    """An item and what became of it: ``since_s``, when it joined the line that it is in; seconds in lines, on the host
    before, in transfers, on the chip, on the host after; when it joined the line of the chips, when its batch ended,
    when it left, and why without an answer."""

    number: int
    arrival: Arrival
    since_s: float = 0.0
    queue_s: float = 0.0
    before_s: float = 0.0
    transfer_s: float = 0.0
    chip_s: float = 0.0
    after_s: float = 0.0
    joined_s: float = NEVER
    done_s: float = NEVER
    end_s: float = NEVER
    lost: str = ""

    @property
    def e2e_s(self) -> float:
        """Time from its arrival until it left, s."""
        return self.end_s - self.arrival.arrival_s


class Line:
    """Items that wait, by class and then in order: at most ``limit``; those older than ``timeout_s`` are lost when
    their turn comes. ``lose`` is told which items are lost, and why."""

    def __init__(
        self, env: simpy.Environment, lose: Callable[[Item, str], None], limit: float = inf, timeout_s: float = inf,
        ranks: int = RANKS,
    ) -> None:  # fmt: skip
        self._env, self._lose, self._limit, self._timeout_s = env, lose, limit, timeout_s
        self._ranks = [deque[Item]() for _ in range(ranks)]

    def __len__(self) -> int:
        return sum(map(len, self._ranks))

    def join(self, item: Item) -> None:
        """Let an item wait, or lose it where the line is full."""
        if len(self) >= self._limit:
            self._lose(item, FULL)
            return
        item.since_s = self._env.now
        self._ranks[item.arrival.rank].append(item)

    def take(self) -> Item | None:
        """Return the next item, which waits no longer; None without one."""
        self.drop()
        for rank in self._ranks:
            if rank:
                item = rank.popleft()
                item.queue_s += self._env.now - item.since_s
                return item
        return None

    def oldest_s(self, count: int) -> float:
        """Return when the oldest of the next ``count`` items joined, s."""
        heads = []
        for rank in self._ranks:
            if rank and count > 0:
                heads.append(rank[0].since_s)
            count -= len(rank)
        return min(heads, default=inf)

    def drop(self) -> None:
        """Lose the items at the head that are too old."""
        for rank in self._ranks:
            while rank and self._env.now - rank[0].arrival.arrival_s >= self._timeout_s:
                self._lose(rank.popleft(), LATE)
