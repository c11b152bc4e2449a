"""Times that come again later by a whole number of clocks, which need be no whole number of femtoseconds.

Every time of a run is that of an edge, cut off to whole femtoseconds, and some femtoseconds behind it. What was cut off
there (its fraction) says what the same time is any number of clocks later. Engines go on at edges. So they do the same
later, whatever is cut off then, as long as nothing that decides lies within a femtosecond behind an edge, and no two
causes that a command names lie within one of each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from math import gcd, lcm
from typing import Any, NamedTuple, TypeVar

import numpy as np

from accelsim.engines.registry import ENGINES
from accelsim.machine.rates import Lane, lane_of
from accelsim.machine.run import Run
from accelsim.program.commands import Command, Program, Transfer, Wait
from accelsim.time import FS_PER_S, Clock
from accelsim.types import Ints

Int = TypeVar("Int", int, Ints)


class Shift(NamedTuple):
    """``num / den`` fs, with the common denominator of all that it moves."""

    num: int
    den: int = 1

    def fs(self, times: int) -> int:
        """So often, cut off to whole femtoseconds."""
        return times * self.num // self.den

    def later(self, t_fs: Int, fraction: Int, times: int) -> Int:
        """The time of what has this ``fraction`` (parts of ``den``), so often later, fs; numbers or int64 arrays."""
        whole_fs, rest = divmod(times * self.num, self.den)
        found: Int = t_fs + whole_fs + (fraction + rest) // self.den
        return found


def clocks_of(program: Program) -> list[Clock]:
    """Clocks of all engines that have one; that of the ports is the clock of who asks."""
    found = (ENGINES[kind].clock(program.chip, engine) for engine, kind in program.engines.items())
    return [clock for clock in found if clock is not None]


def nearest_shift(program: Program, took_fs: int) -> Fraction | None:
    """What took so long as a whole number of edges of every clock, exact fs; None where it is none of one of them."""
    exact = {clock.nearest(took_fs) for clock in clocks_of(program)} or {Fraction(took_fs)}
    found = exact.pop()
    return found if not exact and found > 0 and abs(found - took_fs) < 1 else None


def turns_of_clocks(program: Program, took_fs: int) -> int:
    """How often what took so long must pass until all clocks stand to each other as they did; 0 for what took a whole
    number of edges of none."""
    clocks = clocks_of(program)
    whole = [each for clock in clocks if abs((each := clock.nearest(took_fs)) - took_fs) < 1]
    if not whole:
        return 0
    den = lcm(*(clock.period.denominator for clock in clocks))
    together = Fraction(lcm(*(int(clock.period * den) for clock in clocks)), den)
    return (whole[0] / together).denominator


def port_order(run: Run) -> Iterable[tuple[int, tuple[str, bool]]]:
    """Transfers with their ports, those of a port in the order in which it accepted them."""
    ports: dict[tuple[str, bool], list[tuple[int, int]]] = defaultdict(list)
    duplex = {name: each.full_duplex and name not in run.dram for name, each in run.chip.memories.items()}
    for piece in run.slices:
        work = run.program.commands[piece.command].work
        if isinstance(work, Transfer):
            ports[work.memory, work.write and duplex[work.memory]].append((piece.start, piece.command))
    return [(ident, port) for port, pieces in ports.items() for _, ident in sorted(pieces)]


class _Unclear(Exception):
    """Something lies too near to something else, or at a time that nothing explains."""


class Fractions:
    """What is cut off of the times of a run, in parts of ``den``: ``of`` the start, the data and the end of each
    command, int64 [commands, 3]. Raises _Unclear."""

    def __init__(self, run: Run) -> None:
        self.run, self.clocks = run, clocks_of(run.program)
        self.den = lcm(*(clock.period.denominator for clock in self.clocks))
        self.delay_fs = Clock(run.chip.clock).at(run.chip.token_delay)
        self.times: Ints = np.array([piece[4:] for piece in run.slices], np.int64)
        self.of = np.zeros_like(self.times)
        self.loose = np.zeros(len(run.slices), bool)  # data and end at no edge
        self._mine: dict[str, list[int]] = defaultdict(list)
        for piece in run.slices:
            self._mine[piece.engine].append(piece.command)
        self._edges()
        self._transfers()
        self._processors()

    @cached_property
    def records(self) -> Mapping[int, Any]:
        """What the engines noted, by command."""
        return {record.command: record for record in self.run.folds}

    def ticks(self, command: int, which: int) -> int:
        """Exact start (0), data (1) or end (2) of a command, parts of ``den``."""
        return int(self.times[command, which]) * self.den + int(self.of[command, which])

    def released(self, wait: Wait) -> int:
        """When the token of a command may be acquired, exact."""
        if wait.phase == "done":
            return self.ticks(wait.command, 2) + self.delay_fs * self.den
        engine = self.run.slices[wait.command].engine
        kind = ENGINES[self.run.program.engines[engine]]
        at = kind.passed(self.run.chip, engine, self.records[wait.command], wait.phase)
        cut = self.edge(engine, at)
        return (at + self.delay_fs) * self.den + cut

    def edge(self, engine: str, t_fs: int) -> int:
        """What is cut off of the time of an edge of an engine."""
        found = self.edges(engine, [t_fs])
        if t_fs not in found:
            raise _Unclear
        return found[t_fs]

    def _edges(self) -> None:
        """All times of engines with a clock; of transfers their acceptance."""
        for engine, numbers in self._mine.items():
            kind = ENGINES[self.run.program.engines[engine]]
            clock, columns = kind.clock(self.run.chip, engine), slice(0, 1 if kind.moves else 3)
            if clock is None:
                continue
            cut = clock.cut_off(self.times[numbers, columns], self.den)
            if np.any(cut < 0):
                raise _Unclear
            self.of[numbers, columns] = cut
            self.loose[numbers] = kind.moves

    def _transfers(self) -> None:
        """Data come the latency after acceptance, or behind those of the transfer before."""
        ideal, den = self.run.memory_model == "ideal", self.den
        lanes = {name: lane_of(each) for name, each in self.run.chip.memories.items()}
        ends: dict[tuple[str, bool], int] = {}
        for ident, port in port_order(self.run):
            asked, lane = self.ticks(ident, 0), lanes[port[0]]
            data = asked if ideal else self._data(asked, ends.get(port, 0), lane)
            if data // den != self.times[ident, 1]:
                raise _Unclear
            self.of[ident, 1:] = data % den
            ends[port] = self.ticks(ident, 2)

    def _data(self, asked: int, free: int, lane: Lane) -> int:
        latency = lane.latency_fs * self.den
        if lane.pipelined:
            return self._last([asked + latency, free])
        return self._last([asked, free]) + latency

    def _last(self, causes: Sequence[int]) -> int:
        """The last of some moments; none of the others is nearly as late."""
        last = max(causes)
        if any(0 < last - cause < self.den for cause in causes):
            raise _Unclear
        return last

    def _processors(self) -> None:
        """Engines without a clock start as soon as all is there."""
        program, free = self.run.program, dict[str, int]()
        kinds = {engine: ENGINES[kind] for engine, kind in program.engines.items()}
        own = [engine for engine, kind in kinds.items() if kind.clock(self.run.chip, engine) is None]
        for ident in sorted(number for engine in own for number in self._mine.get(engine, ())):
            command = program.commands[ident]
            start = self._last([free.get(command.engine, 0), *map(self.released, command.waits)])
            if start // self.den != self.times[ident, 0]:
                raise _Unclear
            self.of[ident], self.loose[ident] = start % self.den, True
            free[command.engine] = self.ticks(ident, 2)

    def edges(self, engine: str, times_fs: Iterable[int]) -> dict[int, int]:
        """What is cut off of the times of edges of an engine; others are left out."""
        clock = ENGINES[self.run.program.engines[engine]].clock(self.run.chip, engine)
        return {} if clock is None else self._of_edges(clock, times_fs)

    def _of_edges(self, clock: Clock, times_fs: Iterable[int]) -> dict[int, int]:
        times = np.array(sorted({*times_fs}), np.int64)
        cut = clock.cut_off(times, self.den)
        return dict(zip(times[cut >= 0].tolist(), cut[cut >= 0].tolist(), strict=True))

    def loose_ends(self, engine: str) -> dict[int, int]:
        """What is cut off of the times at which commands of an engine had data and ended at no edge."""
        mine = [number for number in self._mine.get(engine, ()) if self.loose[number]]
        return dict(
            zip(self.times[mine, 1:].ravel().tolist(), self.of[mine, 1:].ravel().tolist(), strict=True)
        )

    def moments(self, times_fs: Iterable[int]) -> dict[int, int]:
        """What is cut off of the times of edges, of starts and ends of commands, and of what comes the latency of a
        link behind these; others, and those of which there are several, are left out."""
        wanted = {*times_fs}
        found: dict[int, set[int]] = {t_fs: set() for t_fs in wanted}
        for clock in self.clocks:
            for t_fs, cut in self._of_edges(clock, wanted).items():
                found[t_fs].add(cut)
        links = {
            name: int(each.link.latency * FS_PER_S) if each.link else 0
            for name, each in self.run.chip.memories.items()
        }
        for number in np.flatnonzero(self.loose).tolist():
            work = self.run.program.commands[number].work
            link_fs = links[work.memory] if isinstance(work, Transfer) else 0
            for t_fs, cut in zip(self.times[number].tolist(), self.of[number].tolist(), strict=True):
                for moment in (t_fs, t_fs + link_fs):
                    if moment in wanted:
                        found[moment].add(cut)
        return {t_fs: cuts.pop() for t_fs, cuts in found.items() if len(cuts) == 1}

    def clear(self, begin: int) -> bool:
        """Whether what is cut off decides about nothing from command ``begin`` on."""
        periods = [int(clock.period * self.den) for clock in self.clocks]
        if gcd(*periods) < 2 * self.den:
            return False
        loose = np.flatnonzero(self.loose[begin:]) + begin
        moments = [
            self.ticks(number, which) + later for number in loose.tolist() for which in (1, 2)
            for later in (0, self.delay_fs * self.den)
        ]  # fmt: skip
        near = any(0 < moment % period < self.den for period in periods for moment in moments)
        return not near and all(map(self._named, self.run.program.commands[begin:]))

    def _named(self, command: Command) -> bool:
        """Whether what a command waits for last is the same one whatever is cut off."""
        if len(command.waits) < 2 or command.id in self.records:  # an array tells edges, not causes
            return True
        last = sorted({*map(self.released, command.waits)})[-2:]
        return last[-1] - last[0] >= self.den or len(last) == 1


def fractions_of(run: Run, begin: int) -> Fractions | None:
    """What is cut off of the times of a run; None where that cannot be told, or may decide about something from command
    ``begin`` on."""
    try:
        found = Fractions(run)
        return found if found.clear(begin) else None
    except _Unclear:
        return None
