"""The critical path of a run: from the end of the last command back to time 0, always to what let it start.

Each command has recorded what it did on the way to its end, and which event let it go on (``History``): the command
before on the same engine, the transfer before on the same port, or one of ``Command.waits``. The walk follows these
records and checks that each event came at a time that explains what followed. What happened meanwhile on other engines
(a prefetch, say) is not on the path.
"""

from __future__ import annotations

from collections.abc import Sequence

from accelsim.engines.device import PORT, QUEUE, Cause, Mix
from accelsim.engines.registry import ENGINES
from accelsim.machine.run import PATH_KINDS, LawError, Run, Segment
from accelsim.time import Clock


def critical_path(run: Run) -> Sequence[Segment]:
    """Segments in order of time that cover the run from 0 to its end without gap or overlap; worked out once for a run.

    Raises LawError where the times of a command do not follow from what it waited for.
    """
    return run.once("critical_path", lambda: _path(run))


def _path(run: Run) -> Sequence[Segment]:
    if run.replay is not None:
        from accelsim.machine.replay import whole_path

        found = whole_path(run.replay, critical_path(run.replay.short))
        if found is not None:
            return found
    return _Walk(run).walk() if run.slices else []


class _Walk:
    """The walk back: ``t`` is where it stands, all later time is in ``segments`` (latest first)."""

    def __init__(self, run: Run) -> None:
        self.run, self.segments, self.t = run, list[Segment](), run.time_fs
        self.delay_fs = Clock(run.chip.clock).at(run.chip.token_delay)
        self._kinds = PATH_KINDS.loaded
        self._edges_fs = {engine: self._edge_fs(engine) for engine in run.program.engines}

    def walk(self) -> list[Segment]:
        """The whole path."""
        last = int(self.run.times[2].argmax())  # slices are in the order of commands; of several, the first
        number, event = self.run.slices[last].command, "done"
        while number >= 0:
            command = number
            number, event, _ = self._back(command, event)
        self._emit(0, command, "hand_over", self.run.slices[command].engine)
        return self.segments[::-1]

    def _back(self, command: int, event: str) -> Cause:
        """Go from an event of a command back to what let the command go on."""
        history = self.run.histories[command].until(event)
        for activity, begin in zip(history.activities[::-1], history.begins[::-1], strict=True):
            if begin < self.t:
                for start, kind, resource, mix in activity.pieces(begin, self.t, event):
                    self._emit(start, command, kind, resource, mix)
        before, what, why = history.cause
        if before >= 0 and why not in (QUEUE, PORT):
            released = self._when(before, what)
            if abs(released + self.delay_fs - history.begins[0]) > self._edges_fs[self.run.slices[command].engine]:
                self._fail(command, f"went on at {history.begins[0]} fs, {why!r} came at {released} fs")
            self._no_earlier_than(released)
            self._link(why)
            self._emit(released, command, "hand_over", self.run.slices[command].engine)
        else:
            if before >= 0 and what == "done" and abs(self._when(before, what) - self.t) > 1:
                self._fail(command, f"went on at {self.t} fs, command {before} ended at {self._when(before, what)} fs")
            self._link(why)
        return history.cause

    def _when(self, command: int, event: str) -> int:
        """Return when a command has passed a phase, fs."""
        return self.run.histories[command].read(event, self.run.slices[command].end)

    def _edge_fs(self, engine: str) -> int:
        """Return how long an engine waits at most for its next edge, fs."""
        clock = ENGINES[self.run.program.engines[engine]].clock(self.run.chip, engine)
        return 1 if clock is None else clock.at(1) + 1

    def _fail(self, command: int, what: str) -> None:
        label = self.run.slices[command].label
        raise LawError(f"{label} ({command}) {what}, which no cause explains")

    def _emit(self, start: int, command: int, kind: str, resource: str, mix: Mix = ()) -> None:
        """The time from ``start`` to where the walk stands goes to this; the walk then stands at ``start``."""
        if start >= self.t:
            return
        if kind not in self._kinds and kind not in PATH_KINDS:
            raise LawError(f"no kind {kind!r} of pieces of the critical path; there are {', '.join(PATH_KINDS)}")
        start = max(0, start)
        if start < self.t:
            self.segments.append(Segment(start, self.t, command, kind, resource, mix))
            self.t = start

    def _link(self, why: str) -> None:
        """Say of the latest segment why it could not begin earlier."""
        if self.segments and why:
            self.segments[-1] = self.segments[-1]._replace(why=why)

    def _no_earlier_than(self, released: int) -> None:
        """Cut off what lies before a cause: an activity that ends at a clock edge occupies the clock before it, which
        may begin before its cause (see ``Device``)."""
        while self.segments and self.segments[-1].end <= released:
            self.segments.pop()
        if self.segments and self.segments[-1].start < released:
            self.segments[-1] = self.segments[-1]._replace(start=released)
        self.t = max(self.t, released)
