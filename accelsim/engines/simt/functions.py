"""Times of kernels of functions on rows, in closed form: elementwise ones, softmax, norms, copies.

Such a kernel streams: it takes what it moves at the usable bandwidth of the memory, or its special functions where
these take longer. Where a function needs the elements of a row again (``passes``), they come from the L2 cache while
the rows that all multiprocessors work at together fit into half of it, else from DRAM once more.

A row of no more than 1,024 elements is a warp's, which reduces it in its registers. The warps of a block share a longer
one: at each of its reductions they wait for each other, which empties and fills the block as its ends do (``prologue``
and ``epilogue``); the first blocks hide that behind no others.

A framework's host needs ``host`` times its ``dispatch`` for the call (a kernel that runs alone is over no earlier),
about half of it before the device begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from accelsim.engines.kernel_times import KernelCost
from accelsim.engines.simt.products import ALIGNED_B, ChipRates
from accelsim.engines.simt.spec import BEFORE, Simt
from accelsim.types import Floats

WARP_ROW = 1024
"""Elements of a row that a warp has in its registers; a longer one is a block's."""
ROW_THREADS = 128
"""Threads of a block that works at a row: with them, rows that a multiprocessor has under way."""
RAGGED_ROWS = 6
"""Extra time, relative, where rows do not begin at multiples of 16 B; fitted to layer norms of the H200."""
CACHED = 0.5
"""Share of the L2 cache in which rows stay for another pass."""


class Streams(NamedTuple):
    """Kernels of functions as columns: bytes that they move, special functions, the host's work; reductions for which
    the warps of a block wait for each other; clocks of all multiprocessors for their rows; share of a launch."""

    moved_B: Floats
    special: Floats
    host: Floats
    waits: Floats
    rows: Floats
    launch: Floats


def streams(spec: Simt, rates: ChipRates, columns: Mapping[str, Floats]) -> Streams:
    """Return the work of kernels, which depends on no fitted constant. Columns: ``reads``, ``writes``: elements per
    element of the shape; ``passes`` over what is read; ``traffic``: how much more is moved than these say;
    ``special`` functions per element; ``host``: its work for a call, that for an addition is 1; ``reductions`` of a
    row, one after the other; ``row``: clocks of a multiprocessor for each row, ``along`` for each element of the
    first rows; ``ragged``: by how much longer moving takes where rows do not begin at multiples of 16 B;
    ``launch``: the share of a kernel's that it takes to begin."""
    rows, elements = columns["rows"], columns["rows"] * columns["cols"]
    row_B = columns["cols"] * columns["element_B"]
    under_way = np.minimum(rows, spec.multiprocessors * max(1, spec.threads // ROW_THREADS)) * row_B
    again = np.where(under_way > CACHED * rates.l2_B, columns["passes"], 1.0)
    moved = elements * columns["element_B"] * (columns["reads"] * again + columns["writes"])
    waits = np.where(columns["cols"] > WARP_ROW, columns["reductions"], 0.0)
    ragged = np.where(row_B % ALIGNED_B != 0, columns["ragged"], 0.0)
    of_rows = rows * columns["row"] * (1 + RAGGED_ROWS * (ragged > 0)) / spec.multiprocessors
    of_rows += columns["cols"] * columns["along"]
    moved, special = moved * columns["traffic"] * (1 + ragged), elements * columns["special"]
    return Streams(moved, special, columns["host"], waits, of_rows, columns["launch"])


def stream_times(spec: Simt, rates: ChipRates, kernels: Streams) -> KernelCost:
    """Return how long kernels of functions take."""
    moving = kernels.moved_B / rates.dram_Bps
    computing = kernels.special / (spec.special * spec.multiprocessors * rates.clock_Hz)
    host = kernels.host * spec.dispatch
    waiting = (kernels.waits * (spec.prologue + spec.epilogue) + kernels.rows) / rates.clock_Hz
    before = kernels.launch * spec.launch + BEFORE * host
    seconds = np.maximum(host, before + waiting + np.maximum(moving, computing))
    none = np.zeros(len(seconds))
    return KernelCost(seconds, np.maximum(host, before), computing, moving, none, none, none, none + 1)
