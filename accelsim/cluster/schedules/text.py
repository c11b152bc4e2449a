"""A schedule as a table of text: one row per device, one column per time slot."""

from __future__ import annotations

from fractions import Fraction
from math import gcd, lcm

from accelsim.cluster.schedules.base import Op
from accelsim.cluster.schedules.costs import Number
from accelsim.cluster.schedules.played import PlayedSchedule
from accelsim.errors import Problem, UsageError

MOST_SLOTS = 200
"""Columns that a table has at most."""


def op_label(op: Op, chunks: int = 1) -> str:
    """'F3' is the forward of the third microbatch; with several chunks 'F3b' is that of the second chunk."""
    chunk = chr(ord("a") + op.chunk) if chunks <= 26 else f".{op.chunk + 1}"
    return f"{op.kind}{op.microbatch + 1}{chunk if chunks > 1 else ''}"


def slot_fs(played: PlayedSchedule) -> Number:
    """The longest slot that all times are multiples of."""
    times = [Fraction(time) for rows in (played.start_fs, played.end_fs) for row in rows for time in row]
    whole = lcm(*(time.denominator for time in times))
    slot = Fraction(gcd(*(int(time * whole) for time in times)), whole)
    return int(slot) if slot.denominator == 1 else slot


def schedule_text(played: PlayedSchedule, most: int = MOST_SLOTS) -> str:
    """The table: ``F1`` is the forward of microbatch 1, ``B1`` its backward, ``W1`` its weight gradients.

    Dashes: the op goes on; a dot: the device does nothing in this slot. Several chunks have letters: ``F1a``, ``F1b``.
    UsageError where it would have more than ``most`` slots.
    """
    slot = slot_fs(played)
    slots = int(played.makespan_fs / slot) if slot else 0
    if slots > most:
        expected = f"at most {most}: fewer microbatches, or times with a large common divisor"
        raise UsageError(Problem(f"the table would have {slots:,} slots", "schedule_text", expected))
    chunks = max(op.chunk for order in played.orders for op in order) + 1
    labels = [[op_label(op, chunks) for op in order] for order in played.orders]
    width = max(len(str(slots)), *(len(label) for row in labels for label in row)) + 1
    names = [f"device {device}" for device in range(len(labels))]
    lines = [_line("slot", names, [str(index + 1).ljust(width) for index in range(slots)])]
    for device, name in enumerate(names):
        cells = ["." + " " * (width - 1)] * slots
        spans = zip(labels[device], played.start_fs[device], played.end_fs[device], strict=True)
        for label, start, end in spans:
            first, behind = int(start / slot), int(end / slot)
            text = label.ljust((behind - first) * width - 1, "-") + " "
            cells[first:behind] = [text[at : at + width] for at in range(0, len(text), width)]
        lines.append(_line(name, names, cells))
    return "\n".join(lines) + "\n"


def _line(name: str, names: list[str], cells: list[str]) -> str:
    return f"{name.ljust(max(map(len, names)))}  {''.join(cells)}".rstrip()
