"""Laws of plans: random networks under random legal plans learn what one device learns; planted faults are found."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.cluster.plan.check import check
from accelsim.cluster.plan.objective import objective
from accelsim.cluster.plan.placing import split
from accelsim.cluster.plan.plan import Plan, parse_plan
from accelsim.cluster.plan.shard import shard_objective
from accelsim.cluster.plan.spmd import SPMD
from accelsim.cluster.plan.verify import verify, verify_sharded
from accelsim.cluster.values.parallel import Parallel
from accelsim.errors import ModelError, UsageError
from accelsim.types import Array
from accelsim.workload.graph import Graph
from accelsim.workload.training import SGD, Adam
from accelsim.workload.zoo.build import Builder

BATCH, CLASSES = 12, 6
RULES = (SGD(0.05, momentum=0.9, weight_decay=0.01), Adam(1e-2, eps=1e-3))


@st.composite
def networks(draw: st.DrawFn) -> tuple[str, tuple[int, ...]]:
    """A kind of network and the widths of its layers."""
    kind = draw(st.sampled_from(["mlp", "residual", "cnn"]))
    return kind, tuple(draw(st.lists(st.sampled_from([4, 6, 8, 12]), min_size=2, max_size=3)))


def build(network: tuple[str, tuple[int, ...]], batch: int) -> Graph:
    """The network; a residual one adds the first activation to all later ones, across stages."""
    kind, widths = network
    b = Builder(kind)
    if kind == "cnn":
        x = b.input("x", (batch, 2, 4, 4))
        for index, width in enumerate(widths):
            x = b.op("Relu", [b.conv(x, width, 3, f"conv{index}", pad=1)], f"relu{index}")
        x = b.op("Flatten", [b.max_pool(x, 2, "pool")], "flat", axis=1)
    else:
        x = b.input("x", (batch, 5))
        first = ""
        for index, width in enumerate(widths):
            x = b.dense(x, widths[0] if kind == "residual" else width, f"fc{index}", relu=True)
            x = b.op("Add", [x, first], f"sum{index}") if first and kind == "residual" else x
            first = first or x
    graph = b.finish(b.dense(x, CLASSES, "head"))
    rng = np.random.default_rng(len(widths))
    for tensor in graph.constants():
        tensor.data = rng.standard_normal(tensor.shape).astype(np.float32) * np.float32(0.3)
    return graph


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """A plan that nearly always fits a network of three layers and a batch of 12; ``check`` decides."""
    schedule = draw(st.sampled_from(["1f1b", "gpipe", "zb-h1", "interleaved"]))
    dp, pp = draw(st.sampled_from([1, 2, 3])), draw(st.sampled_from([1, 2, 3]))
    chunks = draw(st.sampled_from([1, 2])) if schedule == "interleaved" and pp == 1 else 1
    fitting = [m for m in (1, 2, 4) if schedule != "interleaved" or m % pp == 0] or [pp]
    return Plan(
        dp=dp, tp=draw(st.sampled_from([1, 1, 2])), pp=pp, chunks=chunks, microbatches=draw(st.sampled_from(fitting)),
        schedule=schedule, zero=draw(st.sampled_from([0, 0, 1, 2, 3])) if dp > 1 else 0,
        recompute=draw(st.sampled_from(["none", "full"])),
    )  # fmt: skip


def weights(network: tuple[str, tuple[int, ...]], plan: Plan, rule: SGD | Adam) -> dict[str, Array]:
    """After two steps in double precision."""
    rng = np.random.default_rng(7)
    model = build(network, BATCH // plan.dp // plan.microbatches)
    shape = model.tensors["x"].shape[1:]
    made = objective(model, plan.dp * plan.microbatches, plan.stages, "fp64")
    run = Parallel(made, plan, rule, rule.lr)
    run.run([(rng.standard_normal((BATCH, *shape)), np.eye(CLASSES)[rng.integers(0, CLASSES, BATCH)]) for _ in range(2)])  # fmt: skip
    return run.weights()


@settings(max_examples=40)
@given(networks(), plans(), st.sampled_from(RULES))
def test_every_legal_plan_learns_what_one_device_learns(
    network: tuple[str, tuple[int, ...]], plan: Plan, rule: SGD | Adam
) -> None:
    try:
        check(plan, build(network, 1), BATCH, plan.devices)
    except UsageError:
        return
    got, want = weights(network, plan, rule), weights(network, Plan(), rule)
    assert all(np.abs(got[name] - want[name]).max() < 1e-12 for name in want)
    if plan.dp == plan.tp == 1:
        same = weights(network, Plan(microbatches=plan.microbatches), rule)
        assert all(np.array_equal(got[name], same[name]) for name in same)


@settings(max_examples=30)
@given(networks(), st.sampled_from([2, 3]), st.integers(0, 30), st.booleans())
def test_a_planted_fault_is_found(network: tuple[str, tuple[int, ...]], tp: int, which: int, shift: bool) -> None:
    """A collective that is left out, or a weight that lies along another axis."""
    sharded = shard_objective(objective(build(network, 6)), tp)
    verify_sharded(sharded)
    graph = sharded.graph
    sums = [node for node in graph.nodes if node.op == "AllReduce"]
    matrices = [name for name in sharded.split if name.endswith("weight") and name in graph.inputs]
    if shift and matrices:
        name = matrices[which % len(matrices)]
        placed = {key: split(axis) for key, axis in sharded.split.items() if key in graph.inputs}
        placed[name] = split(1 - sharded.split[name])
        with pytest.raises(ModelError):
            verify(graph, tp, placed, {key: split(axis) for key, axis in sharded.split.items()})
    elif sums:
        node = sums[which % len(sums)]
        for other in graph.nodes:
            if other is not node:
                other.inputs = [node.inputs[0] if given == node.outputs[0] else given for given in other.inputs]
        graph.outputs = [node.inputs[0] if given == node.outputs[0] else given for given in graph.outputs]
        with pytest.raises(ModelError, match="partial"):
            verify_sharded(sharded)


@settings(max_examples=50)
@given(plans(), st.integers(1, 9), st.booleans())
def test_a_plan_and_its_text(plan: Plan, period: int, sp: bool) -> None:
    made = Plan(**{**vars(plan), "period": period, "sp": sp})
    assert parse_plan(str(made)) == made
    ranks = range(made.devices)
    assert [made.rank(*made.place(rank)) for rank in ranks] == list(ranks)
    for groups in (made.tp_group, made.dp_group):
        assert sorted(rank for group in {groups(rank) for rank in ranks} for rank in group) == list(ranks)


def test_every_node_of_several_ranks_is_tried() -> None:
    """The random networks have no table; the unit tests of language models try these."""
    assert set(SPMD) == {
        "AllReduce",
        "AllGather",
        "ReduceScatter",
        "Part",
        "GatherPart",
        "GatherGradPart",
        "ExpertExchange",
        "RingAttention",
    }
