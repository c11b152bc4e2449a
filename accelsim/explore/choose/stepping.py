"""Least time and energy of a training step: of the graphs of its pieces, forward and backward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from accelsim.cluster.plan.plan import Plan, parse_plan
from accelsim.cluster.step.costs import Costs, Setting
from accelsim.cluster.step.memory import capacity_B
from accelsim.cluster.step.segments import FLASH, Segment, Split, block, edge
from accelsim.cluster.step.tensor import calls_of
from accelsim.cluster.step.transformer import Transformer
from accelsim.cluster.step.work import stash_B
from accelsim.explore.choose.candidates import STATE_B, Candidate, peak, spec_of
from accelsim.explore.choose.passing import bandwidth_Bps, collective, drawn, least_of_products
from accelsim.explore.choose.question import FORGET, kept
from accelsim.explore.choose.work import Multiplied, in_batch, multiplied
from accelsim.formats import table
from accelsim.program.roles import multiplier
from accelsim.workload.graph import Graph
from accelsim.workload.nodes import node_work

Parts = tuple[tuple[float, float], ...]
"""Seconds and joules of a sequence in a block forward and backward, in the embedding and in the head."""


class Demand(NamedTuple):
    """Work of a graph for each further sequence of a microbatch: operations of its products, bytes of activations that
    it reads and leaves; its products in a microbatch of one sequence and of two."""

    flops: float
    moved_B: float
    one: Sequence[Multiplied]
    two: Sequence[Multiplied]


_DEMANDS: dict[object, tuple[list[Demand], ...]] = {}
FORGET.append(_DEMANDS.clear)


def least_of_step(sizes: Transformer, candidate: Candidate) -> tuple[float, float]:
    """Return the least seconds of a training step, and the least joules of a sequence without static power, with the
    best size of microbatches. The last stage works on all sequences of a replica, after the stages before it have
    passed on the first. What surely does not fit is computed again."""
    plan, batch = parse_plan(candidate.plan), candidate.batch
    many = batch // plan.dp
    passes = 2 if _again(sizes, plan, Costs(spec_of(candidate.chip), Setting(dtype=candidate.dtype)), many) else 1
    found = []
    for size, parts in _parts(sizes, candidate.chip, candidate.dtype, plan.tp, batch).items():
        if many % size:
            continue
        (ahead_s, ahead_J), (back_s, back_J), (first_s, first_J), (last_s, last_J) = parts
        added_s, added_J = _added(sizes, candidate, plan.tp, size)
        layer_s = passes * ahead_s + back_s + (passes + 1) * added_s
        stage = sizes.layers / plan.pp * layer_s
        layer_J = passes * ahead_J + back_J + (passes + 1) * added_J / plan.tp
        before = many * first_s if plan.pp == 1 else first_s + (plan.pp - 1) * stage
        found.append((many * (stage + last_s) + before, plan.tp * (sizes.layers * layer_J + first_J + last_J)))
    return min(seconds for seconds, _ in found), min(joules for _, joules in found)


def _added(sizes: Transformer, candidate: Candidate, tp: int, size: int) -> tuple[float, float]:
    """Seconds and joules of a sequence in which devices that share a block add up its results, in a pass of
    microbatches; joules of all of them."""
    calls, *_ = calls_of(Split(sizes, size, tp), Plan(tp=tp), 1, (False, False), Costs(spec_of(candidate.chip)))
    on, dtype = f"{candidate.device}?nodes=1", candidate.dtype
    found = [(call.times, *collective(on, dtype, tp, call.kind, call.nbytes)) for call in calls]
    return sum(times * each_s for times, each_s, _ in found) / size, sum(
        times * each for times, _, each in found
    ) / size


@kept
def _parts(sizes: Transformer, name: str, dtype: str, tp: int, batch: int) -> Mapping[int, Parts]:
    """Size of microbatches -> the least of a sequence in each piece: each graph at the peak of its products, as long as
    they take one after the other, or at the peak of its memory."""
    chip, every = spec_of(name), [size for size in range(1, batch + 1) if batch % size == 0]
    costs = Costs(chip, Setting(dtype=dtype))
    far = costs.tiles or multiplier(chip) is None or any(each.cache for each in chip.memories.values())
    wide, rate, of = bandwidth_Bps(chip), peak(name, dtype), drawn(name, dtype)
    pieces = _demands(sizes, costs, tp)
    rows = [in_batch(graph.one, graph.two, size) for size in every for graphs in pieces for graph in graphs]
    least = iter(least_of_products(costs.at_site, dtype, rows))

    def part(graph: Demand, size: int) -> tuple[float, float]:
        own, moved_B = next(least), 0.0 if far else graph.moved_B
        seconds = max(graph.flops / rate, moved_B / wide, own.seconds / size)
        return seconds, max(graph.flops / 2 * of.mac_J, own.joules / size) + moved_B * of.moved_J

    def parts(graphs: Sequence[Demand], size: int) -> tuple[float, float]:
        found = [part(graph, size) for graph in graphs]
        return sum(seconds for seconds, _ in found), sum(joules for _, joules in found)

    return {size: tuple(parts(graphs, size) for graphs in pieces) for size in every}


def _again(sizes: Transformer, plan: Plan, costs: Costs, many: int) -> bool:
    """Return whether no less than all of the forward pass is computed again, since the first stage could not hold its
    blocks otherwise: with their state, and what each keeps of one sequence for as many microbatches as there are
    stages."""
    split, held = Split(sizes, 1, plan.tp, flash=costs.flash), min(plan.pp, many)
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
    core = one.core or one.name == FLASH
    return [
        Demand(
            (0.5 if core else 1.0) * (_flops(b) - _flops(a)), _moved_B(b) - _moved_B(a), multiplied(a), multiplied(b)
        )
        for a, b in zip(*(costs.passes(each)[:2] for each in (one, two)), strict=True)
    ]


def _flops(graph: Graph) -> float:
    return 2.0 * sum(node_work(graph, node).macs for node in graph.nodes)


def _moved_B(graph: Graph) -> float:
    tensors = (graph.tensors[name] for name in {*graph.inputs, *graph.outputs})
    return sum(each.elements * float(table.get(each.dtype).bits) / 8 for each in tensors)
