"""The kernels of multiprocessors as ``KernelModel``: a table of families, each a closed form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from accelsim.engines.kernel_times import Columns, KernelCost, KernelModel, KernelTimes, Names, Prepared, ServingKernel
from accelsim.engines.simt import attention, convolutions, functions
from accelsim.engines.simt.constants import Device
from accelsim.engines.simt.products import Candidates, Products, Shapes, best, candidates, cut, dense, shapes, timed
from accelsim.engines.simt.served import as_kernel
from accelsim.engines.simt.serving import KINDS, serving_formats, serving_kernels
from accelsim.engines.simt.spec import BEFORE
from accelsim.program.roles import Unit
from accelsim.spec.chip import Chip
from accelsim.types import Array, Bools, Floats
from accelsim.workload.graph import Graph, Node
from accelsim.workload.nodes import is_attention, is_product

SHARED = (
    ("format.sustained",),
    ("memory.efficiency",),
    ("launch",),
    ("format.feed",),
    ("softness",),
    ("prologue", "epilogue"),
    ("droop",),
)
"""Constants that measured products determine, the best determined first. Where a framework's host asked for them,
``dispatch`` stands for ``launch``."""
FUNCTION = (("memory.efficiency",), ("dispatch",), ("launch",))
CONVOLUTION = (
    ("format.sustained",),
    ("memory.efficiency",),
    ("convolution.call",),
    ("convolution.fused",),
    ("convolution.filters",),
    ("convolution.transforms",),
    ("droop",),
)
IMPLICIT = (
    ("format.convolution.sustained",),
    ("format.convolution.tile",),
    ("format.convolution.strided",),
    ("format.convolution.pointwise",),
    ("convolution.call",),
    ("memory.efficiency",),
    ("droop",),
)
"""Constants of convolutions in formats that have convolution kernels of their own."""
ATTENTION = (("attention",), ("launch",), ("format.sustained",), ("memory.efficiency",), ("prologue", "epilogue"))
FEW_WAVES = 4
"""Waves of blocks from which a kernel is like a long one."""


def _least(found: Candidates, seconds: Floats, most: int) -> Bools:
    """A mask of the ``most`` of each row that take the least."""
    order = np.lexsort((seconds, found.row))
    first = np.repeat(found.starts, np.diff(np.r_[found.starts, len(order)]))
    mask = np.zeros(len(order), bool)
    mask[order[np.arange(len(order)) - first < most]] = True
    return mask


def _by_waves(binds: Array, waves: Floats) -> Array:
    """Return the regime of similar errors: launch, less than a wave, few waves, many."""
    names = np.array(["less than a wave", "few waves", "many waves"], dtype=object)
    found: Array = np.where(binds == "launch", "launch", names[np.searchsorted([1.0, FEW_WAVES], waves)])
    return found


class Grids(NamedTuple):
    """Products and their candidates; the host's work for the call of each."""

    rows: Products
    found: Candidates
    shape: Shapes
    host: Floats


def _grids(device: Device, name: str, rows: Products, found: Candidates, host: Floats) -> Grids:
    return Grids(rows, found, shapes(device.spec, device.rates, name, rows, found), host)


def _from_grids(name: str, device: Device, grids: Grids, constants: Names) -> Prepared:
    """Products, each with the candidate that takes the least."""
    rows, found, shape, host = grids

    def times(chip: Chip) -> KernelTimes:
        now = Device(chip, device.name)
        cost = timed(now.spec, now.rates, name, shape)
        chosen = best(found, cost.seconds)
        computing, moving, waves = (each[chosen] for each in (cost.computing, cost.moving, cost.waves))
        asked = host * now.spec.dispatch
        begin = now.spec.launch + BEFORE * asked
        overhead = np.maximum(asked, begin)
        moved_B = rows.a_B + rows.b_B + rows.y_B
        bound = now.bound(name, rows.groups * rows.m * rows.k * rows.n * rows.density, moved_B)
        seconds, tile = np.maximum(asked, begin + cost.seconds[chosen]), (shape.m[chosen], shape.n[chosen])
        best_of = KernelCost(seconds, overhead, computing, moving, waves, *tile, shape.splits[chosen])
        return best_of.times(bound, _by_waves(best_of.binds, waves))

    def likely(chip: Chip, most: int) -> Prepared:
        now = Device(chip, device.name)
        kept = found.kept(_least(found, timed(now.spec, now.rates, name, shape).seconds, most))
        return _from_grids(name, device, _grids(device, name, rows, kept, host), constants)

    return Prepared(constants, times, likely)


