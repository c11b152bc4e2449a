"""The loop over commands whose engines share ports, compiled by numba (extra ``fast``)."""

from __future__ import annotations

from accelsim.dram.compiled import compiled
from accelsim.machine import turns_kernel

run = compiled((turns_kernel,), {"__name__": __name__})["run"]
