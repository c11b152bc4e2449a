"""The processing passes of a layer, counted by kind.

Loops from the outside: groups, blocks of ``m`` filters, blocks of ``n`` ifmaps, strips of ``e`` rows; these make an
*output tile*, whose psums are in the global buffer until they are done. In it: blocks of ``q r`` channels, and in these
blocks of ``p t`` filters. One turn of the innermost loop is a processing pass. A block that does not come out even is
smaller, and its filters (channels) are spread evenly: ``ceil(f / t)`` per PE, over as few sets as that needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np

from accelsim.engines.row_stationary.laws import ceil, most_channels
from accelsim.engines.row_stationary.shape import Conv, Mappings
from accelsim.types import Ints


class Tiles(NamedTuple):
    """``number`` output tiles of ``m`` filters, ``n`` ifmaps and ``e`` rows, int64 [k] each."""

    number: Ints
    m: Ints
    n: Ints
    e: Ints


class Passes(NamedTuple):
    """``number`` processing passes of one kind, int64 [k] each.

    ``f`` filters, ``c`` channels, ``n`` ifmaps, ``e`` rows of the ofmap. ``before``: filters of the pass before it in
    the tile, 0 where there is none. ``first``, ``last``: 1 where the psums are new, and where they are done.
    ``fetches``: 1 where the pass is the first that needs its channels, which then come from DRAM.
    """

    number: Ints
    f: Ints
    c: Ints
    n: Ints
    e: Ints
    before: Ints
    first: Ints
    last: Ints
    fetches: Ints


def spread(things: Ints, sets: Ints) -> tuple[Ints, Ints]:
    """Return the things of the fullest set, and the sets that have any, when things are spread evenly over sets."""
    most = ceil(things, sets)
    return most, ceil(things, most)


def _parts(total: int | Ints, size: Ints) -> tuple[tuple[Ints, Ints], tuple[Ints, Ints]]:
    rest = total % size
    return (total // size, size), (np.minimum(rest, 1), np.maximum(rest, 1))


def tiles(conv: Conv, maps: Mappings) -> Iterator[Tiles]:
    """Yield output tiles by kind; kinds that no mapping has are left out."""
    kinds = product(_parts(conv.M, maps.m), _parts(conv.N, maps.n), _parts(conv.E, maps.e))
    for (blocks, m), (batches, n), (strips, e) in kinds:
        number = conv.G * blocks * batches * strips
        if number.any():
            yield Tiles(number, m, n, e)


def last_filters(maps: Mappings, tile: Tiles) -> Ints:
    """Filters of the last pass of each block of channels."""
    return (tile.m - 1) % (maps.p * maps.t) + 1


def _filter_blocks(maps: Mappings, tile: Tiles) -> Iterator[tuple[Ints, Ints, Ints, bool]]:
    """(number, filters, filters of the pass before, leads) of one block of channels: first, further full, remainder."""
    full, last = np.minimum(maps.p * maps.t, tile.m), last_filters(maps, tile)
    blocks = ceil(tile.m, maps.p * maps.t)
    uneven = (last < full) & (blocks > 1)
    yield np.ones_like(full), full, last, True
    yield blocks - 1 - uneven, full, full, False
    yield uneven.astype(np.int64), last, full, False


def _channel_blocks(conv: Conv, maps: Mappings) -> Iterator[tuple[Ints, Ints, bool, Ints]]:
    """(number, channels, first, last): the first block, those between, the last where it is not the first."""
    full = most_channels(conv, maps)
    blocks = ceil(np.full_like(full, conv.C), full)
    single = (blocks == 1).astype(np.int64)
    yield np.ones_like(full), full, True, single
    yield np.maximum(blocks - 2, 0), full, False, 0 * single
    yield 1 - single, (conv.C - 1) % full + 1, False, 1 + 0 * single


def passes(conv: Conv, maps: Mappings, tile: Tiles) -> Iterator[Passes]:
    """Yield the processing passes of one kind of tile, by kind; ``number`` is of all tiles of the kind together."""
    kinds = product(list(_channel_blocks(conv, maps)), list(_filter_blocks(maps, tile)))
    for (blocks, c, first, last), (times, f, before, leads) in kinds:
        number = tile.number * blocks * times
        if number.any():
            seen = np.zeros_like(f) if first and leads else before
            flags = (np.full_like(f, first), last, np.full_like(f, leads))
            yield Passes(number, f, c, tile.n, tile.e, seen, *flags)
