"""Time of a collective on a network, load of each wire, joules, by playing its messages.

``algorithm`` is a name of the registry, or 'auto': the one with the least time of those that can do it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import isqrt
from typing import NamedTuple

import numpy as np

from accelsim.cluster.collectives.algorithms import able
from accelsim.cluster.collectives.algorithms import algorithm as named
from accelsim.cluster.collectives.base import KINDS, Collective, Members
from accelsim.cluster.collectives.play import by_rounds, play_program
from accelsim.cluster.collectives.reach import reach
from accelsim.cluster.collectives.rounds import Program
from accelsim.cluster.collectives.software import KINDS as PASSED
from accelsim.cluster.network.play import wires_J
from accelsim.cluster.network.topology import Topology
from accelsim.errors import Gather, UsageError, count_of, known
from accelsim.time import FS, FS_PER_S, NEVER
from accelsim.types import Ints

AUTO, SWITCH = "auto", "switch"
SWITCHED = "in the switch, which adds up and sends the sum to all"
"""Title of the algorithm of a switch that adds up (NVLS, SHARP): each of n devices adds up one part of the buffer by
way of the switch, and hands the sum to all. Over its wires go its buffer and one part upwards, one part and the whole
sum downwards, S (n + 1) / n bytes each way."""
MOST_TRIED = 200_000
"""Messages up to which 'auto' plays an algorithm; a ring that needs no events is always among those tried."""
MOST_B = 1 << 60
"""Bytes of a buffer: sums over many devices are whole numbers of 64 bits."""
MOST_CHUNKS = 64
"""Most chunks that are chosen where their number is not given."""


def bus_factor(kind: str, ranks: int) -> float:
    """Return bus bandwidth over algorithm bandwidth of a kind among ``ranks`` devices, as nccl-tests defines them
    (doc/PERFORMANCE.md)."""
    return PASSED[kind].passes(ranks)


@dataclass(frozen=True, eq=False)
class CollectiveTime:
    """A collective on an idle network. ``group``: the devices that take part, in order.

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
        """Time of the collective, s."""
        return self.time_fs * FS

    @property
    def alg_Bps(self) -> float:
        """Algorithm bandwidth of nccl-tests: bytes of the buffer per second."""
        return self.nbytes / self.seconds if self.time_fs else 0.0

    @property
    def bus_Bps(self) -> float:
        """Bus bandwidth as nccl-tests defines it: bytes per second that each device's link must carry
        under any algorithm."""
        return self.alg_Bps * bus_factor(self.kind, len(self.group))

    @cached_property
    def energy_J(self) -> float:
        """Energy of all wires, J."""
        return wires_J(self.topology, self.wire_B)

    @property
    def binding(self) -> list[int]:
        """Numbers of the wires that are busy longest."""
        most = int(self.busy_fs.max(initial=0))
        return [int(wire) for wire in np.flatnonzero(self.busy_fs == most)] if most else []


class Task(NamedTuple):
    """A collective of ``nbytes`` among ``members`` in ``chunks`` (None: as many as are best)."""

    topology: Topology
    kind: str
    nbytes: int
    members: tuple[int, ...]
    chunks: int | None = None

    @property
    def who(self) -> Members:
        """Members as algorithms see them."""
        return Members(len(self.members), tuple(self.topology.groups[rank] for rank in self.members))

    @property
    def among(self) -> str:
        """Number of devices in words: 'among 8 devices'."""
        return f"among {count_of(len(self.members), 'device')}"

    def count(self, chosen: Collective) -> int:
        """Return the number of chunks that an algorithm uses."""
        if self.chunks is not None or not chosen.pipelined or len(self.members) < 2:
            return self.chunks or 1
        return best_chunks(self.topology, self.nbytes, self.members)

    def rounds(self, chosen: Collective) -> Program:
        """Return the rounds of an algorithm."""
        return chosen.rounds(self.kind, self.who, self.count(chosen))

    def affordable(self, chosen: Collective, most: int) -> bool:
        """Return whether an algorithm takes at most ``most`` messages, or is a ring that needs no events."""
        if chosen.count(self.who, self.count(chosen)) <= most:
            return True
        if chosen.name != "ring":
            return False
        return by_rounds(self.topology, self.rounds(chosen), self.members, self.nbytes) is not None

    def check(self, algorithm: str) -> None:
        """Raise UsageError with everything that keeps an algorithm from doing it."""
        topology, kind, members = self.topology, self.kind, self.members
        known("kind of collective", kind, KINDS)
        gather = Gather()
        for rank in dict.fromkeys(members):
            exists = 0 <= rank < topology.ranks
            gather.refuse(not exists, f"no device {rank}", topology.name, f"0 to {topology.ranks - 1}")
        gather.refuse(not 0 <= self.nbytes <= MOST_B, f"{self.nbytes:,} bytes", kind, "0 B to 1 EiB")
        twice = f"a group that has a device twice: {list(members)}"
        gather.refuse(len(set(members)) < len(members), twice, kind, "each once")
        gather.refuse(not members, "a group of no device", kind, "one or more")
        gather.done()
        if algorithm == SWITCH:
            missing = self.unswitched()
        else:
            missing = "" if algorithm == AUTO else named(algorithm, kind).why_not(kind, self.who)
        if missing:
            raise UsageError(f"{kind} by {algorithm} {self.among}", topology.name, missing)

    def unswitched(self) -> str:
        """Return what is missing to do it in a switch that adds up; '' where it can."""
        if self.kind != "all_reduce":
            return "all_reduce"
        able = len(set(self.members)) > 1 and reach(self.topology, self.members).sums
        return "" if able else "two devices or more at one switch whose fabric says `sums: true`"


