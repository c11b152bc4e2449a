"""Times that come again later by a whole number of clocks, which need be no whole number of femtoseconds.

Every time of a run is that of an edge, cut off to whole femtoseconds, and some femtoseconds behind it. What was cut off
there (its fraction) says what the same time is any number of clocks later. Engines go on at edges. So they do the same
later, whatever is cut off then, as long as nothing that decides lies within a femtosecond behind an edge, and no two
causes that a command names lie within one of each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cached_property
from math import gcd, lcm
from typing import NamedTuple, TypeVar

import numpy as np

from accelsim.engines.registry import ENGINES
from accelsim.machine.rates import Lane, lane_of
from accelsim.machine.run import Run
from accelsim.program.commands import Command, Phase, Program, Transfer, Wait
from accelsim.time import FS_PER_S, Clock
from accelsim.types import Ints

Int = TypeVar("Int", int, Ints)


class Shift(NamedTuple):
    """``num / den`` fs, with the common denominator of all that it moves."""

    num: int
    den: int = 1

    def fs(self, times: int) -> int:
        """Return the shift so often, cut off to whole femtoseconds."""
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
    """Return what took so long as a whole number of edges of every clock, exact fs; None where it is none of one of
    them."""
    exact = {clock.nearest(took_fs) for clock in clocks_of(program)} or {Fraction(took_fs)}
    found = exact.pop()
    return found if not exact and found > 0 and abs(found - took_fs) < 1 else None


def turns_of_clocks(program: Program, took_fs: int) -> int:
    """Return how often what took so long must pass until all clocks stand to each other as they did; 0 for what took a
    whole number of edges of none."""
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
    """What is cut off of the times of a run, in parts of ``den``: ``cut`` the start, the data and the end of each
    command, int64 [commands, 3]. Raises _Unclear."""

    def __init__(self, run: Run) -> None:
        from accelsim.machine.timeline import Timeline

        self.run, self.clocks = run, clocks_of(run.program)
        self._line = Timeline(run)
        self.den = lcm(*(clock.period.denominator for clock in self.clocks))
        self.delay_fs = Clock(run.chip.clock).at(run.chip.token_delay)
        self.times = self._line.times
        if int(self.times.max(initial=0)) * self.den >= 1 << 62:
            raise _Unclear
        self.cut = np.zeros_like(self.times)
        self.loose = np.zeros(len(self.times), bool)  # data and end at no edge
        self._tokens: dict[tuple[int, Phase], int] = {}
        self._edges()
        self._transfers()
        self._processors()

    def ticks(self, numbers: Ints, which: int) -> Ints:
        """Exact starts (0), data (1) or ends (2) of commands, parts of ``den``."""
        found: Ints = self.times[numbers, which] * self.den + self.cut[numbers, which]
        return found

    def _released(self, wait: Wait) -> int:
        """Return when a token of a phase other than 'done' may be acquired, exact."""
        clock = self._clock(self.run.program.commands[wait.command].engine)
        assert clock is not None
        at = np.array([self._line.passed(wait.command, wait.phase)])
        cut = int(clock.cut_off(at, self.den)[0])
        if cut < 0:
            raise _Unclear
        return (int(at[0]) + self.delay_fs) * self.den + cut

    @cached_property
    def _done(self) -> list[int]:
        """When the token of each command may be acquired once it is done, exact."""
        found: list[int] = (self.ticks(np.arange(len(self.times)), 2) + self.delay_fs * self.den).tolist()
        return found

    def _token(self, wait: Wait) -> int:
        """When a token may be acquired, worked out once for all that wait for it."""
        if wait.phase == "done":
            return self._done[wait.command]
        if wait[:2] not in self._tokens:
            self._tokens[wait[:2]] = self._released(wait)
        return self._tokens[wait[:2]]

    def _clock(self, engine: str) -> Clock | None:
        return ENGINES[self.run.program.engines[engine]].clock(self.run.chip, engine)

    def _edges(self) -> None:
        """All times of engines with a clock; of transfers their acceptance."""
        for engine, kind in self.run.program.engines.items():
            numbers, clock = self._line.of(engine), self._clock(engine)
            columns = slice(0, 1 if ENGINES[kind].moves else 3)
            if clock is None or not len(numbers):
                continue
            cut = clock.cut_off(self.times[numbers, columns], self.den)
            if np.any(cut < 0):
                raise _Unclear
            self.cut[numbers, columns] = cut
            self.loose[numbers] = ENGINES[kind].moves

    def _transfers(self) -> None:
        """Data come the latency after acceptance, or behind those of the transfer before."""
        lanes = {name: lane_of(each) for name, each in self.run.chip.memories.items()}
        for (memory, _), numbers in self._ports():
            order = numbers[np.argsort(self.times[numbers, 0], kind="stable")]
            cut = self._cut_off_data(order, lanes[memory])
            self.cut[order, 1:] = cut[:, None]

    def _ports(self) -> Iterable[tuple[tuple[str, bool], Ints]]:
        """Ports with the numbers of their transfers."""
        places = dict[tuple[str, bool], int]()
        of_each = np.full(len(self.run.program.commands), -1)
        for ident, port in port_order(self.run):
            of_each[ident] = places.setdefault(port, len(places))
        return [(port, np.flatnonzero(of_each == place)) for port, place in places.items()]

    def _cut_off_data(self, order: Ints, lane: Lane) -> Ints:
        """Return what is cut off of the data of the transfers of one port: of those that had to wait for the one
        before, what is cut off of its."""
        asked, data_fs = self.ticks(order, 0), self.times[order, 1]
        own = asked % self.den
        if self.run.memory_model == "ideal":
            alone, cut = np.ones(len(order), bool), own
        else:
            if lane.pipelined:
                asked, latency = asked + lane.latency_fs * self.den, 0
            else:
                latency = lane.latency_fs
            free_fs = np.append(0, self.times[order[:-1], 2])
            alone = asked // self.den >= free_fs
            cut = own[np.maximum.accumulate(np.where(alone, np.arange(len(order)), 0))]
            free = free_fs * self.den + np.append(0, cut[:-1])
            asked, gap = np.maximum(asked, free) + latency * self.den, np.abs(asked - free)
            if np.any((gap > 0) & (gap < self.den)):
                raise _Unclear
        if np.any(asked // self.den != data_fs):
            raise _Unclear
        return cut

    def _processors(self) -> None:
        """Engines without a clock start as soon as all is there."""
        program, free = self.run.program, dict[str, int]()
        own = {engine for engine in program.engines if self._clock(engine) is None}
        for command in program.commands if own else ():
            if command.engine not in own:
                continue
            number = command.id
            causes = [self._token(wait) for wait in command.waits]
            start = self._last([free.get(command.engine, 0), *causes])
            if start // self.den != self.times[number, 0]:
                raise _Unclear
            self.cut[number], self.loose[number] = start % self.den, True
            free[command.engine] = int(self.times[number, 2]) * self.den + start % self.den

    def _last(self, causes: Sequence[int]) -> int:
        """The last of some moments; none of the others is nearly as late."""
        last = max(causes)
        if any(0 < last - cause < self.den for cause in causes):
            raise _Unclear
        return last

    def edges(self, engine: str, times_fs: Iterable[int]) -> dict[int, int]:
        """Return what is cut off of the times of edges of an engine; others are left out."""
        clock = self._clock(engine)
        return {} if clock is None else self._of_edges(clock, times_fs)

    def _of_edges(self, clock: Clock, times_fs: Iterable[int]) -> dict[int, int]:
        times = np.array(sorted({*times_fs}), np.int64)
        cut = clock.cut_off(times, self.den)
        return dict(zip(times[cut >= 0].tolist(), cut[cut >= 0].tolist(), strict=True))

    def loose_ends(self, engine: str, times_fs: Iterable[int]) -> dict[int, int]:
        """Return what is cut off of those of some times at which commands of an engine had data and ended at no
        edge."""
        numbers = self._line.of(engine)
        mine = numbers[self.loose[numbers]]
        times, cut = self.times[mine, 1:].ravel(), self.cut[mine, 1:].ravel()
        wanted = np.isin(times, np.array(sorted({*times_fs}), np.int64))
        return dict(zip(times[wanted].tolist(), cut[wanted].tolist(), strict=True))

    def moments(self, times_fs: Iterable[int]) -> dict[int, int]:
        """Return what is cut off of the times of edges, of starts and ends of commands, and of what comes the latency
        of a link behind these; others, and those of which there are several, are left out."""
        wanted = np.array(sorted({*times_fs}), np.int64)
        found: dict[int, set[int]] = {t_fs: set() for t_fs in wanted.tolist()}
        for clock in self.clocks:
            for t_fs, cut in self._of_edges(clock, wanted.tolist()).items():
                found[t_fs].add(cut)
        loose = np.flatnonzero(self.loose)
        links = self._links()[loose]
        for later in (np.zeros_like(links), links):
            times = (self.times[loose] + later[:, None]).ravel()
            there = np.isin(times, wanted)
            pairs = np.stack([times[there], self.cut[loose].ravel()[there]], 1)
            for t_fs, cut in np.unique(pairs, axis=0).tolist():
                found[t_fs].add(cut)
        return {t_fs: cuts.pop() for t_fs, cuts in found.items() if len(cuts) == 1}

    def _links(self) -> Ints:
        """Latency of the link that each written command goes through, fs."""
        memories, works = self.run.chip.memories, [command.work for command in self.run.program.commands]
        links = {name: int(each.link.latency * FS_PER_S) for name, each in memories.items() if each.link}
        return np.array(
            [links.get(work.memory, 0) if isinstance(work, Transfer) else 0 for work in works], np.int64
        )

    def clear(self, begin: int) -> bool:
        """Return whether what is cut off decides about nothing from the written command ``begin`` on."""
        periods = {int(clock.period * self.den) for clock in self.clocks}
        if gcd(*periods) < 2 * self.den:
            return False
        loose = np.flatnonzero(self.loose[begin:]) + begin
        ends = np.concatenate([self.ticks(loose, which) for which in (1, 2)])
        for moments in (ends, ends + self.delay_fs * self.den):
            for period in periods:
                behind = moments % period
                if np.any((behind > 0) & (behind < self.den)):
                    return False
        return self._written_named(begin)

    def _chooses(self, command: Command) -> bool:
        """Return whether a command waits for several others, the last of which is told; an array tells edges."""
        return len(command.waits) > 1 and not self.run.histories[command.id].a

    def _written_named(self, begin: int) -> bool:
        """Return whether what each written command waits for last is the same one whatever is cut off."""
        tokens, first = list[int](), list[int]()
        for command in filter(self._chooses, self._line.commands[begin:]):
            first.append(len(tokens))
            tokens += [self._token(wait) for wait in command.waits]
        if not tokens:
            return True
        released = np.array(tokens, np.int64)
        last = np.maximum.reduceat(released, first)
        behind = np.repeat(last, np.diff([*first, len(tokens)])) - released
        return not np.any((behind > 0) & (behind < self.den))


def fractions_of(run: Run, begin: int) -> Fractions | None:
    """Return what is cut off of the times of a run; None where that cannot be told, or may decide about something from
    command ``begin`` on."""
    try:
        found = Fractions(run)
        return found if found.clear(begin) else None
    except _Unclear:
        return None
