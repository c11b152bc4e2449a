"""What each command waited for: of all that had to be there before it, what came last."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from accelsim.engines.registry import ENGINES
from accelsim.machine.run import PATH_LINKS
from accelsim.program.commands import Phase
from accelsim.report.page.named import Lines

AT_ONCE = "nothing: it begins with the run"


class Waits:
    """Looks up why the commands of a run began when they did."""

    def __init__(self, lines: Lines) -> None:
        self._run, self._commands, self._pieces = lines.run, lines.commands, lines.pieces

    @cached_property
    def _records(self) -> Mapping[int, Any]:
        return {record.command: record for record in self._run.folds}

    def of(self, number: int, before: int) -> str:
        """What command ``number`` waited for, in words; ``before``: the command before it on its engine, or -1."""
        latest = self._pieces[before].end if before >= 0 else -1
        overlaps = before >= 0 and latest > self._pieces[number].start
        text = PATH_LINKS["port" if overlaps else "queue"] if before >= 0 else AT_ONCE
        for wait in self._commands[number].waits:
            released = self._when(wait.command, wait.phase)
            if released > latest:
                other = self._pieces[wait.command].engine
                latest, text = released, f"{PATH_LINKS.get(wait.why, 'a token')}, from {other}"
        return text

    def _when(self, number: int, phase: Phase) -> int:
        if phase == "done":
            return self._pieces[number].end
        engine = self._pieces[number].engine
        kind = ENGINES[self._run.program.engines[engine]]
        return kind.passed(self._run.chip, engine, self._records[number], phase)
