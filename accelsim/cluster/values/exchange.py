"""Collectives between arrays: what each rank of a group has afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from accelsim.types import Array

Arrays = list[Array]

REDUCE: dict[str, Callable[[Array, Array], Array]] = {"sum": np.add, "max": np.maximum}
"""How two arrays become one."""


def reduced(arrays: Sequence[Array], reduce: str = "sum") -> Array:
    """All arrays in the order of their ranks, added up (or the maximum)."""
    total = arrays[0]
    for array in arrays[1:]:
        total = REDUCE[reduce](total, array)
    return total


def all_reduce(arrays: Sequence[Array], reduce: str = "sum") -> Arrays:
    """The same bits on every rank."""
    return [reduced(arrays, reduce)] * len(arrays)


def all_gather(arrays: Sequence[Array], axis: int) -> Arrays:
    """All parts along ``axis``, in the order of their ranks."""
    return [np.concatenate(arrays, axis)] * len(arrays)


def reduce_scatter(arrays: Sequence[Array], axis: int) -> Arrays:
    """To each rank its part along ``axis`` of the sum."""
    return np.split(reduced(arrays), len(arrays), axis)
