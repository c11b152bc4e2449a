"""Contents of the simulated memories: versions of regions, checked at every access, and their values.

A region has one current version. It is valid from the completion of its last write until the next writer starts.
A command that reads [from, to) checks at ``to`` that its version was valid all that time; if not, the schedule is
wrong and ``HazardError`` says so. Values are kept by a policy (``effects``): exact, fast or off.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Protocol

from accelsim.errors import HazardError
from accelsim.program.commands import Command, Use
from accelsim.program.program import Program
from accelsim.time import NEVER


class Effects(Protocol):
    """A value policy: what reading, completing and overwriting a command's regions does to values."""

    def read(self, command: Command, use: Use) -> None:
        """The command has finished reading: take the operand."""

    def complete(self, command: Command) -> None:
        """The command completes: run its effect, write its results."""

    def forget(self, region: int) -> None:
        """The bytes of the region now belong to another one."""


class Agenda:
    """Agenda of checks and changes at later times, in order of time and then of entry.

    Engines see none of it, so it takes no events of the simulation: ``until`` catches up before anybody could look.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, Callable[[int], None]]] = []
        self._count = 0

    def at(self, t_fs: int, action: Callable[[int], None]) -> None:
        """Call ``action`` with that time once it has come."""
        heappush(self._entries, (t_fs, self._count, action))
        self._count += 1

    def until(self, t_fs: int) -> None:
        """Do all that is due by then."""
        entries = self._entries
        while entries and entries[0][0] <= t_fs:
            due_fs, _, action = heappop(entries)
            action(due_fs)


class Contents:
    """Versions of all regions of a program; ``effects`` holds the values."""

    def __init__(self, program: Program, effects: Effects) -> None:
        self._program, self._effects = program, effects
        count = len(program.regions)
        self._version = [0] * count
        self._valid_from = [NEVER] * count
        self._valid_to = [NEVER] * count
        self._writer = ["nobody"] * count

    def preset(self, region: int) -> None:
        """The region holds version 0 from the start (weights and inputs in their memory)."""
        self._valid_from[region] = 0

    def begin(self, command: Command, t_fs: int) -> None:
        """The command starts to overwrite its destinations: what was there, and all that overlaps, is gone."""
        for use in command.writes:
            if use.role in ("whole", "begin"):
                done = self._version[use.region] == use.version  # by another engine, whose piece was the last
                for region in (*(() if done else (use.region,)), *self._program.regions[use.region].overlaps):
                    if region != use.region:
                        self._effects.forget(region)
                    if self._valid_to[region] > t_fs:
                        self._valid_to[region] = t_fs
                        self._writer[region] = command.label

    def read(self, command: Command, use: Use, from_fs: int, to_fs: int) -> None:
        """Check, at ``to_fs``, that the version was there all the time; hand the operand to the value policy.

        Raises HazardError otherwise.
        """
        region = use.region
        if self._version[region] != use.version or self._valid_from[region] > from_fs or self._valid_to[region] < to_fs:
            name = self._program.regions[region]
            raise HazardError(
                f"{command.label} (command {command.id})",
                f"{name.memory}:{name.name} version {use.version}",
                f"{self._writer[region]} (version {self._version[region]})",
            )
        self._effects.read(command, use)

    def commit(self, command: Command, t_fs: int) -> None:
        """The command completes: its effect runs and what it finished becomes valid."""
        self._effects.complete(command)
        for use in command.writes:
            if use.role in ("whole", "end"):
                region = use.region
                self._version[region] = use.version
                self._valid_from[region] = t_fs
                self._valid_to[region] = NEVER
                self._writer[region] = command.label
