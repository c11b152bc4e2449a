"""Answers about links and networks on a chip."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

from accelsim.errors import count_of
from accelsim.network.link import effective_Bps, framing, half_size_B, transfer
from accelsim.network.noc.energy import traffic_J_per_bit
from accelsim.network.noc.sweep import Sweep
from accelsim.report.answer import Answer, Field, Lines, Part, Table, binary, in_unit
from accelsim.report.text import si
from accelsim.spec.link import Link
from accelsim.time import FS_PER_S

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLOTTED = tuple(2**power for power in range(6, 29))
"""Sizes of the transfers of a plot, B."""
TRANSFERS = (
    Field("size_B", "transfer", binary), Field("read_Bps", "read", in_unit("B/s")),
    Field("write_Bps", "write", in_unit("B/s")), Field("read_alone_Bps", "read alone", in_unit("B/s")),
    Field("write_alone_Bps", "write alone", in_unit("B/s")), Field("read_s", "time of a read", in_unit("s")),
    Field("write_s", "time of a write", in_unit("s")), Field("energy_J", "energy", in_unit("J")),
)  # fmt: skip


def link_answer(name: str, made: Link, sizes_B: Sequence[int]) -> Answer:
    """Report time and bandwidth of transfers over a link, by their size."""
    rows = [_transfer(made, size) for size in sizes_B]
    facts: dict[str, Any] = {
        "link": name, "kind": made.kind, "payload_Bps": made.bandwidth, "latency_s": made.latency,
        "wire_Bps": float(framing(made, True).wire_Bps), "half_rate_from_B": half_size_B(made, False),
        "energy_J_per_B": made.energy, "energy_status": made.energy_status,
    }  # fmt: skip
    line = (
        f"{name}: {si(facts['wire_Bps'], 'B/s', 4)} each way for packets, at most {si(made.bandwidth, 'B/s', 4)} of it "
        f"for data; latency {si(made.latency, 's')}, {si(made.energy / 8, 'J')}/bit ({made.energy_status or 'guess'})"
    )

    def rates() -> Figure:
        from accelsim.report.network_plots import link_rates

        return link_rates(name, made, PLOTTED)

    shown: list[Part] = [Lines(line), Table(TRANSFERS, rows)]
    return Answer(facts | {"transfers": rows}, shown, rows, {"rates": rates}, ["figures.json"])


def _transfer(made: Link, size: int) -> dict[str, Any]:
    row: dict[str, Any] = {"size_B": size}
    for write, way in ((False, "read"), (True, "write")):
        time = transfer(made, size, write)
        row |= {
            f"{way}_wire_B": time.wire_B,
            f"{way}_Bps": effective_Bps(made, size, write),
            f"{way}_alone_Bps": effective_Bps(made, size, write, alone=True),
            f"{way}_s": time.total_fs / FS_PER_S,
        }
    return row | {"energy_J": size * made.energy}


def _clocks(value: float | None, packets: int = 1) -> str:
    """A latency, or why there is none."""
    if value is None:
        return "saturated" if packets else "no packet"
    return f"{value:.2f} clocks"


POINTS = (
    Field("load", "load", "{:.4g}".format), Field("packets", "packets", "{:,}".format),
    Field("latency_clocks", "latency", lambda row: _clocks(row["latency_clocks"], row["packets"]), whole=True),
    Field("estimate_clocks", "formula", _clocks), Field("accepted_mean", "accepted", "{:.3f}".format),
    Field("accepted_least", "least of a node", "{:.3f}".format),
)  # fmt: skip


def noc_answer(name: str, found: Sweep) -> Answer:
    """Report latency and throughput of a network under a traffic pattern, by its load."""
    rows = [
        {"load": each.load, "latency_clocks": _finite(each.latency), "estimate_clocks": _finite(estimate),
         "accepted_mean": float(each.accepted.mean()), "accepted_least": float(each.accepted.min()),
         "packets": each.packets}
        for each, estimate in zip(found.measured, found.estimated, strict=True)
    ]  # fmt: skip
    node_Bps = found.bound * found.noc.flit * float(found.noc.clock)
    facts = {
        "network": name, "topology": found.network.name, "shape": list(found.network.shape),
        "nodes": found.network.nodes, "links": len(found.network.links), "traffic": found.pattern,
        "packet_flits": found.packet_flits, "mean_links": found.mean_hops, "zero_load_clocks": found.zero_load,
        "zero_load_s": found.zero_load / float(found.noc.clock), "bound_flits": found.bound, "bound_Bps": node_Bps,
        "energy_J_per_bit": traffic_J_per_bit(found.noc, found.network, found.traffic), "points": rows,
    }  # fmt: skip
    legend = "\nload, accepted: flits per clock and node; packets: those whose latency was measured"
    if not all(row["packets"] for row in rows):
        legend += (
            "\nno packet: none was sent while it was measured; more --clocks, or a higher load, would help"
        )

    def latency() -> Figure:
        from accelsim.report.network_plots import load_latency

        return load_latency(found)

    def channels() -> Figure:
        from accelsim.report.network_plots import channel_loads

        return channel_loads(found)

    shown: list[Part] = [_noc_lines(facts), Table(POINTS, rows), Lines(legend)]
    return Answer(facts, shown, rows, {"latency": latency, "channels": channels}, ["figures.json"])


def _noc_lines(facts: dict[str, Any]) -> Lines:
    size = " x ".join(map(str, facts["shape"]))
    return Lines(
        f"{facts['topology']} {size}: {count_of(facts['nodes'], 'node')}, {count_of(facts['links'], 'link')}; "
        f"{facts['traffic']} traffic, packets of {count_of(facts['packet_flits'], 'flit')}\n"
        f"empty network {facts['zero_load_clocks']:.2f} clocks ({si(facts['zero_load_s'], 's')}), "
        f"{facts['mean_links']:.2f} links on average, {si(facts['energy_J_per_bit'], 'J')}/bit\n"
        f"bound {facts['bound_flits']:.4g} flit{'s' * (facts['bound_flits'] != 1)} per clock and node "
        f"({si(facts['bound_Bps'], 'B/s')} each)"
    )


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None
