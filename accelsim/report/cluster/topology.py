"""The picture of a cluster: devices, cards, switches, wires with their rates, and on request what went over each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from accelsim.cluster.network.topology import Topology, Wire
from accelsim.errors import count_of
from accelsim.report.cluster.layout import Layout, layout
from accelsim.report.picture import Mark, Panel, Picture, area, line, note, points
from accelsim.report.style import BLUE, FAINT, GREEN, INK, ORANGE, PURPLE, SKY, VERMILLION, tint
from accelsim.report.text import si
from accelsim.time import FS

COLOURS = (BLUE, ORANGE, GREEN, PURPLE, VERMILLION, SKY)
"""Colours of the links, in the order in which they appear."""
STYLES = ("-", "--", ":", "-.")
"""Styles of the rates of one link, the fastest first."""
HOT = VERMILLION
"""Colour of the wire that carried most."""
LONG = 1.6
"""Distance of neighbours from which a line in a row of small devices is one around the edge."""
MOST_NAMED = 90
"""Vertices beyond which devices have no names."""


class _Pair(NamedTuple):
    """Two vertices with the wires between them, one in each direction or several."""

    a: int
    b: int
    wires: tuple[int, ...]


def draw(topology: Topology, bytes_per_wire: Sequence[int] | Mapping[int, int] | None = None) -> Picture:
    """Draw devices, cards, switches and wires.

    ``bytes_per_wire``: by the number of the wire. Then colour and width of a line say how much the busier direction
    carried, else the colour is that of its link.
    """
    made = layout(topology)
    xs, ys = zip(*made.at.values(), strict=True)
    height = min(6.5, max(2.6, 1.4 + 9.0 * (max(ys) - min(ys) + 2.2) / (max(xs) - min(xs) + 2.2)))
    found: dict[tuple[int, int], list[int]] = {}
    for number, wire in enumerate(topology.wires):
        if wire.source in made.at and wire.target in made.at:
            a, b = sorted((wire.source, wire.target))
            found.setdefault((a, b), []).append(number)
    pairs = [_Pair(a, b, tuple(numbers)) for (a, b), numbers in found.items()]
    if bytes_per_wire is None:
        wires = _by_link(topology, made, pairs)
    else:
        wires = _by_traffic(topology, made, pairs, [bytes_per_wire[at] for at in range(len(topology.wires))])
    marks = [*wires, *_boxes(made), *_vertices(topology, made)]
    title = f"{topology.name}: {count_of(topology.ranks, 'device')}"
    return Picture(height, [Panel(title, marks, note=_said(topology, made), bare=True, equal=True)], legend=3)


def _said(topology: Topology, made: Layout) -> str:
    """Return what there is, and what of it is not drawn."""
    parts = [f"{count_of(len(topology.wires), 'wire')}, a direction each"]
    parts += [others_text(topology)] if len(topology.labels) > topology.ranks else []
    parts += [f"drawn: {made.left_out}"] if made.left_out else []
    return "; ".join(parts)


def others_text(topology: Topology) -> str:
    """Return how many switches and cards there are: '1 switch', '145 switches and 8 cards'."""
    names = [label.split(".")[-1] for label in topology.labels[topology.ranks :]]
    cards = sum(name.startswith("nic") for name in names)
    switches = len(names) - cards
    told = [f"{switches:,} switch{'es' if switches != 1 else ''}"] if switches or not cards else []
    return " and ".join(told + ([count_of(cards, "card")] if cards else []))


def _by_link(topology: Topology, made: Layout, pairs: Sequence[_Pair]) -> Iterator[Mark]:
    """Lines in the colour of their link, with the rates in the legend."""
    rates: dict[str, set[Fraction]] = {}
    for wire in topology.wires:
        rates.setdefault(wire.link, set()).add(wire.rate)
    colours = dict(zip(rates, COLOURS * len(rates), strict=False))
    for pair in pairs:
        wire = topology.wires[pair.wires[0]]
        rank = sorted(rates[wire.link], reverse=True).index(wire.rate)
        style = STYLES[min(rank, len(STYLES) - 1)]
        yield from _line(made, pair, colours[wire.link], 1.4, style, _legend(topology, wire))


def _legend(topology: Topology, wire: Wire) -> str:
    """'nvlink: 282 GB/s, 750 ns'; the largest latency of wires of this link and rate."""
    alike = [each for each in topology.wires if (each.link, each.rate) == (wire.link, wire.rate)]
    most_fs = max(each.latency_fs for each in alike)
    up_to = "" if all(each.latency_fs == most_fs for each in alike) else "up to "
    latency = f", {up_to}{si(most_fs * FS, 's')}" if most_fs else ""
    return f"{wire.link}: {si(float(wire.rate), 'B/s')}{latency}"


def _by_traffic(topology: Topology, made: Layout, pairs: Sequence[_Pair], carried: Sequence[int]) -> Iterator[Mark]:
    """Lines as wide and as red as what the busier direction carried."""
    most = max(carried, default=0)
    for pair in sorted(pairs, key=lambda pair: max(carried[number] for number in pair.wires)):
        share = max(carried[number] for number in pair.wires) / most if most else 0.0
        colour = tint(HOT, 0.25 + 0.75 * share) if share else FAINT
        yield from _line(made, pair, colour, 0.8 + 4.2 * share)
    if most:
        busiest = topology.wires[carried.index(most)]
        a, b = topology.labels[busiest.source], topology.labels[busiest.target]
        yield line([], [], f"most: {si(most, 'B')} from {a} to {b}", HOT, linewidth=5.0)
    yield line([], [], "nothing", FAINT, linewidth=0.8)


def _line(made: Layout, pair: _Pair, colour: str, wide: float, dash: str = "-", label: str = "") -> Iterator[Mark]:
    """A line between two vertices; around the edge of a torus as two stubs, bent where others stand between."""
    (xa, ya), (xb, yb) = made.at[pair.a], made.at[pair.b]
    look = {"linewidth": wide * (0.6 if made.small else 1.0), "zorder": 1.0}
    in_line = abs(xa - xb) < 1e-9 or abs(ya - yb) < 1e-9
    far = max(abs(xa - xb), abs(ya - yb)) > LONG
    if made.small and far:
        if in_line:
            dx, dy = ((xb > xa) - (xb < xa)) * 0.6, ((yb > ya) - (yb < ya)) * 0.6
            yield line([xa, xa - dx], [ya, ya - dy], label, colour, dash, **look)
            yield line([xb, xb + dx], [yb, yb + dy], label, colour, dash, **look)
    elif in_line and far and _between(made, pair):
        bend = 0.12 * max(abs(xa - xb), abs(ya - yb))
        across = (0.0, bend) if abs(ya - yb) < 1e-9 else (bend, 0.0)
        path = [(step / 12, step * (12 - step) / 36) for step in range(13)]
        xs = [xa + (xb - xa) * t + across[0] * up for t, up in path]
        yield line(xs, [ya + (yb - ya) * t + across[1] * up for t, up in path], label, colour, dash, **look)
    else:
        yield line([xa, xb], [ya, yb], label, colour, dash, **look)


def _between(made: Layout, pair: _Pair) -> bool:
    """Return whether something stands on the straight line between two vertices in a row or column."""
    (xa, ya), (xb, yb) = made.at[pair.a], made.at[pair.b]
    return any(
        min(xa, xb) - 1e-9 <= x <= max(xa, xb) + 1e-9 and min(ya, yb) - 1e-9 <= y <= max(ya, yb) + 1e-9
        for vertex, (x, y) in made.at.items()
        if vertex not in (pair.a, pair.b)
    )


def _boxes(made: Layout) -> Iterator[Mark]:
    """The outlines of nodes with their names."""
    for name, x, y, wide, high in made.boxes:
        yield area([x, x + wide], [y, y], [y + high] * 2, facecolor="#f6f6f6", edgecolor=FAINT, zorder=0)
        yield note(x, y, name, (3, 3), va="baseline", color="#555555")


def _vertices(topology: Topology, made: Layout) -> Iterator[Mark]:
    """Devices as squares, cards and switches as rounded boxes with their names."""
    crowded = len(made.at) > MOST_NAMED
    for vertex, (x, y) in made.at.items():
        device = vertex < topology.ranks
        if made.small or (crowded and device):
            yield points([x], [y], "", BLUE, "s", markersize=2.5 if made.small else 4.0, zorder=3)
            continue
        shape, face = ("square", tint(BLUE, 0.22)) if device else ("round", "white")
        box = {"boxstyle": f"{shape},pad=0.25", "facecolor": face, "edgecolor": INK, "linewidth": 0.7}
        yield note(x, y, _name(topology, vertex), side="center", fontsize=6 if crowded else 7, bbox=box, zorder=3)


def _name(topology: Topology, vertex: int) -> str:
    """A label without its node, of a numbered switch inside one without its fabric too."""
    label = topology.labels[vertex]
    first, _, rest = label.partition(".")
    if all(each.partition(".")[0] != first for each in topology.labels[: topology.ranks]):
        return label
    return rest.rsplit(".", 1)[-1] if rest[-1:].isdigit() else rest
