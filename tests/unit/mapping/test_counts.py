"""Counts against the oracle that executes a mapping, and the laws between them."""

from __future__ import annotations

import draws
from brute import Brute
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.mapping.columns import Frame, Mappings
from accelsim.mapping.counts import counts
from accelsim.mapping.levels import refusals

DIRECTIONS = ("to_inner", "from_outer", "from_inner", "to_outer")


@settings(max_examples=400)
@given(st.data())
def test_counts_are_those_of_the_nest_executed(data: st.DataObject) -> None:
    nest = data.draw(draws.nests())
    levels = data.draw(st.integers(1, 3))
    mappings = [data.draw(draws.mappings(nest, levels)) for _ in range(2)]
    rules = data.draw(draws.rules)
    hierarchy = draws.hierarchy(levels)
    found = counts(nest, Mappings.of(Frame.of(nest, hierarchy), mappings), rules)
    for row, mapping in enumerate(mappings):
        assert not refusals(nest, hierarchy, mapping)
        brute = Brute(nest, mapping, rules)
        assert found.steps[row] == brute.steps
        for direction in DIRECTIONS:
            table = getattr(found, direction)[row]
            for level in range(levels):
                for index, operand in enumerate(nest.operands):
                    expected = brute.words[direction, level, operand.name]
                    assert table[level, index] == expected, (direction, level, operand.name)
