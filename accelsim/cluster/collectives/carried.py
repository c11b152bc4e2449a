"""What each wire carries in a collective, without playing it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accelsim.cluster.collectives.building import bounds
from accelsim.cluster.collectives.program import Program, Rounds
from accelsim.cluster.network.topology import Topology
from accelsim.types import Ints


def carried_B(topology: Topology, program: Program, ranks: Sequence[int], elements: int) -> Ints:
    """Bytes per wire: of all messages of a program among ``ranks``, on buffers of so many bytes."""
    names, edges = np.asarray(ranks, np.int64), bounds(program, elements)
    found = np.zeros(len(topology.wires), np.int64)
    for block in program.rounds:
        sent = _sent(block, edges)
        pairs = zip(names[block.source].tolist(), names[block.target].tolist(), sent.tolist(), strict=True)
        for source, target, nbytes in pairs:
            found[list(topology.route(source, target))] += nbytes
    return found


def _sent(block: Rounds, edges: Ints) -> Ints:
    """Bytes of each message in all rounds of a block together: cells around within their period, by sums from 0 on."""
    sizes = np.diff(edges)
    upto = np.concatenate([[0], np.cumsum(sizes if block.names is None else sizes[block.names])])
    if not block.step:
        found: Ints = (upto[block.first + block.width] - upto[block.first]) * block.times
        return found
    begin = block.first // block.period * block.period
    low = block.first - begin - (block.times - 1) * block.width  # all steps of rings lead downwards
    whole = upto[begin + block.period] - upto[begin]
    wrapped = np.where(
        low < 0, upto[begin + low % block.period] - upto[begin] - whole, upto[begin + low] - upto[begin]
    )
    carried: Ints = upto[block.first + block.width] - upto[begin] - wrapped
    return carried
