"""Kernels of several streams share multiprocessors as the rules say, clock by clock."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.engines.simt.sharing import Sharing
from accelsim.time import Clock
from tests.helpers.sharing_oracle import Asked, Piece, ends

COUNT = 8


def simulated(queues: Sequence[Sequence[Asked]], spacing: int, count: int = COUNT) -> dict[int, int]:
    """Number of each kernel -> the edge at which its last piece is done."""
    env, clock, found = simpy.Environment(), Clock(1e9), dict[int, int]()
    sharing = Sharing(env, clock, count, spacing)

    def stream(queue: Sequence[Asked]) -> Generator[simpy.Event, Any, None]:
        last = 0
        for kernel in queue:
            yield env.timeout(clock.at(last + 1) - env.now)
            last = yield from sharing.launch(kernel.number, kernel.width, kernel.launch, last + 1)
            for piece in kernel.pieces:
                yield env.timeout(clock.at(last + 1) - env.now)
                last = yield from sharing.work(kernel.number, piece.wants, piece.clocks, last + 1)
            sharing.end(kernel.number, last)
            found[kernel.number] = last

    for queue in queues:
        env.process(stream(queue))
    env.run()
    return found


@st.composite
def streams(draw: st.DrawFn) -> list[list[Asked]]:
    """Kernels dealt to streams, numbers in the order in which they are asked for."""
    queues: list[list[Asked]] = [[] for _ in range(draw(st.integers(1, 4)))]
    for number in range(draw(st.integers(1, 9))):
        width = draw(st.integers(1, COUNT))
        pieces = st.builds(Piece, st.integers(1, width), st.integers(1, 12))
        kernel = Asked(number, width, draw(st.integers(1, 6)), tuple(draw(st.lists(pieces, min_size=1, max_size=4))))
        queues[draw(st.integers(0, len(queues) - 1))].append(kernel)
    return queues


@settings(max_examples=400)
@given(streams(), st.integers(1, 5))
def test_they_end_as_clock_by_clock(queues: list[list[Asked]], spacing: int) -> None:
    assert simulated(queues, spacing) == ends(queues, COUNT, spacing)


@given(streams(), st.integers(1, 5))
def test_more_multiprocessors_than_all_want_leave_only_launches_to_wait_for(
    queues: list[list[Asked]], spacing: int
) -> None:
    alone = [simulated([queue], spacing) for queue in queues]
    beside = simulated(queues, 1, COUNT * len(queues))
    for found in alone:
        for number, end in found.items():
            assert end <= beside[number] <= end + sum(map(len, queues))


@given(streams())
def test_no_kernel_is_done_before_its_work_is(queues: list[list[Asked]]) -> None:
    found = simulated(queues, 1)
    work = sum(piece.wants * (piece.clocks - 1) for queue in queues for each in queue for piece in each.pieces)
    assert COUNT * max(found.values()) >= work
    for queue in queues:
        done = 0
        for kernel in queue:
            done += kernel.launch + sum(piece.clocks for piece in kernel.pieces)
            assert found[kernel.number] >= done


def test_one_that_fills_the_chip_runs_as_alone_and_the_next_behind_it() -> None:
    wide = [Asked(number, COUNT, 3, (Piece(COUNT, 10),)) for number in range(2)]
    assert simulated([[wide[0]], [wide[1]]], 1) == {0: 13, 1: 13 + 1 + 9}, "its launch waits, then ten clocks"


def test_two_halves_run_side_by_side() -> None:
    half = [Asked(number, COUNT // 2, 3, (Piece(COUNT // 2, 10),)) for number in range(2)]
    assert simulated([[half[0]], [half[1]]], 1) == {0: 13, 1: 14}


def test_of_two_that_come_at_one_edge_only_the_first_takes_what_is_left() -> None:
    """Also where its launch takes a single clock and so ends at the instant at which it was asked for."""
    before = [Asked(0, 5, 3, (Piece(3, 4),)), Asked(1, 7, 1, (Piece(2, 10),))]
    beside = [[Asked(3, 4, 4, (Piece(1, 4),))], [Asked(2, 7, 5, (Piece(2, 5),))]]
    assert simulated([before, *beside], 2) == {0: 7, 2: 12, 3: 12 + 4, 1: 20}