def product_kernels(device: Device, name: str, columns: Columns) -> Prepared:
    """Prepare matrix products, one or several of a shape.

    Constants: of ``SHARED``, and what lying across costs, of operands that do, else rows that begin anywhere, else rows
    that lie apart.
    """
    rows = dense(name, columns["B"], columns["M"], columns["N"], columns["K"])
    rows = rows._replace(transposed=columns["transposed"], activity=columns["activity"])
    ragged = rows.ragged.any() and device.spec.formats[name].unit == "tensor"
    last = "transposed" if rows.transposed.any() else "ragged" if ragged else "stride"
    called = columns["called"].any()
    names = [("dispatch",) if called and group == ("launch",) else group for group in SHARED]
    grids = _grids(device, name, rows, candidates(device.spec, name, rows), columns["host"])
    return _from_grids(name, device, grids, device.named(name, [*names, (last,)]))


def function_kernels(device: Device, name: str, columns: Columns) -> Prepared:
    """Prepare kernels for rows of elementwise functions, softmax, norms and copies."""
    kernels = functions.streams(device.spec, device.rates, columns)
    elements = columns["rows"] * columns["cols"] * columns["element_B"]
    least_B = elements * (np.minimum(columns["reads"], 1) + columns["writes"])

    def times(chip: Chip) -> KernelTimes:
        now = Device(chip, device.name)
        cost = functions.stream_times(now.spec, now.rates, kernels)
        bound = now.bound(next(iter(now.spec.formats)), np.zeros(len(least_B)), least_B)
        return cost.times(bound, np.where(cost.binds == "launch", "launch", "streaming").astype(object))

    return Prepared(device.named(name, FUNCTION), times)


def convolution_kernels(device: Device, name: str, columns: Columns) -> Prepared:
    """Prepare convolutions, forward and backward.

    Constants: those of the kernels of the format, and how much longer gradients take, or the feed.
    """
    found, parts = convolution_parts(device, name, columns)
    last = "convolution.backward" if (found.gradients > 0).any() else "format.feed"
    groups = CONVOLUTION if device.spec.formats[name].convolution is None else IMPLICIT
    return _fastest_algorithm(name, device, found, parts, device.named(name, [*groups, (last,)]))


def convolution_parts(device: Device, name: str, columns: Columns) -> tuple[convolutions.Forms, list[Prepared]]:
    """Return all algorithms, and all candidates of the products of each: kernels that no other products have."""
    found, tiles, parts = (convolutions.forms(device.spec, name, columns), device.spec.tiles_of(name, False), [])
    for algorithm in found.algorithms:
        chosen = cut(device.spec, name, algorithm.products, tiles)
        grids = _grids(device, name, algorithm.products, chosen, np.zeros(len(algorithm.products.m)))
        if algorithm.moves_once:
            grids = grids._replace(shape=grids.shape._replace(moved_B=found.bytes[chosen.row]))
        parts.append(_from_grids(name, device, grids, ()))
    return found, parts


