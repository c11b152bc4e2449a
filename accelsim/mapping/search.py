"""The search for a mapping: all candidates where they are few, else walks over batches that cool down.

It knows a ``Problem``, such as the tilings of an engine type, by its choices and costs alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, takewhile
from math import prod
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from accelsim.errors import Problem as Mistake
from accelsim.errors import UsageError
from accelsim.seeds import generator
from accelsim.types import Floats, Ints


class Costly(Protocol):
    """The problem that candidates are scored for, whatever lists or draws them."""

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
        """Return the best candidates so far, best first."""
        pairs = zip(self._top.tolist(), self._keys.tolist(), strict=True)
        return [Leader(tuple(choices), tuple(costs)) for choices, costs in pairs]

    @property
    def limit(self) -> float:
        """Return what the first cost of a candidate must not exceed to be one of the best."""
        return float(self._keys[-1, 0]) if len(self._top) == self._most else float("inf")

    def take(self, choices: Ints, distinct: bool = False) -> Floats:
        """Return the first costs of candidates [N, columns], infinite where they are not legal; remember the best.
        ``distinct``: none of them was taken before."""
        costs, scored = self._source.costs(choices, self.limit)
        self.scored += scored
        first: Floats = costs[:, 0]
        rows = np.flatnonzero(np.isfinite(first) & (first <= self.limit))
        if len(rows) > self._most:
            rows = rows[first[rows] <= np.partition(first[rows], self._most - 1)[self._most - 1]]
        if len(rows):
            self._remember(choices[rows], costs[rows], distinct)
        return first

    def _remember(self, choices: Ints, costs: Floats, distinct: bool) -> None:
        """Take these among the best, each once; of equals those that were first."""
        if len(self._top):
            choices, costs = np.concatenate([self._top, choices]), np.concatenate([self._keys, costs])
        first = np.arange(len(choices))
        if not distinct:
            first = np.sort(np.unique(choices, axis=0, return_index=True)[1])
        best = first[np.lexsort(costs[first].T[::-1])][: self._most]
        self._top, self._keys = choices[best], costs[best]


BATCH = 1 << 14
"""Rows that are scored at a time."""
EXHAUSTIVE = {"best": 1 << 22, "fast": 1 << 17}
"""Candidates up to which all are tried."""
ROUNDS = {"best": 160, "fast": 25}
"""Rounds of walks beyond that, and how many walk."""
WALKERS, TRIES = 512, 4
START = 1 << 13
"""Random candidates before the walks."""
HOT, COLD = 0.3, 0.003
"""Relative loss that a walk accepts with probability 1/e, first and last."""


class Problem(Costly, Protocol):
    """A search problem: independent choices, each an index, and the cost of a candidate."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the number of values of each choice."""

    def listed(self, numbers: range) -> Ints:
        """Return the candidates of these ``numbers`` [N, len(sizes)] (see ``numbered``), without copies of others that
        differ in what does not matter."""

    def smallest(self) -> Ints:
        """A candidate with the smallest tiles, for spaces of which few fit, [len(sizes)]."""


def numbered(sizes: tuple[int, ...], numbers: range) -> Ints:
    """Return the candidates of these numbers [N, len(sizes)]: the last choice changes first."""
    flat = np.arange(numbers.start, numbers.stop)
    return np.stack(np.unravel_index(flat, sizes), axis=1).astype(np.int64)


def known_effort(effort: str | float) -> str | float:
    """Return an effort as ``solve`` takes it, from what a user gave: seconds may be a text. Raises UsageError."""
    seconds = effort
    if isinstance(effort, str) and effort not in EXHAUSTIVE:
        with suppress(ValueError):
            seconds = float(effort)
    if seconds in EXHAUSTIVE or (isinstance(seconds, int | float) and 0 < seconds < float("inf")):
        return seconds
    raise UsageError(Mistake(f"effort {effort!r}", expected="'best', 'fast', or seconds above 0"))


def solve(problem: Problem, effort: str | float = "best", *, seed: int = 0, leaders: int = 1) -> Solved:
    """Return the ``leaders`` candidates of the lowest costs; of equals the first in the order of the space.

    ``effort``: 'best' tries all of up to 4,194,304 candidates and else walks long; 'fast' 131,072, and walks shortly; a
    number walks for so many seconds (all of up to 131,072 are tried in any case). With 'best' and 'fast' the result
    depends on nothing but problem and seed; with seconds how far it gets depends on the machine.

    Raises UsageError for an effort that is none of these.
    """
    effort = known_effort(effort)
    limit = EXHAUSTIVE[effort] if isinstance(effort, str) else EXHAUSTIVE["fast"]
    walk = _Walk(problem, leaders)
    size = prod(problem.sizes)
    if 0 < size <= limit:
        walk.all()
    elif size:
        walk.walks(generator(seed), effort)
    return Solved(walk.leaders(), walk.scored, walk.tried, size, 0 < size <= limit)


