"""Addresses: where in an off-chip memory the bytes of each transfer lie. A pure function of the program.

Every off-chip region has a base address, given out in order of creation from 0 up in whole pages of ``ALIGN_B``;
nothing is given back. The constants of several cores are there once. What lies beyond the end of a memory wraps round
to its beginning, where addresses become bursts (``accelsim.machine.addressed``): a program that writes many results one
after the other needs more addresses than bytes.

Tensors are row-major, so most tiles are a nest of strides (``tile_nests``). Bytes of the runs = bytes of the transfer:

- Stationary tiles lie one after the other, in the order in which they are loaded, where that is what the loader wants
  (``padded_tiles`` of the matrix unit), where weights are stored sparsely, and where an element is not whole bytes.
- Other tiles whose pieces do not begin or end at whole bytes (codes below 8 bits in odd rows) are taken as one
  contiguous piece of their size, from where their first element lies; so are a side operand that broadcasts, and a
  tile that is moved with the padding around it.
- Of a table that is gathered from, as many rows as are used, spread evenly.
- What an operand that broadcasts over the groups of a product reads again, it reads again from the same addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import NamedTuple, cast

from accelsim.program.commands import Command, Region, Tile
from accelsim.program.packed import roots_of, tiles_of
from accelsim.program.program import Program
from accelsim.program.tile_nests import Dims, Nest, a_nests, b_nests, nest, y_nests
from accelsim.program.tiles import b_key
from accelsim.program.work import Transfer
from accelsim.workload.graph import Node, Tensor
from accelsim.workload.ops.base import Gemm

ALIGN_B = 4096
"""Alignment of a tensor in an off-chip memory: a page of the usual host systems."""


class Runs(NamedTuple):
    """``length_B`` bytes from ``base``, again at each combination of ``dims``: (stride_B, count), outermost first."""

    base: int
    length_B: int
    dims: Dims = ()

    @property
    def nbytes(self) -> int:
        """Bytes of all runs together."""
        return Nest(*self).elements

    @property
    def end(self) -> int:
        """First address behind the last byte."""
        return self.base + self.length_B + sum(stride * (count - 1) for stride, count in self.dims)


class AddressMap:
    """Base addresses of the off-chip regions of ``program``, and the runs of its transfers."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._roots = roots_of(program)
        self._tiled = tiles_of(program, self._root, program.commands)
        self.extent_B: dict[str, int] = dict.fromkeys(program.chip.memories, 0)
        """Memory -> bytes from address 0 to the end of the last region."""
        self._spans = {region.id: self._allocate(region) for region in program.regions if self._is_home(region)}

    def _root(self, region: int) -> int:
        return self._roots.get(region, region)

    def _is_home(self, region: Region) -> bool:
        return region.memory in self.extent_B and self._root(region.id) == region.id

    def _allocate(self, region: Region) -> tuple[int, int]:
        base = -(-self.extent_B[region.memory] // ALIGN_B) * ALIGN_B
        tiles = [tiles.size_B for (_, root), tiles in self._tiled.items() if root == region.id]
        size = max(1, region.size_B, *tiles)
        self.extent_B[region.memory] = base + size
        return base, size

    def span(self, region: int) -> tuple[int, int]:
        """(base address, bytes) of an off-chip region; KeyError for one on the chip."""
        return self._spans[self._root(region)]

    def home(self, command: Command) -> list[int]:
        """The regions of the memory that a Load reads or a Store writes; several where it gathers constants."""
        memory = cast(Transfer, command.work).memory
        uses = command.writes if command.kind == "Store" else command.reads
        return [use.region for use in uses if self._program.regions[use.region].memory == memory]

    def runs(self, command: Command) -> tuple[Runs, ...]:
        """Return where the bytes of a Load or Store lie, in the order in which they move; none for a transfer of 0
        bytes."""
        work, regions, tile = cast(Transfer, command.work), self.home(command), command.effect.tile
        if not work.nbytes:
            return ()
        if command.effect.what == "none" and all(self._is_constant(region) for region in regions):
            return self._constants(command, regions)
        base = self.span(regions[0])[0]
        tiles = self._tiled.get((command.op, self._root(regions[0])))
        if command.effect.what == "load_b" and tiles is not None and tile is not None:
            again = ((0, work.times),) if work.times > 1 else ()
            return (Runs(base + tiles.offsets[b_key(tile)], work.nbytes // work.times, again),)
        if command.effect.what == "append":
            return self._appended(command, base)
        make = NESTS.get(command.effect.what)
        if make is None or tile is None:
            return (Runs(base + work.offset_B, work.nbytes),)
        step, graph = self._program.steps[command.op], self._program.graph
        tensor = graph.tensors[command.effect.tensor or command.effect.operands[0][0]]
        nests = make(cast(Gemm, step.gemm), step.node, tensor, tile)
        if work.times > 1:
            nests = [each._replace(dims=((0, work.times), *each.dims)) for each in nests]
        return _in_bytes(tensor, nests, base, work.nbytes)

    def _appended(self, command: Command, base: int) -> tuple[Runs, ...]:
        """Rows of a state: a piece in each of the blocks that the axes before that of the rows make."""
        tensors, node = self._program.graph.tensors, self._program.steps[command.op].node
        whole, new, axis = tensors[command.effect.tensor], tensors[node.inputs[1]], node.attrs["axis"]
        row = prod(whole.shape[axis + 1 :])
        pieces = nest(
            node.attrs["at"] * row, new.shape[axis] * row, ((whole.shape[axis] * row, prod(whole.shape[:axis])),)
        )
        return _in_bytes(whole, [pieces], base, new.nbytes)

    def _is_constant(self, region: int) -> bool:
        preset = self._program.presets.get(region)
        return preset is not None and self._program.graph.tensors[preset[0]].is_constant

    def _constants(self, command: Command, regions: list[int]) -> tuple[Runs, ...]:
        """Constants that one Load brings together: all of each, or of a table as many rows as there are results."""
        graph = self._program.graph
        used = sum(tensor.elements for tensor in graph.outs(self._program.steps[command.op].node))
        found, left = [], cast(Transfer, command.work).nbytes
        for region in regions:
            tensor = graph.tensors[self._program.presets[region][0]]
            share = min(tensor.nbytes, tensor.size_B(used), left)
            found.append(_rows(tensor, self.span(region)[0], share))
            left -= share
        return tuple(found)


def _rows(tensor: Tensor, base: int, share: int) -> Runs:
    """Return the bytes of a table that are read: all, or whole rows spread evenly over it (the best guess
    for unknown indices)."""
    row_B = tensor.size_B(tensor.elements // max(1, tensor.shape[0])) if tensor.shape else share
    count = share // max(1, row_B)
    if share == tensor.nbytes or not count or count * row_B != share:
        return Runs(base, share)
    return Runs(*nest(base, row_B, ((tensor.shape[0] // count * row_B, count),)))


def _in_bytes(tensor: Tensor, nests: list[Nest], base: int, nbytes: int) -> tuple[Runs, ...]:
    times, parts = tensor.element_B.as_integer_ratio()  # bytes of an element; whole numbers, as there are many tiles
    moved = sum(each.elements for each in nests) * times
    if moved != nbytes * parts or (parts > 1 and any(figure * times % parts for figure in _figures(nests))):
        first = nests[0].start * times // parts
        return (Runs(base + max(0, min(first, tensor.nbytes - nbytes)), nbytes),)
    return tuple(
        [
            Runs(
                base + start * times // parts,
                length * times // parts,
                tuple([(stride * times // parts, count) for stride, count in dims]),
            )
            for start, length, dims in nests
        ]
    )


def _figures(nests: list[Nest]) -> Iterator[int]:
    for start, length, dims in nests:
        yield from (start, length, *(stride for stride, _ in dims))


def _result(gemm: Gemm, node: Node, tensor: Tensor, tile: Tile) -> list[Nest]:
    return y_nests(gemm, tensor.elements // (gemm.groups * gemm.N), tile)


def _side(gemm: Gemm, node: Node, tensor: Tensor, tile: Tile) -> list[Nest]:
    """Return the nests of an operand that is added to the sums; one that broadcasts has fewer elements."""
    nests = y_nests(gemm, gemm.M, tile)
    if tensor.elements == gemm.groups * gemm.M * gemm.N:
        return nests
    count = min(sum(each.elements for each in nests), tensor.elements)
    return [Nest(min(nests[0].start, tensor.elements - count), count)]


NESTS: dict[str, Callable[[Gemm, Node, Tensor, Tile], list[Nest]]] = {
    "load_a": a_nests,
    "load_b": b_nests,
    "load_side": _side,
    "store": _result,
    "epilogue": _result,
}
"""``Effect.what`` -> the elements of a tile; what is not here is a contiguous piece from ``Transfer.offset_B``."""
