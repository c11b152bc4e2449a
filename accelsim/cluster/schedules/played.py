"""Outcome of a schedule: when each op ran, the bubble, messages, memory over time, and a table of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import gcd, lcm
from typing import Any, NamedTuple

from accelsim.cluster.schedules.base import Kind, Op, Orders
from accelsim.errors import Problem, UsageError

Number = int | Fraction
Cost = Number | Sequence["Cost"]
"""One number for all, or one entry per stage; such an entry is a number or one entry per chunk; such an entry is a
number or one number per microbatch."""

LEVELS = ("stage", "chunk", "microbatch")


def spread(name: str, cost: Cost, sizes: Sequence[int], problems: list[Problem]) -> Any:
    """Return a cost as nested lists of ``sizes``; add its problems to ``problems``."""
    if isinstance(cost, Sequence):
        level = name.count("[")
        if not sizes:
            problems.append(Problem("too many levels of tables", name, f"at most by {', '.join(LEVELS)}"))
        elif len(cost) != sizes[0]:
            problems.append(Problem(f"{len(cost)} entries", name, f"{sizes[0]}, one per {LEVELS[level]}"))
        else:
            return [spread(f"{name}[{index}]", entry, sizes[1:], problems) for index, entry in enumerate(cost)]
        return []
    if not isinstance(cost, int | Fraction) or cost < 0:
        expected = "an int or a Fraction from 0: simulated time holds no floats"
        problems.append(Problem(f"{cost!r}", name, expected))
    found: Any = cost
    for size in reversed(sizes):
        found = [found] * size
    return found


class Message(NamedTuple):
    """An activation (of a forward, ``kind`` "F") or a gradient (of a backward, "B") from one device to another.

    ``chunk`` is that of the sender. ``ready_fs``: when it was made; ``start_fs``: when the link took it;
    ``end_fs``: when it had arrived.
    """

    source: int
    target: int
    kind: Kind
    microbatch: int
    chunk: int
    ready_fs: Number
    start_fs: Number
    end_fs: Number


@dataclass(frozen=True)
class PlayedSchedule:
    """A schedule in time. All times in the unit of the costs (fs); whole numbers where all costs are.

    ``orders``, ``start_fs``, ``end_fs``: by device and place in its order. ``stages``: how many there are;
    ``stage_of``: the stage of each device. ``sent``: the fields of ``messages``.
    """

    orders: Orders
    start_fs: tuple[tuple[Number, ...], ...]
    end_fs: tuple[tuple[Number, ...], ...]
    stages: int
    stage_of: tuple[int, ...]
    sent: Sequence[tuple[int, int, Kind, int, int, Number, Number, Number]]

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """Messages between devices; those of one link in the order in which it took them."""
        return tuple(map(Message._make, self.sent))

    @cached_property
    def makespan_fs(self) -> Number:
        """Time at which the last op ends."""
        return max(ends[-1] for ends in self.end_fs if ends)

    @cached_property
    def busy_fs(self) -> tuple[Number, ...]:
        """Time that each device computes."""
        return tuple(sum(ends) - sum(starts) for starts, ends in zip(self.start_fs, self.end_fs, strict=True))

    @property
    def bubble_fs(self) -> tuple[Number, ...]:
        """Time that each device does not compute, until the last one is done."""
        return tuple(self.makespan_fs - busy for busy in self.busy_fs)

    @property
    def bubble_fraction(self) -> Fraction:
        """The share of all devices' time in which they do not compute."""
        whole = len(self.busy_fs) * self.makespan_fs
        return Fraction(sum(self.bubble_fs)) / whole if whole else Fraction(0)

    @cached_property
    def peak_stashes(self) -> tuple[int, ...]:
        """Most activations that each device holds at one time, from F to B, of one microbatch and chunk each (R4)."""
        return tuple(max(stash_counts(ops), default=0) for ops in self.orders)

    def when(self, device: int) -> dict[Op, tuple[Number, Number]]:
        """Return the start and end of each op of a device."""
        spans = zip(self.start_fs[device], self.end_fs[device], strict=True)
        return dict(zip(self.orders[device], spans, strict=True))


def stash_counts(ops: Sequence[Op]) -> list[int]:
    """Return the stashes that a device holds during each of its ops: one more from the start of F, one less after B
    (R4)."""
    held, counts = 0, []
    for op in ops:
        held += op.kind == "F"
        counts.append(held)
        held -= op.kind == "B"
    return counts