def _fastest_algorithm(
    name: str, device: Device, found: convolutions.Forms, parts: Sequence[Prepared], constants: Names
) -> Prepared:
    """Convolutions, each by the algorithm that takes the least."""

    def times(chip: Chip) -> KernelTimes:
        now, each = Device(chip, device.name), [part.times(chip) for part in parts]
        every = [part.seconds for part in each]
        seconds = convolutions.algorithm_seconds(now.spec, now.rates, found, every)
        chosen = np.argmin(seconds, axis=0)
        pick = chosen, np.arange(len(chosen))
        tile, splits, waves, binds = (
            np.stack([getattr(part, field) for part in each])[pick] for field in ("tile", "splits", "waves", "binds")
        )
        names = np.array([algorithm.name for algorithm in found.algorithms], dtype=object)[chosen]
        kinds = [str(text).removesuffix(" 2x2").removesuffix(" 4x4") for text in names]
        bound = now.bound(name, found.fewest, found.least_B)
        overhead = each[0].overhead + convolutions.called(now.spec)
        return KernelTimes(
            seconds[pick], bound, overhead, tile + " " + names, splits, waves, binds,
            np.array(kinds, dtype=object), np.zeros(len(chosen)),
        )  # fmt: skip

    def likely(chip: Chip, most: int) -> Prepared:
        few = [part.likely(chip, most) for part in parts if part.likely is not None]
        return _fastest_algorithm(name, device, found, few, constants)

    return Prepared(constants, times, likely)


def attention_kernels(device: Device, name: str, columns: Columns) -> Prepared:
    """Prepare attention in one kernel, of many queries or of one."""
    found = attention.attended(device.spec, device.rates, name, columns)
    regime = np.where(columns["tokens"] < attention.LEAST_ROWS, "decode", "prefill").astype(object)

    def times(chip: Chip) -> KernelTimes:
        now, none = Device(chip, device.name), np.zeros(len(regime))
        cost = attention.attention_times(now.spec, now.rates, name, found)
        overhead, tile = none + (now.spec.launch + now.spec.dispatch), (none + attention.QUERIES, none + attention.KEYS)
        found_cost = KernelCost(cost.seconds, overhead, cost.computing, cost.moving, cost.waves, *tile, found.parts)
        return found_cost.times(now.bound(name, found.macs, found.bytes), regime)

    return Prepared(device.named(name, ATTENTION), times)


class Family(NamedTuple):
    """A kind of kernel: what prepares its kernels, and the constants that measured ones tell."""

    prepared: Callable[[Device, str, Columns], Prepared]
    constants: Sequence[tuple[str, ...]] = ()


FAMILIES: Mapping[str, Family] = {
    "product": Family(product_kernels, SHARED),
    "function": Family(function_kernels, FUNCTION),
    "convolution": Family(convolution_kernels, CONVOLUTION),
    "attention": Family(attention_kernels, ATTENTION),
    **{name: Family(partial(serving_kernels, kind)) for name, kind in KINDS.items()},
}
"""Kind of kernel -> its closed form; a new one is a row."""


class Kernels(KernelModel):
    """The kernels of the multiprocessors ``unit`` of a chip."""

    def __init__(self, chip: Chip, unit: Unit) -> None:
        self._device = Device(chip, unit.name)

    def prepared(self, family: str, name: str, columns: Columns) -> Prepared:
        """Prepare kernels of a family in a format."""
        return FAMILIES[family].prepared(self._device, name, columns)

    def family(self, node: Node) -> str:
        """Return the family of a node; a convolution is a product of its own kind."""
        if not is_product(node):
            return "attention" if is_attention(node) else "function"
        return "convolution" if node.op == "Conv" else "product"

    def served(self, graph: Graph, node: Node) -> ServingKernel | None:
        """Return linear layers and attention by the constants of a serving stack, where the chip has such."""
        return as_kernel(self._device, graph, node)

    def constants(self, family: str, name: str) -> Names:
        """Return constants by their names in the spec."""
        return self._device.named(name, FAMILIES[family].constants)

    def formats(self, family: str) -> Iterable[str]:
        """Formats in which the device runs kernels of ``family``; functions take every format of known size."""
        known = self._device.spec.formats
        return serving_formats(known) if family in KINDS else list(known)
