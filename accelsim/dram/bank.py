"""DRAM by the bank: a scheduler (``device.SCHEDULERS``) with windows, write drain, refresh and page policies.

Promise (``accelsim validate``): bandwidth within a few percent of DRAMsim3 and Ramulator 2, unloaded latency to a
clock; loaded latency is queueing in a window and only a trend. Commands wait for the command bus
where the controller says so (``act_clocks``); a refresh takes no clock of it. Not modelled: power-down.
"""

from __future__ import annotations

import importlib.util
import os
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from accelsim.dram import bank_state
from accelsim.dram.bank_state import (
    BANK,
    BUS,
    CLOSED_AT,
    COMING,
    CONTROLLERS,
    END,
    EVERY,
    FIRST,
    HELD,
    INJECTED,
    LOGGED,
    N_ACT,
    N_REF,
    N_REFPB,
    NEVER,
    NEXT_REF,
    NOW,
    OPEN_BANKS,
    OPEN_CLOCKS,
    OPENED,
    PER_BANK,
    PER_RANK,
    QUEUE,
    RANK,
    REACH,
    TIMEOUT,
    Requests,
    State,
)
from accelsim.dram.device import Device
from accelsim.dram.mapping import decoder
from accelsim.dram.served import COUNTS, Served
from accelsim.errors import Problem, UsageError
from accelsim.types import Array

LOG_ROWS = 1 << 16
MOST_AT_ONCE = 1_000_000
LOOPS = {"bursts": "bank_kernel", "commands": "bank_commands", "queues": "bank_queues"}
"""Scheduler -> where its inner loop is, in plain Python."""


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
        import_module("accelsim.dram.bank_compiled")
    except ImportError:
        return False
    return True


