"""Mixtures of experts: routing by values, work and bytes of an even routing, the same time for all policies."""

from __future__ import annotations

import numpy as np
import pytest

import accelsim
from accelsim.compiler.numbers.ranges import synthetic
from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.errors import ModelError
from accelsim.machine.check import check
from accelsim.machine.values.gating import of_node
from accelsim.program.work import Transfer
from accelsim.workload.execute import run
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.onnx.reference import compare, reference_outputs
from accelsim.workload.ops import base
from accelsim.workload.ops.experts import spread
from accelsim.workload.sources.load import load_model
from accelsim.workload.sources.weights import parameters

MOE = "moe?layers=1,hidden=32,heads=4,kv_heads=2,ffn=24,vocab=64,experts=4,top_k=2"


@pytest.mark.parametrize(
    ("tokens", "k", "experts"),
    [(1, 2, 8), (4, 2, 8), (11, 2, 8), (512, 2, 8), (3, 2, 4), (1, 1, 1), (7, 1, 100), (16, 8, 128), (9, 4, 4)],
)
def test_a_uniform_routing_uses_the_expected_experts(tokens: int, k: int, experts: int) -> None:
    """Experts without a token are counted in 2,000 draws; the rows of all experts have room for all choices."""
    rng = np.random.default_rng(tokens)
    drawn = np.argsort(rng.random((2000, tokens, experts)), axis=2)[:, :, :k].reshape(2000, -1)
    mean = np.mean([len(np.unique(each)) for each in drawn])
    even = spread(tokens, k, experts)
    assert abs(even.groups - mean) <= 0.6 and even.groups <= experts
    assert tokens * k <= even.groups * even.rows < tokens * k + even.groups


def test_published_parameter_count() -> None:
    """Jiang et al., arXiv 2401.04088: 47 billion parameters; Mistral AI states 46.7 billion."""
    assert parameters(load_model("mixtral-8x7b")) == 46_702_792_704


def test_gates_are_the_softmax_over_the_largest() -> None:
    x = np.array([[1.0, 3.0, 2.0, 3.0], [0.0, -1.0, -2.0, 5.0]], np.float32)
    gates, chosen = base.get("TopKGating").kernel(Node("n", "TopKGating", ["x"], ["g", "i"], {"k": 2}), [x])
    np.testing.assert_array_equal(chosen, [[1, 3], [3, 0]])
    expected = 1 / (1 + np.exp(-5.0))
    np.testing.assert_allclose(gates, [[0.5, 0.5], [expected, 1 - expected]], rtol=1e-6)


@pytest.mark.parametrize(("tokens", "k", "experts"), [(5, 2, 3), (4, 1, 4), (1, 2, 8), (6, 3, 3)])
@pytest.mark.parametrize("each", [False, True])
def test_rows_meet_the_weights_of_their_experts(tokens: int, k: int, experts: int, each: bool) -> None:
    """Against a loop over tokens; and ONNX Runtime on what is exported."""
    rng = np.random.default_rng(tokens)
    even = spread(tokens, k, experts)
    rows = even.groups * even.rows if each else tokens
    x, w = rng.normal(size=(rows, 7)).astype(np.float32), rng.normal(size=(experts, 7, 5)).astype(np.float32)
    chosen = np.stack([rng.permutation(experts)[:k] for _ in range(tokens)]).astype(np.int32)
    node = Node("n", "ExpertMatMul", ["x", "w", "chosen"], ["y"], {})
    (y,) = base.get("ExpertMatMul").kernel(node, [x, w, chosen])
    expected = np.zeros((even.groups * even.rows, 5))
    for token in range(tokens):
        for choice in range(k):
            row = token * k + choice
            expected[row] = x[row if each else token] @ w[chosen[token, choice]]
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
    tensors = {"x": Tensor("x", x.shape), "w": Tensor("w", w.shape, data=w), "y": Tensor("y", y.shape),
               "chosen": Tensor("chosen", chosen.shape, "int32")}  # fmt: skip
    theirs = reference_outputs(Graph("g", [node], tensors, ["x", "chosen"], ["y"], 20), {"x": x, "chosen": chosen})
    np.testing.assert_allclose(y, theirs.values["y"], rtol=1e-5, atol=1e-5)
    x[0, :3] = 0
    nonzero = of_node(node, Graph("g", [node], tensors, [], []), [x, w, chosen])
    used = np.repeat(x, k, axis=0) if rows == tokens and not each else x[: tokens * k]
    assert nonzero == np.count_nonzero(used) * 5


