"""Collectives on real buffers of any shape."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accelsim.cluster.collectives.algorithms import algorithm
from accelsim.cluster.collectives.base import Members, messages
from accelsim.cluster.values.lockstep import run_data
from accelsim.errors import Problem, UsageError
from accelsim.types import Array, Ints


def run_collective(
    kind: str, name: str, arrays: Sequence[Array], chunks: int = 1, groups: Sequence[int] = ()
) -> list[Array]:
    """A collective on buffers of any shape, all alike: what each device holds in the end.

    ``arrays``: one per device; of all_gather, each device's part is part i of its own array. The result of
    reduce_scatter is part i of the array of device i, elsewhere what is left of the way there. Parts are the same for
    any number of chunks.
    UsageError where they are not alike, or of all_to_all cannot be divided among the devices.
    """
    shapes = {(each.shape, each.dtype.str) for each in arrays}
    if len(shapes) != 1:
        raise UsageError(Problem("buffers of different shapes or types", kind, "one array per device, all alike"))
    size, shape = arrays[0].size, arrays[0].shape
    if kind == "all_to_all" and size % len(arrays):
        raise UsageError(Problem(f"{size} elements", kind, f"as many in each of {len(arrays)} parts"))
    chosen, members = algorithm(name, kind), Members(len(arrays), tuple(groups) or (0,) * len(arrays))
    program = chosen.rounds(kind, members, chunks)
    places, room = np.arange(size), size
    if kind in BY_PART and chunks > 1 and program.rounds and not chosen.pipelined:
        room = -(-size // program.cells) * program.cells
        places = _by_chunk(size, program.cells // chunks, chunks)
    flat = [_placed(np.ravel(each), places, room * program.areas) for each in arrays]
    done = run_data(messages(program, room), flat)
    return [each[room * (program.areas - 1) :][places].reshape(shape) for each in done]


BY_PART = ("reduce_scatter", "all_gather", "all_to_all")
"""Kinds that give each device a part of the buffer: a share of each chunk, that is a share of its own part."""


def _by_chunk(size: int, cells: int, chunks: int) -> Ints:
    """Return where the elements of a buffer lie when it is laid out chunk by chunk, each with its share of every cell.

    Cells and chunks that do not divide the buffer leave room behind some shares, so that all have the same size.
    """
    share = np.arange(cells * chunks)
    begin = share * size // len(share)
    length = np.diff(begin, append=size)
    cell, chunk = np.divmod(share, chunks)
    first = (chunk * cells + cell) * -(-size // len(share))
    return np.repeat(first - begin, length) + np.arange(size)


def _placed(values: Array, places: Ints, room: int) -> Array:
    buffer = np.zeros(room, values.dtype)
    buffer[places] = values
    return buffer


def part(index: int, ranks: int, elements: int) -> slice:
    """Elements of part ``index`` of a buffer in as many parts as there are devices: equal but for one element."""
    return slice(index * elements // ranks, (index + 1) * elements // ranks)
