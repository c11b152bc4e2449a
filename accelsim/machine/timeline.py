"""Times of all commands of a run as arrays."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from accelsim.machine.run import Run
from accelsim.program.commands import Phase
from accelsim.types import Ints


class Timeline:
    """``times``: start, data and end of commands, fs, int64 [commands, 3]."""

    def __init__(self, run: Run) -> None:
        self.run, self.commands = run, run.program.commands
        self.times: Ints = np.array([piece[4:] for piece in run.slices], np.int64).reshape(-1, 3)

    @cached_property
    def engines(self) -> Ints:
        """Return for each command the place of its engine in ``Program.engines``."""
        places = {engine: place for place, engine in enumerate(self.run.program.engines)}
        found: Ints = np.array([places[command.engine] for command in self.commands], np.int64)
        return found

    def of(self, engine: str) -> Ints:
        """The numbers of its commands, in order."""
        found: Ints = np.flatnonzero(self.engines == list(self.run.program.engines).index(engine))
        return found

    def passed(self, number: int, phase: Phase) -> int:
        """Return when a command passed a phase, fs."""
        if phase == "done":
            return int(self.times[number, 2])
        return self.run.histories[number].read(phase, 0)
