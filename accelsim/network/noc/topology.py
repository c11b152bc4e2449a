"""Topologies as a table: connections, and the next link of a packet.

Routing is minimal and fixed by source, destination and the coin of a packet (see ``COINS``). Channels are numbered: one
into the network for each node (its injection), one out of it (its ejection), then the links between routers; each
carries one flit per clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from accelsim.errors import UsageError, nearest
from accelsim.spec.network import SHAPES, Noc
from accelsim.types import Bools, Floats, Ints

Step: TypeAlias = Callable[[Ints, Ints, Ints], Ints]
"""(router where packets are, destination nodes, coins) -> the link that each takes next; all of one length. Only asked
of packets that have not reached the router of their destination."""

COINS = 4
"""A packet carries a coin from 0 to 3: one bit for each dimension, by which it goes one way round or the other where
both are equally long. Loads are means over all coins."""

BUS_LINK = 0


@dataclass(frozen=True, eq=False)
class Network:
    """A topology of a certain size.

    ``links`` [n, 2]: from router, to router (a bus: -1, as it goes to all). ``home`` [nodes]: router of each node.
    ``places`` [routers, 2]: where pictures draw them. ``dimension`` [n] and ``wraps`` [n]: of each link, the dimension
    that it goes along and whether it closes a ring (there packets change the virtual channel, so that none waits for
    itself).
    """

    name: str
    shape: tuple[int, ...]
    home: Ints
    links: Ints
    places: Floats
    step: Step = field(repr=False)
    dimension: Ints = field(repr=False)
    wraps: Bools = field(repr=False)

    @property
    def nodes(self) -> int:
        """Nodes that send and receive."""
        return len(self.home)

    @property
    def routers(self) -> int:
        """Routers."""
        return len(self.places)

    @property
    def channels(self) -> int:
        """Injections, ejections and links."""
        return 2 * self.nodes + len(self.links)

    @property
    def coins(self) -> int:
        """Number of different coins that matter: 1 where routes do not depend on them."""
        return COINS if self.wraps.any() else 1

    @cached_property
    def grid(self) -> tuple[int, int]:
        """(columns, rows) by which traffic patterns number the nodes; one row where there is no square."""
        if self.name in ("mesh", "torus"):
            return self.shape[0], self.shape[1]
        side = round(self.nodes**0.5)
        return (side, side) if side * side == self.nodes else (self.nodes, 1)

    def next_router(self, link: Ints, destination: Ints) -> Ints:
        """Return where packets are after ``link``: on a bus, with their destination at once."""
        end = self.links[link, 1]
        return np.where(end < 0, self.home[destination], end)


def build(noc: Noc) -> Network:
    """Return the network of a spec."""
    return named(noc.topology, *noc.shape)


def named(topology: str, *shape: int) -> Network:
    """Return the network of a topology (a key of ``TOPOLOGIES``) and a shape. Raises UsageError for either."""
    if topology not in TOPOLOGIES:
        raise UsageError(
            f"no topology {topology!r}", "", "one of " + ", ".join(TOPOLOGIES), nearest(topology, TOPOLOGIES)
        )
    if len(shape) != len(SHAPES[topology]) or min(shape) < 1:
        wanted = " and ".join(SHAPES[topology])
        raise UsageError(f"{topology} of shape {shape}", expected=f"{wanted}, each 1 or more")
    return TOPOLOGIES[topology](*shape)


def _network(
    name: str,
    shape: tuple[int, ...],
    home: Ints,
    links: list[tuple[int, int]] | Ints,
    places: Floats,
    step: Step,
    dimension: Ints | None = None,
    wraps: Bools | None = None,
) -> Network:
    table = np.array(links, np.int64).reshape(-1, 2)
    along = np.zeros(len(table), np.int64) if dimension is None else dimension
    closes = np.zeros(len(table), np.bool_) if wraps is None else wraps
    return Network(name, shape, home, table, places, step, along, closes)


def _circle(count: int) -> Floats:
    angle = np.pi / 2 - 2 * np.pi * np.arange(count) / count
    return np.stack([np.cos(angle), np.sin(angle)], 1)


def _bus(nodes: int) -> Network:
    """One medium that carries one flit per clock, whoever sends."""
    places = np.stack([np.arange(nodes, dtype=float), np.zeros(nodes)], 1)
    return _network(
        "bus", (nodes,), np.arange(nodes), [(-1, -1)], places, lambda at, to, coin: np.full(len(at), BUS_LINK)
    )


def _crossbar(nodes: int) -> Network:
    """One router that all nodes hang on."""
    return _network("crossbar", (nodes,), np.zeros(nodes, np.int64), [], np.zeros((1, 2)), lambda at, to, coin: at)


def _grid(name: str, shape: tuple[int, ...], columns: int, rows: int, wrap: bool) -> Network:
    """Mesh or torus with dimension-order routing, X first; a torus takes the shorter way round.

    Where both ways round are equally long, half of the packets go each way, by their coin.
    """
    count = columns * rows
    x, y = np.arange(count) % columns, np.arange(count) // columns
    links: list[tuple[int, int]] = []
    ports = np.full((count, 4), -1, np.int64)  # east, west, south, north
    dimension, wraps = [], []
    for port, (dx, dy) in enumerate(((1, 0), (-1, 0), (0, 1), (0, -1))):
        size = columns if dx else rows
        for router in range(count):
            column, row = int(x[router]) + dx, int(y[router]) + dy
            outside = not (0 <= column < columns and 0 <= row < rows)
            if size == 1 or (outside and not wrap):
                continue
            ports[router, port] = len(links)
            links.append((router, (row % rows) * columns + column % columns))
            dimension.append(port // 2)
            wraps.append(outside)

    def step(at: Ints, to: Ints, coin: Ints) -> Ints:
        along_x = x[to] != x[at]
        forward_x = _forward(x[to] - x[at], columns, coin % 2 == 0, wrap)
        forward_y = _forward(y[to] - y[at], rows, coin // 2 == 0, wrap)
        port = np.where(along_x, np.where(forward_x, 0, 1), np.where(forward_y, 2, 3))
        return np.asarray(ports[at, port])

    places = np.stack([x.astype(float), -y.astype(float)], 1)
    along, closes = np.array(dimension, np.int64), np.array(wraps, np.bool_)
    return _network(name, shape, np.arange(count), links, places, step, along, closes)


def _forward(difference: Ints, size: int, heads: Bools, wrap: bool) -> Bools:
    """Return whether to go in the direction of rising coordinates; ``heads`` decides where both ways are equally
    long."""
    if not wrap:
        return np.asarray(difference > 0)
    ahead = difference % size
    return np.asarray((2 * ahead < size) | ((2 * ahead == size) & heads))


def _ring(nodes: int) -> Network:
    return replace(_grid("ring", (nodes,), nodes, 1, True), places=_circle(nodes))


def _tree(arity: int, levels: int) -> Network:
    """A tree of routers with ``arity`` children each and the nodes at its leaves; links up and down are alike."""
    counts = [arity ** (levels - 1 - level) for level in range(levels)]
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    level_of = np.repeat(np.arange(levels), counts)
    index_of = np.concatenate([np.arange(count) for count in counts])
    inner = int(first[-1]) - 1  # all but the root have a parent
    parent = np.array([first[level_of[r] + 1] + index_of[r] // arity for r in range(inner)], np.int64)
    links = np.concatenate([np.stack([np.arange(inner), parent], 1), np.stack([parent, np.arange(inner)], 1)])

    def step(at: Ints, to: Ints, coin: Ints) -> Ints:
        level, leaf = level_of[at], to // arity
        above = leaf // arity**level == index_of[at]
        child = first[np.maximum(level - 1, 0)] + leaf // arity ** np.maximum(level - 1, 0)
        return np.asarray(np.where(above, inner + child, at))

    width = arity ** (levels - 1)
    across = (index_of + 0.5) * width / np.array(counts)[level_of]
    places = np.stack([across, level_of.astype(float)], 1)
    return _network("tree", (arity, levels), np.arange(arity**levels) // arity, links, places, step)


def _fat_tree(arity: int, levels: int) -> Network:
    """The k-ary n-tree of Petrini and Vanneschi (IPPS 1997): as many links up as down at every switch, so that no
    level is narrower than another. The way up is chosen by the digits of the destination.
    """
    switches = arity ** (levels - 1)
    up = switches * (levels - 1) * arity
    ports = [(n, s, port) for n in range(levels - 1) for s in range(switches) for port in range(arity)]
    others = [_with_digit(switch, level, port, arity) for level, switch, port in ports]
    links = [(n * switches + s, (n + 1) * switches + other) for (n, s, _), other in zip(ports, others, strict=True)]
    links += [((n + 1) * switches + s, n * switches + other) for (n, s, _), other in zip(ports, others, strict=True)]

    def step(at: Ints, to: Ints, coin: Ints) -> Ints:
        level, switch, leaf = at // switches, at % switches, to // arity
        above = switch // arity**level == leaf // arity**level
        below = np.maximum(level - 1, 0)
        upward = (level * switches + switch) * arity + to // arity**level % arity
        downward = up + (below * switches + switch) * arity + leaf // arity**below % arity
        return np.asarray(np.where(above, downward, upward))

    index = np.arange(levels * switches)
    places = np.stack([(index % switches).astype(float), (index // switches).astype(float)], 1)
    return _network("fat-tree", (arity, levels), np.arange(arity**levels) // arity, links, places, step)


def _with_digit(number: int, place: int, digit: int, base: int) -> int:
    """``number`` with the digit at ``place`` replaced."""
    weight: int = base**place
    return number + (digit - number // weight % base) * weight


TOPOLOGIES: dict[str, Callable[..., Network]] = {
    "bus": _bus,
    "crossbar": _crossbar,
    "ring": _ring,
    "mesh": lambda columns, rows: _grid("mesh", (columns, rows), columns, rows, False),
    "torus": lambda columns, rows: _grid("torus", (columns, rows), columns, rows, True),
    "tree": _tree,
    "fat-tree": _fat_tree,
}
"""Topology -> builder of a network; a new one is a function and a line here (and its shape in the spec)."""
