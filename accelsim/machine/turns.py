"""Times without events where engines share the ports of caches: a program laid out for ``turns_kernel``, and back."""

from __future__ import annotations

import os
import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cache
from importlib import import_module
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple, cast

import numpy as np

from accelsim.engines.device import Times
from accelsim.engines.timer import KINDS, Table, Timer
from accelsim.machine import turns_kernel as kernel
from accelsim.machine.cached import Passing, charged
from accelsim.machine.rates import Lane, lane_of
from accelsim.machine.run import CacheStats, Row
from accelsim.machine.touches import Touches
from accelsim.program.commands import Command, Folds, Program, Transfer
from accelsim.program.rolled import Unroller
from accelsim.spec.levels import cache_of
from accelsim.time import Clock
from accelsim.types import Ints

FEW = 100_000
"""Commands that plain Python has timed before numba is loaded."""
COMPILED = "accelsim.machine.turns_compiled"
PHASES = {"done": 0, "w": 1, "a": 2}


def inner_loop(commands: int, kind: str = "") -> Any:
    """The loop over so many commands: 'numba' (extra ``fast``), 'python', or '' for the faster of those there are; all
    give the same. ACCELSIM_KERNEL=python keeps numba out."""
    kept_out = os.environ.get("ACCELSIM_KERNEL", "") == "python" or (
        commands <= FEW and COMPILED not in sys.modules
    )
    return (None if kind == "python" or (not kind and kept_out) else _compiled()) or kernel


@cache
def _compiled() -> Any:
    try:
        return import_module(COMPILED)
    except ImportError:  # not installed, or one that does not fit the NumPy of the day
        return None


class Passed(NamedTuple):
    """A cache of a run that was timed: its name, what it counted, ledger rows of what passed to the memory behind."""

    name: str
    stats: CacheStats
    rows: list[Row]


class Flagged(Set[int]):
    """Numbers by their flags, uint8 [numbers]: those whose flag is ``mark``."""

    def __init__(self, flags: Any, mark: int = 1) -> None:
        self._flags, self._mark = np.frombuffer(flags, np.uint8), mark

    def __contains__(self, number: object) -> bool:
        return (
            isinstance(number, int)
            and 0 <= number < len(self._flags)
            and bool(self._flags[number] == self._mark)
        )

    def __iter__(self) -> Iterator[int]:
        yield from np.flatnonzero(self._flags == self._mark).tolist()

    def __len__(self) -> int:
        return int(np.count_nonzero(self._flags == self._mark))


class Port(NamedTuple):
    """A port: memory, direction (of both: False), the cache before it ('' for none), where its record begins."""

    memory: str
    write: bool
    cache: str
    at: int


