"""Closed forms of collectives against the events, exact, and what follows from them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from accelsim.cluster.collectives.algorithms import COLLECTIVES
from accelsim.cluster.collectives.timing import best_chunks, collective
from accelsim.errors import UsageError
from accelsim.time import FS_PER_S
from tests.helpers.closed_collectives import CLOSED, SENT, closed_s, crossover_B, hierarchical_s
from tests.helpers.cluster_networks import NS, full, rails, ring, switch

ALPHA, BETA = Fraction(1, 10**6), Fraction(50 * 10**9)
"""Of the networks here: two hops of 500 ns, or one of 1 us."""
SIZE = 360_360 * 50
"""Bytes that all numbers of devices up to 15 divide, and so that their times are whole femtoseconds."""
ONLY_POWERS = ("halving_doubling", "recursive_doubling")


def network(algorithm: str, ranks: int) -> Any:
    """A port each, or one per neighbour."""
    return ring(ranks, latency_fs=1000 * NS) if algorithm == "chain" else switch(ranks)


@pytest.mark.parametrize(("kind", "algorithm"), CLOSED)
def test_the_events_give_the_closed_form(kind: str, algorithm: str) -> None:
    powers = algorithm in ONLY_POWERS or (kind, algorithm) == ("reduce", "binomial")
    for ranks in (2, 4, 8, 16) if powers else (1, 2, 3, 5, 8, 9):
        for chunks in (1, 4) if algorithm == "chain" else (1,):
            size = SIZE * ranks if ranks == 16 else SIZE
            got = collective(network(algorithm, ranks), kind, size, algorithm, chunks=chunks).time_fs
            assert got == closed_s(kind, algorithm, ranks, size, ALPHA, BETA, chunks) * FS_PER_S, (ranks, chunks)


@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter", "all_gather"])
def test_a_ring_of_wires_gives_it_too(kind: str) -> None:
    got = collective(ring(7, latency_fs=1000 * NS), kind, SIZE, "ring").time_fs
    assert got == closed_s(kind, "ring", 7, SIZE, ALPHA, BETA) * FS_PER_S


@pytest.mark.parametrize("name", ONLY_POWERS)
@pytest.mark.parametrize("ranks", [3, 6, 7])
def test_those_that_fold_in_cost_two_more_messages_at_most(name: str, ranks: int) -> None:
    power = 1 << (ranks.bit_length() - 1)
    alone = closed_s("all_reduce", name, power, SIZE, ALPHA, BETA)
    got = Fraction(collective(switch(ranks), "all_reduce", SIZE, name).time_fs, FS_PER_S)
    assert alone < got <= alone + 2 * (ALPHA + SIZE / BETA)


def test_hierarchical() -> None:
    got = collective(rails(3, 4), "all_reduce", 12 * 10**6, "hierarchical").time_fs
    inside, between = (ALPHA, Fraction(100 * 10**9)), (5 * ALPHA, Fraction(10**10))
    assert got == hierarchical_s(4, 3, 12 * 10**6, inside, between) * FS_PER_S


def test_from_the_crossover_on_the_ring_is_faster() -> None:
    at = crossover_B(8, ALPHA, BETA)
    assert at == ALPHA * BETA * Fraction(44, 5)
    for size, faster in ((int(at) // 8 * 8 - 80, "recursive_doubling"), (int(at) // 8 * 8 + 80, "ring")):
        times = {name: collective(switch(8), "all_reduce", size, name).time_fs for name in ("ring", ONLY_POWERS[1])}
        assert min(times, key=lambda name: times[name]) == faster


def test_the_best_number_of_chunks_is_near_the_root() -> None:
    net = ring(10, latency_fs=1000 * NS)
    best = best_chunks(net, SIZE, range(10))
    assert best in (32, 64)
    times = {q: collective(net, "broadcast", SIZE, "chain", chunks=q).time_fs for q in (1, best // 8, best, best * 8)}
    assert min(times, key=lambda q: times[q]) == best


@pytest.mark.parametrize(("kind", "algorithm"), SENT)
def test_bytes_that_each_device_sends(kind: str, algorithm: str) -> None:
    for ranks in (2, 4, 8):
        graph = COLLECTIVES[algorithm].build(kind, ranks, 840)
        away = graph.source != graph.target
        sent = np.bincount(graph.source[away], graph.nbytes[away], ranks)
        assert set(sent) == {float(840 * SENT[kind, algorithm](ranks))}


def test_all_to_all_on_a_ring_of_wires_takes_what_its_wires_allow() -> None:
    """S n / 8 bytes cross each wire, both directions used, and no time can be less."""
    for ranks in (4, 8):
        found = collective(ring(ranks), "all_to_all", 8000 * ranks, "direct")
        ways = found.wire_B.sum() / len(found.wire_B)
        assert ways == 8000 * ranks * ranks / 8
        assert found.time_fs >= 8000 * ranks * ranks / 8 / float(BETA) * FS_PER_S


def test_bus_bandwidth_of_a_large_buffer_is_that_of_a_port() -> None:
    found = collective(full(8), "all_reduce", 8 * 10**12, "ring")
    assert found.bus_Bps == pytest.approx(float(BETA), rel=1e-4)


def test_what_has_no_closed_form_is_refused() -> None:
    with pytest.raises(UsageError, match="no closed form of all_reduce by tree"):
        closed_s("all_reduce", "tree", 8, 1, ALPHA, BETA)
    with pytest.raises(UsageError, match="no closed form among 6 devices"):
        closed_s("all_reduce", "halving_doubling", 6, 1, ALPHA, BETA)
    with pytest.raises(UsageError, match="6 devices"):
        crossover_B(6, ALPHA, BETA)
