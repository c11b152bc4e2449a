"""From the records of a simulation to the tables of a run: ledger, engine times, stalls, occupancy."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from accelsim.engines.device import EngineLog, Times
from accelsim.engines.registry import ENGINES
from accelsim.machine.run import Busy, Row, Slice
from accelsim.program.actions import Action, ActionName
from accelsim.program.commands import Command, Program

Entry = tuple[str, ActionName, int, str]
"""What is counted: component, action, step, tensor."""


def ledger(program: Program) -> list[Row]:
    """Return what all commands cost, added up by component, action, step and tensor, in order of first appearance."""
    return ledger_rows(costs(program.commands))


def ledger_rows(totals: Mapping[Entry, int]) -> list[Row]:
    """Counts as rows of a ledger."""
    return [Row(*key, count) for key, count in totals.items()]


def costs(commands: Iterable[Command]) -> dict[Entry, int]:
    """Return what commands cost, in order of first appearance.

    Commands of equal cost share their entries, so each set of entries is read once and multiplied.
    """
    times: dict[tuple[int, int], int] = defaultdict(int)
    shared: dict[int, tuple[Action, ...]] = {}
    for command in commands:
        shared[id(command.actions)] = command.actions
        times[id(command.actions), command.op] += 1
    totals: dict[Entry, int] = defaultdict(int)
    for (entries, op), often in times.items():
        for component, action, tensor, count in shared[entries]:
            totals[component, action, op, tensor] += often * count
    return totals


def engine_times(program: Program, logs: Mapping[str, EngineLog], records: Sequence[Any]) -> dict[str, Times]:
    """Engine -> how it spent its time, as its type tells it."""
    noted = defaultdict[str, list[Any]](list)
    for record in records:
        noted[program.commands[record.command].engine].append(record)
    return {
        engine: ENGINES[kind].times(program, engine, logs[engine], noted[engine], _unit_time)
        for engine, kind in program.engines.items()
    }


def busy(times: Mapping[str, Times], time_fs: int) -> list[Busy]:
    """Busy, stalled by reason and idle time of each engine; they add up to the time of the run."""
    return [
        Busy(engine, spent.busy, spent.stalled, time_fs - spent.busy - sum(spent.stalled.values()))
        for engine, spent in times.items()
    ]


def _unit_time(log: EngineLog) -> Times:
    covered = _union(log.busy)
    stalled: dict[str, int] = defaultdict(int)
    for why, lost in _uncovered(log.waits, covered):
        stalled[why] += lost
    return Times(sum(end - start for start, end in covered), dict(stalled), {})


class Clips:
    """Parts of a log, in which intervals begin in order."""

    def __init__(self, log: EngineLog) -> None:
        self._log = log
        self._busy = list(accumulate((end for _, end in log.busy), max))
        self._waits = list(accumulate((end for _, end, _ in log.waits), max))

    def part(self, start: int, end: int) -> EngineLog:
        """Return what the log says of the time from ``start`` to ``end``."""
        found = EngineLog()
        for a, b in self._log.busy[bisect_right(self._busy, start) :]:
            if a >= end:
                break
            if b > start:
                found.busy.append((max(a, start), min(b, end)))
        for a, b, why in self._log.waits[bisect_right(self._waits, start) :]:
            if a >= end:
                break
            found.wait(max(a, start), min(b, end), why)
        return found


def step_stalls(times: Mapping[str, Times], steps: int) -> list[dict[str, int]]:
    """Per step, fs of all engines that tell: 'active' at work, and why they waited ('shift', 'weights', ...)."""
    totals: list[dict[str, int]] = [defaultdict(int) for _ in range(steps)]
    for spent in times.values():
        for op, reasons in spent.by_step.items():
            for why, fs in reasons.items():
                totals[op][why] += fs
    return [dict(entry) for entry in totals]


def _union(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        elif end > start:
            merged.append((start, end))
    return merged


def _uncovered(
    waits: Sequence[tuple[int, int, str]], covered: list[tuple[int, int]]
) -> Iterable[tuple[str, int]]:
    """Waiting time outside the busy intervals; both lists are in order and disjoint in themselves."""
    index = 0
    for start, end, why in waits:
        lost = end - start
        while index < len(covered) and covered[index][1] <= start:
            index += 1
        at = index
        while at < len(covered) and covered[at][0] < end:
            lost -= min(end, covered[at][1]) - max(start, covered[at][0])
            at += 1
        if lost > 0:
            yield why, lost


def step_spans(slices: Sequence[Slice], steps: int) -> list[tuple[int, int]]:
    """First start and last end of the commands of each step, fs; (0, 0) for a step without commands."""
    found = spans(slices)
    return [found.get(step, (0, 0)) for step in range(steps)]


def spans(slices: Iterable[Slice]) -> dict[int, tuple[int, int]]:
    """Step -> first start and last end of its commands, fs."""
    found: dict[int, tuple[int, int]] = {}
    for piece in slices:
        start, end = found.get(piece.op, (piece.start, piece.end))
        found[piece.op] = (min(start, piece.start), max(end, piece.end))
    return found
