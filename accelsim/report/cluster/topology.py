"""The picture of a cluster: devices, cards, switches, wires with their rates, and on request what went over each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from accelsim.cluster.network.topology import Topology, Wire
from accelsim.errors import count_of
from accelsim.report.cluster.layout import Layout, layout
from accelsim.report.style import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    figure,
    save,
    styled,
    subtitle,
    tint,
)
from accelsim.report.text import si
from accelsim.time import FS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = (BLUE, ORANGE, GREEN, PURPLE, VERMILLION, SKY)
"""Colours of the links, in the order in which they appear."""
STYLES = ("-", "--", ":", "-.")
"""Styles of the rates of one link, the fastest first."""
HOT = VERMILLION
"""Colour of the wire that carried most."""


class _Pair(NamedTuple):
    """Two vertices with the wires between them, one in each direction or several."""

    a: int
    b: int
    wires: tuple[int, ...]


def draw(
    topology: Topology,
    bytes_per_wire: Sequence[int] | Mapping[int, int] | None = None,
    path: Path | None = None,
) -> Figure:
    """The picture; written to ``path`` (PNG or SVG) where one is given.

    ``bytes_per_wire``: by the number of the wire. Then colour and width of a line say how much the busier direction
    carried, else the colour is that of its link.
    """
    with styled():
        made = layout(topology)
        xs, ys = zip(*made.at.values(), strict=True)
        height = min(6.5, max(2.6, 1.4 + 9.0 * (max(ys) - min(ys) + 2.2) / (max(xs) - min(xs) + 2.2)))
        drawn, (axes,) = figure(height)
        axes.set_axis_off()
        axes.set_aspect("equal", adjustable="datalim")
        pairs = _pairs(topology, made)
        if bytes_per_wire is None:
            _by_link(axes, topology, made, pairs)
        else:
            carried = [bytes_per_wire[index] for index in range(len(topology.wires))]
            _by_traffic(axes, topology, made, pairs, carried)
        _boxes(axes, made)
        _vertices(axes, topology, made)
        axes.set_title(f"{topology.name}: {count_of(topology.ranks, 'device')}", pad=18)
        subtitle(axes, _said(topology, made))
    if path is not None:
        save(drawn, path)
    return drawn


def _said(topology: Topology, made: Layout) -> str:
    """Return what there is, and what of it is not drawn."""
    parts = [f"{count_of(len(topology.wires), 'wire')}, a direction each"]
    parts += [others_text(topology)] if len(topology.labels) > topology.ranks else []
    parts += [f"drawn: {made.left_out}"] if made.left_out else []
    return "; ".join(parts)


def others_text(topology: Topology) -> str:
    """'1 switch', '145 switches and cards'."""
    names = [label.split(".")[-1] for label in topology.labels[topology.ranks :]]
    cards = sum(name.startswith("nic") for name in names)
    switches = len(names) - cards
    told = [f"{switches:,} switch{'es' if switches != 1 else ''}"] if switches or not cards else []
    return " and ".join(told + ([count_of(cards, "card")] if cards else []))


def _pairs(topology: Topology, made: Layout) -> list[_Pair]:
    """Return what is joined of what is drawn."""
    found: dict[tuple[int, int], list[int]] = {}
    for number, wire in enumerate(topology.wires):
        if wire.source in made.at and wire.target in made.at:
            a, b = sorted((wire.source, wire.target))
            found.setdefault((a, b), []).append(number)
    return [_Pair(a, b, tuple(numbers)) for (a, b), numbers in found.items()]


def _by_link(axes: Axes, topology: Topology, made: Layout, pairs: Sequence[_Pair]) -> None:
    """Lines in the colour of their link, with a legend of the rates."""
    links = list(dict.fromkeys(wire.link for wire in topology.wires))
    colours = {link: COLOURS[index % len(COLOURS)] for index, link in enumerate(links)}
    rates = {
        link: sorted({wire.rate for wire in topology.wires if wire.link == link}, reverse=True)
        for link in links
    }
    seen: dict[str, None] = {}
    for pair in pairs:
        wire = topology.wires[pair.wires[0]]
        style = STYLES[min(rates[wire.link].index(wire.rate), len(STYLES) - 1)]
        label = _legend(topology, wire)
        named = "_" if label in seen else label
        seen[label] = None
        _line(axes, made, pair, colours[wire.link], 1.4, style, named)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=3)


def _legend(topology: Topology, wire: Wire) -> str:
    """'nvlink: 282 GB/s, 750 ns'; the largest latency of wires of this link and rate."""
    alike = [each for each in topology.wires if (each.link, each.rate) == (wire.link, wire.rate)]
    most_fs = max(each.latency_fs for each in alike)
    up_to = "" if all(each.latency_fs == most_fs for each in alike) else "up to "
    latency = f", {up_to}{si(most_fs * FS, 's')}" if most_fs else ""
    return f"{wire.link}: {si(float(wire.rate), 'B/s')}{latency}"


def _by_traffic(
    axes: Axes, topology: Topology, made: Layout, pairs: Sequence[_Pair], carried: Sequence[int]
) -> None:
    """Lines as wide and as red as what the busier direction carried."""
    most = max(carried, default=0)
    for pair in sorted(pairs, key=lambda pair: max(carried[number] for number in pair.wires)):
        share = max(carried[number] for number in pair.wires) / most if most else 0.0
        colour = tint(HOT, 0.25 + 0.75 * share) if share else FAINT
        _line(axes, made, pair, colour, 0.8 + 4.2 * share)
    busiest = topology.wires[carried.index(most)] if most else None
    if busiest is not None:
        a, b = topology.labels[busiest.source], topology.labels[busiest.target]
        axes.plot([], [], color=HOT, linewidth=5.0, label=f"most: {si(most, 'B')} from {a} to {b}")
    axes.plot([], [], color=FAINT, linewidth=0.8, label="nothing")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2)


LONG = 1.6
"""Distance of neighbours from which a line in a row of small devices is one around the edge."""


def _line(
    axes: Axes, made: Layout, pair: _Pair, colour: str, wide: float, style: str = "-", label: str = "_"
) -> None:
    """A line between two vertices; around the edge of a torus as two stubs, bent where others stand between."""
    (xa, ya), (xb, yb) = made.at[pair.a], made.at[pair.b]
    look: dict[str, Any] = {
        "color": colour,
        "linewidth": wide * (0.6 if made.small else 1.0),
        "linestyle": style,
        "zorder": 1.0,
    }
    in_line = abs(xa - xb) < 1e-9 or abs(ya - yb) < 1e-9
    far = max(abs(xa - xb), abs(ya - yb)) > LONG
    if made.small and in_line and far:
        dx, dy = ((xb > xa) - (xb < xa)) * 0.6, ((yb > ya) - (yb < ya)) * 0.6
        axes.plot([xa, xa - dx], [ya, ya - dy], label=label, **look)
        axes.plot([xb, xb + dx], [yb, yb + dy], **look)
    elif made.small and far:
        return
    elif in_line and far and _between(made, pair):
        bend = 0.12 * max(abs(xa - xb), abs(ya - yb))
        across = (0.0, bend) if abs(ya - yb) < 1e-9 else (bend, 0.0)
        steps = [index / 12 for index in range(13)]
        lift = [4 * share * (1 - share) for share in steps]
        axes.plot([xa + (xb - xa) * t + across[0] * up for t, up in zip(steps, lift, strict=True)],
                  [ya + (yb - ya) * t + across[1] * up for t, up in zip(steps, lift, strict=True)],
                  label=label, **look)  # fmt: skip
    else:
        axes.plot([xa, xb], [ya, yb], label=label, **look)


def _between(made: Layout, pair: _Pair) -> bool:
    """Return whether something stands on the straight line between two vertices in a row or column."""
    (xa, ya), (xb, yb) = made.at[pair.a], made.at[pair.b]
    return any(
        min(xa, xb) - 1e-9 <= x <= max(xa, xb) + 1e-9 and min(ya, yb) - 1e-9 <= y <= max(ya, yb) + 1e-9
        for vertex, (x, y) in made.at.items()
        if vertex not in (pair.a, pair.b)
    )


def _boxes(axes: Axes, made: Layout) -> None:
    """The outlines of nodes with their names."""
    from matplotlib.patches import Rectangle

    for name, x, y, wide, high in made.boxes:
        axes.add_patch(Rectangle((x, y), wide, high, facecolor="#f6f6f6", edgecolor=FAINT, zorder=0))
        axes.annotate(name, (x, y), xytext=(3, 3), textcoords="offset points", fontsize=7.5, color="#555555")


def _vertices(axes: Axes, topology: Topology, made: Layout) -> None:
    """Devices as squares, cards and switches as rounded boxes with their names."""
    crowded = len(made.at) > MOST_NAMED
    for vertex, (x, y) in made.at.items():
        device = vertex < topology.ranks
        if made.small or (crowded and device):
            axes.plot([x], [y], "s", color=BLUE, markersize=2.5 if made.small else 4.0, zorder=3)
            continue
        text = _name(topology, vertex)
        box = {
            "boxstyle": "square,pad=0.25" if device else "round,pad=0.25",
            "facecolor": tint(BLUE, 0.22) if device else "white", "edgecolor": INK, "linewidth": 0.7,
        }  # fmt: skip
        axes.annotate(
            text, (x, y), ha="center", va="center", fontsize=6.0 if crowded else 7.0, bbox=box, zorder=3
        )


MOST_NAMED = 90
"""Vertices beyond which devices have no names."""


def _name(topology: Topology, vertex: int) -> str:
    """A label without its node, of a numbered switch inside one without its fabric too."""
    label = topology.labels[vertex]
    first, _, rest = label.partition(".")
    if all(each.partition(".")[0] != first for each in topology.labels[: topology.ranks]):
        return label
    return rest.rsplit(".", 1)[-1] if rest[-1:].isdigit() else rest