@pytest.mark.parametrize(("past", "seq"), [(0, 5), (4, 1), (3, 4)])
def test_a_mixture_equals_onnxruntime_at_every_tensor(past: int, seq: int) -> None:
    pytest.importorskip("onnxruntime")
    graph = load_model(f"{MOE},past={past},seq={seq}", batch=2)
    feeds = synthetic(graph, 0)
    rows = compare(run(graph, feeds, keep=True), reference_outputs(graph, feeds, every_tensor=True).values)
    assert len(rows) == sum(len(node.writes) for node in graph.nodes)
    assert max(row.relative for row in rows) <= 1e-5


@pytest.mark.parametrize(("chip", "dtype"), [("edu-4x4", "int8"), ("edu-mixed", "fp16"), ("neuroncore-v2", "fp32"),
                                             ("edu-tensor-core", ""), ("tpu-v1", "int8")])  # fmt: skip
@pytest.mark.parametrize(("past", "seq"), [(0, 5), (4, 1)])
def test_policies_agree_and_values_hold(chip: str, dtype: str, past: int, seq: int) -> None:
    from accelsim.explore.against_reference import check_run
    from accelsim.request.job import Request, execute, prepare

    jobs = [
        prepare(Request(f"{MOE},past={past},seq={seq}", chip, dtype=dtype, values=values))
        for values in ("exact", "fast", "off")
    ]
    exact, fast, off = (execute(job, keep=job.values != "off") for job in jobs)
    assert exact.ledger == fast.ledger == off.ledger and exact.slices == fast.slices == off.slices
    assert check_run(exact, jobs[0].graph).holds and check_run(fast, jobs[1].graph).holds
    check(exact, thorough=True)


@pytest.mark.parametrize(("batch", "used"), [(1, 2), (2, 3), (3, 4), (8, 4)])
def test_weights_of_experts_that_are_used_are_read_once(batch: int, used: int) -> None:
    """2 of 4 experts for one token, 3 are expected for two, 3.5 for three."""
    graph = load_model(f"{MOE},past=4,seq=1", batch=batch)
    program = compile(graph, accelsim.load_chip("neuroncore-v2"), Options(values="off"))
    read: dict[str, int] = {}
    for command in program.commands:
        if isinstance(command.work, Transfer) and command.effect.what == "load_b":
            name = command.effect.operands[0][0]
            read[name] = read.get(name, 0) + command.work.nbytes
    assert used == spread(batch, 2, 4).groups
    for name in ("l0.gate.weight", "l0.up.weight", "l0.down.weight"):
        assert read[name] == used * 32 * 24 * 2
    macs = sum(step.macs for step in program.steps if step.node.op == "ExpertMatMul")
    assert macs == 3 * 32 * 24 * spread(batch, 2, 4).rows * used


def test_weights_of_experts_wait_for_the_choice() -> None:
    program = compile(load_model(f"{MOE},past=4,seq=1"), accelsim.load_chip("neuroncore-v2"), Options(values="off"))
    gating = next(step for step in program.steps if step.node.op == "TopKGating")
    chose = [command.id for command in program.commands if program.steps[command.op] is gating][-1]
    loads = [command for command in program.commands if command.effect.what == "load_b"
             and program.steps[command.op].node.op == "ExpertMatMul"]  # fmt: skip
    assert loads and all(chose in [wait.command for wait in command.waits] for command in loads)


def test_more_choices_than_experts_are_refused() -> None:
    with pytest.raises(ModelError, match="not more experts per token"):
        load_model("moe?experts=2,top_k=3")
