"""Gradients of windows: convolutions and pools, any geometry."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.workload.execute import run
from accelsim.workload.gradient import backward
from accelsim.workload.graph import Array, Graph, Node, Tensor
from accelsim.workload.ops import REGISTRY
from tests.helpers.gradient_cases import append
from tests.helpers.torch_oracle import torch_says

Geometry = dict[str, Any]


@st.composite
def geometries(draw: Any) -> Geometry:
    rank = draw(st.integers(1, 2))

    def each(low: int, high: int, count: int = rank) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=count, max_size=count))

    kernel, dilations, pads, strides = each(1, 3), each(1, 3), each(0, 3, 2 * rank), each(1, 4)
    least = [
        max(1, d * (k - 1) + 1 - pads[i] - pads[i + rank])
        for i, (k, d) in enumerate(zip(kernel, dilations, strict=True))
    ]
    size = [low + extra for low, extra in zip(least, each(0, 7), strict=True)]
    return {"kernel_shape": kernel, "strides": strides, "dilations": dilations, "pads": pads, "size": size}


def tensors_of(graph: Graph, values: dict[str, Array]) -> None:
    for name, value in values.items():
        graph.tensors[name] = Tensor(name, value.shape, "fp64", data=value)


def conv(x: Array, w: Array, attrs: dict[str, Any]) -> tuple[Array, Graph]:
    graph = Graph("conv", [], {}, [], ["y"], 20)
    tensors_of(graph, {"x": x, "w": w, "b": np.zeros(w.shape[0])})
    append(graph, "conv", "Conv", ["x", "w", "b"], ["y"], **attrs)
    return run(graph, {})["y"], graph


def conv_gradients(x: Array, w: Array, seed: Array, attrs: dict[str, Any]) -> tuple[dict[str, Array], Graph]:
    graph = conv(x, w, attrs)[1]
    tensors_of(graph, {"g": seed})
    found = backward(graph, "y", ["x", "w", "b"], seed="g")
    graph.outputs = list(found.values())
    values = run(graph, {})
    return {name: values[grad] for name, grad in found.items()}, graph


@settings(max_examples=150)
@given(geometries(), st.integers(1, 3), st.integers(1, 2), st.integers(1, 2), st.integers(1, 2), st.integers(0, 99))
def test_gradients_of_a_conv_are_its_adjoints(
    geometry: Geometry, group: int, depth: int, out: int, images: int, seed: int
) -> None:
    """<dY, conv(X', W)> = <dX, X'> and <dY, conv(X, W')> = <dW, W'> for all X', W': a conv is linear in each."""
    attrs = {name: value for name, value in geometry.items() if name != "size"} | {"group": group}
    rng = np.random.default_rng(seed)
    x, other_x = rng.normal(size=(2, images, group * depth, *geometry["size"]))
    w, other_w = rng.normal(size=(2, group * out, depth, *geometry["kernel_shape"]))
    y = conv(x, w, attrs)[0]
    dy = rng.normal(size=y.shape)
    grads, graph = conv_gradients(x, w, dy, attrs)
    np.testing.assert_allclose(
        np.sum(grads["x"] * other_x), np.sum(dy * conv(other_x, w, attrs)[0]), rtol=1e-9, atol=1e-9
    )
    np.testing.assert_allclose(
        np.sum(grads["w"] * other_w), np.sum(dy * conv(x, other_w, attrs)[0]), rtol=1e-9, atol=1e-9
    )
    moves = {"Conv", "Transpose", "Reshape", "Pad", "Slice", "ReduceSum", "Gather", "Concat"}
    assert {node.op for node in graph.nodes} <= moves
    assert max(attrs["strides"]) > 1 or sum(node.op == "Conv" for node in graph.nodes) == 3


TORCH = [
    ((2, 3, 9, 8), (4, 3, 3, 3), {"stride": 2, "padding": 1}),
    ((2, 4, 9, 8), (6, 2, 3, 2), {"stride": (3, 2), "padding": (0, 2), "dilation": (2, 1), "groups": 2}),
    ((1, 6, 12, 12), (6, 1, 5, 5), {"stride": 4, "padding": 2, "groups": 6}),
    ((2, 3, 7, 7), (5, 3, 1, 1), {"stride": 2}),
    ((2, 4, 17), (6, 2, 5), {"stride": 3, "padding": 4, "dilation": 2, "groups": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("x_shape", "w_shape", "options"), TORCH)
def test_conv_as_pytorch(x_shape: tuple[int, ...], w_shape: tuple[int, ...], options: dict[str, Any]) -> None:
    rank, rng = len(x_shape) - 2, np.random.default_rng(0)

    def each(name: str, default: int) -> list[int]:
        value = options.get(name, default)
        return [value] * rank if isinstance(value, int) else list(value)

    attrs = {"kernel_shape": list(w_shape[2:]), "strides": each("stride", 1), "dilations": each("dilation", 1),
             "pads": 2 * each("padding", 0), "group": options.get("groups", 1)}  # fmt: skip
    x, w = rng.normal(size=x_shape), rng.normal(size=w_shape)
    dy = rng.normal(size=conv(x, w, attrs)[0].shape)

    def theirs(torch: Any) -> list[Any]:
        leaves = [torch.tensor(each, requires_grad=True) for each in (x, w, np.zeros(w_shape[0]))]
        getattr(torch.nn.functional, f"conv{rank}d")(*leaves, **options).backward(torch.tensor(dy))
        return [leaf.grad for leaf in leaves]

    grads = conv_gradients(x, w, dy, attrs)[0]
    for name, want in zip("xwb", torch_says(f"conv {x_shape} {w_shape}", [x, w, dy], theirs), strict=True):
        np.testing.assert_allclose(grads[name], want, rtol=1e-10, atol=1e-10)


@settings(max_examples=150)
@given(geometries(), st.booleans(), st.booleans(), st.integers(0, 99))
def test_gradient_of_an_average_pool_is_its_adjoint(geometry: Geometry, ceil: bool, include: bool, seed: int) -> None:
    rng, size = np.random.default_rng(seed), geometry.pop("size")
    attrs = {**geometry, "ceil_mode": int(ceil), "count_include_pad": int(include)}
    x, other = rng.normal(size=(2, 1, 2, *size))

    def pool(value: Array) -> Graph:
        graph = Graph("pool", [], {}, [], ["y"], 20)
        tensors_of(graph, {"x": value})
        append(graph, "pool", "AveragePool", ["x"], ["y"], **attrs)
        return graph

    graph = pool(x)
    dy = rng.normal(size=graph.tensors["y"].shape)
    tensors_of(graph, {"g": dy})
    graph.outputs = [backward(graph, "y", ["x"], seed="g")["x"]]
    dx = next(iter(run(graph, {}).values()))
    np.testing.assert_allclose(np.sum(dx * other), np.sum(dy * run(pool(other), {})["y"]), rtol=1e-9, atol=1e-9)


def test_each_gradient_takes_the_products_of_the_forward_pass() -> None:
    """The window that no element of dY reaches is not computed and cut away, where the padding allows to leave it out."""
    attrs = {"kernel_shape": [3, 3], "strides": [2, 2], "dilations": [1, 1], "pads": [1, 1, 1, 1], "group": 1}
    x, w = np.zeros((2, 3, 8, 8)), np.zeros((4, 3, 3, 3))
    graph = conv_gradients(x, w, np.zeros((2, 4, 4, 4)), attrs)[1]
    forward, *backwards = [node for node in graph.nodes if node.op == "Conv"]

    def macs(node: Node) -> int:
        ins = [graph.tensors[name] for name in node.inputs]
        return REGISTRY["Conv"].work(node, ins, [graph.tensors[name] for name in node.outputs]).macs

    *dx, dw = [macs(node) for node in backwards]
    assert [sum(dx), dw] == [macs(forward)] * 2
    assert len(dx) == 4  # one for each phase of the stride
