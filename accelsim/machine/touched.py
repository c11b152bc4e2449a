"""Lines of a cache that transfers touch: those of a tile are looked up once, however often it comes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, cast

from accelsim.program.addresses import AddressMap, Runs
from accelsim.program.commands import Command, Program, Transfer
from accelsim.program.rolled import Unroller, unrolled

Picked = Callable[[Any], tuple[int, ...]]

DEPENDS: dict[str, Picked] = {
    "load_a": itemgetter(0, 1, 2, 3, 6, 7), "load_b": itemgetter(0, 1, 4, 5, 6, 7),
    "load_side": itemgetter(0, 1, 2, 3, 4, 5), "store": itemgetter(0, 1, 2, 3, 4, 5),
    "epilogue": itemgetter(0, 1, 2, 3, 4, 5),
}  # fmt: skip
"""``Effect.what`` -> the ranges of a ``Tile`` on which its addresses depend; others move no tile."""


class Pieces(NamedTuple):
    """Lines that a transfer touches, in its order: numbers of lines, and how many bytes of each."""

    lines: list[int]
    nbytes: list[int]


class Touch(NamedTuple):
    """A transfer: its step, the tensor that is charged, and what it touches."""

    op: int
    tensor: str
    pieces: Pieces


class _Kind(NamedTuple):
    """Properties that the transfers of a written command share."""

    command: Command
    tensor: str
    alike: tuple[Any, ...]
    picked: Picked | None


class Touches:
    """What transfers of a program, whose loops may be rolled up, touch of ``lines`` lines of ``line_B`` bytes. Charged
    is the tensor of the action of one of the components ``charged``."""

    def __init__(self, program: Program, charged: Sequence[str], line_B: int, lines: int) -> None:
        self._commands, self._unroller = program.commands, Unroller(program)
        self._addresses = AddressMap(unrolled(program))
        self._charged, self._line_B, self._lines = charged, line_B, lines
        self._kinds: dict[int, _Kind] = {}
        self._known: dict[
            int, dict[tuple[Any, ...], Pieces]
        ] = {}  # by step; loads run one step ahead of stores

    def of(self, number: int) -> Touch:
        """Return what the transfer with this number in the whole program touches."""
        written, cut, copy = self._unroller.cuts.find(number)
        kind = self._kinds.get(written)
        if kind is None:
            kind = self._kinds[written] = self._kind(written)
        command, tile = kind.command, kind.command.effect.tile
        if tile is None or kind.picked is None:
            return Touch(command.op, kind.tensor, self._pieces(self._addresses.runs(command)))
        if copy:
            tile = self._unroller.moved(tile, cut, copy)
        known = self._known.get(command.op)
        if known is None:
            known = self._begin(command.op)
        key = kind.alike + kind.picked(tile)
        found = known.get(key)
        if found is None:
            found = known[key] = self._pieces(self._addresses.runs(command, tile))
        return Touch(command.op, kind.tensor, found)

    def _begin(self, op: int) -> dict[tuple[Any, ...], Pieces]:
        """Tiles of a step; those of steps long before are forgotten."""
        self._known = {step: known for step, known in self._known.items() if step >= op - 1}
        self._kinds = {number: kind for number, kind in self._kinds.items() if kind.command.op >= op - 1}
        return self._known.setdefault(op, {})

    def _kind(self, written: int) -> _Kind:
        command = self._commands[written]
        tensor = next((each.tensor for each in command.actions if each.component in self._charged), "")
        what, nbytes = command.effect.what, cast(Transfer, command.work).nbytes
        return _Kind(command, tensor, (what, nbytes, *self._addresses.home(command)), DEPENDS.get(what))

    def _pieces(self, runs: Sequence[Runs]) -> Pieces:
        return pieces(runs, self._line_B, self._lines)


def pieces(runs: Sequence[Runs], line_B: int, lines: int) -> Pieces:
    """Return the lines of some runs; equal ones in a row are one access. Numbers wrap round at ``lines``."""
    numbers, nbytes = list[int](), list[int]()
    for run in runs:
        for start in _starts(run):
            end = start + run.length_B
            first, last = start // line_B, (end - 1) // line_B
            if numbers and numbers[-1] == first:
                until = min(end, (first + 1) * line_B)
                nbytes[-1] += until - start
                first, start = first + 1, until
            if first == last:
                numbers.append(first)
                nbytes.append(end - start)
            elif first < last:
                numbers += range(first, last + 1)
                nbytes += [(first + 1) * line_B - start, *[line_B] * (last - first - 1), end - last * line_B]
    return Pieces([number % lines for number in numbers], nbytes)


def _starts(run: Runs) -> list[int]:
    """First address of each piece of a run; transfers are short, so plain integers are faster than arrays."""
    starts = [run.base]
    for stride, count in run.dims:
        starts = [start + stride * at for start in starts for at in range(count)]
    return starts
