"""The mapper: only legal mappings, none better among all there are, never worse than the published ones."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings

from accelsim.engines.row_stationary.counts import counts
from accelsim.engines.row_stationary.laws import active_pes, legal, refusals
from accelsim.engines.row_stationary.mapper import costs, least_clocks, mappings
from accelsim.engines.row_stationary.shape import Conv, Geometry, Mapping, Mappings
from accelsim.engines.row_stationary.timing import clocks
from accelsim.errors import Infeasible, UsageError
from tests.helpers.rs_best import OBJECTIVES, best
from tests.helpers.rs_cases import problems
from tests.validation.eyeriss_jssc2017 import ALEXNET, EYERISS


def every(conv: Conv, array: Geometry) -> Mappings:
    """All legal mappings, by trying all there could be."""
    window = array.ifmap_pad // conv.S
    ranges = (conv.M, conv.N, conv.E, conv.M, min(conv.C, window), conv.C, conv.M)
    found = Mappings(*np.array(list(product(*(range(1, most + 1) for most in ranges)))).T)
    return found.where(legal(conv, array, found))


@settings(max_examples=25)
@given(problems())
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_none_is_better(objective, problem):
    conv, array, _ = problem
    chosen = best(conv, array, objective)
    assert refusals(conv, array, chosen) == ()
    keys = OBJECTIVES[objective].keys
    all_of_them, mine = keys(costs(conv, array, every(conv, array))), keys(costs(conv, array, chosen.many()))
    assert int(mine[0][0]) == int(all_of_them[0].min())


@settings(max_examples=25)
@given(problems())
def test_all_are_legal_once_and_within_their_bounds(problem):
    conv, array, _ = problem
    seen = set()
    for chunk in mappings(conv, array):
        assert legal(conv, array, chunk).all()
        rows = set(map(tuple, np.array(chunk).T.tolist()))
        assert len(rows) == len(chunk.m)
        assert not rows & seen
        seen |= rows
        found = costs(conv, array, chunk)
        for keys, bound in OBJECTIVES.values():
            assert (bound(conv, array, chunk) <= keys(found)[0]).all()


@pytest.mark.parametrize("layer", ALEXNET, ids=lambda layer: layer.name)
def test_bounds_hold_where_work_outweighs_loads(layer):
    rng = np.random.default_rng(0)
    for chunk in mappings(layer.conv, EYERISS):
        some = chunk.where(rng.integers(0, len(chunk.m), 200))
        found = costs(layer.conv, EYERISS, some)
        for keys, bound in OBJECTIVES.values():
            assert (bound(layer.conv, EYERISS, some) <= keys(found)[0]).all()


@given(problems())
def test_many_at_once_cost_what_each_costs(problem):
    conv, array, mapping = problem
    found = costs(conv, array, Mappings(*(np.repeat(column, 3) for column in mapping.many())))
    assert found.clocks.tolist() == [clocks(conv, array, mapping)] * 3
    one = vars(counts(conv, mapping))
    assert {name: words.tolist() for name, words in vars(found.counts).items()} == {
        name: [words] * 3 for name, words in one.items()
    }


@given(problems())
def test_bounds_of_any_mapping(problem):
    """No PE multiplies more than once a clock; what is distinct crosses each level at least once."""
    conv, array, mapping = problem
    found = counts(conv, mapping)
    assert clocks(conv, array, mapping) * active_pes(conv, mapping.many())[0] >= conv.macs == found.macs
    ofmap = conv.N * conv.G * conv.M * conv.E * conv.F
    assert found.dram_ofmap_writes == found.glb_ofmap_reads == ofmap
    assert found.dram_filter_reads >= conv.G * conv.M * conv.C * conv.R * conv.S
    assert found.noc_ifmap == found.glb_ifmap_reads
    assert found.glb_psum_writes - found.glb_psum_reads == ofmap
    assert found.ifmap_pad_writes >= found.noc_ifmap


@given(problems())
def test_wider_buses_are_never_slower(problem):
    conv, array, mapping = problem
    wide = Geometry(rows=array.rows, cols=array.cols, ifmap_words=4, filter_words=8, psum_words=8)
    assert clocks(conv, wide, mapping) <= clocks(conv, array, mapping)


@pytest.mark.parametrize("layer", ALEXNET, ids=lambda layer: layer.name)
def test_never_slower_than_the_published_mapping(layer):
    chosen = best(layer.conv, EYERISS)
    assert clocks(layer.conv, EYERISS, chosen) <= clocks(layer.conv, EYERISS, layer.mapping)


def test_what_cannot_be_mapped_says_why():
    with pytest.raises(Infeasible, match="array rows: 13"):
        best(Conv(1, 1, 1, 20, 20, 13, 3), EYERISS)
    with pytest.raises(UsageError, match="did you mean 'clocks'"):
        best(Conv(1, 1, 1, 3, 3, 3, 3), EYERISS, "clock")


@pytest.mark.parametrize(
    "conv", [Conv(1, 512, 64, 6, 6, 6, 6), Conv(4, 512, 64, 6, 6, 6, 6), Conv(1, 64, 128, 15, 15, 3, 3)]
)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_bounds_are_near_the_best_where_filters_or_products_decide(objective, conv):
    """A bound that is far below leaves the choice as it is, and all mappings to be looked at."""
    keys, bound = OBJECTIVES[objective]
    chosen = best(conv, EYERISS, objective).many()
    assert bound(conv, EYERISS, chosen)[0] >= 0.9 * keys(costs(conv, EYERISS, chosen))[0][0]


def test_the_bound_of_clocks_is_near_where_psums_decide():
    layer = ALEXNET[2]
    chosen = layer.mapping.many()
    assert OBJECTIVES["clocks"].bound(layer.conv, EYERISS, chosen)[0] >= 0.9 * clocks(
        layer.conv, EYERISS, layer.mapping
    )


def test_the_bound_of_clocks_by_hand_where_filters_come_again_for_each_strip_and_ifmap():
    """Nine PEs take four clocks for three products; 432 filter words come for each of three ifmaps and three strips."""
    conv, mapping = Conv(3, 4, 6, 9, 9, 3, 3, 1, 2), Mapping(4, 1, 3, 2, 1, 1, 1)
    work = (3 * 2 * 4 * 6 * 9 * 49) * 4 // (9 * 3)
    assert least_clocks(conv, EYERISS, mapping.many()) == work + 432 * 3 * 3 // EYERISS.filter_words
