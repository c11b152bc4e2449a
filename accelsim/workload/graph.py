"""The graph: what must be computed. Static shapes, topological order, one dataclass per noun."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from math import ceil, prod
from typing import Any, TypeVar, cast

from accelsim.formats.table import FORMATS, bytes_of
from accelsim.types import Array

T = TypeVar("T")
Attributes = dict[str, Any]
"""Attributes of an op, beside its inputs: name -> number, text, list or array."""


class _Bytes(dict[str, float]):
    """A float that is configured by its name needs no row."""

    def __missing__(self, name: str) -> float:
        self[name] = bytes_of(name)
        return self[name]


FORMAT_BYTES = _Bytes(
    {name: bytes_of(name) for name in FORMATS}, uint32=4.0, uint64=8.0, bool=1.0, string=0.0, nvfp4=4.5 / 8
)
"""Bytes of one element of each format a tensor may have."""


@dataclass(frozen=True)
class Quant:
    """Integer quantisation: real = scale * (q - zero_point), zero_point 0 when symmetric.

    ``scale`` is float32, a scalar or one per slice along ``axis`` of the tensor.
    """

    scale: Array
    zero_point: int = 0
    axis: int | None = None


@dataclass
class Tensor:
    """A named array: shape, format, and (weights and constants only) its values.

    ``source`` makes the values on first use, so that a model too large to execute is never materialised.
    ``stored`` is the format that it has in a memory where that is wider than ``dtype``: a chip that computes in a
    narrow format by means of a wider one keeps the wider one. ``sparse`` (n, m): of each m elements along the
    reduction n are kept in memory, each with its index among the m. ``fixed``: a constant that nobody learns (a mask,
    the sines of positions), which seeded weights leave as it is.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "fp32"
    data: Array | None = None
    source: Callable[[], Array] | None = None
    quant: Quant | None = None
    stored: str = ""
    sparse: tuple[int, int] | None = None
    fixed: bool = False

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def memory_format(self) -> str:
        """Format of its elements in a memory."""
        return self.stored or self.dtype

    @property
    def element_B(self) -> float:
        """Bytes of one element in a memory; a fraction below 8 bits, and the mean of one that is stored sparsely."""
        dense = FORMAT_BYTES[self.memory_format]
        if self.sparse is None:
            return dense
        n, m = self.sparse
        return n * (dense + (m - 1).bit_length() / 8) / m

    @property
    def nbytes(self) -> int:
        """Bytes in a memory, rounded up to whole bytes."""
        return self.size_B(self.elements)

    def size_B(self, count: int) -> int:
        """Return the bytes of ``count`` of its elements, rounded up to whole bytes."""
        return ceil(count * self.element_B)

    @property
    def is_constant(self) -> bool:
        """Return whether the values are known before the run (a weight or another constant)."""
        return self.data is not None or self.source is not None

    def value(self) -> Array:
        """The values of a constant, made now if they were not yet."""
        if self.data is None:
            if self.source is None:
                raise ValueError(f"tensor {self.name!r} is not a constant")
            self.data = self.source()
        return self.data


@dataclass
class Node:
    """One operator. ``op`` is a key of the op registry (canonical ONNX op type).

    ``inputs`` and ``outputs`` are the op's own; '' is an absent optional input. ``epilogue`` holds nodes fused after
    this one: they run on its result, element by element, before anything is written. What the whole fused node touches
    is ``reads`` and ``writes``; everything in between never exists in a memory. ``engine`` is set by the compiler:
    'matrix', 'vector', 'dma' (an append to a state in its memory), 'host' or 'alias' (no work: another view of its
    input). ``note`` says why the compiler decided so. ``format`` is the operand format in which a matrix unit computes
    it. ``part_of``: what a framework does by one call, where several nodes say it (the gradient of one operator).
    """

    name: str
    op: str
    inputs: list[str]
    outputs: list[str]
    attrs: Attributes = field(default_factory=dict)
    epilogue: list[Node] = field(default_factory=list)
    engine: str = ""
    note: str = ""
    format: str = ""
    part_of: str = ""

    @property
    def reads(self) -> list[str]:
        """Every tensor that the fused node reads, in order, each once."""
        if not self.epilogue:  # most nodes, asked for many times each
            return [name for name in dict.fromkeys(self.inputs) if name and name not in self.outputs]
        inside = {name for node in (self, *self.epilogue) for name in node.outputs}
        names = [name for node in (self, *self.epilogue) for name in node.inputs if name]
        return [name for name in dict.fromkeys(names) if name not in inside]

    @property
    def writes(self) -> list[str]:
        """Tensors that exist after the fused node: the outputs of its last part."""
        return [name for name in (self.epilogue[-1] if self.epilogue else self).outputs if name]

    def label(self) -> str:
        """The op with what is fused after it, for tables: 'Conv+Relu'."""
        return "+".join([self.op, *(node.op for node in self.epilogue)])


