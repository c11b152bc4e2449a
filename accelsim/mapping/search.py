"""The search for a mapping: all candidates where they are few, else walks over batches that cool down.

It knows a ``Problem`` by its choices and costs alone: the loop nests of ``accelsim.mapping.space``, or the tilings of
an engine type.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from typing import Protocol

import numpy as np

from accelsim.errors import Problem as Mistake
from accelsim.errors import UsageError
from accelsim.mapping.columns import Mappings
from accelsim.mapping.leaders import Best, Costly, Solved
from accelsim.mapping.legal import legality
from accelsim.mapping.levels import Mapping, Refusal
from accelsim.mapping.space import Space
from accelsim.seeds import generator
from accelsim.types import Bools, Floats, Ints

Score = Callable[[Mappings], Floats]

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
    """What a search chooses from: independent choices, each an index, and what a candidate of them costs."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of each choice."""

    def distinct(self, choices: Ints) -> Bools:
        """Which of the candidates [N, len(sizes)] are no copies of others that differ in what does not matter."""

    def smallest(self) -> Ints:
        """A candidate with the smallest tiles, for spaces of which few fit, [len(sizes)]."""


@dataclass(frozen=True)
class Found:
    """What a search found. ``mapping`` is None where nothing is legal, and ``refusal`` says which level overflowed.

    ``score``: of the mapping, infinite without one. ``scored``: candidates that were handed to the score.
    ``size``: candidates of the space. ``exhaustive``: none is better, all were tried or ruled out.
    """

    mapping: Mapping | None
    score: float
    scored: int
    size: int
    exhaustive: bool
    refusal: Refusal | None = None


def known_effort(effort: str | float) -> str | float:
    """An effort as ``solve`` takes it, from what a user gave: seconds may be a text. Raises UsageError."""
    seconds = effort
    if isinstance(effort, str) and effort not in EXHAUSTIVE:
        with suppress(ValueError):
            seconds = float(effort)
    if seconds in EXHAUSTIVE or (isinstance(seconds, int | float) and 0 < seconds < float("inf")):
        return seconds
    raise UsageError(Mistake(f"effort {effort!r}", expected="'best', 'fast', or seconds above 0"))


def solve(problem: Problem, effort: str | float = "best", *, seed: int = 0, leaders: int = 1) -> Solved:
    """The candidates of the lowest costs, so many; of equals the first in the order of the space.

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


def search(
    space: Space, score: Score, effort: str | float = "best", *, seed: int = 0, bound: Score | None = None
) -> Found:
    """The mapping of a loop nest of the lowest score; of equals the first in the order of the space.

    ``score`` gives a float per row, infinite where a row is not wanted; it gets legal rows only. ``effort`` and
    ``seed``: see ``solve``.

    ``bound`` gives a lower bound of the score, cheaper than it. Rows with a bound of the best score so far or more
    are not scored. That loses nothing: score >= bound >= best, and only a lower score replaces the best. Ways to cut
    an axis whose tile overflows a level when all other axes are at one element and slots are fewest are left out
    before: words of a tile do not fall with any extent, so every candidate with them overflows. Loops of one
    iteration never step, so of candidates that differ only in their place one is scored (``Space.canonical``).

    Raises UsageError for an effort that is unknown.
    """
    nests = Nests(space, score, bound)
    solved = solve(nests, effort, seed=seed)
    if not solved.leaders:
        refusal = space.smallest() or nests.overflow
        exhaustive = solved.exhaustive or (refusal is not None and space.size == 0)
        return Found(None, float("inf"), solved.scored, space.size, exhaustive, refusal)
    (best,) = solved.leaders
    mapping = space.decode(np.array([best.choices], np.int64)).mapping(0)
    return Found(mapping, best.costs[0], solved.scored, space.size, solved.exhaustive)


class Nests:
    """The problem of a loop nest on levels; ``overflow``: the least of what did not fit, once nothing did."""

    def __init__(self, space: Space, score: Score, bound: Score | None) -> None:
        self._space, self._score, self._bound = space, score, bound
        self.overflow: Refusal | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of each choice."""
        return self._space.sizes

    def distinct(self, choices: Ints) -> Bools:
        """Candidates that do not only differ in the place of loops of one iteration."""
        return self._space.canonical(choices)

    def smallest(self) -> Ints:
        """The fewest elements in all tiles."""
        cuts = self._space.cuts.values()
        inner = [np.log2(cut.temporal[:, 1:] * cut.spatial[:, 1:]).sum(axis=1) for cut in cuts]
        least = [int(np.argmin(column)) for column in inner]
        slots = [int(np.argmin(table.sum(axis=1))) for table in self._space.slot_choices]
        return np.array([*least, *(0 for _ in self._space.order_choices), *slots], np.int64)

    def costs(self, choices: Ints, limit: float) -> tuple[Floats, int]:
        """See ``Costly``."""
        scores = np.full((len(choices), 1), np.inf)
        mappings = self._space.decode(choices)
        legal = legality(self._space.nest, self._space.hierarchy, mappings)
        rows = np.flatnonzero(legal.ok)
        if not len(rows):
            self._remember_overflow(legal.footprint_B)
            return scores, 0
        if self._bound is not None:
            rows = rows[self._bound(mappings.rows(rows)) < limit]
        if len(rows):
            scores[rows, 0] = self._score(mappings if len(rows) == len(choices) else mappings.rows(rows))
        return scores, len(rows)

    def _remember_overflow(self, footprint_B: Ints) -> None:
        if not len(footprint_B):
            return
        limits = [store.capacity_B for store in self._space.hierarchy.stores]
        room = np.array([np.iinfo(np.int64).max if limit is None else limit for limit in limits])
        over = np.maximum(footprint_B - room, 0)
        row = int(np.argmin(over.sum(axis=1)))
        level = int(np.argmax(over[row]))
        if over[row, level] and (self.overflow is None or footprint_B[row, level] < self.overflow.needed):
            store, needed = self._space.hierarchy.stores[level], int(footprint_B[row, level])
            what = f"the smallest tiles that were tried take {needed:,} B of {store.capacity_B:,} B"
            self.overflow = Refusal(store.name, what, needed, int(store.capacity_B or 0))


class _Walk(Best[Problem]):
    """The best of what a problem of independent choices was asked so far."""

    def all(self) -> None:
        """Every candidate, in order."""
        size = prod(self._source.sizes)
        for start in range(0, size, BATCH):
            flat = np.arange(start, min(start + BATCH, size))
            choices = np.stack(np.unravel_index(flat, self._source.sizes), axis=1).astype(np.int64)
            self.tried += len(choices)
            self.take(choices[self._source.distinct(choices)])

    def walks(self, rng: np.random.Generator, effort: str | float) -> None:
        """Random candidates; then the best of them walk, each to a neighbour that is not much worse; then a descent."""
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
        """First costs of candidates, infinite where they are not legal; remembers the best."""
        self.tried += len(choices)
        parts = [self.take(choices[start : start + BATCH]) for start in range(0, len(choices), BATCH)]
        return np.concatenate(parts)
