"""Choice of the algorithm of a collective: the one named, the fastest on the wires alone, or what the library takes.

'library' is what software makes of it on this cluster (``software.py``, constants of the cluster's ``collectives:``):
NCCL's rings and trees with its protocols. 'auto' is the fastest of this package's own algorithms on the idle network,
where software costs no more than its overhead per message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from accelsim.cluster.collectives.algorithms import COLLECTIVES
from accelsim.cluster.collectives.base import bounds
from accelsim.cluster.collectives.reach import RingEdges, ring_edges
from accelsim.cluster.collectives.rounds import Program, Rounds
from accelsim.cluster.collectives.software import KINDS, called_eagerly, estimate
from accelsim.cluster.collectives.timing import (
    AUTO,
    MOST_TRIED,
    SWITCH,
    CollectiveTime,
    Task,
    closed,
    collective,
    ranked,
    switched_B,
)
from accelsim.cluster.network.topology import Topology
from accelsim.errors import UsageError, known
from accelsim.fit.validation import POOLED
from accelsim.spec.cluster import ClusterSpec
from accelsim.spec.collectives import Collectives
from accelsim.time import FS_PER_S
from accelsim.types import Ints

LIBRARY = "library"
ALGORITHMS = (LIBRARY, AUTO, *COLLECTIVES, SWITCH)
"""Algorithms of ``Asked``."""
STANDS_FOR = {
    "ring": ("rings", "chains", "ring", "chain", "pairwise", "direct"),
    "tree": ("node_trees", "tree"),
    "two-shot": ("direct",),
}
"""Algorithm of a library -> algorithms of this package, the first of which that can do it sends what it sends."""
EAGER = "eager"
"""Name of the interval of collectives that a host calls one by one."""
SIZES = ((2**20, "small"), (2**24, "medium"), (float("inf"), "large"))
"""Bytes below which a collective has the interval of that name."""


class Called(NamedTuple):
    """A call of the library: number format that is summed ('': any), and whether a host starts each collective by
    itself (eager) instead of a CUDA graph or earlier kernels."""

    dtype: str = ""
    eager: bool = False


IN_GRAPH = Called()
"""The call of a CUDA graph, with no number format named."""


def regime(nbytes: int) -> str:
    """Return the size class of a collective ('small', 'medium', 'large'), which selects its interval."""
    return next(name for limit, name in SIZES if nbytes < limit)


@dataclass(frozen=True)
class Asked:
    """A collective on a cluster: who takes part and how it is called.

    ``algorithm``: of ``ALGORITHMS``; '': the library where its constants are stated, else 'auto'. ``group``: devices in
    order, all where None. Methods raise UsageError for everything that is impossible.
    """

    topology: Topology
    software: Collectives
    kind: str
    algorithm: str = ""
    group: Sequence[int] | None = None
    chunks: int | None = None
    called: Called = IN_GRAPH

    @property
    def members(self) -> Sequence[int]:
        """Devices that take part, in order."""
        return range(self.topology.ranks) if self.group is None else self.group

    def timed(self, nbytes: int) -> CollectiveTime:
        """Time the collective on a buffer of ``nbytes``."""
        if self.algorithm:
            known("algorithm", self.algorithm, ALGORITHMS)
        chosen, members, called = self.algorithm, tuple(self.members), self.called
        chosen = chosen or (LIBRARY if stated(self.software) else AUTO)
        if chosen == LIBRARY and len(set(members)) > 1:
            return self._by_library(Task(self.topology, self.kind, nbytes, members))
        if chosen in (LIBRARY, AUTO):
            return self.others(nbytes)[0]
        if chosen == SWITCH and not _switch_adds(self.software, called):
            expected = f"{', '.join(_switch_formats(self.software))}, or another --algorithm"
            raise UsageError(f"the switch of {self.topology.name} does not add up {called.dtype}", "", expected)
        return collective(self.topology, self.kind, nbytes, chosen, members, self.chunks)

    def _by_library(self, task: Task) -> CollectiveTime:
        """Time it by ``software.estimate``. Joules and busiest links are those of the algorithm that stands for the
        library's; no link is busy longer than the whole."""
        task.check(AUTO)
        given = (task.topology, self.software)
        found = estimate(*given, task.kind, task.nbytes, task.members, self.called.dtype)
        called = called_eagerly(self.software, found.time_s, task.nbytes) if self.called.eager else found.time_s
        time_fs = round(float(called) * FS_PER_S)
        made = closed(task, found.algorithm, time_fs, _wire_B(task, found.algorithm), LIBRARY)
        factor = factor_of(*given, task.nbytes, task.members, self.called)
        return replace(made, protocol=found.protocol, factor=factor)

    def others(self, nbytes: int, most: int = MOST_TRIED) -> list[CollectiveTime]:
        """Time it by every algorithm on the wires alone, fastest first, as ``timing.ranked``; without the switch if it
        does not add up the number format of the call."""
        found = ranked(self.topology, self.kind, nbytes, tuple(self.members), self.chunks, most)
        return [each for each in found if each.algorithm != SWITCH or _switch_adds(self.software, self.called)]


