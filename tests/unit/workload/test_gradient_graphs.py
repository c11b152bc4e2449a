"""Gradients of whole graphs: models, names, sums of contributions, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from accelsim.errors import ModelError
from accelsim.workload.execute import run
from accelsim.workload.gradient import backward
from accelsim.workload.graph import Array, Graph, Tensor
from accelsim.workload.ops import get
from accelsim.workload.sources.load import list_models, load_model
from tests.helpers.batch_statistics import batch_statistics
from tests.helpers.gradient_cases import append, slope
from tests.helpers.gradient_op_cases import normal
from tests.helpers.torch_oracle import torch_says

SMALL = {
    "gemm": "M=6,N=5,K=4", "mlp": "inputs=12,hidden=8", "mlp0": "hidden=16", "cnn": "resolution=8,channels=2",
    "mobilenet": "width=10,resolution=32,classes=5", "lstm": "inputs=5,hidden=4,steps=3,layers=2",
    "bert": "layers=2,hidden=16,heads=2,seq=5", "gpt-prefill": "layers=2,hidden=16,heads=2,seq=5",
    "gpt-decode": "layers=2,hidden=16,heads=2,seq=5", "llama": "seq=1,past=4", "gpt3": "layers=1,seq=5",
    **dict.fromkeys(("bert-base", "bert-large"), "layers=1,hidden=24,heads=2,vocab=20,seq=4"),
    "vit-b16": "layers=2,hidden=24,heads=3,patch=4,resolution=12,classes=5",
    **dict.fromkeys(("llama2-7b", "llama2-70b", "llama3-8b"), "layers=1,seq=5"),
}  # fmt: skip
"""Parameters that make a model of the zoo small."""


def learnt(graph: Graph) -> list[str]:
    return [tensor.name for tensor in graph.constants() if tensor.dtype == "fp32" and tensor.elements > 1]


PARAMETERS = {row.name: row.parameters for row in list_models()}


@pytest.mark.parametrize("name", [row.name for row in list_models()])
def test_every_model_of_the_zoo_has_a_gradient(name: str) -> None:
    small = SMALL.get(name) or ("layers=6,seq=5" if "kv_heads" in PARAMETERS[name] else "")
    graph = load_model(f"{name}?{small}" if small else name)
    out, before = graph.tensors[graph.outputs[0]], len(graph.nodes)
    graph.tensors["seed"] = Tensor("seed", out.shape, out.dtype)
    routed = [name for name in learnt(graph) if not name.endswith(".correction")]  # moves the choice alone
    wrt = [*routed, *(name for name in graph.inputs if graph.tensors[name].dtype == "fp32")]
    found = backward(graph, out.name, wrt, seed="seed")
    assert list(found) == wrt
    made = set(graph.inputs) | {"seed"} | {tensor.name for tensor in graph.constants()}
    for index, node in enumerate(graph.nodes):
        assert made.issuperset(name for name in node.inputs if name)
        made.update(node.outputs)
        if index >= before:
            shapes = get(node.op).infer(node, [graph.tensors.get(given) for given in node.inputs])
            assert shapes == [(graph.tensors[item].shape, graph.tensors[item].dtype) for item in node.outputs]
    for tensor, grad in found.items():
        assert graph.tensors[grad].shape == graph.tensors[tensor].shape
        assert grad in made and not graph.tensors[grad].is_constant


def doubled(graph: Graph) -> tuple[Graph, dict[str, Array]]:
    """The graph in float64 with its weights as inputs, its first output weighed and summed, and random feeds."""
    weights, rng = learnt(graph), np.random.default_rng(5)
    feeds = {name: rng.normal(size=graph.tensors[name].shape) for name in graph.inputs}
    for tensor in graph.tensors.values():
        tensor.dtype = "fp64" if tensor.dtype == "fp32" else tensor.dtype
        if tensor.name in weights:
            feeds[tensor.name] = tensor.value().astype(np.float64)
        elif tensor.is_constant:
            tensor.data = tensor.value().astype(np.float64)
    for name in weights:
        graph.tensors[name].data = graph.tensors[name].source = None
    graph.inputs += weights
    shape = graph.tensors[graph.outputs[0]].shape
    graph.tensors["w"] = Tensor("w", shape, "fp64", data=rng.normal(size=shape))
    append(graph, "weigh", "Mul", [graph.outputs[0], "w"], ["weighed"])
    append(graph, "total", "ReduceSum", ["weighed"], ["loss"], axes=list(range(len(shape))), keepdims=0)
    graph.outputs = ["loss"]
    return graph, feeds


@pytest.mark.parametrize("name", ["cnn", "mlp", "lstm", "bert", "gpt-prefill", "gpt-decode", "mobilenet"])
def test_a_model_as_finite_differences(name: str) -> None:
    batch = 3 if name == "mobilenet" else None
    graph = load_model(f"{name}?{SMALL[name]}", batch=batch)
    ops = {node.op for node in graph.nodes}
    check_model(graph, 1e-4 if "Gelu" in ops else 1e-6, reach=1e-4 if "Clip" in ops else 0.02)


def test_a_network_with_batch_statistics_as_finite_differences() -> None:
    graph, found = batch_statistics(load_model(f"mobilenet?{SMALL['mobilenet']}", batch=3))
    assert len(found) == 27 and "BatchNormalization" not in {node.op for node in graph.nodes}
    graph.nodes = graph.nodes[: next(i for i, node in enumerate(graph.nodes) if node.name == "dw2.bn") + 1]
    graph.outputs = [graph.nodes[-1].outputs[0]]
    used = {name for node in graph.nodes for name in (*node.inputs, *node.outputs)}
    graph.tensors = {name: tensor for name, tensor in graph.tensors.items() if name in used}
    check_model(graph, 1e-5, reach=1e-4)


def check_model(graph: Graph, tolerance: float, reach: float) -> None:
    """Along random directions of all inputs at once, and of a dozen alone; steps small enough to cross no kink."""
    graph, feeds = doubled(graph)
    forward = graph.copy()
    names = list(graph.inputs)
    found = backward(graph, "loss", names)
    graph.outputs = list(dict.fromkeys(found.values()))
    values = run(graph, feeds)
    rng = np.random.default_rng(1)
    directions = {name: reach * rng.uniform(-1, 1, size=feeds[name].shape) for name in names}
    for some in (names, *([name] for name in names[:: max(1, len(names) // 12)])):
        want = slope(forward, feeds, {name: directions[name] for name in some})
        got = sum(float(np.sum(values[found[name]] * directions[name])) for name in some)
        assert abs(got - want) <= tolerance * max(0.05 * reach, abs(want)), (some, got, want)


def tanh_chain() -> Graph:
    graph = Graph("m", [], {"x": Tensor("x", (3,), "fp64"), "i": Tensor("i", (2,), "int64")}, ["x"], [], 20)
    append(graph, "a", "Tanh", ["x"], ["a"])
    append(graph, "b", "Mul", ["a", "a"], ["b"])
    append(graph, "c", "Add", ["b", "x"], ["c"])
    append(graph, "unread", "Exp", ["x"], ["unread"])
    append(graph, "sum", "ReduceSum", ["c"], ["loss"], axes=[0], keepdims=0)
    return graph


def test_contributions_are_added_and_names_follow_the_tensors() -> None:
    graph = tanh_chain()
    assert backward(graph, "loss", ["x", "a"]) == {"x": "x.grad", "a": "a.grad"}
    assert "Exp" not in {node.op for node in graph.nodes[5:]}
    assert all(name == tensor.name for name, tensor in graph.tensors.items())
    names = [node.name for node in graph.nodes]
    assert len(set(names)) == len(names)
    graph.outputs = ["x.grad", "a.grad"]
    x = normal(3)
    values = run(graph, {"x": x})
    np.testing.assert_allclose(values["a.grad"], 2 * np.tanh(x))
    np.testing.assert_allclose(values["x.grad"], 2 * np.tanh(x) * (1 - np.tanh(x) ** 2) + 1)


def test_only_what_the_gradients_need_is_appended() -> None:
    graph = tanh_chain()
    backward(graph, "loss", ["c"])
    assert [node.op for node in graph.nodes[5:]] == ["Reshape", "Expand"]
    used = {name for node in graph.nodes for name in (*node.inputs, *node.outputs)}
    assert set(graph.tensors) - used <= {"i"}


def test_the_same_graph_gives_the_same_gradients() -> None:
    first, second = tanh_chain(), tanh_chain()
    backward(first, "loss", ["x"])
    backward(second, "loss", ["x"])
    assert first.nodes == second.nodes and list(first.tensors) == list(second.tensors)


def test_second_derivatives_and_a_taken_name() -> None:
    graph = tanh_chain()
    first = backward(graph, "loss", ["x"])["x"]
    append(graph, "sum2", "ReduceSum", [first], ["loss2"], axes=[0], keepdims=0)
    second = backward(graph, "loss2", ["x"])["x"]
    assert (first, second) == ("x.grad", "x.grad.2")
    graph.outputs = [second]
    x = normal(3)
    t = np.tanh(x)
    np.testing.assert_allclose(run(graph, {"x": x})[second], 2 * (1 - t**2) ** 2 - 4 * t**2 * (1 - t**2))


def test_what_does_not_reach_the_loss_has_gradient_zero() -> None:
    graph = tanh_chain()
    found = backward(graph, "loss", ["unread", "x"])
    np.testing.assert_array_equal(graph.tensors[found["unread"]].value(), np.zeros(3))


def test_the_gradient_of_the_loss_itself_is_one() -> None:
    graph = tanh_chain()
    grad = graph.tensors[backward(graph, "loss", ["loss"])["loss"]]
    assert grad.value() == 1.0 and grad.dtype == "fp64"


def test_all_wrong_names_at_once() -> None:
    with pytest.raises(ModelError) as error:
        backward(tanh_chain(), "lost", ["X", "x", "i"])
    assert [problem.nearest for problem in error.value.problems] == ["x", "loss", ""]
    assert "int64" in error.value.problems[2].what


def test_a_loss_of_several_elements_needs_a_seed_of_its_shape() -> None:
    graph = tanh_chain()
    with pytest.raises(ModelError, match="one element, or a seed gradient"):
        backward(graph, "c", ["x"])
    with pytest.raises(ModelError, match=r"seed 'loss' has shape \[\]"):
        backward(graph, "c", ["x"], seed="loss")
    assert len(graph.nodes) == 5


def test_a_fused_graph_is_refused() -> None:
    graph = tanh_chain()
    graph.nodes[0].epilogue.append(graph.nodes[1])
    with pytest.raises(ModelError, match="before its compilation"):
        backward(graph, "loss", ["x"])


def test_batch_statistics_as_pytorch() -> None:
    graph = Graph("bn", [], {}, [], ["y"], 20)
    rng = np.random.default_rng(0)
    x, scale, bias, dy = (normal(*shape, rng=rng) for shape in ((4, 3, 5, 2), (3,), (3,), (4, 3, 5, 2)))
    values = {"x": x, "scale": scale, "bias": bias, "mean": np.zeros(3), "var": np.ones(3), "g": dy}
    for name, value in values.items():
        graph.tensors[name] = Tensor(name, value.shape, "fp64", data=value)
    append(graph, "bn", "BatchNormalization", ["x", "scale", "bias", "mean", "var"], ["y"], epsilon=1e-5)
    trained, (found,) = batch_statistics(graph)
    assert graph.nodes[0].op == "BatchNormalization" and (found.mean, found.variance) == ("mean", "var")
    grads = backward(trained, "y", ["x", "scale", "bias"], seed="g")
    trained.outputs = ["y", found.batch_mean, found.batch_variance, *grads.values()]
    got = run(trained, {})

    def theirs(torch: Any) -> list[Any]:
        given = [torch.tensor(value, requires_grad=True) for value in (x, scale, bias)]
        running = [torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)]
        y = torch.nn.functional.batch_norm(given[0], *running, *given[1:], training=True, momentum=1.0)
        y.backward(torch.tensor(dy))
        return [y, *running, *(each.grad for each in given)]

    y, mean, variance, *wanted = torch_says("batch norm", [x, scale, bias, dy], theirs)
    np.testing.assert_allclose(got["y"], y, rtol=1e-10, atol=1e-12)
    for name, want in zip(grads.values(), wanted, strict=True):
        np.testing.assert_allclose(got[name], want, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(got[found.batch_mean], mean)
    unbiased = got[found.batch_variance] * found.count / (found.count - 1)
    np.testing.assert_allclose(unbiased, variance)


def test_batch_statistics_are_computed_in_the_format_of_the_stored_ones() -> None:
    graph = Graph("bn", [], {"x": Tensor("x", (4, 3), "bf16")}, ["x"], ["y"], 20)
    for name in ("scale", "bias", "mean", "var"):
        graph.tensors[name] = Tensor(name, (3,), data=np.ones(3, np.float32))
    append(graph, "bn", "BatchNormalization", ["x", "scale", "bias", "mean", "var"], ["y"], epsilon=1e-5)
    trained, (found,) = batch_statistics(graph)
    assert trained.tensors[found.batch_variance].dtype == "fp32" and trained.tensors["y"].dtype == "bf16"
    grads = backward(trained, "y", ["x", "scale"], seed="x")
    assert [trained.tensors[name].dtype for name in grads.values()] == ["bf16", "fp32"]
