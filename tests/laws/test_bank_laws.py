"""Laws of bank conflicts, against banks that are simulated clock by clock and word by word."""

from __future__ import annotations

from collections import Counter, deque

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from accelsim.sram.banks import INTERLEAVES, Banking, conflicts, degrees
from accelsim.sram.patterns import IDLE, Pattern, accumulate, feed, im2col, strided
from tests.helpers.sram_banks import strided_clocks

sizes = st.integers(1, 12)
bankings = st.builds(
    Banking,
    st.sampled_from([1, 2, 4, 8, 16]),
    st.sampled_from([4, 8, 16]),
    st.integers(1, 3),
    st.sampled_from(sorted(INTERLEAVES)),
    st.integers(1, 9),
)
feeds = st.builds(
    lambda dataflow, rows, length, stride, element, skewed: feed(
        dataflow, rows, length, stride * element, element, skewed=skewed
    ),
    st.sampled_from(["ws", "os", "is"]), sizes, st.integers(1, 20), st.integers(0, 40), st.sampled_from([1, 2, 4]),
    st.booleans(),
)  # fmt: skip
slabs = st.builds(
    lambda rows, size, channels, kernel, stride: im2col(
        rows, size + kernel, size + kernel, channels, kernel, stride
    ),
    sizes, st.integers(0, 4), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3),
)  # fmt: skip
sums = st.builds(
    lambda cols, length, stride, latency: accumulate(cols, length, 4 * stride, 4, latency=latency),
    sizes, st.integers(1, 20), st.integers(0, 20), st.integers(1, 3),
)  # fmt: skip


def bank_of(word: int, banking: Banking) -> int:
    """The bank of a word, from the words of the documentation."""
    if banking.interleave == "row":
        return (word // banking.row_words) % banking.banks
    low = word % banking.banks
    return low ^ (word // banking.banks % banking.banks) if banking.interleave == "xor" else low


def clock_by_clock(pattern: Pattern, banking: Banking) -> list[int]:
    """Clocks that each clock of the array takes: queues in front of banks that serve ``ports`` a clock."""
    taken = []
    for lanes in pattern.at(np.arange(pattern.clocks)).tolist():
        asked = {
            (address // banking.word_B, bool(write))
            for address, write in zip(lanes, pattern.writes, strict=True)
            if address != IDLE
        }
        queues = [deque() for _ in range(banking.banks)]  # type: ignore[var-annotated]
        for access in sorted(asked):
            queues[bank_of(access[0], banking)].append(access)
        clocks = 0
        while clocks == 0 or any(queues):
            clocks += 1
            for queue in queues:
                for _ in range(min(banking.ports, len(queue))):
                    queue.popleft()
        taken.append(clocks)
    return taken


@given(st.one_of(feeds, slabs, sums), bankings)
def test_conflicts_are_those_of_queues(pattern: Pattern, banking: Banking) -> None:
    expected = clock_by_clock(pattern, banking)
    found = conflicts(pattern, banking)
    assert degrees(pattern, banking)[0].tolist() == expected
    assert found.degrees == dict(Counter(expected))
    assert found.taken == sum(expected)
    assert found.slowdown >= 1


@given(
    st.integers(1, 40), st.integers(0, 100), st.integers(1, 33), st.integers(1, 4), st.integers(0, 7), st.integers(1, 5)
)
def test_strided_accesses_follow_the_greatest_common_divisor(
    lanes: int, stride: int, banks: int, ports: int, step: int, clocks: int
) -> None:
    pattern = strided(lanes, 4 * stride, clocks, 4 * step, 4)
    expected = clock_by_clock(pattern, Banking(banks, 4, ports))
    assert expected == [strided_clocks(lanes, stride, banks, ports)] * clocks


@given(st.one_of(feeds, slabs, sums), bankings)
def test_more_ports_never_slow_down(pattern: Pattern, banking: Banking) -> None:
    more = Banking(banking.banks, banking.word_B, banking.ports + 1, banking.interleave, banking.row_words)
    assert conflicts(pattern, more).taken <= conflicts(pattern, banking).taken
    assert conflicts(pattern, more).words == conflicts(pattern, banking).words


@given(st.one_of(feeds, slabs, sums), st.sampled_from([1, 2, 4, 8]), st.integers(1, 2))
def test_twice_the_banks_never_slow_down(pattern: Pattern, banks: int, ports: int) -> None:
    """With 'low' each bank of the many holds part of one of the few."""
    few, many = Banking(banks, 4, ports), Banking(2 * banks, 4, ports)
    assert conflicts(pattern, many).taken <= conflicts(pattern, few).taken