def inner_loop(kind: str, scheduler: str = "bursts", buses: bool = False) -> Any:
    """Return what has the inner loop ``run`` of a scheduler: compiled by numba or as it is; ``buses``: with command
    buses."""
    plain = import_module(f"accelsim.dram.{LOOPS[scheduler]}")
    if kind == "python":
        return plain
    return import_module("accelsim.dram.bank_compiled").variant(plain, buses)


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
        self._kind = kernel or engine()
        rules = bank_state.rules(device, injection or device.geometry.channels, outstanding or 0)
        self._rules = self._as_run(rules)
        self._state = State(*[self._as_run(each) for each in bank_state.fresh(device, rules)])
        self._loop = inner_loop(self._kind, device.controller.scheduler, bool(rules[BUS]))
        self._decode = decoder(device.controller.mapping, device.geometry).decode

    def _as_run(self, values: Any) -> Any:
        """As the inner loop wants it: int64 array or list."""
        array = np.asarray(values, np.int64)
        return array if self._kind == "numba" else array.tolist()

    def serve(
        self,
        addresses: Array,
        writes: Array | bool,
        at: int = 0,
        record: bool = False,
        commands: bool = False,
    ) -> Served:
        """Serve bursts in order of acceptance, from clock ``at``; returns when the last data have moved.

        ``addresses``: int64 bytes, one for each burst; ``writes``: bool, for all or for each. ``record``: keep when
        each burst was accepted and done; ``commands``: keep every command. UsageError for shapes that do not fit.
        """
        if (
            addresses.ndim != 1
            or np.shape(writes) not in ((), addresses.shape)
            or addresses.dtype.kind not in "iu"
        ):
            what = (
                f"addresses {addresses.dtype} of shape {addresses.shape}, writes of shape {np.shape(writes)}"
            )
            raise UsageError(Problem(what, self.device.name, "integers [n], and one bool or bools [n]"))
        at_state, n = self._state.at, len(addresses)
        requests = self._requests(addresses, writes, record, commands)
        before = list(at_state[N_ACT:])
        self._idle_until(at, requests)
        open_before = self.open_clocks(at)
        at_state[NOW], at_state[INJECTED], at_state[COMING] = at, 0, 0
        at_state[END], at_state[FIRST], at_state[HELD] = at, -NEVER, at
        logged: list[Array] = []
        while self._loop.run(self._rules, *self._state, *requests):
            logged.append(self._drain_log(requests))
        end = int(at_state[END])
        self._idle_until(end, requests)  # ranks that nobody addressed are refreshed too
        if commands:
            logged.append(self._drain_log(requests))
        return Served(
            begin=at,
            end=end,
            counts={name: int(b - a) for name, a, b in zip(COUNTS, before, at_state[N_ACT:], strict=True)},
            open_clocks=self.open_clocks(end) - open_before,
            bus_clocks=n * self.device.burst,
            arrived=np.asarray(requests.arrived, np.int64) if record else None,
            done=np.asarray(requests.done, np.int64) if record else None,
            commands=_in_order(logged) if commands else None,
            first=int(at_state[FIRST]) if n else at,
        )

    def open_clocks(self, at: int) -> int:
        """Clocks until ``at`` in which any bank of a rank was open, added up over all ranks."""
        rank, total = self._state.rank, 0
        for r in range(0, len(rank), RANK):
            opened, closed = int(rank[r + OPENED]), int(rank[r + CLOSED_AT])
            total += int(rank[r + OPEN_CLOCKS])
            if rank[r + OPEN_BANKS]:
                total += max(0, at - opened)
            else:  # the last precharge may lie behind ``at``
                total -= max(0, closed - max(at, opened))
        return total

    def _idle_until(self, at: int, requests: Requests) -> None:
        """Rows that were closed, and refreshes that fell due, since the last call.

        The first round of refreshes closes the banks, the last one counts for what follows; those in between are only
        counted.
        """
        p, state = self._rules, self._state
        every, turn = int(p[EVERY]), int(p[PER_RANK]) if p[PER_BANK] else 1
        refresh, expire = self._loop.refresh, self._loop.expire
        for k in range(len(state.bank) // BANK if p[TIMEOUT] else 0):
            expire(p, state.bank, state.rank, state.at, requests.log, k, at)
        for r in range(len(state.rank) // RANK if every else 0):
            missed = (at - int(state.rank[RANK * r + NEXT_REF])) // every + 1
            skipped = max(0, missed - 2 * turn) // turn * turn
            for k in range(missed - skipped):
                if k == turn:
                    state.rank[RANK * r + NEXT_REF] += skipped * every
                    state.at[N_REFPB if p[PER_BANK] else N_REF] += skipped
                refresh(
                    p, state.bank, state.group, state.rank, state.ring, state.slot, state.at, requests.log, r
                )

    def _requests(self, addresses: Array, writes: Array | bool, record: bool, commands: bool) -> Requests:
        g = self.device.geometry
        place = self._decode(addresses)
        flat = (
            (place.channel.astype(np.int64) * g.ranks + place.rank) * g.groups + place.group
        ) * g.banks + place.bank
        row = place.row.astype(np.int64)
        base = place.channel.astype(np.int64) % int(self._rules[CONTROLLERS]) * (2 * int(self._rules[QUEUE]))
        write = np.broadcast_to(np.asarray(writes), row.shape).astype(np.int64)
        runs = bank_state.stretches(flat, row, write)
        kept = np.zeros(len(row) if record else 0, np.int64)
        log = np.zeros(4 * max(LOG_ROWS, 4 * int(self._rules[REACH])) if commands else 0, np.int64)
        columns = (base, flat, row, write, *runs, np.zeros(len(row), np.int64), kept, kept.copy(), log)
        return Requests(*columns) if self._kind == "numba" else Requests(*[each.tolist() for each in columns])

    def _drain_log(self, requests: Requests) -> Array:
        rows = int(self._state.at[LOGGED])
        self._state.at[LOGGED] = 0
        return np.array(requests.log[: 4 * rows], np.int64).reshape(rows, 4)


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