@dataclass(frozen=True)
class MemoryTrace:
    """Bytes of one device: ``static_B`` by kind all the time, ``stash_B[k]`` from ``times_fs[k]`` to the next time."""

    times_fs: tuple[Number, ...]
    stash_B: tuple[int, ...]
    static_B: Mapping[str, int]

    @cached_property
    def peak_stash_B(self) -> int:
        """The most that stashes take at one time."""
        return max(self.stash_B)

    @property
    def peak_B(self) -> int:
        """The most that everything takes at one time."""
        return sum(self.static_B.values()) + self.peak_stash_B

    def parts_B(self) -> dict[str, int]:
        """Return bytes by kind at the time of most stashes."""
        return {**self.static_B, "stash": self.peak_stash_B}


def memory_traces(played: PlayedSchedule, stash_B: Cost, static_B: Mapping[str, Sequence[int]]) -> list[MemoryTrace]:
    """Return the memory of each device over time.

    ``stash_B``: what a forward of one microbatch leaves for its backward (by stage and chunk), freed at the end of B.
    ``static_B``: kind ("weights", "gradients", "optimiser", ...) -> bytes of each stage, which stay. UsageError for
    tables that do not fit.
    """
    chunks = max(op.chunk for order in played.orders for op in order) + 1
    problems: list[Problem] = []
    stashes = spread("stash_B", stash_B, (played.stages, chunks), problems)
    for kind, each in static_B.items():
        if len(each) != played.stages:
            expected = f"{played.stages}, one per stage"
            problems.append(Problem(f"{len(each)} entries", f"static_B[{kind}]", expected))
    UsageError.raise_for(problems)
    return [
        MemoryTrace(
            *_stash_over_time(played, device, stashes[stage]),
            {kind: int(each[stage]) for kind, each in static_B.items()},
        )
        for device, stage in enumerate(played.stage_of)
    ]


def _stash_over_time(
    played: PlayedSchedule, device: int, by_chunk: Sequence[int]
) -> tuple[tuple[Number, ...], tuple[int, ...]]:
    """Times of change and bytes from then on; what ends at a time is freed before what starts at it."""
    times: list[Number] = [0]
    held = [0]
    for op, (start, end) in played.when(device).items():
        if op.kind == "W":
            continue
        time, change = (start, by_chunk[op.chunk]) if op.kind == "F" else (end, -by_chunk[op.chunk])
        if change and time == times[-1]:
            held[-1] += change
        elif change:
            times.append(time)
            held.append(held[-1] + change)
    return tuple(times), tuple(held)


MOST_SLOTS = 200
"""Columns that a table has at most."""


def schedule_text(played: PlayedSchedule, most: int = MOST_SLOTS) -> str:
    """Return a table with a row per device: ``F1`` is the forward of microbatch 1, ``B1`` its backward, ``W1`` its
    weight gradients.

    Dashes: the op goes on; a dot: the device does nothing in this slot. Several chunks have letters: ``F1a``, ``F1b``.
    UsageError where it would have more than ``most`` slots.
    """
    times = [Fraction(time) for rows in (played.start_fs, played.end_fs) for row in rows for time in row]
    whole = lcm(*(time.denominator for time in times))
    slot = Fraction(gcd(*(int(time * whole) for time in times)), whole)
    slots = int(played.makespan_fs / slot) if slot else 0
    if slots > most:
        expected = f"at most {most}: fewer microbatches, or times with a large common divisor"
        raise UsageError(f"the table would have {slots:,} slots", "schedule_text", expected)
    chunks = max(op.chunk for order in played.orders for op in order) + 1
    labels = [[_label(op, chunks) for op in order] for order in played.orders]
    width = max(len(str(slots)), *(len(label) for row in labels for label in row)) + 1
    rows = [("slot", [str(index + 1).ljust(width) for index in range(slots)])]
    for device in range(len(labels)):
        cells = ["." + " " * (width - 1)] * slots
        spans = zip(labels[device], played.start_fs[device], played.end_fs[device], strict=True)
        for label, start, end in spans:
            first, last = int(start / slot), int(end / slot)
            text = label.ljust((last - first) * width - 1, "-") + " "
            cells[first:last] = [text[at : at + width] for at in range(0, len(text), width)]
        rows.append((f"device {device}", cells))
    indent = len(rows[-1][0])
    return "".join(f"{name.ljust(indent)}  {''.join(cells)}".rstrip() + "\n" for name, cells in rows)


def _label(op: Op, chunks: int) -> str:
    chunk = chr(ord("a") + op.chunk) if chunks <= 26 else f".{op.chunk + 1}"
    return f"{op.kind}{op.microbatch + 1}{chunk if chunks > 1 else ''}"
