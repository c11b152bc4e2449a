"""Times of the ops of a pipeline on the devices of a plan: passes, collectives, transfers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from accelsim.cluster.buckets import Fusion
from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.step.costs import Cost
from accelsim.cluster.step.fleet import Comm, Fleet, Group
from accelsim.cluster.step.memory import to_host
from accelsim.cluster.step.tensor import SHORT_B, Calls
from accelsim.cluster.step.work import Piece, Work, units_of
from accelsim.time import FS_PER_S

FUSED = Fusion("ddp")
"""Fusion of gradients by default: 25 MiB buckets, as in PyTorch's DistributedDataParallel."""


@dataclass(frozen=True)
class Options:
    """Choices of a training step beside its plan. ``overlap``: gradients are sent during the backward pass of the last
    microbatch, in buckets by ``gradients`` (copies at the bandwidth of the device's memory where it says none), else in
    one after it; ``gradient_B``: bytes of a gradient (2, or 4 where they are summed in 32 bits); ``overlap_gather``:
    with ZeRO 1 and 2 the next forward pass goes on while new weights are gathered; ``ignore_capacity``: devices may
    hold more than they have room for; ``open_recompute``, ``open_microbatches``: the plan leaves recomputation and the
    number of microbatches open (``Ready.fitted`` finds both)."""

    overlap: bool = True
    gradients: Fusion = FUSED
    gradient_B: int = 2
    ignore_capacity: bool = False
    open_recompute: bool = False
    overlap_gather: bool = False
    open_microbatches: bool = False

    @property
    def gradient_format(self) -> str:
        """The format of gradients as compression sees it."""
        return "fp32" if self.gradient_B == 4 else "bf16"

    def sent_B(self, parameters: int) -> int:
        """Return the bytes that the gradients of so many parameters are on the network."""
        return self.gradients.sent_B(self.gradient_B * parameters, self.gradient_format)


DEFAULTS = Options()


class Op(NamedTuple):
    """Parts of the time of one op: computing; recomputation; exposed collectives of its tensor-parallel group; exposed
    collectives of its replicas (weights that ZeRO gathers, gradients of a pipeline that never empties); waiting for its
    host; the update, where one follows each op; exposed transfers of activations to the host or back."""

    compute_fs: int = 0
    again_fs: int = 0
    tensor_fs: int = 0
    data_fs: int = 0
    host_fs: int = 0
    update_fs: int = 0
    offload_fs: int = 0

    @property
    def time_fs(self) -> int:
        """Sum of all parts, fs."""
        return sum(self)


def total(ops: Iterable[Op], times: int = 1) -> Op:
    """Return the sum of ops, each ``times`` times, part by part."""
    return Op(*(times * sum(parts) for parts in zip(*ops, strict=True)))


class Ops(NamedTuple):
    """Forward pass, backward pass (of the activations alone where a schedule splits it), gradients of weights."""

    forward: Op
    backward: Op
    weight: Op


ReplicaOps = tuple[tuple[Ops, ...], ...]
"""The ops of a replica by stage and chunk."""

FSDP = 0.9
"""Seconds by which a pass takes longer for each second of the collectives of ZeRO 3 that it hides: they take
multiprocessors and memory bandwidth from its kernels, and FSDP copies weights and gradients of each unit into buffers
and out of them. Fitted, see ``tests.validation.public_training``."""
TENSOR = 0.5
"""Share for collectives of a tensor-parallel group, whose products run in chunks: a guess, without a measured row."""
EXPOSED = 0.55
"""Share of the time in which a host asks for the kernels of a pass that the pass waits for its host, however long its
kernels take: they are issued in bursts, between which the device runs dry. Fitted together with the time of a kernel,
see ``tests.validation.training_clusters``."""
EXACT = 10**6
"""Paces are fractions with denominators up to this."""


def awaited(asked_fs: int, own_fs: int) -> int:
    """Return the time that a pass waits for a host that needs ``asked_fs`` to launch its kernels, which take
    ``own_fs``."""
    return max(asked_fs - own_fs, round(EXPOSED * asked_fs))


