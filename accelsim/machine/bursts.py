"""Runs of bytes as bursts: the aligned addresses that a memory controller gets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accelsim.program.addresses import Runs
from accelsim.types import Ints

Addresses = Ints


def bursts(runs: Sequence[Runs], access_B: int, capacity_B: int) -> Addresses:
    """Address of every burst of ``access_B`` bytes that the runs touch, int64 [n], in their order.

    A burst that is touched in part is moved whole. One that the end of a piece shares with the beginning of the next
    is moved once: the DMA engine merges them. Addresses wrap round at ``capacity_B``.
    """
    found = [covering(starts_of(run), run.length_B, access_B) for run in runs]
    if not found:
        return np.zeros(0, np.int64)
    return np.concatenate(found) % capacity_B


def covering(starts: Addresses, length_B: int, access_B: int) -> Addresses:
    """Address of every burst of pieces of ``length_B`` bytes from each of ``starts`` on, int64 [n], in their order."""
    first, last = starts // access_B, (starts + length_B - 1) // access_B
    ahead = starts[1:] >= starts[:-1] + length_B  # not the same bytes again
    first[1:] += (first[1:] == last[:-1]) & ahead
    counts = last - first + 1
    ends = np.cumsum(counts)
    within = np.arange(int(ends[-1])) - np.repeat(ends - counts, counts)
    addresses: Addresses = (np.repeat(first, counts) + within) * access_B
    return addresses


def starts_of(run: Runs) -> Addresses:
    """First address of each piece of the runs, int64 [n], in their order."""
    starts = np.array([run.base], np.int64)
    for stride, count in run.dims:
        starts = (starts[:, None] + np.arange(count, dtype=np.int64) * stride).reshape(-1)
    return starts
