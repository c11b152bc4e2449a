"""Writes commands; derives what each has to wait for from the regions that it reads and writes.

Read after write, write after read and write after write become waits, except on the same in-order unit that runs one
command after the other. Counting tokens of slot buffers ('full', 'empty') are exactly these waits.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field

from accelsim.program.commands import Action, Command, CommandKind, Effect, Phase, Region, Use, Wait, record
from accelsim.program.repeated import Commands
from accelsim.program.work import Transfer, Work
from accelsim.program.writing.allocator import Space

OPERANDS = frozenset({"w", "a"})
PIECE = {(True, True): "whole", (True, False): "begin", (False, True): "end", (False, False): "part"}
"""(first, last) -> role of a write."""
VACANT = frozenset({"acc", "empty"})
"""Why a command waits for the room that it writes into."""
Touched = Sequence[tuple[int, str]]
"""Regions that a command reads or writes, each with its role, see ``Use``."""
OPENING, CLOSING = frozenset({"whole", "begin"}), frozenset({"whole", "end"})


@dataclass(slots=True)
class History:
    """History of a region: its version, its last writer, and the readers since. ``beside``: the last
    writers on other engines that wrote pieces of the version."""

    version: int = 0
    writer: int | None = None
    readers: dict[tuple[str, str], tuple[int, Phase]] = field(default_factory=dict)
    """(engine, what is in order there) -> the last reader and when it has read."""
    beside: tuple[int, ...] = ()

    def open(self) -> None:
        """Begin a new version."""
        self.version, self.writer, self.beside = self.version + 1, None, ()
        self.readers.clear()


class Builder:
    """Commands, regions and their history so far. ``engines``: name -> type; ``sequential``: types of engines on which
    a command has completed before the next begins to touch memory."""

    def __init__(self, engines: dict[str, str], sequential: Container[str]) -> None:
        self.engines = engines
        self.sequential = sequential
        self.core = 0  # whose commands are being written
        self.commands: list[Command] | Commands = []
        self.regions: list[Region] = []
        self.histories: list[History] = []
        self._open: dict[int, tuple[int, dict[str, int]]] = {}
        """Region that is being written in pieces -> the first of them, and the last of each engine."""
        self.shared: dict[str, Space] = {}  # memory that all cores share -> what is free of it

    def region(
        self, memory: str, name: str, size_B: int, space: Space | None = None, offset: int | None = -1,
        streams: bool = False,
    ) -> int | None:  # fmt: skip
        """A new region: off the chip, or in ``space`` at ``offset`` (None: where there is room; else gives None)."""
        if space is not None and offset is None:
            offset = space.place(size_B)
        if offset is None:
            return None
        region = Region(len(self.regions), memory, name, offset, size_B, streams=streams)
        if space is not None:
            overlaps = self._used(region, space.add(region))
            region = region._replace(overlaps=overlaps) if overlaps else region
        self.regions.append(region)
        self.histories.append(History())
        return region.id

    def _used(self, region: Region, overlaps: tuple[int, ...]) -> tuple[int, ...]:
        """Older regions of the same bytes that were written; for those that never were, the ones that they replaced.

        So slots that are taken and not used leave no trace, however often that happens.
        """
        written = [past for past in overlaps if self.histories[past].version]
        before: dict[int, None] = {}
        for past in overlaps:
            if not self.histories[past].version:
                before |= dict.fromkeys(
                    other for other in self.regions[past].overlaps if self._shows(region, other, written)
                )
        return tuple(dict.fromkeys((*written, *before)))

    def _shows(self, region: Region, other: int, written: Sequence[int]) -> bool:
        """Return whether a new region has bytes of an older one that none of those ``written`` later has wholly
        overwritten; who overwrote them has waited for it."""
        past = self.regions[other]
        start, end = (max(past.offset, region.offset), min(past.offset + past.size_B, region.offset + region.size_B))
        return start < end and not any(
            each > other
            and self.regions[each].offset <= start
            and end <= self.regions[each].offset + self.regions[each].size_B
            for each in written
        )

    @property
    def written(self) -> int:
        """Return how many commands are written; copies of units that repeat are not (see ``program.repeated``)."""
        return len(self.commands) - (self.commands.copies if isinstance(self.commands, Commands) else 0)

    def emit(
        self, kind: CommandKind, engine: str, op: int, label: str, work: Work, effect: Effect, reads: Touched = (),
        writes: Touched = (), actions: Iterable[Action] = (),
    ) -> int:  # fmt: skip
        """Append a command; return its id."""
        ident, history = len(self.commands), self.histories
        read = tuple([record(Use, (region, history[region].version, role)) for region, role in reads])
        waits = self.awaited(kind, engine, work, reads, writes)
        done = tuple([record(Use, (region, history[region].version, role)) for region, role in writes])
        costs = tuple(waits), read, done, tuple(actions), self.core
        self.commands.append(Command(ident, kind, engine, op, label, work, effect, *costs))
        return ident

    def awaited(self, kind: CommandKind, engine: str, work: Work, reads: Touched, writes: Touched) -> dict[Wait, None]:
        """Note what the next command reads and writes, and return what it has to wait for."""
        ident, history, commands = len(self.commands), self.histories, self.commands
        waits: dict[Wait, None] = {}
        in_order = self.engines[engine] in self.sequential
        for region, role in reads:
            past = history[region]
            if past.writer is not None:
                why = role if role in OPERANDS else "full"
                for writer in (past.writer, *past.beside):
                    if not (in_order and commands[writer].engine == engine):
                        waits[record(Wait, (writer, "done", why))] = None
        for region, role in writes:
            if role in OPENING:
                self._wait_for_users(engine, kind, region, waits)
                history[region].open()
            if role != "whole":
                self._note_piece(ident, engine, region, role, waits)
            if role in CLOSING:
                history[region].writer = ident
        port = work.memory if isinstance(work, Transfer) else ""  # transfers of one port end in order
        for region, role in reads:
            phase: Phase = role if kind == "MatMul" and role in OPERANDS else "done"  # type: ignore[assignment]
            history[region].readers[engine, port or phase] = (ident, phase)
        return waits

    def _note_piece(self, ident: int, engine: str, region: int, role: str, waits: dict[Wait, None]) -> None:
        """Pieces of a version may come from several engines: none before the former users are done, as the first."""
        if role == "begin":
            self._open[region] = ident, {engine: ident}
            return
        first, pieces = self._open[region]
        if engine not in pieces:
            waits |= {wait: None for wait in self.commands[first].waits if wait.why in VACANT}
        pieces[engine] = ident
        if role == "end":
            del self._open[region]
            beside = tuple([last for other, last in pieces.items() if other != engine])
            self.histories[region].beside = beside

    def _wait_for_users(self, engine: str, kind: CommandKind, region: int, waits: dict[Wait, None]) -> None:
        why = "acc" if kind == "MatMul" else "empty"
        commands, alone = self.commands, engine if self.engines[engine] in self.sequential else None
        for past in (region, *self.regions[region].overlaps):
            history = self.histories[past]
            if history.readers:
                for (other, _), (reader, phase) in history.readers.items():
                    if other != alone:
                        waits[record(Wait, (reader, phase, why))] = None
            elif history.writer is not None:
                for writer in (history.writer, *history.beside):
                    if commands[writer].engine != alone:
                        waits[record(Wait, (writer, "done", why))] = None
