"""An op: a shape rule, its algorithmic work, a NumPy kernel, and how it looks to a matrix unit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from accelsim.errors import nearest
from accelsim.types import Array
from accelsim.workload.graph import Node, Tensor
from accelsim.workload.ops.rows import FAMILIES, Operators

Shape = tuple[int, ...]
Value = Any
"""A value of ``gradient.context``, which stands below: it knows ``+ - * /``, ``step``, and any op by name."""
Derivative = Callable[[Value, Value, Node], Value]
"""``derivative(x, y, node)`` is dY/dX of y = f(x)."""
Rule = Callable[[Any, Node, list[Any]], list[Any]]
"""``Rule`` of ``gradient.rules``, which stands below."""


@dataclass(frozen=True)
class Conv:
    """Geometry of a 2-D convolution (1-D has height 1), per group: what an implicit GEMM needs of it.

    The GEMM row index is (image, p, q), the reduction index (channel, r, s), all row-major. With ``strip`` the rows are
    those of one vertical strip of the output after the other, (image, strip, p, q within it), the last strip narrower.
    """

    batch: int
    channels: int  # per group
    height: int
    width: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    pad: tuple[int, int, int, int]  # top, left, bottom, right
    dilation: tuple[int, int]
    out: tuple[int, int]  # P, Q
    strip: int = 0  # columns of the output; 0: all


@dataclass(frozen=True)
class Gemm:
    """``groups`` independent products Y[M,N] = A[M,K] x B[K,N]; ``a`` and ``b`` name the operand tensors.

    Matrix views are row-major: ``a`` is activations (for a conv: its input, seen through ``conv``), ``b`` is
    weights or, when it is not a constant, a second activation. ``batch`` is the shape of the groups of a
    batched MatMul, to which the leading axes of both operands broadcast.
    """

    groups: int
    M: int
    N: int
    K: int
    a: str
    b: str
    conv: Conv | None = None
    batch: Shape = ()

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all groups."""
        return self.groups * self.M * self.N * self.K


@dataclass(frozen=True)
class Work:
    """Algorithmic work of one op: multiply-accumulates, and other arithmetic operations."""

    macs: int = 0
    ops: int = 0


@dataclass(frozen=True)
class Op:
    """One row of the registry.

    ``infer(node, ins)`` -> [(shape, dtype)] of the outputs. ``kernel(node, values)`` -> list of output arrays
    (float32 containers for floats; integers exact). ``work(node, ins, outs)`` -> Work.
    ``gemm(node, ins, outs)`` -> Gemm where a matrix unit can do it. ``ins`` has None for an absent optional
    input. ``kind``: 'matrix' | 'elementwise' | 'pool' | 'normalise' | 'reduce' | 'move' | 'alias' |
    'quantise':
    'alias' ops only rename (Reshape, Flatten, Squeeze, Identity...), 'move' ops copy without arithmetic.

    ``family``: one of ``FAMILIES``, under which chips list it; '' for what a chip has only where it names it, and for
    what vector units do not do (matrix, alias). ``onnx``: the attributes with their defaults, where ONNX has an op of
    this name and these are its own; None where the importer has a rule for it (``onnx.canonical``). ``keeps``: it
    returns some of its inputs, or a bound, so that it works on codes as they are, with one scale.
    ``gradient``: a rule ``(ctx, node, grads)`` as in ``gradient.rules``, or in words why there is none; None where the
    package ``gradient`` has it.
    """

    name: str
    kind: str
    infer: Callable[[Node, list[Tensor | None]], list[tuple[Shape, str]]]
    kernel: Callable[[Node, list[Array | None]], list[Array]]
    work: Callable[[Node, list[Tensor | None], list[Tensor]], Work]
    gemm: Callable[[Node, list[Tensor | None], list[Tensor]], Gemm | None] | None = None
    family: str = ""
    onnx: Mapping[str, Any] | None = None
    keeps: bool = False
    gradient: Rule | str | None = None


REGISTRY: Operators[Op] = Operators()
"""Name of an operator -> its row."""


def register(op: Op) -> Op:
    """Add a row to the registry; ValueError for a second one of the same name, and for a family that is none."""
    if op.family not in ("", *FAMILIES):
        raise ValueError(f"op {op.name!r}: no family {op.family!r}; nearest {nearest(op.family, FAMILIES)!r}")
    REGISTRY.add(op)
    return op


def find(name: str) -> Op | None:
    """The op of that name, or None (then only the host may know it)."""
    return REGISTRY.get(name)


def get(name: str) -> Op:
    """The op of that name; KeyError with the nearest name when there is none."""
    if name not in REGISTRY:
        raise KeyError(f"no op {name!r}; nearest {nearest(name, REGISTRY)!r}")
    return REGISTRY[name]