def _switch_formats(software: Collectives) -> Sequence[str]:
    """Return the number formats that the switch adds up, as the library's protocols state them; empty: any."""
    switched = [each for each in software.protocols.values() if each.algorithm == SWITCH]
    return switched[0].formats or () if switched else ()


def _switch_adds(software: Collectives, called: Called) -> bool:
    return not called.dtype or called.dtype in (_switch_formats(software) or (called.dtype,))


def library_of(cluster: ClusterSpec, name: str = "") -> Collectives:
    """Return the library ``name`` of a cluster, its own for ''. On chips where it was not measured, its intervals are
    those for other chips. Raises UsageError with the nearest name."""
    if name and not cluster.libraries:
        what = f"{cluster.name} has no library {name!r}"
        raise UsageError(what, "", "a cluster with `libraries`, or without --library")
    library = cluster.libraries[known("library", name, cluster.libraries)] if name else cluster.collectives
    chips = {each.chip for node in cluster.nodes.values() for each in node.devices.values()}
    if not library.chips or chips <= set(library.chips):
        return library
    intervals = {} if library.elsewhere is None else {POOLED: library.elsewhere}
    return library.model_copy(update={"intervals": intervals})


def stated(software: Collectives) -> bool:
    """Return whether any constant of the library is stated, so that it can be modelled."""
    return software.model_copy(update={"title": "-"}) != Collectives.model_construct(title="-")


def factor_of(
    topology: Topology, software: Collectives, nbytes: int, group: Sequence[int], called: Called = IN_GRAPH
) -> float | None:
    """Return the factor of the 90 % interval of a library's collective; None where it is not known, as between
    nodes."""
    inside = len({topology.groups[rank] for rank in group}) == 1
    known = software.intervals if inside else {}
    width = known.get(EAGER if called.eager else regime(nbytes), known.get(POOLED))
    return None if width is None else width.factor


def _wire_B(task: Task, algorithm: str) -> Ints:
    """Bytes per wire of what a library's algorithm sends."""
    topology, kind, nbytes, members = task.topology, task.kind, task.nbytes, task.members
    if algorithm == SWITCH:
        return switched_B(topology, members, nbytes)
    rings = ring_edges(topology, members)
    if rings.length and kind not in ("all_to_all", "send_recv"):
        return _evenly_B(topology, rings, nbytes * KINDS[kind].passes(len(members)))
    if algorithm == "one-shot":  # the whole buffer to each: an exchange of buffers of n times the size
        name, kind, nbytes = "direct", "all_to_all", nbytes * len(members)
    else:
        name = next(name for name in STANDS_FOR[algorithm] if not COLLECTIVES[name].why_not(kind, task.who))
    return carried_B(topology, COLLECTIVES[name].rounds(kind, task.who), members, nbytes)


def _evenly_B(topology: Topology, rings: RingEdges, passed_B: float) -> Ints:
    """Bytes per wire where all wires of a grid share evenly what its devices pass on."""
    found, edges = np.zeros(len(topology.wires), np.int64), set(rings.inside)
    used = [number for number, wire in enumerate(topology.wires) if (wire.source, wire.target) in edges]
    found[used] = round(passed_B * rings.share)
    return found


def carried_B(topology: Topology, program: Program, ranks: Sequence[int], elements: int) -> Ints:
    """Return bytes per wire of all messages of a program among ``ranks``, on buffers of ``elements`` bytes."""
    names, edges = np.asarray(ranks, np.int64), bounds(program, elements)
    found = np.zeros(len(topology.wires), np.int64)
    for block in program.rounds:
        columns = (names[block.source], names[block.target], _sent(block, edges))
        for source, target, nbytes in zip(*(column.tolist() for column in columns), strict=True):
            found[list(topology.route(source, target))] += nbytes
    return found


def _sent(block: Rounds, edges: Ints) -> Ints:
    """Bytes of each message in all rounds of a block together: cells around within their period, by sums from 0 on."""
    sizes = np.diff(edges)
    upto = np.concatenate([[0], np.cumsum(sizes if block.names is None else sizes[block.names])])
    last = upto[block.first + block.width]
    if not block.step:
        found: Ints = (last - upto[block.first]) * block.times
        return found
    begin = block.first // block.period * block.period
    low = block.first - begin - (block.times - 1) * block.width  # all steps of rings lead downwards
    whole = upto[begin + block.period] - upto[begin]
    wrapped = upto[begin + low % block.period] - upto[begin] - np.where(low < 0, whole, 0)
    carried: Ints = last - upto[begin] - wrapped
    return carried
