"""Times of off-chip memories: four levels of detail behind one interface, ``MemoryModel.serve``.

'ideal' and 'bandwidth' know how many bytes move; 'pattern' and 'bank' know which: they turn the addresses of a tile
into bursts and hand all of them to a DRAM model in one call, so that there is still one event per tile.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

import simpy

from accelsim.engines.device import Asked, Served, fire, late
from accelsim.errors import Problem, UsageError, known
from accelsim.machine.rates import Bandwidth, Ideal, lane_of
from accelsim.program.program import Program
from accelsim.spec.chip import Chip
from accelsim.spec.levels import cache_of
from accelsim.spec.memory import Attachment
from accelsim.time import NEVER, Clock

if TYPE_CHECKING:
    from accelsim.dram.device import Device
    from accelsim.machine.addressed import Addressed, Dram
    from accelsim.machine.cached import Behind, Cached
    from accelsim.program.addresses import AddressMap


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
    "pattern": Level("every burst's bank, row and DRAM commands; of long tiles a sample", _pattern),
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
"""Result of ``accelsim.dram.bank.engine`` -> sentence about it."""


def check_model(name: str, chip: Chip | None) -> None:
    """Raise UsageError for a level that is none, or for memories of which it needs more than the spec says; all at
    once."""
    known("memory model", name, MODELS)
    if chip is not None and MODELS[name].dram is not None:
        check_dram(chip, name)


def check_dram(chip: Chip, name: str) -> None:
    """Raise UsageError that names every memory of the chip whose spec has no DRAM that the model ``name`` could follow;
    of a level before it there is none to follow."""
    lacking = [memory for memory, each in chip.memories.items() if each.memory.dram is None and each.fed_by is None]
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
    """The ports of a chip, by (memory, write), the memories that are followed burst by burst, and the caches."""

    ports: dict[tuple[str, bool], Port]
    drams: dict[str, Addressed]
    caches: dict[str, Cached]


def memories(env: simpy.Environment, clock: Clock, program: Program, name: str, record: bool = False) -> Memories:
    """Ports of all memories of the chip of ``program``, served by the model ``name``.

    ``record``: keep every burst. Both directions share a port, unless a full-duplex link is in between and nothing
    behind it is shared; a DRAM is, so its controller has one queue, and a cache before it is.
    """
    chip, level, found = program.chip, MODELS[name], Memories({}, {}, {})
    addresses = cache(lambda: _addresses(program))
    for memory, attached in chip.memories.items():
        if attached.cache is not None:  # it stands before the memory that feeds it
            continue
        model: Behind = _by_bytes(name, attached)
        if level.dram is not None and attached.memory.dram is not None:
            from accelsim.machine.addressed import Addressed

            device = device_of(attached)
            model = found.drams[memory] = Addressed(
                name, memory, level.dram(device), device, program, addresses(), record
            )
        queues = _by_acceptance if memory in found.drams else _by_data(name, attached)
        first = second = Port(env, clock, model, queues)
        if before := cache_of(chip, memory):
            from accelsim.machine.cached import Cached, Front

            front = Front(None if name == "ideal" else lane_of(chip.memories[before]))
            found.caches[before] = Cached(before, front, model, program)
            queues = queues if memory in found.drams else _by_data(name, chip.memories[before])
            first = second = Port(env, clock, found.caches[before], queues)
        elif attached.full_duplex and memory not in found.drams:
            second = Port(env, clock, _by_bytes(name, attached), queues)
        found.ports[memory, False], found.ports[memory, True] = first, second
    return found


def _by_bytes(name: str, attached: Attachment) -> Ideal | Bandwidth:
    """The model of a memory that is not followed burst by burst."""
    return Ideal() if name == "ideal" else Bandwidth(lane_of(attached))


def _addresses(program: Program) -> AddressMap:
    from accelsim.program.addresses import AddressMap

    return AddressMap(program)


def device_of(attached: Attachment) -> Device:
    """The DRAM of a memory that has one."""
    from accelsim.spec.dram_device import device

    assert attached.memory.dram is not None
    return device(attached.memory.dram)


class MemoryModel(Protocol):
    """A model that serves the requests of a port in order of acceptance, and keeps the state for it."""

    def serve(self, asked: Asked, at_fs: int) -> Served:
        """Times of a request that is accepted at ``at_fs``; that never falls from one request to the next."""


Queues = Callable[[Served, int], bool]
"""Test whether a served transfer waited for the data of the previous one, which ended at the given time (fs)."""


def _by_acceptance(served: Served, end_fs: int) -> bool:
    return served.accepted < end_fs < served.end


def _by_data(name: str, attached: Attachment) -> Queues:
    """The rule of a memory that is not followed burst by burst."""
    if name == "ideal":
        return lambda served, end_fs: False
    if attached.memory.pipelined:
        return lambda served, end_fs: end_fs == served.data
    return lambda served, end_fs: end_fs == served.data or served.accepted < end_fs


class Port:
    """A shared port; ``request`` returns an event whose value is ``Served``."""

    def __init__(
        self, env: simpy.Environment, clock: Clock, model: MemoryModel, queues: Queues = _by_acceptance
    ) -> None:
        self._env, self._clock, self._model, self._queues = env, clock, model, queues
        self._before: tuple[int, int] | None = None  # command and end of the latest transfer
        self._pending: list[tuple[tuple[int, str], int, Asked, simpy.Event]] = []
        self._deciding_fs = NEVER  # time of the next decision
        self._accepting_fs = 0  # earliest time of the next acceptance

    def request(self, rank: tuple[int, str], asked: Asked, at_fs: int = 0) -> simpy.Event:
        """Ask for a transfer, at the edge ``at_fs`` or now; the event fires at acceptance. Lower rank goes first."""
        accepted = simpy.Event(self._env)
        at_fs = max(at_fs, int(self._env.now))
        self._pending.append((rank, at_fs, asked, accepted))
        self._arbitrate(at_fs)
        return accepted

    def _arbitrate(self, at_fs: int) -> None:
        """Decide between those who have asked by ``at_fs``, once the port accepts; an earlier decision comes first."""
        at_fs = max(at_fs, self._accepting_fs)
        if at_fs < self._deciding_fs:
            self._deciding_fs = at_fs
            late(self._env, at_fs, self._decide)

    def _decide(self, due: simpy.Event) -> None:
        now = int(self._env.now)
        if now != self._deciding_fs:  # the decision was made earlier
            return
        pending = self._pending
        if len(pending) > 1:  # who has asked by now, in order of rank, comes first
            pending.sort(key=lambda entry: (entry[1] > now, entry[0]))
        _, _, asked, accepted = pending.pop(0)
        served = self._model.serve(asked, now)
        if self._before is not None and self._queues(served, self._before[1]):
            served = served._replace(after=self._before)
        self._before = asked.command, served.end
        self._accepting_fs = self._clock.at(self._clock.edge(now) + 1)
        self._deciding_fs = NEVER
        if pending:
            self._arbitrate(min([entry[1] for entry in pending]))
        fire(accepted, served)
