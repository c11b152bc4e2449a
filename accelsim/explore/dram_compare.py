"""Several memories on the same traces: utilisation, unloaded latency, energy per bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite

from accelsim.explore.dram_replay import Replay, run
from accelsim.spec.dram import Dram
from accelsim.spec.dram_device import device
from accelsim.spec.status import DOUBTFUL, UNSTATED, Status

TRACES = ("seq_read", "tile3", "stream3", "rand_read", "conflict")
"""The traces that every memory is compared on."""


@dataclass(frozen=True)
class ComparedMemory:
    """One memory on all traces. ``replays`` by trace."""

    name: str
    standard: str
    status: Status
    replays: dict[str, Replay]

    @property
    def peak_Bps(self) -> float:
        """Peak bandwidth, B/s."""
        return self._any.device.peak_Bps

    @property
    def unloaded_s(self) -> float:
        """One read on an idle memory, s."""
        return self._any.unloaded_s

    @property
    def doubtful(self) -> bool:
        """Return whether its energies are not verified."""
        return self.status in DOUBTFUL

    @property
    def _any(self) -> Replay:
        return next(iter(self.replays.values()))

    def share(self, trace: str) -> float:
        """Return the bandwidth on a trace as a share of the peak, 0 to 1."""
        return self.replays[trace].share_of_peak

    def pJ_per_bit(self, trace: str) -> float | None:
        """Energy of the dies per bit, pJ; None where it is not known."""
        joules = self.replays[trace].energy
        return None if joules is None else joules.pJ_per_bit

    def as_dict(self) -> dict[str, object]:
        """The row as JSON can hold it; the unit is the end of each key."""
        return {
            "dram": self.name,
            "standard": self.standard,
            "energy_status": self.status,
            "peak_Bps": self.peak_Bps,
            "unloaded_s": self.unloaded_s,
            "share_of_peak": {trace: share if isfinite(share := self.share(trace)) else None for trace in self.replays},
            "pJ_per_bit": {trace: self.pJ_per_bit(trace) for trace in self.replays},
        }


def compare(
    specs: dict[str, Dram],
    model: str = "bank",
    limit: int | None = None,
    stage: Callable[[str, float], None] = lambda name, share: None,
    traces: Sequence[str] = TRACES,
) -> list[ComparedMemory]:
    """Each memory (by name) on every trace, or its first ``limit`` accesses. ``stage``: called with the progress."""
    rows = []
    for done, (name, spec) in enumerate(specs.items()):
        stage("simulate", done / len(specs))
        made, status = device(spec, name), spec.energy_status or UNSTATED
        replays = {trace: run(made, status, trace, model, limit=limit) for trace in traces}
        rows.append(ComparedMemory(name, spec.standard, status, replays))
    return rows
