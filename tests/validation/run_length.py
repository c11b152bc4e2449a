"""Run-length compression of feature maps in DRAM, as Eyeriss does it (JSSC 2017): three runs in 64 bits.

A run is 5 bits that say how many zeros stand before a value of 16 bits, which may itself be zero where more than 31
stand there. Three runs and a bit that marks the end make a word of 64 bits. Filters are not compressed.
"""

from __future__ import annotations

import numpy as np

from accelsim.engines.row_stationary.counts import Counts
from accelsim.errors import UsageError
from tests.validation.oracles.row_stationary_parts import Values

RUN_BITS, VALUE_BITS, RUNS, WORD_BITS = 5, 16, 3, 64
LONGEST = 2**RUN_BITS - 1


def ratio(zeros: float) -> float:
    """Compressed over plain size of a long map whose values are zero with probability ``zeros``, each for itself.

    A run covers its value and on average ``zeros + zeros^2 + ... + zeros^31`` more. Without zeros the ratio is 4/3.
    Zeros of real maps stand together, so more runs are full and fewer short: neither is modelled.

    Raises UsageError for a share outside of 0 to 1.
    """
    if not 0 <= zeros <= 1:
        raise UsageError(f"a share of zeros is from 0 to 1, not {zeros}")
    covered = sum(zeros**length for length in range(LONGEST + 1))
    return WORD_BITS / RUNS / VALUE_BITS / covered


def encoded_bits(values: Values) -> int:
    """Bits of one map, run by run: the scheme itself, which ``ratio`` is tested on."""
    runs, zeros = 0, 0
    for value in values.ravel().tolist():
        if value == 0 and zeros < LONGEST:
            zeros += 1
        else:
            runs, zeros = runs + 1, 0
    runs += zeros > 0
    return -(-runs // RUNS) * WORD_BITS


def dram_words(counts: Counts[int], ifmap_ratio: float = 1.0, ofmap_ratio: float = 1.0) -> float:
    """Words to and from DRAM where feature maps are that much smaller; 1: not compressed."""
    fmaps = counts.dram_ifmap_reads * ifmap_ratio + counts.dram_ofmap_writes * ofmap_ratio
    return counts.dram_filter_reads + fmaps


def unpadded_zeros(zeros: float, padded: int, plain: int) -> float:
    """Share of zeros of a map of ``plain`` values, given that of the same map with its padding, ``padded`` values."""
    return float(np.clip(1 - (1 - zeros) * padded / plain, 0, 1))
