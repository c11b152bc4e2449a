"""DRAM model 'pattern': samples of the model 'bank'.

A long batch is cut into parts. In each part a window of consecutive bursts is simulated: first the bursts that fill the
queues, then at least a refresh interval at the full rate, which is measured. The rest of the batch takes as long per
burst as the measured windows. A batch less than twice as long as its windows is simulated whole.
"""

from __future__ import annotations

import numpy as np

from accelsim.dram.bank import Bank
from accelsim.dram.device import Device
from accelsim.dram.records import rules
from accelsim.dram.served import COUNTS, Served
from accelsim.types import Array

WINDOWS, SHARE = 8, 32
"""Least number of windows; in a very long batch, one burst in so many is simulated."""
MEASURED = 1024
"""Least number of bursts that are measured in a window."""
STEP = 0.6180339887498949
"""Fraction of a part by which each window lies later in its part than the previous window: the golden ratio."""
ESTIMATED = ("act", "pre", "misses", "conflicts")
"""Counts extrapolated from the windows."""


class Pattern:
    """A DRAM that serves streams of bursts; its state lasts from call to call.

    ``kernel``: 'numba', 'python' or '' for the faster available one; both give the same.
    """

    def __init__(self, device: Device, kernel: str = "") -> None:
        self.device = device
        self._bank = Bank(device, kernel=kernel)
        self._sampled, self._sampled_end = Bank(device, kernel=kernel), 0
        p, (each, _), g = rules(device, 1, 0), device.refreshes, device.geometry
        if device.controller.refresh == "per_bank":
            each //= g.banks_per_rank
        self._filled = 2 * p.controllers * p.places  # bursts with which all queues are full
        self._window = self._filled + max(MEASURED, each // device.burst * g.channels)

    def serve(self, addresses: Array, writes: Array | bool = False, at: int = 0, record: bool = False) -> Served:
        """Serve bursts, offered in order from clock ``at`` on; arguments and errors as of ``Bank.serve``.

        With ``record``, the times of a batch that was sampled lie on straight lines.
        """
        n = len(addresses)
        count = max(WINDOWS, n // SHARE // self._window)
        if addresses.ndim != 1 or n <= 2 * count * self._window:
            return self._bank.serve(addresses, writes, at, record)
        part, index = n / count, np.arange(count)
        starts = (index * part + (index + 1) * STEP % 1 * (part - self._window)).astype(np.int64)
        which = (starts[:, None] + np.arange(self._window)).ravel()
        marks = (self._window * index[:, None] + (self._filled, self._window)).ravel().tolist()
        directions = np.broadcast_to(np.asarray(writes), n)
        some = self._sampled.serve(addresses[which], directions[which], self._sampled_end, marks=marks)
        self._sampled_end = some.end
        assert some.marks is not None
        bursts, clocks, *counts = (some.marks[1::2] - some.marks[::2]).sum(0).tolist()
        if not bursts:  # one burst again and again, which takes no time to simulate
            return self._bank.serve(addresses, writes, at, record)
        drained = some.end - int(some.marks[-1, 1])
        end = at + round(n * clocks / bursts) + drained
        found = {name: round(n * x / bursts) for name, x in zip(COUNTS, counts, strict=True)}
        return self._estimate(some, found, n, int(np.count_nonzero(directions)), at, end, record)

    def _estimate(
        self, some: Served, found: dict[str, int], n: int, written: int, at: int, end: int, record: bool
    ) -> Served:
        """Return the result of a batch from that of its windows, ``some``."""
        refreshed = self._bank.serve(np.zeros(0, np.int64), False, end).counts  # closes its rows, too
        counts = {name: found[name] if name in ESTIMATED else refreshed[name] for name in COUNTS}
        counts |= {"rd": n - written, "wr": written, "hits": n - counts["misses"] - counts["conflicts"]}
        share = some.open_clocks / some.elapsed
        served = Served(at, end, counts, round(share * (end - at)), n * self.device.burst)
        served.first = at + some.first - some.begin
        if record:
            served.arrived = np.linspace(at, end, n).astype(np.int64)
            served.done = np.linspace(served.first, end, n).astype(np.int64)
        return served
