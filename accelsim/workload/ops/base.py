"""What an op is: a shape rule, its algorithmic work, a NumPy kernel, and how it looks to a matrix unit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from accelsim.errors import nearest
from accelsim.types import Array
from accelsim.workload.graph import Node, Tensor

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Conv:
    """Geometry of a 2-D convolution (1-D has height 1), per group: what an implicit GEMM needs of it.

    The GEMM row index is (image, p, q), the reduction index (channel, r, s), all row-major.
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
    """

    name: str
    kind: str
    infer: Callable[[Node, list[Tensor | None]], list[tuple[Shape, str]]]
    kernel: Callable[[Node, list[Array | None]], list[Array]]
    work: Callable[[Node, list[Tensor | None], list[Tensor]], Work]
    gemm: Callable[[Node, list[Tensor | None], list[Tensor]], Gemm | None] | None = None


REGISTRY: dict[str, Op] = {}


def register(op: Op) -> Op:
    """Add a row to the registry; a second one of the same name is an error."""
    if op.name in REGISTRY:
        raise ValueError(f"op {op.name!r} is registered twice")
    REGISTRY[op.name] = op
    return op


def find(name: str) -> Op | None:
    """The op of that name, or None (then only the host may know it)."""
    return REGISTRY.get(name)


def get(name: str) -> Op:
    """The op of that name; KeyError with the nearest name when there is none."""
    if name not in REGISTRY:
        raise KeyError(f"no op {name!r}; nearest {nearest(name, REGISTRY)!r}")
    return REGISTRY[name]
