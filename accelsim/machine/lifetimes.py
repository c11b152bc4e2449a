"""How long each version of each on-chip region is in use, and what that makes of the buffers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from accelsim.machine.run import FoldRecord, Run
from accelsim.spec.models import Chip
from accelsim.time import Clock


class Live(NamedTuple):
    """A version of a region: from its first written to its last used byte, fs."""

    start: int
    end: int
    region: int
    version: int


def lifetimes(run: Run) -> Iterator[Live]:
    """When each version of each on-chip region is written first and used last, by the records of the run."""
    first: dict[tuple[int, int], int] = {}
    last: dict[tuple[int, int], int] = {}
    records = {record.command: record for record in run.folds}
    clocks = _clocks(run.chip)
    for piece in run.slices:
        command, record = run.program.commands[piece.command], records.get(piece.command)
        clock = clocks.get(command.kind)
        begin = piece.data if clock is None else clock.at(clock.edge(piece.data) + 1)
        for use in command.writes:
            key = (use.region, use.version)
            first[key] = min(first.get(key, begin), begin)
            last[key] = max(last.get(key, piece.end), piece.end)
        for use in command.reads:
            key = (use.region, use.version)
            streamed = record is not None and clock is not None and use.role in ("w", "a")
            end = clock.at(_last_read(record, use.role)) if streamed else piece.end  # type: ignore[union-attr, arg-type]
            last[key] = max(last.get(key, 0), end)
    return (Live(start, last[key], *key) for key, start in first.items())


def _clocks(chip: Chip) -> dict[str, Clock]:
    """Kind of command -> clock of its unit, where what happens at an edge is recorded from the edge before."""
    units = {"MatMul": chip.matrix, "Vector": chip.vector}
    return {kind: Clock(unit.clock or chip.clock) for kind, unit in units.items() if unit is not None}


def _last_read(record: FoldRecord, role: str) -> int:
    """Edge of the last read of a MatMul operand."""
    last = record.stream_first + (record.folds - 1) * record.step
    if role == "a" or not record.load:
        return last + record.rows - 1
    before = record.load_first if record.folds == 1 else last - record.step + record.reload
    return before + record.load - 1


def occupancy(run: Run) -> dict[str, list[tuple[int, int]]]:
    """Per buffer, (time fs, bytes in use) at each change; worked out once for each run."""
    return run.once("occupancy", lambda: _occupancy(run))


def _occupancy(run: Run) -> dict[str, list[tuple[int, int]]]:
    changes: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for live in lifetimes(run):
        region = run.program.regions[live.region]
        if region.offset >= 0:
            changes[region.memory] += [(live.start, region.size_B), (live.end, -region.size_B)]
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
