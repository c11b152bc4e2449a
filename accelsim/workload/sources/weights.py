"""Seeded weights: the same values for the same (seed, tensor name), whatever else the graph holds.

Matrix weights are He normal (He et al. 2015, eq. 10: variance 2 / fan-in), so that activations keep their
size through many layers with ReLU. Everything that scales or shifts is drawn close to "do nothing".
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod, sqrt

import numpy as np

from accelsim.digits import whole
from accelsim.errors import UsageError
from accelsim.formats.integer import code_range
from accelsim.formats.table import FORMATS as TABLE
from accelsim.seeds import generator
from accelsim.types import Array
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.ops.values import contain

FLOATS = ("fp32", "fp16", "bf16", "fp64")


@dataclass(frozen=True)
class Law:
    """Normal distribution of a weight; ``positive`` takes the magnitude (variances)."""

    mean: float
    std: float
    positive: bool = False


NEAR_ONE = Law(1.0, 0.05)
HALF = Law(0.5, 0.05)
LINEAR = Law(sqrt(0.5), 0.05)
SMALL = Law(0.0, 0.05)
VARIANCE = Law(1.0, 0.1, positive=True)
EMBEDDING = Law(0.0, 0.02)
SLOPE = Law(0.25, 0.01)
CODED = Law(0.0, 1.0)


@dataclass(frozen=True)
class Seeded:
    """Values drawn on call from the generator of (seed, crc32 of the tensor's name): float32 [shape]."""

    seed: int
    name: str
    shape: tuple[int, ...]
    law: Law
    dtype: str = "fp32"

    def __call__(self) -> Array:
        """The values, representable in ``dtype``, in a float32 container (float64 for fp64)."""
        values = generator(self.seed, zlib.crc32(self.name.encode())).standard_normal(self.shape, dtype=np.float32)
        values *= np.float32(self.law.std)
        values += np.float32(self.law.mean)
        if self.law.positive:
            np.abs(values, out=values)
        return contain(values, self.dtype)


DRAWN = frozenset(
    name for name, row in TABLE.items() if row.kind == "float" or (row.kind == "int" and row.bits <= 8)
) | {"int32"}
"""Formats of tensors that ``drawn`` makes values of. Wider integers are indices or shapes, which nobody can guess."""


@dataclass(frozen=True)
class Codes:
    """Integers drawn on call, evenly from the range of ``dtype``; in int32, the format of biases, zeros."""

    seed: int
    name: str
    shape: tuple[int, ...]
    dtype: str

    def __call__(self) -> Array:
        """The values, in the container of the format."""
        if self.dtype == "int32":
            return contain(np.zeros(self.shape, np.int32), self.dtype)
        low, high = code_range(self.dtype)
        rng = generator(self.seed, zlib.crc32(self.name.encode()))
        return contain(rng.integers(low, high, self.shape, endpoint=True), self.dtype)


def drawn(seed: int, name: str, shape: tuple[int, ...], dtype: str) -> Callable[[], Array]:
    """Return what makes values for a tensor of which nothing but its shape and its format (of ``DRAWN``) is known."""
    if TABLE[dtype].kind == "int":
        return Codes(seed, name, shape, dtype)
    law = NEAR_ONE if prod(shape) == 1 else SMALL if TABLE[dtype].bits > 8 else CODED
    return Seeded(seed, name, shape, law, dtype)


def parse_weights(text: str) -> int | None:
    """The seed of 'random:SEED', None for 'model' (the values in the file); UsageError for anything else."""
    if text == "model":
        return None
    word, _, digits = text.partition(":")
    seed = whole(digits) if word == "random" else None
    if seed is None:
        raise UsageError(f"weights {text!r}", expected="'model' or 'random:SEED' (SEED an integer >= 0)")
    return seed


def randomise(graph: Graph, seed: int) -> Graph:
    """Replace every learnt constant of ``graph`` by seeded values, made on first use; returns the same graph.

    Learnt are float constants that a node uses as weight, bias or scale; a scalar (epsilon, temperature) and
    a constant of any other use keeps its value.
    """
    for tensor, law in _learnt(graph):
        tensor.data = None
        tensor.source = Seeded(seed, tensor.name, tensor.shape, law, tensor.dtype)
    graph.values_from = f"random:{seed}"
    return graph


def parameters(graph: Graph) -> int:
    """Return how many numbers are learnt: elements of all weights, biases, scales and tables."""
    return sum(tensor.elements for tensor, _ in _learnt(graph))


def _learnt(graph: Graph) -> Iterator[tuple[Tensor, Law]]:
    done: set[str] = set()
    readers = graph.consumers()
    for node in graph.nodes:
        scale = _scale_law(graph, readers.get(node.outputs[0], []))
        for index, name in enumerate(node.inputs):
            tensor = graph.tensors.get(name)
            if tensor is None or name in done or not tensor.is_constant or tensor.dtype not in FLOATS:
                continue
            if tensor.fixed:
                continue
            law = law_of(node, index, tensor, scale)
            if law is not None:
                done.add(name)
                yield tensor, law


def _scale_law(graph: Graph, readers: list[Node]) -> Law:
    """Distribution of the normalisation scales of a node whose result ``readers`` read.

    Near 0.5 in front of a residual sum, because sums of paths of equal variance would double the variance in
    every block (cf. Goyal et al. 2017, section 5.1); near sqrt(1/2) in front of a convolution without a ReLU
    between, which takes back the 2 of He's variance; else near 1.
    """
    if any(_is_residual(graph, reader) for reader in readers):
        return HALF
    return LINEAR if readers and all(reader.op == "Conv" for reader in readers) else NEAR_ONE


def _is_residual(graph: Graph, node: Node) -> bool:
    """Return whether a node adds activations to activations."""
    return node.op in ("Sum", "Add") and not any(graph.tensors[name].is_constant for name in node.inputs)


def law_of(node: Node, index: int, tensor: Tensor, scale: Law) -> Law | None:
    """Distribution of ``tensor`` as input ``index`` of ``node``; None where it is not a learnt parameter.

    ``scale`` is the distribution of a normalisation's scale.
    """
    if node.op in _FAN_IN and index in _FAN_IN[node.op]:
        return Law(0.0, sqrt(2.0 / max(1, _FAN_IN[node.op][index](node, tensor.shape))))
    if node.op in _NORMALISATION and index == 1:
        return scale
    if node.op in _ELEMENTWISE and sum(size > 1 for size in tensor.shape) == 1:
        return _ELEMENTWISE[node.op]
    return _PARAMETERS.get((node.op, index))


Fan = Callable[[Node, tuple[int, ...]], int]


def _kernel_fan(node: Node, shape: tuple[int, ...]) -> int:
    return prod(shape[1:])


def _transposed_kernel_fan(node: Node, shape: tuple[int, ...]) -> int:
    return shape[0] * prod(shape[2:])


def _gemm_fan(node: Node, shape: tuple[int, ...]) -> int:
    return shape[1] if node.attrs.get("transB", 0) else shape[0]


def _rows_fan(node: Node, shape: tuple[int, ...]) -> int:
    return shape[-2] if len(shape) > 1 else shape[0]


def _columns_fan(node: Node, shape: tuple[int, ...]) -> int:
    return shape[-1]


_RECURRENT: dict[int, Fan] = {1: _columns_fan, 2: _columns_fan}

_FAN_IN: dict[str, dict[int, Fan]] = {
    "Conv": {1: _kernel_fan},
    "ConvTranspose": {1: _transposed_kernel_fan},
    "Gemm": {1: _gemm_fan},
    "MatMul": {0: _columns_fan, 1: _rows_fan},
    "ExpertMatMul": {1: _rows_fan},
    "LSTM": _RECURRENT,
    "GRU": _RECURRENT,
    "RNN": _RECURRENT,
}
"""Op -> input index -> how many products one output sums over."""

_NORMALISATION = (
    "BatchNormalization",
    "LayerNormalization",
    "InstanceNormalization",
    "GroupNormalization",
    "RMSNormalization",
)

_PARAMETERS: dict[tuple[str, int], Law] = {
    **{(op, 2): SMALL for op in ("Conv", "ConvTranspose", "Gemm")},
    **{(op, 3): SMALL for op in ("LSTM", "GRU", "RNN")},
    **{(op, 2): SMALL for op in _NORMALISATION},
    ("BatchNormalization", 3): SMALL,
    ("BatchNormalization", 4): VARIANCE,
    ("Gather", 0): EMBEDDING,
    ("Softmax", 1): SMALL,
    ("TopKGating", 1): SMALL,
    ("PRelu", 1): SLOPE,
}
"""(op, input index) -> distribution of that parameter."""

_ELEMENTWISE: dict[str, Law] = {"Mul": NEAR_ONE, "Div": NEAR_ONE, "Add": SMALL, "Sub": SMALL, "Sum": SMALL}
"""Distribution of a constant vector of an elementwise op; a constant of any other shape keeps its values."""
