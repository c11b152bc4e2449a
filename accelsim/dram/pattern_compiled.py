"""The functions of ``pattern_kernel`` and ``pattern_queues``, compiled by numba (extra ``fast``)."""

from __future__ import annotations

from accelsim.dram import pattern_kernel, pattern_queues
from accelsim.dram.compiled import compiled

globals().update(
    # forceinline: half of the time would go into calls; error_model: no divisor is ever 0
    compiled((pattern_kernel, pattern_queues), {"__name__": __name__}, forceinline=True, error_model="numpy")
)
