"""Least time of products on multiprocessors: kernels one after the other, each with its fastest tile."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accelsim.engines.base import Least
from accelsim.engines.simt.constants import Device
from accelsim.engines.simt.convolutions import CHANNELS
from accelsim.engines.simt.kernels import columns
from accelsim.engines.simt.panels import Product
from accelsim.engines.simt.products import Products, candidates, shapes, timed
from accelsim.program.roles import Unit
from accelsim.spec.chip import Chip
from accelsim.spec.multiplying import operands_B
from accelsim.types import Floats
from accelsim.workload.graph import Tensor
from accelsim.workload.ops.base import Gemm

FILTER = 3
"""Side of a filter from which algorithms with fewer multiplications may take its place."""


def least(chip: Chip, unit: Unit, name: str, products: Sequence[Gemm]) -> list[Least]:
    """Return the least seconds of each product in a format; 0 of several groups, which may be part of another
    kernel."""
    device, found = Device(chip, unit.name), [Least(0.0, 0.0)] * len(products)
    begin = float(min(device.spec.follow, device.spec.launch))
    for convolves in (False, True):
        asked = [at for at, each in enumerate(products) if each.groups == 1 and (each.conv is not None) == convolves]
        if asked:
            every = [products[at] for at in asked]
            seconds = np.maximum(_computing(device, name, every), _loading(device, name, every))
            for at, each in zip(asked, seconds.tolist(), strict=True):
                found[at] = Least(begin + each, 0.0)
    return found


def _computing(device: Device, name: str, products: Sequence[Gemm]) -> Floats:
    """Seconds of the multiprocessors with the fastest tile; 0 where another algorithm may be faster."""
    empty = Tensor("", (0,), name)
    rows = [columns(device.spec, Product(each, name, empty, empty, empty)) for each in products]
    every = Products(*map(np.concatenate, zip(*rows, strict=True)))
    found = candidates(device.spec, name, every)
    seconds = timed(device.spec, device.rates, name, shapes(device.spec, device.rates, name, every, found)).computing
    fewer = np.array([_has_others(device, name, each) for each in products])
    fastest: Floats = np.where(fewer, 0.0, np.minimum.reduceat(seconds, found.starts))
    return fastest


def _has_others(device: Device, name: str, gemm: Gemm) -> bool:
    """Return whether a convolution may be computed by another algorithm than the product."""
    if gemm.conv is None:
        return False
    least = FILTER + (device.spec.formats[name].convolution is not None)
    return min(gemm.conv.kernel) >= least or gemm.conv.channels < CHANNELS


def _loading(device: Device, name: str, products: Sequence[Gemm]) -> Floats:
    """Seconds in which operands come from memory; of the input of a convolution a place for each result."""
    a_B, b_B = map(float, operands_B(name))
    moved = [each.N * each.K * b_B + each.M * (each.conv.channels if each.conv else each.K) * a_B for each in products]
    return np.array(moved) / device.rates.dram_Bps
