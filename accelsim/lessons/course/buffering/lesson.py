"""Lesson 6: a program with one slot, one with two; no race, and hardly any waiting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from numpy.random import Generator

from accelsim.lessons.base import Ask, Lesson, Sheet, Wrong
from accelsim.lessons.compare import answer
from accelsim.lessons.course.buffering.machine import ENGINES, WORDS, Machine, worked
from accelsim.seeds import generator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    """Double buffering."""

    number, title, file, minutes = 6, "Double buffering", "buffering.py", 40
    idea = "While one tile is worked on, the next one comes: two slots, and waits in the right places."
    steps = ("one slot", "two slots without a race", "two slots in time", "the question")

    def draw(self, rng: Generator) -> Numbers:
        """Another engine is the slowest for other students."""
        times = [int(rng.integers(12, 20)), 8, int(rng.integers(3, 7))]
        load, compute, store = (WORDS * times[place] for place in rng.permutation(3))
        return Numbers(load, compute, store, int(rng.integers(6, 10)), int(rng.integers(1 << 30)))

    def words(self, numbers: Numbers) -> Mapping[str, object]:
        """Durations."""
        return {**numbers.durations, "tiles": numbers.tiles}

    def check(self, ask: Ask, numbers: Numbers, sheet: Sheet) -> Iterator[None]:
        """Both programs on several machines."""
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
