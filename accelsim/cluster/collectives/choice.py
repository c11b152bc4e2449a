"""Which algorithm runs a collective: the one named, the fastest on the wires alone, or what the library takes.

'library' is what software makes of it on this cluster (``software.py``, constants of the cluster's ``collectives:``):
NCCL's rings and trees with its protocols. 'auto' is the fastest of this package's own algorithms on the idle network,
where software costs no more than its overhead per message.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accelsim.cluster.collectives.base import Collective, Members
from accelsim.cluster.collectives.building import bounds
from accelsim.cluster.collectives.program import Program, Rounds
from accelsim.cluster.collectives.registry import COLLECTIVES
from accelsim.cluster.collectives.software import estimate
from accelsim.cluster.collectives.timing import AUTO, CollectiveTime, check, collective
from accelsim.cluster.network.topology import Topology
from accelsim.errors import Problem, UsageError, known
from accelsim.spec.collectives import Collectives
from accelsim.time import FS_PER_S, NEVER
from accelsim.types import Ints

LIBRARY = "library"
ALGORITHMS = (LIBRARY, AUTO, *COLLECTIVES)
"""What ``answer`` takes as an algorithm."""
STANDS_FOR = {
    "ring": ("rings", "chains", "ring", "chain", "pairwise", "direct"),
    "tree": ("node_trees", "tree"),
}
"""Algorithm of a library -> algorithms of this package, the first of which that can do it sends what it sends."""


def answer(
    topology: Topology, software: Collectives, kind: str, nbytes: int, algorithm: str = "",
    group: Sequence[int] | None = None, chunks: int | None = None,
) -> CollectiveTime:  # fmt: skip
    """A collective by an algorithm of ``ALGORITHMS``; '': the library where its constants are stated, else 'auto'."""
    if algorithm:
        known("algorithm", algorithm, ALGORITHMS)
    members = tuple(range(topology.ranks)) if group is None else tuple(group)
    chosen = algorithm or (LIBRARY if stated(software) else AUTO)
    if chosen == LIBRARY and len(set(members)) > 1:
        return by_library(topology, software, kind, nbytes, members)
    return collective(topology, kind, nbytes, AUTO if chosen == LIBRARY else chosen, members, chunks)


def stated(software: Collectives) -> bool:
    """Return whether any constant of the library is stated: then it is one, and not the absence of software."""
    return software.model_copy(update={"title": "-"}) != Collectives.model_construct(title="-")


def by_library(
    topology: Topology, software: Collectives, kind: str, nbytes: int, members: Sequence[int]
) -> CollectiveTime:
    """A collective as the library runs it. Time is ``software.estimate``; bytes are those of the algorithm that stands
    for the library's, with which joules and the links that bind are worked out; none takes longer than the whole."""
    check(topology, kind, nbytes, AUTO, tuple(members))
    found = estimate(topology, software, kind, nbytes, tuple(members))
    who = Members(len(members), tuple(topology.groups[rank] for rank in members))
    program = _stand_in(found.algorithm, kind, who).rounds(kind, who)
    wire_B = carried_B(topology, program, members, nbytes)
    busy = [topology.occupancy_fs(wire, count) for wire, count in enumerate(wire_B.tolist())]
    time_fs = max(round(found.time_s * FS_PER_S), *busy)
    if time_fs > NEVER:
        what = f"{kind} takes longer than {NEVER // FS_PER_S:,} s"
        raise UsageError(Problem(what, topology.name, "fewer bytes"))
    finish = np.zeros(topology.ranks, np.int64)
    finish[list(members)] = time_fs
    return CollectiveTime(
        topology, kind, nbytes, found.algorithm, 1, tuple(members), time_fs, finish, np.array(busy, np.int64), wire_B,
        LIBRARY, found.protocol,
    )  # fmt: skip


def _stand_in(algorithm: str, kind: str, who: Members) -> Collective:
    able = [COLLECTIVES[name] for name in STANDS_FOR[algorithm] if not COLLECTIVES[name].why_not(kind, who)]
    return able[0]


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
