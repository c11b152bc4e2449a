"""Collectives on networks of a thousand devices: without events, and messages per second of one core with them.

ASTRA-sim 2.x (C++) took 2.8 s for the ring of 1,024 devices on another machine, 2.1 million messages: an order of
magnitude to compare with, no more. Without the extra ``fast`` (numba) the compiled loop is skipped.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from time import process_time
from typing import Any

import pytest

from accelsim.cluster.collectives.algorithms import COLLECTIVES
from accelsim.cluster.collectives.base import Members, messages
from accelsim.cluster.collectives.play import by_rounds
from accelsim.cluster.network.play import play
from tests.helpers.cluster_networks import nodes, ring, switch

REPEATS = 3
MANY, SIZE_B = 1024, 64 << 20
MOST_RING_S = 0.1
LEAST_PER_S = 300_000
needs_numba = pytest.mark.skipif(
    importlib.util.find_spec("numba") is None, reason="numba (extra fast) is not installed"
)


def least_s(call: Callable[[], Any]) -> float:
    """Least CPU seconds of a few calls."""
    found = float("inf")
    for _ in range(REPEATS):
        start = process_time()
        call()
        found = min(found, process_time() - start)
    return found


def once(benchmark: Any, call: Callable[[], Any]) -> Any:
    """Return what is measured repeats by itself; the benchmark only records how long all of it took."""
    return benchmark.pedantic(call, rounds=1, iterations=1)


@pytest.mark.parametrize("made", ["ring", "nodes of eight"])
def test_a_ring_of_1024(benchmark: Any, figure: Any, made: str) -> None:
    """Network, rounds and routes included."""

    def call() -> None:
        net = ring(MANY) if made == "ring" else nodes(MANY // 8, 8)
        program = COLLECTIVES["ring"].rounds("all_reduce", Members(MANY, net.groups))
        assert by_rounds(net, program, range(MANY), SIZE_B) is not None

    found = once(benchmark, lambda: least_s(call))
    bar = MOST_RING_S if made == "ring" else None
    assert figure(f"all-reduce of 64 MiB, 1,024 devices, {made}, no events", found, " s", bar).holds


@pytest.mark.parametrize("kind", [pytest.param("numba", marks=needs_numba), "python"])
@pytest.mark.parametrize("shape", ["ring", "switch"])
def test_messages_per_second(benchmark: Any, figure: Any, kind: str, shape: str) -> None:
    """One and two hops each."""
    ranks = 512 if kind == "numba" else 96
    net = {"ring": ring, "switch": switch}[shape](ranks)
    graph = COLLECTIVES["ring"].build("all_reduce", ranks, SIZE_B)
    play(net, graph, kind=kind)  # compiles, or loads what was compiled
    found = once(benchmark, lambda: least_s(lambda: play(net, graph, kind=kind))) / len(graph)
    bar = 1e6 / LEAST_PER_S if kind == "numba" else None
    what = f"events, {kind}, {shape}: a message"
    assert figure(what, found * 1e6, " us", bar, f"{1 / found:,.0f} messages/s").holds


@needs_numba
def test_a_ring_of_1024_event_by_event(benchmark: Any, figure: Any) -> None:
    """Its 2.1 million messages built and played."""
    net = ring(MANY)
    program = COLLECTIVES["ring"].rounds("all_reduce", Members(MANY, net.groups))
    play(ring(4), COLLECTIVES["ring"].build("all_reduce", 4, 64), kind="numba")
    start = process_time()
    once(benchmark, lambda: play(net, messages(program, SIZE_B), kind="numba"))
    assert figure("the same event by event, built and played", process_time() - start, " s").holds
