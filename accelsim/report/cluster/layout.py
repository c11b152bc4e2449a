"""Places of devices, cards and switches in the picture of a cluster.

Devices stand in a row per node, on a ring where they are wired to each other, or at the places of a torus; what is
inside a node below them, cards above, switches of networks above these.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import cos, pi, sin

from accelsim.cluster.network.topology import Topology
from accelsim.cluster.shapes.building import Torus, tori_of
from accelsim.cluster.shapes.wiring import MESH

MOST_DRAWN = 32
"""Devices beyond which only the first nodes are drawn."""
FEW = 16
"""Devices of these."""
MOST_PLACES = 1024
"""Places of a torus plane beyond which it is not drawn."""
MOST_PLANES = 4
"""Planes of a torus in three dimensions that are drawn."""
CUBE = (0, 1, 2, 3, 7, 6, 5, 4)
"""The eight of a hybrid cube mesh on a ring, so that the corners of both squares face each other."""
MOST_SWITCHES = 16
"""Switches of one level that are drawn."""
GAP = 0.8
"""Between nodes, in the distance of two devices."""
LEVEL = 1.3
"""Between levels, in the same."""


@dataclass
class Layout:
    """Vertex -> (x, y); the boxes of nodes (x, y, width, height); what a reader must know about what is left out."""

    at: dict[int, tuple[float, float]] = field(default_factory=dict)
    boxes: list[tuple[str, float, float, float, float]] = field(default_factory=list)
    left_out: str = ""
    small: bool = False


def layout(topology: Topology) -> Layout:
    """Return the places of the vertices of a topology that are drawn."""
    tori = tori_of(topology.router)
    if len(tori) == 1 and len(tori[0].places) == topology.ranks > MOST_DRAWN:
        return _planes(tori[0])
    made = Layout()
    shown = _shown(topology, made)
    x = 0.0
    for node in shown:
        x = _place_node(topology, made, node, tori, x) + GAP
    _place_networks(topology, made)
    return made


def _planes(torus: Torus) -> Layout:
    """A torus alone: its plane of the first two dimensions, or the first of several side by side."""
    made = Layout(small=True)
    columns, rows = torus.dims[0], torus.dims[1] if len(torus.dims) > 1 else 1
    planes = len(torus.places) // (columns * rows)
    shown = min(planes, MOST_PLANES if len(torus.places) <= MOST_PLACES // 4 else 1)
    for rank, place in torus.places.items():
        plane, inside = divmod(place, columns * rows)
        if plane < shown:
            row, column = divmod(inside, columns)
            made.at[rank] = (column + plane * (columns + 2.0), -float(row))
    if shown < planes:
        made.left_out = f"the first of {planes} planes, which are joined along the third dimension"
    return made


def _nodes(topology: Topology) -> dict[str, list[int]]:
    """Label of a node -> its vertices, devices first; '' for what is outside of all."""
    names = dict.fromkeys(label.split(".")[0] for label in topology.labels[: topology.ranks])
    made: dict[str, list[int]] = {name: [] for name in (*names, "")}
    for vertex, label in enumerate(topology.labels):
        name = label.split(".")[0]
        made[name if name in names else ""].append(vertex)
    return made


def _shown(topology: Topology, made: Layout) -> list[list[int]]:
    """The vertices of each node that is drawn: all nodes, or the first of each kind that there are too many of."""
    nodes = [vertices for name, vertices in _nodes(topology).items() if name]
    if topology.ranks <= MOST_DRAWN:
        return nodes
    fits = max(1, FEW // max(1, sum(vertex < topology.ranks for vertex in nodes[0])))
    made.left_out = f"{min(fits, len(nodes))} of {len(nodes):,} nodes"
    return nodes[:fits]


def _place_node(topology: Topology, made: Layout, vertices: Sequence[int], tori: Sequence[Torus], x: float) -> float:
    """Put a node at ``x``; the x behind it."""
    devices = [vertex for vertex in vertices if vertex < topology.ranks]
    places, wide, high = _devices(topology, devices, tori)
    for vertex, (dx, dy) in places.items():
        made.at[vertex] = (x + dx, dy)
    bottom, top = -0.6, high + 0.6
    inner = [vertex for vertex in vertices if vertex >= topology.ranks]
    cards = [vertex for vertex in inner if topology.labels[vertex].split(".")[1].startswith("nic")]
    if cards:
        _spread(made, cards, x, wide, high + LEVEL)
        top = high + LEVEL + 0.4
    for level, row in _levels(topology, devices, [each for each in inner if each not in cards]).items():
        _spread(made, row, x, wide, -LEVEL * level)
        bottom = min(bottom, -LEVEL * level - 0.4)
    name = topology.labels[vertices[0]].split(".")[0]
    made.boxes.append((name, x - 0.6, bottom, wide + 1.2, top - bottom))
    return x + wide + 1.2


def _devices(
    topology: Topology, devices: Sequence[int], tori: Sequence[Torus]
) -> tuple[dict[int, tuple[float, float]], float, float]:
    """Places of the devices of a node, its width and its height."""
    torus = next((each for each in tori if devices[0] in each.places and len(each.dims) > 1), None)
    if torus is not None:
        flat = torus.dims[0]
        rows = torus.dims[1]
        places = {}
        for rank, place in torus.places.items():
            plane, inside = divmod(place, flat * rows)
            places[rank] = (inside % flat + plane * (flat + 1.0), float(rows - 1 - inside // flat))
        planes = -(-len(torus.places) // (flat * rows))
        return places, planes * (flat + 1.0) - 2.0, rows - 1.0
    own = set(devices)
    wired = {frozenset((wire.source, wire.target)) for wire in topology.wires if {wire.source, wire.target} <= own}
    if len(wired) > len(devices) // 2:
        radius = max(1.0, len(devices) / 5)
        base = devices[0]
        cube = wired == {frozenset((base + a, base + b)) for a, b in MESH}
        order = [base + place for place in CUBE] if cube else devices
        angles = {rank: 2 * pi * (index + 0.5) / len(order) for index, rank in enumerate(order)}
        spots = {rank: (radius - radius * cos(angle), radius + radius * sin(angle)) for rank, angle in angles.items()}
        return spots, 2 * radius, 2 * radius
    return {rank: (float(index), 0.0) for index, rank in enumerate(devices)}, len(devices) - 1.0, 0.0


def _levels(topology: Topology, devices: Sequence[int], others: Sequence[int]) -> dict[int, list[int]]:
    """Wires to the nearest device -> vertices so far from it, among ``others``."""
    known = dict.fromkeys(devices, 0)
    waiting, left = deque(devices), set(others)
    beside: dict[int, list[int]] = {}
    for wire in topology.wires:
        beside.setdefault(wire.source, []).append(wire.target)
    while waiting:
        at = waiting.popleft()
        for vertex in beside.get(at, ()):
            if vertex in left and vertex not in known:
                known[vertex] = known[at] + 1
                waiting.append(vertex)
    made: dict[int, list[int]] = {}
    for vertex in others:
        made.setdefault(known.get(vertex, 1), []).append(vertex)
    return made


def _spread(made: Layout, vertices: Sequence[int], x: float, wide: float, y: float) -> None:
    """Put vertices in a row at ``y``, evenly between ``x`` and ``x + wide``."""
    for index, vertex in enumerate(vertices):
        made.at[vertex] = (x + wide * (index + 0.5) / len(vertices), y)


def _place_networks(topology: Topology, made: Layout) -> None:
    """Switches of the networks above everything, level by level, those nearest to the devices lowest."""
    outside = _nodes(topology)[""]
    if not outside or not made.at:
        return
    xs, ys = zip(*made.at.values(), strict=True)
    inner = [vertex for vertex in range(len(topology.labels)) if vertex not in set(outside)]
    for level, row in _levels(topology, inner, outside).items():
        drawn = row[:MOST_SWITCHES]
        if len(drawn) < len(row):
            made.left_out += f"{', ' if made.left_out else ''}{len(drawn)} of {len(row)} switches"
        y = max(ys) + LEVEL * 1.3 * level
        above = [_above(topology, made, vertex) for vertex in drawn]
        if all(b - a >= APART for a, b in pairwise(above)):
            made.at.update({vertex: (x, y) for vertex, x in zip(drawn, above, strict=True)})
        else:
            _spread(made, drawn, min(xs), max(xs) - min(xs), y)


APART = 1.8
"""Between switches in a row, at the least, in the distance of two devices."""


def _above(topology: Topology, made: Layout, vertex: int) -> float:
    """The middle of what is drawn of the neighbours of a switch, below it."""
    beside = [made.at[wire.source][0] for wire in topology.wires if wire.target == vertex and wire.source in made.at]
    return sum(beside) / len(beside) if beside else 0.0
