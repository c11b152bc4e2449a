"""From the records of a simulation to the tables of a run: ledger, engine times, stalls, occupancy."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from accelsim.engines.device import ACTIVE, BUSY, EngineLog, Times
from accelsim.machine.run import Busy, LedgerRow, Slice
from accelsim.program.actions import Action, ActionName
from accelsim.program.commands import Command
from accelsim.program.program import Program

Entry = tuple[str, ActionName, int, str]
"""Key of a count: component, action, step, tensor."""


def ledger(program: Program) -> list[LedgerRow]:
    """Return what all commands cost, added up by component, action, step and tensor, in order of first appearance."""
    return ledger_rows(costs(program.commands))


def ledger_rows(totals: Mapping[Entry, int]) -> list[LedgerRow]:
    """Counts as rows of a ledger."""
    return [LedgerRow(*key, count) for key, count in totals.items()]


def costs(commands: Iterable[Command]) -> dict[Entry, int]:
    """Return what commands cost, in order of first appearance.

    Commands of equal cost share their entries, so each set of entries is read once and multiplied.
    """
    shared = dict[int, tuple[Action, ...]]()
    times = Counter([(id(shared.setdefault(id(each.actions), each.actions)), each.op) for each in commands])
    totals: dict[Entry, int] = defaultdict(int)
    for (entries, op), often in times.items():
        for component, action, tensor, count in shared[entries]:
            totals[component, action, op, tensor] += often * count
    return totals


def times_of(log: EngineLog, commands: Sequence[Command]) -> Times:
    """Return how an engine spent its time; by step only where it tells when it was active."""
    return summed(log, ((commands[command].op, why, fs) for command, why, fs in log.entries))


def summed(log: EngineLog, entries: Iterable[tuple[int, str, int]]) -> Times:
    """Return the sums of entries (step, reason, fs) of a log."""
    totals: dict[str, int] = dict.fromkeys(log.listed, 0)
    by_step: dict[int, dict[str, int]] = {}
    sums = defaultdict[tuple[int, str], int](int)
    for op, why, fs in entries:
        sums[op, why] += fs
    for (op, why), fs in sums.items():
        totals[why] = totals.get(why, 0) + fs
        if log.listed and why != BUSY:
            by_step.setdefault(op, {})[why] = fs
    stalled = {why: fs for why, fs in totals.items() if fs and why not in (BUSY, ACTIVE)}
    return Times(totals.get(BUSY, 0), stalled, by_step)


def busy(times: Mapping[str, Times], time_fs: int) -> list[Busy]:
    """Busy, stalled by reason and idle time of each engine; they add up to the time of the run."""
    return [
        Busy(engine, spent.busy, spent.stalled, time_fs - spent.busy - sum(spent.stalled.values()))
        for engine, spent in times.items()
    ]


def step_stalls(times: Mapping[str, Times], steps: int) -> list[dict[str, int]]:
    """Per step, fs of all engines that tell: 'active' at work, and why they waited ('shift', 'weights', ...)."""
    totals: list[dict[str, int]] = [defaultdict(int) for _ in range(steps)]
    for spent in times.values():
        for op, reasons in spent.by_step.items():
            for why, fs in reasons.items():
                totals[op][why] += fs
    return [dict(entry) for entry in totals]


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
