"""Estimates of the time and the memory of a plan, by closed forms: for a search that simulates only the best.

Pipelines: (m - 1) times the longest stage and once through all of them; interleaved ones fill by chunks; zero-bubble
ones fill without gradients of weights (facts of the schedules in ``tests.helpers.schedule_forms``). Larger
microbatches than two samples lie on the line through those of one and of two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from accelsim.account.energy import static_power_W
from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.schedules.registry import schedule
from accelsim.cluster.step.costs import FIGURES, Cost, PassCosts
from accelsim.cluster.step.fleet import Fleet
from accelsim.cluster.step.memory import capacity_B, static_B
from accelsim.cluster.step.ops import Options, Planned, ReplicaOps, total
from accelsim.cluster.step.tensor import SHORT_B, Call
from accelsim.cluster.step.work import Piece, Work
from accelsim.time import FS

SIMULATED = 2
"""Samples of the largest microbatch whose pieces are simulated for a bound."""


class Bound(NamedTuple):
    """Estimate of a plan: parts of its time, s; joules; bytes of the fullest device, and its capacity."""

    parts_s: Mapping[str, float]
    energy_J: float
    peak_B: int
    capacity_B: int

    @property
    def time_s(self) -> float:
        """Sum of all parts, s."""
        return sum(self.parts_s.values())

    @property
    def fits(self) -> bool:
        """Return whether the fullest device has room."""
        return self.peak_B <= self.capacity_B

    def value(self, objective: str) -> float:
        """Return the figure that a search compares: joules for 'energy', else seconds."""
        return self.energy_J if objective == "energy" else self.time_s


Number = TypeVar("Number", int, float)
LINEAR = ("result_B", "stash_B", "working_B", "offloaded_B")
"""Bytes of a piece that grow with its samples."""


def _on_line(one: Piece, two: Piece, samples: int) -> Piece:
    """The piece for so many samples, on the line through those for one and for two."""

    def at(a: Number, b: Number) -> Number:
        return a + (b - a) * (samples - 1)

    def cost(a: Cost, b: Cost) -> Cost:
        return Cost._make((*map(at, a[:FIGURES], b[:FIGURES]), ()))._replace(kernels=b.kernels)

    def call(a: Call, b: Call) -> Call:
        sizes = {name: at(getattr(a, name), getattr(b, name)) for name in ("nbytes", "product_fs", "chunk_fs")}
        return b._replace(**sizes)

    first, again, back = (tuple(map(call, a, b)) for a, b in zip(one.calls, two.calls, strict=True))
    sizes = {name: at(getattr(one, name), getattr(two, name)) for name in LINEAR}
    return replace(one, costs=PassCosts._make(map(cost, one.costs, two.costs)), calls=(first, again, back), **sizes)


class _Linear(Planned):
    """A plan whose larger microbatches are not simulated: costs lie on the line through one and two sequences. For
    models other than decoders every microbatch is simulated. ``lines``: what is known of all plans."""

    def __init__(self, bounds: Bounds, plan: Plan) -> None:
        self.lines = bounds.lines
        super().__init__(bounds.work, bounds.fleet, plan, bounds.batch, bounds.options)

    def piece(self, stage: int, chunk: int, rank: int) -> Piece:
        """Return the piece of a stage, with the costs of a schedule that splits nothing off."""
        work, plain, costs = self.work, replace(self.plan, schedule="1f1b"), self.fleet.costs(rank)
        index, simulated = chunk * self.plan.pp + stage, self.samples <= SIMULATED or not self.work.sample_tokens
        if simulated:
            return work.piece(index, plain, self.samples, costs)
        one, two = (work.piece(index, plain, count, costs) for count in (1, SIMULATED))
        alike = (id(one), id(two), self.samples)
        if alike not in self.lines:
            self.lines[alike] = _on_line(one, two, self.samples)
        return self.lines[alike]


class _Ops(NamedTuple):
    """Ops that all schedules and degrees of ZeRO of a split have in common."""

    planned: Planned
    stages: ReplicaOps
    transfer_fs: int


@dataclass
class Bounds:
    """Estimates of plans for one model, cluster and batch; what plans share is computed once."""

    work: Work
    fleet: Fleet
    batch: int
    options: Options
    known: dict[object, _Ops] = field(default_factory=dict)
    lines: dict[object, Piece] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.room_B = min(capacity_B(chip) for chip in self.fleet.chips)
        self.static_W = sum(sum(static_power_W(chip).values()) for chip in self.fleet.chips)

    def estimate(self, plan: Plan) -> Bound:
        """Estimate a plan."""
        ops = self._ops(plan)
        parts = self._pipeline(plan, ops) | self._end(plan, ops)
        seconds = {name: fs * FS for name, fs in parts.items()}
        return Bound(seconds, self._energy_J(plan, ops, sum(seconds.values())), self._peak_B(plan, ops), self.room_B)

    def _ops(self, plan: Plan) -> _Ops:
        key = (plan.tp, plan.pp, plan.chunks, plan.microbatches, plan.sp, plan.recompute, max(1, plan.zero))
        if key not in self.known:
            planned = _Linear(self, plan)
            self.known[key] = _Ops(planned, planned.ops(0), planned.transfer(0).time_fs)
        return self.known[key]

    def _pipeline(self, plan: Plan, ops: _Ops) -> dict[str, int]:
        p, m, v = plan.pp, plan.microbatches, plan.chunks
        stages = [total(op for chunk in stage for op in chunk) for stage in ops.stages]
        busiest = max(stages, key=lambda stage: stage.time_fs)
        spent, fill = total([busiest], m), total(stages).time_fs - busiest.time_fs
        weights = sum(chunk.backward.compute_fs for stage in ops.stages for chunk in stage) // 2
        saved = 2 * weights * (p - 1) // p if schedule(plan.schedule).splits else 0
        return {
            "compute": spent.compute_fs,
            "recompute": spent.again_fs,
            "tensor": spent.tensor_fs,
            "host": spent.host_fs,
            "bubble": max(0, fill // v - saved),
            "pipeline": 2 * (p * v - 1) * ops.transfer_fs,
            "data": spent.data_fs,
            "offload": spent.offload_fs,
        }

    def _end(self, plan: Plan, ops: _Ops) -> dict[str, int]:
        """Gradients and update of the first stage, which has most to learn."""
        count = sum(ops.planned.parameters(0))
        share = -(-count // plan.dp) if plan.zero else count
        update = self.fleet.costs(0).update(share).time_fs
        data = sum(op.data_fs for chunk in ops.stages[0] for op in chunk) * plan.microbatches
        if plan.dp > 1:
            groups = ops.planned.data_groups(0)
            kind = "reduce_scatter" if plan.zero else "all_reduce"
            if not plan.shares_gradients:
                sent = self.fleet.collective(kind, self.options.sent_B(count), groups).time_fs
                hidden = sum(chunk.backward.time_fs for chunk in ops.stages[0]) if self.options.overlap else 0
                data += max(0, sent - hidden)
            if plan.zero in (1, 2):
                data += self.fleet.collective("all_gather", SHORT_B * count, groups).time_fs
        return {"data": data, "optimiser": update}

    def _peak_B(self, plan: Plan, ops: _Ops) -> int:
        static = static_B(ops.planned.pieces, plan, self.options.gradient_B)
        ends = (0, plan.pp - 1)
        kept = STASHES.get(plan.schedule, STASHES["1f1b"])
        return max(
            sum(each[stage] for each in static.values())
            + kept(plan, stage) * max(piece.stash_B for piece in ops.planned.pieces[stage])
            for stage in ends
        )

    def _energy_J(self, plan: Plan, ops: _Ops, seconds: float) -> float:
        pieces = [piece for stage in ops.planned.pieces for piece in stage]
        each = sum(sum(cost.energy_J for cost in piece.costs) - piece.costs.core.energy_J for piece in pieces)
        return each * plan.microbatches * plan.dp * plan.tp + self.static_W * seconds


STASHES: Mapping[str, Callable[[Plan, int], int]] = {
    "gpipe": lambda plan, stage: plan.microbatches,
    "1f1b": lambda plan, stage: min(plan.microbatches, plan.pp - stage),
    "zb-h1": lambda plan, stage: min(plan.microbatches, plan.pp),
    "interleaved": lambda plan, stage: min(
        plan.microbatches * plan.chunks, 2 * (plan.pp - stage - 1) + (plan.chunks - 1) * plan.pp + 1
    ),
}
"""Schedule -> most stashes of a piece that a stage holds at one time."""
