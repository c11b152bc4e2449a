"""The check of sharded graphs passes what the pass makes, and finds faults that are planted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from accelsim.cluster.plan.objective import objective
from accelsim.cluster.plan.placing import WHOLE, Place, partial, same_elements, split
from accelsim.cluster.plan.shard import Sharded, shard_objective
from accelsim.cluster.plan.update import update_graph
from accelsim.cluster.plan.verify import verify, verify_sharded, verify_update
from accelsim.errors import ModelError
from accelsim.workload.graph import Graph
from accelsim.workload.sources.load import load_model
from accelsim.workload.training import SGD, Adam
from accelsim.workload.training.precision import PRECISIONS
from tests.helpers.cluster_training import MODELS, model
from tests.helpers.sharding import shard
from tests.unit.cluster.plan.test_shard import NETWORKS


@pytest.mark.parametrize("sp", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_passes(name: str, sp: bool) -> None:
    verify_sharded(shard(load_model(name, batch=2), 2, sp))


@pytest.mark.parametrize("tp", [2, 4])
@pytest.mark.parametrize("name", MODELS)
def test_every_training_passes(name: str, tp: int) -> None:
    sharded = shard_objective(objective(model(name, 2)), tp, sp=True)
    places = verify_sharded(sharded)
    made = objective(model(name, 2))
    assert all(places[weight][0] in places[grad] for weight, grad in made.grads.items())


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
@pytest.mark.parametrize("rule", [SGD(0.1, momentum=0.9), Adam()])
def test_every_update_passes(rule: SGD | Adam, zero: int) -> None:
    for precision in PRECISIONS.values():
        update = update_graph({"a": (3, 5), "b": (7,)}, rule, precision, 4, zero)
        verify_update(update, 4)


def skipping(graph: Graph, name: str) -> None:
    """Every reader of a node's result reads its input instead."""
    node = next(node for node in graph.nodes if node.name == name)
    for other in graph.nodes:
        if other is not node:
            other.inputs = [node.inputs[0] if given == name else given for given in other.inputs]


def first(graph: Graph, op: str) -> str:
    return next(node.name for node in graph.nodes if node.op == op)


def without_a_sum(sharded: Sharded) -> None:
    skipping(sharded.graph, first(sharded.graph, "AllReduce"))


def without_a_gather(sharded: Sharded) -> None:
    sharded.graph.outputs[0] = "logits.own"


def a_wrong_axis(sharded: Sharded) -> None:
    node = next(node for node in sharded.graph.nodes if node.op == "AllGather")
    node.attrs["axis"] = 0


def another_group(sharded: Sharded) -> None:
    next(node for node in sharded.graph.nodes if node.op == "AllReduce").attrs["group"] = "dp"


def a_maximum(sharded: Sharded) -> None:
    next(node for node in sharded.graph.nodes if node.op == "AllReduce").attrs["reduce"] = "max"


def a_shape(sharded: Sharded) -> None:
    tensor = sharded.graph.tensors["l0.ff1.product"]
    tensor.shape = (*tensor.shape[:-1], 2 * tensor.shape[-1])


def a_whole_weight(sharded: Sharded) -> None:
    del sharded.split["l0.ff2.weight"]


FAULTS: dict[str, tuple[Callable[[Sharded], None], str]] = {
    "a sum is missing": (without_a_sum, "as values, which are partial sums"),
    "a gather is missing": (without_a_gather, "output 'logits.own' is split along axis 2; expected whole"),
    "an axis is wrong": (a_wrong_axis, "expected split along axis 0"),
    "a group is wrong": (another_group, "runs in group 'dp'; expected 'tp'"),
    "a reduction is wrong": (a_maximum, "expected partial maxima"),
    "a shape is wrong": (a_shape, "l0.ff1.product: MatMul gives the shapes [[2, 4, 12]]"),
    "a weight lies otherwise": (a_whole_weight, "l0.ff2.product: MatMul cannot be computed"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found(fault: str) -> None:
    plant, message = FAULTS[fault]
    made = shard(load_model("gpt?hidden=16,heads=4,ffn=24,vocab=24,seq=4,layers=1", batch=2), 2)
    sharded = replace(made, graph=made.graph.copy(), split=dict(made.split))
    plant(sharded)
    with pytest.raises(ModelError) as caught:
        verify_sharded(sharded)
    assert message in str(caught.value)


@pytest.mark.parametrize("zero", [0, 1, 3])
def test_gradients_that_were_not_added_up_are_found(zero: int) -> None:
    update = update_graph({"a": (4, 5), "b": (7,)}, Adam(), PRECISIONS["fp32"], 2, zero)
    if zero:
        node = next(node for node in update.graph.nodes if node.op == "ReduceScatter")
        node.op = "Part"
    else:
        skipping(update.graph, "a.total")
    with pytest.raises(ModelError, match="partial sums"):
        verify_update(update, 2)


def test_a_tensor_that_nothing_makes() -> None:
    graph = load_model("mlp")
    graph.nodes = graph.nodes[1:]
    with pytest.raises(ModelError, match="which nothing has made"):
        verify(graph, 2, {})


def test_placements_in_words() -> None:
    told = [str(place) for place in (WHOLE, split(1), partial(), partial("max"))]
    assert told == ["whole", "split along axis 1", "partial sums", "partial maxima"]
    assert split(1) == Place("split", 1)


@pytest.mark.parametrize(
    ("before", "after", "pairs"),
    [
        ((2, 6, 5), (12, 5), [(0, 0), (2, 1)]),
        ((2, 12), (2, 3, 4), [(0, 0), (1, 1)]),
        ((1, 8), (1, 1, 8), [(1, 2)]),
        ((4, 1, 6), (4, 6), [(0, 0), (2, 1)]),
        ((6, 4), (8, 3), [(0, 0)]),
        ((5,), (5, 1), [(0, 0)]),
    ],
)
def test_axes_that_a_reshape_keeps(
    before: tuple[int, ...], after: tuple[int, ...], pairs: list[tuple[int, int]]
) -> None:
    assert list(same_elements(before, after)) == pairs
