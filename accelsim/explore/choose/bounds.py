"""Bounds: what a candidate takes at least, by its products and what it reads, and what it must hold. Nothing is
simulated.

A bound is never above the simulated figure, so that what it drops cannot win. Rules of batches, which are measured,
raise the bounds of other batches of a chip that was simulated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product
from pathlib import Path
from typing import NamedTuple

from accelsim.account.energy import left_W, static_power_W
from accelsim.account.price import DAY_S
from accelsim.cluster.plan.plan import Plan, parse_plan
from accelsim.cluster.step.costs import Costs, Setting
from accelsim.cluster.step.memory import capacity_B
from accelsim.cluster.step.segments import FLASH, Segment, Split, block, edge
from accelsim.cluster.step.transformer import Transformer
from accelsim.cluster.step.work import stash_B
from accelsim.explore.choose.candidates import STATE_B, Candidate, forget, peak, spec_of
from accelsim.explore.choose.passing import bandwidth_Bps, element_B, forget_passes, least_of_pass, multiplying_J
from accelsim.explore.choose.question import GENERATION, RUN, SERVICE, Question
from accelsim.explore.choose.services import least_of as service_least
from accelsim.explore.choose.services import load_of
from accelsim.explore.choose.work import passes_of, products_of, sizes_of, work_of
from accelsim.formats import table
from accelsim.program.roles import multiplier
from accelsim.spec.chip import Chip
from accelsim.workload.graph import Graph
from accelsim.workload.nodes import node_work


class Bound(NamedTuple):
    """Least figures of a candidate by their keys, and the bytes that a device must hold of those that it has room
    for."""

    least: Mapping[str, float]
    needed_B: float
    room_B: float

    @property
    def fits(self) -> bool:
        """Return whether the device can hold it."""
        return self.needed_B <= self.room_B


class Rule(NamedTuple):
    """Growth of a figure with the batch, of one chip in one format. It takes at least ``between`` of the straight line
    from a smaller batch (or from nothing) to a larger one, ``near`` where that is at most twice as large. Each sample
    after two batches adds at least ``beyond`` of what a sample added between them. Figures never fall as a batch
    grows."""

    near: float
    between: float
    beyond: float


RULES = {
    RUN: {"latency_s": Rule(0.85, 0.7, 0.65), "energy_J": Rule(0.75, 0.6, 0.5)},
    GENERATION: {
        "latency_s": Rule(0.9, 0.85, 0.45), "ttft_s": Rule(0.9, 0.85, 0.7), "tpot_s": Rule(0.85, 0.8, 0.0),
        "energy_J": Rule(0.9, 0.85, 0.6),
    },
}  # fmt: skip
"""Figures of a task by their rules. They were measured on chips for rent (``docs/choose-hardware.md``)."""


def forget_all() -> None:
    """Forget models, chips and clusters, whose files may change between questions."""
    forget()
    forget_passes()
    for each in (work_of, products_of, passes_of):
        each.cache_clear()
    _DEMANDS.clear()


def bound_of(question: Question, candidate: Candidate) -> Bound:
    """Return what a candidate takes at least."""
    if question.task == SERVICE:
        return _served(question, candidate)
    work, chip = work_of(question.model, question.train), spec_of(candidate.chip)
    room, watts = room_B(chip), sum(static_power_W(chip).values()) * candidate.count
    most_W = left_W(chip) * candidate.count  # a board that would draw more draws less for each operation
    held = work.weights * element_B(candidate.dtype)
    if question.train:
        seconds = work.flops * candidate.batch / (peak(candidate.chip, candidate.dtype) * candidate.count)
        joules = work.flops / 2 * multiplying_J(candidate.chip, candidate.dtype, Path(question.model).is_file())
        joules = min(joules, most_W * seconds / candidate.batch)
        if (sizes := sizes_of(question.model)) is not None:
            seconds, joules = map(max, (seconds, joules), _trained(sizes, candidate))
        return Bound(_least(question, candidate, seconds, watts, joules), _share(candidate, held), room)
    passes = [
        (each.times, least_of_pass(question, candidate, each)) for each in passes_of(question.model, candidate.batch)
    ]
    seconds, joules = (sum(times * each[figure] for times, each in passes) for figure in (0, 1))
    joules = min(joules, most_W * seconds) / candidate.batch
    least = _least(question, candidate, seconds, watts, joules)
    if question.task != GENERATION:
        return Bound(least, _share(candidate, held), room)
    (_, first), (_, each) = passes
    least |= {"ttft_s": first.seconds}
    least |= {"tpot_s": each.seconds, "tokens_per_s": candidate.batch / each.seconds} if work.new > 1 else {}
    kept = work.cached * element_B(candidate.dtype) * (work.prompt + work.new) * candidate.batch
    return Bound(least, (held + kept) / candidate.count, room)


def _served(question: Question, candidate: Candidate) -> Bound:
    """Return what a service takes at least: replicas, times, and the energy of a request with that of idle time."""
    load, sizes, chip = load_of(question), sizes_of(question.model), spec_of(candidate.chip)
    assert sizes is not None  # it generates
    flops = peak(candidate.chip, candidate.dtype) * candidate.count
    read_Bps = bandwidth_Bps(chip) * candidate.count
    least = service_least(load, sizes, flops, read_Bps, element_B(candidate.dtype))
    static_W = least["replicas"] * candidate.count * sum(static_power_W(chip).values())
    least |= {"energy_per_sample_J": static_W * load.requests[-1].arrival_s / len(load.requests)}
    return Bound(least, sizes.counts.learnt * element_B(candidate.dtype) / candidate.count, room_B(chip))


class Demand(NamedTuple):
    """Work of a graph for each further sequence of a microbatch: operations of its products, bytes of activations that
    it reads and leaves."""

    flops: float
    moved_B: float


_DEMANDS: dict[object, tuple[list[Demand], ...]] = {}


def _trained(sizes: Transformer, candidate: Candidate) -> tuple[float, float]:
    """Return the least seconds of a training step, and the least joules of a sequence without static power: each graph
    at the peak of its products or of its memory. The last stage works on all sequences of a replica, after the stages
    before it have passed on the first. What surely does not fit is computed again."""
    plan, chip = parse_plan(candidate.plan), spec_of(candidate.chip)
    costs = Costs(chip, Setting(dtype=candidate.dtype))
    far = costs.tiles or multiplier(chip) is None or any(each.cache for each in chip.memories.values())
    wide, rate = float("inf") if far else bandwidth_Bps(chip), peak(candidate.chip, candidate.dtype)
    each_J, most_W = multiplying_J(candidate.chip, candidate.dtype, False), left_W(chip)
    parts_s, parts_J = list[float](), list[float]()
    for graphs in _demands(sizes, costs, plan.tp):
        times = [max(each.flops / rate, each.moved_B / wide) for each in graphs]
        drawn = [min(each.flops / 2 * each_J, most_W * took) for each, took in zip(graphs, times, strict=True)]
        parts_s.append(sum(times))
        parts_J.append(sum(drawn))
    many, passes = candidate.batch / plan.dp, 2 if _again(sizes, plan, costs, candidate.batch) else 1
    layer, layer_J = (passes * parts[0] + parts[1] for parts in (parts_s, parts_J))
    first, last, stage = *parts_s[2:], sizes.layers / plan.pp * layer
    before = many * first if plan.pp == 1 else first + (plan.pp - 1) * stage
    return many * (stage + last) + before, plan.tp * (sizes.layers * layer_J + sum(parts_J[2:]))


def _again(sizes: Transformer, plan: Plan, costs: Costs, batch: int) -> bool:
    """Return whether no less than all of the forward pass is computed again, since the first stage could not hold its
    blocks otherwise: with their state, and what each keeps of one sequence for as many microbatches as there are
    stages."""
    split, held = Split(sizes, 1, plan.tp, flash=costs.flash), min(plan.pp, batch // plan.dp)
    state_B = STATE_B * sizes.layer_parameters / plan.tp
    kept_B = stash_B(split, "none" if costs.flash else "selective")
    return sizes.layers / plan.pp * (state_B + held * kept_B) > capacity_B(costs.chip)


def _demands(sizes: Transformer, costs: Costs, tp: int) -> tuple[list[Demand], ...]:
    """Return the graphs of a block forward and backward, and those of the embedding and of the head in both passes."""
    key = (sizes, costs.dtype, costs.flash, costs.by_kernels, tp)
    if key not in _DEMANDS:
        one, two = (Split(sizes, batch, tp, flash=costs.flash) for batch in (1, 2))
        blocks = [(each.times, _further(costs, each, more)) for each, more in zip(block(one), block(two), strict=True)]
        passes = [[each[way] for times, each in blocks for _ in range(times)] for way in (0, 1)]
        ends = [zip(edge(one, name), edge(two, name), strict=True) for name in ("embedding", "head")]
        _DEMANDS[key] = (*passes, *([each for pair in end for each in _further(costs, *pair)] for end in ends))
    return _DEMANDS[key]


def _further(costs: Costs, one: Segment, two: Segment) -> list[Demand]:
    """Return what the passes of two sequences take beyond those of one; of attention half the products, the others of
    which a causal kernel leaves out."""
    made = [[_demand(graph) for graph in costs.passes(each)[:2]] for each in (one, two)]
    share = 0.5 if one.core or one.name == FLASH else 1.0
    return [Demand(share * (b.flops - a.flops), b.moved_B - a.moved_B) for a, b in zip(*made, strict=True)]


def _demand(graph: Graph) -> Demand:
    tensors = (graph.tensors[name] for name in {*graph.inputs, *graph.outputs})
    moved_B = sum(each.elements * table.get(each.dtype).bits / 8 for each in tensors)
    return Demand(2 * sum(node_work(graph, node).macs for node in graph.nodes), moved_B)


def _share(candidate: Candidate, held: float) -> float:
    """Bytes of weights on a device of a plan; all of them without one."""
    parts = dict(part.split("=") for part in candidate.plan.split(",") if "=" in part)
    return held / (int(parts.get("tp", 1)) * int(parts.get("pp", 1)))


def room_B(chip: Chip) -> float:
    """Return the bytes that a chip can hold; of its host where that alone computes."""
    if multiplier(chip) is None and chip.host is not None:
        return float(chip.host.memory.capacity)
    return capacity_B(chip)


def _least(question: Question, candidate: Candidate, seconds: float, watts: float, joules: float) -> dict[str, float]:
    """Figures that follow from the least time: rates are the highest, others the lowest."""
    least = {
        "latency_s": seconds,
        "throughput_per_s": candidate.batch / seconds,
        "energy_per_sample_J": watts * seconds / candidate.batch + joules,
    }
    if question.train and question.tokens:
        whole = question.tokens / (candidate.batch * _tokens(question.model)) * seconds
        least |= {"training_s": whole, "days": whole / DAY_S}
    return least


def _tokens(model: str) -> int:
    sizes = sizes_of(model)
    assert sizes is not None  # tokens are of a language model
    return sizes.seq


def least_of(rule: Rule, runs: Sequence[tuple[int, float]], batch: int) -> float:
    """Return the least figure of a batch by a rule and ``runs``: other batches with their figures, in order."""
    below = [run for run in runs if run[0] < batch]
    found = [own for _, own in below]
    for (small, low), (large, high) in product([(0, 0.0), *below], runs[len(below) :]):
        share = rule.near if large <= 2 * batch else rule.between
        found.append(share * (low + (high - low) * (batch - small) / (large - small)))
    for (small, low), (large, high) in combinations(below, 2):
        found.append(high + rule.beyond * (high - low) * (batch - large) / (large - small))
    return max(found)
