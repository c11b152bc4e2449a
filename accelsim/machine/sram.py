"""Ports of the on-chip buffers: so many units at a time, the others wait.

Who asks at one instant is served in the order of engine names, after all events of that instant; otherwise first come,
first served. The DMA engines have a port of their own on every buffer.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

import simpy

from accelsim.engines.device import late
from accelsim.program.commands import Command
from accelsim.program.program import Program
from accelsim.program.roles import buffer_of, unit_of
from accelsim.spec.chip import Chip

COMPUTE_UNITS = 2
"""The matrix and the vector unit of a core; a buffer with as many ports never makes either wait."""


class BufferPorts:
    """The ports of one buffer."""

    def __init__(self, env: simpy.Environment, count: int) -> None:
        self._env = env
        self._free_fs = [0] * count
        self._pending: list[tuple[str, int, simpy.Event]] = []

    def request(self, engine: str, duration_fs: int) -> simpy.Event:
        """Ask now for a port for so long; the event's value is the time (fs) from which it is held."""
        granted = self._env.event()
        if not self._pending:
            late(self._env, int(self._env.now), self._decide)
        self._pending.append((engine, duration_fs, granted))
        return granted

    def _decide(self, due: simpy.Event) -> None:
        for _, duration_fs, granted in sorted(self._pending, key=lambda entry: entry[0]):
            index = self._free_fs.index(min(self._free_fs))
            start = max(int(self._env.now), self._free_fs[index])
            self._free_fs[index] = start + duration_fs
            granted.succeed(start)
        self._pending = []


def scarce(chip: Chip, names: Iterable[str]) -> dict[str, int]:
    """Return the memories of a program whose ports can run out, in order -> how many ports they have."""
    specs = ((name, buffer_of(chip, name)) for name in sorted(names))
    return {name: spec.ports for name, spec in specs if spec is not None and spec.ports < COMPUTE_UNITS}


class Buffers:
    """All buffers whose ports can run out."""

    def __init__(self, env: simpy.Environment, program: Program) -> None:
        self._program = program
        names = {region.memory for region in program.regions}
        self._ports = {name: BufferPorts(env, count) for name, count in scarce(program.chip, names).items()}

    def narrow(self, command: Command) -> str:
        """The buffer whose ports can run out and that a command must hold, '' for none."""
        if not self._ports:
            return ""
        names = {unit_of(name) for name in self._touched(command) if name in self._ports}
        return next((name for name in self._program.chip.buffers if name in names), "")

    def _touched(self, command: Command) -> set[str]:
        return {self._program.regions[use.region].memory for use in (*command.reads, *command.writes)}

    def needs(self, command: Command) -> bool:
        """Return whether a command must hold scarce ports."""
        return bool(self._ports) and not self._touched(command).isdisjoint(self._ports)

    def needed(self, command: Command) -> list[BufferPorts]:
        """The scarce ports that a command must hold, in order of buffer names."""
        if not self._ports:
            return []
        touched = self._touched(command)
        return [ports for name, ports in self._ports.items() if name in touched]


def acquire(ports: Iterable[BufferPorts], engine: str, duration_fs: int) -> Generator[simpy.Event, Any, int]:
    """Hold all ports, one after the other; returns the time (fs) from which all are held, 0 when none is needed."""
    latest = 0
    for port in ports:
        start = yield port.request(engine, duration_fs)
        latest = max(latest, start)
    return latest
