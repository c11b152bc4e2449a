"""The pieces that a pipeline is cut into: who makes what, what is kept, what runs again."""

from __future__ import annotations

import pytest

from accelsim.cluster.plan.objective import Objective, balanced, blocks_of, objective
from accelsim.cluster.plan.plan import RECOMPUTE, Recompute
from accelsim.cluster.plan.shard import shard_objective
from accelsim.cluster.plan.stages import Stage, cut
from accelsim.errors import ModelError
from accelsim.workload.graph import Graph
from accelsim.workload.sources.load import load_model
from accelsim.workload.zoo.build import Builder
from tests.helpers.cluster_training import model

GPT = "gpt?layers=4,hidden=16,heads=4,kv_heads=4,ffn=32,vocab=24,seq=4,train=1"


def graphs(stage: Stage) -> list[Graph]:
    return [stage.forward, stage.backward, stage.weight]


@pytest.fixture(scope="module")
def gpt() -> Objective:
    return objective(load_model(GPT, batch=2), 2, 4)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("recompute", RECOMPUTE)
def test_every_piece_can_run(gpt: Objective, recompute: Recompute, split: bool) -> None:
    """What it reads is data, a weight, kept, or made by another piece; every node is in one piece, or runs again."""
    stages = cut(gpt, recompute=recompute, split=split)
    data = {*gpt.model.inputs, "labels"}
    nodes = [node.name for stage in stages for graph in graphs(stage) for node in graph.nodes]
    again = [name for stage in stages for name in stage.again]
    assert sorted([*(node.name for node in gpt.graph.nodes), *again]) == sorted(nodes)
    for stage in stages:
        mine = {*stage.weights, *data}
        assert set(stage.forward.inputs) <= mine | set(stage.receives)
        assert set(stage.backward.inputs) <= mine | set(stage.stash) | set(stage.gradients)
        assert set(stage.weight.inputs) <= mine | set(stage.stash) | set(stage.held) | set(stage.gradients)
        assert set(stage.stash) <= {*stage.forward.outputs, *stage.receives} and set(stage.held) <= set(
            stage.backward.outputs
        )
        for name, maker in {**stage.receives, **stage.gradients}.items():
            assert any(name in graph.outputs for graph in graphs(stages[maker]))
        assert all(maker < stage.index for maker in stage.receives.values())
        assert all(maker > stage.index for maker in stage.gradients.values())
        assert bool(stage.weight.nodes) == split


def test_one_activation_crosses_between_layers(gpt: Objective) -> None:
    stages = cut(gpt)
    assert [list(stage.receives) for stage in stages] == [[], ["l0.sum2"], ["l1.sum2"], ["l2.sum2"]]
    assert [list(stage.gradients.values()) for stage in stages] == [[1], [2], [3], []]


def test_recomputation_keeps_less(gpt: Objective) -> None:
    kept = {mode: cut(gpt, recompute=mode)[1] for mode in RECOMPUTE}
    assert kept["none"].stash_B > kept["selective"].stash_B > kept["full"].stash_B == 2 * 4 * 16 * 4
    assert kept["full"].stash == ("l0.sum2",)  # what it received
    scores = [name for name in kept["none"].stash if "softmax" in name or "scores" in name or "masked" in name]
    assert scores and not set(scores) & set(kept["selective"].stash)
    assert len(kept["none"].again) < len(kept["selective"].again) < len(kept["full"].again)


def test_gradients_of_weights_wait(gpt: Objective) -> None:
    """The first stage has no gradient to pass on, but its activations' gradients are B as on all others."""
    stages = cut(gpt, split=True)
    for stage in stages:
        assert {"MatMul"} <= {node.op for node in stage.weight.nodes} and {"MatMul"} <= {
            node.op for node in stage.backward.nodes
        }
        made = {name for node in stage.weight.nodes for name in node.outputs}
        assert {stage.grads[name] for name in stage.weights if name.endswith(".q.weight")} <= made


def test_a_tied_embedding_has_a_copy_on_the_last_stage(gpt: Objective) -> None:
    assert gpt.shared == {"embedding.weight": ("embedding.weight", "embedding.weight@3")}
    stages = cut(gpt)
    assert "embedding.weight" in stages[0].weights and "embedding.weight@3" in stages[3].weights
    assert objective(load_model(GPT, batch=2)).shared == {}


def test_a_residual_passes_a_stage() -> None:
    b = Builder("net")
    x = b.input("x", (2, 4))
    first = b.dense(x, 4, "a")
    second = b.dense(first, 4, "b")
    third = b.op("Add", [b.dense(second, 4, "c"), first], "sum")
    made = objective(b.finish(b.dense(third, 3, "d")), 1, 4)
    stages = cut(made)
    assert stages[2].receives == {"b": 1, "a": 0}
    # the gradient of ``a`` is added up on its way back: each stage adds its own term to what comes
    assert [len(stage.gradients) for stage in stages] == [1, 2, 1, 0]
    assert set(stages[0].gradients.values()) == {1}


def test_blocks() -> None:
    made = objective(load_model("digits-cnn", batch=2))
    assert made.block["conv1"] == made.block["relu1"] == 0 and made.block["fc"] == made.block["loss"] == 2
    graph = load_model(GPT, batch=1)
    blocks = blocks_of(graph, {tensor.name for tensor in graph.constants()})
    assert set(blocks.values()) == {0, 1, 2, 3}
    assert blocks["embedding"] == 0 and blocks["embedding.turned"] == blocks["logits"] == 3


def test_balance() -> None:
    assert balanced([4, 1, 1, 1, 1], 2) == [0, 1, 1, 1, 1]
    assert balanced([1, 1, 1], 3) == [0, 1, 2]


def test_more_stages_than_layers() -> None:
    with pytest.raises(ModelError, match="4 layers on 5 pipeline stages; expected at most 4"):
        objective(model("mlp", 2), 1, 5)


def test_a_cut_of_ones_own() -> None:
    made = objective(model("mlp", 2), 1, 2, cut=lambda costs, stages: [0, 0, 0, 1])
    assert made.place == (0, 0, 0, 1) and made.stages == 2


@pytest.mark.parametrize(("tp", "sp"), [(1, False), (2, False), (4, False), (2, True), (4, True)])
def test_what_a_layer_keeps_is_the_closed_form(tp: int, sp: bool) -> None:
    """Korthikanti et al., table 2, bytes in 16 bits: sbh (10 + 24/t + 5as/ht), all divided by t with sequence parallel,
    without 5as/h for selective recomputation, 2sbh for full. Of these 2sbh are masks of dropout, and of 5as/h three
    fifths its mask and its result, which a network without dropout does not have."""
    s, b, h, a = 8, 2, 32, 4
    name = f"gpt?seq={s},train=1,vocab=64,layers=3,hidden={h},heads={a},kv_heads={a},ffn={4 * h}"
    made = objective(load_model(name, batch=b), 1, 3)
    sharded = shard_objective(made, tp, sp)
    for mode in RECOMPUTE:
        stage = cut(made, sharded.graph, sharded.block, mode)[1]
        kept_B = sum(2 * sharded.graph.tensors[kept].elements for kept in stage.stash)
        scores = 2 * a * s * s * b // tp if mode == "none" else 0
        layer = (34 - 2) * s * b * h // tp if sp else s * b * h * (10 - 2) + 24 * s * b * h // tp
        whole = 2 * s * b * h // (tp if sp else 1)
        assert kept_B == (whole if mode == "full" else layer + scores)
