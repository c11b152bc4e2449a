"""The processing passes of a layer, counted by kind, and the closed forms of every access, in words.

Loops from the outside: groups, blocks of ``m`` filters, blocks of ``n`` ifmaps, strips of ``e`` rows; these make an
*output tile*, whose psums are in the global buffer until they are done. In it: blocks of ``q r`` channels, and in these
blocks of ``p t`` filters. One turn of the innermost loop is a processing pass. A block that does not come out even is
smaller, and its filters (channels) are spread evenly: ``ceil(f / t)`` per PE, over as few sets as that needs.

The counts are proven equal to those of the PE-level model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import product
from typing import Generic, NamedTuple

import numpy as np

from accelsim.engines.row_stationary.laws import ceil, most_channels
from accelsim.engines.row_stationary.shape import Conv, Mapping, Mappings, Number
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


@dataclass(frozen=True)
class Counts(Generic[Number]):
    """Accesses of one layer, in words; int, or int64 [k] for many mappings.

    * ``macs``: products, those with zeros among them.
    * ``*_pad_reads``, ``*_pad_writes``: scratch pads of all PEs. A product reads an ifmap word and a filter word. It
      reads its psum, unless it is the first of the psum in the step, and writes it; the psum is read once more when it
      goes up the chain, so reads and writes are one per product. Pads are written once per word that a PE takes.
    * ``psum_hops``: psums from a PE to the one above it.
    * ``noc_*``: words on the bus of each operand, once for all PEs that take them.
    * ``glb_*``: global buffer. ``glb_ofmap_reads``: finished psums on their way to DRAM.
    * ``dram_*``: off the chip. ifmap rows come once for each block of ``m`` filters, the rows that strips share again;
      filters come for each pass; ofmaps leave once. Nothing is compressed here, see ``rlc``.
    """

    macs: Number
    ifmap_pad_reads: Number
    ifmap_pad_writes: Number
    filter_pad_reads: Number
    filter_pad_writes: Number
    psum_pad_reads: Number
    psum_pad_writes: Number
    psum_hops: Number
    noc_ifmap: Number
    noc_filter: Number
    noc_psum_in: Number
    noc_psum_out: Number
    glb_ifmap_writes: Number
    glb_ifmap_reads: Number
    glb_filter_writes: Number
    glb_filter_reads: Number
    glb_psum_writes: Number
    glb_psum_reads: Number
    glb_ofmap_reads: Number
    dram_ifmap_reads: Number
    dram_filter_reads: Number
    dram_ofmap_writes: Number

    def level(self, name: str) -> Number:
        """Return the accesses of one level: ``pad``, ``noc`` (between PEs, or PEs and buffer), ``glb`` or ``dram``."""
        named = [key for key in COUNTS if name in key.split("_") or (name == "noc" and key == "psum_hops")]
        total: Number = sum(getattr(self, key) for key in named)
        return total


COUNTS = tuple(field.name for field in fields(Counts))


def pass_counts(conv: Conv, maps: Mappings, kind: Passes) -> Counts[Ints]:
    """Return the accesses of one pass of a kind, int64 [k]."""
    filters = kind.f * kind.c * conv.R * conv.S
    rows = kind.n * kind.c * conv.rows(kind.e)
    psums = kind.n * kind.f * kind.e * conv.F
    macs = psums * kind.c * conv.R * conv.S
    chain = conv.R * spread(kind.c, maps.r)[1]
    taken = spread(kind.f, maps.t)[1] * conv.R * kind.e * kind.n * kind.c * conv.columns
    again, done = (1 - kind.first) * psums, kind.last * psums
    fetched, window = kind.fetches * rows * conv.W, rows * conv.columns
    return Counts(
        macs=macs, ifmap_pad_reads=macs, ifmap_pad_writes=taken, filter_pad_reads=macs,
        filter_pad_writes=filters * kind.e, psum_pad_reads=macs, psum_pad_writes=macs, psum_hops=psums * (chain - 1),
        noc_ifmap=window, noc_filter=filters, noc_psum_in=again, noc_psum_out=psums,
        glb_ifmap_writes=fetched, glb_ifmap_reads=window, glb_filter_writes=filters, glb_filter_reads=filters,
        glb_psum_writes=psums, glb_psum_reads=again, glb_ofmap_reads=done,
        dram_ifmap_reads=fetched, dram_filter_reads=filters, dram_ofmap_writes=done,
    )  # fmt: skip


def layer_counts(conv: Conv, maps: Mappings) -> Counts[Ints]:
    """Return the accesses of a layer under each of many legal mappings, int64 [k]."""
    total = {name: np.zeros(len(maps.m), dtype=np.int64) for name in COUNTS}
    for tile in tiles(conv, maps):
        for kind in passes(conv, maps, tile):
            for name, words in vars(pass_counts(conv, maps, kind)).items():
                total[name] += kind.number * words
    return Counts(**total)


def counts(conv: Conv, mapping: Mapping) -> Counts[int]:
    """Return the accesses of a layer under one legal mapping."""
    return Counts(**{name: int(words[0]) for name, words in vars(layer_counts(conv, mapping.many())).items()})
