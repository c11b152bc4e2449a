"""Closed forms of every access of a layer, in words, proven equal to what the PE-level model counts."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Generic

import numpy as np

from accelsim.engines.row_stationary.passes import Passes, passes, spread, tiles
from accelsim.engines.row_stationary.shape import Conv, Mapping, Mappings, Number
from accelsim.types import Ints


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
