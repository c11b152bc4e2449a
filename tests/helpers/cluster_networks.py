"""Small networks of devices, for tests of clusters."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import permutations
from typing import Any

from accelsim.cluster.network.topology import Topology, Wire

NS = 10**6
"""Femtoseconds of a nanosecond."""
GBps = 10**9


def topology(name: str, ranks: int, ends: Sequence[tuple[int, int]], **given: Any) -> Topology:
    """Devices and switches joined by equal wires, both directions of each pair in ``ends`` given by the caller.

    ``latency_fs`` and ``rate`` may be lists, one entry per wire; what else is given goes to ``Topology``.
    """
    latency, rate = given.pop("latency_fs", 500 * NS), given.pop("rate", 50 * GBps)
    energy = given.pop("energy_J_per_B", 1e-11)
    latencies = latency if isinstance(latency, list) else [latency] * len(ends)
    rates = rate if isinstance(rate, list) else [rate] * len(ends)
    vertices = max([ranks, *(1 + max(pair) for pair in ends)])
    labels = tuple(f"gpu{v}" if v < ranks else f"switch{v - ranks}" for v in range(vertices))
    wires = tuple(
        Wire(a, b, latency_fs, Fraction(each), energy, "link")
        for (a, b), latency_fs, each in zip(ends, latencies, rates, strict=True)
    )
    return Topology(name, ranks, labels, wires, given.pop("groups", (0,) * ranks), **given)


def ring(ranks: int, **given: Any) -> Topology:
    """Each device joined with both neighbours."""
    ends = [pair for i in range(ranks) for pair in ((i, (i + 1) % ranks), ((i + 1) % ranks, i))]
    return topology(f"ring-{ranks}", ranks, list(dict.fromkeys(ends)), **given)


def switch(ranks: int, **given: Any) -> Topology:
    """All devices on one switch: two hops from each to each."""
    ends = [pair for i in range(ranks) for pair in ((i, ranks), (ranks, i))]
    return topology(f"switch-{ranks}", ranks, ends, **given)


def full(ranks: int, **given: Any) -> Topology:
    """A wire from each device to each."""
    return topology(f"full-{ranks}", ranks, list(permutations(range(ranks), 2)), **given)


def nodes(count: int, per_node: int, **given: Any) -> Topology:
    """Nodes with a switch inside, whose switches meet at one switch with a tenth of the rate."""
    ranks = count * per_node
    inner = [pair for i in range(ranks) for pair in ((i, ranks + i // per_node), (ranks + i // per_node, i))]
    outer = [pair for n in range(count) for pair in ((ranks + n, ranks + count), (ranks + count, ranks + n))]
    rate = [100 * GBps] * len(inner) + [10 * GBps] * len(outer)
    latency = [500 * NS] * len(inner) + [5000 * NS] * len(outer)
    groups = tuple(i // per_node for i in range(ranks))
    return topology(
        f"nodes-{count}x{per_node}", ranks, inner + outer, rate=rate, latency_fs=latency, groups=groups, **given
    )


def rails(count: int, per_node: int, **given: Any) -> Topology:
    """Nodes with a switch inside, and one switch that each device has a port of its own at, a tenth as fast."""
    ranks = count * per_node
    inner = [pair for i in range(ranks) for pair in ((i, ranks + i // per_node), (ranks + i // per_node, i))]
    outer = [pair for i in range(ranks) for pair in ((i, ranks + count), (ranks + count, i))]
    rate = [100 * GBps] * len(inner) + [10 * GBps] * len(outer)
    latency = [500 * NS] * len(inner) + [2500 * NS] * len(outer)
    groups = tuple(i // per_node for i in range(ranks))
    where = Rails(ranks, per_node)
    return topology(
        f"rails-{count}x{per_node}", ranks, inner + outer, rate=rate, latency_fs=latency, groups=groups,
        router=where.route, **given,
    )  # fmt: skip


class Rails:
    """Ways of ``rails``: over the switch of the node where both ends are in it."""

    def __init__(self, ranks: int, per_node: int) -> None:
        self._ranks, self._per_node = ranks, per_node

    def route(self, a: int, b: int) -> list[int]:
        """Two wires."""
        shift = 0 if a // self._per_node == b // self._per_node else 2 * self._ranks
        return [shift + 2 * a, shift + 2 * b + 1]
