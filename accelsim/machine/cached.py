"""A cache before a memory: transfers look up their lines, hits stay on the chip, the memory gets what is left.

Time of a transfer: it is looked up, then two streams run side by side and the longer one decides. All its bytes pass
the port of the cache, at the cache's rate. Lines that miss come from the memory behind, by the model of that memory,
and so do stores that pass through. Lines that are written back follow these and delay nobody but who comes to the
memory later. Transfers end in the order in which they were accepted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from accelsim.engines.device import Asked, Served
from accelsim.machine.bursts import Addresses, starts_of
from accelsim.machine.cache_stats import CacheStats
from accelsim.machine.rates import Lane
from accelsim.machine.run import Row
from accelsim.program.actions import READ, TRANSFER, WRITE, ActionName
from accelsim.program.addresses import AddressMap, Runs
from accelsim.program.commands import Program


class Behind(Protocol):
    """The model of the memory behind a cache."""

    def serve(self, asked: Asked, at_fs: int) -> Served:
        """Times of a transfer that passes the cache as it is."""

    def serve_at(self, addresses: Addresses, length_B: int, asked: Asked, at_fs: int) -> Served:
        """Times of pieces of ``length_B`` bytes from each of some addresses on."""


class Front:
    """The port of the cache itself: its rate and latency; None takes no time."""

    def __init__(self, lane: Lane | None) -> None:
        self._lane = lane
        self._free_fs = 0  # last data beat so far

    def looked_up(self, at_fs: int) -> int:
        """When it is known what is missing of a transfer that was accepted at ``at_fs``."""
        return at_fs + (self._lane.latency_fs if self._lane is not None else 0)

    def through(self, asked: Asked, at_fs: int, came: Served | None, waits: bool) -> Served:
        """Times of a transfer. ``came``: those of what the memory behind had to do for it, if anything; ``waits``: its
        first byte does, too, because nothing of it is there."""
        if self._lane is None:
            return Served(at_fs, at_fs, at_fs)
        latency_fs = self._lane.latency_fs
        if self._lane.pipelined:
            data = max(at_fs + latency_fs, self._free_fs)
        else:
            data = max(at_fs, self._free_fs) + latency_fs
        if came is not None and waits:
            data = max(data, came.data)
        end = data + self._lane.occupancy_fs(asked.nbytes, asked.write)[0]
        late = came is not None and came.end > end
        self._free_fs = came.end if came is not None and late else end
        return Served(at_fs, data, self._free_fs, came is not None and late and came.by_link)


class Cached:
    """Serves requests through the cache ``name`` (a memory model, see ``port``) before the memory ``behind``."""

    def __init__(
        self, name: str, front: Front, behind: Behind, program: Program, addresses: AddressMap
    ) -> None:
        attached = program.chip.memories[name]
        spec, memory = attached.cache, attached.fed_by
        assert spec is not None and memory is not None
        fed_by = program.chip.memories[memory]
        self.stats = CacheStats(memory, spec.line)
        self._name, self._front, self._behind = name, front, behind
        self._program, self._addresses = program, addresses
        self._count, self._link = fed_by.memory.capacity // spec.line, fed_by.link is not None
        self._passes = spec.policy == "write_through"
        sets = attached.memory.capacity // (spec.line * spec.ways)
        self._lines = Lines(sets, spec.ways, not self._passes)
        self._rows: Counter[tuple[str, ActionName, int, str]] = Counter()
        self._tensors: dict[str, int] = {}

    def serve(self, asked: Asked, at_fs: int) -> Served:
        """Look up the lines of the transfer; fetch, write back or pass on."""
        command, stats = self._program.commands[asked.command], self.stats
        touched = pieces(self._addresses.runs(command), stats.line_B, self._count)
        tensor = next((a.tensor for a in command.actions if a.component in (self._name, stats.memory)), "")
        owner = self._tensors.setdefault(tensor, len(self._tensors))
        found = self._lines.access(touched.lines, asked.write, touched.nbytes >= stats.line_B, owner)
        hits = int(np.count_nonzero(found.hit))
        stats.hits, stats.misses = stats.hits + hits, stats.misses + len(touched.lines) - hits
        looked_up, came = self._front.looked_up(at_fs), None
        if len(found.fetched):
            came = self._fetch(found.fetched, asked, looked_up, command.op, tensor)
        elif asked.write and self._passes:
            stats.through_B += asked.nbytes
            changed_B = int(touched.nbytes[found.hit].sum())
            stats.changed_B += changed_B
            self._rows[self._name, WRITE, command.op, tensor] += changed_B
            came = self._behind.serve(asked, looked_up)
        if len(found.written_back):
            self._put_back(found.written_back, found.owners, asked, looked_up, command.op)
        served = self._front.through(asked, at_fs, came, waits=not hits and not asked.write)
        if came is None or served.end > came.end:
            stats.alone.add(asked.command)
        return served

    def _fetch(self, lines: Addresses, asked: Asked, at_fs: int, op: int, tensor: str) -> Served:
        line_B = self.stats.line_B
        moved_B = len(lines) * line_B
        self.stats.fetched_B += moved_B
        self._rows[self._name, WRITE, op, tensor] += moved_B
        self._moved(READ, op, tensor, moved_B)
        return self._behind.serve_at(
            lines * line_B, line_B, asked._replace(nbytes=moved_B, write=False), at_fs
        )

    def _put_back(self, lines: Addresses, owners: Addresses, asked: Asked, at_fs: int, op: int) -> None:
        line_B, names = self.stats.line_B, list(self._tensors)
        moved_B = len(lines) * line_B
        self.stats.written_back_B += moved_B
        for owner, count in zip(*np.unique(owners, return_counts=True), strict=True):
            self._rows[self._name, READ, op, names[owner]] += int(count) * line_B
            self._moved(WRITE, op, names[owner], int(count) * line_B)
        self._behind.serve_at(lines * line_B, line_B, asked._replace(nbytes=moved_B, write=True), at_fs)

    def _moved(self, way: ActionName, op: int, tensor: str, moved_B: int) -> None:
        """Bytes of the memory behind, and of the link before it."""
        self._rows[self.stats.memory, way, op, tensor] += moved_B
        if self._link:
            self._rows[f"{self.stats.memory}.link", TRANSFER, op, tensor] += moved_B

    def finish(self) -> list[Row]:
        """Ledger rows of what passed between cache and memory, beside those of the commands; the run has ended."""
        self.stats.dirty_B = self._lines.dirty * self.stats.line_B
        return [Row(*key, count) for key, count in self._rows.items() if count]


Flags = NDArray[np.bool_]
NOBODY = -1
"""Tag of a place without a line."""


class Pieces(NamedTuple):
    """What a transfer touches, in its order: numbers of lines, and how many bytes of each."""

    lines: Addresses
    nbytes: Addresses


def pieces(runs: Sequence[Runs], line_B: int, lines: int) -> Pieces:
    """The lines of some runs; those behind each other are one access. Numbers wrap round at ``lines``."""
    found = [_pieces(run, line_B) for run in runs]
    if not found:
        return Pieces(np.zeros(0, np.int64), np.zeros(0, np.int64))
    numbers, nbytes = (np.concatenate(column) for column in zip(*found, strict=True))
    first = np.flatnonzero(np.concatenate(([True], numbers[1:] != numbers[:-1])))
    return Pieces(numbers[first] % lines, np.add.reduceat(nbytes, first))


def _pieces(run: Runs, line_B: int) -> tuple[Addresses, Addresses]:
    starts = starts_of(run)
    ends = starts + run.length_B
    first, last = starts // line_B, (ends - 1) // line_B
    counts = last - first + 1
    behind = np.cumsum(counts)
    numbers = np.repeat(first, counts) + np.arange(int(behind[-1])) - np.repeat(behind - counts, counts)
    begin = np.maximum(numbers * line_B, np.repeat(starts, counts))
    end = np.minimum((numbers + 1) * line_B, np.repeat(ends, counts))
    return numbers, end - begin


class Touched(NamedTuple):
    """What came of some accesses: which hit, which lines were fetched, which had to be written back and whose they
    were, in the order of the accesses that made them."""

    hit: Flags
    fetched: Addresses
    written_back: Addresses
    owners: Addresses


class Lines:
    """The lines of a cache, none at first. ``write_back``: stores make room and stay; else they pass, and change only
    what is there."""

    def __init__(self, sets: int, ways: int, write_back: bool = True) -> None:
        self._sets, self._write_back = sets, write_back
        self._tags = np.full((sets, ways), NOBODY, np.int64)
        self._used = np.zeros((sets, ways), np.int64)  # number of the access that used it last
        self._dirty = np.zeros((sets, ways), np.bool_)
        self._owner = np.zeros((sets, ways), np.int64)
        self._accesses = 0

    @property
    def dirty(self) -> int:
        """How many lines the memory behind does not have yet."""
        return int(np.count_nonzero(self._dirty))

    def access(self, lines: Addresses, write: bool, whole: Flags, owner: int = 0) -> Touched:
        """Look up lines, one after the other. ``whole``: of a store, whether all of the line is written, so that it
        need not be fetched; ``owner``: who is asked for when what is stored is written back."""
        hit = np.zeros(len(lines), np.bool_)
        gone = [_Gone(lines[:0], lines[:0], lines[:0])]
        for index in self._rounds(lines):
            hit[index], left = self._round(index, lines[index], write, owner)
            gone.append(left)
        self._accesses += len(lines)
        order, tags, owners = (np.concatenate(column) for column in zip(*gone, strict=True))
        turn = np.argsort(order, kind="stable")
        if write:
            missing = ~hit & ~whole & self._write_back
        else:
            missing = ~hit
        return Touched(hit, lines[missing], tags[turn], owners[turn])

    def _rounds(self, lines: Addresses) -> Iterator[Addresses]:
        """Indices of accesses to different sets, those of one set in their order from round to round."""
        if not len(lines):
            return
        sets = lines % self._sets
        order = np.argsort(sets, kind="stable")
        ranked = sets[order]
        begins = np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1])))
        turn = np.arange(len(lines)) - np.repeat(begins, np.diff(np.append(begins, len(lines))))
        yield from np.split(order[np.argsort(turn, kind="stable")], np.cumsum(np.bincount(turn))[:-1])

    def _round(self, index: Addresses, lines: Addresses, write: bool, owner: int) -> tuple[Flags, _Gone]:
        """Which of some lines of different sets hit, and what they made leave."""
        sets = lines % self._sets
        same = self._tags[sets] == lines[:, None]
        hit: Flags = same.any(axis=1)
        ways = np.where(hit, same.argmax(axis=1), self._used[sets].argmin(axis=1))
        keeps = hit | (self._write_back or not write)
        leaves = keeps & ~hit & self._dirty[sets, ways]
        left = sets[leaves], ways[leaves]
        gone = _Gone(index[leaves], self._tags[left], self._owner[left])
        there = sets[keeps], ways[keeps]
        self._tags[there], self._used[there] = lines[keeps], self._accesses + index[keeps] + 1
        if write and self._write_back:
            self._dirty[there], self._owner[there] = True, owner
        else:
            self._dirty[there] &= hit[keeps]
        return hit, gone


class _Gone(NamedTuple):
    """Dirty lines that made room: by which access, their numbers, their owners."""

    by: Addresses
    lines: Addresses
    owners: Addresses
