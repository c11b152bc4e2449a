"""Cases for the gradient of every op, and how they are checked: finite differences in float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from accelsim.workload.constants import format_of
from accelsim.workload.execute import run
from accelsim.workload.gradient import backward
from accelsim.workload.gradient.context import is_float
from accelsim.workload.graph import Array, Graph, Node, Tensor
from accelsim.workload.ops import base

STEP = 1e-3
"""Distance of the finite differences; five points, so that the error is of the fourth order in it."""


@dataclass(frozen=True)
class Case:
    """One op on inputs; ``fixed`` are the inputs that are not differentiated."""

    op: str
    inputs: Sequence[Array | None]
    attrs: dict[str, Any] = field(default_factory=dict)
    fixed: tuple[int, ...] = ()
    outputs: int = 1
    label: str = ""
    tolerance: float = 1e-6

    def __str__(self) -> str:
        return f"{self.op}-{self.label}" if self.label else self.op


def graph_of(case: Case, dtype: str = "fp64") -> tuple[Graph, dict[str, Array], list[str]]:
    """The op with the loss 'sum of its results times constants', the feeds, and the inputs to differentiate."""
    graph, feeds = Graph(case.op, [], {}, [], [], 20), {}
    names = ["" if value is None else f"x{i}" for i, value in enumerate(case.inputs)]
    for name, value in zip(names, case.inputs, strict=True):
        if value is not None:
            kind = dtype if value.dtype.kind == "f" else format_of(value.dtype)
            graph.tensors[name] = Tensor(name, value.shape, kind)
            graph.inputs.append(name)
            feeds[name] = value
    outs = [f"y{i}" for i in range(case.outputs)]
    append(graph, "op", case.op, names, outs, **case.attrs)
    losses = [_weighed(graph, out) for out in outs if is_float(graph.tensors[out].dtype)]
    loss = losses[0] if len(losses) == 1 else append(graph, "loss", "Sum", losses, ["loss"])[0]
    graph.outputs.append(loss)
    wrt = [n for i, n in enumerate(names) if n and i not in case.fixed and feeds[n].dtype.kind == "f"]
    return graph, feeds, wrt


def append(graph: Graph, name: str, op: str, inputs: list[str], outputs: list[str], **attrs: Any) -> list[str]:
    node = Node(name, op, inputs, outputs, attrs)
    shapes = base.get(op).infer(node, [graph.tensors.get(given) for given in inputs])
    for out, (shape, dtype) in zip(outputs, shapes, strict=True):
        graph.tensors[out] = Tensor(out, tuple(shape), dtype)
    graph.nodes.append(node)
    return outputs


def _weighed(graph: Graph, out: str) -> str:
    shape, dtype = graph.tensors[out].shape, graph.tensors[out].dtype
    weights = np.random.default_rng(3).uniform(0.5, 1.5, size=shape)
    graph.tensors[f"{out}.w"] = Tensor(f"{out}.w", shape, dtype, data=np.asarray(weights))
    append(graph, f"{out}.times", "Mul", [out, f"{out}.w"], [f"{out}.t"])
    axes = list(range(len(shape)))
    return append(graph, f"{out}.sum", "ReduceSum", [f"{out}.t"], [f"{out}.loss"], axes=axes, keepdims=0)[0]


def slope(graph: Graph, feeds: Mapping[str, Array], directions: Mapping[str, Array]) -> float:
    """Derivative of the one output along ``directions`` of some inputs, by five-point differences."""
    total = 0.0
    for factor, weight in ((-2, 1), (-1, -8), (1, 8), (2, -1)):
        moved = {name: feeds[name] + factor * STEP * direction for name, direction in directions.items()}
        total += weight * float(run(graph, {**feeds, **moved})[graph.outputs[0]].reshape(()))
    return total / (12 * STEP)


def check(case: Case) -> None:
    """Gradients of all float inputs against finite differences along two directions each."""
    graph, feeds, wrt = graph_of(case)
    assert wrt
    forward = graph.copy()
    grads = backward(graph, graph.outputs[0], wrt)
    graph.outputs = [grads[name] for name in wrt]
    values = run(graph, feeds)
    for name in wrt:
        grad, tensor = values[grads[name]], graph.tensors[grads[name]]
        assert (tensor.shape, tensor.dtype) == (graph.tensors[name].shape, graph.tensors[name].dtype)
        for seed in range(2):
            direction = np.random.default_rng(seed).uniform(-1, 1, size=grad.shape)
            want, got = slope(forward, feeds, {name: direction}), float(np.sum(grad * direction))
            assert abs(got - want) <= case.tolerance * max(1e-2, abs(want)), (name, got, want)
