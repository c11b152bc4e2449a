"""The closed forms equal the PE-level model: clocks, values, each count. And the model refuses what does not fit.

``ROW_STATIONARY_CASES=5000`` draws more cases than the 300 of a common run.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given, settings

from accelsim.engines.row_stationary.counts import counts
from accelsim.engines.row_stationary.laws import refusals
from accelsim.engines.row_stationary.shape import Conv, Geometry, Mapping
from accelsim.engines.row_stationary.timing import clocks
from accelsim.errors import HazardError, UsageError
from tests.helpers.rs_cases import convolve, operands, problems
from tests.validation.eyeriss_jssc2017 import EYERISS
from tests.validation.oracles.row_stationary import run
from tests.validation.oracles.row_stationary_parts import Bus, chains

CASES = int(os.environ.get("ROW_STATIONARY_CASES", "300"))


@settings(max_examples=CASES)
@given(problems())
def test_closed_forms_equal_the_model(problem):
    conv, array, mapping = problem
    assert refusals(conv, array, mapping) == ()
    ifmap, weights = operands(conv, seed=conv.macs)
    found = run(conv, array, mapping, ifmap, weights)
    assert np.array_equal(found.ofmap, convolve(conv, ifmap, weights))
    assert found.clocks == clocks(conv, array, mapping)
    assert found.counts == counts(conv, mapping)
    assert found.counts.macs == conv.macs


ALEXNET_CUT = [
    (Conv(1, 32, 2, 27, 227, 11, 11, U=4), Mapping(32, 1, 5, 16, 1, 1, 2)),
    (Conv(1, 32, 4, 31, 31, 5, 5), Mapping(32, 1, 27, 16, 2, 1, 1)),
    (Conv(2, 128, 10, 15, 15, 3, 3), Mapping(64, 2, 13, 16, 4, 1, 4)),
    (Conv(2, 64, 13, 15, 15, 3, 3), Mapping(64, 2, 13, 16, 3, 2, 2)),
]


@pytest.mark.parametrize(("conv", "mapping"), ALEXNET_CUT)
def test_parts_of_alexnet_on_the_whole_chip(conv, mapping):
    ifmap, weights = operands(conv, seed=1)
    found = run(conv, EYERISS, mapping, ifmap, weights)
    assert np.array_equal(found.ofmap, convolve(conv, ifmap, weights))
    assert found.clocks == clocks(conv, EYERISS, mapping)
    assert found.counts == counts(conv, mapping)


def test_floats_come_out_as_sums():
    conv, mapping = Conv(1, 3, 2, 6, 6, 3, 3), Mapping(3, 1, 2, 2, 2, 1, 1)
    rng = np.random.default_rng(0)
    ifmap, weights = rng.normal(size=(1, 1, 2, 6, 6)), rng.normal(size=(1, 3, 2, 3, 3))
    assert np.allclose(run(conv, EYERISS, mapping, ifmap, weights).ofmap, convolve(conv, ifmap, weights))


def test_a_pass_by_hand():
    """One PE, one filter of 1 x 2, ifmap 1 x 4: load 2 words, three steps of 2 products and a sum, one word out."""
    conv, array = Conv(1, 1, 1, 1, 4, 1, 2), Geometry(rows=1, cols=1)
    mapping = Mapping(1, 1, 1, 1, 1, 1, 1)
    found = run(conv, array, mapping, *operands(conv, 0))
    assert found.clocks == clocks(conv, array, mapping) == 2 + 3 * 3 + 1
    assert found.counts.glb_psum_reads == 0
    assert found.counts.glb_psum_writes == found.counts.glb_ofmap_reads == 3


def test_sums_through_a_narrow_bus_bind():
    """Five rows of the ofmap, three filters: 15 psums a step, one a clock, where a PE works 3 x (2 + 1) clocks."""
    conv, array = Conv(1, 3, 2, 5, 9, 1, 2), Geometry(rows=1, cols=5, psum_words=1, ifmap_words=9)
    mapping = Mapping(3, 1, 5, 3, 1, 1, 1)
    first = 2 + 9 + 7 * 15  # load; new sums: nothing comes in and nothing leaves in the first step
    second = 15 + 15 + 8 * 15  # load: the last sums of the pass before leave, then the first come in
    found = run(conv, array, mapping, *operands(conv, 0)).clocks
    assert found == clocks(conv, array, mapping) == first + second + 15


def test_a_bus_sends_one_thing_after_the_other():
    bus = Bus(4)
    assert [bus.send(9, 10), bus.send(4, 11), bus.send(0, 5), bus.send(1, 30)] == [13, 14, 5, 31]


def test_chains_stand_in_columns_on_each_other():
    pes = chains(EYERISS, 4, 13, 3)
    assert len(np.unique(pes)) == 4 * 13 * 3
    assert (np.diff(pes, axis=2) == EYERISS.cols).all()
    with pytest.raises(HazardError):
        chains(EYERISS, 5, 13, 3)


def test_the_model_refuses_what_does_not_fit():
    conv = Conv(1, 8, 1, 4, 40, 3, 3)
    small = Geometry(glb_banks=2, glb_bank_B=64)
    with pytest.raises(HazardError, match="banks"):
        run(conv, small, Mapping(8, 1, 2, 1, 1, 1, 1), *operands(conv, 0))
    with pytest.raises(HazardError, match="filter buffer"):
        run(conv, Geometry(glb_filter_B=16), Mapping(8, 1, 2, 1, 1, 1, 1), *operands(conv, 0))
    with pytest.raises(UsageError, match="weights has the shape"):
        run(conv, EYERISS, Mapping(8, 1, 2, 1, 1, 1, 1), operands(conv, 0)[0], np.zeros((1, 1, 1, 3, 3)))
