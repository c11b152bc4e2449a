"""Networks of clusters and collectives on them: nothing is lost, nothing is too fast, no better link makes it slower."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from accelsim.cluster.collectives.algorithms import COLLECTIVES
from accelsim.cluster.collectives.base import Members, messages
from accelsim.cluster.collectives.play import by_rounds
from accelsim.cluster.collectives.timing import collective
from accelsim.cluster.network.play import MessageGraph, Played, play
from accelsim.cluster.network.topology import Topology
from tests.helpers.cluster_networks import full, nodes, rails, ring, switch
from tests.helpers.collective_data import part, run_collective
from tests.helpers.message_graphs import message_graph

QUICK = settings(max_examples=40)
CASES = [(kind, each.name) for each in COLLECTIVES.values() for kind in each.kinds]
LIMIT = Fraction(1, 10**15)


@st.composite
def networks(draw: st.DrawFn) -> Topology:
    """Rings, switches, full meshes and nodes, with wires of different latencies and rates."""
    shape = draw(st.sampled_from([ring, switch, full]))
    net = shape(draw(st.integers(2, 6))) if draw(st.booleans()) else draw(st.sampled_from([nodes(2, 3), rails(3, 2)]))
    odd = draw(st.lists(st.integers(1, 40), min_size=len(net.wires), max_size=len(net.wires)))
    if draw(st.booleans()):
        wires = [
            wire._replace(rate=wire.rate / each, latency_fs=wire.latency_fs * each + each)
            for wire, each in zip(net.wires, odd, strict=True)
        ]
        net = replace(net, wires=tuple(wires))
    forwarding = draw(st.sampled_from(["cut-through", "store-and-forward"]))
    return replace(net, forwarding=forwarding, overhead_fs=draw(st.integers(0, 10**9)))


@st.composite
def played(draw: st.DrawFn) -> tuple[Topology, MessageGraph, Played]:
    """A collective by any algorithm that can do it on any network."""
    net, (kind, name) = draw(networks()), draw(st.sampled_from(CASES))
    members = Members(net.ranks, net.groups)
    assume(not COLLECTIVES[name].why_not(kind, members))
    graph = message_graph(net, kind, draw(st.integers(0, 10**6)), name, range(net.ranks), draw(st.integers(1, 3)))
    return net, graph, play(net, graph)


@QUICK
@given(played())
def test_bytes_are_conserved_on_every_wire(case: tuple[Topology, MessageGraph, Played]) -> None:
    net, graph, done = case
    crossed = np.zeros(len(net.wires), np.int64)
    for source, target, nbytes in zip(graph.source, graph.target, graph.nbytes, strict=True):
        crossed[list(net.route(int(source), int(target)))] += nbytes
    assert np.array_equal(done.wire_B, crossed)
    assert done.energy_J >= 0


@QUICK
@given(played())
def test_no_wire_is_above_its_rate(case: tuple[Topology, MessageGraph, Played]) -> None:
    net, graph, done = case
    assert (done.busy_fs <= done.time_fs).all()
    for wire, (busy, nbytes) in enumerate(zip(done.busy_fs.tolist(), done.wire_B.tolist(), strict=True)):
        assert abs(busy * LIMIT - nbytes / net.wires[wire].rate) < (len(graph) + 1) * LIMIT


@QUICK
@given(played())
def test_no_message_is_faster_than_alone_or_before_what_it_waits_for(
    case: tuple[Topology, MessageGraph, Played],
) -> None:
    net, graph, done = case
    for m in range(len(graph)):
        a, b, nbytes = int(graph.source[m]), int(graph.target[m]), int(graph.nbytes[m])
        before = done.end_fs[graph.needs[graph.needs_start[m] : graph.needs_start[m + 1]]].max(initial=0)
        own = net.overhead_fs if a != b else 0
        assert done.start_fs[m] >= before + own
        assert done.end_fs[m] - done.start_fs[m] + own >= net.message_fs(a, b, nbytes)


@QUICK
@given(networks(), st.sampled_from(["all_reduce", "reduce_scatter", "all_gather"]), st.integers(0, 10**5), st.data())
def test_without_events_a_ring_takes_the_same(net: Topology, kind: str, nbytes: int, data: st.DataObject) -> None:
    group = data.draw(st.permutations(range(net.ranks)))[: data.draw(st.integers(1, net.ranks))]
    program = COLLECTIVES["ring"].rounds(kind, Members(len(group), (0,) * len(group)))
    fast = by_rounds(net, program, group, nbytes)
    assume(fast is not None)
    assert fast is not None
    slow = play(net, messages(program, nbytes).on(group))
    for column in ("finish_fs", "busy_fs", "wire_B"):
        assert np.array_equal(getattr(fast, column), getattr(slow, column)), column


@QUICK
@given(played(), st.integers(2, 9), st.booleans())
def test_better_links_everywhere_never_slow_a_ring_or_a_message_down(
    case: tuple[Topology, MessageGraph, Played], factor: int, quicker: bool
) -> None:
    """All links ``factor`` times as fast, or with so much less latency: no graph takes longer, none gains more."""
    net, graph, done = case
    wires = [
        wire._replace(latency_fs=wire.latency_fs // factor) if quicker else wire._replace(rate=wire.rate * factor)
        for wire in net.wires
    ]
    better = play(replace(net, wires=tuple(wires)), graph)
    assert better.time_fs <= done.time_fs
    assert (better.time_fs + len(graph)) * factor + len(graph) >= done.time_fs - net.overhead_fs * len(graph)


@QUICK
@given(st.sampled_from(CASES), st.integers(2, 7), st.integers(1, 10**6), st.data())
def test_permuting_the_devices_of_a_symmetric_cluster_changes_nothing(
    case: tuple[str, str], ranks: int, nbytes: int, data: st.DataObject
) -> None:
    kind, name = case
    net = data.draw(st.sampled_from([switch(ranks), full(ranks)]))
    assume(not COLLECTIVES[name].why_not(kind, Members(ranks, net.groups)))
    order = data.draw(st.permutations(range(ranks)))
    plain, other = (collective(net, kind, nbytes, name, group) for group in (None, order))
    assert plain.time_fs == other.time_fs
    assert sorted(plain.wire_B) == sorted(other.wire_B)
    assert plain.finish_fs.tolist() == other.finish_fs[list(order)].tolist()


@settings(max_examples=60)
@given(st.sampled_from(CASES), st.integers(1, 9), st.integers(1, 3), st.integers(0, 60), st.integers(1, 4), st.data())
def test_data_of_every_collective(
    case: tuple[str, str], ranks: int, per_node: int, elements: int, chunks: int, data: st.DataObject
) -> None:
    """Of sizes that devices and chunks do not divide too."""
    kind, name = case
    groups = tuple(i // per_node for i in range(ranks))
    assume(not COLLECTIVES[name].why_not(kind, Members(ranks, groups)))
    size = elements * ranks if kind == "all_to_all" else elements
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    held = list(random.integers(-9, 9, (ranks, size)))
    got = run_collective(kind, name, held, chunks, groups)
    total, own = np.sum(held, 0), [part(i, ranks, size) for i in range(ranks)]
    if kind == "all_reduce":
        assert all((each == total).all() for each in got)
    if kind == "reduce":
        assert (got[0] == total).all()
    if kind == "broadcast":
        assert all((each == held[0]).all() for each in got)
    if kind == "reduce_scatter":
        assert all((got[i][each] == total[each]).all() for i, each in enumerate(own))
    if kind == "all_gather":
        assert all((each[place] == held[i][place]).all() for each in got for i, place in enumerate(own))
    if kind == "all_to_all":
        assert all((got[i][own[j]] == held[j][own[i]]).all() for i in range(ranks) for j in range(ranks))
    if kind == "send_recv":
        assert all((got[i + 1] == held[i]).all() for i in range(ranks - 1))


@QUICK
@given(played())
def test_the_same_messages_take_the_same(case: tuple[Topology, MessageGraph, Played]) -> None:
    net, graph, done = case
    again = play(net, graph)
    assert done.end_fs.tobytes() == again.end_fs.tobytes()
