"""The machine, stated, and its closed form: clocks of a layer under a mapping.

**A processing pass** has ``f`` filters, ``c`` channels, ``n`` ifmaps and a strip of ``e`` rows of the ofmap. A *chain*
is a column of R x r PEs, which makes one row of the ofmap for the filters of its set: PE i of set s multiplies row i
of the filter with the row of the ifmap that it needs, for the channels of set s. Every PE holds p' filters of q'
channels (the fullest; it stands at the foot of a chain).

1. *Load.* Filters fill the pads, ``filter_words`` a clock, each word on the bus once, however many PEs take it. At the
   same time the first window (S columns of all rows and channels) comes over the ifmap bus, one word of it for all PEs
   that need it. The psum networks first empty what the pass before left, then bring the psums of the first step:
   no psum is read before all that the pass before wrote are in the buffer. The load takes as long as the longest of
   the three. It does not overlap with multiplying: the pads of filters have one port and hold one pass.
2. *Steps*, one for each column of the ofmap of each ifmap. A PE multiplies q' S words with p' filters, one product a
   clock, then adds for each of its p' psums the one that comes up the chain: there is one adder, which takes either the
   product or the psum from below, so that takes a clock each. That is ``p' (q' S + 1)`` clocks. In the meantime the
   buses bring what the next step needs, new columns and psums, and take away the psums of the step before. They have
   FIFOs of a step at the PEs; a step lasts as long as the longest of the four. Where the next step begins an ifmap, it
   needs a whole window.
3. *Skew.* The PE above can add a clock later than the one below: R r' - 1 clocks once a pass, as all PEs run skewed.

Psums of the last step leave during the load of the next pass; after the last pass of an output tile they leave before
the next tile begins. DRAM is not waited for (the chip's table, too, tells processing time without it).

Assumed, where the papers do not say: networks need no clocks of latency; FIFOs hold what comes early by the skew; the
buffer serves all networks at once, being made of banks; the two stages of the multiplier, two clocks a pass, are left
out; a zero in the ifmap takes its clock, for the chip only gates it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelsim.engines.row_stationary.counts import Passes, last_filters, passes, spread, tiles
from accelsim.engines.row_stationary.laws import ceil
from accelsim.engines.row_stationary.shape import Conv, Geometry, Mapping, Mappings
from accelsim.types import Ints


def load_clocks(conv: Conv, array: Geometry, kind: Passes) -> Ints:
    """Clocks until the first product of a pass, int64 [k]."""
    filters = ceil(kind.f * kind.c * conv.R * conv.S, array.filter_words)
    window = ceil(kind.c * conv.rows(kind.e) * conv.S, array.ifmap_words)
    psums = ceil(kind.before * kind.e, array.psum_words) + _psums_in(array, kind)
    longest: Ints = np.maximum(np.maximum(filters, window), psums)
    return longest


def _psums_in(array: Geometry, kind: Passes) -> Ints:
    return (1 - kind.first) * ceil(kind.f * kind.e, array.psum_words)


class Steps(NamedTuple):
    """Clocks of the steps of a pass by what they wait for, int64 [k] each.

    ``busy``: the PEs; ``out``: the psums of the step before leave; ``slide`` and ``window``: PEs, psums that come, and
    the columns that the next step needs, new ones or (where it begins an ifmap) a whole window.
    """

    busy: Ints
    out: Ints
    slide: Ints
    window: Ints


def steps(conv: Conv, array: Geometry, maps: Mappings, kind: Passes) -> Steps:
    """Return the clocks of the steps of a pass by what they wait for."""
    filters, channels = spread(kind.f, maps.t)[0], spread(kind.c, maps.r)[0]
    busy = filters * (channels * conv.S + 1)
    rows, here = kind.c * conv.rows(kind.e), np.maximum(busy, _psums_in(array, kind))
    window = np.maximum(here, ceil(rows * conv.S, array.ifmap_words))
    slide = np.maximum(here, ceil(rows * min(conv.U, conv.S), array.ifmap_words))
    return Steps(busy, ceil(kind.f * kind.e, array.psum_words), slide, window)


def step_clocks(conv: Conv, array: Geometry, maps: Mappings, kind: Passes) -> Ints:
    """Return the clocks of all steps of a pass, int64 [k]."""
    each, count = steps(conv, array, maps, kind), kind.n * conv.F
    first = each.window if conv.F == 1 else each.slide
    windows = np.maximum(kind.n - 1 - (conv.F == 1), 0)
    slides = count - 2 - windows
    between = windows * np.maximum(each.window, each.out) + slides * np.maximum(each.slide, each.out)
    return np.where(count == 1, each.busy, first + between + np.maximum(each.busy, each.out))


def skew_clocks(conv: Conv, maps: Mappings, kind: Passes) -> Ints:
    """Return the clocks by which the foot of a chain is ahead of its top, int64 [k]."""
    skew: Ints = conv.R * spread(kind.c, maps.r)[1] - 1
    return skew


def pass_clocks(conv: Conv, array: Geometry, maps: Mappings, kind: Passes) -> Ints:
    """Clocks of a pass from its first word to its last sum, int64 [k]."""
    worked = step_clocks(conv, array, maps, kind) + skew_clocks(conv, maps, kind)
    return load_clocks(conv, array, kind) + worked


def image_clocks(conv: Conv, array: Geometry, maps: Mappings, kind: Passes) -> list[int]:
    """Return the clocks of one mapping's pass, ifmap by ifmap: the first with the load, the last with the skew. Their
    sum is ``pass_clocks``; the wait of an ifmap's last step for the next ifmap counts for the former."""
    total, count = int(pass_clocks(conv, array, maps, kind)[0]), int(kind.n[0])
    if count == 1:
        return [total]
    each = steps(conv, array, maps, kind)
    slides = (conv.F - 1) * np.maximum(each.slide, each.out)
    middle = int((slides + np.maximum(each.window, each.out))[0])
    last = int((slides + np.maximum(each.busy, each.out) + skew_clocks(conv, maps, kind))[0])
    return [total - (count - 2) * middle - last, *[middle] * (count - 2), last]


def layer_clocks(conv: Conv, array: Geometry, maps: Mappings) -> Ints:
    """Clocks of a layer under each of many legal mappings, int64 [k]."""
    total = np.zeros(len(maps.m), dtype=np.int64)
    for tile in tiles(conv, maps):
        for kind in passes(conv, maps, tile):
            total += kind.number * pass_clocks(conv, array, maps, kind)
        total += tile.number * ceil(last_filters(maps, tile) * tile.e, array.psum_words)
    return total


def clocks(conv: Conv, array: Geometry, mapping: Mapping) -> int:
    """Clocks of a layer under one legal mapping."""
    return int(layer_clocks(conv, array, mapping.many())[0])
