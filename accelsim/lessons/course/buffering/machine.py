"""Three engines and two pairs of slots: executes a program of load, compute, store and wait commands, with values.

A load writes the words of its tile one after the other, work reads and writes word by word, a store reads. So a
command that begins too early takes what still lies there: a race gives a wrong number, as in hardware.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import simpy

from accelsim.lessons.base import Wrong

WORDS = 8
"""Words of a tile; durations of commands are multiples of it, in ns."""
ENGINES = ("load", "compute", "store")
SLOTS = 2


class Word(NamedTuple):
    """A number, and the tile that it belongs to (-1: none)."""

    value: int
    tile: int


class Span(NamedTuple):
    """A command on its engine, ns."""

    engine: str
    tile: int
    slot: int
    start: int
    end: int


class Hazard(NamedTuple):
    """A command met a word of another tile than its own, or one that nobody had taken yet."""

    command: int
    text: str
    time: int


@dataclass
class Machine:
    """``durations``: ns of a load, of the work on a tile, of a store; ``tiles`` [n][8]: what is to be loaded. After
    ``run``: ``stored`` [n][8], ``spans``, ``hazards``, ``end`` ns."""

    durations: dict[str, int]
    tiles: Sequence[Sequence[int]]
    stored: dict[int, list[int]] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)
    hazards: list[Hazard] = field(default_factory=list)
    end: int = 0

    def run(self, program: Sequence[Any]) -> None:
        """Execute a program. Raises Wrong for a command that is none, or that waits for ever."""
        checked(program, len(self.tiles))
        self.env = simpy.Environment()
        self.inputs = [[Word(0, -1)] * WORDS for _ in range(SLOTS)]
        self.outputs = [[Word(0, -1)] * WORDS for _ in range(SLOTS)]
        self.taken = [[True] * WORDS for _ in range(SLOTS)]
        self.queues = {name: simpy.Store(self.env) for name in ENGINES}
        self.open = dict.fromkeys(ENGINES, 0)
        self.changed = self.env.event()
        for name in ENGINES:
            self.env.process(self._engine(name))
        self.env.process(self._issue(program))
        self.env.run()
        self.end = max((span.end for span in self.spans), default=0)

    def _issue(self, program: Sequence[Any]) -> Generator[simpy.Event, Any, None]:
        """The control: one command after the other, each to the queue of its engine; a wait holds all that follow."""
        for number, (name, *rest) in enumerate(program):
            if name == "wait":
                engine, left = rest
                while self.open[engine] > left:
                    yield self.changed
            else:
                self.open[name] += 1
                yield self.queues[name].put((number, *rest))

    def _engine(self, name: str) -> Generator[simpy.Event, Any, None]:
        """One command after the other, word by word."""
        act = {"load": self._load, "compute": self._compute, "store": self._store}[name]
        while True:
            number, tile, slot = yield self.queues[name].get()
            start = int(self.env.now)
            for word in range(WORDS):
                finish = act(number, tile, slot, word)
                yield self.env.timeout(self.durations[name] // WORDS)
                finish()
            self.spans.append(Span(name, tile, slot, start, int(self.env.now)))
            self.open[name] -= 1
            self.changed.succeed()
            self.changed = self.env.event()

    def _load(self, number: int, tile: int, slot: int, word: int) -> Any:
        def finish() -> None:
            self.inputs[slot][word] = Word(int(self.tiles[tile][word]), tile)

        return finish

    def _compute(self, number: int, tile: int, slot: int, word: int) -> Any:
        read = self.inputs[slot][word]
        self._expect(number, tile, read, f"input slot {slot}", word)

        def finish() -> None:
            if not self.taken[slot][word]:
                lost = self.outputs[slot][word].tile
                place = f"word {word} of output slot {slot}, where tile {lost} waits to be stored"
                text = f"work on tile {tile} overwrites {place}"
                self.hazards.append(Hazard(number, text, int(self.env.now)))
            self.outputs[slot][word], self.taken[slot][word] = Word(worked(read.value), read.tile), False

        return finish

    def _store(self, number: int, tile: int, slot: int, word: int) -> Any:
        read = self.outputs[slot][word]
        self._expect(number, tile, read, f"output slot {slot}", word)
        self.taken[slot][word] = True
        self.stored.setdefault(tile, [0] * WORDS)[word] = read.value
        return lambda: None

    def _expect(self, number: int, tile: int, read: Word, where: str, word: int) -> None:
        if read.tile != tile:
            there = f"word {word} of tile {read.tile}" if read.tile >= 0 else "nothing"
            text = f"{where} has {there} where tile {tile} should be"
            self.hazards.append(Hazard(number, text, int(self.env.now)))


def worked(value: int) -> int:
    """Return what the work makes of a word."""
    return 3 * value + 1


def checked(program: Any, tiles: int) -> None:
    """Raises Wrong where something is no list of commands."""
    forms = '("load", tile, slot), ("compute", tile, slot), ("store", tile, slot) or ("wait", engine, left)'
    if not isinstance(program, list | tuple):
        raise Wrong("the program", "a list of commands", program, f"a command is {forms}")
    if len(program) > 40 * tiles + 40:
        raise Wrong("the program", "some commands for each tile", f"{len(program)} commands", "six for each tile do")
    for number, command in enumerate(program):
        if not _is_command(command, tiles):
            raise Wrong(
                f"command {number}", forms, command, f"tiles 0 to {tiles - 1}, slots 0 and 1, engines {ENGINES}"
            )


def _is_command(command: Any, tiles: int) -> bool:
    if not isinstance(command, list | tuple) or len(command) != 3:
        return False
    name, first, second = command
    if name == "wait":
        return first in ENGINES and isinstance(second, int) and second >= 0
    return name in ENGINES and isinstance(first, int) and 0 <= first < tiles and second in range(SLOTS)
