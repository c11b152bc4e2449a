"""Lesson 6: a program with one slot, one with two; no race, and hardly any waiting."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import simpy

from accelsim.lessons.base import Ask, Figure, Lesson, Sheet, Wrong
from accelsim.lessons.compare import answer
from accelsim.seeds import generator

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
    """Three engines and two pairs of slots that execute a program word by word: a command that begins too early takes
    what still lies there, as in hardware.

    ``durations``: ns of a load, of the work on a tile, of a store; ``tiles`` [n][8]: what is to be loaded. After
    ``run``: ``stored`` [n][8], ``spans``, ``hazards``, ``end`` ns.
    """

    durations: dict[str, int]
    tiles: Sequence[Sequence[int]]
    stored: dict[int, list[int]] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)
    hazards: list[Hazard] = field(default_factory=list)
    end: int = 0

    def run(self, program: Sequence[object]) -> None:
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

    def _load(self, number: int, tile: int, slot: int, word: int) -> Callable[[], None]:
        def finish() -> None:
            self.inputs[slot][word] = Word(int(self.tiles[tile][word]), tile)

        return finish

    def _compute(self, number: int, tile: int, slot: int, word: int) -> Callable[[], None]:
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

    def _store(self, number: int, tile: int, slot: int, word: int) -> Callable[[], None]:
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
    """Return the result of the work on one word."""
    return 3 * value + 1


def checked(program: object, tiles: int) -> None:
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


def _is_command(command: object, tiles: int) -> bool:
    if not isinstance(command, list | tuple) or len(command) != 3:
        return False
    name, first, second = command
    if name == "wait":
        return first in ENGINES and isinstance(second, int) and second >= 0
    return name in ENGINES and isinstance(first, int) and 0 <= first < tiles and second in range(SLOTS)


BOUND = "every tile in the time of the slowest engine, and one tile more through all three"


class Numbers(NamedTuple):
    """ns of a load, of the work on a tile, of a store; tiles; seed of their words."""

    load: int
    compute: int
    store: int
    tiles: int
    seed: int

    @property
    def durations(self) -> dict[str, int]:
        """Return the durations by engine."""
        return {"load": self.load, "compute": self.compute, "store": self.store}


class Buffering(Lesson):
    """Lesson 6: double buffering."""

    number, title, file, minutes = 6, "Double buffering", "buffering.py", 40
    idea = "While one tile is worked on, the next one comes: two slots, and waits in the right places."
    steps = ("one slot", "two slots without a race", "two slots in time", "the question")

    def draw(self, rng: np.random.Generator) -> Numbers:
        times = [int(rng.integers(12, 20)), 8, int(rng.integers(3, 7))]
        load, compute, store = (WORDS * times[place] for place in rng.permutation(3))
        return Numbers(load, compute, store, int(rng.integers(6, 10)), int(rng.integers(1 << 30)))

    def words(self, numbers: Numbers) -> Mapping[str, object]:
        return {**numbers.durations, "tiles": numbers.tiles}

    def check(self, ask: Ask, numbers: Numbers, sheet: Sheet) -> Iterator[None]:
        for each in _machines(numbers):
            found = _run(ask("one_slot", each.tiles), each, "one_slot", sheet)
            slots = {span.slot for span in found.spans}
            if len(slots) > 1:
                raise Wrong(
                    f"one_slot({each.tiles})", "one slot", f"slots {sorted(slots)}", "this program does with slot 0"
                )
        yield
        seen = []
        for each in _machines(numbers):
            seen.append((each, _run(ask("two_slots", each.tiles), each, "two_slots", sheet)))
        sheet["machine"] = seen[0][1]
        yield
        for each, found in seen:
            most = each.tiles * max(each.durations.values()) + sum(each.durations.values())
            if found.end > most:
                where = f"two_slots({each.tiles}) with {_told(each)}"
                raise Wrong(where, f"at most {most} ns", f"{found.end} ns", BOUND)
        yield
        times = numbers.durations.values()
        rule = "one slot: load + compute + store for each tile; two slots: the slowest of the three for each tile"
        answer(ask, sum(times) / max(times), rule)
        yield

    def draw_picture(self, figure: Figure, numbers: Numbers, sheet: Sheet) -> None:
        """Draw what the engines did when: the tiles by slot, races in red."""
        from accelsim.report.style import BLUE, GREY, INK, ORANGE, VERMILLION

        machine, axes = sheet.get("machine"), figure.subplots()
        for place, engine in enumerate(ENGINES):
            for span in () if machine is None else machine.spans:
                if span.engine == engine:
                    colour = (BLUE, ORANGE)[span.slot]
                    axes.barh(place, span.end - span.start, 0.6, left=span.start, color=colour, edgecolor="white")
                    axes.text((span.start + span.end) / 2, place, span.tile, ha="center", va="center", color="white")
        for hazard in [] if machine is None else machine.hazards[:20]:
            axes.axvline(hazard.time, color=VERMILLION, lw=1.2)
        axes.set_yticks(range(len(ENGINES)), ENGINES)
        axes.set_ylim(2.6, -0.6)
        axes.set_xlabel("ns")
        axes.set_title("Your program: tiles on the engines, by slot" + (" (no program yet)" if machine is None else ""))
        for label, colour in (("slot 0", BLUE), ("slot 1", ORANGE)):
            axes.barh([0], [0], color=colour, label=label)
        if machine is not None and machine.hazards:
            axes.plot([], [], color=VERMILLION, label="a race")
        axes.grid(True, axis="x", color=GREY, alpha=0.3)
        axes.tick_params(colors=INK)
        figure.legend(loc="outside lower center", ncols=3)


def _machines(numbers: Numbers) -> list[Numbers]:
    """The student's, and others in which each engine is the slowest once: a program must not rely on luck."""
    few, many = WORDS, 20 * WORDS
    others = ((few, many, few, 5), (many, few, few, 5), (few, few, many, 5), (many, many, many, 8), (few, few, few, 1))
    return [numbers, *(Numbers(*each, numbers.seed) for each in others)]


def _told(each: Numbers) -> str:
    return f"load {each.load}, compute {each.compute}, store {each.store} ns"


def _run(program: Any, each: Numbers, name: str, sheet: Sheet) -> Machine:
    """The machine behind a program. Raises Wrong at the first race, and where a result is missing or wrong."""
    where = f"{name}({each.tiles}) with {_told(each)}"
    tiles = generator(each.seed).integers(1, 100, (each.tiles, WORDS)).tolist()
    machine = sheet["machine"] = Machine(each.durations, tiles)
    machine.run(program)
    if machine.hazards:
        first = machine.hazards[0]
        command = program[first.command]
        rule = "waits make sure that a tile is there before it is used, and used before it is replaced"
        raise Wrong(
            f"{where}: command {first.command}, {tuple(command)}, at {first.time} ns", "its own tile", first.text, rule
        )
    for tile in range(each.tiles):
        expected = [worked(value) for value in tiles[tile]]
        got = machine.stored.get(tile)
        if got != expected:
            rule = "each tile is loaded, worked on and stored once; 'wait' must let every command be issued"
            raise Wrong(f"{where}: result of tile {tile}", expected, "never stored" if got is None else got, rule)
    return machine


LESSON = Buffering()
