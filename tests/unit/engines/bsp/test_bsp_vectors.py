"""A vector operator by its closed form equals one whose results are dealt by hand."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.engines.bsp.vectors import Job, Operand, dealt, functions, lanes
from tests.helpers.bsp_cases import EDU, units
from tests.validation.oracles.bsp import Exchanged, deal, spread


def spread_out(unit, results, element_B, jobs, operands):
    """Functions whose results lie evenly on all tiles."""
    return functions(unit, dealt(unit, results, lanes(unit, element_B)), element_B, jobs, operands)


def by_hand(unit, results, element_B, slots, sizes):
    """Clocks and bytes of an operator with one operation per result; operands of ``sizes`` elements of 2 bytes."""
    lanes = max(1, unit.vector_width // element_B)
    vectors = [range(first, min(first + lanes, results)) for first in range(0, results, lanes)]
    busy, reads, exchange, sent, received = [], Counter(), 0, 0, 0
    exchanges = [Exchanged() for _ in sizes]
    owners = [spread([(i,) for i in range(size)], range(unit.tiles)) for size in sizes]
    for tile, part in enumerate(deal(range(len(vectors)), unit.tiles)):
        mine = [result for index in part for result in vectors[index]]
        threads = Counter(index % unit.threads for index in range(len(part)))
        busy.append(max(threads.values(), default=0) * slots * unit.threads)
        for size, exchanged in zip(sizes, exchanges, strict=True):
            times = max(1, size // results)
            wanted = {(result * times + i) % size for result in mine for i in range(times)}
            exchanged.received[tile] = len(wanted) * 2
            reads[tile] += len(wanted) * 2
    for size, exchanged, owner in zip(sizes, exchanges, owners, strict=True):
        for i in range(size):
            exchanged.sent[owner[(i,)]] += 2
        exchange += exchanged.clocks(unit)
        sent, received = sent + size * 2, received + sum(exchanged.received.values())
    return {"exchange": exchange, "compute": max(busy), "sent": sent, "received": received,
            "read": sum(reads.values()), "written": results * element_B}  # fmt: skip


@given(units(), st.integers(1, 400), st.integers(1, 8), st.integers(1, 5), st.data())
def test_the_closed_form_equals_results_dealt_by_hand(unit, results, element_B, slots, data):
    size = st.one_of(st.integers(1, results), st.integers(2, 4).map(lambda times: times * results))
    sizes = data.draw(st.lists(size, min_size=1, max_size=2))
    found = spread_out(unit, results, element_B, [Job(slots, results)], [Operand(n, 2) for n in sizes])._asdict()
    expected = by_hand(unit, results, element_B, slots, sizes)
    assert {name: found[name] for name in expected} == expected


def test_what_is_there_is_not_exchanged():
    """64 results of 4 B on 16 tiles: two vectors each, one for each of two threads."""
    found = spread_out(EDU, 64, 4, [Job(3, 64)], [Operand(64, 4, spread=True)])
    assert found.exchange == found.sent == found.received == 0
    assert (found.compute, found.held) == (2 * 3, 4 * 4)


@pytest.mark.parametrize(("operations", "clocks"), [(64, 2), (640, 20)])
def test_a_reduction_is_paced_by_its_operations(operations, clocks):
    """Each tile has four results: operations / 16 of them to do, two in a vector, on two threads."""
    assert spread_out(EDU, 64, 4, [Job(1, operations)], []).compute == clocks
