"""One call of a decoder on a cluster, and lines through calls that were simulated at a few places."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from typing import Generic, NamedTuple, TypeVar

from accelsim.account.energy import left_W
from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.serving.context import attending
from accelsim.cluster.serving.devices import Devices
from accelsim.cluster.serving.exchange import RING
from accelsim.cluster.serving.pieces import HEAD, Call, Piece, pieces
from accelsim.cluster.step.costs import scaled
from accelsim.cluster.step.fleet import Comm
from accelsim.cluster.step.transformer import Transformer
from accelsim.kernels.whole import KernelSeconds
from accelsim.time import FS
from accelsim.workload.routing import UNIFORM, Routing
from accelsim.workload.zoo.style import Layer

T = TypeVar("T")
Figure = Callable[[T], float]

MOST = 17
"""Most places that are simulated."""
CLOSE = 0.002
"""Between two places nothing more is simulated when the one in the middle is so near to the line between."""


@dataclass(frozen=True)
class Line(Generic[T]):
    """Values simulated at ``places``, in order, of ``count`` places from the first on. ``error``: largest relative
    distance of a checked middle from its line."""

    places: tuple[int, ...]
    found: tuple[T, ...]
    count: int
    error: float

    @property
    def last(self) -> T | None:
        """Value at the last place; None where there is none."""
        return self.found[-1] if self.found else None

    def along(self, figure: Figure[T]) -> list[float]:
        """Return a figure at every place."""
        if not self.found:
            return []
        return [self.at(place, figure) for place in range(self.places[0], self.places[0] + self.count)]

    def at(self, place: int, figure: Figure[T]) -> float:
        """Return a figure at a place: simulated, or on the line between its simulated neighbours."""
        index = bisect_left(self.places, place)
        right = figure(self.found[index])
        if self.places[index] == place:
            return right
        left, before = figure(self.found[index - 1]), self.places[index - 1]
        return left + (place - before) / (self.places[index] - before) * (right - left)


def along(
    simulate: Callable[[int], T],
    first: int,
    count: int,
    figures: Sequence[Figure[T]],
    progress: Callable[[float], None] = lambda share: None,
) -> Line[T]:
    """Simulate ``count`` places from ``first`` on: both ends, then middles, the worst first, until lines are
    ``CLOSE``."""
    known: dict[int, T] = {}

    def at(place: int) -> T:
        if place not in known:
            progress(min(1.0, len(known) / min(count, MOST)))
            known[place] = simulate(place)
        return known[place]

    def off(left: int, middle: int, right: int) -> float:
        ends = Line((left, right), (at(left), at(right)), right - left + 1, 0.0)
        return max(abs(ends.at(middle, each) / each(at(middle)) - 1) for each in figures)

    waiting, error = [(-inf, first, first + count - 1)] if count > 1 else [], 0.0
    if count:
        at(first), at(first + count - 1)
    while waiting and len(known) < MOST:
        _, left, right = heappop(waiting)
        middle = (left + right) // 2
        if middle == left:
            continue
        found = off(left, middle, right)
        if found <= CLOSE:
            error = max(error, found)
            continue
        for half in ((left, middle), (middle, right)):
            heappush(waiting, (-found, *half))
    error = max([error, *(-each for each, *_ in waiting if each > -inf)])
    places = tuple(sorted(known))
    return Line(places, tuple(known[place] for place in places), count, error)


class Layout(NamedTuple):
    """A model on devices: ``sequences`` of each group of devices with its own, see ``Plan.data``, in ``groups`` that
    follow each other through the pipeline."""

    model: Transformer
    plan: Plan
    sequences: int
    routing: Routing = UNIFORM

    @property
    def groups(self) -> int:
        """Groups of sequences that are in the pipeline at one time."""
        return min(self.plan.pp, self.sequences)

    @property
    def batch(self) -> int:
        """Sequences of the largest group."""
        return -(-self.sequences // self.groups)

    def layers(self, stage: int) -> tuple[Layer, ...]:
        """Return the layers of a stage: equal numbers; if they do not divide, later stages have one more."""
        base, more = divmod(self.model.layers, self.plan.pp)
        longer = self.plan.pp - more
        first = stage * base + max(0, stage - longer)
        return self.model.kinds[first : first + base + (stage >= longer)]

    def call(self, seq: int, past: int) -> Call:
        """Return the call of one group on ``seq`` tokens after ``past``, as each of the devices that share tokens
        computes it: its part of a prompt, or next tokens of its share of the sequences."""
        cp, batch = self.plan.cp, self.batch
        batch, seq = (batch, seq // cp) if seq > 1 else (-(-batch // cp), seq)
        return Call(self.model, batch, seq, past, self.plan.tp, self.plan.ep, self.routing, cp, self.batch)

    def stage(self, call: Call, stage: int) -> Iterator[tuple[Piece, int]]:
        """Yield the pieces of a stage, each with its count."""
        layers = self.layers(stage)
        yield from pieces(call, layers, stage == 0, stage == self.plan.pp - 1)
        if call.cp > 1:
            yield from attending(call, layers)


@dataclass(frozen=True)
class Stage:
    """One stage with one group of sequences, s: compute of its devices (with waiting for a host that starts each kernel
    and collective), their collectives, the transfer to the next stage. ``products_s``: part of compute for products
    with weights. ``energy_J``: of all its devices in all replicas, ``links_J``: of collectives and transfer.
    ``moved_B``: by the memories of one device."""

    compute_s: float
    collectives_s: float
    transfer_s: float
    products_s: float
    energy_J: float
    links_J: float
    moved_B: int
    macs: int
    parts: tuple[KernelSeconds, ...] | None

    @property
    def seconds(self) -> float:
        """Time from its input to that of the next stage, s."""
        return self.compute_s + self.collectives_s + self.transfer_s


@dataclass(frozen=True)
class ServedCall:
    """One call for all sequences: ``seq`` tokens of each, after ``past``. ``groups`` of them pass the ``stages``."""

    seq: int
    past: int
    groups: int
    stages: tuple[Stage, ...]

    @property
    def through_s(self) -> float:
        """Time of one group through all stages, s."""
        return sum(stage.seconds for stage in self.stages)

    @property
    def slowest_s(self) -> float:
        """Time of the slowest stage, s."""
        return max(stage.seconds for stage in self.stages)

    @property
    def first_s(self) -> float:
        """Time of all groups through an empty pipeline, s: the groups after the first come at the pace of the slowest
        stage."""
        return self.through_s + (self.groups - 1) * self.slowest_s

    @property
    def period_s(self) -> float:
        """Time from one token to the next of the same sequence while the pipeline is full, s: a group cannot begin
        before it has been through, and the slowest stage serves all groups."""
        return max(self.through_s, self.groups * self.slowest_s)

    @property
    def energy_J(self) -> float:
        """Energy of the devices while they compute, J, without static power."""
        return self.groups * sum(stage.energy_J for stage in self.stages)

    @property
    def links_J(self) -> float:
        """Energy of links, J."""
        return self.groups * sum(stage.links_J for stage in self.stages)

    def total(self, name: str) -> float:
        """Return a time of all stages together ('compute_s', 'collectives_s', 'transfer_s', 'products_s')."""
        return float(sum(getattr(stage, name) for stage in self.stages))


def step(devices: Devices, layout: Layout, seq: int, past: int) -> ServedCall:
    """Simulate the call on ``seq`` tokens after ``past``. The slowest device of each stage sets its pace."""
    call = layout.call(seq, past)
    stages = tuple(_stage(devices, layout, call, index) for index in range(layout.plan.pp))
    return ServedCall(seq, past, layout.groups, stages)


def _stage(devices: Devices, layout: Layout, call: Call, index: int) -> Stage:
    plan, fleet = layout.plan, devices.fleet
    ranks = plan.stage_ranks(index)
    full = {rank for group in plan.ep_groups(index) for rank in group[:1]}
    compute = products = links = 0.0
    joules = dict.fromkeys(ranks, 0.0)
    parts: list[KernelSeconds] | None = []
    moved = macs = collectives = asked = 0
    for piece, times in layout.stage(call, index):
        at_work = ranks if piece.name != HEAD or call.seq == 1 else plan.with_last_tokens(ranks)
        made = {rank: devices.piece(call, piece, rank, _first(plan, piece, rank, full)) for rank in at_work}
        slowest = max(made, key=lambda rank: made[rank].cost.time_fs * FS / fleet.speeds[rank])
        cost, speed = made[slowest].cost, fleet.speeds[slowest]
        compute += times * (cost.time_fs * FS) / speed
        products += times * made[slowest].products_s / speed
        for rank, each in made.items():
            joules[rank] += times * each.cost.energy_J
        moved, macs = moved + times * cost.moved_B, macs + times * cost.macs
        known = parts is not None and made[slowest].timed
        parts = [*(parts or ()), *scaled(cost.parts, times / speed)] if known else None
        asked += times * cost.kernels
        for message, comm in zip(piece.sent, devices.sent(plan, index, piece), strict=True):
            hidden = min(comm.time_fs, round(cost.time_fs / speed)) if message.among == RING else 0
            collectives, links = collectives + times * (comm.time_fs - hidden), links + times * comm.energy_J
            asked += times * bool(comm.time_fs)
    sent = Comm()
    if index < plan.pp - 1:  # activations, of a tensor-parallel group both terms of the residual
        sent = fleet.passed_on(plan, index, devices.message_B(min(2, plan.tp) * call.rows * layout.model.hidden))
    compute = max(compute, asked * devices.host_s - collectives * FS)
    seconds = compute + collectives * FS
    drawn = sum(min(each_J, left_W(fleet.chips[rank]) * seconds) for rank, each_J in joules.items())
    return Stage(
        compute, collectives * FS, sent.time_fs * FS, products, drawn, links + sent.energy_J, moved, macs,
        None if parts is None else tuple(parts),
    )  # fmt: skip


def _first(plan: Plan, piece: Piece, rank: int, full: Container[int]) -> bool:
    """Return whether a device computes the first graph of a piece, not the other one."""
    return plan.part(rank) >= piece.turn if piece.turn else rank in full
