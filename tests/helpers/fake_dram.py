"""A DRAM model that is easy to follow by hand: one bus, bursts in order, each found open."""

from __future__ import annotations

from typing import Any

import numpy as np

from accelsim.dram.device import CommandEnergy, Controller, Device, Geometry
from accelsim.dram.served import COUNTS, Served

LATENCY = 10
"""Clocks from the arrival of a burst at an idle bus to its data."""

TIMING = {"tRCDRD": 3, "tRCDWR": 3, "CL": 5, "CWL": 4, "tRP": 3, "BL": 2}


def device(energy: bool = True, access_B: int = 16) -> Device:
    """One channel of 16 B per 2 clocks of 2 ns: 4 B/ns; 1 MiB."""
    table = CommandEnergy(
        act_J=8e-9, read_J=1e-9, write_J=2e-9, refresh_J=64e-9, refresh_bank_J=0.0, open_W=0.5, closed_W=0.25,
        io_read_J=3e-9, io_write_J=4e-9,
    )  # fmt: skip
    geometry = Geometry(channels=1, ranks=1, groups=1, banks=4, rows=256, columns=1024 // access_B, access_B=access_B)
    none = tuple(tuple((0,) * 6 for _ in range(6)) for _ in range(4))
    return Device("toy", "toy", geometry, Controller("row"), 2 * 10**6, 2, TIMING, none, (), table if energy else None)


class FakeDram:
    """Opens one row per call, then only hits; refreshes at every call. ``calls``: what it was given."""

    def __init__(self, device: Device) -> None:
        self.device, self.free = device, 0
        self.calls: list[tuple[list[int], bool, int]] = []

    def serve(self, addresses: Any, writes: bool, at: int = 0, record: bool = False) -> Served:
        self.calls.append((addresses.tolist(), bool(writes), at))
        n, burst = len(addresses), self.device.burst
        start = max(at + LATENCY, self.free)
        done = start + burst * (np.arange(n) + 1)
        self.free = int(done[-1])
        counts = dict.fromkeys(COUNTS, 0) | {
            "act": 1, "pre": 1, "rd": 0 if writes else n, "wr": n if writes else 0, "ref": 1, "misses": 1, "hits": n - 1,
        }  # fmt: skip
        return Served(at, self.free, counts, self.free - at, n * burst, np.full(n, at), done, first=int(done[0]))
