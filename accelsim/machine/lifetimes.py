"""Lifetimes of each version of each on-chip region, and the occupancy of the buffers that follows."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from accelsim.engines.registry import ENGINES
from accelsim.machine.run import Run, Slice


class Live(NamedTuple):
    """A version of a region: from its first written to its last used byte, fs; ``command`` wrote it first."""

    start: int
    end: int
    region: int
    version: int
    command: int


def lifetimes(run: Run) -> list[Live]:
    """Return when each version of each on-chip region is written first and used last, by the records of the run.

    Worked out once for each run.
    """
    return run.once("lifetimes", lambda: _lifetimes(run))


def _lifetimes(run: Run) -> list[Live]:
    first: dict[tuple[int, int], int] = {}
    last: dict[tuple[int, int], int] = {}
    writers: dict[tuple[int, int], int] = {}
    for piece in run.slices:
        command, history = run.program.commands[piece.command], run.histories[piece.command]
        begin = _written_from(run, piece)
        for use in command.writes:
            key = (use.region, use.version)
            first[key] = min(first.get(key, begin), begin)
            writers.setdefault(key, piece.command)
            last[key] = max(last.get(key, piece.end), piece.end)
        for use in command.reads:
            key = (use.region, use.version)
            last[key] = max(last.get(key, 0), history.read(use.role, piece.end))
    return [Live(start, last[key], *key, writers[key]) for key, start in first.items()]


def _written_from(run: Run, piece: Slice) -> int:
    """Return when the first byte of a result is written, fs: of a transfer when it arrives, else at the next edge."""
    kind = ENGINES[run.program.engines[piece.engine]]
    clock = None if kind.moves else kind.clock(run.chip, piece.engine)
    return piece.data if clock is None else clock.at(clock.edge(piece.data) + 1)


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
