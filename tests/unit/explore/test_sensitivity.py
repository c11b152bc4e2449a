"""Sensitivity of layers, on scores that are known in closed form."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.errors import UsageError
from accelsim.explore.mixed import choose

LAYERS = ["conv1", "conv2", "conv3", "fc"]
LOSSES = {"conv1": 5.0, "conv2": 0.5, "conv3": 1.0, "fc": 3.0}


class Additive:
    """Every quantised layer takes its loss from a score of 100; counts its calls."""

    def __init__(self, losses: Mapping[str, float]) -> None:
        self.losses, self.seen = losses, list[frozenset[str]]()

    def __call__(self, quantised: Mapping[str, bool]) -> float:
        assert list(quantised) == list(self.losses)
        self.seen.append(frozenset(name for name, chosen in quantised.items() if chosen))
        return 100 - sum(self.losses[name] for name, chosen in quantised.items() if chosen)


@pytest.mark.parametrize(
    ("budget", "kept"),
    [(10.0, ()), (4.5, ("conv1",)), (1.5, ("conv1", "fc")), (0.5, ("conv1", "conv3", "fc")), (0.0, tuple(LAYERS))],
)
def test_the_layers_that_matter_are_kept(budget: float, kept: tuple[str, ...]) -> None:
    score = Additive(LOSSES)
    found = choose(LAYERS, score, budget)
    assert found.kept == kept
    assert found.loss == 9.5 - sum(LOSSES[name] for name in kept) <= budget
    assert tuple(row.layer for row in found.rows if row.kept) == kept
    for row in found.rows:
        assert (row.alone, row.without) == (100 - LOSSES[row.layer], 90.5 + LOSSES[row.layer])
    assert found.calls == len(score.seen) == len(set(score.seen))
    assert (found.full, found.quantised) == (100, 90.5)


def test_cost_matters() -> None:
    costs = {"conv1": 100.0, "conv2": 1.0, "conv3": 1.0, "fc": 1.0}
    assert choose(LAYERS, Additive(LOSSES), 5.0, costs).kept == ("conv2", "conv3", "fc")
    assert choose(LAYERS, Additive(LOSSES), 9.0, dict.fromkeys(LAYERS, 1.0) | {"conv2": 0.0}).kept == ("conv2",)


def test_what_later_layers_make_needless_is_given_back() -> None:
    # a gains most per cost and is kept first, but the budget needs the dearer b, which alone is enough
    losses = {"a": 2.0, "b": 5.0}
    found = choose(["a", "b"], Additive(losses), 2.0, {"a": 1.0, "b": 10.0})
    assert found.kept == ("b",)


losses = st.lists(st.integers(0, 50), min_size=1, max_size=6)


@given(losses, st.integers(0, 200), st.data())
def test_within_the_budget_and_nothing_needless(values: list[int], budget: int, data: st.DataObject) -> None:
    names = [f"layer{i}" for i in range(len(values))]
    table = dict(zip(names, map(float, values), strict=True))
    costs = {name: float(data.draw(st.integers(0, 5))) for name in names}
    found = choose(names, Additive(table), budget, costs)
    assert found.loss <= budget
    for name in found.kept:
        assert found.loss + table[name] > budget
    assert choose(names, Additive(table), budget, costs) == found
    equal = choose(names, Additive(table), budget)
    smallest = next(
        size
        for size in range(len(names) + 1)
        for kept in combinations(names, size)
        if sum(table[name] for name in names if name not in kept) <= budget
    )
    assert len(equal.kept) == smallest


def test_layers_may_interact() -> None:
    def score(quantised: Mapping[str, bool]) -> float:
        return 10.0 - 4 * (quantised["a"] and quantised["b"]) - quantised["c"]

    found = choose(["a", "b", "c"], score, 0.0)
    assert set(found.kept) in ({"a", "c"}, {"b", "c"})
    assert found.score == 10.0


def test_quantising_may_even_help() -> None:
    assert choose(["a"], Additive({"a": -1.0}), 0.0).loss == -1.0


def test_no_layers() -> None:
    assert choose([], lambda quantised: 1.0, 0.0).kept == ()


def test_what_makes_no_sense_is_named() -> None:
    score = Additive(LOSSES)
    with pytest.raises(UsageError, match="budget -1; expected at least 0"):
        choose(LAYERS, score, -1)
    with pytest.raises(UsageError, match="budget nan"):
        choose(LAYERS, score, float("nan"))
    with pytest.raises(UsageError, match="'fc' is named twice"):
        choose([*LAYERS, "fc"], score, 1)
    with pytest.raises(UsageError) as caught:
        choose(LAYERS, score, 1, {"conv1": -1.0, "conv2": 1, "conv3": 1, "fcc": 1})
    assert [str(problem) for problem in caught.value.problems] == [
        "cost: no cost of layer 'fc'",
        "cost: no layer 'fcc'; expected one of conv1, conv2, conv3, fc; did you mean 'fc'?",
        "cost: cost -1 of 'conv1'; expected at least 0",
    ]
    with pytest.raises(UsageError, match="kept: none: the score is NaN"):
        choose(["a"], lambda quantised: float("nan") if quantised["a"] else 1.0, 1)
