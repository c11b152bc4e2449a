"""Mixtures of experts under a plan: weights after five steps are those of one device; who holds and sends what."""

from __future__ import annotations

import numpy as np
import pytest

from accelsim.cluster.plan.check import check
from accelsim.cluster.plan.experts import experts_of, share_experts
from accelsim.cluster.plan.objective import objective
from accelsim.cluster.plan.plan import parse_plan
from accelsim.cluster.plan.shard import without_collectives
from accelsim.cluster.step.asked import Asked, step, work_of
from accelsim.cluster.step.result import StepResult
from accelsim.cluster.step.transformer import transformer_of
from accelsim.cluster.values.lockstep import Lockstep
from accelsim.errors import UsageError
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.ops import base
from accelsim.workload.sources.load import load_model
from tests.helpers.cluster_training import alone, difference, model, trained

PLANS = (
    "ep=2", "ep=4,microbatches=2", "dp=2,ep=2", "ep=2,pp=2,microbatches=2", "dp=2,ep=2,zero=3",
    "ep=2,microbatches=2,schedule=zb-h1,pp=2,recompute=full", "dp=2,tp=2", "tp=4",
)  # fmt: skip


@pytest.mark.parametrize("text", PLANS)
def test_a_mixture_of_experts_under_every_plan(text: str) -> None:
    got, want = trained("moe", parse_plan(text)).weights(), alone("moe", "sgd")
    assert got.keys() == want.keys() and difference(got, want) < 1e-12


def test_devices_hold_their_experts_and_equal_copies_of_the_rest() -> None:
    run = trained("moe", parse_plan("ep=2"))
    (first, second) = run.newest()[0][0]
    own = {name for name in first if name in run.sharded.split}
    assert {name.rpartition(".")[0] for name in own} == {
        f"l{n}.{part}" for n in (0, 1) for part in ("gate", "up", "down")
    }
    for name in first:
        assert (name in own) != np.array_equal(first[name], second[name])
        assert first[name].shape[0] == 2 or name not in own


def test_what_is_sent() -> None:
    """Three products there and back in each layer, forward and for the gradients of rows; gradients of experts are
    scattered, all others added up."""
    made = objective(model("moe", 6), 2)
    shared = share_experts(made, 2)
    kinds = [each.kind for each in shared.collectives]
    assert kinds.count("all_to_all") == 2 * 2 * 3 and kinds.count("reduce_scatter") == 2 * 3
    assert kinds.count("all_reduce") == len(made.grads) - 6 and len(kinds) == 12 + len(made.grads)
    gate = next(each for each in shared.collectives if each.node == "l0.gate")
    assert gate.nbytes == 4 * 6 * 4 * 2 * (16 + 12)  # of tokens, experts of each, elements there and back
    bare = without_collectives(shared)
    assert not {node.op for node in bare.nodes} & {"ExpertExchange", "AllReduce", "ReduceScatter"}
    for node in bare.nodes:
        shapes = base.get(node.op).infer(node, [bare.tensors.get(name) for name in node.inputs])
        assert [tuple(shape) for shape, _ in shapes] == [bare.tensors[name].shape for name in node.outputs]


@pytest.mark.parametrize("skew", [0, 1])
def test_an_exchange_gives_the_product_of_one_device(skew: int) -> None:
    """Also where all tokens go to one of the ranks."""
    rng, ranks, graph = np.random.default_rng(skew), 2, Graph("exchange", [], {}, ["x", "w", "chosen"], ["y"], 20)
    node = Node("y", "ExpertExchange", ["x", "w", "chosen"], ["y"], {"group": "ep", "full": 1})
    for name, shape, dtype in (("x", (6, 5), "fp64"), ("w", (2, 5, 3), "fp64"), ("chosen", (6, 2), "int32")):
        graph.tensors[name] = Tensor(name, shape, dtype)
    graph.tensors["y"], graph.nodes = Tensor("y", (12, 3), "fp64"), [node]
    x, w = rng.normal(size=(ranks, 6, 5)), rng.normal(size=(4, 5, 3))
    chosen = rng.integers(0, 2 if skew else 4, (ranks, 6, 2)).astype(np.int32)
    parts = [{"x": x[rank], "w": w[2 * rank : 2 * rank + 2], "chosen": chosen[rank]} for rank in range(ranks)]
    for rank, out in enumerate(Lockstep(graph).run(parts)):
        whole = np.einsum("tk,tckm->tcm", x[rank], w[chosen[rank]]).reshape(12, 3)
        np.testing.assert_allclose(out["y"], whole, rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "plan", "words"),
    [
        ("moe", "ep=3", ["ep=3 of 4 experts", "such as 2 or 4", "a batch of 8 on 1 replicas of 3 groups"]),
        ("moe", "ep=2,tp=2", ["ep=2 with tp=2"]),
        ("gpt", "ep=2", ["ep=2 of a model without experts"]),
    ],
)
def test_what_cannot_be_is_refused(name: str, plan: str, words: list[str]) -> None:
    with pytest.raises(UsageError) as told:
        check(parse_plan(plan), model(name, 1), 8)
    assert all(word in str(told.value) for word in words), str(told.value)


def test_experts_of_a_graph() -> None:
    assert set(experts_of(load_model("moe?layers=1,experts=6,train=1")).values()) == {6}
    assert experts_of(load_model("gpt?layers=1,train=1")) == {}


STEP = "moe?layers=2,hidden=16,heads=4,kv_heads=2,ffn=12,experts=4,top_k=2,vocab=24,seq=8"


def step_of(on: str, plan: str, batch: int = 8) -> StepResult:
    return step(Asked(STEP, on, plan, batch))


def test_a_step_without_values_by_every_plan_but_experts() -> None:
    """Decoders that are not plain are their graphs: two replicas do what one does with half of the batch."""
    found = {plan: step_of("4x-edu", plan) for plan in ("dp=4", "dp=2,tp=2", "dp=2,pp=2,microbatches=2")}
    for each in found.values():
        assert each.time_fs == sum(each.parts_fs.values()) > 0 and each.unit == "sequences"
    alone = step_of("edu-4x4", "", 2)
    assert found["dp=4"].time_s > alone.time_s > 0.5 * found["dp=4"].time_s
    with pytest.raises(UsageError, match=r"ep=2 in a step without values.*accelsim train"):
        step_of("4x-edu", "dp=2,ep=2")


def test_operations_are_those_of_the_chosen_experts() -> None:
    """Six per weight that a token meets, and attention."""
    work = work_of(STEP)
    decoder = transformer_of(STEP)
    assert decoder is not None and work.unit == "sequences"
    weights = 6 * 8 * (decoder.counts.products + 24 * 16)
    assert weights < work.sample_flops() < 1.2 * weights + 6 * 2 * 2 * 8 * 8 * 16
