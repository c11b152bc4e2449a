"""Outcome of a schedule: when each op ran, the bubble, stashes over time, messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from accelsim.cluster.schedules.base import Kind, Op, Orders
from accelsim.cluster.schedules.costs import Number


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
    ``stage_of``: the stage of each device. ``sent``: what ``messages`` is made of, in ticks, ``ticks`` to the unit.
    """

    orders: Orders
    start_fs: tuple[tuple[Number, ...], ...]
    end_fs: tuple[tuple[Number, ...], ...]
    stages: int
    stage_of: tuple[int, ...]
    sent: tuple[tuple[int, int, Kind, int, int, int, int, int], ...]
    ticks: int = 1

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """Return what devices sent to each other, in no order of time; of one link in the order in which it took
        them."""
        if self.ticks == 1:
            return tuple(map(Message._make, self.sent))
        return tuple(
            Message(*one[:5], *(Fraction(each, self.ticks) for each in one[5:])) for one in self.sent
        )

    @cached_property
    def makespan_fs(self) -> Number:
        """Return when the last op ends."""
        return max(ends[-1] for ends in self.end_fs if ends)

    @cached_property
    def busy_fs(self) -> tuple[Number, ...]:
        """Time that each device computes."""
        return tuple(sum(ends) - sum(starts) for starts, ends in zip(self.start_fs, self.end_fs, strict=True))

    @property
    def ideal_fs(self) -> Number:
        """Time of the device that computes most: no schedule is shorter."""
        return max(self.busy_fs)

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
        """Start and end of each op of a device."""
        spans = zip(self.start_fs[device], self.end_fs[device], strict=True)
        return dict(zip(self.orders[device], spans, strict=True))


def stash_counts(ops: Sequence[Op]) -> list[int]:
    """Stashes that a device holds during each of its ops: one more from the start of F, one less after B (R4)."""
    held, counts = 0, []
    for op in ops:
        held += op.kind == "F"
        counts.append(held)
        held -= op.kind == "B"
    return counts
