"""DRAM model ``pattern``: one pass over the bursts, each of which takes the first slot of its bus that it can have.

Open rows, activations, bank groups, ranks, refresh, drains of writes and the window of the controller count as they do
in ``bank``, but there is no scheduler that looks for the best request, so with numba a burst costs a few tens of
nanoseconds. There are no command times: ``done`` is a straight line.

The parts: ``pattern_state`` (what the loop works on), ``pattern_kernel`` (when a burst is served), ``pattern_queues``
(queues and drains), ``pattern_compiled`` (the same functions, compiled).
"""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import numpy as np

from accelsim.dram import pattern_state as ps
from accelsim.dram.bank import engine
from accelsim.dram.device import Device, Geometry
from accelsim.dram.mapping import Decoder, decoder
from accelsim.dram.served import COUNTS, Served
from accelsim.errors import Problem, UsageError
from accelsim.types import Array

MODULES = {"numba": "pattern_compiled", "python": "pattern_queues"}
"""Inner loop -> where it is; the first needs numba."""
COUNTED = {"act": ps.N_ACT, "pre": ps.N_PRE, "misses": ps.N_MISS, "conflicts": ps.N_CONFLICT}
"""Count of ``Served`` -> where the loop keeps it; the other bursts are hits."""


class Refresh:
    """How often a rank gets a refresh command: ``command``, every ``period`` clocks, inf for never.

    ``share``: part of the time that its banks spend on them.
    """

    def __init__(self, device: Device) -> None:
        each, clocks = ps.refresh(device)
        self.share = clocks / each if each else 0.0
        self.command, self.period = "ref", each or math.inf
        if device.controller.refresh == "per_bank":  # one bank after the other
            self.command, self.period = "refpb", each // device.geometry.banks_per_rank

    def until(self, clock: int) -> int:
        """Commands of a rank up to ``clock``."""
        return int(clock // self.period)


class Pattern:
    """A DRAM that serves streams of bursts; its state lasts from call to call.

    ``kernel``: 'numba', 'python' or '' for the faster of those there are; both give the same.
    """

    def __init__(self, device: Device, kernel: str = "") -> None:
        geometry = device.geometry
        self.device = device = ps.one_window(device)
        kind = kernel or engine()
        self._loop = import_module(f"accelsim.dram.{MODULES[kind]}")
        self._decoder = decoder(device.controller.mapping, geometry)
        locator = Locator(self._decoder, geometry)
        self._refresh = Refresh(device)
        state, slots = ps.fresh(device)
        self._compiled = kind == "numba"
        state[ps.SPAN] = locator.span
        self._tables: Any = locator.tables if self._compiled else locator.tables.tolist()
        self._state: Any = np.array(state, np.int64) if self._compiled else state
        self._slots: Any = np.zeros(slots, np.uint8) if self._compiled else bytearray(slots)
        self._queues = sorted(
            {int(state[b + ps.MY_QUEUE]) for b in range(state[ps.BANKS], len(state), ps.BANK)}
        )
        self._end = 0

    def serve(
        self, addresses: Array, writes: Array | bool = False, at: int = 0, record: bool = False
    ) -> Served:
        """Serve bursts, offered in order from clock ``at`` on, as many per clock as there are channels.

        ``addresses``: int64, one byte of each burst. ``writes``: bool, of all or of each. With ``record``,
        ``arrived`` is ``at`` and ``done`` a straight line from the first data to ``end``: the model has no order of
        service. A batch that begins before the end of the last one follows it without a gap.

        Raises UsageError for shapes that differ or negative addresses.
        """
        addresses = np.ascontiguousarray(addresses, np.int64)
        directions = _directions(addresses, writes)
        addresses = np.ascontiguousarray(self._decoder.spread(addresses), np.int64)
        if addresses.size == 0:
            return Served(at, at, dict.fromkeys(COUNTS, 0), 0, 0, first=at)
        m = self._state
        if at > m[ps.NOW]:
            m[ps.NOW], m[ps.INJECTED] = at, 0
        written = int(np.count_nonzero(directions))
        m[ps.MIXED] = int(written > 0)
        before, began = {name: int(m[entry]) for name, entry in COUNTED.items()}, self._end
        if self._compiled:
            self._loop.run(m, self._slots, self._tables, addresses, directions)
        else:
            self._loop.run(m, self._slots, self._tables, addresses.tolist(), directions.tolist())
        for queue in self._queues:
            self._loop.finish(m, self._slots, queue)
        self._end = max(self._last_data(), at)
        counts = dict.fromkeys(COUNTS, 0) | {n: int(m[entry]) - before[n] for n, entry in COUNTED.items()}
        counts |= {"wr": written, "rd": addresses.size - written}
        counts["hits"] = addresses.size - counts["misses"] - counts["conflicts"]
        return self._served(at, began, counts, record)

    def _served(self, at: int, began: int, counts: dict[str, int], record: bool) -> Served:
        """The result of a batch; ``began``: end of the one before."""
        geometry, size = self.device.geometry, counts["rd"] + counts["wr"]
        refreshes = self._refresh.until(self._end) - self._refresh.until(began)
        counts[self._refresh.command] += refreshes * geometry.channels * geometry.ranks
        served = Served(at, self._end, counts, 0, size * self.device.burst)
        served.open_clocks = self._open(served)
        served.first = first = min(at + self.device.unloaded_read, self._end)
        if record:
            served.arrived = np.full(size, at, np.int64)
            served.done = np.linspace(first, self._end, size).astype(np.int64)
            served.done[-1] = self._end
        return served

    def _last_data(self) -> int:
        """Clock of the last data on any bus."""
        m, timing = self._state, self.device.timing
        latency = (timing["CL"] + self.device.burst, timing["CWL"] + self.device.burst)
        ends = []
        for queue in self._queues:
            first, apart = m[queue + ps.ITS_CHANNEL], m[queue + ps.APART]
            ends += [
                m[first + n * apart + ps.LATEST] + latency[m[queue + ps.DIRECTION]]
                for n in range(m[ps.SHARED])
            ]
        return int(max(ends))

    def _open(self, served: Served) -> int:
        """Clocks with an open bank, of all ranks: with a closed page, tRAS of each activation as far as they do not
        overlap; otherwise every rank that was ever used, but for its refresh."""
        m, per = self._state, self.device.geometry.banks_per_rank
        used = [m[b + ps.COLUMN] > ps.NEVER for b in range(m[ps.BANKS], len(m), ps.BANK)]
        elapsed = served.elapsed * sum(any(used[k : k + per]) for k in range(0, len(used), per))
        if self.device.controller.page_policy == "closed":
            return min(elapsed, served.counts["act"] * int(m[ps.RAS]))
        return int(elapsed * (1 - self._refresh.share))


def _directions(addresses: Array, writes: Array | bool) -> Array:
    """``writes`` as 0 or 1 of each burst, int8; UsageError for inputs that are no stream."""
    problems = []
    if addresses.ndim != 1:
        problems.append(Problem(f"addresses of shape {addresses.shape}", "", "one dimension"))
    elif addresses.size and addresses.min() < 0:
        problems.append(Problem(f"address {addresses.min()}", "", "addresses from 0 up"))
    each = np.asarray(writes, bool)
    if each.ndim and each.shape != addresses.shape:
        problems.append(Problem(f"writes of shape {each.shape}", "", f"one bool, or shape {addresses.shape}"))
    if problems:
        raise UsageError(problems)
    return np.array(np.broadcast_to(each, addresses.shape), np.int8)


TABLE_BITS = 10
"""Address bits that one table translates."""


class Locator:
    """Address, as the decoder spread it -> place: flat bank << ``row_bits`` | row, and the address bits that decide it.

    The flat bank is ((channel * ranks + rank) * groups + group) * banks + bank. Mappings only move and XOR bits, so the
    place of an address is the XOR of the places of its bits, looked up ten bits at a time: ``tables``, int64, one of
    2^10 entries behind the other. The lowest ``span`` bits change only the column and are left out.
    """

    def __init__(self, decoder: Decoder, geometry: Geometry) -> None:
        self.row_bits = geometry.rows.bit_length() - 1
        bits = np.arange(decoder.address_bits, dtype=np.int64)
        each = self._places(decoder, geometry, np.int64(1) << bits)
        self.span = int(np.argmax(np.r_[each, 1] != 0))
        entries = np.arange(1 << TABLE_BITS, dtype=np.int64)
        lows = range(self.span, max(decoder.address_bits, self.span + 1), TABLE_BITS)
        self.tables = np.concatenate([self._places(decoder, geometry, entries << low) for low in lows])

    def _places(self, decoder: Decoder, geometry: Geometry, addresses: Array) -> Array:
        place = decoder.places(addresses)
        bank = (place.channel.astype(np.int64) * geometry.ranks + place.rank) * geometry.groups + place.group
        return ((bank * geometry.banks + place.bank) << self.row_bits) | place.row
