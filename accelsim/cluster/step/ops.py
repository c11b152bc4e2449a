"""Times of the ops of a pipeline on the devices of a plan: passes by their pieces, collectives, transfers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.step.costs import Cost
from accelsim.cluster.step.fleet import Comm, Fleet, Group
from accelsim.cluster.step.memory import to_host
from accelsim.cluster.step.options import PLAIN, Options
from accelsim.cluster.step.tensor import SHORT_B, Calls
from accelsim.cluster.step.work import Piece, Work, units_of
from accelsim.time import FS_PER_S

EXACT = 10**6
"""Paces are fractions with denominators up to this."""


class Op(NamedTuple):
    """One op: time of computing, of computing again, and of collectives of its tensor-parallel group and of its
    replicas (weights that ZeRO gathers, gradients of a pipeline that never empties) that nothing hides; by how much
    longer its host takes to ask for it; of the update, where there is one behind each; of activations on their way to
    the memory of the host or back that it does not hide."""

    compute_fs: int = 0
    again_fs: int = 0
    tensor_fs: int = 0
    data_fs: int = 0
    host_fs: int = 0
    update_fs: int = 0
    offload_fs: int = 0

    @property
    def time_fs(self) -> int:
        """All of it."""
        return sum(self)


class Ops(NamedTuple):
    """Forward pass, backward pass (of the activations alone where a schedule splits it), gradients of weights."""

    forward: Op
    backward: Op
    weight: Op


class Replica(NamedTuple):
    """Replicas whose devices are alike: their numbers, and the ops of each stage and chunk."""

    numbers: tuple[int, ...]
    ops: tuple[tuple[Ops, ...], ...]


FSDP = 0.9
"""Seconds by which a pass takes longer for each second of the collectives of ZeRO 3 that it hides: they take
multiprocessors and memory bandwidth from its kernels, and FSDP copies weights and gradients of each unit into buffers
and out of them. Fitted, see ``tests.validation.public_training``."""
TENSOR = 0.5
"""Share for collectives of a tensor-parallel group, whose products run in chunks: a guess, no row has told it."""
EXPOSED = 0.55
"""Share of the time in which a host asks for the kernels of a pass that the pass waits for its host, however long its
kernels take: they are issued in bursts, between which the device runs dry. Fitted together with the time of a kernel,
see ``tests.validation.training_clusters``."""


def awaited(asked_fs: int, own_fs: int) -> int:
    """Return how long a pass waits for a host that takes ``asked_fs`` to ask for its kernels, which take ``own_fs``."""
    return max(asked_fs - own_fs, round(EXPOSED * asked_fs))


def beside(collectives_fs: int, hidden_fs: int, share: float) -> int:
    """Return by how much collectives make a pass longer that hides at most ``hidden_fs`` of them, each second of these
    for ``share`` of a second."""
    return max(0, collectives_fs - hidden_fs) + round(share * min(collectives_fs, hidden_fs))


class Compute(NamedTuple):
    """Compute of a piece in a microbatch on the slowest device of its group: the forward pass, what of it is done
    again, gradients of activations, and of weights."""

    forward: int
    again: int
    inputs: int
    weights: int

    @property
    def backward(self) -> int:
        """All but the forward pass."""
        return self.again + self.inputs + self.weights


class Tensor(NamedTuple):
    """Collectives of a tensor-parallel group in a pass: by how much they make it longer, and how long of them its
    products hide."""

    time_fs: int
    hidden_fs: int

    def then(self, other: Tensor) -> Tensor:
        """Return both, one after the other."""
        return Tensor(self.time_fs + other.time_fs, self.hidden_fs + other.hidden_fs)


def one_by_one(comms: Iterable[Comm]) -> Comm:
    """Return several collectives, one after the other."""
    total, links = Comm(), list[tuple[str, int]]()
    for one in comms:
        total = Comm(
            total.time_fs + one.time_fs, total.taken_fs + one.taken_fs, total.energy_J + one.energy_J, (),
            max(total.factor, one.factor),
        )  # fmt: skip
        links += one.by_link_B
    return total._replace(by_link_B=tuple(links))


class Planned:
    """A model on a fleet by a plan: pieces, collectives, replicas that differ.

    ``pieces`` [stage][chunk] are those of the first replica; chips that differ have their own.
    """

    def __init__(self, work: Work, fleet: Fleet, plan: Plan, samples: int, options: Options = PLAIN) -> None:
        self.work, self.fleet, self.plan, self.samples = work, fleet, plan, samples
        self.options = options
        self._known: dict[object, Ops] = {}
        self.pieces = [
            [self.piece(p, c, plan.rank(p, 0, 0)) for c in range(plan.chunks)] for p in range(plan.pp)
        ]

    def piece(self, stage: int, chunk: int, rank: int) -> Piece:
        """The piece of a stage as a device computes it."""
        index = chunk * self.plan.pp + stage
        return self.work.piece(index, self.plan, self.samples, self.fleet.costs(rank))

    def replicas(self) -> list[Replica]:
        """Return those that differ in chips or pace."""
        found: dict[tuple[object, ...], list[int]] = {}
        for d in range(self.plan.dp):
            ranks = [self.plan.rank(p, d, t) for p in range(self.plan.pp) for t in range(self.plan.tp)]
            alike = tuple((id(self.fleet.chips[rank]), self.fleet.speeds[rank]) for rank in ranks)
            found.setdefault(alike, []).append(d)
        return [Replica(tuple(same), self.ops(same[0])) for same in found.values()]

    def ops(self, d: int, even: bool = False) -> tuple[tuple[Ops, ...], ...]:
        """Return the ops of one replica, by stage and chunk; ``even``: as if all devices kept the pace of their
        chips."""
        plan = self.plan
        groups = [plan.tp_group(plan.rank(p, d, 0)) for p in range(plan.pp)]
        return tuple(
            tuple(self._once(p, chunk, group, even) for chunk in range(plan.chunks))
            for p, group in enumerate(groups)
        )

    def _once(self, stage: int, chunk: int, group: tuple[int, ...], even: bool) -> Ops:
        """Those of a chunk, worked out once for all that are alike."""
        fleet = self.fleet
        data = fleet.likeness(self.plan.dp_group(group[0])) if self.plan.shares_gradients else 0
        own = tuple((id(fleet.chips[rank]), fleet.speeds[rank]) for rank in group)
        key = (id(self.pieces[stage][chunk]), fleet.likeness(group), own, data, even)
        if key not in self._known:
            self._known[key] = self._ops(stage, chunk, group, even)
        return self._known[key]

    def _ops(self, stage: int, chunk: int, group: Sequence[int], even: bool) -> Ops:
        pieces = {rank: self.piece(stage, chunk, rank) for rank in group}

        def slowest(part: str) -> int:
            return max(
                self.own_fs(rank, piece.again if part == "again" else getattr(piece.costs, part), even)
                for rank, piece in pieces.items()
            )

        piece = pieces[group[0]]
        compute = Compute(*(slowest(part) for part in ("forward", "again", "inputs", "weights")))
        first, second = self._with_tensor(stage, piece, group, compute)
        asked = self._asked_fs(piece)
        first = first._replace(host_fs=awaited(asked[0], first.time_fs))
        second = second._replace(host_fs=awaited(asked[1], second.time_fs + compute.weights))
        if piece.offloaded_B:
            away = self._away_fs(stage, piece, group[0])
            first = first._replace(offload_fs=max(0, away - first.time_fs))
            second = second._replace(offload_fs=max(0, away - second.time_fs - compute.weights))
        return Ops(first, second, Op(compute.weights))

    def _with_tensor(self, stage: int, piece: Piece, group: Sequence[int], compute: Compute) -> tuple[Op, Op]:
        """Return both passes with their collectives. Products hide those of the tensor-parallel group only where the
        pass gets shorter by it: what they hide takes the wires from gathers of ZeRO."""
        able = any(call.product_fs for calls in piece.calls for call in calls)
        tried = [
            self._passes(stage, piece, group, compute, hide) for hide in ((True, False) if able else (False,))
        ]
        first, second = (min(ops, key=lambda op: op.time_fs) for ops in zip(*tried, strict=True))
        return first, second

    def _passes(
        self, stage: int, piece: Piece, group: Sequence[int], compute: Compute, hide: bool
    ) -> tuple[Op, Op]:
        forward, again, backward = (self.tensor(calls, group, hide) for calls in piece.calls)
        first = Op(compute.forward, 0, forward.time_fs)
        second = Op(compute.inputs, compute.again, again.time_fs + backward.time_fs)
        if self.plan.shares_gradients:
            share = FSDP if self.plan.zero == 3 else self.taken(group[0])
            gathers, scatters = self.gathers(stage, piece).time_fs, self.scatters(stage, piece).time_fs
            hidden = (
                self._hidden_fs(stage, compute.forward, forward),
                self._hidden_fs(stage, compute.backward, again.then(backward)),
            )
            first = first._replace(data_fs=beside(gathers, hidden[0], share))
            second = second._replace(data_fs=beside(gathers + scatters, hidden[1], share))
        return first, second

    def _away_fs(self, stage: int, piece: Piece, rank: int) -> int:
        """Return how long the activations of a pass take to the host, or back. Where devices reach others over the same
        kind of link, gathers of replicas and the transfer to the next stage come first."""
        way, plan = to_host(self.fleet, rank), self.plan
        assert way is not None, "checked before a step is planned"
        taken_fs = way.sent_fs(piece.offloaded_B)
        pair = (plan.rank(stage, 0, 0), plan.rank((stage + 1) % plan.pp, 0, 0))
        for comm, kind, groups in (
            (self.gathers(stage, piece), "all_gather", self.data_groups(stage)),
            (self.transfer(stage), "send_recv", [pair]),
        ):
            links = {self.fleet.topology.wires[wire].link for wire in self._wires(groups, kind)}
            taken_fs += comm.taken_fs if way.link.kind in links else 0
        return taken_fs

    def _asked_fs(self, piece: Piece) -> tuple[int, int]:
        """Return how long a host takes to ask for the forward and for the backward pass, what is computed again with
        it."""
        costs, each_s = piece.costs, self.fleet.setting.host_s
        backward = costs.inputs.kernels + costs.weights.kernels + piece.again.kernels
        return round(costs.forward.kernels * each_s * FS_PER_S), round(backward * each_s * FS_PER_S)

    def own_fs(self, rank: int, cost: Cost, even: bool = False) -> int:
        """Return how long a device takes, longer at a slower pace."""
        time = cost.time_fs
        if even or self.fleet.speeds[rank] == 1.0:
            return time
        pace = Fraction(self.fleet.speeds[rank]).limit_denominator(EXACT)
        return -(-time * pace.denominator // pace.numerator)

    def taken(self, rank: int) -> float:
        """Return the share of a device's multiprocessors that a collective keeps from kernels beside it: one for each
        channel of the library. 0 for devices without multiprocessors."""
        have = self.fleet.costs(rank).multiprocessors
        return min(1.0, self.fleet.software.channels / have) if have else 0.0

    def comm(self, calls: Calls, group: Sequence[int]) -> Comm:
        """Collectives of a tensor-parallel group, one after the other."""
        total = Comm()
        for call in calls:
            one = self.fleet.collective(call.kind, call.nbytes, [tuple(group)])
            total = Comm(
                total.time_fs + one.time_fs * call.times, 0, total.energy_J + one.energy_J * call.times,
                (*total.by_link_B, *((name, size * call.times) for name, size in one.by_link_B)),
                max(total.factor, one.factor),
            )  # fmt: skip
        return total

    def tensor(self, calls: Calls, group: Sequence[int], hide: bool) -> Tensor:
        """Return the time of such collectives in a pass, with what of it products hide where they ``hide`` any."""
        total = Tensor(0, 0)
        for call in calls:
            alone_fs = self.fleet.collective(call.kind, call.nbytes, [tuple(group)]).time_fs
            hidden_fs = alone_fs - call.exposed_fs(alone_fs) if hide else 0
            each = Tensor(beside(alone_fs, hidden_fs, TENSOR), hidden_fs)
            total = total.then(Tensor(each.time_fs * call.times, each.hidden_fs * call.times))
        return total

    def sent_by_tensors(self, stage: int) -> Comm:
        """Return all collectives of the tensor-parallel group of a stage for one microbatch."""
        group = self.plan.tp_group(self.plan.rank(stage, 0, 0))
        return one_by_one(self.comm(calls, group) for piece in self.pieces[stage] for calls in piece.calls)

    def sent_by_replicas(self, stage: int) -> Comm:
        """Return, with ZeRO 2 and 3, all collectives of the replicas of a stage in the passes of one microbatch."""
        made = (self.gathers, self.gathers, self.scatters)
        return one_by_one(each(stage, piece) for piece in self.pieces[stage] for each in made)

    def data_groups(self, stage: int) -> list[tuple[int, ...]]:
        """The groups of replicas of a stage, one for each part of its tensors."""
        return [self.plan.dp_group(self.plan.rank(stage, 0, t)) for t in range(self.plan.tp)]

    def gathers(self, stage: int, piece: Piece) -> Comm:
        """Return, with ZeRO 3, the all-gathers of the weights of a piece for one pass, which come a unit ahead."""
        if self.plan.zero < 3 or self.plan.dp == 1:
            return Comm()
        sizes = [SHORT_B * count for count in units_of(piece.parameters)]
        return self._one_by_one("all_gather", sizes, self.data_groups(stage))

    def scatters(self, stage: int, piece: Piece) -> Comm:
        """Return, with ZeRO 2 and 3, the reduce-scatters of the gradients that a backward pass of a piece makes: no
        device has room to add up those of several microbatches first (Rajbhandari et al., SC20, section 5.2)."""
        if not self.plan.shares_gradients:
            return Comm()
        sizes = [self.options.sent_B(count) for count in units_of(piece.parameters)]
        return self._one_by_one("reduce_scatter", sizes, self.data_groups(stage))

    def _one_by_one(self, kind: str, sizes: Sequence[int], groups: Sequence[Group]) -> Comm:
        return one_by_one(self.fleet.collective(kind, nbytes, groups) for nbytes in sizes)

    def _hidden_fs(self, stage: int, compute_fs: int, tensor: Tensor) -> int:
        """Return how long collectives of replicas may take beside a pass: as long as it computes, and while its
        tensor-parallel group is on other wires; less while that group, beside its products, or a transfer to another
        stage is on the same ones."""
        if not self.options.overlap:
            return 0
        mine, plan = self._wires(self.data_groups(stage)), self.plan
        if tensor.time_fs:
            apart = mine.isdisjoint(self._wires([plan.tp_group(plan.rank(stage, 0, 0))]))
            compute_fs += tensor.time_fs if apart else -tensor.hidden_fs
        if plan.pp > 1:
            to = (stage + 1) % plan.pp
            pair = (plan.rank(stage, 0, 0), plan.rank(to, 0, 0))
            if not mine.isdisjoint(self._wires([pair], "send_recv")):
                compute_fs -= self.transfer(stage).taken_fs
        return max(0, compute_fs)

    def _wires(self, groups: Sequence[Group], kind: str = "all_gather") -> set[int]:
        """Numbers of the wires that collectives of some groups go over."""
        return {wire for group in groups for wire in self.fleet.loads(kind, group)}

    def transfers(self) -> list[Comm]:
        """Return the transfers from each stage to the next, after the last to the first (interleaved); all replicas
        send at once."""
        return [self.transfer(stage) for stage in range(self.plan.pp)]

    def transfer(self, stage: int) -> Comm:
        """Return the transfer from a stage to the next. With tensor parallelism each device sends its part of the
        activations, which the receivers then put together unless they are cut anyway (scatter and gather: Narayanan
        et al., SC21, 4.1)."""
        plan = self.plan
        to = (stage + 1) % plan.pp
        if to == stage or (to == 0 and plan.chunks == 1):
            return Comm()
        size = self.pieces[stage][0].result_B
        places = [(d, t) for d in range(plan.dp) for t in range(plan.tp)]
        pairs = [(plan.rank(stage, d, t), plan.rank(to, d, t)) for d, t in places]
        sent = self.fleet.collective("send_recv", -(-size // plan.tp), pairs)
        joined = Comm()
        if plan.tp > 1 and not plan.sp:
            groups = [plan.tp_group(plan.rank(to, d, 0)) for d in range(plan.dp)]
            joined = self.fleet.collective("all_gather", size, groups)
        return Comm(
            sent.time_fs + joined.time_fs, sent.taken_fs, sent.energy_J + joined.energy_J,
            (*sent.by_link_B, *joined.by_link_B),
        )  # fmt: skip
