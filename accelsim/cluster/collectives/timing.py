"""Time of a collective on a network, load of each wire, joules: played, or where that is exact, computed.

``algorithm`` is a name of the registry, or 'auto': the one with the least time of those that can do it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import isqrt
from typing import Any

import numpy as np

from accelsim.cluster.collectives import switch
from accelsim.cluster.collectives.base import KINDS, Collective, Members
from accelsim.cluster.collectives.building import messages
from accelsim.cluster.collectives.fast import Totals, play_ring
from accelsim.cluster.collectives.registry import able
from accelsim.cluster.collectives.registry import algorithm as named
from accelsim.cluster.collectives.rounds import Program
from accelsim.cluster.network.play import play, wires_J
from accelsim.cluster.network.topology import Topology
from accelsim.errors import Problem, UsageError, count_of, known
from accelsim.time import FS, FS_PER_S, NEVER
from accelsim.types import Ints

AUTO = "auto"
MOST_TRIED = 200_000
"""Messages up to which 'auto' plays an algorithm; a ring that needs no events is always among those tried."""
MOST_PLAYED = 10_000_000
"""Messages of a collective that is played event by event."""
MOST_B = 1 << 60
"""Bytes of a buffer: sums over many devices are whole numbers of 64 bits."""
MOST_CHUNKS = 64
"""Chunks that are chosen where nobody says how many."""

BUS: dict[str, tuple[int, bool]] = {
    "all_reduce": (2, True), "reduce_scatter": (1, True), "all_gather": (1, True), "all_to_all": (1, True),
    "broadcast": (1, False), "reduce": (1, False), "send_recv": (1, False),
}  # fmt: skip
"""Kind -> factor f, and whether that is f (n - 1) / n among n devices: bus over algorithm bandwidth, as nccl-tests
defines them (doc/PERFORMANCE.md)."""


def bus_factor(kind: str, ranks: int) -> float:
    """Bus bandwidth over algorithm bandwidth of a kind among so many devices."""
    factor, shared = BUS[kind]
    return factor * (ranks - 1) / ranks if shared else float(factor)


@dataclass(frozen=True, eq=False)
class CollectiveTime:
    """One collective on an idle network. ``group``: the devices that take part, in order.

    ``finish_fs``: of each device of the topology; ``busy_fs``, ``wire_B``: of each wire. ``played``: 'events', 'ring'
    or 'switch' where no events were needed, 'library' where the time is that of a library, which uses a ``protocol``;
    nine of ten measured times lie within ``factor`` of it (None: not known).
    """

    topology: Topology
    kind: str
    nbytes: int
    algorithm: str
    chunks: int
    group: tuple[int, ...]
    time_fs: int
    finish_fs: Ints
    busy_fs: Ints
    wire_B: Ints
    played: str
    protocol: str = ""
    factor: float | None = None

    @property
    def interval_s(self) -> tuple[float, float] | None:
        """Ends of its 90 % interval, s; None where it is not known."""
        return None if self.factor is None else (self.seconds / self.factor, self.seconds * self.factor)

    @property
    def seconds(self) -> float:
        """Its time, s."""
        return self.time_fs * FS

    @property
    def alg_Bps(self) -> float:
        """Algorithm bandwidth of nccl-tests: bytes of the buffer per second."""
        return self.nbytes / self.seconds if self.time_fs else 0.0

    @property
    def bus_Bps(self) -> float:
        """Bus bandwidth of nccl-tests: what a link of each device must carry, per second, whoever does it how."""
        return self.alg_Bps * bus_factor(self.kind, len(self.group))

    @cached_property
    def energy_J(self) -> float:
        """Energy of all wires, J."""
        return wires_J(self.topology, self.wire_B)

    @property
    def binding(self) -> list[int]:
        """The wires that are busy longest."""
        most = int(self.busy_fs.max(initial=0))
        return [int(wire) for wire in np.flatnonzero(self.busy_fs == most)] if most else []


def collective(
    topology: Topology, kind: str, nbytes: int, algorithm: str = AUTO, group: Sequence[int] | None = None,
    chunks: int | None = None,
) -> CollectiveTime:  # fmt: skip
    """A collective of ``nbytes`` (a whole buffer) among ``group``, all devices where None; remembered.

    ``chunks``: parts that follow each other; None: of pipelined algorithms as many as ``best_chunks`` says, else one.
    UsageError with all that is wrong: unknown kind or algorithm, one that cannot do it, devices that do not exist.
    """
    members = tuple(range(topology.ranks)) if group is None else tuple(group)
    check(topology, kind, nbytes, algorithm, members)
    return _collective(topology, kind, nbytes, algorithm, members, chunks)


def ranked(
    topology: Topology, kind: str, nbytes: int, group: Sequence[int] | None = None, chunks: int | None = None,
    most: int = MOST_TRIED,
) -> list[CollectiveTime]:  # fmt: skip
    """All algorithms that can do it, in order of their times; those with more than ``most`` messages left out."""
    members = tuple(range(topology.ranks)) if group is None else tuple(group)
    check(topology, kind, nbytes, AUTO, members)
    who = Members(len(members), tuple(topology.groups[rank] for rank in members))
    tried = [
        _collective(topology, kind, nbytes, each.name, members, chunks)
        for each in able(kind, who)
        if _affordable(topology, each, kind, nbytes, members, chunks, most)
    ]
    if not switch.why_not(topology, kind, members):
        tried.append(_collective(topology, kind, nbytes, switch.SWITCH, members, chunks))
    if not tried:
        raise UsageError(
            Problem(
                f"{kind} among {count_of(len(members), 'device')}", topology.name, "an --algorithm by name"
            )
        )
    return sorted(tried, key=lambda each: each.time_fs)


@lru_cache(maxsize=4096)
def _collective(
    topology: Topology, kind: str, nbytes: int, name: str, members: tuple[int, ...], chunks: int | None
) -> CollectiveTime:
    if name == AUTO:
        return ranked(topology, kind, nbytes, members, chunks)[0]
    if name == switch.SWITCH:
        wire_B = switch.carried_B(topology, members, nbytes)
        return closed(
            topology, kind, nbytes, name, members, switch.time_fs(topology, members, nbytes), wire_B, name
        )
    program, count = _program(topology, named(name, kind), kind, nbytes, members, chunks)
    found: Any = play_ring(topology, program, members, nbytes)
    how = "ring" if isinstance(found, Totals) else "events"
    if found is None:
        _check_many(kind, name, members, sum(each.times * len(each.source) for each in program.rounds))
        found = play(topology, messages(program, nbytes).on(members))
    return CollectiveTime(
        topology,
        kind,
        nbytes,
        name,
        count,
        members,
        found.time_fs,
        found.finish_fs,
        found.busy_fs,
        found.wire_B,
        how,
    )


def closed(
    topology: Topology, kind: str, nbytes: int, name: str, members: tuple[int, ...], time_fs: int, wire_B: Ints,
    how: str,
) -> CollectiveTime:  # fmt: skip
    """A collective of a known time, which all members end at once; no wire is busy longer than the whole."""
    busy = [topology.occupancy_fs(wire, count) for wire, count in enumerate(wire_B.tolist())]
    time_fs = max(time_fs, *busy)
    if time_fs > NEVER:
        what = f"{kind} takes longer than {NEVER // FS_PER_S:,} s"
        raise UsageError(Problem(what, topology.name, "fewer bytes"))
    finish = np.zeros(topology.ranks, np.int64)
    finish[list(members)] = time_fs
    return CollectiveTime(
        topology, kind, nbytes, name, 1, members, time_fs, finish, np.array(busy, np.int64), wire_B, how
    )


def _check_many(kind: str, name: str, members: tuple[int, ...], many: int) -> None:
    if many > MOST_PLAYED:
        what = f"{kind} by {name} among {count_of(len(members), 'device')} takes {many:,} messages"
        raise UsageError(Problem(what, "", f"at most {MOST_PLAYED:,}: fewer devices, or another algorithm"))


def _program(
    topology: Topology,
    chosen: Collective,
    kind: str,
    nbytes: int,
    members: tuple[int, ...],
    chunks: int | None,
) -> tuple[Program, int]:
    """The rounds, and how many chunks."""
    count = _chunks(topology, chosen, kind, nbytes, members, chunks)
    groups = tuple(topology.groups[rank] for rank in members)
    return chosen.rounds(kind, Members(len(members), groups), count), count


def _chunks(
    topology: Topology,
    chosen: Collective,
    kind: str,
    nbytes: int,
    members: tuple[int, ...],
    chunks: int | None,
) -> int:
    if chunks is not None or not chosen.pipelined or len(members) < 2:
        return chunks or 1
    return best_chunks(topology, nbytes, members)


def best_chunks(topology: Topology, nbytes: int, members: Sequence[int]) -> int:
    """Chunks of a pipeline through all members: sqrt((N - 2) S / (alpha beta)), with alpha and S / beta of the slowest
    step from each to the next; a power of two, at most ``MOST_CHUNKS``."""
    steps = list(zip(members, [*members[1:], members[0]], strict=True))
    alpha = max(1, max(topology.message_fs(a, b, 0) for a, b in steps))
    moving = max(topology.message_fs(a, b, nbytes) - topology.message_fs(a, b, 0) for a, b in steps)
    best = isqrt(max(0, len(members) - 2) * moving // alpha)
    return min(MOST_CHUNKS, 1 << max(0, best.bit_length() - 1))


def _affordable(
    topology: Topology, chosen: Collective, kind: str, nbytes: int, members: tuple[int, ...], chunks: int | None,
    most: int,
) -> bool:  # fmt: skip
    """Return whether it takes at most so many messages, or a ring that needs no events."""
    who = Members(len(members), tuple(topology.groups[rank] for rank in members))
    if chosen.count(who, _chunks(topology, chosen, kind, nbytes, members, chunks)) <= most:
        return True
    if chosen.name != "ring":
        return False
    return (
        play_ring(topology, _program(topology, chosen, kind, nbytes, members, chunks)[0], members, nbytes)
        is not None
    )


def check(topology: Topology, kind: str, nbytes: int, algorithm: str, members: tuple[int, ...]) -> None:
    """UsageError with all that is wrong with a collective of ``nbytes`` among ``members`` by an algorithm."""
    known("kind of collective", kind, KINDS)
    problems = [
        Problem(f"no device {rank}", topology.name, f"0 to {topology.ranks - 1}")
        for rank in dict.fromkeys(members)
        if not 0 <= rank < topology.ranks
    ]
    if not 0 <= nbytes <= MOST_B:
        problems.append(Problem(f"{nbytes:,} bytes", kind, "0 B to 1 EiB"))
    if len(set(members)) < len(members):
        problems.append(Problem(f"a group that has a device twice: {list(members)}", kind, "each once"))
    if not members:
        problems.append(Problem("a group of no device", kind, "one or more"))
    if problems:
        raise UsageError(problems)
    if algorithm != AUTO:
        who = Members(len(members), tuple(topology.groups[rank] for rank in members))
        in_switch = algorithm == switch.SWITCH
        missing = (
            switch.why_not(topology, kind, members)
            if in_switch
            else named(algorithm, kind).why_not(kind, who)
        )
        if missing:
            raise UsageError(
                Problem(
                    f"{kind} by {algorithm} among {count_of(len(members), 'device')}", topology.name, missing
                )
            )
