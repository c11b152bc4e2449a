"""An algorithm of collectives: kinds that it does, with which numbers of devices, and its rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from accelsim.cluster.collectives.building import messages
from accelsim.cluster.collectives.rounds import Program, chunked
from accelsim.cluster.network.play import MessageGraph
from accelsim.errors import Gather

KINDS = {
    "all_reduce": "everybody ends with the sum of all buffers",
    "reduce_scatter": "device i ends with part i of the sum of all buffers",
    "all_gather": "everybody ends with the parts of all, in order",
    "broadcast": "everybody ends with the buffer of the first device",
    "reduce": "the first device ends with the sum of all buffers",
    "all_to_all": "device i ends with part i of the buffers of all",
    "send_recv": "each device but the last sends its buffer to the next",
}
"""Kind -> what it does. The size is that of a whole buffer: of all_gather, of its result."""


class Members(NamedTuple):
    """Devices that take part: ``ranks`` devices, numbered from 0; ``groups``: the node of each."""

    ranks: int
    groups: tuple[int, ...]

    @property
    def per_node(self) -> int:
        """Devices on the node of the first."""
        return self.groups.count(self.groups[0])


Rule = Callable[[str, Members], str]
"""(kind, members) -> what the algorithm needs and they are not; '' where it can."""


def anybody(kind: str, members: Members) -> str:
    """No rule: any number of devices."""
    return ""


def power_of_two(kind: str, members: Members) -> str:
    """A number of devices that is a power of two."""
    return "" if members.ranks & (members.ranks - 1) == 0 else "a number of devices that is a power of two"


Make = Callable[[str, Members, int], Program]
Count = Callable[[Members, int], int]


@dataclass(frozen=True)
class Collective:
    """One algorithm.

    ``program(kind, members, chunks)`` are its rounds. ``pipelined``: it makes its own use of chunks; others do all at
    once for each chunk, which has a share of the part of every device. ``rule`` says which devices it can do with;
    ``count(members, chunks)`` about how many messages it takes, at most.
    """

    name: str
    title: str
    kinds: tuple[str, ...]
    program: Make
    rule: Rule = anybody
    pipelined: bool = False
    count: Count = lambda members, chunks: 2 * members.ranks**2 * chunks

    def why_not(self, kind: str, members: Members) -> str:
        """Return what is missing to do that kind among them; '' where it can."""
        return self.rule(kind, members) if kind in self.kinds else f"one of {', '.join(self.kinds)}"

    def rounds(self, kind: str, members: Members, chunks: int = 1) -> Program:
        """The rounds of a kind. UsageError where it cannot do that kind, or not among so many."""
        missing, gather = self.why_not(kind, members), Gather()
        gather.refuse(missing, f"{kind} among {members.ranks}", self.name, missing)
        gather.refuse(chunks < 1, f"{chunks} chunks", self.name, "1 or more")
        gather.refuse(members.ranks < 1, f"{members.ranks} devices", self.name, "1 or more")
        gather.done()
        if members.ranks == 1 and kind != "all_to_all":
            return Program(1, 1, (), areas=areas(kind))
        if self.pipelined:
            return self.program(kind, members, chunks)
        return chunked(self.program(kind, members, 1), chunks)

    def build(
        self,
        kind: str,
        ranks: int,
        elements: int,
        chunks: int = 1,
        groups: Sequence[int] = (),
        itemsize: int = 1,
    ) -> MessageGraph:
        """The messages of a kind on buffers of so many elements. ``groups``: node of each device; one without."""
        members = Members(ranks, tuple(groups) or (0,) * ranks)
        return messages(self.rounds(kind, members, chunks), elements, itemsize)


def areas(kind: str) -> int:
    """Parts of a rank's buffer: input and output where they differ, else one."""
    return 2 if kind in ("all_to_all", "send_recv") else 1
