"""DRAM by the bank: a scheduler (``device.SCHEDULERS``) with windows, write drain, refresh and page policies.

Promise (``accelsim validate``): bandwidth within a few percent of DRAMsim3 and Ramulator 2, unloaded latency to a
clock; loaded latency is queueing in a window and only a trend. Commands wait for the command bus
where the controller says so (``act_clocks``); a refresh takes no clock of it. Not modelled: power-down.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from types import SimpleNamespace

import numpy as np

from accelsim.dram.device import PAGE_POLICIES, SCHEDULERS, Device
from accelsim.dram.link import linked
from accelsim.dram.mapping import decoder
from accelsim.dram.records import LATER, Memory, Requests, fresh, stretches
from accelsim.dram.served import COUNTS, Served
from accelsim.errors import Problem, UsageError
from accelsim.types import Array

LOG_ROWS = 1 << 16
MOST_AT_ONCE = 1_000_000
LOG_FULL = 1
"""Why the loop pauses, where it is not at a mark."""
PARTS = ("accelsim.dram.row_policy", "accelsim.dram.rows", "accelsim.dram.schedule_bursts")
"""Modules with the functions of the loop, callees first; a scheduler or a row policy of its own comes on top."""
CALLED = ("begin", "run", "finish", "mark", "empty_log", "open_clocks")
"""Functions of the loop that are called from here."""


def engine() -> str:
    """Return which inner loop is used: 'numba' where it is installed (extra ``fast``), else 'python'.

    The environment variable ACCELSIM_KERNEL=python keeps numba out.
    """
    if os.environ.get("ACCELSIM_KERNEL", "") == "python" or importlib.util.find_spec("numba") is None:
        return "python"
    return "numba" if _compiles() else "python"


@cache
def _compiles() -> bool:
    """Return whether Numba works: one that does not fit the NumPy of the day does not."""
    try:
        import_module("accelsim.dram.compiled")
    except ImportError:
        return False
    return True


@cache
def inner_loop(compiled: bool, scheduler: str, page_policy: str, buses: bool) -> SimpleNamespace:
    """Return the functions of the loop of a scheduler and a row policy, compiled by numba or as they are.

    ``buses``: with command buses.
    """
    own = (SCHEDULERS[scheduler].module, PAGE_POLICIES[page_policy].module)
    parts = [import_module(name) for name in (*PARTS, *filter(None, own))]
    around = {"__name__": __name__, "BUSES": buses}
    if not compiled:
        return SimpleNamespace(**linked(parts, around))
    compiler = import_module("accelsim.dram.compiled")
    return SimpleNamespace(**compiler.compiled(parts, around, CALLED, counted=False))


class Bank:
    """One DRAM whose state persists from call to call.

    ``injection``: requests accepted per clock. ``outstanding``: requests in flight, None as many as the windows hold;
    with 1, a request is made when the data of the one before have come. ``kernel``: 'numba', 'python' or '' for the
    faster of those there are; both give the same.
    """

    def __init__(
        self, device: Device, injection: int | None = None, outstanding: int | None = None, kernel: str = ""
    ) -> None:
        wrong = {"injection": injection, "outstanding": outstanding}
        if any(count is not None and not 1 <= count <= MOST_AT_ONCE for count in wrong.values()):
            raise UsageError(
                Problem(f"{name} {count}", device.name, f"1 to {MOST_AT_ONCE:,}")
                for name, count in wrong.items()
                if count is not None and not 1 <= count <= MOST_AT_ONCE
            )
        self.device = device
        self._compiled = (kernel or engine()) == "numba"
        c = device.controller
        self._loop = inner_loop(self._compiled, c.scheduler, c.page_policy, c.act_clocks > 0)
        self._memory = fresh(device, injection or device.geometry.channels, outstanding or 0, self._compiled)
        self._decode = decoder(c.mapping, device.geometry).decode

    def serve(
        self,
        addresses: Array,
        writes: Array | bool,
        at: int = 0,
        record: bool = False,
        commands: bool = False,
        marks: Iterable[int] = (),
    ) -> Served:
        """Serve bursts in order of acceptance, from clock ``at``; returns when the last data have moved.

        ``addresses``: int64 bytes, one for each burst; ``writes``: bool, for all or for each. ``record``: keep when
        each burst was accepted and done; ``commands``: keep every command. ``marks``: requests at which the
        clock and the counts are kept. UsageError for negative addresses and shapes that do not fit.
        """
        shape, problems = np.shape(writes), []
        if addresses.ndim != 1 or shape not in ((), addresses.shape) or addresses.dtype.kind not in "iu":
            what = f"addresses {addresses.dtype} of shape {addresses.shape}, writes of shape {shape}"
            problems.append(Problem(what, self.device.name, "integers [n], and one bool or bools [n]"))
        if addresses.size and addresses.min() < 0:
            problems.append(Problem(f"address {addresses.min()}", self.device.name, "addresses from 0 up"))
        UsageError.raise_for(problems)
        memory, loop, n = self._batch(addresses, writes, record, commands), self._loop, len(addresses)
        open_before, before = loop.begin(memory, at)
        logged: list[Array] = []
        found, stops = [], iter(marks)
        loop.mark(memory, next(stops, LATER))
        while why := loop.run(memory):
            if why == LOG_FULL:
                logged.append(self._drain_log(memory))
            else:
                request, clock, counts = loop.mark(memory, next(stops, LATER))
                found.append((request, clock, *counts))
        end, first, open_after, after = loop.finish(memory)
        if commands:
            logged.append(self._drain_log(memory))
        requests = memory.requests
        return Served(
            begin=at,
            end=end,
            counts={name: b - a for name, a, b in zip(COUNTS, before, after, strict=True)},
            open_clocks=open_after - open_before,
            bus_clocks=n * self.device.burst,
            arrived=np.asarray(requests.arrived, np.int64) if record else None,
            done=np.asarray(requests.done, np.int64) if record else None,
            commands=_in_order(logged) if commands else None,
            first=first if n else at,
            marks=np.array(found, np.int64).reshape(-1, 2 + len(COUNTS)),
        )

    def open_clocks(self, at: int) -> int:
        """Return the clocks until ``at`` in which any bank of a rank was open, added up over all ranks."""
        return int(self._loop.open_clocks(self._memory, at))

    def _batch(self, addresses: Array, writes: Array | bool, record: bool, commands: bool) -> Memory:
        """Return the memory with requests for the loop, in order."""
        g, c = self.device.geometry, self.device.controller
        place = self._decode(addresses)
        channel, row = place.channel.astype(np.int64), place.row.astype(np.int64)
        flat = ((channel * g.ranks + place.rank) * g.groups + place.group) * g.banks + place.bank
        write = np.broadcast_to(np.asarray(writes), row.shape).astype(np.int64)
        controllers = g.channels // c.shared
        kept = np.zeros(len(row) if record else 0, np.int64)
        rows = max(LOG_ROWS, 2 * g.channels * (3 * g.ranks * g.banks_per_rank + 8)) if commands else 0
        runs, slots = stretches(flat, row, write), np.zeros(len(row), np.int64)
        log = np.zeros(4 * rows, np.int64)
        columns = (channel % controllers, flat, row, write, *runs, slots, kept, kept.copy(), log)
        each = columns if self._compiled else [column.tolist() for column in columns]
        return self._memory._replace(requests=Requests(*each))

    def _drain_log(self, memory: Memory) -> Array:
        rows = self._loop.empty_log(memory)
        return np.array(memory.requests.log[: 4 * rows], np.int64).reshape(rows, 4)


def _in_order(logged: list[Array]) -> Array:
    """Rows by clock; at one clock as they were issued."""
    rows = np.concatenate(logged)
    return rows[np.argsort(rows[:, 0], kind="stable")]


def serve(
    device: Device,
    addresses: Array,
    writes: Array | bool,
    at: int = 0,
    injection: int | None = None,
    outstanding: int | None = None,
    record: bool = False,
    commands: bool = False,
    kernel: str = "",
) -> Served:
    """One batch on a DRAM that was idle and closed; arguments as of ``Bank`` and ``Bank.serve``."""
    return Bank(device, injection, outstanding, kernel).serve(addresses, writes, at, record, commands)
