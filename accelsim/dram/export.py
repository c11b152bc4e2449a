"""Traces for other simulators, so that anybody can check a memory of this package with them.

Formats as their programs read them: DRAMsim3 (umd-memsys/DRAMsim3, src/common.cc), the LoadStoreTrace front end of
Ramulator 2 (CMU-SAFARI/ramulator2, src/ramulator/frontend/impl/memory_trace/loadstore_trace.cpp), the command line of
DRAMPower 5 and later (tukl-msd/DRAMPower, src/cli), and the command traces of DRAMPower 4 (its README, section 4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from accelsim.dram.device import Command, Device
from accelsim.dram.served import Served, in_batches
from accelsim.dram.traces import Trace
from accelsim.errors import Problem, UsageError, nearest
from accelsim.types import Array, Ints

CHUNK = 1 << 15
"""Lines that are put together at a time."""

DRAMPOWER = {command: command.name for command in Command} | {Command.REF: "REFA", Command.REFPB: "REFB"}
"""Command -> its name in DRAMPower 5 and later, which takes unknown names for NOP without a word."""

DRAMPOWER4 = DRAMPOWER | {Command.REF: "REF"}
"""Command -> its name in DRAMPower 4."""


class Accesses(NamedTuple):
    """A format of addresses. ``lines``: addresses, writes and clocks (lists of equal length) -> text."""

    what: str
    lines: Callable[[list[int], list[bool], list[int]], str]


class Commands(NamedTuple):
    """A format of commands of one channel. ``line``: clock, command, rank, group, bank, row and device -> one line.

    ``end``: the last line, from the clock at which the simulation ends. ``most_ranks``: ranks that it can tell apart.
    """

    what: str
    line: Callable[[int, Command, int, int, int, int, Device], str]
    end: Callable[[int], str]
    most_ranks: int | None = None


def _dramsim3(addresses: list[int], writes: list[bool], clocks: list[int]) -> str:
    rows = zip(addresses, writes, clocks, strict=True)
    return "".join(f"0x{address:X} {'WRITE' if write else 'READ'} {clock}\n" for address, write, clock in rows)


def _ramulator2(addresses: list[int], writes: list[bool], clocks: list[int]) -> str:
    rows = zip(addresses, writes, strict=True)
    return "".join(f"{'ST' if write else 'LD'} 0x{address:x}\n" for address, write in rows)


def _drampower(clock: int, command: Command, rank: int, group: int, bank: int, row: int, device: Device) -> str:
    # values are not simulated here, but the reader wants a whole burst of them
    data = "," + "00" * device.geometry.access_B if command in (Command.RD, Command.WR) else ""
    return f"{clock},{DRAMPOWER[command]},{rank},{group},{bank},{row},0{data}\n"


def _drampower4(clock: int, command: Command, rank: int, group: int, bank: int, row: int, device: Device) -> str:
    return f"{clock},{DRAMPOWER4[command]},{group * device.geometry.banks + bank}\n"


FORMATS: dict[str, Accesses | Commands] = {
    "dramsim3": Accesses("0xADDRESS READ|WRITE CLOCK", _dramsim3),
    "ramulator2": Accesses("LD|ST 0xADDRESS, without clocks", _ramulator2),
    "drampower": Commands(
        "CLOCK,COMMAND,RANK,GROUP,BANK,ROW,COLUMN[,DATA] of one channel, version 5 and later",
        _drampower,
        lambda clock: f"{clock},END,0,0,0,0,0\n",
    ),
    "drampower4": Commands(
        "CLOCK,COMMAND,BANK of one channel with one rank, version 4", _drampower4, lambda clock: "", most_ranks=1
    ),
}
"""Every format by its name on the command line."""


def format_named(name: str) -> Accesses | Commands:
    """The format of that name. UsageError when there is none."""
    if name not in FORMATS:
        raise UsageError(f"no format {name!r}", "", "one of " + ", ".join(FORMATS), nearest(name, FORMATS))
    return FORMATS[name]


def access_text(trace: Trace, form: Accesses) -> Iterator[str]:
    """The accesses in the order of their clocks (those without clocks: all at clock 0), many lines at a time."""
    at = np.zeros(len(trace.addresses), np.int64) if trace.at is None else trace.at
    order = np.argsort(at, kind="stable")
    for begin in range(0, len(order), CHUNK):
        part = order[begin : begin + CHUNK]
        yield form.lines(trace.addresses[part].tolist(), trace.writes[part].tolist(), at[part].tolist())


def scheduled(trace: Trace, device: Device, outstanding: int | None = None) -> Served:
    """The accesses through the bank model, with every command; those of one clock are offered together, as a transfer.

    Refreshes of long pauses between transfers are counted, but are not among the commands.
    """
    from accelsim.dram.bank import Bank

    dram = Bank(device, outstanding=outstanding)
    return in_batches(partial(dram.serve, commands=True), trace)


def command_text(served: Served, device: Device, form: Commands, channel: int = 0) -> Iterator[str]:
    """The recorded commands of one channel in the order of their clocks, many lines at a time.

    UsageError for a channel that the memory does not have, more ranks than the format knows, or a batch without
    recorded commands.
    """
    commands = _of_channel(served, device, form, channel)
    geometry = device.geometry
    for begin in range(0, len(commands), CHUNK):
        part = commands[begin : begin + CHUNK]
        flat, banks = np.divmod(part[:, 2], geometry.banks)
        ranks, groups = np.divmod(flat, geometry.groups)
        columns = (part[:, 0], part[:, 1], ranks % geometry.ranks, groups, banks, part[:, 3])
        rows = zip(*(column.tolist() for column in columns), strict=True)
        yield "".join(
            form.line(clock, Command(name), rank, group, bank, row, device)
            for clock, name, rank, group, bank, row in rows
        )
    yield form.end(max(served.end, int(commands[-1, 0]) if len(commands) else 0))


def _of_channel(served: Served, device: Device, form: Commands, channel: int) -> Ints:
    geometry = device.geometry
    problems = []
    if not 0 <= channel < geometry.channels:
        expected = f"0 to {geometry.channels - 1}" if geometry.channels > 1 else "0, the only one"
        problems.append(Problem(f"{device.name} has no channel {channel}", "", expected))
    if form.most_ranks is not None and geometry.ranks > form.most_ranks:
        problems.append(Problem(f"{device.name} has {geometry.ranks} ranks", "", f"{form.most_ranks} in this format"))
    if served.commands is None:
        problems.append(Problem("the commands were not recorded", "", "a model that does: bank"))
    if problems or served.commands is None:
        raise UsageError(problems)
    commands: Array = served.commands
    mine = commands[commands[:, 2] // (geometry.ranks * geometry.banks_per_rank) == channel]
    order = np.argsort(mine[:, 0], kind="stable")
    ordered: Ints = mine[order]
    return ordered
