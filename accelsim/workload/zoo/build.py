"""A graph, node by node, in canonical ops: shapes follow from the op registry."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from accelsim.errors import ModelError
from accelsim.types import Array
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.limits import MOST_NODES, check_memory
from accelsim.workload.ops import base

OPSET = 20
"""Operator set that the graphs of the zoo are written for (the first one with Gelu)."""


class Builder:
    """Collects nodes and tensors; each method returns the name of the tensor that it made."""

    def __init__(self, name: str) -> None:
        self.graph = Graph(name, [], {}, [], [], OPSET)

    def input(self, name: str, shape: Sequence[int], dtype: str = "fp32") -> str:
        """A graph input. ModelError when a size is not positive."""
        if any(size < 1 for size in shape):
            raise ModelError(f"input {name!r} would have shape {list(shape)}", expected="positive sizes")
        self.graph.inputs.append(name)
        return self._add(Tensor(name, tuple(shape), dtype))

    def weight(self, name: str, shape: Sequence[int]) -> str:
        """A learnt parameter; zero until the graph is given seeded values."""
        from accelsim.workload.ops.values import Filled

        return self._add(Tensor(name, tuple(shape), source=Filled(tuple(shape), 0.0, "fp32")))

    def constant(self, name: str, values: Array | float) -> str:
        """Add a float32 constant that is not learnt."""
        array = np.asarray(values, np.float32)
        return self._add(Tensor(name, array.shape, data=array))

    def numbers(self, name: str, first: int, last: int) -> str:
        """The numbers from ``first`` to ``last``, without it: int64 [last - first]. TooLarge for too many."""
        check_memory(f"constant {name!r}", 3 * 8 * (last - first))  # with what checks them as indices
        array = np.arange(first, last)
        return self._add(Tensor(name, array.shape, "int64", data=array))

    def op(self, op: str, inputs: Sequence[str], name: str, **attrs: object) -> str:
        """A node with one output, called ``name`` like its output."""
        return self.ops(op, inputs, [name], name, **attrs)[0]

    def ops(self, op: str, inputs: Sequence[str], outputs: Sequence[str], name: str, **attrs: object) -> list[str]:
        """A node with several outputs. Raises ModelError as ``room``."""
        self.room(1)
        node = Node(name, op, list(inputs), list(outputs), attrs)
        shapes = base.get(op).infer(node, [self.graph.tensors[given] for given in inputs])
        self.graph.nodes.append(node)
        return [self._add(Tensor(out, *shape)) for out, shape in zip(outputs, shapes, strict=True)]

    def room(self, nodes: int) -> None:
        """Raise ModelError when so many nodes more are too many; for before anything as long is made for them."""
        total = len(self.graph.nodes) + nodes
        if total > MOST_NODES:
            what = f"a {self.graph.name} of {total:,} nodes or more"
            raise ModelError(what, expected=f"{MOST_NODES:,} at the most: fewer layers or steps")

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor made before."""
        return self.graph.tensors[name].shape

    def dense(self, x: str, features: int, name: str, relu: bool = False) -> str:
        """Fully connected layer on x [rows, k]: x W^T + b, W [features, k]."""
        weight = self.weight(f"{name}.weight", (features, self.shape(x)[-1]))
        bias = self.weight(f"{name}.bias", (features,))
        y = self.gemm([x, weight, bias], name)
        return self.op("Relu", [y], f"{name}.relu") if relu else y

    def gemm(self, inputs: Sequence[str], name: str) -> str:
        """Product of a matrix with another one transposed, plus a bias."""
        return self.op("Gemm", inputs, name, alpha=1.0, beta=1.0, transA=0, transB=1, a_zero_point=0, b_zero_point=0)

    def hidden_layers(self, x: str, features: int, count: int, activation: str = "Relu") -> str:
        """Fully connected layers fc1, fc2, ... of ``features`` each, with an activation after each."""
        for index in range(1, count + 1):
            y = self.dense(x, features, f"fc{index}")
            x = self.op(activation, [y], f"fc{index}.{activation.lower()}")
        return x

    def lstm_state(self, gate: Callable[[str], str], c: str, name: str, after: str = "") -> tuple[str, str]:
        """Next h and c of an LSTM cell (Hochreiter and Schmidhuber 1997, with forget gate).

        ``gate``: makes the sum in front of gate i, f, o or g. ``after``: end of the names of both.
        """
        i, f, o = (self.op("Sigmoid", [gate(letter)], f"{name}.{letter}.open") for letter in "ifo")
        g = self.op("Tanh", [gate("g")], f"{name}.g.tanh")
        kept, added = self.op("Mul", [f, c], f"{name}.kept"), self.op("Mul", [i, g], f"{name}.added")
        c = self.op("Add", [kept, added], f"{name}.c{after}")
        return self.op("Mul", [o, self.op("Tanh", [c], f"{name}.c.tanh")], f"{name}.h{after}"), c

    def project(self, x: str, features: int, name: str, bias: bool = True) -> str:
        """Linear layer on the last axis of x [..., k]: MatMul with W [k, features], then perhaps a bias."""
        weight = self.weight(f"{name}.weight", (self.shape(x)[-1], features))
        if not bias:
            return self.matmul(x, weight, name)
        row = self.weight(f"{name}.bias", (features,))
        return self.op("Add", [self.matmul(x, weight, f"{name}.product"), row], name)

    def matmul(self, a: str, b: str, name: str) -> str:
        """Multiply two tensors by the rules of MatMul."""
        return self.op("MatMul", [a, b], name, a_zero_point=0, b_zero_point=0)

    def capped(self, x: str, cap: float, name: str) -> str:
        """Soft cap of what is divided by it already: cap tanh(x)."""
        return self.op("Mul", [self.op("Tanh", [x], f"{name}.tanh"), self.constant(f"{name}.cap", cap)], name)

    def conv(self, x: str, filters: int, kernel: int, name: str, **options: int) -> str:
        """Square 2-D convolution on x [n, c, h, w]; options: stride=1, pad=0, group=1, bias=1."""
        group, stride, pad = options.get("group", 1), options.get("stride", 1), options.get("pad", 0)
        weight = self.weight(f"{name}.weight", (filters, self.shape(x)[1] // group, kernel, kernel))
        inputs = [x, weight, *([self.weight(f"{name}.bias", (filters,))] if options.get("bias", 1) else [])]
        window = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4, "dilations": [1, 1]}
        return self.op("Conv", inputs, name, **window, group=group, a_zero_point=0, b_zero_point=0)

    def max_pool(self, x: str, size: int, name: str, stride: int = 0, pad: int = 0) -> str:
        """Max pooling over size x size; the stride is the size where none is given."""
        return self.op("MaxPool", [x], name, kernel_shape=[size] * 2, strides=[stride or size] * 2, pads=[pad] * 4,
                       dilations=[1, 1], ceil_mode=0)  # fmt: skip

    def batch_norm(self, x: str, name: str) -> str:
        """Batch normalisation of inference on x [n, c, ...]."""
        channels = self.shape(x)[1]
        parts = [self.weight(f"{name}.{part}", (channels,)) for part in ("scale", "bias", "mean", "var")]
        return self.op("BatchNormalization", [x, *parts], name, epsilon=1e-5)

    def layer_norm(self, x: str, name: str) -> str:
        """Layer normalisation over the last axis of x."""
        size = self.shape(x)[-1:]
        parts = [self.weight(f"{name}.scale", size), self.weight(f"{name}.bias", size)]
        return self.op("LayerNormalization", [x, *parts], name, axis=len(self.shape(x)) - 1, epsilon=1e-5)

    def appended(self, name: str, past: Sequence[int], new: str, axis: int) -> str:
        """A state ``name``_past of shape ``past`` with rows ``new`` after it along ``axis``: its next value."""
        state = self.input(f"{name}_past", past)
        whole = self.op("Concat", [state, new], f"{name}_cache", axis=axis)
        self.graph.states[state] = whole
        return whole

    def rms_norm(self, x: str, name: str, epsilon: float) -> str:
        """Root mean square normalisation over the last axis of x."""
        scale, axis = self.weight(f"{name}.scale", self.shape(x)[-1:]), len(self.shape(x)) - 1
        return self.op("RMSNormalization", [x, scale], name, axis=axis, epsilon=epsilon)

    def reshaped(self, x: str, shape: Sequence[int], name: str) -> str:
        """Add a Reshape of x, unless it already has that shape; return the name of the result."""
        return x if self.shape(x) == tuple(shape) else self.op("Reshape", [x], name, shape=list(shape))

    def finish(self, *outputs: str) -> Graph:
        """Return the graph with these outputs."""
        self.graph.outputs.extend(outputs)
        return self.graph

    def _add(self, tensor: Tensor) -> str:
        self.graph.tensors[tensor.name] = tensor
        return tensor.name
