"""Contents of the simulated memories: versions of regions, checked at every access, and their values.

A region has one current version. It is valid from the completion of its last write until the next writer starts.
A command that reads [from, to) checks at ``to`` that its version was valid all that time; if not, the schedule is
wrong and ``HazardError`` says so. Values are kept by a policy (``effects``): exact, fast or off.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
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


BEGIN, W, A, DONE = range(4)
"""Moments of a command: it begins to overwrite its destinations; it has read its stationary, its streamed operand; it
is done."""
ROLES = {W: "w", A: "a"}
"""Moment -> role of what a command has then read."""
Entry = tuple[int, int, Command, int, "Contents"]
"""Time (fs) of a moment of a command, the time since when what it has read must have been valid (negative when its
reads are checked at other moments), and the contents that it is about."""


class Agenda:
    """Moments of commands, in the order in which engines made them certain.

    Engines see none of it, so it is played when all times are known: in order of time, then of entry.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def play(self) -> None:
        """Do and check all that happens before ``NEVER``. Raises HazardError."""
        for entry in sorted(self.entries, key=_TIME):
            if entry[0] > NEVER:
                break
            entry[4].pass_by(entry)


_TIME = itemgetter(0)


class Contents:
    """Versions of all regions of a program; ``effects`` holds the values. ``told`` is called for each command done."""

    def __init__(self, program: Program, effects: Effects, told: Callable[[], None] | None = None) -> None:
        self._program, self._effects, self._told = program, effects, told
        count = len(program.regions)
        self._version = [0] * count
        self._valid_from = [NEVER] * count
        self._valid_to = [NEVER] * count
        self._writer = ["nobody"] * count

    def preset(self, region: int) -> None:
        """The region holds version 0 from the start (weights and inputs in their memory)."""
        self._valid_from[region] = 0

    def pass_by(self, entry: Entry) -> None:
        """A moment of a command has come. Raises HazardError."""
        t_fs, moment, command, from_fs, _ = entry
        role = ROLES.get(moment)
        for use in command.reads if from_fs >= 0 else ():
            if role is None or use.role == role:
                self.read(command, use, from_fs, t_fs)
        if moment == BEGIN:
            self.begin(command, t_fs)
        elif moment == DONE:
            self.commit(command, t_fs)
            if self._told is not None:
                self._told()

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
