"""The machine, stated, and the closed form of what a product and a vector operator take on it.

**A superstep** is a sync, an exchange and a computation: all tiles wait for each other, then all send and receive, then
each computes on what lies in its own memory. It takes ``sync`` clocks, those of the exchange, and those of the slowest
tile.

**An exchange** is scheduled when the program is written, operand after operand: an operand takes as many clocks as the
tile needs that sends most of it or receives most of it, in whole words of either width. What several tiles need is sent
once, all of them listen. Nothing that a tile multiplies is taken to lie on it already, but for weights.

**A product** Y[M,N] = A[M,K] x B[K,N], of ``groups``, is cut into ``g`` x ``m`` x ``n`` x ``k`` parts, a tile each; N
and K are cut between blocks of the product unit. Parts differ by one row, group or block at most, and the first are the
larger ones. Between steps activations lie spread evenly over all tiles. Weights stay where they are multiplied: the
``m`` tiles that need the same part hold an equal share of it each, and send it to each other.

1. *Multiply.* A tile takes one pass for each group and block: ``pass_overhead`` clocks, the weights of a block at
   ``load_width``, then the rows, dealt to the threads. A thread issues every ``threads`` clocks.
2. *Reduce*, where K is cut. The ``k`` tiles with sums of the same outputs add an equal share of them each, in vectors
   that are dealt to the threads.

Source of this picture: Jia et al., "Dissecting the Graphcore IPU Architecture via Microbenchmarking", arXiv:1912.03413,
sections 1.2 to 1.4 (tiles, threads, exchange, supersteps; recalled); passes and their overhead as the open library
graphcore/poplibs estimates them (lib/poplin/PerformanceEstimation.hpp). Assumed: reduction and shares as above.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from accelsim.engines.bsp.spec import BspUnit, TileFormat
from accelsim.engines.bsp.windows import channels_seen, pixels_seen
from accelsim.program.mapping import ProductMapping
from accelsim.types import Ints
from accelsim.workload.ops.base import Conv


@dataclass(frozen=True)
class Product:
    """``groups`` products M x K times K x N. ``*_B``: bytes of an element of A, B, a partial sum, a result.

    ``stays``: B is a constant, so it lies on the tiles that multiply it. ``conv``: A is the input of a convolution, of
    which a tile gets the pixels under its windows, not each window.
    """

    groups: int
    M: int
    N: int
    K: int
    a_B: int
    b_B: int
    sum_B: int
    out_B: int
    stays: bool = True
    conv: Conv | None = None

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all groups."""
        return self.groups * self.M * self.N * self.K


class Partitions(NamedTuple):
    """Parts along groups, M, N and K of many partitions side by side, int64 [c] each."""

    g: Ints
    m: Ints
    n: Ints
    k: Ints

    @property
    def tiles(self) -> Ints:
        """Return the number of tiles that work, int64 [c]."""
        return self.g * self.m * self.n * self.k

    def one(self, index: int) -> Parts:
        """Return the partition at an index, in one turn."""
        return Parts(1, *(int(column[index]) for column in self))


@dataclass(frozen=True)
class Parts(ProductMapping):
    """Numbers of parts of a product: ``turns`` over its columns run one after the other; each turn is cut along groups
    ``g``, rows ``m``, columns ``n`` and reduction ``k`` into parts, one on each tile."""

    turns: int
    g: int
    m: int
    n: int
    k: int

    def many(self) -> Partitions:
        """Return a turn of this one alone, as arrays [1]."""
        return Partitions(*(np.array([parts], np.int64) for parts in (self.g, self.m, self.n, self.k)))


class LargestPart(NamedTuple):
    """The largest part: groups, rows, columns, reduction, and the blocks along the last two, int64 [c] each."""

    g: Ints
    m: Ints
    n: Ints
    k: Ints
    n_blocks: Ints
    k_blocks: Ints


class Figures(NamedTuple):
    """Clocks of a superstep, and bytes: ``sent`` and ``received`` by all tiles together, ``read`` and ``written`` by
    their computation, ``held``: the most that a tile holds."""

    sync: int = 0
    exchange: int = 0
    compute: int = 0
    sent: int = 0
    received: int = 0
    read: int = 0
    written: int = 0
    held: int = 0

    @property
    def clocks(self) -> int:
        """Return the clocks of all of it."""
        return self.sync + self.exchange + self.compute

    def and_then(self, other: Figures) -> Figures:
        """Return the figures of two steps, one after the other, as those of one superstep."""
        return Figures(*(mine + its for mine, its in zip(self, other, strict=True)))


@dataclass(frozen=True)
class Superstep:
    """Costs of one superstep for many partitions, int64 [c] each; zero for a partition without this superstep."""

    sync: Ints
    exchange: Ints
    compute: Ints
    sent: Ints
    received: Ints
    read: Ints
    written: Ints
    held: Ints

    @property
    def clocks(self) -> Ints:
        """Return the clocks of all of it."""
        return self.sync + self.exchange + self.compute

    def where(self, present: Ints) -> Superstep:
        """Return the superstep with every count zero where ``present`` (0 or 1) is zero."""
        return Superstep(**{field.name: getattr(self, field.name) * present for field in fields(self)})

    def one(self, index: int = 0) -> Figures:
        """Return the figures of the partition at an index."""
        return Figures(*(int(getattr(self, field.name)[index]) for field in fields(self)))


