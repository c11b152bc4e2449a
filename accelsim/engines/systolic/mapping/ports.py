"""Closed forms of transfers: when so many requests have come through the port of a memory, in clocks of the array.

They follow ``machine.memory_models``: an engine issues one request per chip clock, a port serves them in order, a
transfer takes the latency and then whole beats. All arrays have one entry per candidate mapping.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from accelsim.program.roles import Roles
from accelsim.types import Floats

Size = TypeVar("Size", float, Floats)


class Ports:
    """Ports of all memories of a chip. ``chip``: a clock of the chip; ``token``: clocks from release to acquisition;
    ``sharing``: cores that use them at the same time, each at its share of the rate."""

    def __init__(self, roles: Roles, array_Hz: float, sharing: int = 1) -> None:
        self._roles, self._array_Hz, self._sharing = roles, array_Hz, sharing
        self.chip = array_Hz / float(roles.chip.clock)
        self.token = roles.chip.token_delay * self.chip

    def latency(self, memory: str) -> float:
        """Clocks from the acceptance of a request to its first data."""
        attached = self._roles.memory(memory)
        return (attached.memory.latency + (attached.link.latency if attached.link else 0.0)) * self._array_Hz

    def clocks(self, memory: str, size_B: Size) -> Size:
        """Clocks in which ``size_B`` bytes pass the port, not rounded to beats: a lower bound for any transfers."""
        return size_B / self._roles.memory(memory).rate_Bps * self._sharing * self._array_Hz

    def transfer(self, memory: str, size_B: Size) -> Size:
        """Data clocks of one transfer, in whole beats."""
        return self.clocks(memory, self.whole_B(memory, size_B))

    def whole_B(self, memory: str, size_B: Size) -> Size:
        """Round bytes up to whole beats: the size of one transfer, and a lower bound for several."""
        whole_B: Size = np.ceil(size_B / self._beat_B(memory)) * self._beat_B(memory)
        return whole_B

    def arrivals(self, requests: Sequence[tuple[str, Floats]]) -> list[Floats]:
        """Clocks at which each load, (memory, bytes) in order of issue from edge 1 on, has arrived."""
        issued: dict[str, int] = defaultdict(int)
        free: dict[str, Floats] = {}
        found = []
        for memory, size_B in requests:
            engine = self._roles.memory(memory).load_engine
            issued[engine] += 1
            accepted, before = issued[engine] * self.chip + 0 * size_B, free.get(memory, 0 * size_B)
            data = np.maximum(accepted + self.latency(memory), before)
            if not self._pipelined(memory):
                data = np.maximum(accepted, before) + self.latency(memory)
            free[memory] = data + self.transfer(memory, size_B)
            found.append(free[memory])
        return found

    def all_through(self, memory: str, size_B: Floats, requests: Floats) -> Floats:
        """Earliest end, in clocks, of ``requests`` requests of ``size_B`` bytes in all, the first issued at edge 1."""
        issued: Floats = (requests - 1) * self.chip + self.latency(memory) + self.transfer(memory, 1.0)
        return self.chip + np.maximum(self.through(memory, size_B, requests), issued)

    def through(self, memory: str, size_B: Floats, requests: Floats) -> Floats:
        """Clocks from the acceptance of the first of ``requests`` requests to the end of the last."""
        first = self.latency(memory) if self._pipelined(memory) else 0.0
        return first + self.busy(memory, size_B, requests)

    def busy(self, memory: str, size_B: Floats, requests: Floats) -> Floats:
        """Clocks in which ``requests`` requests occupy a port: data in whole beats, and latency unless it is hidden."""
        data: Floats = self.clocks(memory, np.maximum(size_B, requests * self._beat_B(memory)))
        return data if self._pipelined(memory) else data + requests * self.latency(memory)

    def full_duplex(self, memory: str) -> bool:
        """Return whether a memory loads and stores at the same time."""
        return self._roles.memory(memory).full_duplex

    def _pipelined(self, memory: str) -> bool:
        return self._roles.memory(memory).memory.pipelined

    def _beat_B(self, memory: str) -> int:
        return self._roles.memory(memory).memory.beats_B
