"""Stationary tiles that lie one after the other in a memory, and what they take with their padding.

Tiles lie so where the matrix unit wants padded ones, where weights are sparse, and where an element is no whole byte.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import cast

from accelsim.program.commands import Command
from accelsim.program.program import Program
from accelsim.program.repeated import written
from accelsim.program.tiles import b_key
from accelsim.program.work import Transfer
from accelsim.workload.graph import Tensor


def roots_of(program: Program) -> dict[int, int]:
    """Region of a constant -> region of the same constant of the first core."""
    first: dict[tuple[str, str], int] = {}
    roots = {}
    for region, (tensor, _) in program.presets.items():
        if program.graph.tensors[tensor].is_constant:
            roots[region] = first.setdefault((program.regions[region].memory, tensor), region)
    return roots


def tiles_B(program: Program) -> dict[int, int]:
    """Region of a stationary operand that lies in tiles -> bytes of all its tiles, with what pads them."""
    roots, repeat = roots_of(program), program.repeat
    found = dict[int, int]()
    tiled = tiles_of(program, lambda region: roots.get(region, region), written(program.commands))
    for (_, region), tiles in tiled.items():
        found[region] = max(found.get(region, 0), tiles.size_B)
    for copy in range(1, repeat.times + 1) if repeat else ():
        assert repeat is not None
        found |= {repeat.region_id(region, copy): found[region] for region in repeat.regions.unit if region in found}
    return found


class Packed:
    """Stationary tiles side by side: where each begins, and bytes of all."""

    def __init__(self) -> None:
        self.offsets: dict[tuple[int, ...], int] = {}
        self.size_B = 0

    def add(self, key: tuple[int, ...], nbytes: int) -> None:
        """Give a loaded tile its place; one that already has a place keeps it."""
        if key not in self.offsets:
            self.offsets[key] = self.size_B
            self.size_B += nbytes


def tiles_of(
    program: Program, root: Callable[[int], int], commands: Iterable[Command]
) -> dict[tuple[int, int], Packed]:
    """(step, region) -> its stationary tiles, where they lie one after the other."""
    found: dict[tuple[int, int], Packed] = defaultdict(Packed)
    if not any(_lies_in_tiles(program, tensor) for tensor in program.graph.tensors.values()):
        return {}
    for command in commands:
        if command.effect.what == "load_b" and command.effect.tile is not None:
            tensor, region = command.effect.operands[0]
            if _lies_in_tiles(program, program.graph.tensors[tensor]):
                work = cast(Transfer, command.work)
                found[command.op, root(region)].add(b_key(command.effect.tile), work.nbytes // work.times)
    return dict(found)


def _lies_in_tiles(program: Program, tensor: Tensor) -> bool:
    unit = program.chip.matrix
    padded = unit is not None and unit.tiled_weights
    return padded or tensor.sparse is not None or not float(tensor.element_B).is_integer()
