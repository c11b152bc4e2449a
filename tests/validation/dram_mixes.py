"""The pattern model beside the bank model on random mixes of reads and writes, for every memory of ``hwspecs/dram``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from accelsim.dram import bank
from accelsim.dram.device import Device
from accelsim.dram.pattern import Pattern
from accelsim.seeds import generator
from accelsim.spec.dram_device import device
from accelsim.spec.yaml.parts import list_drams, load_dram
from accelsim.types import Array

SEED = 1
SHARES = (0.0, 0.1, 0.33, 0.5, 0.8)
"""Parts of the accesses that are writes."""
COUNTS = (65_536, 262_144)
"""Accesses of a mix: so many that most are sampled."""
NEAR_B = 1 << 28
"""Bytes that half of the mixes go over; the others go over the whole memory."""


class Mix(NamedTuple):
    """A random mix: the share of writes, and the accesses (int64 bytes, bool)."""

    share: float
    addresses: Array
    writes: Array


def mixes(dev: Device, seed: int, counts: tuple[int, ...] = COUNTS) -> Iterator[Mix]:
    """Random places, reads and writes in random order: every size, span and share of writes."""
    g = dev.geometry
    for count in counts:
        for span in (min(NEAR_B, g.capacity_B), g.capacity_B):
            for share in SHARES:
                rng = generator(seed, count, span & 0xFFFFFFFF, round(100 * share))
                addresses = rng.integers(0, span // g.access_B, count) * g.access_B
                yield Mix(share, addresses, rng.random(count) < share)


def errors(name: str, seed: int, counts: tuple[int, ...] = COUNTS) -> Array:
    """|pattern / bank - 1| of the clocks of each mix on a memory of ``hwspecs/dram``, in the order of ``mixes``."""
    dev = device(load_dram(name), name)
    found = []
    for each in mixes(dev, seed, counts):
        planned = Pattern(dev).serve(each.addresses, each.writes).elapsed
        found.append(abs(planned / bank.serve(dev, each.addresses, each.writes).elapsed - 1))
    return np.array(found)


class Row(NamedTuple):
    """A memory: median, 90th percentile and largest |error|."""

    name: str
    median: float
    p90: float
    largest: float


@cache
def table() -> tuple[Row, ...]:
    """Every memory of ``hwspecs/dram``."""
    rows = []
    for name in list_drams():
        rows.append(Row(name, *map(float, np.quantile(errors(name, SEED), (0.5, 0.9, 1)))))
    return tuple(rows)
