"""The inner loop of the pattern model, compiled by numba (extra ``fast``)."""

from __future__ import annotations

from accelsim.dram import pattern_kernel, pattern_queues
from accelsim.dram.compiled import compiled

PARTS = (pattern_kernel, pattern_queues)
globals().update(compiled(PARTS, {"__name__": __name__}, ("run", "finish"), counted=False))
