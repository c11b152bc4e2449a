"""What bounds each step: why the array did not compute, and where the other time went."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from accelsim.account.spans import MAC_ACTION, PADDING, SKIPPED, added_fs, fronts_fs, memory_of, unit_of
from accelsim.compiler.program import Command, Transfer
from accelsim.machine.run import Run, Slice
from accelsim.spec.models import Chip


class Reason(NamedTuple):
    """One thing that time is spent on; ``operand``: whose memory is meant; ``lever``: what relieves it."""

    key: str
    text: str
    lever: str
    operand: str = ""


REASONS: dict[str, Reason] = {
    reason.key: reason
    for reason in (
        Reason("compute", "compute", "Doubling the peak rate of the matrix unit"),
        Reason("padding", "unused PEs", "Using twice as much of the array (other tiles, a larger batch)"),
        Reason("weight_shift", "weight shift", "Halving the time to shift weights into the array"),
        Reason("weight_fetch", "weight fetch", "Doubling the bandwidth to the weights", "weights"),
        Reason(
            "activation_traffic",
            "activation traffic",
            "Doubling the bandwidth to the activations",
            "activations",
        ),
        Reason("array", "array fill and drain", "An array that fills and drains twice as fast"),
        Reason("accumulators", "full accumulators", "Draining the accumulators twice as fast"),
        Reason("buffer_port", "buffer ports", "A second port on the buffers"),
        Reason("vector", "vector unit", "Doubling the lanes of the vector unit"),
        Reason("host", "host", "A host that is twice as fast"),
        Reason("waiting", "waiting", "Starting each operator without delay"),
    )
}
"""Every reason, by key. Times by reason add up to the latency."""

STALLS = {
    "active": "compute",
    "shift": "weight_shift",
    "array": "array",
    "weights": "weight_fetch",
    "activations": "activation_traffic",
    "accumulator": "accumulators",
    "buffer port": "buffer_port",
}
"""Key in ``Run.step_stalls`` -> reason. A key that is not listed counts as 'waiting'."""

ENGINES = {"matrix": "compute", "vector": "vector", "host": "host"}
_BLAME_EARLIER = {"activations": 0, "accumulator": 2}
"""Which stalls are the likeliest to have been a wait for an earlier step; the others lie in between."""
_SWEEP = ("compute", "vector", "host", "weight_fetch", "activation_traffic")
"""Who is blamed for an instant at which several engines work for a step: the first of these."""


def describe(chip: Chip, key: str) -> str:
    """The reason in words, with the memory or link that it means: 'weight fetch (ddr3)'."""
    reason = REASONS[key]
    name = memory_of(chip, reason.operand) if reason.operand else ""
    if not name:
        return reason.text
    attached = chip.memories[name]
    return f"{reason.text} ({attached.link.kind if attached.link else attached.memory.kind})"


def step_reasons(run: Run) -> list[dict[str, int]]:
    """Per step: reason -> fs.

    A matrix step: what the array did for it ('padding': with PEs that had nothing to do) or lacked (mean over
    the arrays), less the time that it only waited for earlier steps to end; then whichever engine worked
    until its end. Another step: whichever engine worked from its start to its end (computing before moving
    data); the rest is 'waiting'.
    """
    by_step: list[list[Slice]] = [[] for _ in run.step_spans]
    for piece in run.slices:
        if 0 <= piece.op < len(by_step):
            by_step[piece.op].append(piece)
    fronts, padding = fronts_fs(run), _padding(run)
    none = Fraction(0)
    return [
        _reasons(run, step, slices, fronts[step], padding.get(step, none))
        for step, slices in enumerate(by_step)
    ]


def _padding(run: Run) -> dict[int, Fraction]:
    """Step -> share of the PEs that had nothing to multiply while rows were streamed."""
    macs: dict[int, int] = {}
    idle: dict[int, int] = {}
    for row in run.ledger:
        if unit_of(row.component) == "matrix" and row.action.startswith(MAC_ACTION) and row.action != SKIPPED:
            table = idle if row.action == PADDING else macs
            table[row.op] = table.get(row.op, 0) + row.count
    return {op: Fraction(count, count + macs.get(op, 0)) for op, count in idle.items() if count}


def _reasons(run: Run, step: int, slices: list[Slice], front: int, padding: Fraction) -> dict[str, int]:
    start, end = run.step_spans[step]
    matrix = [piece for piece in slices if run.program.engines.get(piece.engine) == "matrix"]
    if not matrix or not run.step_stalls[step]:
        return _sweep(run, slices, start, end)
    stalls = _own_stalls(run.step_stalls[step], matrix, front)
    arrays = len({piece.engine for piece in matrix})
    reasons: dict[str, int] = {}
    for key, fs in stalls.items():
        name = STALLS.get(key, "waiting")
        reasons[name] = reasons.get(name, 0) + fs // arrays
    reasons["padding"] = int(reasons.get("compute", 0) * padding)
    reasons["compute"] = reasons.get("compute", 0) - reasons["padding"]
    for name, fs in _sweep(run, slices, max(piece.end for piece in matrix), end).items():
        reasons[name] = reasons.get(name, 0) + fs
    return {name: fs for name, fs in reasons.items() if fs}


def _own_stalls(stalls: dict[str, int], matrix: list[Slice], front: int) -> dict[str, int]:
    """Stalls less those of each array's first command before ``front``: they are the earlier steps'."""
    first: dict[str, Slice] = {}
    for piece in sorted(matrix, key=lambda piece: piece.data):
        first.setdefault(piece.engine, piece)
    behind = sum(max(0, min(front, piece.data) - piece.start) for piece in first.values())
    own = dict(stalls)
    for key in sorted(own, key=lambda key: _BLAME_EARLIER.get(key, 1)):
        if key != "active":
            taken = min(behind, own[key])
            own[key] -= taken
            behind -= taken
    return own


def _sweep(run: Run, slices: list[Slice], start: int, end: int) -> dict[str, int]:
    """Reason -> fs within [start, end): at each instant the first of ``_SWEEP`` that is at work."""
    events: list[tuple[int, int, str]] = []
    for piece in slices:
        begin, until = max(piece.start, start), min(piece.end, end)
        if until > begin:
            name = _reason_of(run, piece)
            events += [(begin, 1, name), (until, -1, name)]
    active = dict.fromkeys(_SWEEP, 0)
    reasons: dict[str, int] = {}
    events = [(start, 0, _SWEEP[0]), *sorted(events), (end, 0, _SWEEP[0])]
    for (now, change, name), (then, _, _) in pairwise(events):
        active[name] += change
        if then > now:
            blamed = next((key for key in _SWEEP if active[key]), "waiting")
            reasons[blamed] = reasons.get(blamed, 0) + then - now
    return reasons


def _reason_of(run: Run, piece: Slice) -> str:
    command = run.program.commands[piece.command]
    if not isinstance(command.work, Transfer):
        return ENGINES[run.program.engines[piece.engine]]
    return "weight_fetch" if _moves_weights(run, command, command.work) else "activation_traffic"


def _moves_weights(run: Run, command: Command, work: Transfer) -> bool:
    if work.write:
        return False
    holds = run.chip.memories[work.memory].holds if work.memory in run.chip.memories else ["activations"]
    if len(holds) == 1:
        return holds[0] == "weights"
    tensors = run.program.graph.tensors
    return any(action.tensor in tensors and tensors[action.tensor].is_constant for action in command.actions)


def time_by_reason(run: Run) -> dict[str, int]:
    """Reason -> fs of the latency, largest first; they add up to ``time_fs``.

    What a step adds to the latency is split like its own span.
    """
    totals = dict.fromkeys(REASONS, 0)
    for added, reasons in zip(added_fs(run), step_reasons(run), strict=True):
        for name, fs in split(added, reasons).items():
            totals[name] += fs
    totals["waiting"] += run.time_fs - sum(totals.values())
    return {name: fs for name, fs in sorted(totals.items(), key=lambda item: -item[1]) if fs}


def split(amount: int, weights: dict[str, int]) -> dict[str, int]:
    """``amount`` in whole parts proportional to ``weights``, adding up to it; 'waiting' when no weights."""
    whole = sum(weights.values())
    if whole <= 0:
        return {"waiting": amount} if amount else {}
    parts = {name: amount * weight // whole for name, weight in weights.items()}
    parts[largest(weights)] += amount - sum(parts.values())
    return parts


def largest(weights: dict[str, int]) -> str:
    """The key with the most; the first of them on a tie; 'waiting' when there is none."""
    return max(weights, key=lambda name: weights[name]) if weights else "waiting"


def array_seconds(stalls: Iterable[dict[str, int]]) -> dict[str, float]:
    """What the arrays did and why they waited: key of ``Run.step_stalls`` -> s, all steps together."""
    totals: dict[str, int] = {}
    for reasons in stalls:
        for key, fs in reasons.items():
            totals[key] = totals.get(key, 0) + fs
    return {key: fs * 1e-15 for key, fs in totals.items()}


def array_split(stalls: Iterable[dict[str, int]]) -> dict[str, float]:
    """Percent of 'active', 'shift' (weights go in) and 'stall' (waiting for weights), of the three together.

    The first three lines of Table 3 of Jouppi et al., "In-Datacenter Performance Analysis of a Tensor
    Processing Unit", ISCA 2017; what else an array waits for is its fourth line, non-matrix cycles, and not
    in here. Empty when no matrix work was done.
    """
    seconds = array_seconds(stalls)
    keys = {"active": "active", "shift": "shift", "stall": "weights"}
    parts = {name: seconds.get(key, 0.0) for name, key in keys.items()}
    whole = sum(parts.values())
    return {name: 100.0 * part / whole for name, part in parts.items()} if whole else {}
