"""Laws of a mapping: what is refused and why, one mapping in words as many by mask; the published mappings are legal."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.engines.row_stationary.laws import (
    LAWS,
    active_pes,
    filter_B,
    ifmap_banks,
    legal,
    psum_banks,
    refusals,
    require,
)
from accelsim.engines.row_stationary.shape import Conv, Geometry, Mapping, Mappings
from accelsim.errors import UsageError
from tests.helpers.rs_cases import problems
from tests.validation.eyeriss_jssc2017 import ALEXNET, EYERISS

CONV3 = ALEXNET[2]


def test_the_chip():
    assert EYERISS.rows * EYERISS.cols == 168
    assert (EYERISS.ifmap_pad, EYERISS.filter_pad, EYERISS.psum_pad) == (12, 224, 24)


@pytest.mark.parametrize("layer", ALEXNET, ids=lambda layer: layer.name)
def test_published_mappings_are_legal_and_use_the_published_pes(layer):
    assert refusals(layer.conv, EYERISS, layer.mapping) == ()
    assert active_pes(layer.conv, layer.mapping.many())[0] == layer.active


def test_published_mappings_fill_the_buffer():
    """CONV4 takes every bank, CONV1 nearly all of the space for filters."""
    conv4, conv1 = ALEXNET[3], ALEXNET[0]
    maps = conv4.mapping.many()
    assert psum_banks(conv4.conv, EYERISS, maps)[0] == 22
    assert ifmap_banks(conv4.conv, EYERISS, maps)[0] == 3
    assert filter_B(conv1.conv, EYERISS, conv1.mapping.many())[0] == 7744


BROKEN = {
    "m": Mapping(400, 1, 1, 1, 1, 1, 1),
    "n": Mapping(64, 5, 1, 16, 4, 1, 4),
    "e": Mapping(64, 1, 14, 16, 4, 1, 1),
    "t": Mapping(2, 1, 1, 1, 1, 1, 3),
    "p": Mapping(4, 1, 13, 3, 1, 1, 2),
    "psum pad": Mapping(64, 1, 1, 25, 1, 1, 1),
    "ifmap pad": Mapping(64, 1, 1, 1, 5, 1, 1),
    "filter pad": Mapping(64, 1, 1, 20, 4, 1, 1),
    "array rows": Mapping(64, 1, 1, 1, 1, 5, 1),
    "array columns": Mapping(64, 1, 13, 1, 1, 1, 5),
    "global buffer": Mapping(80, 4, 13, 16, 4, 1, 4),
    "filter buffer": Mapping(144, 1, 1, 12, 4, 1, 12),
}


@pytest.mark.parametrize("law", BROKEN)
def test_each_law_is_told_in_words(law):
    found = refusals(CONV3.conv, EYERISS, BROKEN[law])
    assert law in [refusal.law for refusal in found]
    refusal = next(each for each in found if each.law == law)
    assert refusal.needed > refusal.available
    assert str(refusal).startswith(f"{law}: {refusal.needed} ")
    with pytest.raises(UsageError, match=law):
        require(CONV3.conv, EYERISS, BROKEN[law])


def test_channels_have_laws_too():
    conv = Conv(1, 4, 2, 8, 8, 1, 1)
    assert [each.law for each in refusals(conv, EYERISS, Mapping(4, 1, 1, 1, 1, 3, 1))] == ["r"]
    assert [each.law for each in refusals(conv, EYERISS, Mapping(4, 1, 1, 1, 2, 2, 1))] == ["q"]


def test_a_filter_taller_than_the_array_is_refused():
    conv = Conv(1, 1, 1, 20, 20, 13, 3)
    assert {each.law for each in refusals(conv, EYERISS, Mapping(1, 1, 1, 1, 1, 1, 1))} == {
        "array rows",
        "array columns",
    }


def test_a_set_wider_than_the_array_is_cut():
    """27 columns of 5 PEs stand as 14 and 13 on each other; 29 do not."""
    conv = Conv(1, 16, 2, 40, 40, 5, 5)
    assert refusals(conv, EYERISS, Mapping(16, 1, 28, 16, 2, 1, 1)) == ()
    assert [each.law for each in refusals(conv, EYERISS, Mapping(16, 1, 29, 16, 2, 1, 1))] == ["array columns"]


@given(problems(), st.lists(st.tuples(*[st.integers(1, 30)] * 7), min_size=1, max_size=20))
def test_mask_and_words_agree(problem, rows):
    conv, array, mapping = problem
    many = Mappings(*np.array([*rows, tuple(int(column[0]) for column in mapping.many())]).T)
    mask = legal(conv, array, many)
    assert mask[-1]
    assert mask.tolist() == [
        not refusals(conv, array, Mapping(*(int(column[index]) for column in many))) for index in range(len(mask))
    ]


def test_law_names_differ():
    assert len({law.name for law in LAWS}) == len(LAWS)


@pytest.mark.parametrize("make", [
    lambda: Mapping(0, 1, 1, 1, 1, 1, 1), lambda: Conv(1, 1, 1, 2, 2, 3, 3), lambda: Geometry(rows=0),
    lambda: Conv(1, 1, 1, 2, 2, 1, 1, U=0), lambda: Geometry(psum_pad=1.5),
])  # fmt: skip
def test_senseless_sizes_are_refused(make):
    with pytest.raises(UsageError):
        make()
