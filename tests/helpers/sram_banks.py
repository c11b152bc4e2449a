"""Conflicts of single clocks at the banks of an on-chip memory."""

from __future__ import annotations

from math import gcd

import numpy as np

from accelsim.sram.banks import Banking
from accelsim.sram.patterns import IDLE, Pattern
from accelsim.types import Ints


def strided_clocks(lanes: int, stride_words: int, banks: int, ports: int = 1) -> int:
    """Clocks for ``lanes`` reads that are ``stride_words`` apart, interleaved 'low': a closed form.

    They visit banks / gcd(stride, banks) banks in turn, so the busiest of them serves the ceiling of lanes over that
    number; at stride 0 all share one access.
    """
    if stride_words == 0:
        return 1
    visited = banks // gcd(stride_words, banks)
    busiest = -(-lanes // visited)
    return -(-busiest // ports)


def bank_loads(pattern: Pattern, banking: Banking, clock: int) -> Ints:
    """Accesses to each bank at one clock of the array, for pictures and for understanding."""
    addresses = pattern.at(np.array([clock]))[0]
    live = addresses != IDLE
    accesses = np.unique(addresses[live] // banking.word_B * 2 + pattern.writes[live])
    return np.bincount(banking.bank(accesses // 2), minlength=banking.banks)
