"""How long an off-chip memory takes: four levels of detail behind one interface, ``MemoryModel.serve``.

'ideal' and 'bandwidth' know how many bytes move; 'pattern' and 'bank' know which: they turn the addresses of a tile
into bursts and hand all of them to a DRAM model in one call, so that there is still one event per tile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import simpy

from accelsim.dram.device import Device
from accelsim.engines.device import Asked, Served
from accelsim.errors import Problem, UsageError, nearest
from accelsim.machine.addressed import Addressed, Dram
from accelsim.machine.port import Port
from accelsim.network import link
from accelsim.program.addresses import AddressMap
from accelsim.program.commands import Program
from accelsim.spec.models import Attachment, Chip
from accelsim.time import FS_PER_S, Clock, transfer_fs


class Ideal:
    """Data at the instant of acceptance: what is left is the time of the chip alone."""

    def serve(self, asked: Asked, at_fs: int) -> Served:
        """No time."""
        return Served(at_fs, at_fs, at_fs)


@dataclass(frozen=True)
class Lane:
    """A port: rate and beat of its memory, latency with the link before it, and (read, write) lanes of that link."""

    bandwidth_Bps: float
    beat_B: int
    latency_fs: int
    pipelined: bool
    ways: tuple[link.Lane, link.Lane] | None = None

    def occupancy_fs(self, nbytes: int, write: bool) -> tuple[int, bool]:
        """How long a transfer keeps the port: whole beats, or their packets on the link where that is slower.

        The second figure says whether it is.
        """
        memory_fs = transfer_fs(nbytes, self.beat_B, self.bandwidth_Bps)
        if self.ways is None:
            return memory_fs, False
        link_fs = self.ways[write].occupancy_fs(-(-nbytes // self.beat_B) * self.beat_B)
        return max(memory_fs, link_fs), link_fs > memory_fs


class Bandwidth:
    """Latency, then whole beats at a constant rate, or packets where a link is slower; transfers never interleave."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._free_fs = 0  # last data beat so far

    def serve(self, asked: Asked, at_fs: int) -> Served:
        """Data begin after the latency, behind the data of the transfer before."""
        lane = self._lane
        if lane.pipelined:
            start = max(at_fs + lane.latency_fs, self._free_fs)
        else:
            start = max(at_fs, self._free_fs) + lane.latency_fs
        occupied_fs, by_link = lane.occupancy_fs(asked.nbytes, asked.write)
        self._free_fs = start + occupied_fs
        return Served(at_fs, start, self._free_fs, by_link)


def lane_of(attached: Attachment) -> Lane:
    """The lane of a memory with the link before it, by the figures of 'bandwidth'."""
    memory, before, ways = attached.memory, attached.link, None
    latency = memory.latency
    if before is not None:
        latency, ways = latency + before.latency, (link.lane(before, False), link.lane(before, True))
    return Lane(memory.rate_Bps, memory.beats_B, int(latency * FS_PER_S), memory.pipelined, ways)


class Level(NamedTuple):
    """A row of ``MODELS``: what it means in a few words, and the DRAM model that gets the addresses, if any does."""

    text: str
    dram: Callable[[Device], Dram] | None = None


def _pattern(device: Device) -> Dram:
    from accelsim.dram.pattern import Pattern

    return Pattern(device)


def _bank(device: Device) -> Dram:
    from accelsim.dram.bank import Bank

    return Bank(device)


MODELS: dict[str, Level] = {
    "ideal": Level("off-chip memories take no time"),
    "bandwidth": Level("latency, then a constant rate: peak x efficiency"),
    "pattern": Level("each tile's addresses, for every burst the first slot of its bus", _pattern),
    "bank": Level("each tile's addresses, every command of every bank", _bank),
}
"""Level of detail of off-chip memories -> what it is, the simplest first."""

DEFAULT = "bandwidth"


def engine(name: str) -> str:
    """A sentence that says what runs the inner loop of a model; '' where there is none."""
    if MODELS[name].dram is None:
        return ""
    from accelsim.dram import bank

    return ENGINES[bank.engine()]


ENGINES = {
    "numba": "The loop over DRAM bursts was compiled by Numba.",
    "python": "The loop over DRAM bursts ran in plain Python; with Numba installed it is many times faster.",
}
"""What ``accelsim.dram.bank.engine`` gives -> what to tell."""


def check_model(name: str, chip: Chip | None) -> None:
    """UsageError for a level that is none, or for memories of which it needs more than the spec says; all at once."""
    if name not in MODELS:
        raise UsageError(
            Problem(
                f"unknown memory model {name!r}", "", f"one of {', '.join(MODELS)}", nearest(name, MODELS)
            )
        )
    if chip is not None and MODELS[name].dram is not None:
        check_dram(chip, name)


def check_dram(chip: Chip, name: str) -> None:
    """UsageError that names every memory of the chip whose spec has no DRAM that the model ``name`` could follow."""
    lacking = [memory for memory, attached in chip.memories.items() if attached.memory.dram is None]
    if lacking:
        raise UsageError(_lacks(chip, memory, name) for memory in lacking)


def _lacks(chip: Chip, memory: str, name: str) -> Problem:
    kind = chip.memories[memory].memory.kind
    expected = (
        f"a field 'dram' in memories.{memory}.memory (e.g. dram: dram/ddr4-2400, at its bandwidth), another memory "
        f"(--set memories.{memory}.memory=memories/ddr4-2400), or memory model {DEFAULT!r}"
    )
    return Problem(
        f"memory {memory!r} ({kind}) has no DRAM whose banks model {name!r} could follow", chip.name, expected
    )


class Memories(NamedTuple):
    """The ports of a chip, by (memory, write), and the memories that are followed burst by burst."""

    ports: dict[tuple[str, bool], Port]
    drams: dict[str, Addressed]


def memories(
    env: simpy.Environment, clock: Clock, program: Program, name: str, record: bool = False
) -> Memories:
    """Ports of all memories of the chip of ``program``, served by the model ``name``.

    ``record``: keep every burst. Both directions share a port, unless a full-duplex link is in between and nothing
    behind it is shared; a DRAM is, so its controller has one queue.
    """
    level, found = MODELS[name], Memories({}, {})
    addresses = AddressMap(program) if level.dram is not None else None
    for memory, attached in program.chip.memories.items():
        if level.dram is not None and addresses is not None:
            device = device_of(attached)
            found.drams[memory] = Addressed(
                name, memory, level.dram(device), device, program, addresses, record
            )
            first = second = Port(env, clock, found.drams[memory])
        else:
            make = Ideal if name == "ideal" else partial(Bandwidth, lane_of(attached))
            first = Port(env, clock, make())
            second = Port(env, clock, make()) if attached.full_duplex else first
        found.ports[memory, False], found.ports[memory, True] = first, second
    return found


def device_of(attached: Attachment) -> Device:
    """The DRAM of a memory that has one."""
    from accelsim.spec.dram_device import device

    assert attached.memory.dram is not None
    return device(attached.memory.dram)
