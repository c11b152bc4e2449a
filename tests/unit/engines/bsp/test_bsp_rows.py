"""Functions of rows: who shares a row, and what these tell each other, counted tile by tile."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.engines.bsp import lower
from accelsim.engines.bsp.supersteps import Figures
from accelsim.engines.bsp.vectors import Job, Operand, dealt, functions, lanes
from accelsim.workload.graph import Node
from tests.helpers.bsp_cases import EDU, units


def told(unit, shares, row):
    """Bytes that each tile sends and receives of the rows that it shares with others."""
    tiles_of, at = defaultdict(set), 0
    for tile, share in enumerate(shares):
        for element in range(at, at + int(share)):
            tiles_of[element // row].add(tile)
        at += int(share)
    sent, received = defaultdict(int), defaultdict(int)
    for tiles in tiles_of.values():
        for tile in tiles if len(tiles) > 1 else ():
            sent[tile] += lower.STATISTICS_B
            received[tile] += (len(tiles) - 1) * lower.STATISTICS_B
    return sent, received


@given(units(), st.integers(1, 12), st.integers(1, 40), st.integers(1, 4))
def test_rows_meet_as_counted_tile_by_tile(unit, count, row, element_B):
    results = count * row
    jobs, operands = [Job(1, 5 * results)], [Operand(results, element_B)]
    found, shares = lower.supersteps(unit, results, row, element_B, jobs, operands)
    assert shares.sum() == results and len(found) <= 2
    even = dealt(unit, results, lanes(unit, element_B))
    sent, received = told(unit, even, row)
    parted = functions(unit, even, element_B, jobs, operands)
    if not received:
        assert found == [parted._replace(sync=unit.sync)]
        return
    words = max(-(-max(sent.values()) // unit.send_width), -(-max(received.values()) // unit.receive_width))
    vectors = -(-max(received.values()) // unit.vector_width)
    adding = -(-vectors // unit.threads) * unit.threads
    whole = functions(unit, dealt(unit, results, row), element_B, jobs, operands)
    both = parted.clocks + unit.sync + words + adding
    assert sum(each.clocks for each in found) == unit.sync + min(both, whole.clocks)
    if len(found) == 2:
        assert found[1][:5] == (unit.sync, words, adding, sum(sent.values()), sum(received.values()))
    else:
        assert not any(share % row for share in shares.tolist())


def test_long_rows_on_many_tiles_are_parted():
    """One row of 6,400 on 16 tiles: whole it would be one tile's."""
    found, shares = lower.supersteps(EDU, 6400, 6400, 4, [Job(1, 6400)], [Operand(6400, 4, spread=True)])
    assert set(shares) == {400}
    assert found[0].compute == 2 * 100 and found[1] == Figures(
        10, 15 * 8 // 4, 2 * 8, 16 * 8, 16 * 15 * 8, 16 * 16 * 8, 16 * 8, 16 * 8
    )


@pytest.mark.parametrize(
    ("op", "attrs", "row"),
    [
        ("Softmax", {"axis": 1}, 3),
        ("LogSoftmax", {"axis": -1, "flatten_from": 2}, 20),
        ("LayerNormalization", {"axis": -2}, 20),
        ("RMSNormalization", {"axis": -1}, 5),
        ("InstanceNormalization", {}, 20),
        ("GroupNormalization", {"num_groups": 3}, 20),
        ("BatchNormalization", {}, 1),
        ("LRN", {"size": 5}, 1),
    ],
)
def test_rows_of_each_function(op, attrs, row):
    assert lower.row_length(Node("n", op, ["x"], ["y"], attrs), (2, 3, 4, 5)) == row
    assert np.prod((2, 3, 4, 5)) % row == 0


def test_figures_of_two_computations_add_up_from_nothing() -> None:
    found = Figures(*range(1, 9))
    assert Figures().and_then(found) == found
    assert found.and_then(found) == Figures(*range(2, 18, 2))