def collective(
    topology: Topology,
    kind: str,
    nbytes: int,
    algorithm: str = AUTO,
    group: Sequence[int] | None = None,
    chunks: int | None = None,
) -> CollectiveTime:
    """Time a collective of ``nbytes`` (a whole buffer) among ``group``, all devices where None. Results are remembered.

    ``chunks``: parts that follow each other; None: of pipelined algorithms as many as ``best_chunks`` says, else one.
    UsageError with all that is wrong: unknown kind or algorithm, one that cannot do it, devices that do not exist.
    """
    members = tuple(range(topology.ranks)) if group is None else tuple(group)
    task = Task(topology, kind, nbytes, members, chunks)
    task.check(algorithm)
    return _collective(task, algorithm)


def ranked(
    topology: Topology,
    kind: str,
    nbytes: int,
    group: Sequence[int] | None = None,
    chunks: int | None = None,
    most: int = MOST_TRIED,
) -> list[CollectiveTime]:
    """Return all algorithms that can do it, fastest first, without those of more than ``most`` messages."""
    members = tuple(range(topology.ranks)) if group is None else tuple(group)
    task = Task(topology, kind, nbytes, members, chunks)
    task.check(AUTO)
    names = [each.name for each in able(kind, task.who) if task.affordable(each, most)]
    names += [] if task.unswitched() else [SWITCH]
    if not names:
        raise UsageError(f"{kind} {task.among}", topology.name, "an --algorithm by name")
    return sorted((_collective(task, name) for name in names), key=lambda each: each.time_fs)


@lru_cache(maxsize=4096)
def _collective(task: Task, name: str) -> CollectiveTime:
    topology, kind, nbytes, members, chunks = task
    if name == AUTO:
        return ranked(topology, kind, nbytes, members, chunks)[0]
    if name == SWITCH:
        return _switched(task)
    chosen = named(name, kind)
    title = f"{kind} by {name} {task.among}"
    found, how = play_program(topology, task.rounds(chosen), members, nbytes, title)
    times = (found.time_fs, found.finish_fs, found.busy_fs, found.wire_B)
    return CollectiveTime(topology, kind, nbytes, name, task.count(chosen), members, *times, how)


def _switched(task: Task) -> CollectiveTime:
    """Return the closed form on an idle network: two trips through the switch, and the bytes over the slowest wire."""
    topology, members = task.topology, task.members
    wire_B = switched_B(topology, members, task.nbytes)
    steps = zip(members, [*members[1:], members[0]], strict=True)
    latency = max(topology.message_fs(a, b, 0) for a, b in steps)
    used = np.flatnonzero(wire_B).tolist()
    moving = max(topology.occupancy_fs(wire, int(wire_B[wire])) for wire in used)
    time_fs = 2 * latency + moving
    return closed(task, SWITCH, time_fs, wire_B, SWITCH)


def switched_B(topology: Topology, members: Sequence[int], nbytes: int) -> Ints:
    """Return bytes per wire of an all-reduce in the switch."""
    found = np.zeros(len(topology.wires), np.int64)
    for a, b in zip(members, [*members[1:], members[0]], strict=True):
        found[list(topology.route(a, b))] += nbytes + -(-nbytes // len(members))
    return found


def closed(task: Task, name: str, time_fs: int, wire_B: Ints, how: str) -> CollectiveTime:
    """Make a collective of a known time, which all members end at once. No wire is busy longer than the whole."""
    topology, kind, nbytes, members, _ = task
    busy = [topology.occupancy_fs(wire, count) for wire, count in enumerate(wire_B.tolist())]
    time_fs = max(time_fs, *busy)
    if time_fs > NEVER:
        what = f"{kind} takes longer than {NEVER // FS_PER_S:,} s"
        raise UsageError(what, topology.name, "fewer bytes")
    finish = np.zeros(topology.ranks, np.int64)
    finish[list(members)] = time_fs
    times = (time_fs, finish, np.array(busy, np.int64), wire_B)
    return CollectiveTime(topology, kind, nbytes, name, 1, members, *times, how)


def best_chunks(topology: Topology, nbytes: int, members: Sequence[int]) -> int:
    """Return the number of chunks of a pipeline through all members: sqrt((N - 2) S / (alpha beta)), with alpha and S /
    beta of the slowest step to the next; a power of two, at most ``MOST_CHUNKS``."""
    steps = list(zip(members, [*members[1:], members[0]], strict=True))
    alpha = max(1, max(topology.message_fs(a, b, 0) for a, b in steps))
    moving = max(topology.message_fs(a, b, nbytes) - topology.message_fs(a, b, 0) for a, b in steps)
    best = isqrt(max(0, len(members) - 2) * moving // alpha)
    return min(MOST_CHUNKS, 1 << max(0, best.bit_length() - 1))
