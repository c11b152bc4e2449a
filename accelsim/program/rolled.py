"""Programs whose loops are rolled up: of the alike laps of a tile loop a few are written, those in between are not.

A rolled program is a program of its own, with numbers of its own, as if the loop had fewer laps. The whole one follows
from it: what lies behind a cut has larger numbers, and the commands of a lap that was left out are those of the unit
of laps before the cut, whose tiles, versions and tokens move on by as much in each unit.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

from accelsim.program.commands import Command, Program, Tile, Use
from accelsim.program.lazy import Item, Lazy
from accelsim.program.repeated import Commands, Repeat, Span


class Loop(NamedTuple):
    """A cut in the loop of a step: ``span`` has the unit before it and how many alike ones are left out there.

    ``first``: first command of the alike units before the cut; ``tail``: alike units that are written behind it.
    ``tile``: how far the tiles of a unit lie behind those of the one before. ``versions``: region -> versions that
    each unit gives it.
    """

    span: Span
    first: int
    tail: int
    tile: Tile
    versions: Mapping[int, int]

    def later(self, repeat: Repeat, copy: int) -> Loop:
        """Return the same loop in a copy of the unit of blocks that it lies in."""
        commands = copy * repeat.commands.size
        versions = {repeat.region_id(region, copy): count for region, count in self.versions.items()}
        return self._replace(
            span=self.span._replace(end=self.span.end + commands),
            first=self.first + commands,
            versions=versions,
        )

    def short(self, repeat: Repeat) -> Loop:
        """Return the same loop, which is in no copy, where copies are not counted."""
        span = self.span._replace(end=repeat.commands.short(self.span.end - 1) + 1)
        versions = {repeat.regions.short(region): count for region, count in self.versions.items()}
        return self._replace(span=span, first=repeat.commands.short(self.first), versions=versions)


class Cuts:
    """Numbers in a rolled sequence and in the whole one; ``spans`` in order."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self.spans = tuple(spans)
        self._ends = [span.end for span in self.spans]
        self._more = list(accumulate((span.size * span.times for span in self.spans), initial=0))
        self._starts = [end + more for end, more in zip(self._ends, self._more, strict=False)]

    @property
    def left_out(self) -> int:
        """Return how many are not in the rolled sequence."""
        return self._more[-1]

    def before(self, number: int) -> int:
        """Return how many cuts lie before a rolled number."""
        return bisect_right(self._ends, number)

    def long(self, number: int) -> int:
        """The whole number of a rolled one."""
        return number + self._more[self.before(number)]

    def find(self, whole: int) -> tuple[int, int, int]:
        """(rolled number, cuts before it, copy) of a whole number: 0 for what is no copy."""
        cut = bisect_right(self._starts, whole) - 1
        if cut >= 0:
            copy, rest = divmod(whole - self._starts[cut], self.spans[cut].size)
            if copy < self.spans[cut].times:
                return self._ends[cut] - self.spans[cut].size + rest, cut, copy + 1
        return whole - self._more[cut + 1], cut + 1, 0


class Unrolled(Lazy[Item]):
    """A rolled sequence as a whole: ``make`` gives the item of a rolled one behind so many cuts, in so many-th copy."""

    def __init__(self, items: Sequence[Item], cuts: Cuts, make: Callable[[Item, int, int], Item]) -> None:
        self.items, self.cuts, self._make = items, cuts, make

    def __len__(self) -> int:
        return len(self.items) + self.cuts.left_out

    def at(self, index: int) -> Item:
        """The item of a rolled one, where it lies in the whole."""
        rolled, cut, copy = self.cuts.find(index)
        return self._make(self.items[rolled], cut, copy)

    def __iter__(self) -> Iterator[Item]:
        begin = 0
        for cut, (end, size, times) in enumerate(self.cuts.spans):
            for number in range(begin, end):
                yield self._make(self.items[number], cut, 0)
            unit = self.items[end - size : end]
            for copy in range(1, times + 1):
                for item in unit:
                    yield self._make(item, cut, copy)
            begin = end
        for number in range(begin, len(self.items)):
            yield self._make(self.items[number], len(self.cuts.spans), 0)


def all_loops(program: Program) -> list[Loop]:
    """The loops of a rolled program in order, with those of the copies of its blocks."""
    repeat = program.repeat
    found = list(program.loops)
    if repeat is not None:
        unit = repeat.loops_of(program)
        found += [loop.later(repeat, copy) for copy in range(1, repeat.times + 1) for loop in unit]
    return sorted(found, key=lambda loop: loop.span.end)


def loop_unit(program: Program, loop: Loop) -> Sequence[Command]:
    """The commands before the cut that come again in it."""
    found: Sequence[Command] = program.commands[loop.span.end - loop.span.size : loop.span.end]
    return found


