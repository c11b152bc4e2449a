"""Traffic patterns as a table: which share of its packets a node sends to which other.

Nodes are numbered row by row, so that node x + columns * y stands in column x of row y (of the square that they would
form, where the topology has no rows). Patterns: Dally, Towles, "Principles and Practices of Interconnection Networks",
2004, Table 3.1.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from accelsim.errors import Problem, UsageError, nearest
from accelsim.network.noc.topology import Network
from accelsim.types import Floats, Ints

HOT_SHARE = 0.2
"""Share of all packets that the hot node gets beyond its even share."""


def named(name: str, network: Network) -> Floats:
    """Matrix [nodes, nodes] of the pattern ``name``: row i says where node i sends; rows add up to 1.

    Raises UsageError when there is no such pattern, or the nodes form no square for a transpose.
    """
    if name not in TRAFFIC:
        raise UsageError(
            Problem(f"no traffic {name!r}", "", "one of " + ", ".join(TRAFFIC), nearest(name, TRAFFIC))
        )
    return TRAFFIC[name](network)


def _permutation(destination: Ints) -> Floats:
    return np.eye(len(destination))[destination]


def _uniform(network: Network) -> Floats:
    """To every node alike, itself included."""
    return np.full((network.nodes, network.nodes), 1.0 / network.nodes)


def _transpose(network: Network) -> Floats:
    """From column x of row y to column y of row x."""
    columns, rows = network.grid
    if columns != rows:
        raise UsageError(
            Problem(f"transpose on {columns} x {rows} nodes", expected="as many rows as columns")
        )
    node = np.arange(network.nodes)
    return _permutation(node % columns * columns + node // columns)


def _neighbour(network: Network) -> Floats:
    """To the next node of the same row, from the last to the first."""
    columns = network.grid[0]
    node = np.arange(network.nodes)
    return _permutation(node - node % columns + (node % columns + 1) % columns)


def _complement(network: Network) -> Floats:
    """From node i to node nodes - 1 - i: all bits of the number turned round."""
    return _permutation(network.nodes - 1 - np.arange(network.nodes))


def _hotspot(network: Network) -> Floats:
    """Uniform, but a share of all packets goes to the node in the middle."""
    columns, rows = network.grid
    traffic = _uniform(network) * (1 - HOT_SHARE)
    traffic[:, rows // 2 * columns + columns // 2] += HOT_SHARE
    return traffic


TRAFFIC: dict[str, Callable[[Network], Floats]] = {
    "uniform": _uniform,
    "transpose": _transpose,
    "neighbour": _neighbour,
    "hotspot": _hotspot,
    "bit-complement": _complement,
}
"""Pattern by name; a new one is a function and a line here."""
