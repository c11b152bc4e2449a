"""Messages on wires: examples worked out by hand, the order in which a wire is given, both kernels, what is refused."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from accelsim.cluster.collectives.algorithms import COLLECTIVES
from accelsim.cluster.network.play import play
from accelsim.errors import UsageError
from tests.helpers.cluster_networks import NS, full, nodes, ring, switch, topology
from tests.helpers.message_graphs import plain_messages, side_by_side

BUSY = 20 * NS
"""Of 1,000 bytes on a wire of 50 GB/s."""
HOP = 500 * NS


def test_messages_of_one_wire_follow_each_other() -> None:
    """Latency is no occupancy: the second begins as soon as the bytes of the first have left."""
    played = play(full(2), plain_messages([0, 0, 0], [1, 1, 1], [1000] * 3))
    assert played.start_fs.tolist() == [0, BUSY, 2 * BUSY]
    assert played.end_fs.tolist() == [HOP + BUSY * k for k in (1, 2, 3)]
    assert played.busy_fs.tolist() == [3 * BUSY, 0]
    assert played.finish_fs.tolist() == [HOP + 3 * BUSY] * 2


def test_directions_are_apart() -> None:
    played = play(full(2), plain_messages([0, 1], [1, 0], [1000, 1000]))
    assert played.end_fs.tolist() == [HOP + BUSY] * 2


def test_cut_through_shares_the_switch() -> None:
    """Two senders, one receiver: the second message waits at the last wire, where the first occupies it."""
    played = play(switch(3), plain_messages([0, 1], [2, 2], [1000, 1000]))
    assert played.start_fs.tolist() == [0, 0]
    assert played.end_fs.tolist() == [2 * HOP + BUSY, 2 * HOP + 2 * BUSY]


def test_store_and_forward_waits_for_all_of_it() -> None:
    net = switch(3, forwarding="store-and-forward")
    played = play(net, plain_messages([0], [2], [1000]))
    assert played.end_fs.tolist() == [2 * (HOP + BUSY)]


def test_the_end_cannot_pass_a_slow_first_wire() -> None:
    """A fast wire behind a slow one: the end of the message comes when the slow one has let it go."""
    net = topology("slow-fast", 2, [(0, 2), (2, 1)], rate=[10**9, 10**12], latency_fs=HOP)
    played = play(net, plain_messages([0], [1], [1000]))
    assert played.end_fs.tolist() == [net.message_fs(0, 1, 1000)] == [2 * HOP + 1000 * NS]


def test_a_message_waits_for_those_before_it() -> None:
    graph = plain_messages([0, 1, 2], [1, 2, 0], [1000, 2000, 0], [[], [0], [0, 1]])
    played = play(full(3), graph)
    assert played.end_fs.tolist() == [HOP + BUSY, 2 * HOP + 3 * BUSY, 3 * HOP + 3 * BUSY]


def test_overhead_comes_before_each_message() -> None:
    graph = plain_messages([0, 0, 1], [1, 1, 0], [1000, 1000, 1000], [[], [], [1]])
    played = play(full(2, overhead_fs=100), graph)
    assert played.start_fs.tolist() == [100, 100 + BUSY, 200 + HOP + 2 * BUSY]


def test_at_one_instant_the_lower_number_goes_first() -> None:
    played = play(switch(4), plain_messages([2, 1, 0], [3, 3, 3], [1000] * 3))
    assert played.end_fs.argsort().tolist() == [0, 1, 2]


def test_who_comes_first_goes_first() -> None:
    """Message 1 is at the last wire before message 0, which the low number does not help."""
    net = topology("near-far", 3, [(0, 3), (3, 4), (4, 2), (1, 4)], latency_fs=HOP)
    played = play(net, plain_messages([0, 1], [2, 2], [10**6, 10**6]))
    assert played.end_fs[1] < played.end_fs[0]


def test_to_itself_a_message_takes_no_time() -> None:
    graph = plain_messages([0, 1, 1], [1, 1, 0], [1000, 9, 1000], [[], [0], [1]])
    played = play(full(2, overhead_fs=3), graph)
    assert played.start_fs[1] == played.end_fs[1] == played.end_fs[0]
    assert played.wire_B.tolist() == [1000, 1000]


def test_nothing_takes_no_time() -> None:
    played = play(full(2), plain_messages([], [], []))
    assert played.time_fs == 0
    assert played.energy_J == 0


def test_energy_is_bytes_times_that_of_each_hop() -> None:
    played = play(switch(3), plain_messages([0, 1], [1, 2], [1000, 500]))
    assert played.energy_J == pytest.approx(2 * 1500 * 1e-11, rel=1e-9, abs=0)
    assert played.busy_fs.max() == BUSY


def test_side_by_side_nobody_waits_for_the_other() -> None:
    one = plain_messages([0, 1], [1, 2], [1000, 1000], [[], [0]])
    both = side_by_side([one, one.on([3, 4, 5])])
    played = play(full(6), both)
    assert played.end_fs.tolist() == [HOP + BUSY, 2 * (HOP + BUSY)] * 2


def test_messages_that_wait_for_each_other_are_refused() -> None:
    with pytest.raises(UsageError, match="waits for messages that wait for it"):
        play(full(2), plain_messages([0, 1], [1, 0], [1, 1], [[1], [0]]))


def test_what_takes_too_long_is_refused() -> None:
    slow = full(2, rate=1)
    with pytest.raises(UsageError, match="longer than 1,153 s"):
        play(slow, plain_messages([0], [1], [2000]))
    with pytest.raises(UsageError, match="longer than 4,611 s"):
        play(slow, plain_messages([0] * 6, [1] * 6, [1000] * 6, [[], *([k] for k in range(5))]))


@pytest.mark.xdist_group("compiled")
@pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="numba (extra fast) is not installed")
@pytest.mark.parametrize("forwarding", ["cut-through", "store-and-forward"])
def test_the_compiled_loop_gives_the_same(forwarding: str) -> None:
    for net, name in ((ring(6, forwarding=forwarding), "direct"), (nodes(2, 4, forwarding=forwarding), "tree")):
        graph = COLLECTIVES[name].build("all_reduce", net.ranks, 100_003, 3, net.groups)
        plain, compiled = (play(net, graph, kind=kind) for kind in ("python", "numba"))
        for column in ("start_fs", "end_fs", "busy_fs", "wire_B", "finish_fs"):
            assert np.array_equal(getattr(plain, column), getattr(compiled, column)), column
