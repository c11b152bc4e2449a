"""Algorithms of collectives: the kinds that one does, for which devices, its rounds, and their messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from accelsim.cluster.collectives.rounds import Program, Rounds, chunked
from accelsim.cluster.network.play import MessageGraph, starts
from accelsim.errors import Gather
from accelsim.types import Bools, Ints


def bounds(program: Program, elements: int) -> Ints:
    """Return the first element of each cell of a rank's buffer, and its end. Cells differ by at most one element."""
    inside = [number * elements // program.cells for number in range(program.cells)]
    areas = [area * elements + each for area in range(program.areas) for each in inside]
    return np.array([*areas, program.areas * elements], np.int64)


def messages(program: Program, elements: int, itemsize: int = 1) -> MessageGraph:
    """Return the messages of a program on buffers of so many elements per area, in order of their rounds."""
    edges, writers, last = bounds(program, elements), _Writers(program), _Last(program.ranks)
    columns: list[tuple[Ints, ...]] = []
    counts: list[Ints] = []
    needs: list[Ints] = []
    number = turn = 0
    for block in program.rounds:
        many = len(block.source)
        for time in range(block.times):
            first = block.cells(time)
            into = first if block.into is None else block.into
            numbers = number + np.arange(many)
            after = writers.found(block, first)
            if program.blocking:
                after = [*after, *last.found(block)]
            count, need = _merged(after, many)
            counts.append(count)
            needs.append(need)
            writers.write(block, into, numbers)
            last.note(block, numbers)
            begin, end, place = edges[first], edges[first + block.width], edges[into]
            columns.append((block.source, block.target, begin, end, place, np.full(many, turn)))
            number, turn = number + many, turn + 1
    if not columns:
        none = np.zeros(0, np.int64)
        return MessageGraph(none, none, none, starts(none), none, none, none, none, none.astype(bool), none)
    source, target, begin, end, into, rounds = (np.concatenate(each) for each in zip(*columns, strict=True))
    reduces = np.concatenate([block.reduces for block in program.rounds for _ in range(block.times)])
    return MessageGraph(
        source, target, (end - begin) * itemsize, starts(np.concatenate(counts)), np.concatenate(needs),
        begin, end, into, reduces, rounds,
    )  # fmt: skip


Pairs = list[tuple[Ints, Ints]]
"""(place of a message in its round, number of a message that it waits for), column by column."""


def _merged(pairs: Pairs, many: int) -> tuple[Ints, Ints]:
    """For each message of a round how many it waits for, and which: each once, in order."""
    if len(pairs) == 1 and len(pairs[0][0]) == many and (pairs[0][0] == np.arange(many)).all():
        return np.ones(many, np.int64), pairs[0][1]
    if not pairs:
        return np.zeros(many, np.int64), np.zeros(0, np.int64)
    who, need = (np.concatenate(each) for each in zip(*pairs, strict=True))
    base = int(need.max(initial=0)) + 1
    keys = np.sort(who * base + need)
    place, found = np.divmod(keys[np.diff(keys, prepend=-1) > 0], base)
    return np.bincount(place, minlength=many), found


class _Writers:
    """Messages that wrote each cell of each rank: a list per cell, newest first. One that replaces begins it anew."""

    def __init__(self, program: Program) -> None:
        self._head = np.full((program.ranks, program.cells * program.areas), -1, np.int64)
        self._message, self._next = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._used = 0

    def found(self, block: Rounds, first: Ints) -> Pairs:
        """Return who wrote what each message of a round carries, at its sender."""
        place, cell = _cells(first, block.width)
        node = self._head[block.source[place], cell]
        pairs: Pairs = []
        while True:
            written = node >= 0
            if not written.all():
                place, node = place[written], node[written]
            if not len(node):
                return pairs
            pairs.append((place, self._message[node]))
            node = self._next[node]

    def write(self, block: Rounds, into: Ints, numbers: Ints) -> None:
        """Note the messages of a round, in order of their numbers."""
        place, cell = _cells(into, block.width)
        rank = block.target[place]
        turn = _occurrences(rank * self._head.shape[1] + cell)
        for number in range(int(turn.max(initial=0)) + 1):
            mine = turn == number if number or turn.any() else slice(None)
            self._push(rank[mine], cell[mine], numbers[place[mine]], block.reduces[place[mine]])

    def _push(self, rank: Ints, cell: Ints, numbers: Ints, adds: Bools) -> None:
        nodes = self._used + np.arange(len(rank))
        if self._used + len(rank) > len(self._message):
            more = max(len(rank), len(self._message), 1024)
            self._message = np.concatenate([self._message, np.zeros(more, np.int64)])
            self._next = np.concatenate([self._next, np.zeros(more, np.int64)])
        self._used += len(rank)
        self._message[nodes] = numbers
        self._next[nodes] = np.where(adds, self._head[rank, cell], -1)
        self._head[rank, cell] = nodes


class _Last:
    """The last message that each rank sent, and the last that came to it; -1 for none."""

    def __init__(self, ranks: int) -> None:
        self._sent, self._received = np.full(ranks, -1, np.int64), np.full(ranks, -1, np.int64)

    def found(self, block: Rounds) -> Pairs:
        pairs = []
        for table in (self._sent, self._received):
            number = table[block.source]
            place = np.flatnonzero(number >= 0)
            pairs.append((place, number[place]))
        return pairs

    def note(self, block: Rounds, numbers: Ints) -> None:
        self._sent[block.source] = numbers
        self._received[block.target] = numbers


def _cells(first: Ints, width: Ints) -> tuple[Ints, Ints]:
    """Return the place of its message, and the number, of each cell that the messages of a round carry."""
    if (width == 1).all():
        return np.arange(len(first)), first
    place = np.repeat(np.arange(len(first)), width)
    within = np.arange(len(place)) - np.repeat(np.cumsum(width) - width, width)
    return place, first[place] + within


def _occurrences(keys: Ints) -> Ints:
    """Return how many equal keys stand before each."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    fresh = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(keys) else np.zeros(0, bool)
    index = np.arange(len(keys))
    begins = np.maximum.accumulate(np.where(fresh, index, 0))
    found = np.empty_like(index)
    found[order] = index - begins
    return found


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
        """Number of devices on the node of the first."""
        return self.groups.count(self.groups[0])


Rule = Callable[[str, Members], str]
"""(kind, members) -> what the algorithm needs and they are not; '' where it can."""


def anybody(kind: str, members: Members) -> str:
    """Accept any number of devices."""
    return ""


def power_of_two(kind: str, members: Members) -> str:
    """Accept a number of devices that is a power of two."""
    return "" if members.ranks & (members.ranks - 1) == 0 else "a number of devices that is a power of two"


Make = Callable[[str, Members, int], Program]
Count = Callable[[Members, int], int]


@dataclass(frozen=True)
class Collective:
    """An algorithm of collectives.

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
        """Return the rounds of a kind. Raises UsageError for a kind or a number of devices that it cannot do."""
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
        self, kind: str, ranks: int, elements: int, chunks: int = 1, groups: Sequence[int] = (), itemsize: int = 1
    ) -> MessageGraph:
        """Return the messages of a kind on buffers of ``elements``. ``groups``: node of each device; default: one
        node."""
        members = Members(ranks, tuple(groups) or (0,) * ranks)
        return messages(self.rounds(kind, members, chunks), elements, itemsize)


def areas(kind: str) -> int:
    """Return the number of areas of a rank's buffer: two (input and output) where they differ, else one."""
    return 2 if kind in ("all_to_all", "send_recv") else 1
