"""The best mapping of a convolution on a row-stationary array by clocks or, as the paper chose, by energy."""

from __future__ import annotations

import numpy as np

from accelsim.engines.row_stationary.laws import ceil
from accelsim.engines.row_stationary.mapper import Costs, Legal, Objective, least, least_clocks
from accelsim.engines.row_stationary.shape import Conv, Geometry, Mapping, Mappings
from accelsim.errors import known
from accelsim.types import Ints

RELATIVE_ENERGY = {"macs": 1, "pad": 1, "noc": 2, "glb": 6, "dram": 200}
"""Cost of an access over that of a multiply-accumulate: ISCA 2016, Table IV."""


def energy(costs: Costs) -> Ints:
    """Energy in multiply-accumulates, by ``RELATIVE_ENERGY``."""
    total = np.zeros_like(costs.clocks)
    for level, cost in RELATIVE_ENERGY.items():
        total += cost * (costs.counts.macs if level == "macs" else costs.counts.level(level))
    return total


def _least_energy(conv: Conv, array: Geometry, maps: Mappings) -> Ints:
    """Products with their four accesses of pads, psums to the buffer and back, what DRAM gives for whole blocks."""
    ifmaps = conv.N * conv.G * conv.C * conv.columns * (conv.M // maps.m)
    filters = conv.G * conv.M * conv.C * conv.R * conv.S * (conv.N // maps.n) * (conv.E // maps.e)
    rows = conv.rows(maps.e) * (conv.E // maps.e)
    psums = conv.N * conv.G * conv.M * conv.E * conv.F * ceil(conv.C + 0 * maps.r, maps.q * maps.r)
    dram, glb = ifmaps * rows + filters, 2 * psums
    least: Ints = 5 * conv.macs + RELATIVE_ENERGY["dram"] * dram + RELATIVE_ENERGY["glb"] * glb
    return least


OBJECTIVES = {
    "clocks": Objective(lambda x: (x.clocks, x.counts.level("dram"), x.counts.level("glb")), least_clocks),
    "energy": Objective(lambda x: (energy(x), x.clocks), _least_energy),
}
"""What the best mapping has least of: clocks, then words of DRAM, then of the buffer; or energy, as the paper chose."""


def best(conv: Conv, array: Geometry, objective: str = "clocks") -> Mapping:
    """The mapping with the least of an objective of ``OBJECTIVES``; of equal ones the first.

    Raises UsageError for an unknown objective, Infeasible where no mapping is legal.
    """
    keys = OBJECTIVES[known("objective", objective, OBJECTIVES)]
    return least(conv, array, Legal(conv, array, keys)).mappings[0]
