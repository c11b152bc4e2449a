"""Laws of many mappings at once: the same as ``levels.refusals``, as columns."""

from __future__ import annotations

from collections.abc import Mapping as Fields
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accelsim.mapping.columns import Mappings
from accelsim.mapping.levels import Hierarchy
from accelsim.types import Ints
from accelsim.workload.nest import LoopNest
from accelsim.workload.windows import touched


@dataclass(frozen=True)
class Legality:
    """``ok`` [N]: no law is broken. ``footprint_B`` [N, levels]: bytes of the tiles in one instance of each level."""

    ok: NDArray[np.bool_]
    footprint_B: Ints


def tile_words(nest: LoopNest, tiles: Ints) -> Ints:
    """Words of each operand in tiles of these extents, [..., axes] to [..., operands]."""
    places = {axis: index for index, axis in enumerate(nest.axes)}
    columns = []
    for operand in nest.operands:
        words = np.ones(tiles.shape[:-1], np.int64)
        for form in operand.dims.values():
            extents = tuple(tiles[..., places[axis]] for axis in form.axes)
            words *= touched(form.coefficients, extents)
        columns.append(words)
    return np.stack(columns, axis=-1)


def footprints_B(nest: LoopNest, word_B: Fields[str, float], tiles: Ints, slots: Ints) -> Ints:
    """Bytes of kept tiles, [..., axes] and slots [..., operands] to [...]; each tile in whole bytes."""
    bytes_each = np.array([word_B[operand.name] for operand in nest.operands])
    whole = np.ceil(tile_words(nest, tiles) * bytes_each).astype(np.int64)
    return np.asarray((whole * slots).sum(axis=-1), np.int64)


def legality(nest: LoopNest, hierarchy: Hierarchy, mappings: Mappings) -> Legality:
    """Which rows break no law: coverage, lanes, capacities, what must be and what may be kept."""
    extents = np.array(list(nest.axes.values()), np.int64)
    inside = mappings.inside()
    tiles = np.minimum(inside[:, :-1], extents)
    needed = footprints_B(nest, hierarchy.word_B, tiles, mappings.slots)
    ok = (inside[:, 0] >= extents).all(axis=1) & (mappings.slots[:, 0] > 0).all(axis=1)
    names = list(mappings.frame.operands)
    for level, store in enumerate(hierarchy.stores):
        if store.capacity_B is not None:
            ok &= needed[:, level] <= store.capacity_B
        for index, name in enumerate(names):
            kept = mappings.slots[:, level, index] > 0
            if store.may_keep is not None and name not in store.may_keep:
                ok &= ~kept
            if name in store.must_keep:
                ok &= kept
        lanes, where = mappings.spatial[:, level], mappings.dimension[:, level]
        ok &= ((where >= 0) | (lanes == 1)).all(axis=1)
        for place, dimension in enumerate(mappings.frame.dimensions):
            ok &= np.where(where == place, lanes, 1).prod(axis=1) <= store.units.get(dimension, 1)
    return Legality(np.asarray(ok, np.bool_), needed)
