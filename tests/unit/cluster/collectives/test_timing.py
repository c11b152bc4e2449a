"""Times of collectives: the path without events, choices, groups, several at once, what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from accelsim.cluster.collectives import play as play_module
from accelsim.cluster.collectives.algorithms import COLLECTIVES, able
from accelsim.cluster.collectives.algorithms.direct import partners
from accelsim.cluster.collectives.base import Members, messages
from accelsim.cluster.collectives.choice import ALGORITHMS, LIBRARY, Asked, Called, carried_B, library_of, stated
from accelsim.cluster.collectives.software import KINDS as PASSED
from accelsim.cluster.collectives.software import estimate
from accelsim.cluster.collectives.timing import bus_factor, collective, ranked
from accelsim.cluster.network.play import play
from accelsim.errors import UsageError
from accelsim.spec.collectives import Collectives, Host, Protocol
from accelsim.spec.constants import IntervalOf
from accelsim.spec.yaml.clusters import load_cluster
from accelsim.time import FS_PER_S
from tests.helpers.cluster_networks import full, nodes, rails, ring, switch
from tests.helpers.message_graphs import message_graph, side_by_side

NONE = Collectives(title="none")
SOME = Collectives(
    title="some", launch="5 us", protocols={"simple": Protocol(inside="2 us", between="9 us", share=0.8)}
)


def test_a_thousand_devices_need_no_events() -> None:
    found = collective(ring(1024), "all_reduce", 64 << 20, "ring")
    assert found.played == "ring"
    assert found.time_fs == 2046 * (500 * 10**6 + 65536 * 20_000)
    assert found.wire_B.sum() == 1024 * 2046 * 65536


def test_where_it_is_not_exact_events_are_played() -> None:
    """Several messages from one device at once, parts without bytes, a wire on two ways, blocking calls."""
    cases = [
        (full(4), "all_reduce", 64, "direct", 1), (ring(4), "all_reduce", 64, "ring", 2),
        (ring(4), "all_reduce", 3, "ring", 1), (switch(4), "broadcast", 64, "chain", 1),
    ]  # fmt: skip
    for net, kind, size, name, chunks in cases:
        assert collective(net, kind, size, name, chunks=chunks).played == "events", (kind, name)
    twice = collective(ring(6), "all_reduce", 600, "ring", group=(0, 2, 4, 1, 3, 5))
    assert twice.played == "events"


def test_a_ring_in_a_bad_order_shares_wires() -> None:
    good, bad = (collective(ring(6), "all_reduce", 6 << 20, "ring", group) for group in (None, (0, 3, 1, 4, 2, 5)))
    assert bad.time_fs > 1.9 * good.time_fs


def test_auto_is_the_fastest() -> None:
    net = nodes(2, 4)
    for size in (64, 1 << 16, 1 << 26):
        found = ranked(net, "all_reduce", size)
        assert {each.algorithm for each in found} == {each.name for each in able("all_reduce", Members(8, net.groups))}
        assert collective(net, "all_reduce", size).time_fs == found[0].time_fs == min(each.time_fs for each in found)


def test_over_slow_links_between_nodes_hierarchical_wins() -> None:
    times = {each.algorithm: each.time_fs for each in ranked(rails(4, 4), "all_reduce", 1 << 28)}
    assert times["hierarchical"] < times["hierarchical_baseline"]
    assert times["hierarchical"] < times["ring"]


def test_it_is_remembered() -> None:
    assert collective(ring(4), "all_reduce", 100, "ring") is collective(ring(4), "all_reduce", 100, "ring")


def test_a_group_of_one_has_nothing_to_do() -> None:
    found = collective(ring(4), "all_reduce", 100, "ring", group=(2,))
    assert (found.time_fs, found.bus_Bps, found.binding) == (0, 0.0, [])


def test_several_groups_share_the_wires_between_nodes() -> None:
    net = nodes(2, 4)
    groups = [(i, i + 4) for i in range(4)]
    alone = collective(net, "all_reduce", 1 << 20, "ring", groups[0])
    graphs = [message_graph(net, "all_reduce", 1 << 20, "ring", group) for group in groups]
    both = play(net, side_by_side(graphs))
    assert 3 * alone.time_fs < both.time_fs < 5 * alone.time_fs
    assert both.wire_B.sum() == 4 * alone.wire_B.sum()


def test_bus_bandwidth_as_nccl_tests_define_it() -> None:
    assert bus_factor("all_reduce", 8) == pytest.approx(1.75)
    assert {bus_factor(kind, 4) for kind in ("reduce_scatter", "all_gather", "all_to_all")} == {0.75}
    assert {bus_factor(kind, 4) for kind in ("broadcast", "reduce", "send_recv")} == {1.0}
    assert set(PASSED) == {kind for each in COLLECTIVES.values() for kind in each.kinds}


@pytest.mark.parametrize("name", sorted(COLLECTIVES))
def test_bytes_without_playing(name: str) -> None:
    net = nodes(2, 2)
    for kind in COLLECTIVES[name].kinds:
        program = COLLECTIVES[name].rounds(kind, Members(4, net.groups))
        played = play(net, messages(program, 103))
        assert np.array_equal(carried_B(net, program, range(4), 103), played.wire_B)


@pytest.mark.parametrize("name", sorted(COLLECTIVES))
def test_how_many_messages_is_known_before(name: str) -> None:
    """At most so many, but for one of a device to itself."""
    for net in (nodes(2, 4), switch(16), nodes(4, 3)):
        members = Members(net.ranks, net.groups)
        for kind in COLLECTIVES[name].kinds:
            if not COLLECTIVES[name].why_not(kind, members):
                graph = COLLECTIVES[name].build(kind, net.ranks, 100, 4, net.groups)
                assert (graph.source != graph.target).sum() <= COLLECTIVES[name].count(members, 4)


def test_too_many_messages_are_refused_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(play_module, "MOST_PLAYED", 100)
    with pytest.raises(UsageError, match="all_reduce by direct among 12 devices takes 276 messages"):
        collective(full(12), "all_reduce", 1000, "direct")
    assert collective(full(12), "all_reduce", 1200, "ring").played == "ring"
    assert {each.algorithm for each in ranked(ring(24), "all_reduce", 2400, most=60)} == {"ring", "server", "chain"}


def test_the_graph_that_is_played_can_be_had() -> None:
    net = nodes(2, 4)
    graph = message_graph(net, "all_reduce", 1000, "ring", (4, 5, 6))
    assert set(graph.source.tolist()) == {4, 5, 6}
    assert play(net, graph).time_fs == collective(net, "all_reduce", 1000, "ring", (4, 5, 6)).time_fs


def test_the_library_where_it_states_constants() -> None:
    net = nodes(2, 4)
    assert [stated(each) for each in (NONE, SOME)] == [False, True]
    assert Asked(net, NONE, "all_reduce").timed(1 << 20).played != LIBRARY
    found = Asked(net, SOME, "all_reduce").timed(1 << 20)
    assert (found.played, found.protocol) == (LIBRARY, "simple")
    assert found.time_fs == round(estimate(net, SOME, "all_reduce", 1 << 20).time_s * FS_PER_S)
    assert Asked(net, SOME, "all_reduce", "auto").timed(1 << 20).played != LIBRARY
    assert Asked(net, SOME, "all_reduce", group=(3,)).timed(100).time_fs == 0


@pytest.mark.parametrize("kind", PASSED)
def test_no_link_of_the_library_is_busier_than_the_time(kind: str) -> None:
    for net in (nodes(4, 4), rails(2, 4), switch(3), full(5)):
        found = Asked(net, SOME, kind).timed(1 << 26)
        assert found.busy_fs.max() <= found.time_fs
        assert found.energy_J > 0


def test_in_the_switch_each_device_sends_its_buffer_and_one_part() -> None:
    net, size = replace(switch(4), summing=frozenset({4})), 1 << 20
    found = collective(net, "all_reduce", size, "switch")
    assert (found.wire_B == size * 5 // 4).all() and found.played == "switch"
    assert found.time_fs == 2 * net.message_fs(0, 1, 0) + net.occupancy_fs(0, size * 5 // 4)
    assert collective(net, "all_reduce", size).algorithm == "switch"
    for kind, where in (("all_gather", net), ("all_reduce", switch(4))):
        with pytest.raises(UsageError, match=f"{kind} by switch among 4 devices"):
            collective(where, kind, size, "switch")


@pytest.mark.parametrize("name", ["direct", "pairwise"])
def test_an_exchange_over_nodes_takes_what_its_busiest_wire_carries(name: str) -> None:
    """No two messages of a round meet at a card: played and counted times agree, and the library is no faster."""
    net, size = rails(4, 4), 1 << 28
    found = collective(net, "all_to_all", size, name)
    assert found.busy_fs.max() <= found.time_fs <= 1.15 * found.busy_fs.max()
    library = Asked(net, SOME, "all_to_all").timed(size)
    assert library.time_fs > found.busy_fs.max() and (library.wire_B == found.wire_B).all()


def test_partners_of_an_exchange_are_permutations_that_cross_nodes_together() -> None:
    groups = (0, 1, 0, 1, 2, 2)
    table = partners(Members(6, groups))
    node = np.array(groups)
    assert (np.sort(table, axis=1) == np.arange(6)).all() and (np.sort(table, axis=0) == np.arange(6)[:, None]).all()
    crosses = node[table] != node
    assert (crosses.all(axis=1) | ~crosses.any(axis=1)).all() and (table[0] == np.arange(6)).all()
    uneven = partners(Members(3, (0, 0, 1)))
    assert (np.sort(uneven, axis=1) == np.arange(3)).all()


def test_intervals_are_of_collectives_inside_a_node_by_size_and_caller() -> None:
    widths = {"small": 1.2, "all": 1.1, "eager": 1.5}
    library = SOME.model_copy(update={
        "intervals": {name: IntervalOf(factor=factor, rows=9) for name, factor in widths.items()},
        "host": Host(least="20 us"),
    })  # fmt: skip
    for net, size, called, factor in (
        (switch(4), 1 << 10, Called(), 1.2), (switch(4), 1 << 20, Called(), 1.1),
        (switch(4), 1 << 10, Called(eager=True), 1.5), (nodes(2, 4), 1 << 10, Called(), None),
    ):  # fmt: skip
        found = Asked(net, library, "all_reduce", called=called).timed(size)
        assert found.factor == factor
        ends = found.interval_s
        assert ends == (None if factor is None else (found.seconds / factor, found.seconds * factor))


def test_on_other_chips_a_library_has_the_interval_for_such() -> None:
    own, other = load_cluster("dgx-h100"), load_cluster("dgx-a100", ["collectives=collectives/nccl-hopper"])
    assert library_of(own) is own.collectives and "small" in own.collectives.intervals
    found = library_of(other)
    assert found.intervals == {"all": other.collectives.elsewhere}
    assert found.model_copy(update={"intervals": other.collectives.intervals}) == other.collectives


def test_bad_requests() -> None:
    net = ring(4)
    with pytest.raises(UsageError) as told:
        collective(net, "all_reduce", -1, "ring", (0, 0, 9))
    assert [problem.what for problem in told.value.problems] == [
        "no device 9", "-1 bytes", "a group that has a device twice: [0, 0, 9]",
    ]  # fmt: skip
    with pytest.raises(UsageError, match="a group of no device"):
        collective(net, "all_reduce", 1, "ring", ())
    with pytest.raises(UsageError, match="all_reduce by hierarchical among 4 devices; expected several nodes"):
        collective(net, "all_reduce", 1, "hierarchical")
    with pytest.raises(UsageError, match="did you mean 'library'"):
        Asked(net, NONE, "all_reduce", "libary").timed(1)
    assert ALGORITHMS[:2] == (LIBRARY, "auto")


@pytest.mark.parametrize("nbytes", [10**19, 1 << 60, 10**17])
def test_more_bytes_than_a_run_has_time_for(nbytes: int) -> None:
    for algorithm in (LIBRARY, "ring", "auto"):
        with pytest.raises(UsageError, match=r"0 B to 1 EiB|longer than|takes longer"):
            Asked(nodes(2, 4), SOME, "all_reduce", algorithm).timed(nbytes)
