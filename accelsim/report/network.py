"""Answers about links and networks on a chip."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from accelsim.errors import count_of
from accelsim.network.link import effective_Bps, framing, half_size_B, transfer
from accelsim.network.noc.energy import traffic_J_per_bit
from accelsim.network.noc.sweep import Sweep
from accelsim.report.answer import Answer, Field, Lines, Part, Table, binary, in_unit
from accelsim.report.picture import Axis, Mark, Panel, Picture, line, note, points, rule
from accelsim.report.style import BLUE, GREY, INK, ORANGE, VERMILLION
from accelsim.report.text import Facts, si
from accelsim.spec.link import Link
from accelsim.time import FS_PER_S

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PLOTTED = tuple(2**power for power in range(6, 29))
"""Sizes of the transfers of a plot, B."""
TRANSFERS = (
    Field("size_B", "transfer", binary),
    Field("read_Bps", "read", in_unit("B/s")),
    Field("write_Bps", "write", in_unit("B/s")),
    Field("read_alone_Bps", "read alone", in_unit("B/s")),
    Field("write_alone_Bps", "write alone", in_unit("B/s")),
    Field("read_s", "time of a read", in_unit("s")),
    Field("write_s", "time of a write", in_unit("s")),
    Field("energy_J", "energy", in_unit("J")),
)


def link_answer(name: str, made: Link, sizes_B: Sequence[int]) -> Answer:
    """Report time and bandwidth of transfers over a link, by their size."""
    rows = [_transfer(made, size) for size in sizes_B]
    facts: Facts = {
        "link": name,
        "kind": made.kind,
        "payload_Bps": made.bandwidth,
        "latency_s": made.latency,
        "wire_Bps": float(framing(made, True).wire_Bps),
        "half_rate_from_B": half_size_B(made, False),
        "energy_J_per_B": made.energy,
        "energy_status": made.energy_status,
    }
    text = (
        f"{name}: {si(facts['wire_Bps'], 'B/s', 4)} each way for packets, at most {si(made.bandwidth, 'B/s', 4)} of it "
        f"for data; latency {si(made.latency, 's')}, {si(made.energy / 8, 'J')}/bit ({made.energy_status or 'guess'})"
    )
    shown: list[Part] = [Lines(text), Table(TRANSFERS, rows)]
    pictures = {"rates": partial(link_rates, name, made, PLOTTED)}
    return Answer(facts | {"transfers": rows}, shown, rows, pictures, ["figures.json"])


def link_rates(name: str, link: Link, sizes_B: Sequence[int]) -> Picture:
    """Draw payload per second against the size of a transfer, back to back and one at a time, both directions."""
    marks = [
        line(sizes_B, [effective_Bps(link, size, write, alone) for size in sizes_B], f"{way}, {how}", color, dash)
        for write, way, color in ((False, "read", BLUE), (True, "write", VERMILLION))
        for alone, how, dash in ((False, "back to back", "-"), (True, "one at a time", "--"))
    ]
    wire, half = float(framing(link, True).wire_Bps), binary(half_size_B(link, False))
    marks.append(rule(y=wire, label="wire, headers included", linewidth=1, linestyle=":"))
    size = Axis("size of a transfer", scale="log2", text=binary)
    caption = f"one at a time, latency {si(link.latency, 's')}: half of the best rate from {half} on"
    payload = Axis("payload", "B/s", "log")
    title = f"{name}: what of its bandwidth is left for data"
    return Picture(4.2, [Panel(title, marks, size, payload, caption, "both")], legend=3)


def _transfer(made: Link, size: int) -> dict[str, object]:
    row: dict[str, object] = {"size_B": size}
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
    if value is None:
        return "saturated" if packets else "no packet"
    return f"{value:.2f} clocks"


POINTS = (
    Field("load", "load", "{:.4g}".format),
    Field("packets", "packets", "{:,}".format),
    Field("latency_clocks", "latency", lambda row: _clocks(row["latency_clocks"], row["packets"]), whole=True),
    Field("estimate_clocks", "formula", _clocks),
    Field("accepted_mean", "accepted", "{:.3f}".format),
    Field("accepted_least", "least of a node", "{:.3f}".format),
)


def noc_answer(name: str, found: Sweep) -> Answer:
    """Report latency and throughput of a network under a traffic pattern, by its load."""
    rows = [
        {
            "load": each.load,
            "latency_clocks": _finite(each.latency),
            "estimate_clocks": _finite(estimate),
            "accepted_mean": float(each.accepted.mean()),
            "accepted_least": float(each.accepted.min()),
            "packets": each.packets,
        }
        for each, estimate in zip(found.measured, found.estimated, strict=True)
    ]
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
        legend += "\nno packet: none was sent while it was measured; more --clocks, or a higher load, would help"

    shown: list[Part] = [_noc_lines(facts), Table(POINTS, rows), Lines(legend)]
    pictures = {"latency": partial(load_latency, found), "channels": partial(channel_loads, found)}
    return Answer(facts, shown, rows, pictures, ["figures.json"])


def _noc_lines(facts: Facts) -> Lines:
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


def load_latency(found: Sweep) -> Picture:
    """Draw latency against offered load: simulated, by formula, and the bound that no load can pass."""
    through = [(each.load, each.latency) for each in found.measured if isfinite(each.latency)]
    short = [latency for _, latency in through if latency < 10 * found.zero_load]
    top, loads = 1.1 * max(3 * found.zero_load, *short), [each.load for each in found.measured]
    marks = [
        line(*_columns(through), "simulated", BLUE, marker="o"),
        line(loads, found.estimated, "formula: a queue at each channel", ORANGE, "--"),
        rule(y=found.zero_load, label="empty network", color=GREY, linewidth=1, linestyle=":"),
        rule(x=found.bound, label="bound: the busiest channel is full", color=VERMILLION, linewidth=1.5),
    ]
    stuck = next((each.load for each in found.measured if each.packets and not isfinite(each.latency)), None)
    if stuck is not None:
        marks += [
            points([stuck], [top], "", BLUE, "^", clip_on=False),
            note(stuck, top, "does not get through", (-6, -3), "right"),
        ]
    x = Axis("offered load (flits per clock and node)", low=0, high=found.bound * 1.05)
    y, flits = Axis("mean latency (clocks)", low=0, high=top), count_of(found.packet_flits, "flit")
    caption = f"{found.pattern} traffic, packets of {flits}, mean of {found.mean_hops:.2f} links"
    return Picture(4.2, [Panel(f"{_title(found)}: latency against load", marks, x, y, caption, "both")], legend=2)


def _columns(pairs: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in pairs], [y for _, y in pairs]


def _title(found: Sweep) -> str:
    return f"{found.network.name} {' x '.join(map(str, found.network.shape))}"


def channel_loads(found: Sweep) -> Picture:
    """Draw every link as an arrow in the colour of its load when each node sends a flit per clock; the darkest set the
    bound."""
    network, load = found.network, found.load_of_one[2 * found.network.nodes :]
    few, (xs, ys) = network.routers < 40, network.places.T
    marks: list[Mark] = [points(xs, ys, "", "white", markersize=12 if few else 6, mec=INK, zorder=3)]
    if network.routers == network.nodes and few:
        places = enumerate(network.places)
        marks += [note(x, y, str(router), side="center", fontsize=6, zorder=4) for router, (x, y) in places]
    ends = found.load_of_one[: 2 * network.nodes].max() >= load.max(initial=0) - 1e-9
    busiest = "the way in or out of a node" if ends else "the darkest link"
    caption = f"flits per clock if every node sent one per clock; {busiest} sets the bound of {found.bound:.3f}"
    square = network.name not in ("tree", "fat-tree", "bus")
    title = f"{_title(found)}: load of each link, {found.pattern} traffic"
    return Picture(6.0, [Panel(title, marks, note=caption, bare=True, equal=square, finish=partial(_arrows, found))])


def _arrows(found: Sweep, fig: Figure, axes: Axes) -> None:
    """Draw links as arrows beside the line between their routers; those that close a torus leave and come in at the
    edge."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    network, load = found.network, found.load_of_one[2 * found.network.nodes :]
    scale = ScalarMappable(Normalize(0, max(1e-9, float(load.max(initial=0)))), colormaps["inferno_r"])
    for link, (start, end) in enumerate(network.links):
        color = scale.to_rgba(load[link])
        if start < 0:
            xs = network.places[:, 0]
            axes.plot([xs.min(), xs.max()], [0, 0], color=color, linewidth=6)
            continue
        a, b = network.places[start], network.places[end]
        side = np.array([a[1] - b[1], b[0] - a[0]])
        length = float(np.hypot(*side)) or 1.0
        shift = 0.06 * side / length if network.name in ("mesh", "torus", "ring", "tree") else 0 * side
        if network.wraps[link] and network.name == "torus":
            b = a + 0.6 * (a - b) / length  # leaves the picture here and comes in at the other side
        arrow = {"arrowstyle": "-|>", "color": color, "linewidth": 1.8, "shrinkA": 7, "shrinkB": 7}
        axes.annotate("", b + shift, a + shift, arrowprops=arrow)
        axes.plot(*b, alpha=0)
    axes.margins(0.08)
    if len(load):
        fig.colorbar(scale, ax=axes, shrink=0.7, label="flits per clock")
