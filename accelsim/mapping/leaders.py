"""The best candidates of a search, by what they cost, as more and more of them are known."""

from __future__ import annotations

from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from accelsim.types import Floats, Ints


class Costly(Protocol):
    """What candidates are of, whatever lists or draws them."""

    def costs(self, choices: Ints, limit: float) -> tuple[Floats, int]:
        """Costs [N, keys] of candidates [N, columns], compared key by key, and how many were scored.

        Infinite where a candidate is not legal, or a bound proves its first key to be above ``limit``.
        """


class Leader(NamedTuple):
    """One of the best candidates: its choices, and its costs."""

    choices: tuple[int, ...]
    costs: tuple[float, ...]


class Solved(NamedTuple):
    """The best candidates, best first (none where nothing is legal); how many were ``scored``, and ``tried``: scored,
    ruled out by a bound or refused; ``size`` of the space; ``exhaustive``: none is better."""

    leaders: list[Leader]
    scored: int
    tried: int
    size: int
    exhaustive: bool


S = TypeVar("S", bound=Costly)


class Best(Generic[S]):
    """The ``most`` candidates of the lowest costs that were taken so far; ``tried``: how many were seen, ``scored``:
    how many of them had their costs worked out."""

    def __init__(self, source: S, most: int) -> None:
        self._source, self._most = source, most
        self._top, self._keys = np.zeros((0, 0), np.int64), np.zeros((0, 1))
        self.scored = self.tried = 0

    def leaders(self) -> list[Leader]:
        """The best candidates so far, best first."""
        pairs = zip(self._top.tolist(), self._keys.tolist(), strict=True)
        return [Leader(tuple(choices), tuple(costs)) for choices, costs in pairs]

    @property
    def limit(self) -> float:
        """Return what the first cost of a candidate must not exceed to be one of the best."""
        return float(self._keys[-1, 0]) if len(self._top) == self._most else float("inf")

    def take(self, choices: Ints) -> Floats:
        """First costs of candidates [N, columns], infinite where they are not legal; remembers the best."""
        costs, scored = self._source.costs(choices, self.limit)
        self.scored += scored
        first: Floats = costs[:, 0]
        rows = np.flatnonzero(np.isfinite(first) & (first <= self.limit))
        if len(rows) > self._most:
            rows = rows[first[rows] <= np.partition(first[rows], self._most - 1)[self._most - 1]]
        if len(rows):
            self._remember(choices[rows], costs[rows])
        return first

    def _remember(self, choices: Ints, costs: Floats) -> None:
        """Take these among the best, each once; of equals those that were first."""
        if len(self._top):
            choices, costs = np.concatenate([self._top, choices]), np.concatenate([self._keys, costs])
        _, first = np.unique(choices, axis=0, return_index=True)
        first = np.sort(first)
        best = first[np.lexsort(costs[first].T[::-1])][: self._most]
        self._top, self._keys = choices[best], costs[best]
