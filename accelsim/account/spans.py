"""Demands of the work of a step: engine and port times, peak rates, bytes per second to compare with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from accelsim.engines.registry import ENGINES
from accelsim.machine.run import Run, Slice
from accelsim.program.actions import WAYS, is_done
from accelsim.program.roles import HOST, HOST_OWN_MEMORY, multiplier
from accelsim.program.roles import unit_of as unit_of
from accelsim.program.work import Transfer
from accelsim.spec.chip import Chip

OUTSIDE = -1
"""Index of the step that stands for "no step": time and energy that no operator caused."""


def is_off_chip(chip: Chip, component: str, action: str) -> bool:
    """Return whether a ledger row is traffic of an off-chip memory (attached, or the host processor's own)."""
    if action not in WAYS:
        return False
    return component == HOST_OWN_MEMORY or (component in chip.memories and not is_level(chip, component))


def is_level(chip: Chip, component: str, action: str = "") -> bool:
    """Return whether a component of the ledger is a level between buffers and memories; all that it does is traffic."""
    return component in chip.memories and chip.memories[component].fed_by is not None


def own_fs(run: Run) -> list[int]:
    """Per step, fs: the longest time that one array, another engine or one memory worked for it, hidden or not.

    An array works while rows stream, a memory while data move. Never longer than from its first command to its last.
    """
    replay = run.replay
    busy = _busy(run)(run.slices) if replay is None else replay.summed(_busy(replay.short))
    found = defaultdict[int, list[int]](list)
    for (step, _), fs in busy.items():
        found[step].append(fs)
    spans_fs = (end - start for start, end in run.step_spans)  # of a step without commands nothing
    return [min(span_fs, max(found[step], default=span_fs)) for step, span_fs in enumerate(spans_fs)]


def _busy(run: Run) -> Callable[[Sequence[Slice]], dict[tuple[int, str], int]]:
    """Return what gives (step, engine or memory) -> how long it worked, for some slices of a run."""
    commands = run.program.commands
    starts = {piece.command: piece.data for piece in run.slices}
    streamed = {number: end_fs - starts[number] for number, end_fs in stream_ends_fs(run).items()}

    def found(pieces: Sequence[Slice]) -> dict[tuple[int, str], int]:
        busy: dict[tuple[int, str], int] = {}
        for piece in pieces:
            work = commands[piece.command].work
            key = (piece.op, work.memory if isinstance(work, Transfer) else piece.engine)
            busy[key] = busy.get(key, 0) + streamed.get(piece.command, piece.end - piece.data)
        return busy

    return found


def stream_ends_fs(run: Run) -> dict[int, int]:
    """MatMul command -> when it had streamed its last row, fs; until its slice ends the array only drains."""
    drains = {engine: kind for engine, name in run.program.engines.items() if (kind := ENGINES[name]).drains}
    clocks = {engine: kind.clock(run.chip, engine) for engine, kind in drains.items()}
    found = {}
    for piece in run.slices:
        if (clock := clocks.get(piece.engine)) is not None:
            edges = clock.edge(run.histories[piece.command].a) - clock.edge(piece.data)
            found[piece.command] = piece.data + clock.at(edges)
    return found


def multiplier_title(chip: Chip) -> str:
    """Return what the engine that multiplies is called in a sentence: 'the matrix unit' where there is none."""
    unit = multiplier(chip)
    return "the matrix unit" if unit is None else ENGINES[unit.type].title


def peak_mac_rate(chip: Chip, mac_format: str) -> float:
    """Multiply-accumulates per second of all engines of the chip that multiply, in one operand format.

    Raises KeyError where it has none, or they do not know the format.
    """
    found = [(view.core.count, unit.spec) for view in chip.views() if (unit := multiplier(view)) is not None]
    if not found:
        raise KeyError(f"{chip.name} has no matrix unit, so no peak for {mac_format}")
    return float(sum(n * spec.rates()[mac_format] * Fraction(spec.clock or chip.clock) for n, spec in found))


def macs_by_format(run: Run) -> dict[int, dict[str, int]]:
    """Step -> operand format -> algorithmic MACs that engines which multiply did for it."""
    table: dict[int, dict[str, int]] = {}
    for row in run.ledger:
        if is_done(row.action):
            formats = table.setdefault(row.op, {})
            formats[row.action.of] = formats.get(row.action.of, 0) + row.count
    return table


def ideal_seconds(chip: Chip, formats: dict[str, int]) -> float:
    """Time of so many MACs per format at the peak rate, s."""
    return sum(macs / peak_mac_rate(chip, name) for name, macs in sorted(formats.items()))


def host_busy_fs(run: Run) -> dict[int, int]:
    """Return step -> how long the host worked for it, fs."""
    busy = _host_busy(run.slices) if run.replay is None else run.replay.summed(_host_busy)
    return {step: fs for (step,), fs in busy.items()}


def _host_busy(pieces: Iterable[Slice]) -> dict[tuple[int], int]:
    """(step,) -> how long the host worked for it, fs."""
    busy: dict[tuple[int], int] = {}
    for piece in pieces:
        if piece.engine == HOST:
            busy[piece.op,] = busy.get((piece.op,), 0) + piece.end - piece.start
    return busy