class Unroller:
    """Makes the commands of the whole program from those of the rolled one."""

    def __init__(self, program: Program) -> None:
        self.loops = all_loops(program)
        self.cuts = Cuts(loop.span for loop in self.loops)
        self._versions: dict[int, tuple[list[int], list[int]]] = {}
        for loop in self.loops:
            for region, more in loop.versions.items():
                ends, counts = self._versions.setdefault(region, ([], [0]))
                ends.append(loop.span.end)
                counts.append(counts[-1] + more * loop.span.times)

    def moved(self, tile: Tile, cut: int, copy: int) -> Tile:
        """A tile in so many-th copy of the unit before a cut."""
        return Tile._make([at + copy * by for at, by in zip(tile, self.loops[cut].tile, strict=True)])

    def cuts_of(self, number: int, seen_from: int) -> int:
        """Return how many cuts lie before what a command refers to: a lap refers to the laps just before it, wherever
        it is, and what is older than the loop stays where it is."""
        cut = self.cuts.before(number)
        inside = cut < len(self.loops) and self.loops[cut].first <= number
        return cut + (inside and self.loops[cut].span.end <= seen_from)

    def referred(self, number: int, seen_from: int, copy: int = 0) -> int:
        """Whole number of a command to which the command ``seen_from`` refers, in a copy of its unit."""
        cut = self.cuts_of(number, seen_from)
        more = sum(span.size * span.times for span in self.cuts.spans[self.cuts.before(number) : cut])
        if copy and number >= (loop := self.loops[self.cuts.before(seen_from)]).first:
            more += copy * loop.span.size
        return self.cuts.long(number) + more

    def command(self, command: Command, cut: int, copy: int) -> Command:
        """A command of the rolled program behind so many cuts, in so many-th copy of its unit."""
        if not cut and not copy:
            return command
        number, loop = command.id, self.loops[cut] if copy else None
        waits = [wait._replace(command=self.referred(wait.command, number, copy)) for wait in command.waits]
        effect = command.effect
        if copy and effect.tile is not None:
            effect = effect._replace(tile=self.moved(effect.tile, cut, copy))
        return replace(
            command, id=self.cuts.long(number) + (copy * loop.span.size if loop else 0), waits=tuple(waits),
            reads=self._uses(command.reads, number, loop, copy), writes=self._uses(command.writes, number, loop, copy),
            effect=effect,
        )  # fmt: skip

    def _uses(self, uses: Iterable[Use], number: int, loop: Loop | None, copy: int) -> tuple[Use, ...]:
        found = []
        for region, version, role in uses:
            ends, counts = self._versions.get(region, _NONE)
            more = counts[bisect_right(ends, number)]
            found.append(
                Use(region, version + more + (copy * loop.versions.get(region, 0) if loop else 0), role)
            )
        return tuple(found)


_NONE: tuple[list[int], list[int]] = ([], [0])


def unrolled(program: Program) -> Program:
    """The whole program of a rolled one; commands that are left out there are made when somebody asks for them."""
    if not program.loops:
        return program
    unroller = Unroller(program)
    commands = Unrolled(program.commands, unroller.cuts, unroller.command)
    return replace(program, commands=commands, loops=(), repeat=None, rolled=program)


def written_out(program: Program, which: Container[int]) -> Program:
    """A rolled program with all laps of some loops: of those that lie at these places (``place_of``)."""
    repeat = program.repeat
    out = [loop for loop in program.loops if place_of(repeat, loop.span.end) in which]
    unroller = Unroller(replace(program, loops=out))
    commands, long = Unrolled(program.commands, unroller.cuts, unroller.command), unroller.cuts.long
    kept = [
        loop._replace(span=loop.span._replace(end=long(loop.span.end - 1) + 1), first=long(loop.first))
        for loop in program.loops if loop not in out
    ]  # fmt: skip
    if repeat is None:
        return replace(program, commands=list(commands), loops=kept)
    span, versions = repeat.commands, dict(repeat.fixed_regions)
    for loop in out:
        if loop.span.end - 1 in span.unit:
            for region in versions.keys() & loop.versions.keys():
                versions[region] += loop.versions[region] * loop.span.times
    whole = replace(
        repeat, commands=Span(long(span.end), long(span.end) - long(span.end - span.size), repeat.times),
        fixed_commands=frozenset(unroller.referred(number, span.end - 1) for number in repeat.fixed_commands),
        fixed_regions=versions,
    )  # fmt: skip
    written = Commands(commands[: long(span.end)], commands[long(span.behind) :], whole)
    return replace(program, commands=written, repeat=whole, loops=kept)


def place_of(repeat: Repeat | None, end: int) -> int:
    """Return where a loop of a rolled program ends; of one in a unit of blocks, in the unit that is written last."""
    if repeat is None:
        return end
    span = repeat.commands
    number, start = span.copy_of(end - 1)[0], span.end - repeat.units * span.size
    unit = range(start, span.end)
    return span.end - span.size + (number - start) % span.size + 1 if number in unit else end
