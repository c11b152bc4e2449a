"""The kernels of multiprocessors as ``KernelModel``: a table of families, each a closed form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from accelsim.engines.kernel_times import (
    Columns,
    KernelModel,
    KernelTimes,
    Prepared,
    ServingKernel,
    text_rows,
)
from accelsim.engines.simt import attention, convolutions, functions
from accelsim.engines.simt.constants import Device
from accelsim.engines.simt.products import (
    Candidates,
    Products,
    Shapes,
    best,
    candidates,
    cut,
    dense,
    shapes,
    timed,
)
from accelsim.engines.simt.served import as_kernel
from accelsim.engines.simt.serving import KINDS, ServingFamily, serving_formats
from accelsim.engines.simt.spec import BEFORE
from accelsim.program.roles import Unit
from accelsim.spec.chip import Chip
from accelsim.types import Array, Floats
from accelsim.workload.graph import Graph, Node
from accelsim.workload.nodes import is_attention, is_product

PRODUCT = ("B", "M", "K", "N", "transposed", "host", "called", "activity")
"""Sizes; 1 where the first operand lies across; the host's work for a call, that for an addition is 1; 1 where the time
is that of a framework's call."""
SHARED = (
    ("format.sustained",), ("memory.efficiency",), ("launch",), ("format.feed",), ("softness",),
    ("prologue", "epilogue"), ("droop",),
)  # fmt: skip
"""What measured products tell, the most telling first; where a framework's host asked for them, its time for that in
place of the device's (``dispatch`` for ``launch``)."""
FUNCTION = (("memory.efficiency",), ("dispatch",), ("launch",))
CONVOLUTION = (
    ("format.sustained",), ("memory.efficiency",), ("convolution.call",), ("convolution.fused",),
    ("convolution.filters",), ("convolution.transforms",), ("droop",),
)  # fmt: skip
IMPLICIT = (
    ("format.convolution.sustained",), ("format.convolution.tile",), ("format.convolution.strided",),
    ("format.convolution.pointwise",), ("convolution.call",), ("memory.efficiency",), ("droop",),
)  # fmt: skip
"""Of convolutions whose format has kernels of its own for them."""
ATTENTION = (
    ("attention",),
    ("launch",),
    ("format.sustained",),
    ("memory.efficiency",),
    ("prologue", "epilogue"),
)
TOLD = {"product": SHARED, "function": FUNCTION, "convolution": CONVOLUTION, "attention": ATTENTION}
"""Family -> constants that measured kernels of it tell."""
FEW_WAVES = 4
"""Waves of blocks from which a kernel is like a long one."""


class Family(Protocol):
    """One kind of kernel."""

    @property
    def columns(self) -> Sequence[str]:
        """The columns that it needs."""

    def prepared(self, device: Device, name: str, columns: Columns) -> Prepared:
        """Kernels on a device."""


@dataclass(frozen=True)
class OfProducts:
    """Products and their candidates; the host's work for the call of each, and whether measured times are of calls."""

    device: Device
    format: str
    products: Products
    found: Candidates
    shape: Shapes
    host: Floats
    called: bool = False

    @property
    def _unit(self) -> str:
        return self.device.spec.formats[self.format].unit

    @property
    def constants(self) -> Sequence[tuple[str, ...]]:
        """And what lying across costs, of operands that do, else rows that begin anywhere, else rows that lie apart."""
        turned, ragged = self.products.transposed.any(), self.products.ragged.any()
        last = "transposed" if turned else "ragged" if ragged and self._unit == "tensor" else "stride"
        names = [("dispatch",) if self.called and group == ("launch",) else group for group in SHARED]
        return self.device.named(self.format, [*names, (last,)])

    def times(self, chip: Chip) -> KernelTimes:
        """Each with the candidate that takes the least."""
        device = Device(chip, self.device.name)
        spec, around_it, rows = device.spec, device.around, self.products
        cost = timed(spec, around_it, self.format, self.shape)
        chosen = best(self.found, cost.seconds)
        computing, moving, waves = (each[chosen] for each in (cost.computing, cost.moving, cost.waves))
        host = self.host * spec.dispatch
        begin = spec.launch + BEFORE * host
        overhead = np.maximum(host, begin)
        bound = device.bound(self.format, rows.groups * rows.m * rows.k * rows.n * rows.density, _bytes(rows))
        binds = _binds(overhead, computing, moving)
        tiles = _tiles(self.shape.m[chosen], self.shape.n[chosen])
        regime = _by_waves(binds, waves)
        seconds = np.maximum(host, begin + cost.seconds[chosen])
        return KernelTimes(seconds, bound, overhead, tiles, self.shape.splits[chosen], waves, binds, regime)

    def likely(self, chip: Chip, most: int) -> OfProducts:
        """The candidates of each product that take the least."""
        device = Device(chip, self.device.name)
        seconds = timed(device.spec, device.around, self.format, self.shape).seconds
        found = self.found.kept(_least(self.found, seconds, most))
        return replace(self, found=found, shape=_shape(self.device, self.format, self.products, found))


