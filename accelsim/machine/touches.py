"""Which lines of a cache the transfers of a program touch whose loops may be rolled up: each tile is looked at once."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from accelsim.machine.cached import Pieces, pieces
from accelsim.program.addresses import AddressMap
from accelsim.program.commands import Command, Program, Tile, Transfer
from accelsim.program.rolled import Unroller, unrolled
from accelsim.types import Ints

RESULT, WEIGHTS = (0, 1, 2, 3, 4, 5), (0, 1, 4, 5, 6, 7)
DEPENDS: dict[str, tuple[int, ...]] = {
    "load_a": (0, 1, 2, 3, 6, 7), "load_b": WEIGHTS, "load_side": RESULT, "store": RESULT, "epilogue": RESULT,
}  # fmt: skip
"""``Effect.what`` -> the ranges of a ``Tile`` on which its addresses depend; others move no tile."""
WIDE = 1 << 62


class Spread(NamedTuple):
    """Commands as they are written and in laps that were left out: ``of`` which of those given, whole ``number``, tile,
    int64 [..., 8]."""

    of: Ints
    number: Ints
    tiles: Ints


class Lines:
    """Lines by touch: ``starts[i]`` up to ``starts[i + 1]`` are those of touch i, with ``nbytes`` of each; at
    the ``most`` so many of one."""

    def __init__(self) -> None:
        self.numbers, self.nbytes, self.starts, self.most = array("q"), array("q"), array("q", [0]), 0

    def add(self, found: Pieces) -> int:
        """One more touch; its number."""
        self.numbers.extend(found.lines)
        self.nbytes.extend(found.nbytes)
        self.starts.append(len(self.numbers))
        self.most = max(self.most, len(found.lines))
        return len(self.starts) - 2


class Touches:
    """Fills ``touch``, by whole numbers of transfers, with places in ``lines``."""

    def __init__(self, program: Program, unroller: Unroller, long: Ints, touch: Ints) -> None:
        self._program, self._unroller, self._long, self._touch = program, unroller, long, touch
        self._addresses, self.lines = AddressMap(unrolled(program)), Lines()

    def add(self, commands: Iterable[Command], line_B: int, lines: int) -> None:
        """Transfers through a cache of such lines; numbers wrap round at ``lines``."""
        steps = defaultdict[int, list[Command]](list)
        for command in commands:
            steps[command.op].append(command)

        def touched(command: Command, tile: Tile | None = None) -> int:
            return self.lines.add(pieces(self._addresses.runs(command, tile), line_B, lines))

        for step in steps.values():
            moving = [command for command in step if command.effect.tile and command.effect.what in DEPENDS]
            fixed = [
                command for command in step if not command.effect.tile or command.effect.what not in DEPENDS
            ]
            spread = self._spread(fixed)
            self._touch[spread.number] = np.array([touched(each) for each in fixed], np.int32)[spread.of]
            spread = self._spread(moving)
            first, place = self._places(moving, spread)
            tiles = zip(spread.of[first].tolist(), spread.tiles[first].tolist(), strict=True)
            found = [touched(moving[of], Tile._make(tile)) for of, tile in tiles]
            self._touch[spread.number] = np.array(found, np.int32)[place]

    def _spread(self, commands: Sequence[Command]) -> Spread:
        loops, spans = self._unroller.loops, self._unroller.cuts.spans
        numbers = np.array([command.id for command in commands], np.int64)
        ends = np.array([span.end for span in spans], np.int64)
        sizes, times = (np.array([span[at] for span in spans] + [0], np.int64) for at in (1, 2))
        moves = np.array([*(loop.tile for loop in loops), (0,) * 8], np.int64)
        cut = np.searchsorted(ends, numbers, side="right")
        inside = numbers >= np.append(ends, WIDE)[cut] - sizes[cut]
        often = 1 + np.where(inside, times[cut], 0)
        of = np.repeat(np.arange(len(numbers)), often)
        copy = np.arange(len(of)) - np.repeat(np.cumsum(often) - often, often)
        tiles = np.array([command.effect.tile or (0,) * 8 for command in commands], np.int64).reshape(-1, 8)
        return Spread(
            of, self._long[numbers[of]] + copy * sizes[cut[of]], tiles[of] + copy[:, None] * moves[cut[of]]
        )

    def _places(self, commands: Sequence[Command], spread: Spread) -> tuple[Ints, Ints]:
        """The first of each set of transfers that touch the same, and the set of each."""
        alike, homes = dict[Any, int](), self._addresses.home
        kinds = [
            alike.setdefault((each.effect.what, cast(Transfer, each.work).nbytes, *homes(each)), len(alike))
            for each in commands
        ]
        picked = np.array(
            [[at in DEPENDS[each.effect.what] for at in range(8)] for each in commands], np.int64
        )
        keys = spread.tiles * picked.reshape(-1, 8)[spread.of]
        keys[:, 1::2] -= keys[:, ::2]
        columns = [np.array(kinds, np.int64)[spread.of], *keys.T]
        _, first, place = np.unique(codes(columns), return_index=True, return_inverse=True)
        return first, place


def codes(columns: Sequence[Ints]) -> Ints:
    """One number for each row, equal where all columns are."""
    codes, span = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        wide = int(column.max(initial=0)) + 1
        if span * wide >= WIDE:
            codes = np.unique(codes, return_inverse=True)[1]
            span = int(codes.max(initial=0)) + 1
        codes, span = codes * wide + column, span * wide
    return codes