class Turns:
    """Times the commands of a ``program`` into a ``table``. ``timers``: of its engines; ``like``, ``long``: written
    command by whole number, and back; ``model``: how off-chip memories are followed."""

    def __init__(
        self, program: Program, unroller: Unroller, timers: Mapping[str, Timer], like: Ints, long: Ints, model: str,
    ) -> None:  # fmt: skip
        self.program, self.chip, self._unroller = program, program.chip, unroller
        self.timers, self.like, self._long = timers, like, long
        self.ideal = model == "ideal"
        self.whys = {
            "w": kernel.W,
            "a": kernel.A,
            "acc": kernel.ACC,
            "port": kernel.BUSY_PORT,
            "": kernel.NOTHING,
        }
        self._tensors: dict[str, int] = {}
        self.ports = self._all_ports()
        self._known: dict[tuple[Any, ...], tuple[int, ...]] = {}
        self.caches: list[Passed] = []
        self.resources: dict[str, int] = {}

    def _all_ports(self) -> dict[tuple[str, bool], Port]:
        found = dict[tuple[str, bool], Port]()
        ports = 0
        for memory, attached in self.chip.memories.items():
            for write in (False, True):
                if write and not attached.full_duplex:
                    found[memory, write] = found[memory, False]
                else:
                    found[memory, write] = Port(
                        memory, write, cache_of(self.chip, memory), kernel.PORT * ports
                    )
                    ports += 1
        return found

    def play(self) -> bool:
        """Time all commands; False where some wait for ever. Raises OverflowError for times beyond ``time.NEVER``."""
        periods = [timer.clock.period for timer in self.timers.values()]
        wide = any(period.numerator * period.denominator >= 1 << 62 for period in periods)
        loop = kernel if wide else inner_loop(len(self.like))
        self.table = Table(len(self.like), joined=loop is not kernel)
        for timer in self.timers.values():
            timer.table = self.table
        rows, state = self._rows(), self._state()
        if loop is kernel:
            rows, held = kernel.Rows(*map(_listed, rows)), kernel.State(*map(_listed, state))
        else:
            rows, held = kernel.Rows(*map(_view, rows)), kernel.State(*map(_view, state))
        chip = self.chip
        self.compiled, self.delay_fs = loop is not kernel, Clock(chip.clock).at(chip.token_delay)
        self.rows, self.state = rows, held
        ended = loop.run(rows, held, self.delay_fs)
        if ended == kernel.TOO_LONG:
            raise OverflowError
        self._tell(held)
        return bool(ended == kernel.DONE)

    def _rows(self) -> kernel.Rows:
        commands, made = self.program.commands, dict[Any, int]()
        transfers = [each for each in commands if isinstance(each.work, Transfer)]
        made_of = np.array([made.setdefault(self._made(each), len(made)) for each in commands], np.int32)
        filled = [(*entry, *(0,) * (kernel.MADE - len(entry))) for entry in made]
        tensors = np.zeros(len(commands), np.int32)
        for each in transfers:
            name = self._charged(each)
            tensors[each.id] = self._tensors.setdefault(name, len(self._tensors))
        steps = np.array([each.op for each in commands], np.int64)
        touch, touches = self._touched(transfers)
        lines = touches.lines
        self._most = lines.most
        order = np.argsort(self.engines()[self.like], kind="stable").astype(np.int32)
        starts, awaited, phases, whys = self._tokens()
        return kernel.Rows(
            self.like.astype(np.int32), touch, order, made_of, list(chain.from_iterable(filled)), tensors,
            steps * len(self._tensors), starts, awaited, phases, whys, lines.starts, lines.numbers, lines.nbytes,
            self._lines_fs(),
        )  # fmt: skip

    def engines(self) -> Ints:
        """Return of each written command the place of its engine."""
        places = {engine: place for place, engine in enumerate(self.timers)}
        return np.array([places[each.engine] for each in self.program.commands], np.int8)

    def _made(self, command: Command) -> tuple[int, ...]:
        """What the times of a command depend on beside tokens."""
        if not isinstance(work := command.work, Transfer):
            made = self.timers[command.engine].make(command)
            if not isinstance(work, Folds):
                return (made,)
            return *made, self.resource(work.held_by), self.resource(work.sums)
        key = command.engine, work.memory, work.nbytes, work.write
        if key not in self._known:
            self._known[key] = self._made_of_transfer(command.engine, work)
        return self._known[key]

    def resource(self, name: str) -> int:
        """The number of a resource of the critical path."""
        return self.resources.setdefault(name, len(self.resources))

    def _made_of_transfer(self, engine: str, work: Transfer) -> tuple[int, ...]:
        port = self.ports[work.memory, work.write]
        first = work.write == (self.chip.memories[work.memory].arbitration == "loads_first")
        rank = sorted(self.timers).index(engine) + first * len(self.timers)
        front = self._took(port.cache, work.nbytes, work.write)[0] if port.cache else 0
        took = self._took(port.memory, work.nbytes, work.write)
        return port.at, int(work.write), work.nbytes, front, *took, rank

    def _lane(self, memory: str) -> Lane:
        return lane_of(self.chip.memories[memory])

    def _took(self, memory: str, nbytes: int, write: bool) -> tuple[int, int]:
        """How long bytes keep a memory, and whether the link before it sets that."""
        if self.ideal:
            return 0, 0
        fs, link = self._lane(memory).occupancy_fs(nbytes, write)
        return fs, int(link)

    def _charged(self, command: Command) -> str:
        memory = cast(Transfer, command.work).memory
        return charged(command, (cache_of(self.chip, memory), memory))

    def _touched(self, transfers: Sequence[Command]) -> tuple[Ints, Touches]:
        touch: Ints = np.zeros(len(self.like), np.int32)
        touches = Touches(self.program, self._unroller, self._long, touch)
        for port in self._cached():
            line_B = self.chip.memories[port.cache].cache.line  # type: ignore[union-attr]
            mine = [each for each in transfers if cast(Transfer, each.work).memory == port.memory]
            touches.add(mine, line_B, self.chip.memories[port.memory].memory.capacity // line_B)
        return touch, touches

    def _cached(self) -> list[Port]:
        return [port for port in dict.fromkeys(self.ports.values()) if port.cache]

    def _lines_fs(self) -> list[int]:
        """For each cache and number of lines: times and links of loads and stores."""
        return [
            figure
            for port in self._cached() for count in range(self._most + 1) for write in (False, True)
            for figure in self._took(port.memory, count * self.chip.memories[port.cache].cache.line, write)  # type: ignore[union-attr]
        ]  # fmt: skip

    def _tokens(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Where the tokens of each written command begin; what they wait for, at which phase, why."""
        counts, others, phases, whys = array("q", [0]), array("q"), array("b"), array("b")
        for command in self.program.commands:
            groups = self.timers[command.engine].groups
            for other, phase, why in command.waits:
                if not groups or why in groups:
                    others.append(other)
                    phases.append(PHASES[phase])
                    whys.append(self.whys.setdefault(why, len(self.whys)))
            counts.append(len(others))
        starts, awaited = np.array(counts, np.int64), np.array(others, np.int64)
        seen = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        return starts, self._awaited(awaited, seen), np.array(phases, np.int8), np.array(whys, np.int8)

    def _awaited(self, other: Ints, seen: Ints) -> Ints:
        """Whole numbers of what the commands ``seen`` wait for, or how many commands before them, below 0, where it
        moves with them from lap to lap. See ``Unroller.referred``."""
        loops, last = self._unroller.loops, len(self.program.commands)
        ends = np.array([loop.span.end for loop in loops], np.int64)
        first = np.array([*(loop.first for loop in loops), last], np.int64)
        size, times = (np.array([*(loop.span[at] for loop in loops), 0], np.int64) for at in (1, 2))
        behind = np.append(ends, last)
        cut, mine = np.searchsorted(ends, other, "right"), np.searchsorted(ends, seen, "right")
        moves = (seen >= behind[mine] - size[mine]) & (other >= first[mine])
        later = (other >= first[cut]) & (behind[cut] <= seen)
        return np.where(moves, other - seen, self._long[other] + later * size[cut] * times[cut])

    def _state(self) -> kernel.State:
        commands, written, tensors = len(self.like), len(self.program.commands), len(self._tensors)
        engines, noted = self._engine_records()
        ports, ways, entries = self._port_records()
        reasons, table, flags = len(self.timers) * len(self.whys), self.table, bytes(commands)
        return kernel.State(
            engines, ports, table.start, table.data, table.end, table.w, table.a, np.zeros(commands, np.int32),
            bytearray(flags), bytearray(flags), bytearray(written), array("q", bytes(8 * kernel.COLUMNS * noted)),
            _zeros(reasons), _zeros(reasons), _zeros(ways) - 1, _zeros(ways) - 1, _zeros(ways), _zeros(2 * entries),
            _zeros(2 * entries), _zeros(2 * entries), _zeros(len(self._cached()) * tensors),
        )  # fmt: skip

    def _engine_records(self) -> tuple[list[int], int]:
        """Records of the engines, and how many commands are noted."""
        counts = np.bincount(self.engines()[self.like], minlength=len(self.timers)).tolist()
        found, begin, noted = list[int](), 0, 0
        for timer, count in zip(self.timers.values(), counts, strict=True):
            period, entry = timer.clock.period, [0] * kernel.ENGINE
            entry[:6] = (
                KINDS.index(timer.kind), period.numerator, period.denominator, begin, begin + count, noted,
            )  # fmt: skip
            entry[kernel.LOADS] = entry[kernel.ROWS_FROM] = 1
            entry[kernel.LAST] = int(timer.kind == "streams")
            found += entry
            begin, noted = begin + count, noted + count * (timer.columns > 0)
        return found, noted

    def _port_records(self) -> tuple[list[int], int, int]:
        """Records of the ports, ways of all caches, entries of the tables of steps and tensors."""
        found, ways, entries, caches = list[int](), 0, 0, 0
        tensors, steps = len(self._tensors), len(self.program.steps)
        for port in dict.fromkeys(self.ports.values()):
            entry = [0] * kernel.PORT
            entry[kernel.LATENCY], entry[kernel.PIPELINED] = self._latency(port.memory)
            if port.cache:
                attached = self.chip.memories[port.cache]
                spec = attached.cache
                assert spec is not None
                sets = attached.memory.capacity // (spec.line * spec.ways)
                entry[kernel.FRONT], entry[kernel.FRONT_PIPELINED] = self._latency(port.cache)
                entry[kernel.CACHE : kernel.SERVED] = (
                    1, sets, spec.ways, spec.line, int(spec.policy == "write_back"), ways,
                    caches * 4 * (self._most + 1), caches * tensors, entries,
                )  # fmt: skip
                ways, entries, caches = ways + sets * spec.ways, entries + steps * tensors, caches + 1
            found += entry
        return found, ways, entries

    def _latency(self, memory: str) -> tuple[int, int]:
        """Latency of a memory, and whether it is that of a pipeline."""
        lane = self._lane(memory)
        return 0 if self.ideal else lane.latency_fs, int(lane.pipelined)

    def _tell(self, state: kernel.State) -> None:
        """Hand on what the loop found out: to the timers, and of the caches."""
        reasons, linked = len(self.whys), Flagged(state.linked)
        for place, (engine, timer) in enumerate(self.timers.items()):
            entry = state.engine[place * kernel.ENGINE : (place + 1) * kernel.ENGINE]
            mine = slice(place * reasons, (place + 1) * reasons)
            since = sorted(zip(state.since[mine], self.whys, state.lost[mine], strict=True))
            stalled = {why: int(lost) for _, why, lost in since if lost}
            timer.log.times = Times(int(entry[kernel.BUSY]), stalled, {})
            timer.by_link.update(each for each in linked if self.program.commands[each].engine == engine)
            if timer.columns:
                timer.noted = state.noted
        self.caches = [self._passed(port, place, state) for place, port in enumerate(self._cached())]

    def noted(self) -> dict[str, Ints]:
        """Return the numbers of commands that engines noted."""
        engines = self.engines()[self.like]
        return {
            engine: found for place, (engine, timer) in enumerate(self.timers.items())
            if timer.columns and len(found := np.flatnonzero(engines == place))
        }  # fmt: skip

    def _passed(self, port: Port, place: int, state: kernel.State) -> Passed:
        """What passed a cache and the memory behind it, in order of first appearance."""
        names, steps = list(self._tensors), len(self.program.steps)
        counts = state.port[port.at : port.at + kernel.PORT]
        line_B = int(counts[kernel.LINE_B])
        hits, misses, fetched, back, through_B, changed_B = (
            int(each) for each in counts[kernel.HITS : kernel.NEWEST]
        )
        first, ways = int(counts[kernel.SLOTS]), int(counts[kernel.SETS] * counts[kernel.WAYS])
        dirty = sum(int(owner >= 0) for owner in state.owner[first : first + ways])
        passing, seen = Passing(self.chip, port.cache), state.seen[int(counts[kernel.SEEN]) :]
        size, begin = steps * len(names), int(counts[kernel.TABLE])
        found = []
        for rank, (table, tell, unit_B) in enumerate((
            (state.fetched, passing.fetched, line_B), (state.passed, passing.changed, 1),
            (state.back, passing.put_back, line_B),
        )):  # fmt: skip
            entries = np.array(table[2 * begin : 2 * (begin + size)], np.int64).reshape(-1, 2)
            for at in np.flatnonzero(entries[:, kernel.SINCE]).tolist():
                op, tensor = divmod(at, len(names))
                count, since = entries[at].tolist()
                order = since, rank, seen[tensor] if tell == passing.put_back else 0
                found.append((order, tell, (op, names[tensor], count * unit_B)))
        for _, tell, entry in sorted(found, key=itemgetter(0)):
            tell(*entry)
        stats = CacheStats(
            port.memory, line_B, hits, misses, fetched * line_B, back * line_B, through_B, changed_B, dirty * line_B,
            Flagged(state.alone, 1 + port.at // kernel.PORT),
        )  # fmt: skip
        return Passed(port.cache, stats, passing.rows())


def _zeros(size: int) -> Ints:
    return np.zeros(size, np.int64)


def _listed(held: Any) -> Any:
    """The same as plain Python is quick with, and whose integers have no end."""
    return held.tolist() if isinstance(held, np.ndarray) else held


def _view(held: Any) -> Any:
    """The same memory as an array of NumPy."""
    if isinstance(held, bytearray):
        return np.frombuffer(held, np.uint8)
    return np.frombuffer(held, np.int64) if isinstance(held, array) else np.asarray(held)
