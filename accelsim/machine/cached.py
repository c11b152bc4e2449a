"""A cache before a memory: transfers look up their lines, hits stay on the chip, the memory gets what is left.

Time of a transfer: it is looked up, then two streams run side by side and the longer one decides. All its bytes pass
the port of the cache, at the cache's rate. Lines that miss come from the memory behind, by the model of that memory,
and so do stores that pass through. Lines that are written back follow these and delay nobody but who comes to the
memory later. Transfers end in the order in which they were accepted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import compress
from operator import itemgetter
from typing import Any, NamedTuple, Protocol, cast

from accelsim.engines.device import Asked, Served
from accelsim.machine.dram_stats import CacheStats
from accelsim.machine.rates import Lane
from accelsim.machine.run import LedgerRow
from accelsim.program.actions import READ, TRANSFER, WRITE, ActionName
from accelsim.program.addresses import AddressMap, Runs
from accelsim.program.commands import Command
from accelsim.program.program import Program
from accelsim.program.work import Transfer


class Behind(Protocol):
    """The model of the memory behind a cache."""

    def serve(self, asked: Asked, at_fs: int) -> Served:
        """Return the times of a transfer that bypasses the cache."""

    def serve_lines(self, lines: Sequence[int], line_B: int, asked: Asked, at_fs: int) -> Served:
        """Times of some lines of ``line_B`` bytes, by their numbers."""


class Front:
    """The port of the cache itself: its rate and latency; None takes no time."""

    def __init__(self, lane: Lane | None) -> None:
        self._lane = lane
        self._free_fs = 0  # last data beat so far

    def looked_up(self, at_fs: int) -> int:
        """Return when it is known what is missing of a transfer that was accepted at ``at_fs``."""
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

    def __init__(self, name: str, front: Front, behind: Behind, program: Program) -> None:
        attached = program.chip.memories[name]
        spec, memory = attached.cache, attached.fed_by
        assert spec is not None and memory is not None
        fed_by = program.chip.memories[memory]
        self.stats = CacheStats(memory, spec.line)
        self.name, self._front, self._behind = name, front, behind
        self._touches = Touches(program, (name, memory), spec.line, fed_by.memory.capacity // spec.line)
        self._link = fed_by.link is not None
        self._passes = spec.policy == "write_through"
        sets = attached.memory.capacity // (spec.line * spec.ways)
        self._lines = Lines(sets, spec.ways, not self._passes)
        self._rows: Counter[tuple[str, ActionName, int, str]] = Counter()
        self._tensors: dict[str, int] = {}

    def serve(self, asked: Asked, at_fs: int) -> Served:
        """Look up the lines of the transfer; fetch, write back or pass on."""
        (op, tensor, touched), stats = self._touches.touched_by(asked.command), self.stats
        owner = self._tensors.setdefault(tensor, len(self._tensors))
        found = self._lines.access(touched, stats.line_B, asked.write, owner)
        hits = sum(found.hit)
        stats.hits, stats.misses = stats.hits + hits, stats.misses + len(touched.lines) - hits
        looked_up, came = self._front.looked_up(at_fs), None
        if found.fetched:
            came = self._fetch(found.fetched, asked, looked_up, op, tensor)
        elif asked.write and self._passes:
            stats.through_B += asked.nbytes
            changed_B = sum(compress(touched.nbytes, found.hit))
            stats.changed_B += changed_B
            self._rows[self.name, WRITE, op, tensor] += changed_B
            came = self._behind.serve(asked, looked_up)
        if found.written_back:
            self._put_back(found.written_back, found.owners, asked, looked_up, op)
        served = self._front.through(asked, at_fs, came, waits=not hits and not asked.write)
        return served._replace(by_cache=came is None or served.end > came.end)

    def _fetch(self, lines: list[int], asked: Asked, at_fs: int, op: int, tensor: str) -> Served:
        line_B = self.stats.line_B
        moved_B = len(lines) * line_B
        self.stats.fetched_B += moved_B
        self._rows[self.name, WRITE, op, tensor] += moved_B
        self._moved(READ, op, tensor, moved_B)
        return self._behind.serve_lines(lines, line_B, Asked(moved_B, False, asked.command), at_fs)

    def _put_back(self, lines: list[int], owners: list[int], asked: Asked, at_fs: int, op: int) -> None:
        line_B, names = self.stats.line_B, list(self._tensors)
        moved_B = len(lines) * line_B
        self.stats.written_back_B += moved_B
        for owner, count in sorted(Counter(owners).items()):
            self._rows[self.name, READ, op, names[owner]] += count * line_B
            self._moved(WRITE, op, names[owner], count * line_B)
        self._behind.serve_lines(lines, line_B, Asked(moved_B, True, asked.command), at_fs)

    def _moved(self, way: ActionName, op: int, tensor: str, moved_B: int) -> None:
        """Bytes of the memory behind, and of the link before it."""
        self._rows[self.stats.memory, way, op, tensor] += moved_B
        if self._link:
            self._rows[f"{self.stats.memory}.link", TRANSFER, op, tensor] += moved_B

    def finish(self) -> list[LedgerRow]:
        """Ledger rows of what passed between cache and memory, beside those of the commands; the run has ended."""
        self.stats.dirty_B = self._lines.dirty * self.stats.line_B
        return [LedgerRow(*key, count) for key, count in self._rows.items() if count]


CLEAN = -1
"""Owner of a line that the memory behind the cache has, too."""


class Touched(NamedTuple):
    """The outcome of some accesses: which hit, which lines were fetched, which had to be written back and whose they
    were, in the order of the accesses that caused them."""

    hit: list[bool]
    fetched: list[int]
    written_back: list[int]
    owners: list[int]


class Lines:
    """The lines of a cache, none at first. ``write_back``: stores make room and stay; else they pass, and change only
    what is there.

    Each set is a dictionary, line -> owner, in the order in which its lines were used last.
    """

    def __init__(self, sets: int, ways: int, write_back: bool = True) -> None:
        self._sets: list[dict[int, int]] = [{} for _ in range(sets)]
        self._ways, self._write_back = ways, write_back

    @property
    def dirty(self) -> int:
        """Return how many lines the memory behind does not have yet."""
        return sum(owner != CLEAN for held in self._sets for owner in held.values())

    def access(self, touched: Pieces, line_B: int, write: bool, owner: int = 0) -> Touched:
        """Look up lines, one after the other. A store of all ``line_B`` bytes of a line need not fetch it; ``owner``:
        who is charged when a stored line is written back."""
        sets, count, ways = self._sets, len(self._sets), self._ways
        stays = write and self._write_back
        found = Touched([], [], [], [])
        for line, nbytes in zip(*touched, strict=True):
            held = sets[line % count]
            before = held.pop(line, None)
            found.hit.append(before is not None)
            if before is not None:
                held[line] = owner if stays else before
            elif stays or not write:
                if not write or nbytes < line_B:
                    found.fetched.append(line)
                if len(held) == ways:
                    last = next(iter(held))  # used least recently
                    whose = held.pop(last)
                    if whose != CLEAN:
                        found.written_back.append(last)
                        found.owners.append(whose)
                held[line] = owner if write else CLEAN
        return found


Picked = Callable[[Any], tuple[int, ...]]

DEPENDS: dict[str, Picked] = {
    "load_a": itemgetter(0, 1, 2, 3, 6, 7),
    "load_b": itemgetter(0, 1, 4, 5, 6, 7),
    "load_side": itemgetter(0, 1, 2, 3, 4, 5),
    "store": itemgetter(0, 1, 2, 3, 4, 5),
    "epilogue": itemgetter(0, 1, 2, 3, 4, 5),
}
"""``Effect.what`` -> the ranges of a ``Tile`` on which its addresses depend; others move no tile."""


class Pieces(NamedTuple):
    """Lines that a transfer touches, in its order: numbers of lines, and how many bytes of each."""

    lines: list[int]
    nbytes: list[int]


class Touch(NamedTuple):
    """A transfer: its step, the tensor that is charged, and what it touches."""

    op: int
    tensor: str
    pieces: Pieces


class Touches:
    """Cache lines that transfers of a program touch, of ``lines`` lines of ``line_B`` bytes. The tensor charged is that
    of the action of one of the components ``charged``."""

    def __init__(self, program: Program, charged: Sequence[str], line_B: int, lines: int) -> None:
        self._commands, self._addresses = program.commands, AddressMap(program)
        self._charged, self._line_B, self._lines = charged, line_B, lines
        self._known: dict[int, dict[tuple[object, ...], Pieces]] = {}  # by step; loads run one step ahead of stores

    def touched_by(self, number: int) -> Touch:
        """Return what the transfer with this number touches."""
        command = self._commands[number]
        (what, tile, *_), op = command.effect, command.op
        tensor = next((each.tensor for each in command.actions if each.component in self._charged), "")
        picked = DEPENDS.get(what)
        if tile is None or picked is None:
            return Touch(op, tensor, self._pieces(command))
        if op not in self._known:  # tiles of steps long before are forgotten
            self._known = {step: known for step, known in self._known.items() if step >= op - 1}
            self._known[op] = {}
        key = (what, cast(Transfer, command.work).nbytes, *self._addresses.home(command), *picked(tile))
        known = self._known[op]
        if key not in known:
            known[key] = self._pieces(command)
        return Touch(op, tensor, known[key])

    def _pieces(self, command: Command) -> Pieces:
        return pieces(self._addresses.runs(command), self._line_B, self._lines)


def pieces(runs: Sequence[Runs], line_B: int, lines: int) -> Pieces:
    """Return the lines of some runs; equal ones in a row are one access. Numbers wrap round at ``lines``."""
    numbers, nbytes = list[int](), list[int]()
    for run in runs:
        for start in _starts(run):
            end = start + run.length_B
            first, last = start // line_B, (end - 1) // line_B
            if numbers and numbers[-1] == first:
                until = min(end, (first + 1) * line_B)
                nbytes[-1] += until - start
                first, start = first + 1, until
            if first == last:
                numbers.append(first)
                nbytes.append(end - start)
            elif first < last:
                numbers += range(first, last + 1)
                nbytes += [(first + 1) * line_B - start, *[line_B] * (last - first - 1), end - last * line_B]
    return Pieces([number % lines for number in numbers], nbytes)


def _starts(run: Runs) -> list[int]:
    """First address of each piece of a run; transfers are short, so plain integers are faster than arrays."""
    starts = [run.base]
    for stride, count in run.dims:
        starts = [start + stride * at for start in starts for at in range(count)]
    return starts
