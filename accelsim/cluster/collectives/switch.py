"""All-reduce in a switch that adds up what its ends send (NVLS, SHARP): closed form on an idle network.

Each of n devices adds up one part of the buffer by way of the switch, and hands the sum to all: over its wires go its
buffer and one part upwards, one part and the whole sum downwards, S (n + 1) / n bytes each way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accelsim.cluster.collectives.reach import reach
from accelsim.cluster.network.topology import Topology
from accelsim.types import Ints

SWITCH = "switch"
"""Name of the algorithm."""
TITLE = "in the switch, which adds up and sends the sum to all"


def why_not(topology: Topology, kind: str, members: Sequence[int]) -> str:
    """Return what is missing to do a kind among them; '' where it can."""
    if kind != "all_reduce":
        return "all_reduce"
    able = len(set(members)) > 1 and reach(topology, tuple(members)).sums
    return "" if able else "two devices or more at one switch whose fabric says `sums: true`"


def carried_B(topology: Topology, members: Sequence[int], nbytes: int) -> Ints:
    """Bytes per wire."""
    found = np.zeros(len(topology.wires), np.int64)
    each = nbytes + -(-nbytes // len(members))
    for a, b in zip(members, [*members[1:], members[0]], strict=True):
        found[list(topology.route(a, b))] += each
    return found


def time_fs(topology: Topology, members: Sequence[int], nbytes: int) -> int:
    """Two trips through the switch, and the bytes over the slowest wire, fs."""
    pairs = list(zip(members, [*members[1:], members[0]], strict=True))
    latency = max(topology.message_fs(a, b, 0) for a, b in pairs)
    moving = max(map(topology.occupancy_fs, *_used(carried_B(topology, members, nbytes))))
    return 2 * latency + moving


def _used(wire_B: Ints) -> tuple[list[int], list[int]]:
    wires = np.flatnonzero(wire_B)
    return wires.tolist(), wire_B[wires].tolist()
