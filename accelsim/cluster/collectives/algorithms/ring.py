"""Ring: each device only ever sends to the next. Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms (2009)."""

from __future__ import annotations

from accelsim.cluster.collectives.base import Collective, Members
from accelsim.cluster.collectives.patterns import origin, ring_gather, ring_scatter, whole
from accelsim.cluster.collectives.program import Program


def _program(kind: str, members: Members, chunks: int) -> Program:
    everybody = whole(members.ranks)
    scatter, gather = ring_scatter(everybody, origin(everybody)), ring_gather(everybody, origin(everybody))
    parts = {"all_reduce": scatter + gather, "reduce_scatter": scatter, "all_gather": gather}
    return Program(members.ranks, members.ranks, tuple(parts[kind]))


COLLECTIVE = Collective(
    "ring", "around a ring, one part per device", ("all_reduce", "reduce_scatter", "all_gather"), _program
)