class _Walk(Best[Problem]):
    """The best of what a problem of independent choices was asked so far."""

    def all(self) -> None:
        """Try every candidate, in order."""
        size = prod(self._source.sizes)
        for start in range(0, size, BATCH):
            numbers = range(start, min(start + BATCH, size))
            self.tried += len(numbers)
            self.take(self._source.listed(numbers), distinct=True)

    def walks(self, rng: np.random.Generator, effort: str | float) -> None:
        """Try random candidates; let the best walk, each to a neighbour that is not much worse; then descend."""
        sizes = np.array(self._source.sizes)
        until = time.monotonic() + effort if isinstance(effort, int | float) else 0.0
        rounds = ROUNDS["best"] if isinstance(effort, int | float) else ROUNDS[effort]
        start = np.concatenate([self._source.smallest()[None], rng.integers(0, sizes, (START, len(sizes)))])
        scores = self._try(start)
        order = np.argsort(scores, kind="stable")[:WALKERS]
        here, level = start[order], scores[order]
        turn = 0
        while time.monotonic() < until if until else turn < rounds:
            heat = HOT * (COLD / HOT) ** ((turn % rounds) / rounds)
            here, level = self._round(here, level, heat, sizes, rng)
            turn += 1
            if turn % 10 == 0:  # the worst half begins again at the best
                order = np.argsort(level, kind="stable")
                half = len(order) // 2
                here[order[half:]], level[order[half:]] = here[order[:half]], level[order[:half]]
        self._descend(sizes)

    def _round(
        self, here: Ints, level: Floats, heat: float, sizes: Ints, rng: np.random.Generator
    ) -> tuple[Ints, Floats]:
        moved = np.repeat(here, TRIES, axis=0)
        rows = np.arange(len(moved))
        for times in range(2):  # one choice changes, and half of the time a second one
            free = np.flatnonzero(sizes > 1)
            which = free[rng.integers(0, len(free), len(moved))]
            change = rng.random(len(moved)) < (1.0, 0.5)[times]
            new = np.where(change, rng.integers(0, sizes[which]), moved[rows, which])
            moved[rows, which] = new
        scores = self._try(moved).reshape(-1, TRIES)
        pick = np.argmin(scores, axis=1)
        best = scores[np.arange(len(scores)), pick]
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            loss = np.where(np.isinf(level), -np.inf, best / level - 1)
            accept = np.isfinite(best) & (rng.random(len(best)) < np.exp(np.minimum(-loss / heat, 0)))
        taken = moved.reshape(len(here), TRIES, -1)[np.arange(len(here)), pick]
        return np.where(accept[:, None], taken, here), np.where(accept, best, level)

    def _descend(self, sizes: Ints) -> None:
        """From the best: every other value of each choice, until none is better."""
        while len(self._top):
            before = self._keys[0].tolist()
            for index, size in enumerate(sizes.tolist()):
                rows = np.repeat(self._top[:1], size, axis=0)
                rows[:, index] = np.arange(size)
                self._try(rows)
            if self._keys[0].tolist() >= before:
                return

    def _try(self, choices: Ints) -> Floats:
        self.tried += len(choices)
        parts = [self.take(choices[start : start + BATCH]) for start in range(0, len(choices), BATCH)]
        return np.concatenate(parts)


class Listing(Costly, Protocol):
    """The choice of a search: legal candidates as rows of numbers, in chunks, and what they cost."""

    def likely(self) -> Iterator[Ints]:
        """Candidates [N, columns] that are worth little effort, chunk by chunk; all of them where they are few."""

    def every(self) -> Iterator[Ints]:
        """All candidates, chunk by chunk."""


def solve_listed(listing: Listing, effort: str | float = "best", *, leaders: int = 1) -> Solved:
    """Return the ``leaders`` candidates of the lowest costs; of equals those that are listed first.

    ``effort``: 'fast' tries those that are likely, 'best' all of them; a number tries the likely ones, then all while
    so many seconds last. Raises UsageError for an effort that is none of these.
    """
    effort, best = known_effort(effort), Best(listing, leaders)
    for chunk in _chunks(listing, effort):
        best.tried += len(chunk)
        best.take(chunk)
    return Solved(best.leaders(), best.scored, best.tried, best.tried, effort == "best")


def _chunks(listing: Listing, effort: str | float) -> Iterable[Ints]:
    if effort == "best":
        return listing.every()
    if effort == "fast":
        return listing.likely()
    until = time.monotonic() + float(effort)
    return chain(listing.likely(), takewhile(lambda _: time.monotonic() < until, listing.every()))
