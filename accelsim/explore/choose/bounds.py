"""Bounds: what a candidate takes at least, by its peak and its bandwidths, and what it must hold. Nothing is simulated.

A bound is never above the simulated figure, so that what it drops cannot win. Rules of batches, which are measured,
raise the bounds of other batches of a chip that was simulated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations, product
from math import prod
from pathlib import Path
from typing import NamedTuple

from accelsim.account.energy import engine_prices, left_W, static_power_W
from accelsim.account.price import DAY_S
from accelsim.cluster.plan.plan import Plan, parse_plan
from accelsim.cluster.step.costs import Costs, Setting
from accelsim.cluster.step.memory import capacity_B
from accelsim.cluster.step.segments import FLASH, Segment, Split, block, edge
from accelsim.cluster.step.transformer import Transformer, transformer_of
from accelsim.cluster.step.work import stash_B
from accelsim.compiler.numbers.formats import is_integer
from accelsim.explore.choose.candidates import STATE_B, Candidate, forget, peak, spec_of
from accelsim.explore.choose.question import GENERATION, RUN, Question
from accelsim.formats import table
from accelsim.program.roles import multiplier
from accelsim.spec.chip import Chip
from accelsim.workload.graph import Graph
from accelsim.workload.nodes import node_work
from accelsim.workload.sources.load import generation_of, load_model


class Work(NamedTuple):
    """Work of a task whatever runs it: operations of a sample (of a step: forward and backward), learnt numbers that a
    pass reads, and of a generation the operations of its prompt, keys and values by token, prompt and new tokens;
    ``held``: learnt numbers in memory, where a pass reads not all of them."""

    flops: float
    weights: float
    prompt_flops: float = 0.0
    cached: float = 0.0
    prompt: int = 0
    new: int = 0
    held: float = 0.0


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


@cache
def work_of(model: str, train: bool) -> Work:
    """Return the work of a model. Raises ModelError and UsageError."""
    asked = generation_of(model)
    sizes = transformer_of(*(asked[:2] if asked else (model,)))
    if sizes is not None and train:
        masked = 6 * sizes.layers * sizes.seq**2 * sizes.hidden  # half of attention, which a causal kernel leaves out
        return Work(sizes.sequence_flops - masked, sizes.parameters)
    if sizes is not None and asked is not None:
        prompt, new = asked[2:]
        held, read, matrices = sizes.counts
        cached = sum(sizes.cached(layer, 1) for layer in sizes.kinds if not layer.window)
        return Work(2 * matrices, read, 2 * matrices * prompt, cached, prompt, new, held)
    graph = load_model(model, batch=1, data=False)
    flops = 2 * sum(node_work(graph, node).macs for node in graph.nodes)
    learnt = sum(prod(each.shape) for each in graph.constants() if len(each.shape) > 1)
    return Work(3 * flops if train else flops, learnt)


def forget_all() -> None:
    """Forget models, chips and clusters, whose files may change between questions."""
    forget()
    work_of.cache_clear()
    _mac_J.cache_clear()
    _DEMANDS.clear()


def element_B(dtype: str) -> float:
    """Return the bytes of an element of the weights in a format."""
    return table.get(dtype.rpartition("x")[2] or dtype).bits / 8


def bound_of(question: Question, candidate: Candidate) -> Bound:
    """Return what a candidate takes at least."""
    work, chip = work_of(question.model, question.train), spec_of(candidate.chip)
    rate = peak(candidate.chip, candidate.dtype) * candidate.count
    room, watts = room_B(chip), sum(static_power_W(chip).values()) * candidate.count
    joules = work.flops / 2 * _mac_J(candidate.chip, candidate.dtype, Path(question.model).is_file())
    most_W = left_W(chip) * candidate.count  # a board that would draw more draws less for each operation
    held = work.weights * element_B(candidate.dtype)
    wide = candidate.count * bandwidth_Bps(chip)
    sizes = transformer_of(question.model) if question.train else None
    if question.task != GENERATION:
        seconds = max(work.flops * candidate.batch / rate, held / wide if question.task == RUN else 0.0)
        joules = min(joules, most_W * seconds / candidate.batch)
        if sizes is not None:
            seconds, joules = map(max, (seconds, joules), _trained(sizes, candidate))
        return Bound(_least(question, candidate, seconds, watts, joules), _share(candidate, held), room)
    first = max(work.prompt_flops * candidate.batch / rate, held / wide)
    each = max(work.flops * candidate.batch / rate, held / wide)
    seconds = first + (work.new - 1) * each
    joules = min(joules * (work.prompt + work.new - 1), most_W * seconds / candidate.batch)
    least = _least(question, candidate, seconds, watts, joules) | {"ttft_s": first}
    least |= {"tpot_s": each, "tokens_per_s": candidate.batch / each} if work.new > 1 else {}
    kept = work.cached * element_B(candidate.dtype) * (work.prompt + work.new) * candidate.batch
    stays = (work.held or work.weights) * element_B(candidate.dtype)
    return Bound(least, (stays + kept) / candidate.count, room)


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
    mac_J, most_W = _mac_J(candidate.chip, candidate.dtype, False), left_W(chip)
    parts_s, parts_J = list[float](), list[float]()
    for graphs in _demands(sizes, costs, plan.tp):
        times = [max(each.flops / rate, each.moved_B / wide) for each in graphs]
        drawn = [min(each.flops / 2 * mac_J, most_W * took) for each, took in zip(graphs, times, strict=True)]
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


@cache
def _mac_J(chip: str, dtype: str, foreign: bool) -> float:
    """Return the energy of a multiply-accumulate in a format, with what a GPU draws around it; without that in integers
    for ``foreign`` models, files whose operands may be unsigned."""
    prices: dict[str, list[float]] = {}
    for (_, action), price in engine_prices(spec_of(chip)).items():
        prices.setdefault(str(action), []).append(price.energy_J)
    around = 0.0 if foreign and is_integer(dtype) else min(prices.get(f"around.{dtype}", [0.0]))
    return min(prices.get(f"mac.{dtype}", [0.0])) + around


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
    sizes = transformer_of(model)
    assert sizes is not None  # tokens are of a language model
    return sizes.seq


def bandwidth_Bps(chip: Chip) -> float:
    """Return the highest rate of a memory of the chip that holds weights."""
    rates = [float(each.rate_Bps) for each in chip.memories.values() if each.link is None]
    return max(rates, default=float("inf"))


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
