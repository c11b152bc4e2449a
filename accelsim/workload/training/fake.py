"""Quantisation-aware training: which tensors are fake-quantised, to which format, and where their scales start.

Esser et al., Learned Step Size Quantization, ICLR 2020: scales are learnt with the weights; binary weights after
Rastegari et al., XNOR-Net, ECCV 2016: the scale is the mean magnitude of the channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod, sqrt

import numpy as np

from accelsim.errors import Problem, UsageError, nearest
from accelsim.formats.fake_quant import lsq_factor
from accelsim.types import Array
from accelsim.workload.graph import Graph, Node
from accelsim.workload.training.emit import Emitter

RANGES: dict[str, tuple[int, int]] = {"int8": (-128, 127), "int4": (-8, 7), "int2": (-2, 1), "int1": (-1, 1)}
"""Lowest and highest code of the formats that one can train for; int1 has only -1 and 1."""

MATRIX = ("Conv", "MatMul", "Gemm")


@dataclass(frozen=True)
class QuantConfig:
    """Formats of weights (per output channel) and of the activations that matrix ops read (per tensor), symmetric.

    ``edges``: format of both operands of the first and the last matrix op ('' : as all others).
    Raises UsageError for a format that is not in ``RANGES``.
    """

    weights: str = "int8"
    activations: str = "int8"
    edges: str = ""

    def __post_init__(self) -> None:
        UsageError.raise_for(
            Problem(f"no format {name!r} to train for", "", "one of " + ", ".join(RANGES), nearest(name, RANGES))
            for name in dict.fromkeys((self.weights, self.activations, self.edges))
            if name not in RANGES and (name or not self.weights or not self.activations)
        )

    @staticmethod
    def parse(text: str, edges: str = "") -> QuantConfig:
        """'int4', or 'int4xint8': weights int4, activations int8. Raises UsageError."""
        weights, _, activations = text.partition("x")
        return QuantConfig(weights, activations or weights, edges)


@dataclass(frozen=True)
class Wrapped:
    """One fake-quantised tensor of the model: its format, the axis of its scales (None: one scale), their name."""

    tensor: str
    dtype: str
    axis: int | None
    scale: str

    @property
    def learnt(self) -> bool:
        """Return whether the scale is a state; binary weights take it from their values."""
        return self.dtype != "int1" or self.axis is None

    def start(self, values: Array) -> Array:
        """The scale to start from: 2 mean|x| / sqrt(highest code) (LSQ, section 2.1), per slice along ``axis``."""
        others = None if self.axis is None else tuple(i for i in range(values.ndim) if i != self.axis)
        mean = np.abs(values).mean(axis=others, dtype=np.float32)
        factor = 1.0 if self.dtype == "int1" else 2 / sqrt(RANGES[self.dtype][1])
        return np.maximum(np.asarray(mean * np.float32(factor), np.float32), np.float32(1e-6))

    def write(self, e: Emitter, x: str) -> str:
        """Write the nodes that fake-quantise ``x``; return the name of the result."""
        shape = () if self.axis is None else (e.shape(x)[self.axis],)
        if not self.learnt:
            return self._binary_weight(e, x)
        e.input(self.scale, shape)
        return e.op("FakeQuantize", [x, self.scale], f"{x}.fake", dtype=self.dtype, axis=self.axis,
                    factor=self._factor(e.shape(x)))  # fmt: skip

    def _factor(self, shape: tuple[int, ...]) -> float:
        """Factor on the gradient of the scale: 1 / sqrt(n * highest code), n values of a channel or of one sample."""
        count = prod(shape) // (shape[0] if self.axis is None else shape[self.axis])
        return lsq_factor(max(1, count), RANGES[self.dtype][1])

    def _binary_weight(self, e: Emitter, x: str) -> str:
        """mean|w| of the channel times sign(w); the gradient passes the sign where |w| <= 1 (XNOR-Net, eq. 6)."""
        others = [i for i in range(len(e.shape(x))) if i != self.axis]
        mean = e.op("ReduceMean", [e.op("Abs", [x], f"{x}.size")], self.scale, axes=others, keepdims=1)
        sign = e.op("FakeQuantize", [x, e.number(1.0)], f"{x}.sign", dtype="int1", axis=None, factor=1.0)
        return e.pair("Mul", sign, mean, f"{x}.fake")


def wrapped_tensors(model: Graph, nodes: Sequence[Node], config: QuantConfig) -> dict[str, Wrapped]:
    """Return what is fake-quantised: every weight and every activation that a matrix op reads, by tensor name."""
    products = [node for node in nodes if node.op in MATRIX]
    found: dict[str, Wrapped] = {}
    for node in products:
        edge = config.edges if node in (products[0], products[-1]) else ""
        for index, name in enumerate(node.inputs[:2]):
            weight = index == 1 and model.tensors[name].is_constant
            dtype = edge or (config.weights if weight else config.activations)
            axis = channel_axis(node, len(model.tensors[name].shape)) if weight else None
            found.setdefault(name, Wrapped(name, dtype, axis, f"{name}.fake_scale"))
    return found


def channel_axis(node: Node, rank: int) -> int:
    """Return the axis of a weight along which its output channels lie."""
    if node.op == "Conv" or node.attrs.get("transB"):
        return 0
    return rank - 1
