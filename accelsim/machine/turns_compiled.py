"""The loops over commands whose engines share ports, and back along their critical path, compiled by numba (extra
``fast``)."""

from __future__ import annotations

from accelsim.dram.compiled import compiled
from accelsim.machine import path_kernel, turns_kernel

_loops = compiled((turns_kernel, path_kernel), {"__name__": __name__}, inline=False)
run, walk = _loops["run"], _loops["walk"]
