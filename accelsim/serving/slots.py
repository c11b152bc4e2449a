"""Slots of adapters in the memory of a replica, and what adapters do in a step.

The rule is that of vLLM: a step has at most ``resident`` distinct adapters (``max_loras``), each in a slot of the
memory of the devices. A request whose adapter gets no slot waits, and others overtake it. An adapter without a slot is
loaded from the memory of the host when a request that has it is admitted, before the step, which waits for it; it takes
the slot of the one that was used longest ago. The host has all adapters (``max_cpu_loras``).
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import NamedTuple


class Adapted(NamedTuple):
    """Adapters in a step: ``tokens`` that have one, ``distinct`` ones of these, ``loads`` before it, and requests that
    were ``admitted`` with one."""

    tokens: int = 0
    distinct: int = 0
    loads: int = 0
    admitted: int = 0


class Slots:
    """Slots of a replica for ``most`` adapters. ``used``: requests that run, by their adapter; others whose requests
    have left keep their slots until they are needed, the one that was used longest ago goes first. ``admitted``:
    requests with an adapter so far; ``loads``: of adapters that had no slot then."""

    def __init__(self, most: int) -> None:
        self.most, self.admitted, self.loads = most, 0, 0
        self.used = Counter[int]()
        self._idle = OrderedDict[int, None]()

    def admits(self, adapter: int) -> bool:
        """Return whether a request with an adapter (0: none) may run beside the others."""
        return not adapter or adapter in self.used or len(self.used) < self.most

    def enter(self, adapter: int) -> None:
        """A request with an adapter is admitted."""
        if not adapter:
            return
        self.admitted += 1
        if adapter not in self.used and adapter not in self._idle:
            self.loads += 1
            if len(self.used) + len(self._idle) == self.most:
                self._idle.popitem(last=False)
        self._idle.pop(adapter, None)
        self.used[adapter] += 1

    def leave(self, adapter: int) -> None:
        """A request with an adapter runs no longer."""
        if not adapter:
            return
        self.used[adapter] -= 1
        if not self.used[adapter]:
            del self.used[adapter]
            self._idle[adapter] = None