def _tiles(m: Floats, n: Floats) -> Array:
    """Sizes of tiles as texts; there are few different ones, and a fit asks for them often."""
    pairs, place = np.unique(np.stack([m, n], axis=1), axis=0, return_inverse=True)
    found: Array = text_rows(f"{rows:.0f}x{columns:.0f}" for rows, columns in pairs)[place.reshape(-1)]
    return found


def _shape(device: Device, name: str, products: Products, found: Candidates) -> Shapes:
    return shapes(device.spec, device.around, name, products, found)


def _least(found: Candidates, seconds: Floats, most: int) -> Array:
    """A mask of the ``most`` of each row that take the least."""
    order = np.lexsort((seconds, found.row))
    first = np.repeat(found.starts, np.diff(np.r_[found.starts, len(order)]))
    mask = np.zeros(len(order), bool)
    mask[order[np.arange(len(order)) - first < most]] = True
    return mask


def _bytes(products: Products) -> Floats:
    return products.a_B + products.b_B + products.y_B


def _binds(overhead: Floats, computing: Floats, moving: Floats) -> Array:
    """Return what takes most of the time."""
    names = np.array(["launch", "products", "memory"], dtype=object)
    found: Array = names[np.argmax(np.stack([overhead, computing, moving]), axis=0)]
    return found


def _by_waves(binds: Array, waves: Floats) -> Array:
    """Where like errors are to be expected: launch, less than a wave, a few waves, many."""
    names = np.array(["less than a wave", "few waves", "many waves"], dtype=object)
    found: Array = np.where(
        binds == "launch", "launch", names[np.searchsorted([1.0, FEW_WAVES], waves, side="left")]
    )
    return found


class ProductFamily:
    """Matrix products, one or several of a shape."""

    columns = PRODUCT

    def prepared(self, device: Device, name: str, columns: Columns) -> OfProducts:
        """All candidates."""
        products = dense(name, columns["B"], columns["M"], columns["N"], columns["K"])
        products = products._replace(transposed=columns["transposed"], activity=columns["activity"])
        found = candidates(device.spec, name, products)
        shape, called = _shape(device, name, products, found), bool(columns["called"].any())
        return OfProducts(device, name, products, found, shape, columns["host"], called)


@dataclass(frozen=True)
class OfFunctions:
    """Functions of rows."""

    device: Device
    format: str
    kernels: functions.Streams
    least_B: Floats

    @property
    def constants(self) -> Sequence[tuple[str, ...]]:
        """Return the constants of memory and host."""
        return self.device.named(self.format, FUNCTION)

    def times(self, chip: Chip) -> KernelTimes:
        """Each as it streams."""
        device = Device(chip, self.device.name)
        cost = functions.stream_times(device.spec, device.around, self.kernels)
        count = len(cost.seconds)
        bound = device.bound(next(iter(device.spec.formats)), np.zeros(count), self.least_B)
        binds = _binds(cost.overhead, cost.computing, cost.moving)
        regime = np.where(binds == "launch", "launch", "streaming").astype(object)
        none = text_rows([""] * count)
        return KernelTimes(
            cost.seconds, bound, cost.overhead, none, np.ones(count), np.zeros(count), binds, regime
        )

    def likely(self, chip: Chip, most: int) -> OfFunctions:
        """There is no choice."""
        return self


class FunctionFamily:
    """Elementwise functions, softmax, norms, copies."""

    columns = functions.COLUMNS

    def prepared(self, device: Device, name: str, columns: Columns) -> OfFunctions:
        """Return what they move."""
        elements = columns["rows"] * columns["cols"] * columns["element_B"]
        least = elements * (np.minimum(columns["reads"], 1) + columns["writes"])
        return OfFunctions(device, name, functions.streams(device.spec, device.around, columns), least)


@dataclass(frozen=True)
class OfConvolutions:
    """Convolutions as the products of each algorithm."""

    device: Device
    format: str
    found: convolutions.Forms
    parts: tuple[OfProducts, ...]

    @property
    def constants(self) -> Sequence[tuple[str, ...]]:
        """And how much longer gradients take, or the feed."""
        last = "convolution.backward" if (self.found.gradients > 0).any() else "format.feed"
        own = self.device.spec.formats[self.format].convolution
        return self.device.named(self.format, [*(CONVOLUTION if own is None else IMPLICIT), (last,)])

    def algorithms(self, device: Device, each: Sequence[KernelTimes]) -> Floats:
        """Seconds of every algorithm, one row each, from those of its products."""
        seconds = [part.seconds for part in each]
        return convolutions.of_algorithms(device.spec, device.around, self.found, seconds)

    def times(self, chip: Chip) -> KernelTimes:
        """Each by the algorithm that takes the least."""
        device = Device(chip, self.device.name)
        each = [part.times(chip) for part in self.parts]
        seconds = self.algorithms(device, each)
        chosen = np.argmin(seconds, axis=0)
        pick = np.arange(len(chosen))
        names = [algorithm.name for algorithm in self.found.algorithms]
        tiles = text_rows(f"{each[way].tile[row]} {names[way]}" for row, way in enumerate(chosen))
        splits, waves = (
            np.stack([getattr(part, field) for part in each])[chosen, pick] for field in ("splits", "waves")
        )
        binds = np.stack([part.binds for part in each])[chosen, pick]
        ways = np.array([name.removesuffix(" 2x2").removesuffix(" 4x4") for name in names], dtype=object)
        bound = device.bound(self.format, self.found.fewest, self.found.least_B)
        overhead = each[0].overhead + convolutions.called(device.spec)
        return KernelTimes(seconds[chosen, pick], bound, overhead, tiles, splits, waves, binds, ways[chosen])

    def likely(self, chip: Chip, most: int) -> OfConvolutions:
        """The likely candidates of each algorithm."""
        return replace(self, parts=tuple(part.likely(chip, most) for part in self.parts))