def beside(collectives_fs: int, hidden_fs: int, share: float) -> int:
    """Return by how much collectives make a pass longer: all beyond ``hidden_fs``, and ``share`` of those that it
    hides."""
    return max(0, collectives_fs - hidden_fs) + round(share * min(collectives_fs, hidden_fs))


class Planned:
    """A model on a fleet by a plan: pieces, collectives, and the replicas that differ.

    ``batch``: samples of all replicas; ``samples``: of a microbatch. ``pieces`` [stage][chunk]: those of the first
    replica; chips that differ have their own.
    """

    def __init__(self, work: Work, fleet: Fleet, plan: Plan, batch: int, options: Options = DEFAULTS) -> None:
        self.work, self.fleet, self.plan, self.batch, self.options = work, fleet, plan, batch, options
        self.samples = batch // plan.dp // plan.microbatches
        self._known: dict[object, Ops] = {}
        self.pieces = [[self.piece(p, c, plan.rank(p, 0, 0)) for c in range(plan.chunks)] for p in range(plan.pp)]

    def piece(self, stage: int, chunk: int, rank: int) -> Piece:
        """Return the piece of a stage as a device computes it."""
        index = chunk * self.plan.pp + stage
        return self.work.piece(index, self.plan, self.samples, self.fleet.costs(rank))

    def parameters(self, stage: int) -> list[int]:
        """Return the parameters of a stage by layer, of all chunks."""
        return [count for piece in self.pieces[stage] for count in piece.parameters]

    def kind(self, rank: int) -> tuple[int, float]:
        """Return chip and pace of a device, equal for devices that do the same."""
        return id(self.fleet.chips[rank]), self.fleet.speeds[rank]

    def replicas(self) -> list[tuple[int, ...]]:
        """Group the replicas (by index) whose devices have the same chips and paces."""
        found: dict[tuple[object, ...], list[int]] = {}
        for d in range(self.plan.dp):
            ranks = [self.plan.rank(p, d, t) for p in range(self.plan.pp) for t in range(self.plan.tp)]
            found.setdefault(tuple(map(self.kind, ranks)), []).append(d)
        return [tuple(same) for same in found.values()]

    def ops(self, d: int, even: bool = False) -> ReplicaOps:
        """Return the ops of one replica. ``even``: as if all devices kept the pace of their chips."""
        plan = self.plan
        return tuple(
            tuple(self._once(p, chunk, plan.tp_group(plan.rank(p, d, 0)), even) for chunk in range(plan.chunks))
            for p in range(plan.pp)
        )

    def _once(self, stage: int, chunk: int, group: Group, even: bool) -> Ops:
        """Return the ops of a chunk, worked out once for all that are alike."""
        data = self.fleet.likeness(self.plan.dp_group(group[0])) if self.plan.shares_gradients else 0
        key = (id(self.pieces[stage][chunk]), self.fleet.likeness(group), tuple(map(self.kind, group)), data, even)
        if key not in self._known:
            self._known[key] = self._ops(stage, chunk, group, even)
        return self._known[key]

    def compute(self, stage: int, chunk: int, ranks: Sequence[int], even: bool = False) -> Ops:
        """Return the ops of a chunk without collectives, by the slowest of some devices, for one microbatch."""
        costs = {rank: self.piece(stage, chunk, rank).costs for rank in ranks}
        forward, again, inputs, weights = (
            max(self.own_fs(rank, getattr(each, part), even) for rank, each in costs.items())
            for part in ("forward", "again", "inputs", "weights")
        )
        return Ops(Op(forward), Op(inputs, again), Op(weights))

    def _ops(self, stage: int, chunk: int, group: Group, even: bool) -> Ops:
        """Return the ops of a chunk with their collectives. Products hide those of the tensor-parallel group only where
        the pass gets shorter by it: what they hide takes the wires from gathers of ZeRO."""
        compute, piece = self.compute(stage, chunk, group, even), self.piece(stage, chunk, group[0])
        able = any(call.product_fs for calls in piece.calls for call in calls)
        tried = [self._passes(stage, piece, group, compute, hide) for hide in ((True, False) if able else (False,))]
        passes = [min(ops, key=lambda op: op.time_fs) for ops in zip(*tried, strict=True)]
        costs, each_s, found = piece.costs, self.fleet.setting.host_s, []
        parts = ((costs.forward,), (costs.inputs, costs.weights, costs.again))
        for op, late_fs, asked in zip(passes, (0, compute.weight.compute_fs), parts, strict=True):
            asked_fs = round(sum(cost.kernels for cost in asked) * each_s * FS_PER_S)
            made = op._replace(host_fs=awaited(asked_fs, op.time_fs + late_fs))
            if piece.offloaded_B:
                away_fs = self._away_fs(stage, piece, group[0])
                made = made._replace(offload_fs=max(0, away_fs - made.time_fs - late_fs))
            found.append(made)
        return Ops(found[0], found[1], compute.weight)

    def _passes(self, stage: int, piece: Piece, group: Group, compute: Ops, hide: bool) -> tuple[Op, Op]:
        """Return the forward and the backward pass with their collectives."""
        forward, again, backward = piece.calls
        found: list[Op] = []
        for op, calls, computes_fs in (
            (compute.forward, forward, compute.forward.time_fs),
            (compute.backward, (*again, *backward), compute.backward.time_fs + compute.weight.time_fs),
        ):
            tensor_fs, hidden_fs = self.tensor(calls, group, hide)
            data_fs = 0
            if self.plan.shares_gradients:
                share = FSDP if self.plan.zero == 3 else self.taken(group[0])
                sent_fs = self.gathers(stage, piece).time_fs
                sent_fs += self.scatters(stage, piece).time_fs if found else 0
                able_fs = self._hidden_fs(stage, computes_fs, tensor_fs, hidden_fs)
                data_fs = beside(sent_fs, able_fs, share)
            found.append(op._replace(tensor_fs=tensor_fs, data_fs=data_fs))
        return found[0], found[1]

    def _away_fs(self, stage: int, piece: Piece, rank: int) -> int:
        """Return how long the activations of a pass take to the host, or back. Where devices reach others over the same
        kind of link, gathers of replicas and the transfer to the next stage come first."""
        path = to_host(self.fleet, rank)
        assert path is not None, "checked before a step is planned"
        taken_fs = path.sent_fs(piece.offloaded_B)
        for comm, kind, groups in (
            (self.gathers(stage, piece), "all_gather", self.data_groups(stage)),
            (self.transfer(stage), "send_recv", [self._next_pair(stage)]),
        ):
            links = {self.fleet.topology.wires[wire].link for wire in self._wires(groups, kind)}
            taken_fs += comm.taken_fs if path.link.kind in links else 0
        return taken_fs

    def own_fs(self, rank: int, cost: Cost, even: bool = False) -> int:
        """Return the time of a pass on a device, longer at a slower pace."""
        time = cost.time_fs
        if even or self.fleet.speeds[rank] == 1.0:
            return time
        pace = Fraction(self.fleet.speeds[rank]).limit_denominator(EXACT)
        return -(-time * pace.denominator // pace.numerator)

    def taken(self, rank: int) -> float:
        """Return the share of a device's multiprocessors that a collective takes from kernels beside it, one per
        channel of the library; 0 without multiprocessors."""
        have = self.fleet.costs(rank).multiprocessors
        return min(1.0, self.fleet.software.channels / have) if have else 0.0

    def comm(self, calls: Calls, group: Group) -> Comm:
        """Return collectives of a tensor-parallel group, one after the other."""
        return Comm.joined(
            self.fleet.collective(call.kind, call.nbytes, [group]).repeated(call.times) for call in calls
        )

    def tensor(self, calls: Calls, group: Group, hide: bool) -> tuple[int, int]:
        """Return by how much such collectives make a pass longer, and how much of them products hide if they ``hide``
        any."""
        time_fs = hidden_fs = 0
        for call in calls:
            alone_fs = self.fleet.collective(call.kind, call.nbytes, [group]).time_fs
            covered_fs = alone_fs - call.exposed_fs(alone_fs) if hide else 0
            time_fs += beside(alone_fs, covered_fs, TENSOR) * call.times
            hidden_fs += covered_fs * call.times
        return time_fs, hidden_fs

    def sent_by_tensors(self, stage: int) -> Comm:
        """Return all collectives of the tensor-parallel group of a stage for one microbatch."""
        group = self.plan.tp_group(self.plan.rank(stage, 0, 0))
        return Comm.joined(self.comm(calls, group) for piece in self.pieces[stage] for calls in piece.calls)

    def sent_by_replicas(self, stage: int) -> Comm:
        """Return, with ZeRO 2 and 3, all collectives of the replicas of a stage in the passes of one microbatch."""
        made = (self.gathers, self.gathers, self.scatters)
        return Comm.joined(each(stage, piece) for piece in self.pieces[stage] for each in made)

    def data_groups(self, stage: int) -> list[Group]:
        """Return the groups of replicas of a stage, one for each part of its tensors."""
        return [self.plan.dp_group(self.plan.rank(stage, 0, t)) for t in range(self.plan.tp)]

    def gathers(self, stage: int, piece: Piece) -> Comm:
        """Return, with ZeRO 3, the all-gathers of the weights of a piece for one pass, which come a unit ahead."""
        if self.plan.zero < 3 or self.plan.dp == 1:
            return Comm()
        sizes = [SHORT_B * count for count in units_of(piece.parameters)]
        groups = self.data_groups(stage)
        return Comm.joined(self.fleet.collective("all_gather", nbytes, groups) for nbytes in sizes)

    def scatters(self, stage: int, piece: Piece) -> Comm:
        """Return, with ZeRO 2 and 3, the reduce-scatters of the gradients that a backward pass of a piece makes: no
        device has room to add up those of several microbatches first (Rajbhandari et al., SC20, section 5.2)."""
        if not self.plan.shares_gradients:
            return Comm()
        sizes = [self.options.sent_B(count) for count in units_of(piece.parameters)]
        groups = self.data_groups(stage)
        return Comm.joined(self.fleet.collective("reduce_scatter", nbytes, groups) for nbytes in sizes)

    def _hidden_fs(self, stage: int, compute_fs: int, tensor_fs: int, covered_fs: int) -> int:
        """Return how long collectives of replicas may take beside a pass: as long as it computes, and while its
        tensor-parallel group is on other wires; less while that group, beside its products, or a transfer to another
        stage is on the same ones."""
        if not self.options.overlap:
            return 0
        mine, plan = self._wires(self.data_groups(stage)), self.plan
        if tensor_fs:
            apart = mine.isdisjoint(self._wires([plan.tp_group(plan.rank(stage, 0, 0))]))
            compute_fs += tensor_fs if apart else -covered_fs
        if plan.pp > 1 and not mine.isdisjoint(self._wires([self._next_pair(stage)], "send_recv")):
            compute_fs -= self.transfer(stage).taken_fs
        return max(0, compute_fs)

    def _next_pair(self, stage: int) -> Group:
        return self.plan.rank(stage, 0, 0), self.plan.rank((stage + 1) % self.plan.pp, 0, 0)

    def _wires(self, groups: Sequence[Group], kind: str = "all_gather") -> set[int]:
        return {wire for group in groups for wire in self.fleet.loads(kind, group)}

    def sends_on(self, stage: int) -> bool:
        """Return whether a stage sends activations to the next, after the last to the first (interleaved)."""
        return self.plan.pp > 1 and (stage < self.plan.pp - 1 or self.plan.chunks > 1)

    def tied_pairs(self) -> list[Group]:
        """Return pairs of devices of the first and the last stage, which may share an embedding."""
        return [*zip(self.plan.stage_ranks(0), self.plan.stage_ranks(self.plan.pp - 1), strict=True)]

    def transfer(self, stage: int) -> Comm:
        """Return the transfer of activations from a stage to the next, which gathers them unless ``sp`` cuts them."""
        if not self.sends_on(stage):
            return Comm()
        return self.fleet.passed_on(self.plan, stage, self.pieces[stage][0].result_B, not self.plan.sp)
