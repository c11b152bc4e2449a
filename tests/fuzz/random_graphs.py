"""Random valid graphs of small tensors: chains and branches of every family of ops, products with side operands of all ranks.

Numbers stay moderate (divisors away from zero, roots of positive numbers), so that a difference means something.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from accelsim.workload.graph import Graph
from accelsim.workload.zoo.build import Builder

from .recurrent import recurrent_graph

MOST = 3000
"""Elements of the largest tensor."""

UNARY: dict[str, dict[str, Any]] = {
    "Relu": {}, "LeakyRelu": {"alpha": 0.1}, "Clip": {"min": -0.5, "max": 1.5}, "Sigmoid": {}, "Tanh": {}, "Erf": {},
    "Gelu": {"approximate": "none"}, "Sin": {}, "Cos": {}, "Neg": {}, "Abs": {}, "HardSwish": {}, "Silu": {},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5}, "Mish": {}, "Softplus": {}, "Softsign": {}, "Atan": {}, "Asinh": {},
    "Elu": {"alpha": 1.0}, "Selu": {"alpha": 1.67, "gamma": 1.05}, "Identity": {}, "Dropout": {},
    "Floor": {}, "Ceil": {}, "Round": {}, "Sign": {},
}  # fmt: skip
BINARY = ("Add", "Add", "Sub", "Mul", "Max", "Min", "Sum", "Mean", "PRelu", "Div")
TESTS = ("Less", "Greater", "LessOrEqual", "GreaterOrEqual")
REDUCTIONS = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare")


class RandomGraph:
    """Draws nodes until it has enough; each method takes a tensor and returns a new one, or '' where it cannot."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.b = Builder("random")
        self.made: list[str] = []
        self.count = 0

    def fresh(self, what: str) -> str:
        self.count += 1
        return f"{what}{self.count}"

    def pick(self, values: Any) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def flip(self, share: float = 0.5) -> bool:
        return bool(self.rng.random() < share)

    def constant(self, shape: tuple[int, ...], least: float = 0.0) -> str:
        values = self.rng.standard_normal(shape)
        if least:
            values = (least + np.abs(values)) * np.where(values < 0, -1, 1)
        return self.b.constant(self.fresh("c"), values)

    def weight(self, shape: tuple[int, ...], depth: int) -> str:
        return self.b.constant(self.fresh("w"), self.rng.standard_normal(shape) / max(1, depth) ** 0.5)

    def input(self) -> str:
        rank = self.pick([0, 1, 2, 2, 3, 3, 4, 4, 4, 5]) if self.count else self.pick([1, 2, 2, 3, 3, 4, 4, 4, 5])
        return self.b.input(self.fresh("x"), [self.pick([1, 2, 3, 4, 5, 7]) for _ in range(rank)])

    def op(self, op: str, inputs: list[str], **attrs: Any) -> str:
        return self.b.op(op, inputs, self.fresh(op.lower()), **attrs)

    def shape(self, name: str) -> tuple[int, ...]:
        return self.b.shape(name)

    def build(self) -> Graph:
        """The graph: its last tensor, and perhaps some from within, a constant, are outputs."""
        current = self.input()
        self.made = [current]
        for _ in range(int(self.rng.integers(1, 9))):
            source = self.pick(self.made) if self.flip(0.2) else current
            result = self.pick(FAMILIES)(self, source)
            if result and self.b.graph.tensors[result].elements <= MOST:
                self.made.append(result)
                current = result
        inner = [self.pick(self.made) for _ in range(self.pick([0, 0, 1, 2]))]
        outputs = [name for name in dict.fromkeys([current, *inner]) if name not in self.b.graph.inputs]
        if not outputs:
            outputs = [self.op("Relu", [current])]
        if self.flip(0.04):
            outputs.append(self.constant((2, 3)))
        return self.b.finish(*outputs)

    def side(self, shape: tuple[int, ...], least: float = 0.0) -> str:
        """An operand that broadcasts to ``shape``: any rank, any axes of size 1; a constant, an input or a tensor."""
        same = [name for name in self.made if self.shape(name) == shape]
        if same and not least and self.flip(0.3):
            return str(self.pick(same))
        first = int(self.rng.integers(len(shape) + 1))
        drawn = tuple(1 if self.flip(0.3) else extent for extent in shape[first:])
        if least or self.flip(0.6):
            return self.constant(drawn, least)
        return self.b.input(self.fresh("x"), drawn)

    def unary(self, x: str) -> str:
        op = self.pick(list(UNARY))
        return self.op(op, [x], **UNARY[op])

    def binary(self, x: str) -> str:
        op = self.pick(BINARY)
        other = self.side(self.shape(x), 0.5 if op == "Div" else 0.0)
        swapped = op not in ("PRelu", "Div") and self.flip()
        return self.op(op, [other, x] if swapped else [x, other])

    def choice(self, x: str) -> str:
        """Where(x < side, x, side) or flags as numbers."""
        flags = self.op(self.pick(TESTS), [x, self.side(self.shape(x))])
        if self.flip(0.3):
            return self.op("Cast", [flags], to="fp32")
        return self.op("Where", [flags, *self.rng.permutation([x, self.side(self.shape(x))]).tolist()])

    def cast(self, x: str) -> str:
        return self.op("Cast", [self.op("Cast", [x], to=self.pick(["fp16", "bf16", "int32", "int64"]))], to="fp32")

    def matmul(self, x: str) -> str:
        shape = self.shape(x)
        if not shape:
            return ""
        k, n = shape[-1], self.pick([1, 2, 5, 9])
        kind = self.pick(["matrix", "matrix", "vector", "batch", "activations", "left"])
        if kind == "vector":
            return self._product(x, self.weight((k,), k))
        if kind == "batch":
            return self._product(x, self.weight((*shape[:-2], k, n), k))
        if kind == "activations" and len(shape) > 1:
            perm = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
            return self._product(x, self.op("Transpose", [x], perm=perm))
        if kind == "left" and len(shape) > 1:
            return self._product(self.weight((n, shape[-2]), shape[-2]), x)
        return self._product(x, self.weight((k, n), k))

    def _product(self, a: str, b: str) -> str:
        y = self.op("MatMul", [a, b], a_zero_point=0, b_zero_point=0)
        return self.op(self.pick(BINARY[:7]), [y, self.side(self.shape(y))]) if self.flip(0.4) else y

    def gemm(self, x: str) -> str:
        if len(self.shape(x)) != 2:
            return ""
        m, k = self.shape(x)[::-1] if (left := int(self.flip(0.3))) else self.shape(x)
        n, right = self.pick([1, 3, 6]), int(self.flip())
        w = self.weight((n, k) if right else (k, n), k)
        c = [self.constant(self.pick([(n,), (1, n), (m, 1), (m, n), (1,), ()]))] if self.flip(0.8) else []
        alpha, beta = self.pick([(1.0, 1.0), (0.5, 2.0)])
        return self.op("Gemm", [x, w, *c], alpha=alpha, beta=beta, transA=left, transB=right, a_zero_point=0,
                       b_zero_point=0)  # fmt: skip

    def window(self, spatial: tuple[int, ...], largest: int = 3) -> dict[str, Any]:
        kernel = [self.pick([k for k in range(1, largest + 1) if k <= extent]) for extent in spatial]
        pads = [int(self.rng.integers(k)) if self.flip(0.4) else 0 for k in (*kernel, *kernel)]
        return {"kernel_shape": kernel, "strides": [self.pick([1, 1, 2]) for _ in kernel], "pads": pads,
                "dilations": [1] * len(kernel)}  # fmt: skip

    def conv(self, x: str) -> str:
        shape = self.shape(x)
        if not 3 <= len(shape) <= 5:
            return ""
        window = self.window(shape[2:])
        group = self.pick([g for g in (1, 1, 2, shape[1]) if shape[1] % g == 0])
        filters, depth = group * self.pick([1, 2, 3]), shape[1] // group * prod(window["kernel_shape"])
        inputs = [x, self.weight((filters, shape[1] // group, *window["kernel_shape"]), depth)]
        inputs += [self.constant((filters,))] if self.flip() else []
        y = self.op("Conv", inputs, **window, group=group, a_zero_point=0, b_zero_point=0)
        return self.pick([lambda y: y, self.binary, self.unary, self.pool, self.norm])(y) or y

    def pool(self, x: str) -> str:
        if not 3 <= len(self.shape(x)) <= 5:
            return ""
        op = self.pick(["MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool"])
        if op.startswith("Global"):
            return self.op(op, [x])
        extra = {"MaxPool": {}, "AveragePool": {"count_include_pad": self.pick([0, 1])}, "LpPool": {"p": 2}}[op]
        window = self.window(self.shape(x)[2:])
        if op == "LpPool":
            window["pads"] = [0] * len(window["pads"])
        return self.op(op, [x], **window, ceil_mode=0, **extra)

    def norm(self, x: str) -> str:
        shape = self.shape(x)
        if len(shape) < 2:
            return ""
        op = self.pick(["BatchNormalization", "LayerNormalization", "RMSNormalization", "InstanceNormalization",
                        "LRN", "Softmax", "LogSoftmax"])  # fmt: skip
        if op in ("Softmax", "LogSoftmax"):
            return self.op(op, [x], axis=int(self.rng.integers(len(shape))))
        if op == "LRN":
            return self.op(op, [x], size=3, alpha=0.1, beta=0.75, bias=1.0) if len(shape) == 4 else ""
        if op in ("LayerNormalization", "RMSNormalization"):
            parts = [self.constant(shape[-1:]) for _ in range(2 if op.startswith("Layer") else 1)]
            return self.op(op, [x, *parts], axis=len(shape) - 1, epsilon=0.1)
        parts = [self.constant(shape[1:2]) for _ in range(3)]
        if op == "InstanceNormalization":
            return self.op(op, [x, *parts[:2]], epsilon=0.1) if len(shape) > 2 else ""
        variance = self.b.constant(self.fresh("c"), 0.5 + self.rng.random(shape[1]))
        return self.op(op, [x, *parts, variance], epsilon=1e-3)

    def reduce(self, x: str) -> str:
        rank = len(self.shape(x))
        if not rank:
            return ""
        axes = sorted({int(self.rng.integers(rank)) for _ in range(self.pick([1, 1, 2, rank]))})
        return self.op(self.pick(REDUCTIONS), [x], axes=axes, keepdims=self.pick([0, 1]))

    def move(self, x: str) -> str:
        shape = self.shape(x)
        rank = len(shape)
        if not rank:
            return self.op("Reshape", [x], shape=[1, 1])
        axis, kind = int(self.rng.integers(rank)), self.pick(["transpose", "concat", "split", "slice", "gather", "pad",
                                                              "tile", "expand", "trilu", "cumsum"])  # fmt: skip
        if kind == "transpose":
            return self.op("Transpose", [x], perm=self.rng.permutation(rank).tolist())
        if kind == "concat":
            return self.op("Concat", [x, x if self.flip() else self.constant(shape)], axis=axis)
        if kind == "split" and shape[axis] > 1:
            names = [self.fresh("part"), self.fresh("part")]
            cut = int(self.rng.integers(1, shape[axis]))
            node = self.fresh("split")
            return self.b.ops("Split", [x], names, node, axis=axis, split=[cut, shape[axis] - cut])[self.pick([0, 1])]
        if kind == "slice":
            begin = int(self.rng.integers(shape[axis]))
            return self.op("Slice", [x], starts=[begin], ends=[shape[axis]], axes=[axis], steps=[self.pick([1, 2])])
        if kind == "gather":
            places = self.rng.integers(0, shape[axis], self.pick([(), (2,), (2, 2)]))
            return self.op("Gather", [x, self._places(places)], axis=axis)
        if kind == "pad":
            pads = self.rng.integers(0, 2, 2 * rank).tolist()
            return self.op("Pad", [x], pads=pads, mode="constant", value=self.pick([0.0, 0.0, 0.5]))
        if kind == "tile":
            return self.op("Tile", [x], repeats=self.rng.integers(1, 3, rank).tolist())
        if kind == "expand":
            return self.op("Expand", [x], shape=[2 if extent == 1 else extent for extent in shape])
        if kind == "trilu" and rank > 1:
            return self.op("Trilu", [x], upper=self.pick([0, 1]), k=0)
        return self.op("CumSum", [x], axis=axis, reverse=self.pick([0, 1]), exclusive=0)

    def _places(self, values: Any) -> str:
        name = self.b.constant(self.fresh("i"), 0.0)
        tensor = self.b.graph.tensors[name]
        tensor.data, tensor.shape, tensor.dtype = np.asarray(values, np.int64), np.shape(values), "int64"
        return name

    def view(self, x: str) -> str:
        shape = self.shape(x)
        kind = self.pick(["flatten", "unsqueeze", "squeeze", "reshape"])
        if kind == "flatten":
            return self.op("Flatten", [x], axis=int(self.rng.integers(len(shape) + 1)))
        if kind == "unsqueeze" and len(shape) < 5:
            return self.op("Unsqueeze", [x], axes=[int(self.rng.integers(len(shape) + 1))])
        if kind == "squeeze" and 1 in shape:
            return self.op("Squeeze", [x], axes=[shape.index(1)])
        return self.op("Reshape", [x], shape=[prod(shape)])

    def select(self, x: str) -> str:
        shape = self.shape(x)
        if not shape:
            return ""
        axis = int(self.rng.integers(len(shape)))
        if self.flip():
            found = self.op(self.pick(["ArgMax", "ArgMin"]), [x], axis=axis, keepdims=1, select_last_index=0)
            return self.op("GatherElements", [x, found], axis=axis)
        k = int(self.rng.integers(1, shape[axis] + 1))
        names = [self.fresh("best"), self.fresh("places")]
        values, places = self.b.ops("TopK", [x], names, self.fresh("top"), k=k, axis=axis, largest=1, sorted=1)
        return values if self.flip() else self.op("GatherElements", [x, places], axis=axis)


FAMILIES: tuple[Callable[[RandomGraph, str], str], ...] = (
    RandomGraph.unary, RandomGraph.unary, RandomGraph.binary, RandomGraph.binary, RandomGraph.matmul,
    RandomGraph.matmul, RandomGraph.matmul, RandomGraph.gemm, RandomGraph.gemm, RandomGraph.conv, RandomGraph.conv,
    RandomGraph.conv, RandomGraph.pool, RandomGraph.norm, RandomGraph.reduce, RandomGraph.move, RandomGraph.view,
    RandomGraph.choice, RandomGraph.cast, RandomGraph.select,
)  # fmt: skip
"""Kinds of steps, products more often than others."""


def random_graph(seed: int) -> Graph:
    """A graph that is valid by construction; one in six has layers that were unrolled."""
    return recurrent_graph(seed) if seed % 6 == 5 else RandomGraph(seed).build()
