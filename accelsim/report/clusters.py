"""Answers about clusters: all of them, what one is made of, a way through one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from accelsim.cluster.network.topology import Topology
from accelsim.cluster.shapes.building import build
from accelsim.cluster.shapes.facts import bisection_Bps, facts
from accelsim.errors import Problem, UsageError, count_of, nearest
from accelsim.report.answer import Answer, Field, Lines, Record, Table, in_unit, records
from accelsim.report.cluster.topology import draw, others_text
from accelsim.report.text import MISSING, si
from accelsim.spec.cluster import ClusterSpec
from accelsim.spec.yaml.clusters import clusters as names
from accelsim.spec.yaml.clusters import load_cluster
from accelsim.spec.yaml.where import listing
from accelsim.time import FS_PER_S

PROBE_B = 1 << 20
"""Bytes of the message whose time is told of a way."""


def _rate(value: float) -> str:
    return si(value or None, "B/s")


def _latency(value: float) -> str:
    return si(value, "s") if value else MISSING


def _size(row: Record) -> str:
    each, rest = divmod(row["devices"], row["nodes"])
    return f"{row['nodes']}, {row['devices']} devices" if rest else f"{row['nodes']} x {each}"


def _chips(chips: list[str]) -> str:
    return ", ".join(chip.partition(" ")[2] for chip in chips)


def _names(names: list[str]) -> str:
    return ", ".join(names) or MISSING


CLUSTERS: tuple[Field, ...] = (
    Field("name", "cluster"),
    Field("title"),
    Field("nodes"),
    Field("devices", "nodes x devices", _size, whole=True),
    Field("chips", "chip", _chips, read=lambda found: [f"{count}x {chip}" for chip, count in found.chips.items()]),
    Field("fabrics", "inside a node", _names, read=lambda found: list(found.fabrics)),
    Field("networks", "between nodes", _names, read=lambda found: list(found.networks)),
    Field("inside_Bps", "per device: inside", _rate, read=lambda found: float(found.inside_Bps)),
    Field("between_Bps", "between", _rate, read=lambda found: float(found.between_Bps)),
    Field("software"),
)
"""Columns about clusters, which are read of ``Facts``."""
WIRES = (
    Field("link", "link"),
    Field("wires", "wires", str),
    Field("rate_Bps", "rate", in_unit("B/s")),
    Field("latency_s", "latency", _latency),
    Field("energy_J_per_B", "energy", lambda value: f"{value * 1e12:.3g} pJ/B"),
)
HOPS: tuple[Field, ...] = (
    Field("from", "from", read=lambda hop: hop[0].labels[hop[1].source]),
    Field("to", "to", read=lambda hop: hop[0].labels[hop[1].target]),
    Field("link", "link", read=lambda hop: hop[1].link),
    Field("rate_Bps", "rate", in_unit("B/s"), read=lambda hop: float(hop[1].rate)),
    Field("latency_s", "latency", _latency, read=lambda hop: hop[1].latency_fs / FS_PER_S),
)
"""Columns about a route, which are read of a topology and one of its wires."""


def clusters(counted: Callable[[Sequence[str]], Iterable[str]] = iter) -> Answer:
    """List all clusters; ``counted`` sees their names, one after the other."""
    rows = listing("clusters", lambda: records(CLUSTERS, (facts(load_cluster(name)) for name in counted(names()))))
    return Answer(rows, [Table(CLUSTERS, rows)], rows)


def made_of(cluster: ClusterSpec) -> Answer:
    """Report a cluster: its row of the table, its bisection bandwidth, and its wires grouped by link and rate."""
    topology = build(cluster)
    sorts: dict[tuple[Any, ...], int] = {}
    for wire in topology.wires:
        key = (wire.link, wire.rate, wire.latency_fs, wire.energy_J_per_B)
        sorts[key] = sorts.get(key, 0) + 1
    wires = [
        {"link": link, "wires": count, "rate_Bps": float(rate), "latency_s": fs / FS_PER_S, "energy_J_per_B": energy}
        for (link, rate, fs, energy), count in sorts.items()
    ]
    told = {
        **records(CLUSTERS, [facts(cluster)])[0],
        "vertices": len(topology.labels),
        "besides": others_text(topology),
        "bisection_Bps": float(bisection_Bps(topology)),
        "forwarding": topology.forwarding,
        "wires": wires,
    }
    inside, between, cut = (_rate(told[key]) for key in ("inside_Bps", "between_Bps", "bisection_Bps"))
    lines = Lines(
        f"{told['name']}: {told['title']}\n"
        f"{count_of(told['nodes'], 'node')}, {count_of(told['devices'], 'device')} ({', '.join(told['chips'])}), "
        f"{told['besides']}, {told['forwarding']}\n"
        f"each device: {inside} inside its node, {between} to other nodes; bisection {cut}\n"
        f"software of collectives: {told['software']}"
    )
    return Answer(told, [lines, Table(WIRES, wires)], wires, {"cluster": partial(draw, topology)})


def way(cluster: ClusterSpec, ends: Sequence[str]) -> Answer:
    """Report the route from one device to another (ranks or labels), and the time of a mebibyte on it.

    Raises UsageError for what is no device, with the nearest label.
    """
    topology = build(cluster)
    a, b = _ranks(topology, ends)
    hops = records(HOPS, ((topology, topology.wires[number]) for number in topology.route(a, b)))
    both, time_s = (topology.labels[a], topology.labels[b]), topology.message_fs(a, b, PROBE_B) / FS_PER_S
    told = {"from": both[0], "to": both[1], "hops": hops, "bytes": PROBE_B, "time_s": time_s}
    line = f"{' to '.join(both)}: {count_of(len(hops), 'wire')}; 1 MiB alone takes {si(time_s, 's')}"
    return Answer(told, [Table(HOPS, hops), Lines(line)], hops, {"cluster": partial(draw, topology)})


def _ranks(topology: Topology, texts: Sequence[str]) -> list[int]:
    devices = topology.labels[: topology.ranks]
    known = {str(rank): rank for rank in range(topology.ranks)} | {name: r for r, name in enumerate(devices)}
    expected = f"0 to {topology.ranks - 1}, or {devices[0]} to {devices[-1]}"
    UsageError.raise_for(
        Problem(f"no device {text!r}", "--routes", expected, nearest(text, devices))
        for text in texts
        if text not in known
    )
    return [known[text] for text in texts]