class ConvolutionFamily:
    """Convolutions, forward and backward."""

    columns = convolutions.COLUMNS

    def prepared(self, device: Device, name: str, columns: Columns) -> OfConvolutions:
        """All candidates of all algorithms; their kernels are not those of products of several groups."""
        found, spec = convolutions.forms(device.spec, name, columns), device.spec
        tiles = spec.tiles_of(name, batched=False)
        parts = []
        for algorithm in found.algorithms:
            products = algorithm.products
            chosen = cut(device.spec, name, products, tiles, None)
            shape = _shape(device, name, products, chosen)
            if algorithm.moves_once:
                shape = shape._replace(moved_B=found.bytes[chosen.row])
            parts.append(OfProducts(device, name, products, chosen, shape, np.zeros(len(products.m))))
        return OfConvolutions(device, name, found, tuple(parts))


@dataclass(frozen=True)
class OfAttention:
    """Fused attention."""

    device: Device
    format: str
    found: attention.Attended
    decode: Array

    @property
    def constants(self) -> Sequence[tuple[str, ...]]:
        """Return the same constants as products have."""
        return self.device.named(self.format, ATTENTION)

    def times(self, chip: Chip) -> KernelTimes:
        """Each as it is."""
        device, found = Device(chip, self.device.name), self.found
        cost = attention.attention_times(device.spec, device.around, self.format, found)
        overhead = np.full(len(cost.seconds), device.spec.launch + device.spec.dispatch)
        bound = device.bound(self.format, found.macs, found.bytes)
        binds = _binds(overhead, cost.computing, cost.moving)
        regime = np.where(self.decode, "decode", "prefill").astype(object)
        tiles = text_rows([f"{attention.QUERIES}x{attention.KEYS}"] * len(regime))
        return KernelTimes(cost.seconds, bound, overhead, tiles, found.parts, cost.waves, binds, regime)

    def likely(self, chip: Chip, most: int) -> OfAttention:
        """There is no choice."""
        return self


class AttentionFamily:
    """Attention in one kernel, of many queries or of one."""

    columns = attention.COLUMNS

    def prepared(self, device: Device, name: str, columns: Columns) -> OfAttention:
        """Their blocks."""
        found = attention.attended(device.spec, device.around, name, columns)
        return OfAttention(device, name, found, columns["tokens"] < attention.LEAST_ROWS)


FAMILIES: Mapping[str, Family] = {
    "product": ProductFamily(),
    "function": FunctionFamily(),
    "convolution": ConvolutionFamily(),
    "attention": AttentionFamily(),
    **{name: ServingFamily(kind) for name, kind in KINDS.items()},
}
"""Kind of kernel -> its closed form; a new one is a row."""


class Kernels(KernelModel):
    """The kernels of the multiprocessors ``unit`` of a chip."""

    def __init__(self, chip: Chip, unit: Unit) -> None:
        self._device = Device(chip, unit.name)

    @property
    def families(self) -> Mapping[str, Sequence[str]]:
        """Family -> its columns."""
        return {name: family.columns for name, family in FAMILIES.items()}

    def prepared(self, family: str, name: str, columns: Columns) -> Prepared:
        """Kernels of a family in a format."""
        return FAMILIES[family].prepared(self._device, name, columns)

    def family(self, node: Node) -> str:
        """A convolution is a product of its own kind."""
        if not is_product(node):
            return "attention" if is_attention(node) else "function"
        return "convolution" if node.op == "Conv" else "product"

    def served(self, graph: Graph, node: Node) -> ServingKernel | None:
        """Return linear layers and attention by the constants of a serving stack, where the chip has such."""
        return as_kernel(self._device, graph, node)

    def constants(self, family: str, name: str) -> Sequence[tuple[str, ...]]:
        """Constants by their names in the spec."""
        return self._device.named(name, TOLD.get(family, ()))

    def formats(self, family: str) -> Iterable[str]:
        """Return those that it multiplies; functions take every format that a byte count is known of."""
        known = self._device.spec.formats
        return serving_formats(known) if family in KINDS else list(known)