def ceil(a: Ints | int, b: Ints | int) -> Ints:
    """Return the quotient of non-negative integers, rounded up."""
    return np.asarray(-(-a // b), np.int64)


def largest_part(row: TileFormat, product: Product, parts: Partitions) -> LargestPart:
    """Return the part of the first tile, which is the largest along every axis."""
    n_blocks = ceil(ceil(product.N, row.n), parts.n)
    k_blocks = ceil(ceil(product.K, row.k), parts.k)
    n, k = np.minimum(n_blocks * row.n, product.N), np.minimum(k_blocks * row.k, product.K)
    return LargestPart(ceil(product.groups, parts.g), ceil(product.M, parts.m), n, k, n_blocks, k_blocks)


def phase(unit: BspUnit, most_sent: Ints, most_received: Ints) -> Ints:
    """Return the clocks of the exchange of an operand, from the bytes of the tiles that send and receive most."""
    return np.maximum(ceil(most_sent, unit.send_width), ceil(most_received, unit.receive_width))


def in_turn(unit: BspUnit, items: Ints, slots: Ints | int, overhead: int = 0) -> Ints:
    """Return the clocks of threads to which items are dealt that take ``slots`` issue slots each."""
    return unit.threads * (overhead + ceil(items, unit.threads) * slots)


def supersteps(unit: BspUnit, number_format: str, product: Product, parts: Partitions) -> tuple[Superstep, Superstep]:
    """Return the supersteps of a product under each of many partitions: multiply and reduce."""
    row = unit.formats[number_format]
    part = largest_part(row, product, parts)
    return _multiply(unit, row, product, parts, part), _reduce(unit, product, parts, part)


class Streamed(NamedTuple):
    """Elements of A: what the largest part needs, what all parts receive, int64 [c] each, and the total."""

    most: Ints
    received: Ints
    total: int


def _streamed(row: TileFormat, product: Product, parts: Partitions, part: LargestPart) -> Streamed:
    conv = product.conv
    if conv is None:
        total = product.groups * product.M * product.K
        return Streamed(part.g * part.m * part.k, total * parts.n, total)
    pixels = np.array([pixels_seen(conv, product.M, count) for count in parts.m.tolist()], np.int64)
    channels = np.array([channels_seen(conv, row.k, count) for count in parts.k.tolist()], np.int64)
    most, every = (pixels * channels).T
    total = product.groups * conv.batch * conv.channels * conv.height * conv.width
    return Streamed(part.g * most, product.groups * every * parts.n, total)


def _multiply(unit: BspUnit, row: TileFormat, product: Product, parts: Partitions, part: LargestPart) -> Superstep:
    groups, M, N, K = product.groups, product.M, product.N, product.K
    one_pass = unit.pass_overhead + ceil(row.k * row.n * product.b_B, unit.load_width)
    one_pass = one_pass + in_turn(unit, part.m, row.cycles_per_row, unit.thread_overhead)
    a = _streamed(row, product, parts, part)
    b_part, b_all = part.g * part.k * part.n, groups * K * N
    if product.stays:
        shared = np.asarray(parts.m > 1, np.int64)
        b_most = np.array([ceil(b_part, parts.m) * shared, b_part - b_part // parts.m])
        b_sent, b_received = b_all * shared, b_all * (parts.m - 1)
    else:
        b_most = np.array([ceil(b_all, unit.tiles) + 0 * b_part, b_part])
        b_sent, b_received = b_all + 0 * b_part, b_all * parts.m
    a_share = ceil(a.total, unit.tiles) * product.a_B
    sums = groups * M * N * product.sum_B
    blocks = ceil(N, row.n), ceil(K, row.k)
    return Superstep(
        sync=np.full_like(parts.g, unit.sync),
        exchange=phase(unit, a_share, a.most * product.a_B) + phase(unit, *(b_most * product.b_B)),
        compute=part.g * part.n_blocks * part.k_blocks * one_pass,
        sent=a.total * product.a_B + b_sent * product.b_B,
        received=a.received * product.a_B + b_received * product.b_B,
        read=groups * M * K * blocks[0] * product.a_B + b_all * parts.m * product.b_B + sums * (blocks[1] - parts.k),
        written=sums * blocks[1] + 0 * parts.k,
        held=a.most * product.a_B + b_part * product.b_B + part.g * part.m * part.n * product.sum_B,
    )


def _reduce(unit: BspUnit, product: Product, parts: Partitions, part: LargestPart) -> Superstep:
    mine = part.g * part.m * part.n
    share, least = ceil(mine, parts.k), mine // parts.k
    lanes = max(1, unit.vector_width // product.sum_B)
    moved = product.groups * product.M * product.N * product.sum_B
    received = (parts.k - 1) * share * product.sum_B
    vectors = ceil(share, lanes)
    return Superstep(
        sync=np.full_like(parts.g, unit.sync),
        exchange=phase(unit, (mine - least) * product.sum_B, received),
        compute=in_turn(unit, vectors, parts.k - 1, unit.thread_overhead),
        sent=moved * (parts.k - 1),
        received=moved * (parts.k - 1),
        read=moved * parts.k,
        written=product.groups * product.M * product.N * product.out_B + 0 * parts.k,
        held=mine * product.sum_B + received + share * product.out_B,
    ).where(np.asarray(parts.k > 1, np.int64))


def clocks(unit: BspUnit, number_format: str, product: Product, parts: Partitions) -> Ints:
    """Return the clocks of a product under each of many partitions, int64 [c]."""
    multiply, reduce = supersteps(unit, number_format, product, parts)
    return multiply.clocks + reduce.clocks
