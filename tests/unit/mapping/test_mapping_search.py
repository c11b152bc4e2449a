"""The search: the best of all where they are few, near it where not, the same for the same seed."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest

from accelsim.errors import UsageError
from accelsim.mapping.columns import Frame, Mappings
from accelsim.mapping.counts import counts
from accelsim.mapping.legal import legality
from accelsim.mapping.levels import Hierarchy, LevelMap, Mapping, Store, refusals
from accelsim.mapping.search import Floats, Score, search
from accelsim.mapping.space import Space
from accelsim.workload.nest import LoopNest, product_nest

COSTS = np.array([100.0, 8.0, 1.0])


def energy(nest: LoopNest) -> Score:
    """Words times a cost per level, and the steps of the units."""

    def score(mappings: Mappings) -> Floats:
        found = counts(nest, mappings)
        words = (found.reads + found.writes).sum(axis=2)
        return np.asarray(words @ COSTS[: words.shape[1]] + 10.0 * found.steps, np.float64)

    return score


def engine(sram_B: int | None = 1 << 16, regs_B: int | None = 64) -> Hierarchy:
    stores = (Store("dram"), Store("sram", sram_B, {"rows": 8, "cols": 8}), Store("regs", regs_B))
    return Hierarchy(stores, {"A": 1, "B": 1, "Y": 4})


def space(m: int, n: int, k: int, **kwargs: int | None) -> Space:
    lanes = {"sram": {"rows": ("k", "m"), "cols": ("n",)}}
    return Space(product_nest(m, n, k), engine(**kwargs), lanes)


def brute(nest: LoopNest, hierarchy: Hierarchy, slots: dict[str, tuple[int, ...]]) -> float:
    """The best of everything of two levels without lanes, written as mappings one by one."""
    mappings = []
    for tile in product(*(range(1, extent + 1) for extent in nest.axes.values())):
        inner = tuple(zip(nest.axes, tile, strict=True))
        outer = {axis: -(-nest.axes[axis] // count) for axis, count in inner}
        for order in permutations(nest.axes):
            for keep in product(*slots.values()):
                kept = {name: count for name, count in zip(slots, keep, strict=True) if count}
                loops = tuple((axis, outer[axis]) for axis in order)
                dram = LevelMap("dram", loops, {}, dict.fromkeys(slots, 1))
                mappings.append(Mapping((dram, LevelMap("regs", inner, {}, kept))))
    legal = [mapping for mapping in mappings if not refusals(nest, hierarchy, mapping)]
    return float(energy(nest)(Mappings.of(Frame.of(nest, hierarchy), legal)).min())


@pytest.mark.parametrize(("m", "n", "k"), [(3, 4, 5), (7, 2, 3), (5, 5, 2)])
def test_all_of_a_small_space_is_what_enumeration_finds(
    m: int, n: int, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    nest = product_nest(m, n, k)
    hierarchy = Hierarchy((Store("dram"), Store("regs", 30)), {"A": 1, "B": 1, "Y": 4})
    slots = {"A": (0, 1, 2), "B": (0, 1), "Y": (0, 1)}
    small = Space(nest, hierarchy, slots={"regs": slots}, tiles="all")
    found = search(small, energy(nest))
    assert found.exhaustive and found.mapping is not None and found.scored < small.size
    assert found.score == brute(nest, hierarchy, slots)
    assert not refusals(nest, hierarchy, found.mapping)
    columns = Mappings.of(Frame.of(nest, hierarchy), [found.mapping])
    assert energy(nest)(columns)[0] == found.score
    monkeypatch.setattr("accelsim.mapping.search.BATCH", 256)
    bounded = search(small, energy(nest), bound=lambda rows: 0.99 * energy(nest)(rows))
    assert (bounded.mapping, bounded.score) == (found.mapping, found.score)
    assert bounded.scored < found.scored


LAYERS = [(int(m), int(n), int(k)) for m, n, k in np.random.default_rng(5).integers(8, 1500, (20, 3))]


@pytest.mark.parametrize("layer", LAYERS)
def test_walks_are_not_worse_than_many_random_ones(layer: tuple[int, int, int]) -> None:
    large = space(*layer)
    found = search(large, energy(large.nest), "fast")
    assert not found.exhaustive and found.mapping is not None
    rng, sizes = np.random.default_rng(1), np.array(large.sizes)
    rows = large.decode(rng.integers(0, sizes, (10_000, len(sizes))))
    rows = rows.rows(legality(large.nest, large.hierarchy, rows).ok)
    assert len(rows) > 100
    assert found.score <= energy(large.nest)(rows).min() * 1.02
    assert not refusals(large.nest, large.hierarchy, found.mapping)


def test_the_same_seed_finds_the_same() -> None:
    large = space(300, 200, 100)
    first, second = (search(large, energy(large.nest), "fast", seed=4) for _ in range(2))
    assert first == second


def test_seconds_find_something_and_nonsense_is_refused() -> None:
    large = space(300, 200, 100)
    assert search(large, energy(large.nest), 0.05).mapping is not None
    for effort in ("slow", 0, float("inf")):
        with pytest.raises(UsageError, match="effort"):
            search(large, energy(large.nest), effort)


def test_walks_come_near_the_best_of_all() -> None:
    middle = Space(product_nest(24, 36, 20), engine(regs_B=None), tiles="divisors")
    everything = search(middle, energy(middle.nest))
    walked = search(middle, energy(middle.nest), "fast")
    assert everything.exhaustive and not walked.exhaustive
    assert everything.score <= walked.score <= 1.02 * everything.score


def test_what_does_not_fit_is_told() -> None:
    tiny = space(8, 8, 8, regs_B=5)
    found = search(tiny, energy(tiny.nest))
    assert found.mapping is None and found.score == float("inf") and found.refusal is not None
    assert str(found.refusal) == "regs: the smallest tiles take 6 B of 5 B"
    assert (found.refusal.needed, found.refusal.available) == (6, 5)


def test_a_granule_holds() -> None:
    nest = product_nest(64, 12, 20)
    coarse = Space(nest, engine(), {"sram": {"cols": ("n", "m")}}, {"cols": 4}, tiles="divisors")
    for axis, cut in coarse.cuts.items():
        lanes, outside = cut.spatial[:, 1], cut.temporal[:, :2].prod(axis=1)
        assert set(lanes.tolist()) == {"m": {1, 4, 8}, "n": {1, 2, 3, 4, 6, 8}, "k": {1}}[axis]
        assert (outside[(lanes > 1) & (lanes % 4 > 0)] == 1).all(), "they cover what is left of the axis"


def test_a_space_that_is_too_fine_is_refused() -> None:
    with pytest.raises(UsageError, match="ways to be cut"):
        _ = Space(product_nest(9000, 2, 2), engine(), tiles="all").sizes
