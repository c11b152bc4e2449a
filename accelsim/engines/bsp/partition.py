"""The partition of a product: of all that fit, the one that takes the fewest clocks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from accelsim.engines.bsp.spec import BspUnit, TileFormat
from accelsim.engines.bsp.supersteps import Figures, Partitions, Parts, Product, ceil, supersteps
from accelsim.engines.bsp.windows import block_cuts, cuts
from accelsim.errors import UsageError
from accelsim.mapping.search import solve_listed
from accelsim.types import Floats, Ints

Pins = tuple[tuple[str, int], ...]
"""Fields of ``Parts`` that are given, each with its value."""
AXES = ("g", "m", "n", "k")


class Choice(NamedTuple):
    """A partition, what it takes, and how many were compared."""

    partition: Parts
    multiply: Figures
    reduce: Figures
    compared: int


class TooSmall(NamedTuple):
    """No partition fits: the one that needs least, and what its fullest tile would hold, B."""

    partition: Parts
    needed_B: int


def choose(unit: BspUnit, number_format: str, product: Product, room_B: int, pinned: Pins = ()) -> Choice | TooSmall:
    """Return the partition with the fewest clocks whose fullest tile holds at most ``room_B``; of equals the one that
    exchanges least, then the one on the fewest tiles, then with the fewest parts along groups, M and N.

    ``pinned``: parts along an axis that the user chose. Raises UsageError for more of them than there are tiles.
    """
    listed = Listed(unit, number_format, product, room_B, pinned)
    best = solve_listed(listed)
    if not best.tried:
        names = ", ".join(f"{name} {value}" for name, value in pinned)
        what = f"parts of a product of {product.groups} x {product.M} x {product.N} x {product.K}: {names}"
        expected = f"at most {unit.tiles:,} parts, none of them empty"
        raise UsageError(what, expected=expected)
    if not best.leaders:
        assert listed.least is not None
        return listed.least
    parts = Partitions(*np.array(best.leaders[0].choices, np.int64)[:, None])
    multiply, reduce = supersteps(unit, number_format, product, parts)
    return Choice(parts.one(0), multiply.one(0), reduce.one(0), best.scored)


class Listed:
    """The partitions of a product as a listing of ``mapping.search``: rows of parts along ``AXES``. ``least``: of those
    that do not fit the one that needs least."""

    def __init__(self, unit: BspUnit, number_format: str, product: Product, room_B: int, pinned: Pins = ()) -> None:
        self._unit, self._format, self._product = unit, number_format, product
        self._room_B, self._pinned = room_B, pinned
        self.least: TooSmall | None = None

    def every(self) -> Iterator[Ints]:
        """Yield all of them in one chunk."""
        yield np.stack(candidates(self._unit, self._format, self._product, self._pinned), axis=1)

    likely = every

    def costs(self, choices: Ints, limit: float) -> tuple[Floats, int]:
        """Return clocks, bytes received, tiles, parts along groups, M and N; see ``mapping.search.Costly``."""
        parts = Partitions(*choices.T)
        multiply, reduce = supersteps(self._unit, self._format, self._product, parts)
        held = np.maximum(multiply.held, reduce.held)
        fits = held <= self._room_B
        if len(held) and not fits.any():
            index = int(held.argmin())
            self.least = TooSmall(parts.one(index), int(held[index]))
        clocks, received = multiply.clocks + reduce.clocks, multiply.received + reduce.received
        keys = np.stack([clocks, received, parts.tiles, parts.g, parts.m, parts.n], axis=1)
        return np.where(fits[:, None], keys, np.inf), int(fits.sum())


def candidates(unit: BspUnit, number_format: str, product: Product, pinned: Pins = ()) -> Partitions:
    """Return the partitions on the available tiles whose largest part no smaller number of parts would give, or that
    have as many as are ``pinned``."""
    row = unit.formats[number_format]
    extents = (product.groups, product.M, int(ceil(product.N, row.n)), int(ceil(product.K, row.k)))
    found = np.zeros((0, 1), np.int64)
    tiles = np.ones(1, np.int64)
    for axis, extent in zip(AXES, extents, strict=True):
        counts = useful_parts(extent, unit.tiles)
        if asked := dict(pinned).get(axis):
            counts = np.array([asked] if asked <= extent else [], np.int64)
        old, new = np.nonzero(tiles[:, None] * counts <= unit.tiles)
        found, tiles = np.vstack((found[:, old], counts[new])), tiles[old] * counts[new]
    return Partitions(*found)


@lru_cache(maxsize=4096)
def useful_parts(extent: int, most: int) -> Ints:
    """Return numbers of parts, at most ``most``, each the least with its size of the largest part; int64, rising."""
    sizes = -(-extent // np.arange(1, min(extent, most) + 1))
    return np.unique(sizes, return_index=True)[1][::-1] + 1


def _sizes(row: TileFormat, product: Product, partition: Parts) -> tuple[Ints, Ints, Ints, Ints]:
    """Groups, rows, columns and reduction of the parts along each axis."""
    return (
        np.diff(cuts(product.groups, partition.g)),
        np.diff(cuts(product.M, partition.m)),
        np.diff(block_cuts(product.N, row.n, partition.n)),
        np.diff(block_cuts(product.K, row.k, partition.k)),
    )


def weights_of_tiles(row: TileFormat, product: Product, partition: Parts) -> Ints:
    """Return the bytes of weights that stay on the tile of each part, in the order (g, m, n, k), int64 [tiles]."""
    groups, _, n, k = _sizes(row, product, partition)
    pieces = groups[:, None, None, None] * n[:, None] * k
    least, more = np.divmod(pieces, partition.m)
    shares: Ints = least + (np.arange(partition.m)[:, None, None] < more)
    return (shares * product.b_B).reshape(-1)


def results_of_tiles(row: TileFormat, product: Product, partition: Parts) -> Ints:
    """Return the elements of the result that each part ends with, in the same order, int64 [tiles]."""
    groups, m, n, _ = _sizes(row, product, partition)
    sums = (groups[:, None, None] * m[:, None] * n)[..., None]
    least, more = np.divmod(sums, partition.k)
    shares: Ints = least + (np.arange(partition.k) < more)
    return shares.reshape(-1)
