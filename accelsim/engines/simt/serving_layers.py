"""Time of a linear layer of a serving stack in a graph of kernels, in closed form.

The product takes the fastest of seven tiles and, of 16-bit inputs, of five cuts of the loop over K: blocks run in
waves, of which the last one is soft, and each block takes its multiplications at a share of the peak, its operands at a
fixed pace, and a fixed time besides. Memory runs beside: both together take the 2.5-norm of the two. Weights and inputs
that the L2 cache holds come faster. A layer with narrow activations is two kernels: the first quantises its input, row
by row.

Form and tiles are those that explain the layers of ten GPUs under vLLM (docs/gpu-kernels.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from accelsim.engines.kernel_times import KernelCost
from accelsim.spec.serving import Layer, Served
from accelsim.types import Floats

COLUMNS = ("M", "K", "N", "layers", "quantiser")
"""Sizes; layers of the graph, each with weights of its own, before the same weights come again (0: so many that the L2
cache holds none); 1 where a kernel quantises the input, 0 where scales are static and another kernel does it."""
TILES = ((256, 256), (256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64))
"""Rows and columns of results of a block."""
CUTS = (1, 2, 4, 8, 16)
"""Parts of the loop over K."""
STEP, LEAST = 64, 256
"""Elements of K in a step of the loop, and of the shortest part of a loop that is cut."""
NORM = 2.5
"""Exponent with which computing and moving overlap."""
SHARP = 8
"""Exponent by which the share of what is read again that the L2 cache holds falls off with its size."""
RESULT_B, SUM_B = 2, 8
"""Bytes of a result, and of a sum that is written and read again."""


class Peak(NamedTuple):
    """Rates of a chip in one number format: multiprocessors, multiply-accumulates of each per clock, clock (Hz) and
    special functions per clock, DRAM (B/s) and L2 cache (B)."""

    multiprocessors: int
    macs: float
    clock_Hz: float
    special: float
    dram_Bps: float
    l2_B: int

    @property
    def macs_per_s(self) -> float:
        """Return the multiply-accumulates of all multiprocessors per second."""
        return self.multiprocessors * self.macs * self.clock_Hz


def overlapped(computing: Floats, moving: Floats) -> Floats:
    """Return the seconds of both side by side: their 2.5-norm."""
    found: Floats = (computing**NORM + moving**NORM) ** (1 / NORM)
    return found


def soft_waves(blocks: Floats, multiprocessors: int, softness: float) -> Floats:
    """Return how many blocks the busiest multiprocessor does one after the other, at least one."""
    waves = blocks / multiprocessors
    found: Floats = np.maximum(1.0, waves + softness * (np.ceil(waves) - waves))
    return found


def found_in_cache(again_B: Floats, room_B: float) -> Floats:
    """Return the share of bytes that are read again, ``again_B`` between two times, which the cache still holds; none
    of those that never come again (0)."""
    return np.where(again_B > 0, 1 / (1 + (again_B / room_B) ** SHARP), 0.0)


def least_work(form: Served, columns: Mapping[str, Floats]) -> tuple[Floats, Floats]:
    """Return the multiply-accumulates and the bytes that no kernel does without."""
    m, k, n = (columns[name] for name in ("M", "K", "N"))
    return m * k * n, k * n * form.weight_B + m * k * form.activation_B + m * n * RESULT_B


def layer_cost(constants: Layer, form: Served, peak: Peak, columns: Mapping[str, Floats]) -> KernelCost:
    """Return how long linear layers take, one row each: launches + quantising + the norm of computing and moving."""
    rows, depth, outputs = (columns[name] for name in ("M", "K", "N"))
    computing, waves, m, n, parts = _fastest(constants, peak, rows, depth, outputs, cuts=not form.quantises)
    moving = _moving(constants, form, peak, columns)
    launch, quantising = np.full(len(rows), float(constants.launch)), np.zeros(len(rows))
    if form.quantises:
        asked = columns["quantiser"] > 0
        moved = rows * depth * (RESULT_B + form.activation_B) / (constants.quantising * peak.dram_Bps)
        along = np.hypot(constants.row * rows + constants.along * depth, moved)
        quantising = np.where(asked, along, 0.0)
        launch = launch + np.where(asked, constants.quantiser, 0.0)
    else:
        computing = np.where(rows == 1, np.minimum(computing, constants.vector), computing)
    seconds = launch + quantising + overlapped(computing, moving)
    return KernelCost(seconds, launch, computing + quantising, moving, waves, m, n, parts)


def _fastest(
    constants: Layer, peak: Peak, rows: Floats, depth: Floats, outputs: Floats, cuts: bool
) -> tuple[Floats, ...]:
    """Seconds of the multiprocessors with the fastest tile and cut of each layer; its waves, sides and parts."""
    every = [(m, n, parts) for m, n in TILES for parts in (CUTS if cuts else CUTS[:1])]
    m, n, parts = np.array(every, float).T[..., None]
    blocks = np.ceil(rows / m) * np.ceil(outputs / n)
    each = m * n / (peak.macs * constants.sustained) + constants.feed / 1000 * (m + n)
    ends = constants.block + constants.results / 1000 * m * n
    clocks = np.ceil(depth / parts / STEP) * STEP * each + ends
    seconds = soft_waves(blocks * parts, peak.multiprocessors, constants.softness) * clocks / peak.clock_Hz
    sums_B = constants.added * parts * rows * outputs * SUM_B
    seconds = np.where(parts > 1, seconds + (constants.reduction + sums_B / peak.dram_Bps), seconds)
    seconds[(parts > 1) & (depth / parts < LEAST)] = np.inf
    best, at = np.argmin(seconds, axis=0), np.arange(len(rows))
    waves = (blocks * parts / peak.multiprocessors)[best, at]
    return seconds[best, at], waves, m[best, 0], n[best, 0], parts[best, 0]


def _moving(constants: Layer, form: Served, peak: Peak, columns: Mapping[str, Floats]) -> Floats:
    """Seconds of weights, inputs and results."""
    rows, depth, outputs = (columns[name] for name in ("M", "K", "N"))
    weights, inputs = depth * outputs * form.weight_B, rows * depth * form.activation_B
    results = rows * outputs * RESULT_B
    again = np.where(columns["layers"] > 0, columns["layers"] * weights + inputs + results, 0.0)
    hit = found_in_cache(again, constants.room * peak.l2_B)
    moved = (weights + inputs + results) * (1 - hit * (1 - 1 / constants.cached))
    found: Floats = moved / (constants.memory * peak.dram_Bps)
    return found
