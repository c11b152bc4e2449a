"""The search: the best of all where they are few, near it where not, the same for the same seed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from accelsim.errors import UsageError
from accelsim.mapping.search import EXHAUSTIVE, numbered, solve
from accelsim.types import Floats, Ints


class Hills:
    """Independent choices: a cost per value of each choice, and one for each pair of neighbouring choices.

    Candidates whose first two choices are equal are not legal; odd values of the last choice are copies.
    """

    def __init__(self, sizes: tuple[int, ...], seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.sizes = sizes
        self._alone = [rng.uniform(1, 2, size) for size in sizes]
        self._pairs = [rng.uniform(0, 0.3, pair) for pair in pairwise(sizes)]
        self.asked: list[Ints] = []

    def listed(self, numbers: range) -> Ints:
        choices = numbered(self.sizes, numbers)
        return choices[choices[:, -1] % 2 == 0]

    def smallest(self) -> Ints:
        return np.arange(len(self.sizes)) % 2

    def every_cost(self, choices: Ints) -> Floats:
        alone = sum(table[choices[:, i]] for i, table in enumerate(self._alone))
        pairs = sum(table[choices[:, i], choices[:, i + 1]] for i, table in enumerate(self._pairs))
        return np.where(choices[:, 0] == choices[:, 1], np.inf, np.asarray(alone + pairs))

    def costs(self, choices: Ints, limit: float) -> tuple[Floats, int]:
        self.asked.append(choices)
        found = self.every_cost(choices)
        return np.where(found > limit, np.inf, found)[:, None], int((np.isfinite(found) & (found <= limit)).sum())


@pytest.mark.parametrize("leaders", [1, 7])
def test_all_of_a_small_space_are_tried(leaders: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelsim.mapping.search.BATCH", 100)
    hills = Hills((4, 5, 3, 6))
    found = solve(hills, leaders=leaders)
    every = np.stack(np.unravel_index(np.arange(360), hills.sizes), axis=1)
    costs = hills.every_cost(every)
    best = [row for row in np.argsort(costs, kind="stable") if every[row, -1] % 2 == 0][:leaders]
    assert [leader.choices for leader in found.leaders] == [tuple(every[row].tolist()) for row in best]
    assert [leader.costs for leader in found.leaders] == [(costs[row],) for row in best]
    assert found.exhaustive and found.size == found.tried == 360 and found.scored < 180
    assert len(hills.asked) == 4 and not any((chunk[:, -1] % 2).any() for chunk in hills.asked)


def test_walks_find_the_best_of_a_space_that_is_too_large_to_try() -> None:
    """The best is known, since pairs of neighbours are chosen one after the other."""
    hills = Hills((40,) * 5, seed=3)
    found = solve(hills, "fast")
    assert not found.exhaustive and found.size > EXHAUSTIVE["best"] > found.tried
    least = hills._alone[4]
    for i in (3, 2, 1):
        least = hills._alone[i] + (hills._pairs[i] + least).min(axis=1)
    first = hills._alone[0][:, None] + hills._pairs[0] + least
    np.fill_diagonal(first, np.inf)
    assert found.leaders[0].costs[0] == pytest.approx(first.min(), rel=0.005)


def test_the_same_seed_finds_the_same_and_another_walks_elsewhere() -> None:
    first, second, other = (Hills((30,) * 5) for _ in range(3))
    assert solve(first, "fast", seed=4) == solve(second, "fast", seed=4)
    solve(other, "fast", seed=5)
    assert all(np.array_equal(a, b) for a, b in zip(first.asked, second.asked, strict=True))
    assert not np.array_equal(first.asked[0], other.asked[0])


def test_seconds_find_something_and_nonsense_is_refused() -> None:
    assert solve(Hills((30,) * 5), 0.05).leaders
    assert solve(Hills((3, 3)), "0.05").exhaustive
    for effort in ("slow", 0, float("inf")):
        with pytest.raises(UsageError, match="effort"):
            solve(Hills((3, 3)), effort)


def test_a_space_without_a_legal_candidate_has_no_leaders() -> None:
    found = solve(Hills((1, 1, 4)))
    assert (found.leaders, found.size, found.exhaustive, found.scored) == ([], 4, True, 0)
