"""N:M sparsity: of every M neighbouring weights at most N are not zero, so that hardware can skip the others.

Mishra et al., "Accelerating Sparse Deep Neural Networks", arXiv:2104.08378: 2:4 on NVIDIA GPUs since A100, half of the
values and 2 bits of position for each that is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from math import ceil, comb, prod

import numpy as np
from numpy.typing import NDArray

from accelsim.digits import whole
from accelsim.errors import Problem, UsageError, count_of, nearest
from accelsim.types import Array, Bools, Floats

MOST_PATTERNS = 100_000


@dataclass(frozen=True)
class Compressed:
    """Weights of N:M sparsity without their zeros.

    ``values`` have the shape of the weights with ``n / m`` of the length along ``axis``; ``indices`` hold, for each
    value in that order (``axis`` last), its position in its group in ``index_bits(m)`` bits, packed from the low bit.
    """

    values: Array
    indices: NDArray[np.uint8]
    shape: tuple[int, ...]
    n: int
    m: int
    axis: int

    @property
    def positions(self) -> NDArray[np.uint8]:
        """Position of each value in its group, [groups, n], groups in the order of the weights with ``axis`` last."""
        bits = index_bits(self.m)
        flat = np.unpackbits(self.indices, count=self.values.size * bits, bitorder="little")
        weights = (1 << np.arange(bits)).astype(np.uint8)
        return np.asarray((flat.reshape(-1, bits) * weights).sum(1, dtype=np.uint8)).reshape(-1, self.n)


def pattern(text: str) -> tuple[int, int]:
    """'2:4' -> (2, 4). Raises UsageError unless 1 <= N <= M <= 256."""
    parts = text.split(":")
    kept, group = [whole(part) for part in parts] if len(parts) == 2 else (None, None)
    if kept is not None and group is not None and 1 <= kept <= group <= 256:
        return kept, group
    raise UsageError(f"{text!r} is no pattern of structured sparsity", "sparsity", "N:M, such as 2:4")


def mask(w: Array, n: int = 2, m: int = 4, axis: int = -1, rule: str = "magnitude") -> Bools:
    """Return which weights to keep: ``n`` of every ``m`` along ``axis``; the shape of ``w``.

    Rules: 'magnitude' keeps the largest |w| and of equal ones the first (PyTorch's WeightNormSparsifier); 'patterns'
    keeps the pattern with the largest FP32 sum of |w|, of equal sums the first in the order 1100, 1010, 1001, 0110,
    0101, 0011 (NVIDIA ASP, which leaves that order open). Raises UsageError when ``m`` does not divide the axis.
    """
    groups = _groups(w, n, m, axis)
    if rule not in MASKS:
        what = f"{rule!r} is not a rule of sparsity"
        raise UsageError(what, "", "one of " + ", ".join(MASKS), nearest(rule, MASKS))
    return _back(MASKS[rule](_sizes(groups), n), w.shape, axis)


def by_magnitude(sizes: Array, n: int) -> Bools:
    """Mask [G, M] of the ``n`` largest of ``sizes`` [G, M] in each row, of equal ones the first."""
    order = np.argsort(-sizes, axis=1, kind="stable")[:, :n]
    chosen = np.zeros(sizes.shape, np.bool_)
    np.put_along_axis(chosen, order, True, axis=1)
    return chosen


def by_patterns(sizes: Array, n: int) -> Bools:
    """Mask [G, M] of the pattern of ``n`` ones with the largest FP32 sum of ``sizes`` [G, M], of equal sums the first.

    Raises UsageError when there are too many patterns to try.
    """
    m = sizes.shape[1]
    if comb(m, n) > MOST_PATTERNS:
        raise UsageError(f"{n}:{m} has {comb(m, n):,} patterns", "", "the rule 'magnitude'")
    kept = list(combinations(range(m), n))
    patterns = np.zeros((len(kept), m), np.bool_)
    np.put_along_axis(patterns, np.array(kept), True, axis=1)
    sums = sizes.astype(np.float32) @ patterns.T.astype(np.float32)
    return np.asarray(patterns[np.argmax(sums, axis=1)])


MASKS: dict[str, Callable[[Array, int], Bools]] = {"magnitude": by_magnitude, "patterns": by_patterns}
"""Rule -> mask [G, M] of sizes [G, M]."""


def unstructured(w: Array, share: float = 0.5) -> Bools:
    """Mask of the ``share`` largest |w| of all, wherever they are: what any N:M pattern is measured against."""
    return _back(by_magnitude(_sizes(w).reshape(1, -1), round(share * w.size)), w.shape, -1)


def kept_mass(w: Array, chosen: Bools) -> float:
    """Share of the sum of |w| that a mask keeps."""
    sizes = _sizes(w)
    return float(np.sum(sizes, where=chosen) / np.sum(sizes))


def compress(w: Array, chosen: Bools, n: int = 2, m: int = 4, axis: int = -1) -> Compressed:
    """Weights without what the mask drops. Raises UsageError unless it keeps ``n`` of every ``m`` along ``axis``."""
    groups, kept = _groups(w, n, m, axis), _groups(chosen, n, m, axis)
    wrong = int(np.count_nonzero(kept.sum(1) != n))
    if chosen.shape != w.shape or wrong:
        what = f"the mask {chosen.shape} is no {n}:{m} mask of weights {w.shape}"
        raise UsageError(f"{what}: {count_of(wrong, 'group', 'keeps')} more or fewer", "", f"{n} of every {m}")
    positions = np.nonzero(kept)[1].astype(np.uint8)
    bits = (positions[:, None] >> np.arange(index_bits(m), dtype=np.uint8)) & 1
    moved = np.moveaxis(w, axis, -1).shape
    values = groups[kept].reshape(*moved[:-1], moved[-1] // m * n)
    return Compressed(np.moveaxis(values, -1, axis), np.packbits(bits, bitorder="little"), w.shape, n, m, axis % w.ndim)


def decompress(compressed: Compressed) -> Array:
    """The weights with their zeros, in the type of the values."""
    values = np.moveaxis(compressed.values, compressed.axis, -1).reshape(-1, compressed.n)
    groups = np.zeros((len(values), compressed.m), values.dtype)
    np.put_along_axis(groups, compressed.positions.astype(np.intp), values, axis=1)
    return _back(groups, compressed.shape, compressed.axis)


def index_bits(m: int) -> int:
    """Bits that say where in a group of ``m`` a value stands: 2 for 4."""
    return (m - 1).bit_length()


def bytes_of(shape: tuple[int, ...], value_B: float, n: int = 2, m: int = 4, axis: int = -1) -> int:
    """Bytes of compressed weights: the kept values of ``value_B`` bytes each, and the packed positions.

    2:4 takes 9/16 of dense fp16 and 5/8 of dense int8. Raises UsageError when ``m`` does not divide the axis.
    """
    _require(shape, n, m, axis)
    kept = prod(shape) // m * n
    return ceil(kept * value_B) + ceil(kept * index_bits(m) / 8)


def permutation(w: Array, n: int = 2, m: int = 4, passes: int = 4) -> NDArray[np.intp]:
    """An order of the columns of ``w`` [R, C] whose N:M mask along them keeps more mass; the product is the same.

    Greedy: for each column in turn the swap with another that gains most, until a pass gains nothing (Pool, Yu,
    "Channel permutations for N:M sparsity", NeurIPS 2021, search far longer). Raises UsageError as :func:`mask`.
    """
    _require(w.shape, n, m, -1)
    sizes = _sizes(w)
    order = np.arange(w.shape[1])
    for _ in range(passes):
        gains = [_swap(sizes, order, column, n, m) for column in range(len(order))]
        if not any(gains):
            break
    return order


def _swap(sizes: Array, order: NDArray[np.intp], column: int, n: int, m: int) -> bool:
    """Swap one column of ``order`` with the one of another group that gains most; False where none gains."""
    group = column // m
    groups = sizes[:, order].reshape(len(sizes), -1, m)
    before = _mass(groups, n)
    others = np.flatnonzero(np.arange(len(order)) // m != group)
    if not others.size:
        return False
    mine = np.repeat(groups[:, group, None, :], others.size, axis=1)
    mine[:, :, column % m] = sizes[:, order[others]]
    theirs = groups[:, others // m]
    theirs[:, np.arange(others.size), others % m] = sizes[:, order[column], None]
    gains = _mass(mine, n) + _mass(theirs, n) - before[group] - before[others // m]
    best = int(np.argmax(gains))
    if gains[best] <= 1e-12 * before.sum():
        return False
    order[[column, others[best]]] = order[[others[best], column]]
    return True


def _mass(groups: Array, n: int) -> Array:
    """Sum over rows of the ``n`` largest of each group; groups [R, G, M] -> [G]."""
    return np.asarray(np.sort(groups, axis=-1)[..., -n:].sum(axis=(0, 2)))


def _sizes(w: Array) -> Floats:
    """|w|, of -128 in int8 too."""
    return np.abs(w.astype(np.float64))


def _require(shape: tuple[int, ...], n: int, m: int, axis: int) -> None:
    problems = []
    if not 1 <= n <= m <= 256:
        problems.append(Problem(f"{n}:{m} is no sparsity", "", "1 <= N <= M <= 256"))
    elif not -len(shape) <= axis < len(shape):
        problems.append(Problem(f"weights {shape} have no axis {axis}"))
    elif shape[axis] % m:
        what = f"{n}:{m} sparsity along axis {axis} of {shape}: {shape[axis]} does not split into groups of {m}"
        problems.append(Problem(what, "", f"a multiple of {m}"))
    UsageError.raise_for(problems)


def _groups(w: Array, n: int, m: int, axis: int) -> Array:
    """Rows of ``m`` neighbours along ``axis``: [G, M]."""
    _require(w.shape, n, m, axis)
    return np.moveaxis(w, axis, -1).reshape(-1, m)


def _back(groups: Array, shape: tuple[int, ...], axis: int) -> Array:
    """The array of this shape whose groups along ``axis`` these are."""
    moved = [size for index, size in enumerate(shape) if index != axis % len(shape)] + [shape[axis]]
    return np.moveaxis(groups.reshape(moved), -1, axis)
