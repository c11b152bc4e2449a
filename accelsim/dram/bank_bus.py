"""The command bus of the bank model: which clocks are taken. Plain Python that numba can compile, as ``bank_kernel``.

A queue has one bus for all commands, or one for rows (ACT, PRE) and one for columns (RD, WR). A record of a bus is a
ring of the last BUS_CLOCKS clocks, each entry the clock that is taken there, and behind it the latest clock taken. An
ACT that holds the bus for several clocks counts as given at the last of them, from which its timing is measured.
"""

from __future__ import annotations

from accelsim.dram.bank_state import BUS_CLOCKS, EDGE
from accelsim.types import Ints

BUSES = True
"""Whether there may be command buses; compiled once with and once without, which saves the question."""


def free(ring: Ints, bus: int, clock: int, clocks: int) -> int:
    """The first clock from ``clock`` on with which ``clocks`` free ones end; not before what the ring remembers."""
    t = max(clock, ring[bus + BUS_CLOCKS] - BUS_CLOCKS + clocks)
    x = t - clocks + 1
    while x <= t:
        if ring[bus + (x & (BUS_CLOCKS - 1))] == x:
            t = x + clocks
        x += 1
    return int(t)


def on_edge(p: Ints, ring: Ints, bus: int, clock: int, clocks: int) -> int:
    """Return the same as ``free``, for a command that begins at every so many clocks only."""
    t = free(ring, bus, clock, clocks)
    while (t - clocks) % p[EDGE] > 0:
        t = free(ring, bus, t + 1, clocks)
    return t


def take(ring: Ints, bus: int, clock: int, clocks: int) -> None:
    """Take the ``clocks`` that end with ``clock``."""
    for x in range(clock - clocks + 1, clock + 1):
        ring[bus + (x & (BUS_CLOCKS - 1))] = x
    if clock > ring[bus + BUS_CLOCKS]:
        ring[bus + BUS_CLOCKS] = clock


def take_stretch(ring: Ints, bus: int, clock: int, step: int, n: int) -> None:
    """Take ``n`` single clocks, ``step`` apart, that end with ``clock``; as many of them as the ring remembers."""
    for j in range(min(n, (BUS_CLOCKS - 1) // step + 1)):
        x = clock - j * step
        ring[bus + (x & (BUS_CLOCKS - 1))] = x
    ring[bus + BUS_CLOCKS] = clock


LOOP = (free, on_edge, take, take_stretch)
"""Every function of the bus, callees first."""
