"""Counts against the oracle that executes a mapping, and the laws between them."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.mapping.columns import Frame, Mappings
from accelsim.mapping.counts import counts
from accelsim.mapping.levels import refusals
from tests.helpers import mapping_draws as draws
from tests.helpers.brute import Brute

DIRECTIONS = ("to_inner", "from_outer", "from_inner", "to_outer")


@settings(max_examples=120)
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


@given(st.data())
def test_no_level_reads_less_than_there_is(data: st.DataObject) -> None:
    """Distinct elements <= words, of every operand that is kept once; a result is written out once or more often."""
    nest = data.draw(draws.nests())
    mapping = data.draw(draws.mappings(nest, 3))
    rules = data.draw(draws.rules)
    found = counts(nest, Mappings.of(Frame.of(nest, draws.hierarchy(3)), [mapping]), rules)
    assert nest.macs >= found.steps[0]
    for index, operand in enumerate(nest.operands):
        distinct = nest.distinct(operand.name)
        words = found.from_inner if operand.writes else found.to_inner
        for level, part in enumerate(mapping.levels):
            if operand.name in part.keep:
                assert words[0, level, index] >= distinct
                if level and not operand.writes:
                    assert found.from_outer[0, level, index] >= distinct
            else:
                assert not words[0, level, index] and not found.from_outer[0, level, index]
        if operand.writes:
            kept_again = found.to_inner[0, 0, index]
            first = 0 if rules.first_read != "omitted" else distinct
            assert kept_again <= found.from_inner[0, 0, index] - first


def test_more_rows_than_patterns_of_what_is_kept() -> None:
    """Rows that keep different operands are counted as each alone."""
    nest = draws.product_nest(6, 5, 7)
    frame = Frame.of(nest, draws.hierarchy(2))
    rows = [draws.plain(nest, keep) for keep in ("A", "B", "AB", "ABY", "")]
    together = counts(nest, Mappings.of(frame, rows * 3))
    for index, mapping in enumerate(rows * 3):
        alone = counts(nest, Mappings.of(frame, [mapping]))
        assert (alone.reads[0] == together.reads[index]).all()
        assert (alone.writes[0] == together.writes[index]).all()
    assert len(counts(nest, Mappings.of(frame, [])).steps) == 0
