"""The machine tile by tile, for small products: what each tile receives, holds, computes and sends, with values.

Nothing here uses the closed forms: parts are lists of indices, the exchange is a list of who sends which element to
whom, threads take their rows in turn. ``run`` is what ``supersteps`` must equal.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, field
from itertools import product as every
from math import prod

import numpy as np

from accelsim.engines.bsp.spec import BspUnit, TileFormat
from accelsim.engines.bsp.supersteps import Figures, Parts, Product
from accelsim.errors import UsageError
from accelsim.types import Array

Element = tuple[int, ...]


@dataclass
class Exchanged:
    """One operand's exchange: bytes that each tile sends and receives."""

    sent: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    received: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def clocks(self, unit: BspUnit) -> int:
        """Until the tile with most to send or to receive is done, word by word."""
        words = [-(-size // unit.send_width) for size in self.sent.values()]
        words += [-(-size // unit.receive_width) for size in self.received.values()]
        return max(words, default=0)


@dataclass
class Step:
    """A superstep: exchanges one after the other, then clocks of each tile; bytes read, written and held by each."""

    exchanges: list[Exchanged] = field(default_factory=list)
    busy: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    read: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    written: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    held: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def figures(self, unit: BspUnit) -> Figures:
        """Times of the slowest tile, bytes of all together, and of the fullest."""
        return Figures(
            unit.sync,
            sum(each.clocks(unit) for each in self.exchanges),
            max(self.busy.values(), default=0),
            sum(sum(each.sent.values()) for each in self.exchanges),
            sum(sum(each.received.values()) for each in self.exchanges),
            sum(self.read.values()),
            sum(self.written.values()),
            max(self.held.values(), default=0),
        )


@dataclass
class Outcome:
    """Values [groups, M, N], the supersteps, and multiplications that each tile did."""

    values: Array
    steps: list[Step]
    macs: dict[int, int]


@dataclass(frozen=True)
class Piece:
    """What one tile works on: indices along each axis."""

    tile: int
    groups: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    depth: tuple[int, ...]

    def a(self) -> Iterable[Element]:
        """Elements of A (group, row, depth)."""
        return every(self.groups, self.rows, self.depth)

    def b(self) -> list[Element]:
        """Elements of B (group, depth, column)."""
        return [*every(self.groups, self.depth, self.columns)]

    def y(self) -> list[Element]:
        """Elements of the result (group, row, column)."""
        return list(every(self.groups, self.rows, self.columns))


def deal(items: Sequence[int], count: int) -> list[tuple[int, ...]]:
    """Contiguous parts as even as can be, longer ones first."""
    return [tuple(int(each) for each in part) for part in np.array_split(np.array(items, np.int64), count)]


def deal_blocks(extent: int, block: int, count: int) -> list[tuple[int, ...]]:
    """The same of whole blocks of indices, the last of which may be shorter."""
    starts = deal(range(0, extent, block), count)
    return [tuple(i for start in part for i in range(start, min(start + block, extent))) for part in starts]


def pieces(row: TileFormat, product: Product, partition: Parts) -> list[Piece]:
    """One for each tile that works."""
    groups, rows = deal(range(product.groups), partition.g), deal(range(product.M), partition.m)
    columns = deal_blocks(product.N, row.n, partition.n)
    depth = deal_blocks(product.K, row.k, partition.k)
    return [Piece(tile, *axes) for tile, axes in enumerate(every(groups, rows, columns, depth))]


def spread(elements: Sequence[Element], tiles: Sequence[int]) -> dict[Element, int]:
    """Element -> tile: contiguous shares as even as can be."""
    parts = deal(range(len(elements)), len(tiles))
    return {elements[i]: tile for tile, part in zip(tiles, parts, strict=True) for i in part}


def gather(owner: dict[Element, int], wants: dict[int, list[Element]], element_B: int, own: bool) -> Exchanged:
    """Return what is sent once by its owner to all that listen. ``own``: a tile keeps what it owns, and receives the
    rest."""
    found, listened = Exchanged(), set[Element]()
    for tile, elements in wants.items():
        others = [element for element in elements if not own or owner[element] != tile]
        found.received[tile] += len(others) * element_B
        listened.update(others)
    for element in listened:
        found.sent[owner[element]] += element_B
    return found


def run(unit: BspUnit, number_format: str, product: Product, partition: Parts, a: Array, b: Array) -> Outcome:
    """A product of ``a`` [groups, M, K] and ``b`` [groups, K, N] on the tiles.

    Raises UsageError for a partition with more tiles than there are, and for a convolution, which the model has not.
    """
    if prod(astuple(partition)) > unit.tiles or product.conv is not None:
        raise UsageError(f"{partition} of {unit.tiles} tiles cannot be followed; expected a plain product that fits")
    row = unit.formats[number_format]
    work = pieces(row, product, partition)
    sums, macs = np.zeros((partition.k, product.groups, product.M, product.N), a.dtype), dict[int, int]()
    multiply = Step([_of_a(unit, product, work), _of_b(unit, product, work)])
    for piece in work:
        sums_of = sums[piece.tile % partition.k]
        macs[piece.tile] = _passes(unit, row, product, piece, multiply, (a, b, sums_of))
        multiply.held[piece.tile] = (
            len(list(piece.a())) * product.a_B + len(piece.b()) * product.b_B + len(piece.y()) * product.sum_B
        )
    if partition.k == 1:
        return Outcome(sums[0], [multiply], macs)
    values, reduce = _reduce(unit, product, work, sums)
    return Outcome(values, [multiply, reduce], macs)


def _of_a(unit: BspUnit, product: Product, work: list[Piece]) -> Exchanged:
    everything = list(every(range(product.groups), range(product.M), range(product.K)))
    owner = spread(everything, range(unit.tiles))
    return gather(owner, {piece.tile: list(piece.a()) for piece in work}, product.a_B, own=False)


def _of_b(unit: BspUnit, product: Product, work: list[Piece]) -> Exchanged:
    wants = {piece.tile: piece.b() for piece in work}
    if not product.stays:
        everything = list(every(range(product.groups), range(product.K), range(product.N)))
        return gather(spread(everything, range(unit.tiles)), wants, product.b_B, own=False)
    sharing: dict[tuple[Element, ...], list[int]] = defaultdict(list)
    for tile, elements in wants.items():
        sharing[tuple(elements)].append(tile)
    owner: dict[Element, int] = {}
    for shared, tiles in sharing.items():
        owner |= spread(shared, tiles)
    return gather(owner, wants, product.b_B, own=True)


def _passes(
    unit: BspUnit, row: TileFormat, product: Product, piece: Piece, step: Step, values: tuple[Array, Array, Array]
) -> int:
    """All passes of a tile: time, accesses, sums; returns its multiplications."""
    (a, b, sums), tile, macs = values, piece.tile, 0
    for group in piece.groups:
        for n in range(0, len(piece.columns), row.n):
            columns = np.array(piece.columns[n : n + row.n])
            for k in range(0, len(piece.depth), row.k):
                depth = np.array(piece.depth[k : k + row.k])
                step.busy[tile] += unit.pass_overhead + -(-row.k * row.n * product.b_B // unit.load_width)
                step.busy[tile] += _threads(unit, len(piece.rows), row.cycles_per_row, unit.thread_overhead)
                step.read[tile] += len(depth) * len(columns) * product.b_B
                for m in piece.rows:
                    sums[group, m, columns] += a[group, m, depth] @ b[group][np.ix_(depth, columns)]
                    macs += len(depth) * len(columns)
                    step.read[tile] += len(depth) * product.a_B + (len(columns) * product.sum_B if k else 0)
                    step.written[tile] += len(columns) * product.sum_B
    return macs


def _threads(unit: BspUnit, items: int, slots: int, overhead: int = 0) -> int:
    """Clocks until the last thread is done: each has an issue slot every ``threads`` clocks."""
    load = [overhead] * unit.threads
    for item in range(items):
        load[item % unit.threads] += slots
    return max(load) * unit.threads


def _reduce(unit: BspUnit, product: Product, work: list[Piece], sums: Array) -> tuple[Array, Step]:
    """Each of the tiles with sums of the same outputs adds a share of them."""
    values, step, exchanged = np.zeros_like(sums[0]), Step(), Exchanged()
    sharing: dict[tuple[Element, ...], list[int]] = defaultdict(list)
    for piece in work:
        sharing[tuple(piece.y())].append(piece.tile)
    lanes = max(1, unit.vector_width // product.sum_B)
    for elements, tiles in sharing.items():
        for tile, part in zip(tiles, deal(range(len(elements)), len(tiles)), strict=True):
            others, count = [other for other in tiles if other != tile], len(part)
            for index in part:
                values[elements[index]] = sum(part_sums[elements[index]] for part_sums in sums)
            for other in others:
                exchanged.sent[other] += count * product.sum_B
                exchanged.received[tile] += count * product.sum_B
            step.busy[tile] = _threads(unit, -(-count // lanes), len(others), unit.thread_overhead)
            step.read[tile] += len(tiles) * count * product.sum_B
            step.written[tile] += count * product.out_B
            step.held[tile] = (len(elements) + len(others) * count) * product.sum_B + count * product.out_B
    step.exchanges.append(exchanged)
    return values, step
