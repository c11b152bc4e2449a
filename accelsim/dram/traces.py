"""Traces of DRAM accesses: eight named patterns that tell memories apart, and what files hold.

The named traces are those with which DRAMsim3 and Ramulator 2 were run for ``tests/golden/dram``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accelsim.dram.device import Device
from accelsim.errors import UsageError, nearest
from accelsim.types import Bools, Ints

KIB, MIB = 1 << 10, 1 << 20

STREAM_B = 16 * MIB
"""Bytes of a sequential trace."""

TENSOR_B = 64 * MIB
"""Distance of the tensors of tile3 and stream3: a power of two, so they meet in the same banks."""

RANDOM_B = 256 * MIB
"""Range of random addresses."""

RANDOM_ACCESSES, CHASE_ACCESSES, CONFLICT_ACCESSES, CONFLICT_ROWS = 65_536, 4_096, 8_192, 1_024

LCG_MULTIPLIER, LCG_INCREMENT, LCG_MASK = 6364136223846793005, 1442695040888963407, (1 << 64) - 1
"""Knuth's MMIX generator: x' = multiplier * x + increment modulo 2^64 (The Art of Computer Programming 2, 3.3.4)."""


class Trace(NamedTuple):
    """Accesses of one burst each: byte addresses, int64; whether each writes; clocks at which they may start, or None.

    Without clocks they are offered as fast as the memory takes them.
    """

    addresses: Ints
    writes: Bools
    at: Ints | None = None


class Pattern(NamedTuple):
    """A named trace. ``outstanding``: accesses under way at a time, None for as many as the queues take."""

    what: str
    make: Callable[[int, int], Trace]
    outstanding: int | None = None


def lcg(count: int, seed: int = 1) -> NDArray[np.uint64]:
    """The upper 31 bits of ``count`` steps of the generator from ``seed`` on (which is not in it).

    A jump of m steps is again x -> A x + C, so a block of m numbers gives the next m at once.
    """
    A, C = LCG_MULTIPLIER, LCG_INCREMENT
    numbers = np.array([(A * seed + C) & LCG_MASK], np.uint64)
    while len(numbers) < count:
        numbers = np.concatenate([numbers, numbers * np.uint64(A) + np.uint64(C)])
        A, C = A * A & LCG_MASK, (A * C + C) & LCG_MASK
    return numbers[:count] >> np.uint64(33)


def _reads(addresses: Ints) -> Trace:
    return Trace(addresses, np.zeros(len(addresses), bool))


def _stream(access_B: int, writes: bool) -> Trace:
    addresses = np.arange(STREAM_B // access_B, dtype=np.int64) * access_B
    return Trace(addresses, np.full(len(addresses), writes))


def _three_tensors(blocks: int, block_B: int, access_B: int) -> Trace:
    """Block by block: read from the first tensor, read from the second, write to the third."""
    bursts = np.arange(max(1, block_B // access_B), dtype=np.int64) * access_B
    tensors = np.arange(3, dtype=np.int64) * TENSOR_B
    starts = np.arange(blocks, dtype=np.int64) * 4 * KIB
    addresses = starts[:, None, None] + tensors[:, None] + bursts
    writes = np.broadcast_to(tensors[:, None] == tensors[-1], addresses.shape)
    return Trace(addresses.reshape(-1), writes.reshape(-1))


def _random(count: int, access_B: int) -> Ints:
    places = np.uint64(RANDOM_B // access_B)
    return (lcg(count) % places).astype(np.int64) * access_B


def _conflict(row_lsb: int) -> Trace:
    return _reads((np.arange(CONFLICT_ACCESSES, dtype=np.int64) % CONFLICT_ROWS) << row_lsb)


NAMED: dict[str, Pattern] = {
    "seq_read": Pattern(
        "16 MiB read from end to end: what a DMA of a large tensor does", lambda access_B, _: _stream(access_B, False)
    ),
    "seq_write": Pattern("16 MiB written from end to end", lambda access_B, _: _stream(access_B, True)),
    "tile3": Pattern(
        "tiles of c = a + b: 256 B of each tensor in turn, every 4 KiB",
        lambda access_B, _: _three_tensors(16_384, 256, access_B),
    ),
    "stream3": Pattern(
        "c = a + b over whole tensors: 4 KiB of each in turn",
        lambda access_B, _: _three_tensors(1_024, 4 * KIB, access_B),
    ),
    "rand_read": Pattern(
        "65,536 reads anywhere in 256 MiB: an embedding table of short rows",
        lambda access_B, _: _reads(_random(RANDOM_ACCESSES, access_B)),
    ),
    "rand_mix": Pattern(
        "the same places, every third access a write",
        lambda access_B, _: Trace(_random(RANDOM_ACCESSES, access_B), np.arange(RANDOM_ACCESSES) % 3 == 2),
    ),
    "conflict": Pattern(
        "8,192 reads of one bank, each in another row: the worst that there is", lambda _, row_lsb: _conflict(row_lsb)
    ),
    "chase": Pattern(
        "4,096 random reads, each waiting for the one before: the unloaded latency",
        lambda access_B, _: _reads(_random(CHASE_ACCESSES, access_B)),
        1,
    ),
}
"""Every named trace."""


def named(kind: str, device: Device) -> Trace:
    """The trace ``kind`` of :data:`NAMED` in bursts of ``device``, with rows where its address mapping puts them.

    UsageError when there is no such trace.
    """
    from accelsim.dram.mapping import decoder

    pattern = _pattern(kind)
    row_lsb = decoder(device.controller.mapping, device.geometry).row_lsb if kind == "conflict" else 0
    return pattern.make(device.geometry.access_B, row_lsb)


def made(kind: str, access_B: int, row_lsb: int = 0) -> Trace:
    """Return the trace ``kind`` of :data:`NAMED` in bursts of ``access_B`` bytes; only 'conflict' needs ``row_lsb``,
    the lowest bit of the row."""
    return _pattern(kind).make(access_B, row_lsb)


def _pattern(kind: str) -> Pattern:
    if kind not in NAMED:
        raise UsageError(f"no trace {kind!r}", "", "one of " + ", ".join(NAMED), nearest(kind, NAMED))
    return NAMED[kind]
