"""Programs that repeat themselves: alike units of commands, of which the first few are written and the others are not.

A unit is the commands of one or more blocks of the model (layers of a language model, say). Once the state of the
compiler behind a unit is that behind the unit before it, but for names and for numbers that grow by as much in each
unit, all further units are copies: command, region and step number ``i`` of the unit written last becomes number
``i + n x size`` of its n-th copy, what it refers to in its own unit or the one before moves along, and what is older
(``fixed``) stays. So a copy is made when somebody asks for it, and takes no room before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from accelsim.program.actions import Action
from accelsim.program.commands import Command, Effect, Region, Use, Wait
from accelsim.program.lazy import Lazy


class Span(NamedTuple):
    """Numbers of the unit written last: ``end - size`` up to ``end``; those of ``times`` copies follow."""

    end: int
    size: int
    times: int

    @property
    def behind(self) -> int:
        """First number after the copies."""
        return self.end + self.size * self.times

    @property
    def unit(self) -> range:
        """Numbers of the unit written last."""
        return range(self.end - self.size, self.end)

    def short(self, number: int) -> int:
        """Return the number in the short program of a ``number`` of the whole program outside of the copies."""
        return number if number < self.end else number - self.size * self.times

    def long(self, number: int) -> int:
        """Return the number in the whole program of a ``number`` of the short program, the inverse of ``short``."""
        return number if number < self.end else number + self.size * self.times

    def copy_of(self, number: int) -> tuple[int, int]:
        """(number in the unit written last, which copy) of one in a copy; (number, 0) of any other."""
        if not self.end <= number < self.behind:
            return number, 0
        copy = (number - self.end) // self.size + 1
        return number - copy * self.size, copy


class Chains:
    """Names that follow each other from block to block: 'l0.q', 'l1.q', 'l2.q'."""

    def __init__(self, following: Mapping[str, str]) -> None:
        """``following``: name -> the name that has its part one block on; names that stay the same may be left out."""
        moving = {name: later for name, later in following.items() if name != later}
        later = set(moving.values())
        self._at: dict[str, tuple[list[str], int]] = {}
        for name in moving:
            if name not in later:
                chain = [name]
                while chain[-1] in moving:
                    chain.append(moving[chain[-1]])
                self._at |= {link: (chain, depth) for depth, link in enumerate(chain)}

    def key(self, name: str) -> tuple[str, int]:
        """The first name of its chain and how many come before it; of a name that stays (name, 0)."""
        chain, depth = self._at.get(name, ([name], 0))
        return chain[0], depth

    def follows(self, name: str, later: str, blocks: int) -> bool:
        """Return whether ``later`` stands for ``name`` in the block ``blocks`` later."""
        (first, depth), (other, behind) = self.key(name), self.key(later)
        return first == other and behind - depth == blocks

    def moves(self, name: str) -> bool:
        """Return whether the name changes from block to block."""
        return name in self._at

    def reaches(self, name: str, blocks: int) -> bool:
        """Return whether a name stands for this one in the block ``blocks`` later."""
        chain, depth = self._at.get(name, ([name], -blocks))
        return depth + blocks < len(chain)

    def image(self, name: str, blocks: int) -> str:
        """Return the name that stands for this one in the block ``blocks`` later. Raises KeyError if there is none."""
        if name not in self._at:
            return name
        chain, depth = self._at[name]
        if depth + blocks >= len(chain):
            raise KeyError(f"{name} has no image {blocks} blocks on")
        return chain[depth + blocks]

    def text(self, text: str, blocks: int) -> str:
        """Return a text with each name replaced by its image ``blocks`` blocks later."""
        return " ".join([self.image(word, blocks) for word in text.split(" ")])


@dataclass
class _Kept:
    """Texts and entries of one copy, the one asked for last."""

    copy: int = 0
    texts: dict[str, str] = field(default_factory=dict)
    actions: dict[tuple[Action, ...], tuple[Action, ...]] = field(default_factory=dict)


@dataclass
class Repeat:
    """Repetition in a program: ``units`` alike units are written, ``times`` copies are not.

    ``blocks``: blocks of the model in a unit, by which ``names`` move on. ``fixed_commands``, ``fixed_regions``: what
    units refer to that does not move along; a fixed region gets as many new versions in each unit as is told.
    """

    units: int
    times: int
    blocks: int
    commands: Span
    regions: Span
    steps: Span
    names: Chains
    fixed_commands: frozenset[int]
    fixed_regions: Mapping[int, int]
    kept: _Kept = field(default_factory=_Kept, repr=False, compare=False)

    def command_id(self, number: int, copy: int) -> int:
        """Number in a copy of a command to which the unit written last refers."""
        return number if number in self.fixed_commands else number + copy * self.commands.size

    def region_id(self, number: int, copy: int) -> int:
        """Number in a copy of a region to which the unit written last refers."""
        return number if number in self.fixed_regions else number + copy * self.regions.size

    def region(self, region: Region, copy: int) -> Region:
        """A region of the unit written last as it is in a copy."""
        return Region(
            region.id + copy * self.regions.size,
            region.memory,
            self.text(region.name, copy),
            region.offset,
            region.size_B,
            tuple([self.region_id(past, copy) for past in region.overlaps]),
            region.streams,
        )

    def command(self, command: Command, copy: int) -> Command:
        """A command of the unit written last as it is in a copy."""
        later, fixed = copy * self.commands.size, self.fixed_commands
        waits = [
            Wait(number if number in fixed else number + later, phase, why) for number, phase, why in command.waits
        ]
        return Command(
            command.id + later, command.kind, command.engine, command.op + copy * self.steps.size,
            self.text(command.label, copy), command.work, self._effect(command.effect, copy), tuple(waits),
            self._uses(command.reads, copy), self._uses(command.writes, copy), self._entries(command.actions, copy),
            command.core,
        )  # fmt: skip

    def _uses(self, uses: Sequence[Use], copy: int) -> tuple[Use, ...]:
        later, fixed = copy * self.regions.size, self.fixed_regions
        return tuple(
            [
                Use(region, version + copy * fixed[region], role)
                if region in fixed
                else Use(region + later, version, role)
                for region, version, role in uses
            ]
        )

    def _effect(self, effect: Effect, copy: int) -> Effect:
        if not effect.operands and not effect.tensor:
            return effect
        operands = tuple([(self.text(name, copy), self.region_id(at, copy)) for name, at in effect.operands])
        return Effect(effect.what, effect.tile, operands, self.text(effect.tensor, copy), effect.last)

    def text(self, text: str, copy: int) -> str:
        """Return a text with the names of the unit written last replaced by those of a copy."""
        texts = self._of(copy).texts
        if text not in texts:
            texts[text] = self.names.text(text, copy * self.blocks)
        return texts[text]

    def _entries(self, actions: tuple[Action, ...], copy: int) -> tuple[Action, ...]:
        """Commands of equal cost share their entries, in a copy too."""
        known = self._of(copy).actions
        if actions not in known:
            known[actions] = tuple(
                [
                    Action(component, action, self.text(tensor, copy), count)
                    for component, action, tensor, count in actions
                ]
            )
        return known[actions]

    def _of(self, copy: int) -> _Kept:
        if copy != self.kept.copy:
            self.kept = _Kept(copy)
        return self.kept


class Commands(Lazy[Command]):
    """The commands of a program that repeats itself: those ``before`` the copies and ``behind`` them are written."""

    def __init__(self, before: list[Command], behind: list[Command], repeat: Repeat) -> None:
        self.before, self.behind, self.repeat = before, behind, repeat

    def __len__(self) -> int:
        """All, written or not."""
        return self.repeat.commands.behind + len(self.behind)

    def at(self, index: int) -> Command:
        """The command with this id; a copy is made anew each time."""
        span = self.repeat.commands
        if index >= span.behind:
            return self.behind[index - span.behind]
        template, copy = span.copy_of(index)
        return self.repeat.command(self.before[template], copy) if copy else self.before[index]

    def append(self, command: Command) -> None:
        """Append a command after the copies."""
        self.behind.append(command)

    @property
    def copies(self) -> int:
        """Number of commands that are copies."""
        return self.repeat.commands.size * self.repeat.times

    def __iter__(self) -> Iterator[Command]:
        """Iterate over all commands in order."""
        yield from self.before
        unit = self.before[-self.repeat.commands.size :]
        for copy in range(1, self.repeat.times + 1):
            for command in unit:
                yield self.repeat.command(command, copy)
        yield from self.behind


def written(commands: Sequence[Command]) -> Sequence[Command]:
    """Return the commands of a program without the copies."""
    return [*commands.before, *commands.behind] if isinstance(commands, Commands) else commands
