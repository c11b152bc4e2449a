"""Answers about clusters: all of them, what one is made of, a way through one."""

from __future__ import annotations

from functools import partial
from typing import Any

from accelsim.cluster.network.topology import Topology
from accelsim.cluster.shapes.facts import Facts, bisection_Bps, facts
from accelsim.errors import count_of
from accelsim.report.answer import Answer, Field, Lines, Record, Table, in_unit
from accelsim.report.cluster.topology import draw, others_text
from accelsim.report.text import MISSING, si
from accelsim.spec.cluster import ClusterSpec
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


CLUSTERS = (
    Field("name", "cluster"),
    Field("devices", "nodes x devices", _size, whole=True),
    Field("chips", "chip", _chips),
    Field("fabrics", "inside a node", _names),
    Field("networks", "between nodes", _names),
    Field("inside_Bps", "per device: inside", _rate),
    Field("between_Bps", "between", _rate),
)
WIRES = (
    Field("link", "link"),
    Field("wires", "wires", str),
    Field("rate_Bps", "rate", in_unit("B/s")),
    Field("latency_s", "latency", _latency),
    Field("energy_J_per_B", "energy", lambda value: f"{value * 1e12:.3g} pJ/B"),
)
HOPS = (
    Field("from", "from"),
    Field("to", "to"),
    Field("link", "link"),
    Field("rate_Bps", "rate", in_unit("B/s")),
    Field("latency_s", "latency", _latency),
)


def record(found: Facts) -> dict[str, Any]:
    """Return the record of a cluster; units at the end of the keys."""
    return {
        "name": found.name,
        "title": found.title,
        "nodes": found.nodes,
        "devices": found.devices,
        "chips": [f"{count}x {chip}" for chip, count in found.chips.items()],
        "fabrics": list(found.fabrics),
        "networks": list(found.networks),
        "inside_Bps": float(found.inside_Bps),
        "between_Bps": float(found.between_Bps),
        "software": found.software,
    }


def clusters(rows: list[dict[str, Any]]) -> Answer:
    """List all clusters."""
    return Answer(rows, [Table(CLUSTERS, rows)], rows)


def made_of(cluster: ClusterSpec, topology: Topology) -> Answer:
    """Report the parts of a cluster: its row, its bisection and its sorts of wires."""
    sorts: dict[tuple[Any, ...], int] = {}
    for wire in topology.wires:
        key = (wire.link, wire.rate, wire.latency_fs, wire.energy_J_per_B)
        sorts[key] = sorts.get(key, 0) + 1
    wires = [
        {"link": link, "wires": count, "rate_Bps": float(rate), "latency_s": fs / FS_PER_S, "energy_J_per_B": energy}
        for (link, rate, fs, energy), count in sorts.items()
    ]
    told = {
        **record(facts(cluster)),
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


def way(topology: Topology, a: int, b: int) -> Answer:
    """Report the route from one device to another, and the time of a mebibyte on it."""
    hops = [
        {
            "from": topology.labels[wire.source],
            "to": topology.labels[wire.target],
            "link": wire.link,
            "rate_Bps": float(wire.rate),
            "latency_s": wire.latency_fs / FS_PER_S,
        }
        for wire in (topology.wires[number] for number in topology.route(a, b))
    ]
    ends, time_s = (topology.labels[a], topology.labels[b]), topology.message_fs(a, b, PROBE_B) / FS_PER_S
    told = {"from": ends[0], "to": ends[1], "hops": hops, "bytes": PROBE_B, "time_s": time_s}
    line = f"{' to '.join(ends)}: {count_of(len(hops), 'wire')}; 1 MiB alone takes {si(time_s, 's')}"
    return Answer(told, [Table(HOPS, hops), Lines(line)], hops, {"cluster": partial(draw, topology)})
