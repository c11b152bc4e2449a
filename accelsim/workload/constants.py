"""Constants whose values are made on first use: by a node of a file, or by operators on other constants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from accelsim.errors import ModelError, memory_text
from accelsim.types import Array
from accelsim.workload.graph import Node, Tensor
from accelsim.workload.limits import check_memory
from accelsim.workload.ops import base
from accelsim.workload.ops.values import CONTAINERS, contain

TEMPORARY_B = 8
"""Memory of each element of a constant beside its container, while it is made: numbers of 64 bits, then rounded."""
LAZY_ELEMENTS = 1024
"""Constants of more elements are made on first use."""


@dataclass(frozen=True)
class Made:
    """``make()``, an array [shape] of ``dtype`` that a node of the file asks for, made on first use.

    ``name`` is the node.
    """

    make: Callable[[], Array]
    shape: tuple[int, ...]
    dtype: str
    name: str

    def __call__(self) -> Array:
        """The array, in the container type of its format. Raises TooLarge beyond the limit."""
        check_bytes(self.shape, self.dtype, self.name)
        return contain(self.make(), self.dtype)


def check_bytes(shape: tuple[int, ...], dtype: str, name: str) -> None:
    """Raise TooLarge, naming the node, if an array of this shape takes more memory than the limit."""
    size_B = prod(shape) * (np.dtype(CONTAINERS[dtype]).itemsize + TEMPORARY_B)
    text = f"a constant of {' x '.join(map(str, shape))} that {name} makes takes about {memory_text(size_B)} of memory"
    check_memory(name, size_B, text, "a smaller constant, --values off")


@dataclass(frozen=True, eq=False)
class Computed:
    """Output ``index`` of an op of the registry on constants; ``shapes`` are those of all its outputs."""

    node: Node
    inputs: tuple[Tensor | None, ...]
    index: int
    shapes: tuple[tuple[tuple[int, ...], str], ...]

    def __call__(self) -> Array:
        """The values by the kernels of the ops. Raises TooLarge, and ModelError when a kernel refuses them.

        Large constants that it reads are made once and not kept: they would be in memory twice.
        """
        order = _in_order(self)
        for part in order:  # before any of them is made
            part.check()
        readers = Counter(id(before.node) for part in order for before in part.before)
        made: dict[int, list[Array]] = {}
        for part in order:
            waited = part.before
            made[id(part.node)] = part.evaluated(made)
            for before in waited:
                readers[id(before.node)] -= 1
                if not readers[id(before.node)]:
                    del made[id(before.node)]
        return made[id(self.node)][self.index]

    @property
    def before(self) -> list[Computed]:
        """Return what makes the inputs that are not there yet."""
        sources = (tensor.source for tensor in self.inputs if tensor is not None and tensor.data is None)
        return [source for source in sources if isinstance(source, Computed)]

    def check(self) -> None:
        """Raise TooLarge if a result takes more memory than the limit."""
        for shape, dtype in self.shapes:
            check_bytes(shape, dtype, self.node.name)

    def evaluated(self, made: Mapping[int, list[Array]]) -> list[Array]:
        """Return all results of the node. ``made`` holds results of its producers that are not kept."""
        values = [None if tensor is None else _value(tensor, made) for tensor in self.inputs]
        from accelsim.workload.onnx.importing.refusing import refusing

        with refusing(self.node.op, self.node.name, self.inputs), np.errstate(all="ignore"):
            return base.get(self.node.op).kernel(self.node, values)


def _value(tensor: Tensor, made: Mapping[int, list[Array]]) -> Array:
    """The values of a constant; small ones are kept."""
    if tensor.data is not None or tensor.source is None:
        return tensor.value()
    source = tensor.source
    found = made[id(source.node)][source.index] if isinstance(source, Computed) else source()
    if tensor.elements <= LAZY_ELEMENTS:
        tensor.data = found
    return found


def _in_order(last: Computed) -> list[Computed]:
    """Return what must be computed for ``last``, and itself, in order; without recursion, for chains may be long."""
    order: list[Computed] = []
    seen: set[int] = set()
    stack: list[tuple[Computed, bool]] = [(last, False)]
    while stack:
        part, entered = stack.pop()
        if entered:
            order.append(part)
        elif id(part.node) not in seen:
            seen.add(id(part.node))
            stack.append((part, True))
            stack += [(source, False) for source in part.before]
    return order


def evaluated(node: Node, ins: list[Tensor | None], shapes: list[tuple[tuple[int, ...], str]]) -> list[Tensor]:
    """The outputs of ``node`` as constant tensors; values are computed now where all are small, else on first use."""
    made = [
        Tensor(name, shape, dtype, source=Computed(node, tuple(ins), index, tuple(shapes)))
        for index, (name, (shape, dtype)) in enumerate(zip(node.outputs, shapes, strict=False))
    ]
    if all(tensor is None or tensor.elements <= LAZY_ELEMENTS for tensor in (*ins, *made)):
        for tensor in made:
            tensor.value()
    return made


def constant_tensor(name: str, values: Array) -> Tensor:
    """A constant from an array of any ONNX type; bfloat16 and float16 in a float32 container."""
    dtype = format_of(values.dtype)
    return Tensor(name, values.shape, dtype, data=values.astype(CONTAINERS[dtype], copy=False))


_KINDS = {
    "float64": "fp64",
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "object": "string",
    "bool": "bool",
    **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (2, 4, 8, 16, 32, 64)},
    **{f"float8_{kind}": f"fp8_{kind}" for kind in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz")},
    "float4_e2m1fn": "fp4_e2m1fn",
    "float8_e8m0fnu": "e8m0",
}


def format_of(dtype: Any) -> str:
    """Format of a NumPy type; ModelError for one that no format stands for."""
    name = "object" if dtype.kind in "US" else dtype.name
    if name not in _KINDS:
        raise ModelError(f"NumPy type {name!r} has no format", expected=", ".join(_KINDS))
    return _KINDS[name]
