"""What each wire carries in a collective, without playing it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accelsim.cluster.collectives.building import bounds
from accelsim.cluster.collectives.program import Program
from accelsim.cluster.network.topology import Topology
from accelsim.types import Ints


def carried_B(topology: Topology, program: Program, ranks: Sequence[int], elements: int) -> Ints:
    """Bytes per wire: of all messages of a program among ``ranks``, on buffers of so many bytes."""
    names, edges = np.asarray(ranks, np.int64), bounds(program, elements)
    found = np.zeros(len(topology.wires), np.int64)
    for block in program.rounds:
        sent = np.zeros(len(block.source), np.int64)
        for number in range(block.times):
            first = block.cells(number)
            sent += edges[first + block.width] - edges[first]
        pairs = zip(names[block.source].tolist(), names[block.target].tolist(), sent.tolist(), strict=True)
        for source, target, nbytes in pairs:
            found[list(topology.route(source, target))] += nbytes
    return found