@dataclass(repr=False)
class Graph:
    """Nodes in topological order, tensors by name, names of inputs and outputs.

    ``states`` maps an input to the output that is its next value: a tensor that stays in the memory of the chip
    from one run to the next (weights and optimiser states of a training step, keys and values of earlier tokens), and
    never crosses to the host. ``kept``: outputs that begin to stay there, so that a next graph has them as states.
    ``trains``: it is a training step, whose tensors have settled formats.
    ``unused``: inputs that the file declares and nothing reads. ``notes``: how the file was read, where a user should
    know. ``sparsity``: node -> pattern 'N:M' to which its weights are pruned.
    """

    name: str
    nodes: list[Node]
    tensors: dict[str, Tensor]
    inputs: list[str]
    outputs: list[str]
    opset: int = 0
    values_from: str = "model"
    states: dict[str, str] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)
    trains: bool = False
    products: int = 0
    """Not 0: no network but single layers without codes before and after them, and how many of each a run has."""
    unused: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list, compare=False)
    sparsity: dict[str, str] = field(default_factory=dict)
    suffixes: dict[str, int] = field(default_factory=dict, repr=False, compare=False)
    """Name -> the last number that made it unlike another, so that the next one is found at once."""
    frozen: bool = field(default=False, repr=False, compare=False)
    """Nobody changes it any more, so that what follows from it may be kept; a copy may be changed."""
    known: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Results of ``once``."""

    def __repr__(self) -> str:
        """One line: name, nodes, inputs and outputs."""
        return f"Graph({self.name}: {len(self.nodes)} nodes, {self.inputs} -> {self.outputs})"

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what ``make`` gives, which follows from the graph; of a frozen one worked out once and kept."""
        if not self.frozen:
            return make()
        if key not in self.known:
            self.known[key] = make()
        return cast(T, self.known[key])

    def constants(self) -> Iterator[Tensor]:
        """Return all weights and other constants."""
        return (tensor for tensor in self.tensors.values() if tensor.is_constant)

    def ins(self, node: Node) -> list[Tensor]:
        """Return the tensors that the (fused) node reads."""
        return [self.tensors[name] for name in node.reads]

    @property
    def staying(self) -> frozenset[str]:
        """Tensors that are a state, or the next value of one, and not carried to the host; whoever asks for many keeps
        the set."""
        return frozenset((*self.states, *self.states.values(), *self.kept))

    def outs(self, node: Node) -> list[Tensor]:
        """Return the tensors that the (fused) node writes."""
        return [self.tensors[name] for name in node.writes]

    def consumers(self) -> dict[str, list[Node]]:
        """Tensor name -> nodes that read it (in order)."""
        table: dict[str, list[Node]] = {name: [] for name in self.tensors}
        for node in self.nodes:
            for name in node.reads:
                table[name].append(node)
        return table

    def copy(self) -> Graph:
        """An independent graph that shares the tensor values."""
        nodes = [_copy_node(node) for node in self.nodes]
        tensors = {name: Tensor(**vars(tensor)) for name, tensor in self.tensors.items()}
        return replace(
            self, nodes=nodes, tensors=tensors, inputs=list(self.inputs), outputs=list(self.outputs),
            states=dict(self.states), unused=list(self.unused), notes=list(self.notes), sparsity=dict(self.sparsity),
            kept=list(self.kept), suffixes=dict(self.suffixes), frozen=False,
        )  # fmt: skip


def _copy_node(node: Node) -> Node:
    return replace(
        node,
        inputs=list(node.inputs),
        outputs=list(node.outputs),
        attrs=dict(node.attrs),
        epilogue=[_copy_node(inner) for inner in node.epilogue],
    )
