"""A memory that is followed burst by burst: the tiles of a program, as a DRAM model sees them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple, Protocol

import numpy as np

from accelsim.dram.device import Device
from accelsim.dram.served import COUNTS
from accelsim.dram.served import Served as Batch
from accelsim.engines.device import Asked, Served
from accelsim.machine.dram_stats import Accesses, DramStats
from accelsim.machine.run import LedgerRow
from accelsim.network.link import lane
from accelsim.program.actions import ACT, IO, RD, REF, REFPB, WR, ActionName
from accelsim.program.addresses import AddressMap, Runs
from accelsim.program.program import Program
from accelsim.spec.levels import cache_of
from accelsim.time import FS_PER_S
from accelsim.types import Array, Ints


class Dram(Protocol):
    """A DRAM model (``accelsim.dram``). Open rows, buses and refresh stay as they are from one call to the next."""

    def serve(self, addresses: Ints, writes: bool, at: int) -> Batch:
        """The bursts in this order, from clock ``at`` on."""


class _Batch(NamedTuple):
    """A batch as it was handed on: clock, addresses, direction, step."""

    at: int
    addresses: Ints
    write: bool
    op: int


NOBODY = -1
"""Index of the step that stands for no step."""

CHARGED = (ACT, RD, WR)
"""Commands that the transfer pays for which caused them; refresh (``OWN``) would happen without it."""

OWN = (REF, REFPB)

PINS = dict(zip((RD, WR), IO, strict=True))
"""Command -> ledger action of the burst on the pins."""


def refreshes(device: Device, clocks: int) -> tuple[ActionName, int]:
    """Refresh command of a device, and how many of them all its ranks get in so many clocks, busy or not."""
    geometry, timing, kind = device.geometry, device.timing, device.controller.refresh
    ranks = geometry.ranks * geometry.channels
    if kind == "none" or "tREFI" not in timing:
        return REF, 0
    if kind == "per_bank":
        every = timing.get("tREFIpb") or max(1, timing["tREFI"] // geometry.banks_per_rank)
        return REFPB, clocks // every * ranks
    return REF, clocks // timing["tREFI"] * ranks


class Addressed:
    """Serves requests through ``dram``, whose clocks are those of ``device``; a memory model (``port.MemoryModel``).

    Data pass the link, if there is one, at its own rate while the memory moves them: the slower of both decides, and
    the latency of the link is added. Loads end with the data of the last burst, stores with that of the last write.
    """

    def __init__(
        self,
        model: str,
        memory: str,
        dram: Dram,
        device: Device,
        program: Program,
        addresses: AddressMap,
        record: bool = False,
    ) -> None:
        self._model, self._memory, self._dram, self._device = model, memory, dram, device
        self._program, self._addresses = program, addresses
        attached = program.chip.memories[memory]
        self._cache = cache_of(program.chip, memory)
        self._link, self._shared, self._record = attached.link, attached.memory.shared, record
        self._link_free = {False: 0, True: 0}
        self._counts = Counter(dict.fromkeys(COUNTS, 0))
        self._rows: Counter[tuple[ActionName, int, str]] = Counter()
        self._open = self._bus = self._latest = self._requested = 0
        self._left_open = Fraction(0)
        self._batches: list[_Batch] = []

    def serve(self, asked: Asked, at_fs: int) -> Served:
        """One call of the DRAM model for all bursts of the transfer."""
        geometry = self._device.geometry
        runs = self._addresses.runs(self._program.commands[asked.command])
        return self._served(bursts(runs, geometry.access_B, geometry.capacity_B), asked, at_fs)

    def serve_lines(self, lines: Sequence[int], line_B: int, asked: Asked, at_fs: int) -> Served:
        """Serve the cache lines with these numbers, of ``line_B`` bytes each, in one call of the DRAM model."""
        geometry = self._device.geometry
        starts = np.array(lines, np.int64) * line_B
        return self._served(covering(starts, line_B, geometry.access_B) % geometry.capacity_B, asked, at_fs)

    def _served(self, addresses: Addresses, asked: Asked, at_fs: int) -> Served:
        device, command = self._device, self._program.commands[asked.command]
        if not addresses.size:
            return Served(at_fs, at_fs, at_fs)
        at = -(-at_fs // device.clock_fs)
        batch = self._dram.serve(addresses, asked.write, at)
        first = batch.first - device.burst
        self._add(batch, command.op, asked)
        if self._record:
            self._batches.append(_Batch(at, addresses, asked.write, command.op))
        data, end = first * device.clock_fs, batch.end * device.clock_fs
        return Served(at_fs, *self._through_link(asked, at_fs, data, end))

    def _through_link(self, asked: Asked, at_fs: int, data: int, end: int) -> tuple[int, int, bool]:
        """First and last data behind the link, and whether it set the end; a direction moves one transfer at a time."""
        link = self._link
        if link is None:
            return data, end, False
        way = asked.write and link.full_duplex
        begin = max(at_fs if asked.write else data, self._link_free[way])
        through = begin + lane(link, asked.write).occupancy_fs(asked.nbytes)
        by_link, end = through > end, max(end, through)
        self._link_free[way] = end
        latency = int(link.latency * FS_PER_S)
        return begin + latency, end + latency, by_link

    def _add(self, batch: Batch, op: int, asked: Asked) -> None:
        self._counts.update(batch.counts)
        self._open += self._open_since(batch)
        self._bus += batch.bus_clocks
        self._latest = max(self._latest, batch.end)
        self._requested += asked.nbytes
        actions = self._program.commands[asked.command].actions
        tensor = next((a.tensor for a in actions if a.component in (self._memory, self._cache)), "")
        for name in CHARGED:
            self._rows[name, op, tensor] += batch.counts[name]
        for name, action in PINS.items():
            self._rows[action, op, tensor] += batch.counts[name]
        for name in OWN:
            self._rows[name, NOBODY, ""] += batch.counts[name]

    def _open_since(self, batch: Batch) -> int:
        """Clocks with an open bank since the last data of the batch before; until the new one nothing changes."""
        new = max(batch.end - max(batch.begin, self._latest), 0)
        found = int(self._left_open * max(batch.begin - self._latest, 0))
        share = Fraction(batch.open_clocks, max(batch.elapsed, 1))
        self._left_open = share if self._device.controller.page_policy == "open" else Fraction(0)
        return found + int(share * new)

    def finish(self, time_fs: int) -> None:
        """The run ended at ``time_fs``: what happened after the last transfer, and refreshes between transfers."""
        end = max(self._latest, -(-time_fs // self._device.clock_fs))
        self._open += int(self._left_open * (end - self._latest))
        self._latest = end
        exact = getattr(self._dram, "open_clocks", None)  # a model that follows every bank knows
        if exact is not None:
            self._open = exact(end)
        command, due = refreshes(self._device, end)
        missed = max(0, due - self._counts[command])
        self._counts[command] += missed
        self._rows[command, NOBODY, ""] += missed

    def rows(self) -> list[LedgerRow]:
        """Ledger rows: commands by the step and tensor that caused them, refresh by none."""
        return [LedgerRow(self._memory, *key, count) for key, count in self._rows.items() if count]

    def stats(self) -> DramStats:
        """All transfers together, after ``finish``."""
        geometry, end = self._device.geometry, self._latest
        most = end * geometry.ranks * geometry.channels
        whole = Batch(0, end, dict(self._counts), min(self._open, most), self._bus)
        extent_B = self._addresses.extent_B[self._memory]
        return DramStats(self._model, self._device, whole, self._requested, extent_B, self._shared)

    def accesses(self) -> Accesses:
        """Every burst, in the order in which the controller got it; empty unless they were recorded."""
        sizes = [len(batch.addresses) for batch in self._batches]

        def spread(values: list[int], kind: type[object]) -> Array:
            return np.repeat(np.array(values, kind), sizes)

        return Accesses(
            spread([batch.at for batch in self._batches], np.int64),
            np.concatenate([np.zeros(0, np.int64), *(batch.addresses for batch in self._batches)]),
            spread([batch.write for batch in self._batches], np.bool_),
            spread([batch.op for batch in self._batches], np.int32),
        )


Addresses = Ints


def bursts(runs: Sequence[Runs], access_B: int, capacity_B: int) -> Addresses:
    """Address of every burst of ``access_B`` bytes that the runs touch, int64 [n], in their order.

    A burst that is touched in part is moved whole. One that the end of a piece shares with the beginning of the next
    is moved once: the DMA engine merges them. Addresses wrap round at ``capacity_B``.
    """
    found = [covering(starts_of(run), run.length_B, access_B) for run in runs]
    if not found:
        return np.zeros(0, np.int64)
    return np.concatenate(found) % capacity_B


def covering(starts: Addresses, length_B: int, access_B: int) -> Addresses:
    """Address of every burst of pieces of ``length_B`` bytes from each of ``starts`` on, int64 [n], in their order."""
    first, last = starts // access_B, (starts + length_B - 1) // access_B
    ahead = starts[1:] >= starts[:-1] + length_B  # not the same bytes again
    first[1:] += (first[1:] == last[:-1]) & ahead
    counts = last - first + 1
    ends = np.cumsum(counts)
    within = np.arange(int(ends[-1])) - np.repeat(ends - counts, counts)
    addresses: Addresses = (np.repeat(first, counts) + within) * access_B
    return addresses


def starts_of(run: Runs) -> Addresses:
    """First address of each piece of the runs, int64 [n], in their order."""
    starts = np.array([run.base], np.int64)
    for stride, count in run.dims:
        starts = (starts[:, None] + np.arange(count, dtype=np.int64) * stride).reshape(-1)
    return starts
