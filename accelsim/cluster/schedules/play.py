"""Plays the op lists of devices in time, by four rules.

R1: a device does its ops in order; one starts when the device is free and its inputs have arrived. R2: a link
direction between two devices is a FIFO queue; a message takes ``transfer_fs`` and keeps the link for
``occupancy_fs`` of it, for the latency does not occupy. R3: a forward needs the activation of the chunk before it, a
backward its own forward and the gradient of the chunk behind it, gradients of weights their own backward. R4: a
stash is held from the start of the forward to the end of the backward.

Each link has one sender, whose ops are in order; so what is sent is in order too, and no queue of events is needed:
each device goes on until it lacks an input.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from accelsim.cluster.schedules.base import Kind, Orders
from accelsim.cluster.schedules.costs import (
    Cost,
    Given,
    Number,
    by_microbatch,
    checked,
    scaled,
    ticks_per_unit,
    whole,
)
from accelsim.cluster.schedules.played import PlayedSchedule
from accelsim.errors import Problem, UsageError

_OP_COSTS = ("forward_fs", "backward_fs", "weight_fs")
_HOP_COSTS = ("transfer_fs", "occupancy_fs")
_STEPS: dict[Kind, int] = {"F": 0, "B": 1, "W": 2}
"""What has been done with a microbatch before this op: nothing, F, or B too."""


def play_schedule(
    orders: Orders,
    forward_fs: Cost,
    backward_fs: Cost,
    weight_fs: Cost = 0,
    transfer_fs: Cost = 0,
    occupancy_fs: Cost = 0,
    *,
    replicas: Sequence[int] = (),
) -> PlayedSchedule:
    """Return when each op of each device runs.

    ``orders``: as ``Schedule.orders`` gives. Costs: of one op (of one chunk, where there are several), by stage,
    chunk and microbatch. Where a device has no ``W`` ops, its backward takes ``backward_fs`` + ``weight_fs``.
    ``transfer_fs``: from the end of an op until its result has arrived, of the boundary behind each stage (that
    behind the last leads to the next chunk on the first); ``occupancy_fs``: how long of it the link is taken. 0: the
    closed forms' blocking transfer that never waits for another. ``replicas``: of each stage, minibatch i is done by
    replica i mod their number.

    UsageError: costs that do not fit, ops that are missing, twice or in an order in which devices wait for each
    other for ever.
    """
    counts = tuple(replicas) or (1,) * len(orders)
    game = _Game(orders, counts)
    ops, hops = (forward_fs, backward_fs, weight_fs), (transfer_fs, occupancy_fs)
    given = [Given(name, cost, game.sizes) for name, cost in zip(_OP_COSTS, ops, strict=True)]
    given += [Given(name, cost, game.sizes[:1]) for name, cost in zip(_HOP_COSTS, hops, strict=True)]
    checked(given)
    ticks = ticks_per_unit([*ops, *hops])
    game.durations = game.tables(*(scaled(cost, ticks) for cost in ops))
    game.hops = [(whole(transfer_fs, ticks, s), whole(occupancy_fs, ticks, s)) for s in range(game.stages)]
    game.run()
    return game.played(ticks)


class _Lane(NamedTuple):
    """One kind of op of one chunk: by microbatch when its input is there (-1: not yet), how long it takes, and where
    its result goes (``None``: nowhere), to which devices in turn, how long that takes and keeps the link."""

    arrived: list[int]
    durations: list[int]
    into: list[int] | None
    first: int
    replicas: int
    transfer: int
    occupancy: int


class _Game:
    """Devices, each with a place in its order; what has arrived for whom.

    A place is a chunk of the whole model: chunk of the device x stages + stage.
    """

    def __init__(self, orders: Orders, replicas: tuple[int, ...]) -> None:
        self.orders, self.replicas, self.stages = orders, replicas, len(replicas)
        self.stage_of = tuple(stage for stage, count in enumerate(replicas) for _ in range(count))
        if len(orders) != len(self.stage_of):
            expected = f"{len(self.stage_of)}, one per device"
            raise UsageError(Problem(f"{len(orders)} op lists", "orders", expected))
        self.first_device = [sum(replicas[:stage]) for stage in range(self.stages)]
        self.chunks = max((op[2] for order in orders for op in order), default=0) + 1
        self.microbatches = max((op[1] for order in orders for op in order), default=-1) + 1
        self.last = self.stages * self.chunks - 1
        self.sizes = (self.stages, self.chunks, self.microbatches)
        self.steps = 3 if any(op[0] == "W" for order in orders for op in order) else 2
        problems = [one for device in range(len(orders)) if (one := self._wrong(device))]
        if problems or not self.microbatches:
            raise UsageError(problems or Problem("no ops", "orders", "at least one microbatch"))
        self.durations: dict[Kind, list[list[int]]] = {}
        self.hops: list[tuple[int, int]] = []
        self.free = [0] * len(orders)

    def _wrong(self, device: int) -> Problem | None:
        """Return what is wrong with the ops of a device: each F, B (and W) of what is its own once, in this order."""
        stage, m = self.stage_of[device], self.microbatches
        done = bytearray(self.chunks * m)
        expected = "F, B (and W, where there are any) of each microbatch and chunk of this device once, in this order"
        for op in self.orders[device]:
            kind, microbatch, chunk = op
            if done[chunk * m + microbatch] != _STEPS[kind]:
                return Problem(f"{op} stands too early, or twice", f"device {device}", expected)
            done[chunk * m + microbatch] += 1
        mine = bytes(
            self.steps * (i % self.replicas[stage] == device - self.first_device[stage]) for i in range(m)
        )
        if done == mine * self.chunks:
            return None
        return Problem("some ops are missing, or not of this device", f"device {device}", expected)

    def tables(self, forward: Cost, backward: Cost, weight: Cost) -> dict[Kind, list[list[int]]]:
        """Ticks of each kind of op by place and microbatch."""
        places = [(place % self.stages, place // self.stages) for place in range(self.last + 1)]
        fs, bs, ws = (
            [by_microbatch(cost, stage, chunk, self.microbatches) for stage, chunk in places]
            for cost in (forward, backward, weight)
        )
        if self.steps == 2:
            bs = [[b + w for b, w in zip(*rows, strict=True)] for rows in zip(bs, ws, strict=True)]
        return {"F": fs, "B": bs, "W": ws}

    def run(self) -> None:
        """Each device as far as it gets; whoever waited for what it sends goes on after it."""
        devices, rows = len(self.orders), self.last + 1
        self.start: list[list[int]] = [[] for _ in range(devices)]
        self.end: list[list[int]] = [[] for _ in range(devices)]
        self.sent: list[tuple[int, int, Kind, int, int, int, int, int]] = []
        self.arrived: dict[Kind, list[list[int]]] = {
            kind: [[-1] * self.microbatches for _ in range(rows)] for kind in ("F", "B")
        }
        self.arrived["F"][0] = self.arrived["B"][self.last] = [0] * self.microbatches
        self.arrived["W"] = [[0] * self.microbatches] * rows
        self.link_free = [[0] * devices for _ in range(devices)] if any(hop[1] for hop in self.hops) else []
        self.waiting: list[tuple[list[int], int] | None] = [None] * devices
        self.lanes = [self._lanes(stage) for stage in range(self.stages)]
        ready = list(range(devices - 1, -1, -1))
        while ready:
            self._advance(ready.pop(), ready)
        self._all_done()

    def _lanes(self, stage: int) -> dict[Kind, list[_Lane]]:
        """Return how each kind of op of each chunk of a stage goes."""
        found: dict[Kind, list[_Lane]] = {"F": [], "B": [], "W": []}
        for kind, lanes in found.items():
            step = {"F": 1, "B": -1, "W": 0}[kind]
            for place in range(stage, self.last + 1, self.stages):
                arrived, durations = self.arrived[kind][place], self.durations[kind][place]
                to = place + step
                if not step or not 0 <= to <= self.last:
                    lanes.append(_Lane(arrived, durations, None, 0, 1, 0, 0))
                    continue
                target = to % self.stages
                hop = self.hops[min(place, to) % self.stages]
                ways = (self.first_device[target], self.replicas[target])
                lanes.append(_Lane(arrived, durations, self.arrived[kind][to], *ways, *hop))
        return found

    def _advance(self, device: int, ready: list[int]) -> None:
        """The ops of a device until one lacks its input; ``ready`` gets those who waited for what was sent."""
        lanes, free, order = self.lanes[self.stage_of[device]], self.free[device], self.orders[device]
        start, end, waiting, sent = self.start[device], self.end[device], self.waiting, self.sent
        for index in range(len(end), len(order)):
            kind, microbatch, chunk = order[index]
            arrived, durations, into, first, replicas, transfer, occupancy = lanes[kind][chunk]
            there = arrived[microbatch]
            if there < 0:
                waiting[device] = (arrived, microbatch)
                break
            if there > free:
                free = there
            start.append(free)
            free += durations[microbatch]
            end.append(free)
            if into is None:
                continue
            target = first + microbatch % replicas
            at = begin = free
            if target != device:
                if occupancy:
                    begin = max(free, self.link_free[device][target])
                    self.link_free[device][target] = begin + occupancy
                at = begin + transfer
                sent.append((device, target, kind, microbatch, chunk, free, begin, at))
            into[microbatch] = at
            waits = waiting[target]
            if waits and waits[0] is into and waits[1] == microbatch:
                waiting[target] = None
                ready.append(target)
        self.free[device] = free

    def _all_done(self) -> None:
        stuck = [
            (device, order[done]) for device, order in enumerate(self.orders)
            if (done := len(self.end[device])) < len(order)
        ]  # fmt: skip
        expected = "an order in which no devices wait for each other in a circle"
        if stuck:
            raise UsageError(
                Problem(f"{op} waits for ever", f"device {where}", expected) for where, op in stuck
            )

    def played(self, ticks: int) -> PlayedSchedule:
        """Times in units again."""
        start, end = (_units(rows, ticks) for rows in (self.start, self.end))
        return PlayedSchedule(self.orders, start, end, self.stages, self.stage_of, tuple(self.sent), ticks)


def _units(rows: list[list[int]], ticks: int) -> tuple[tuple[Number, ...], ...]:
    if ticks == 1:
        return tuple(map(tuple, rows))
    return tuple(tuple(Fraction(one, ticks) for one in row) for row in rows)
