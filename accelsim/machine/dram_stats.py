"""Statistics of memories over a run: hits and misses of caches; commands, rows, data and energy of a DRAM."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accelsim.dram.device import Device
from accelsim.dram.energy import STANDBY, Energy, energy
from accelsim.dram.served import Served
from accelsim.types import Bools, Ints


@dataclass
class CacheStats:
    """Accesses to lines that hit and that missed; bytes fetched from ``memory``, written back to it, of stores that
    passed through to it and that changed a line on the way; bytes that are left which the memory does not have."""

    memory: str
    line_B: int
    hits: int = 0
    misses: int = 0
    fetched_B: int = 0
    written_back_B: int = 0
    through_B: int = 0
    changed_B: int = 0
    dirty_B: int = 0

    @property
    def hit_rate(self) -> float:
        """Share of the accesses that hit; 0 without any."""
        return self.hits / (self.hits + self.misses) if self.hits + self.misses else 0.0

    def as_dict(self) -> dict[str, int | float | str]:
        """Return the facts for JSON."""
        return {
            "memory": self.memory,
            "line_B": self.line_B,
            "hits": self.hits,
            "misses": self.misses,
            "hit_rate": self.hit_rate,
            "fetched_B": self.fetched_B,
            "written_back_B": self.written_back_B,
            "through_B": self.through_B,
            "dirty_B": self.dirty_B,
        }


@dataclass(frozen=True)
class DramStats:
    """One memory over a whole run.

    ``model``: the level that served it ('pattern', 'bank'). ``served``: all transfers together, from clock 0 to the end
    of the run. ``requested_B``: bytes of the transfers; what whole bursts move beyond them is ``overfetch_B``.
    ``extent_B``: addresses that the tensors of the program take; beyond the capacity they wrap round. ``shared``: a
    server pays for standby and refresh.
    """

    model: str
    device: Device
    served: Served
    requested_B: int
    extent_B: int
    shared: bool = False

    @property
    def bursts(self) -> int:
        """Bursts read and written."""
        return self.served.counts["rd"] + self.served.counts["wr"]

    @property
    def moved_B(self) -> int:
        """Bytes on the data buses."""
        return self.bursts * self.device.geometry.access_B

    @property
    def overfetch_B(self) -> int:
        """Bytes moved beyond those asked for: the rest of bursts that were touched in part."""
        return self.moved_B - self.requested_B

    @property
    def wraps(self) -> bool:
        """Return whether tensors share bytes because the program has more of them than the memory holds at once."""
        return self.extent_B > self.device.geometry.capacity_B

    @property
    def hit_rate(self) -> float | None:
        """Share of the bursts that found their row open; None without bursts."""
        return self.served.counts["hits"] / self.bursts if self.bursts else None

    @property
    def bus_utilisation(self) -> float:
        """Share of the run in which data was on a bus, mean over channels."""
        clocks = self.served.elapsed * self.device.geometry.channels
        return self.served.bus_clocks / clocks if clocks else 0.0

    @property
    def energy(self) -> Energy | None:
        """Energy of the run by parts, as far as it is charged; None where the memory does not state its currents."""
        if self.device.energy is None:
            return None
        found = energy(self.served, self.device)
        if not self.shared:
            return found
        return replace(found, parts_J={**found.parts_J, **dict.fromkeys(("refresh", *STANDBY), 0.0)})

    def as_dict(self) -> dict[str, object]:
        """Everything as JSON can hold it; the unit is the end of each key."""
        joules = self.energy
        facts: dict[str, object] = {
            "model": self.model,
            "device": self.device.name,
            "peak_Bps": self.device.peak_Bps,
            "counts": dict(self.served.counts),
            "hit_rate": self.hit_rate,
            "bus_utilisation": self.bus_utilisation,
            "requested_B": self.requested_B,
            "moved_B": self.moved_B,
            "overfetch_B": self.overfetch_B,
            "extent_B": self.extent_B,
        }
        if joules is not None:
            facts |= {
                "energy_J": joules.die_J,
                "energy_parts_J": dict(joules.parts_J),
                "io_J": joules.io_J,
                "pJ_per_bit": joules.pJ_per_bit,
                "idle_share": joules.idle_share,
            }
        return facts


class Accesses(NamedTuple):
    """Every burst of a run as the controller got it, int64 clocks of arrival and byte addresses, bool writes, int32
    steps, all [n]; clocks never fall.
    """

    at: Ints
    address: Ints
    write: Bools
    op: NDArray[np.int32]
