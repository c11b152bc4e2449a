"""From the records of a simulation to the tables of a run: ledger, engine times, stalls, occupancy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from accelsim.compiler.program import Phase, Program
from accelsim.machine.clock import Clock
from accelsim.machine.context import Context, EngineLog
from accelsim.machine.matrix import gaps
from accelsim.machine.milestones import Milestones
from accelsim.machine.run import Busy, Row, Slice
from accelsim.spec.models import Chip


def ledger(program: Program) -> list[Row]:
    """What all commands cost, added up by component, action, step and tensor, in order of first appearance."""
    totals: dict[tuple[str, str, int, str], int] = defaultdict(int)
    for command in program.commands:
        op = command.op
        for component, action, tensor, count in command.actions:
            totals[component, action, op, tensor] += count
    return [Row(*key, count) for key, count in totals.items()]


def engine_times(logs: Mapping[str, EngineLog], program: Program, time_fs: int) -> list[Busy]:
    """Busy, stalled by reason and idle time of each engine; they add up to the time of the run."""
    return [_engine_time(engine, logs[engine], time_fs) for engine in program.engines]


def _engine_time(engine: str, log: EngineLog, time_fs: int) -> Busy:
    covered = _union(log.busy)
    busy = sum(end - start for start, end in covered)
    stalled: dict[str, int] = defaultdict(int)
    for why, lost in log.within.items():
        if lost:
            stalled[why] += lost
            busy -= lost
    for why, lost in _uncovered(log.waits, covered):
        stalled[why] += lost
    return Busy(engine, busy, dict(stalled), time_fs - busy - sum(stalled.values()))


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
    spans = [(0, 0)] * steps
    for piece in slices:
        start, end = spans[piece.op]
        spans[piece.op] = (min(start, piece.start) if end else piece.start, max(end, piece.end))
    return spans


def step_stalls(context: Context, program: Program, chip: Chip) -> list[dict[str, int]]:
    """Per step, fs: 'active' rows streamed, and why the array waited ('shift', 'weights', 'activations', ...)."""
    stalls: list[dict[str, int]] = [defaultdict(int) for _ in program.steps]
    clock = Clock(chip.matrix.clock or chip.clock) if chip.matrix is not None else context.clock
    for record in context.folds:
        mine = stalls[program.commands[record.command].op]
        mine["active"] += clock.at(record.folds * record.rows)
        for start, end, why in gaps(record):
            mine[why] += clock.at(end - 1) - clock.at(start - 1)
        if record.step > record.rows and record.folds > 1:
            mine["shift" if record.load else "array"] += clock.at(
                (record.folds - 1) * (record.step - record.rows)
            )
    return [dict(entry) for entry in stalls]


def occupancy(
    program: Program, slices: Sequence[Slice], milestones: Milestones
) -> dict[str, list[tuple[int, int]]]:
    """Per buffer, (time fs, bytes in use) at each change: a version of a region counts from its first write to its last use."""
    first: dict[tuple[int, int], int] = {}
    last: dict[tuple[int, int], int] = {}
    for piece in slices:
        command = program.commands[piece.command]
        for use in command.writes:
            key = (use.region, use.version)
            first[key] = min(first.get(key, piece.data), piece.data)
            last[key] = max(last.get(key, piece.end), piece.end)
        for use in command.reads:
            phase = cast(Phase, use.role if use.role in ("w", "a") else "done")
            end = milestones.known(command.id, phase)
            key = (use.region, use.version)
            last[key] = max(last.get(key, 0), piece.end if end is None else end)
    changes: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for key, start in first.items():
        region = program.regions[key[0]]
        if region.offset >= 0:
            changes[region.memory] += [(start, region.size_B), (last[key], -region.size_B)]
    return {buffer: _running(entries) for buffer, entries in changes.items()}


def _running(changes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    total = 0
    points: list[tuple[int, int]] = []
    for time, change in sorted(changes):
        total += change
        if points and points[-1][0] == time:
            points[-1] = (time, total)
        else:
            points.append((time, total))
    return points
