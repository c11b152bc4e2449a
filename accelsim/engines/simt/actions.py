"""Costs of the commands of a kernel: entries of the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import ceil
from typing import NamedTuple

from accelsim.engines.simt.kernels import DIRECT, Kernel, block_l2_B, part_of_k, step_of, sums_B
from accelsim.engines.simt.panels import Product
from accelsim.engines.simt.spec import Simt, TileShape
from accelsim.program.actions import PADDING, READ, SKIPPED, WRITE, Action, ActionName, mac, op
from accelsim.program.commands import Tile
from accelsim.program.tiles import kept
from accelsim.spec.multiplying import operands_B
from accelsim.workload.graph import Node
from accelsim.workload.ops import find

WARP = 32
"""Threads that go together."""


AROUND, OPERATION, FUSED = "around", "op", "fused"
"""Energy besides arithmetic: of a multiply-accumulate (by format), of an operation of a function, of one on operands
that are in registers already."""


class Units(NamedTuple):
    """Names in the ledger: of the multiprocessors, of the L2 cache."""

    engine: str
    cache: str


def product_actions(spec: Simt, units: Units, product: Product, kernel: Kernel, tile: Tile) -> list[Action]:
    """Entries of the products of a piece: its blocks bring rows and columns from L2 into shared memory, their warps
    read them from there as often as they share them; sums pass registers once in each step of the loop.

    Whatever is multiplied, padding too, has instructions around it. Of sparse weights n of m are multiplied, the others
    skipped, as are those that a fast algorithm saves. Where tiles are not full, and in the last step of K, there is
    padding.
    """
    if kernel.algorithm == DIRECT:
        return _direct_actions(units, product, tile)
    shape = kernel.tile
    groups, rows, cols = tile.g1 - tile.g0, tile.m1 - tile.m0, tile.n1 - tile.n0
    depth = tile.k1 - tile.k0
    if tile.k1 == product.gemm.K:
        depth += kernel.splits * part_of_k(spec, shape, product.format, tile.k1, kernel.splits) - tile.k1
    blocks = groups * ceil(rows / shape.m) * ceil(cols / shape.n)
    dense = groups * rows * cols * (tile.k1 - tile.k0)
    macs = int(groups * rows * cols * kept(product.sparse, tile.k1 - tile.k0) * kernel.multiplied)
    a, b = (blocks * words for words in block_l2_B(shape, product, depth))
    down, across = warps(shape)
    shared = a * across + b * down
    computed = kept(product.sparse, depth)
    steps = Fraction(computed, step_of(spec, shape, product.format))
    sums = ceil(blocks * steps * sums_B(spec, shape, product.format))
    multiplied = max(macs, int(blocks * shape.m * shape.n * computed * kernel.multiplied))
    counts = {
        mac(product.format): macs,
        SKIPPED: dense - macs,
        PADDING: multiplied - macs,
        ActionName(AROUND, product.format): multiplied,
        **near_actions(a + b, shared, shared + sums),
    }
    return _entries(units, product, counts, a, b)


def near_actions(written_B: int, read_B: int, registers_B: int) -> dict[ActionName, int]:
    """Return the bytes of shared memory, and of registers, which are written and read."""
    return {
        ActionName("shared", WRITE): written_B,
        ActionName("shared", READ): read_B,
        ActionName("register", WRITE): registers_B,
        ActionName("register", READ): registers_B,
    }


def _entries(units: Units, product: Product, counts: Mapping[ActionName, int], a: int, b: int) -> list[Action]:
    """Entries of the multiprocessors, and of so many bytes of both operands that come from L2."""
    entries = [Action(units.engine, name, "", count) for name, count in counts.items()]
    entries += [Action(units.cache, READ, product.a.name, a), Action(units.cache, READ, product.b.name, b)]
    return [entry for entry in entries if entry.count]


def _direct_actions(units: Units, product: Product, tile: Tile) -> list[Action]:
    """Entries of a piece of a direct convolution: an instruction of the lanes for each multiplication, whose operands
    come from L2 into shared memory once and pass registers; nothing is padded."""
    macs = (tile.g1 - tile.g0) * (tile.m1 - tile.m0) * (tile.n1 - tile.n0) * (tile.k1 - tile.k0)
    a, b = (ceil(Fraction(tensor.nbytes * macs, product.gemm.macs)) for tensor in (product.a, product.b))
    read = ceil(macs * sum(operands_B(product.format)))
    counts = {mac(product.format): macs, ActionName(AROUND, OPERATION): macs, **near_actions(a + b, read, read)}
    return _entries(units, product, counts, a, b)


def warps(tile: TileShape) -> tuple[int, int]:
    """Return the warps of a block down and across its tile with which they read the fewest operands."""
    count = max(1, tile.threads // WARP)
    ways = [(down, count // down) for down in range(1, count + 1) if count % down == 0]
    return min(ways, key=lambda way: (tile.m * way[1] + tile.n * way[0], way))


SIMPLE = frozenset({"arithmetic", "quantisation", "conversions", "Relu", "LeakyRelu", "Clip"})
"""Families of operators, and operators, whose operations are an instruction each but for loads and stores."""


def is_simple(part: Node) -> bool:
    """Return whether each operation of a function is an instruction on what is in registers, once it is fused."""
    found = find(part.op)
    return found is not None and not SIMPLE.isdisjoint({found.family, part.op})


def function_actions(
    units: Units, reads: dict[str, int], writes: dict[str, int], operations: int, fused: int = 0
) -> list[Action]:
    """Return the ledger entries of functions: bytes of tensors from and to L2, operations, and ``fused`` operations on
    operands that are in registers already."""
    entries = [Action(units.cache, READ, name, count) for name, count in reads.items()]
    entries += [Action(units.cache, WRITE, name, count) for name, count in writes.items()]
    entries += [
        Action(units.engine, op("fp32"), "", operations + fused),
        Action(units.engine, ActionName(AROUND, OPERATION), "", operations),
        Action(units.engine, ActionName(AROUND, FUSED), "", fused),
    ]
    return [entry for entry in entries if entry.count]
