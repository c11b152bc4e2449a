"""Laws of a communication library: bytes, bandwidth, latency, and the order of ranks."""

from __future__ import annotations

from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.cluster.collectives.software import KINDS, estimate, estimates
from accelsim.cluster.network.topology import Topology
from accelsim.cluster.shapes.building import build
from accelsim.spec.collectives import Collectives, Protocol
from accelsim.spec.yaml.clusters import load_cluster

SHARES = st.floats(0.05, 1)
TIMES = st.integers(0, 50)
SIZES = st.integers(1, 2**32)
RANKS = st.sampled_from([(0, 1), (0, 1, 2, 3), tuple(range(8)), (0, 8), tuple(range(16)), (2, 3, 10, 11)])


@cache
def topology() -> Topology:
    return build(load_cluster("2x-dgx-a100"))


def library(share: float, base: int, inside: int, between: int, fill: float = 0.0) -> Collectives:
    protocol = Protocol(share=share, base=f"{base} us", inside=f"{inside} us", between=f"{between} us", fill=fill)
    return Collectives(title="any", source="drawn", as_of="2026-11", protocols={"one": protocol})


@settings(max_examples=60)
@given(st.sampled_from(list(KINDS)), RANKS, SIZES, SHARES, TIMES, TIMES, TIMES, st.floats(0, 4))
def test_more_bytes_or_latency_are_never_faster_and_more_bandwidth_never_slower(
    kind: str, group: tuple[int, ...], nbytes: int, share: float, base: int, inside: int, between: int, fill: float
) -> None:
    group = group[:1] + group[-1:] if kind == "send_recv" else group
    now, more, wider, later = (
        estimate(topology(), software, kind, size, group).time_s
        for software, size in (
            (library(share, base, inside, between, fill), nbytes),
            (library(share, base, inside, between, fill), 2 * nbytes),
            (library(min(1.0, 1.5 * share), base, inside, between, fill), nbytes),
            (library(share, base, inside + 1, between + 1, fill), nbytes),
        )
    )
    assert wider <= now <= min(more, later)


@settings(max_examples=30)
@given(st.sampled_from(["all_reduce", "all_gather"]), SIZES, st.permutations(range(8)), SHARES, TIMES)
def test_the_order_of_ranks_on_one_switch_changes_nothing(
    kind: str, nbytes: int, order: list[int], share: float, inside: int
) -> None:
    one, other = (
        estimate(topology(), library(share, 1, inside, 0), kind, nbytes, group)
        for group in (tuple(range(8)), tuple(order))
    )
    assert (one.time_s, one.energy_J) == (other.time_s, other.energy_J)


@settings(max_examples=30)
@given(RANKS, st.integers(2**20, 2**32), SHARES)
def test_no_link_passes_more_than_its_rate(group: tuple[int, ...], nbytes: int, share: float) -> None:
    most = max(float(wire.rate) for wire in topology().wires) * (1 + 1e-9)
    for found in estimates(topology(), library(share, 0, 0, 0), "all_reduce", nbytes, group):
        assert found.bus_Bps <= most or found.algorithm != "ring"
