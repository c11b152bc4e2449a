"""Least time of products on multiprocessors: kernels one after the other, each with its fastest tile."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np

from accelsim.engines.base import Beside, Least, Multiplied, PriceList
from accelsim.engines.kernel_times import ROW_CLOCKS
from accelsim.engines.simt.actions import AROUND, near_actions
from accelsim.engines.simt.algorithms import MULTIPLIED, fastest, has_others
from accelsim.engines.simt.constants import Device
from accelsim.engines.simt.kernels import columns, lanes_clocks
from accelsim.engines.simt.panels import Product
from accelsim.engines.simt.products import Products, candidates, shapes, timed
from accelsim.program.actions import ACTIVE, READ, ActionName, mac
from accelsim.program.roles import Unit, streams_of
from accelsim.spec.chip import Chip
from accelsim.spec.multiplying import operands_B
from accelsim.time import FS
from accelsim.types import Floats
from accelsim.workload.graph import Tensor
from accelsim.workload.ops.base import Gemm


def least(chip: Chip, unit: Unit, name: str, products: Multiplied) -> list[Least]:
    """Return the least seconds of each product in a format, and numbers of other results that are added to it; 0 of
    several groups, which may be part of another kernel."""
    device, found = Device(chip, unit.name), [Least(0.0, 0.0)] * len(products)
    begin = float(min(device.spec.follow, device.spec.launch))
    for convolves in (False, True):
        asked = [
            at for at, (each, _) in enumerate(products) if each.groups == 1 and (each.conv is not None) == convolves
        ]
        if asked:
            computing, left_out = _computing(device, name, [products[at][0] for at in asked])
            read, written = _moving(device, name, [products[at] for at in asked])
            first, whole = begin + np.maximum(computing, read), begin + np.maximum(computing, read + written)
            for at, *each in zip(asked, *(column.tolist() for column in (first, whole, left_out)), strict=True):
                found[at] = Least(each[0], 0.0, *each[1:])
    return found


def functions_s(device: Device, name: str, group: Sequence[Beside]) -> float:
    """Return the least seconds of kernels of functions in a graph of kernels: of their launches and lanes, or of what
    comes from memory and goes there, since the cache cannot hold even a quarter of what a kernel moves."""
    launch_s, lanes_s, away_s = float(min(device.spec.follow, device.spec.launch)), 0.0, 0.0
    for each in group:
        moved_B = ceil(each.moved * max(map(float, operands_B(name))))
        functions = [(op, each.numbers) for op in each.ops]
        rows = sum(ROW_CLOCKS.get(op, 0) for op in each.ops) * each.rows
        clocks = lanes_clocks(device.spec, device.rates, functions, moved_B, rows)
        lanes_s += launch_s + clocks / device.rates.clock_Hz
        away_s += moved_B / device.rates.dram_Bps if moved_B > 4 * device.rates.l2_B else 0.0
    return max(lanes_s, launch_s + away_s)


def layers_J(
    device: Device, name: str, products: Sequence[Gemm], seconds: Sequence[float], prices: PriceList
) -> list[float]:
    """Return the least joules of kernels of linear layers that take ``seconds``, 0 of products of activations, with the
    tile that takes least. Rows fill whole tiles, padding too has instructions around it. Each block brings its operands
    from the cache into shared memory and from there into registers, and keeps a multiprocessor busy."""

    def price(action: str) -> float:
        return prices.get((device.name, action), 0.0)

    m, n, k = (np.array([[float(getattr(each, side))] for each in products]) for side in "MNK")
    tiles = device.spec.tiles_of(name)
    tile_m, tile_n = (np.array([float(getattr(tile, side)) for tile in tiles]) for side in "mn")
    rows, (a_B, b_B) = np.ceil(m / tile_m), map(float, operands_B(name))
    near_J = prices.get((device.roles.activations, READ), 0.0) + sum(map(price, near_actions(1, 1, 1)))
    around_J = price(ActionName(AROUND, name)) * rows * tile_m * n * k
    moved_J = near_J * rows * n * k * (tile_m / tile_n * a_B + b_B)
    busy = np.minimum(1.0, rows * n / tile_n / device.spec.multiprocessors) * (streams_of(device.spec) == 1)
    active_J = price(ACTIVE) / FS * np.array(seconds)[:, None] * busy
    joules = price(mac(name)) * m * n * k + np.min(around_J + moved_J + active_J, axis=1, keepdims=True)
    return [own if each.b else 0.0 for own, each in zip(joules[:, 0].tolist(), products, strict=True)]


def _computing(device: Device, name: str, products: Sequence[Gemm]) -> tuple[Floats, Floats]:
    """Seconds of the multiprocessors with the fastest tile and algorithm; multiplications that this leaves out."""
    empty = Tensor("", (0,), name)
    rows = [columns(device.spec, Product(each, name, empty, empty, empty)) for each in products]
    every = Products(*map(np.concatenate, zip(*rows, strict=True)))
    found = candidates(device.spec, name, every)
    seconds = timed(device.spec, device.rates, name, shapes(device.spec, device.rates, name, every, found)).computing
    least, left_out = np.minimum.reduceat(seconds, found.starts), np.zeros(len(products))
    others = [at for at, each in enumerate(products) if has_others(device.spec, name, each)]
    if others:
        for at, (share, algorithm) in zip(others, fastest(device, name, [products[at] for at in others]), strict=True):
            least[at] *= min(1.0, share)
            left_out[at] = products[at].macs * (1 - float(MULTIPLIED[algorithm]))
    return least, left_out


def _moving(device: Device, name: str, products: Multiplied) -> tuple[Floats, Floats]:
    """Seconds in which operands come from memory, of the input of a convolution a place for each result; and those in
    which other results come and its own go."""
    a_B, b_B = map(float, operands_B(name))
    every = [gemm for gemm, _ in products]
    read = [each.N * each.K * b_B + each.M * (each.conv.channels if each.conv else each.K) * a_B for each in every]
    written = [(each.M * each.N + beside) * a_B for each, beside in products]
    return np.array(read) / device.rates.dram_Bps, np.array(written) / device.rates.dram_Bps
