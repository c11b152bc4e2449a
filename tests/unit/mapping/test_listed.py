"""The search where candidates are listed: the lowest costs of all that were tried, by key, then as they were listed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.errors import UsageError
from accelsim.mapping.search import solve_listed
from accelsim.types import Floats, Ints


class Table:
    """Candidates by their number; costs of two keys, none for those that are not legal; ``bounds``: of the first."""

    def __init__(self, costs: list[tuple[float, float]], bounds: list[float], chunk: int, likely: int) -> None:
        self.costs_of = np.array(costs, np.float64).reshape(-1, 2)
        self.bounds = np.minimum(np.array(bounds), self.costs_of[:, 0])
        self._chunk, self._likely = chunk, likely

    def _chunks(self, most: int) -> Iterator[Ints]:
        for start in range(0, most, self._chunk):
            yield np.arange(start, min(start + self._chunk, most))[:, None]

    def likely(self) -> Iterator[Ints]:
        return self._chunks(self._likely)

    def every(self) -> Iterator[Ints]:
        return self._chunks(len(self.costs_of))

    def costs(self, choices: Ints, limit: float) -> tuple[Floats, int]:
        rows = choices[:, 0]
        near = self.bounds[rows] <= limit
        return np.where(near[:, None], self.costs_of[rows], np.inf), int(near.sum())


@st.composite
def tables(draw: st.DrawFn) -> tuple[Table, int]:
    few = st.integers(0, 6)
    first = st.one_of(few.map(float), st.just(float("inf")))
    costs = draw(st.lists(st.tuples(first, few.map(float)), min_size=1, max_size=40))
    bounds = [draw(st.floats(0, 7)) for _ in costs]
    likely = draw(st.integers(0, len(costs)))
    return Table(costs, bounds, draw(st.integers(1, 9)), likely), likely


def best_of(table: Table, most: int, leaders: int) -> list[int]:
    rows = [row for row in range(most) if np.isfinite(table.costs_of[row, 0])]
    return sorted(rows, key=lambda row: (*table.costs_of[row], row))[:leaders]


@given(tables(), st.integers(1, 5), st.sampled_from(["best", "fast", 1e-9, 60.0]))
def test_the_leaders_are_those_of_the_lowest_costs(drawn: tuple[Table, int], leaders: int, effort: str | float) -> None:
    """With seconds those that are likely are tried in any case, and all others while there is time."""
    table, likely = drawn
    found = solve_listed(table, effort, leaders=leaders)
    most = likely if effort in ("fast", 1e-9) else len(table.costs_of)
    rows = [leader.choices[0] for leader in found.leaders]
    assert rows == best_of(table, most, leaders)
    assert [leader.costs for leader in found.leaders] == [tuple(table.costs_of[row]) for row in rows]
    assert found.scored <= found.tried
    assert found.exhaustive == (effort == "best")
    if effort in ("best", "fast"):
        assert found.tried == most


def test_an_effort_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="effort 'slow'"):
        solve_listed(Table([(1.0, 1.0)], [0.0], 1, 1), "slow")
