"""Sharded graphs compute what the whole graph does, with the collectives of Megatron."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from accelsim.cluster.plan.objective import objective
from accelsim.cluster.plan.shard import shard_objective, without_collectives
from accelsim.cluster.plan.spmd import SPMD
from accelsim.cluster.values.lockstep import Lockstep
from accelsim.types import Array
from accelsim.workload.execute import run
from accelsim.workload.graph import Graph
from accelsim.workload.ops import get
from accelsim.workload.sources.load import load_model
from tests.helpers.sharding import shard

SMALL = "hidden=16,heads=4,ffn=24,vocab=24"
NETWORKS = (
    f"llama?{SMALL},seq=4", f"llama?{SMALL},seq=1,past=4", f"gpt?{SMALL},seq=4", f"gpt?{SMALL},seq=1,past=4",
    f"moe?{SMALL},seq=4", "bert?layers=1,hidden=16,heads=4,seq=4", "gpt-prefill?hidden=16,heads=4,seq=4",
    "gpt-decode?hidden=16,heads=4,seq=4", "cnn?resolution=8", "digits-mlp?hidden=16", "mlp?hidden=10,inputs=9",
    "lstm?inputs=4,hidden=4,steps=2", "mobilenet?resolution=32,width=13",
)  # fmt: skip


def feeds_of(graph: Graph) -> dict[str, Array]:
    rng = np.random.default_rng(1)
    tensors = [graph.tensors[name] for name in graph.inputs]
    return {
        item.name: rng.integers(0, 9, item.shape)
        if item.dtype == "int64"
        else rng.standard_normal(item.shape).astype(np.float32)
        for item in tensors
    }


@pytest.mark.parametrize("sp", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_two_ranks_compute_what_one_does(name: str, sp: bool) -> None:
    graph = load_model(name, batch=2, weights="random:1")
    sharded, feeds = shard(graph, 2, sp), feeds_of(graph)
    given = {**feeds, **{item.name: item.value() for item in graph.constants() if item.name in sharded.split}}
    parts = [{key: sharded.part(key, value, rank) for key, value in given.items()} for rank in range(2)]
    want, got = run(graph, feeds), Lockstep(sharded.graph).run(parts)
    for output, value in want.items():
        np.testing.assert_allclose(sharded.whole(output, [rank[output] for rank in got]), value, rtol=1e-4, atol=1e-5)


def kinds(name: str, tp: int, sp: bool) -> Counter[str]:
    return Counter(item.kind for item in shard(load_model(name), tp, sp).collectives)


def test_two_sums_a_layer_forward() -> None:
    """Shoeybi et al., section 3: one all-reduce behind attention, one behind the feed-forward part."""
    for layers in (1, 3):
        found = kinds(f"llama?{SMALL},seq=4,layers={layers}", 2, False)
        assert found == {"all_reduce": 2 * layers + 1, "all_gather": 1}  # + embedding, + logits for every rank


def test_sequence_parallel_sends_the_same_in_two_halves() -> None:
    """Korthikanti et al., section 4.2.2: an all-reduce is a reduce-scatter and an all-gather."""
    found = kinds(f"llama?{SMALL},seq=4,layers=3", 2, True)
    assert found == {"reduce_scatter": 2 * 3 + 1, "all_gather": 2 * 3 + 1 + 1}


def test_bytes_of_a_layer_are_those_of_megatron() -> None:
    """Each sum is of batch x tokens x hidden elements (facts of Calculon: 2 x 2 x 2048 x 12288 bytes in fp16)."""
    sharded = shard(load_model("gpt-prefill?hidden=16,heads=4,seq=4", batch=3), 4)
    assert [item.nbytes for item in sharded.collectives] == [3 * 4 * 16 * 4] * 2
    assert all(item.group == "tp" for item in sharded.collectives)


def test_a_training_adds_two_sums_a_layer_backward() -> None:
    found = {}
    for layers in (1, 2):
        model = load_model(f"gpt?{SMALL},seq=4,layers={layers},train=1", batch=2)
        found[layers] = Counter(item.kind for item in shard_objective(objective(model), 2).collectives)
    assert found[2] - found[1] == {"all_reduce": 4}


def test_weights_are_divided() -> None:
    graph = load_model(f"gpt?{SMALL},seq=4")
    sharded = shard(graph, 4)
    for name, axis in (("l0.q.weight", 1), ("l0.out.weight", 0), ("l1.ff1.weight", 1), ("l1.ff2.weight", 0),
                       ("embedding.weight", 0)):  # fmt: skip
        assert sharded.split[name] == axis
        assert sharded.graph.tensors[name].elements * 4 == graph.tensors[name].elements
        assert sharded.graph.tensors[name].value().shape == sharded.graph.tensors[name].shape
    assert "l0.norm1.scale" not in sharded.split and "positions.weight" not in sharded.split


def test_what_cannot_be_divided_is_told() -> None:
    sharded = shard(load_model("mlp?hidden=10,inputs=9,layers=2"), 4)
    assert sharded.notes == [
        "fc1.weight [10, 9] lies whole on every rank: 4 do not divide what could be split",
        "fc2.weight [10, 10] lies whole on every rank: 4 do not divide what could be split",
    ]
    assert not sharded.collectives


@pytest.mark.parametrize("sp", [False, True])
def test_the_work_of_one_device_needs_no_collective(sp: bool) -> None:
    graph = load_model(f"gpt?{SMALL},seq=4", batch=2)
    alone = without_collectives(shard(graph, 2, sp))
    assert not [node for node in alone.nodes if node.op in SPMD]

    def macs(given: Graph) -> int:
        return sum(get(node.op).work(node, given.ins(node), given.outs(node)).macs
                   for node in given.nodes if node.op == "MatMul")  # fmt: skip

    assert macs(alone) * 2 == macs(graph)
    for node in alone.nodes:
        ins = [alone.tensors[name] if name else None for name in node.inputs]
        shapes = [tuple(shape) for shape, _ in get(node.op).infer(node, ins)]
        assert shapes == [alone.tensors[name].shape for name in node.outputs]
