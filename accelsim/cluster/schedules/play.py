"""Play the op lists of devices in time, by four rules.

R1: a device does its ops in order; one starts when the device is free and its inputs have arrived. R2: a link
direction between two devices is a FIFO queue; a message takes ``transfer_fs`` and keeps the link for
``occupancy_fs`` of it, for the latency does not occupy. R3: a forward needs the activation of the chunk before it, a
backward its own forward and the gradient of the chunk after it, gradients of weights their own backward. R4: a
stash is held from the start of the forward to the end of the backward.

Each link has one sender, whose ops are in order; so what is sent is in order too, and no queue of events is needed:
each device goes on until it lacks an input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from accelsim.cluster.schedules.base import Kind, Orders
from accelsim.cluster.schedules.played import Cost, Number, PlayedSchedule, spread
from accelsim.errors import Problem, UsageError

_STEPS: dict[Kind, int] = {"F": 0, "B": 1, "W": 2}
"""Ops that a microbatch has passed before this kind: none, F, or F and B."""
_MOVES: dict[Kind, int] = {"F": 1, "B": -1, "W": 0}
"""Kind of an op -> steps along the pipeline from its stage to the stage that reads its result."""


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
    ``transfer_fs``: from the end of an op until its result has arrived, of the boundary after each stage (that
    after the last leads to the next chunk on the first); ``occupancy_fs``: how long of it the link is taken. 0: the
    closed forms' blocking transfer that never waits for another. ``replicas``: of each stage, minibatch i is done by
    replica i mod their number.

    UsageError: costs that do not fit, ops that are missing, twice or in an order in which devices wait for each
    other for ever.
    """
    game = _Game(orders, tuple(replicas) or (1,) * len(orders))
    problems: list[Problem] = []
    ops = {"forward_fs": forward_fs, "backward_fs": backward_fs, "weight_fs": weight_fs}
    tables = [spread(name, cost, game.sizes, problems) for name, cost in ops.items()]
    hops = {"transfer_fs": transfer_fs, "occupancy_fs": occupancy_fs}
    links = [spread(name, cost, game.sizes[:1], problems) for name, cost in hops.items()]
    UsageError.raise_for(problems)
    game.run(tables, list(zip(*links, strict=True)))
    start, end = (tuple(map(tuple, rows)) for rows in (game.start, game.end))
    return PlayedSchedule(orders, start, end, game.stages, game.stage_of, game.sent)


class _Lane(NamedTuple):
    """One kind of op of one chunk: by microbatch when its input is there (-1: not yet), how long it takes, and where
    its result goes (``None``: nowhere), to which devices in turn, how long that takes and keeps the link."""

    arrived: list[Number]
    durations: list[Number]
    into: list[Number] | None = None
    first: int = 0
    replicas: int = 1
    transfer: Number = 0
    occupancy: Number = 0


class _Game:
    """Devices, each with a place in its order; what has arrived for whom.

    A place is a chunk of the whole model: chunk of the device x stages + stage.
    """

    def __init__(self, orders: Orders, replicas: tuple[int, ...]) -> None:
        self.orders, self.replicas, self.stages = orders, replicas, len(replicas)
        self.stage_of = tuple(stage for stage, count in enumerate(replicas) for _ in range(count))
        if len(orders) != len(self.stage_of):
            expected = f"{len(self.stage_of)}, one per device"
            raise UsageError(f"{len(orders)} op lists", "orders", expected)
        self.first_device = [sum(replicas[:stage]) for stage in range(self.stages)]
        self.chunks = max((op[2] for order in orders for op in order), default=0) + 1
        self.microbatches = max((op[1] for order in orders for op in order), default=-1) + 1
        self.sizes = (self.stages, self.chunks, self.microbatches)
        self.splits = any(op[0] == "W" for order in orders for op in order)
        problems = [one for device in range(len(orders)) if (one := self._wrong(device))]
        if problems or not self.microbatches:
            raise UsageError(problems or Problem("no ops", "orders", "at least one microbatch"))
        self.free: list[Number] = [0] * len(orders)
        self.start: list[list[Number]] = [[] for _ in orders]
        self.end: list[list[Number]] = [[] for _ in orders]
        self.sent: list[tuple[int, int, Kind, int, int, Number, Number, Number]] = []
        self.waiting: list[tuple[list[Number], int] | None] = [None] * len(orders)

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
        steps, replica = 3 if self.splits else 2, device - self.first_device[stage]
        if done == bytes(steps * (i % self.replicas[stage] == replica) for i in range(m)) * self.chunks:
            return None
        return Problem("some ops are missing, or not of this device", f"device {device}", expected)

    def run(self, tables: Sequence[list[list[list[Number]]]], hops: list[tuple[Number, Number]]) -> None:
        """Each device as far as it gets; whoever waited for what it sends goes on after it."""
        devices = len(self.orders)
        self.link_free: list[list[Number]] = (
            [[0] * devices for _ in range(devices)] if any(hop[1] for hop in hops) else []
        )
        self.lanes = self._lanes(tables, hops)
        ready = list(range(devices - 1, -1, -1))
        while ready:
            self._advance(ready.pop(), ready)
        stuck = [
            (device, order[done])
            for device, order in enumerate(self.orders)
            if (done := len(self.end[device])) < len(order)
        ]
        expected = "an order in which no devices wait for each other in a circle"
        if stuck:
            raise UsageError(Problem(f"{op} waits for ever", f"device {where}", expected) for where, op in stuck)

    def _lanes(
        self, tables: Sequence[list[list[list[Number]]]], hops: list[tuple[Number, Number]]
    ) -> list[dict[Kind, list[_Lane]]]:
        """Return how each kind of op of each chunk of each stage goes."""
        places = self.stages * self.chunks
        arrived: dict[Kind, list[list[Number]]] = {
            kind: [[-1] * self.microbatches for _ in range(places)] for kind in ("F", "B")
        }
        arrived["F"][0] = arrived["B"][-1] = [0] * self.microbatches
        arrived["W"] = [[0] * self.microbatches] * places
        found: list[dict[Kind, list[_Lane]]] = [{"F": [], "B": [], "W": []} for _ in range(self.stages)]
        for place in range(places):
            chunk, stage = divmod(place, self.stages)
            forward, backward, weight = (table[stage][chunk] for table in tables)
            if not self.splits:
                backward = [b + w for b, w in zip(backward, weight, strict=True)]
            durations: dict[Kind, list[Number]] = {"F": forward, "B": backward, "W": weight}
            for kind, move in _MOVES.items():
                lane, to = _Lane(arrived[kind][place], durations[kind]), place + move
                if move and 0 <= to < places:
                    target = to % self.stages
                    lane = _Lane(
                        *lane[:2],
                        arrived[kind][to],
                        self.first_device[target],
                        self.replicas[target],
                        *hops[min(place, to) % self.stages],
                    )
                found[stage][kind].append(lane)
        return found

    def _advance(self, device: int, ready: list[int]) -> None:
        """The ops of a device until one lacks its input; ``ready`` gets those who waited for what was sent."""
        lanes, free, order = self.lanes[self.stage_of[device]], self.free[device], self.orders[device]
        start, end, waiting, sent = self.start[device], self.end[device], self.waiting, self.sent
        for index in range(len(end), len(order)):
            kind, microbatch, chunk = order[index]
            arrived, durations, into, first, replicas, transfer, occupancy = lanes[kind][chunk]
            input_fs = arrived[microbatch]
            if input_fs < 0:
                waiting[device] = (arrived, microbatch)
                break
            if input_fs > free:
                free = input_fs
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
