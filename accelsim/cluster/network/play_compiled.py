"""The event loop over messages, compiled by numba (extra ``fast``)."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from accelsim.cluster.network import play_kernel
from accelsim.dram.compiled import compiled

run = compiled(
    (play_kernel,), {"__name__": __name__, "heapify": heapify, "heappop": heappop, "heappush": heappush}
)["run"]
