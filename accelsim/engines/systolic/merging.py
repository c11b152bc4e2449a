"""Runs of alike tiles as one command, for layers of more commands than a machine simulates in seconds.

Layers of one shape count together: a language model writes the commands of several of them.

A merged mapping has larger tiles, each a run of tiles of the mapping in its loop order: whole inner loops, and some
iterations of the loop around them. A command then costs what the tiles of its run cost together, and moves what they
move; slots become windows through which runs pass.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod
from typing import Any

from accelsim.program.commands import Tile
from accelsim.program.mapping import Mapping
from accelsim.workload.ops.base import Gemm

MOST, FEW = 50_000, 2_500
"""Commands of a layer, or of ``MANY`` alike ones, from which on tiles are merged; what each may have in any case."""
MANY, SHORT = 5, 6
"""Alike layers whose commands count together; tiles of a run in them: as slots hold whole runs, longer ones would load
further ahead than the buffers have room for."""
A_AXES, B_AXES = "gmk", "gnk"


def merged(gemm: Gemm, mapping: Mapping, arrays: int, each: int, per_result: int, most: int) -> tuple[Mapping, int]:
    """Return the mapping with the shortest runs of tiles that need at most ``most`` commands, and these at most.

    ``each``: commands for each tile; ``per_result``: more for each tile of the result.
    """
    extents = {"g": gemm.groups, "m": gemm.M, "n": gemm.N, "k": gemm.K}
    for axis in reversed("g" + mapping.order):
        tile, inner = getattr(mapping, f"t{axis}"), mapping
        tiles = -(-extents[axis] // tile)
        longest = -(-tiles // (arrays if axis == mapping.split else 1))

        def run(length: int, axis: str = axis, tile: int = tile, inner: Mapping = inner) -> Mapping:
            fields: dict[str, Any] = {f"t{axis}": min(length * tile, extents[axis])}
            return replace(inner, **fields)

        def few(length: int, run: Callable[[int], Mapping] = run) -> bool:
            return _commands(extents, run(length), each, per_result) <= most

        mapping = run(longest)
        if few(longest):
            shortest = 1 + bisect_left(range(1, longest + 1), True, key=few)
            mapping = run(-(-longest // -(-longest // shortest)))
            break
    return mapping, _commands(extents, mapping, each, per_result)


def _commands(extents: dict[str, int], mapping: Mapping, each: int, per_result: int) -> int:
    tiles = {axis: -(-extent // int(getattr(mapping, f"t{axis}"))) for axis, extent in extents.items()}
    return prod(tiles.values()) * each + tiles["g"] * tiles["m"] * tiles["n"] * per_result


def pieces(start: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges (first, end) of at most ``size`` that cover ``start`` to ``end``."""
    for first in range(start, end, size):
        yield first, min(first + size, end)


def sizes(extent: int, size: int) -> list[tuple[int, int]]:
    """Return (size, how often) of the pieces that an extent is cut into, the last one smaller."""
    full, rest = divmod(extent, size)
    return [(each, often) for each, often in ((size, full), (rest, 1)) if each and often]


def tiles_along(tile: Tile, mapping: Mapping) -> dict[str, int]:
    """Return how many tiles of the mapping a run has along each axis."""
    extents = {"g": tile.g1 - tile.g0, "m": tile.m1 - tile.m0, "n": tile.n1 - tile.n0, "k": tile.k1 - tile.k0}
    return {axis: -(-extent // getattr(mapping, f"t{axis}")) for axis, extent in extents.items()}


def passes(tiles: dict[str, int], mapping: Mapping, axes: str) -> int:
    """Return how often a run loads each tile of the operand that has these axes, ``tiles`` along each axis."""
    loops = "g" + mapping.order
    inner = max((loops.index(axis) for axis in axes if tiles[axis] > 1), default=0)
    outside = loops[:inner] if mapping.reuse else loops
    return prod(tiles[axis] for axis in outside if axis not in axes)
