"""Lowering of one product: its processing passes become Load, MatMul and Store commands.

A pass is one MatMul, and as many as it has ifmaps where the ifmaps of two passes do not fit into the global buffer side
by side: then those of the next pass come one by one, as room becomes free. The psums of an output tile lie in the
global buffer from its first pass to its last; then they leave for the memory outside, through the functions that
follow.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

from accelsim.engines.base import Lowering, Mapped
from accelsim.engines.row_stationary.costing import Costing, Part, one_pass
from accelsim.engines.row_stationary.mapper import mapping_of, side_B
from accelsim.engines.row_stationary.shape import Mapping
from accelsim.engines.row_stationary.viewing import convolution, geometry
from accelsim.errors import Infeasible
from accelsim.program.actions import READ, Action, op
from accelsim.program.commands import Effect, Tile
from accelsim.program.roles import function_unit
from accelsim.program.work import Transfer
from accelsim.program.writing.allocator import Ring
from accelsim.program.writing.builder import PIECE
from accelsim.program.writing.entries import transfer_actions
from accelsim.program.writing.layout import Layout, Place
from accelsim.workload.graph import Tensor
from accelsim.workload.limits import check_commands
from accelsim.workload.nodes import gemm_view
from accelsim.workload.ops.base import Gemm

ADVICE = "a larger array, larger buffers, a smaller batch or model"
Range = tuple[int, int]
"""Half-open."""


def lower_product(step: Lowering) -> Mapped:
    """Write the commands of a product. Raises Infeasible where no mapping fits, UsageError for a pinned one that does
    not."""
    gemm = gemm_view(step.layout.graph, step.node)
    assert gemm is not None
    conv, array = convolution(gemm), geometry(step.layout.roles.chip, step.unit.spec)

    def write(lowering: Lowering, mapping: Mapping) -> Mapped:
        roles, tensors, node = lowering.layout.roles, lowering.layout.graph.tensors, lowering.node
        dtype = node.format or lowering.dtype
        sums, out = lowering.unit.spec.formats[dtype].accumulate, node.writes[0]
        costing = Costing(roles, dtype, sums, conv, array, mapping, tensors[gemm.a], tensors[gemm.b], out)
        ProductStep(lowering, gemm, costing).lower()
        return Mapped(gemm, mapping, "", 1)

    mapping, compared = mapping_of(step, conv, array, write)
    return write(step, mapping)._replace(scored=compared)


class Block(NamedTuple):
    """An output tile: group, filters, ifmaps, rows of the ofmap."""

    g: int
    m: Range
    n: Range
    y: Range


def blocks(total: int, size: int) -> list[Range]:
    """Return ranges of ``size``, the last one smaller where it does not come out even."""
    return [(start, min(start + size, total)) for start in range(0, total, size)]


class ProductStep:
    """One product while its commands are written."""

    def __init__(self, step: Lowering, gemm: Gemm, costing: Costing) -> None:
        self.layout, self.op, self.node, self.gemm, self.costing = step.layout, step.index, step.node, gemm, costing
        self.conv, self.maps, self.a, self.b = costing.conv, costing.mapping, costing.a, costing.b
        self.out = self._tensor(costing.out)
        self.written = 0

    def lower(self) -> None:
        """Emit all commands. Raises Infeasible when the tiles of a mapping do not fit, TooLarge beyond the limits."""
        conv, maps = self.conv, self.maps
        self._prepare()
        self._check_size()
        tiles = product(range(conv.G), blocks(conv.M, maps.m), blocks(conv.N, maps.n), blocks(conv.E, maps.e))
        for each in tiles:
            self._tile(Block(*each))
        self.room.release()

    def _tensor(self, name: str) -> Tensor:
        return self.layout.graph.tensors[name]

    def _prepare(self) -> None:
        """Operands in their memories, an empty global buffer, slots for what comes and goes, a place for the result."""
        layout, reads = self.layout, self.layout.facts.epilogue_reads(self.node)
        self.a_home, self.b_home = (layout.store_away(self.op, name) for name in (self.gemm.a, self.gemm.b))
        self.sides = {name: layout.store_away(self.op, name) for name in reads.sides}
        while layout.spill(self.op, ()):
            pass
        self.room = Room(layout, self.node.name, self.costing, [self._tensor(name) for name in reads.sides])
        self._load_parameters(reads.parameters)
        self.result = layout.result(self.out.name)
        layout.places[self.out.name] = Place(home=self.result)

    def _functions(self) -> str:
        """The engine whose functions psums pass on their way out, '' where there is none."""
        roles = self.layout.roles
        if not self.node.epilogue or function_unit(roles.chip) is None:
            return ""
        return roles.engine(roles.functions_behind(self.node).name)

    def _load_parameters(self, constants: tuple[str, ...]) -> None:
        """One Load of everything constant that the functions after the product need."""
        layout, self.parameters = self.layout, list[int]()
        if not constants:
            return
        unit = self._functions() or layout.roles.products
        size_B = sum(self._tensor(name).nbytes for name in constants)
        self.parameters = [layout.off_chip(unit, f"{self.node.name} parameters", size_B)]
        sources = [home for name in constants if (home := layout.place(name).home) is not None]
        layout.transfers.load_parameters(self.op, sources, self.parameters[0], layout.roles.weights_home, size_B)

    def _check_size(self) -> None:
        """TooLarge before the first pass is written, when all of them are more commands than the limits allow."""
        conv, maps, parts = self.conv, self.maps, self.room.parts
        tiles = conv.G * len(blocks(conv.N, maps.n)) * len(blocks(conv.E, maps.e))
        filters = sum(len(blocks(last - first, maps.p * maps.t)) for first, last in blocks(conv.M, maps.m))
        channels = len(blocks(conv.C, maps.q * maps.r))
        loads = len(blocks(conv.M, maps.m)) * channels * parts
        needed = tiles * (filters * channels * (1 + parts) + loads + filters * parts * (1 + len(self.sides)))
        check_commands(f"{self.node.name} by {maps}", needed, len(self.layout.builder.commands), ADVICE)

    def _tile(self, block: Block) -> None:
        """All passes of an output tile: blocks of channels, in each of them blocks of filters."""
        first, last = block.n
        images = [block.n] if self.room.parts == 1 else [(at, at + 1) for at in range(first, last)]
        filters, before = blocks(block.m[1] - block.m[0], self.maps.p * self.maps.t), 0
        for c in blocks(self.conv.C, self.maps.q * self.maps.r):
            slabs = [self._ifmap(self._cut(block, n, (0, self.conv.M), c), block) for n in images]
            opens, done = c[0] == 0, c[1] == self.conv.C
            for at, (f0, f1) in enumerate(filters):
                m = (block.m[0] + f0, block.m[0] + f1)
                tiles = [self._cut(block, n, m, c) for n in images]
                pass_of = (f1 - f0, c[1] - c[0], last - first, block.y[1] - block.y[0])
                kind = one_pass(*pass_of, before, opens, done, at == 0)
                costs = self.costing.parts(kind, len(images), done and f1 == filters[-1][1])
                held = self._filters(tiles[0])
                for tile, slab, acc, cost in zip(tiles, slabs, self.room.psums[at], costs, strict=False):
                    self._product(tile, slab, held, (acc, PIECE[opens, done]), cost)
                if done:
                    for tile, acc in zip(tiles, self.room.psums[at], strict=False):
                        self._finish(tile, acc)
                before = f1 - f0

    def _cut(self, block: Block, n: Range, m: Range, c: Range) -> Tile:
        """The tile of the product of some ifmaps, filters and channels of a block; of several ifmaps, whole ofmaps."""
        conv = self.conv
        ofmap, taps = conv.E * conv.F, conv.R * conv.S
        rows = (n[0] * ofmap + block.y[0] * conv.F, (n[1] - 1) * ofmap + block.y[1] * conv.F)
        return Tile(block.g, block.g + 1, *rows, *m, c[0] * taps, c[1] * taps)

    def _load(self, ring: Ring, effect: str, tile: Tile, tensor: Tensor, home: int, elements: int) -> int:
        slot, loads = ring.take(), Effect(effect, tile, ((tensor.name, home),))
        self.layout.transfers.load(self.op, home, slot, tensor.name, tensor.size_B(elements), loads)
        return slot

    def _ifmap(self, tile: Tile, block: Block) -> int:
        """The Load of the rows that a strip needs, of some ifmaps and channels, with the padding around them."""
        conv = self.conv
        images = -(-(tile.m1 - tile.m0) // (conv.E * conv.F))
        channels = (tile.k1 - tile.k0) // (conv.R * conv.S)
        words = images * channels * conv.rows(block.y[1] - block.y[0]) * conv.W
        return self._load(self.room.ifmaps, "load_a", tile, self.a, self.a_home, int(words))

    def _filters(self, tile: Tile) -> int:
        """The Load of the filters of a pass."""
        words = (tile.n1 - tile.n0) * (tile.k1 - tile.k0)
        return self._load(self.room.filters, "load_b", tile, self.b, self.b_home, words)

    def _product(self, tile: Tile, a: int, b: int, sums: tuple[int, str], cost: Part) -> None:
        engine, (work, actions) = self.layout.roles.products, cost
        effect = Effect("product", tile, ((self.a.name, a), (self.b.name, b)))
        self.layout.builder.emit(
            "MatMul", engine, self.op, self.node.name, work, effect, [(b, "w"), (a, "a")], [sums], actions
        )

    def _finish(self, tile: Tile, acc: int) -> None:
        """The psums of a tile leave through the functions that follow, at the pace of the memory."""
        layout, roles = self.layout, self.layout.roles
        count = (tile.m1 - tile.m0) * (tile.n1 - tile.n0)
        first = self.written == 0
        self.written += count
        last = self.written == self.gemm.groups * self.gemm.M * self.gemm.N
        sides = {name: self._side(name, tile, count) for name in self.sides}
        memory, size_B = layout.builder.regions[self.result].memory, self.out.size_B(count)
        entries = transfer_actions(roles, memory, self.out.name, size_B, True)
        entries.append(Action(roles.engine(roles.activations), READ, self.out.name, self.costing.sums_B(count)))
        if self._functions():
            entries.append(Action(self._functions(), op("fp32"), "", count * len(self.node.epilogue)))
        work, effect = (
            Transfer(memory, size_B, True),
            Effect("epilogue", tile, tuple(sides.items()), self.out.name, last),
        )
        reads = [(acc, "acc"), *((region, "src") for region in (*sides.values(), *self.parameters))]
        writes = [(self.result, PIECE[first, last])]
        engine, label = roles.store_engine(memory), f"store {self.out.name}"
        layout.builder.emit("Store", engine, self.op, label, work, effect, reads, writes, entries)

    def _side(self, name: str, tile: Tile, count: int) -> int:
        """The Load of the part of another operand of these functions that meets a tile of psums."""
        side = self._tensor(name)
        elements = min(count, side.elements)
        return self._load(self.room.sides[name], "load_side", tile, side, self.sides[name], elements)


class Room:
    """Slots of one step: psums of an output tile, a tile of each side, filters of two passes, and ifmaps of two passes
    or as many as there is room for. Raises Infeasible where those of one pass do not fit.

    ``parts``: ifmaps of a pass that come on their own, 1 where all come at once. ``psums``: for each block of filters
    of an output tile, a region for each part.
    """

    def __init__(self, layout: Layout, step: str, costing: Costing, sides: list[Tensor]) -> None:
        self.layout, self.step, self.taken = layout, step, list[tuple[str, list[int]]]()
        roles, conv, maps = layout.roles, costing.conv, costing.mapping
        self.tile, glb, weights = str(maps), roles.activations, roles.weights
        pixels, channels = maps.e * conv.F, min(maps.q * maps.r, conv.C)
        of_pass = min(maps.p * maps.t, maps.m)
        left_B = roles.buffer(glb).capacity - costing.sums_B(maps.n * maps.m * pixels) - side_B(conv, maps, sides)
        image_B = costing.a.size_B(int(channels * conv.rows(maps.e) * conv.W))
        whole = maps.n == 1 or (maps.e == conv.E and 2 * maps.n * image_B <= left_B)
        self.parts, slab_B = (1, maps.n * image_B) if whole else (maps.n, image_B)
        slabs = min(2 * self.parts, left_B // slab_B)
        if slabs < self.parts:
            raise Infeasible(step, glb, self.parts * slab_B, max(0, left_B), self.tile)
        self.psums: list[list[int]] = []
        for start in range(0, maps.m, of_pass):
            filters = min(of_pass, maps.m - start)
            size_B = costing.sums_B(maps.n // self.parts * filters * pixels)
            self.psums.append([self._ring(glb, "psums", size_B).slots[0] for _ in range(self.parts)])
        self.ifmaps = self._ring(glb, "ifmaps", slab_B, slabs)
        self.sides = {side.name: self._ring(glb, f"side {side.name}", side_B(conv, maps, [side])) for side in sides}
        size_B = costing.b.size_B(of_pass * channels * conv.R * conv.S)
        two = max(1, min(2, roles.buffer(weights).capacity // size_B))
        self.filters = self._ring(weights, "filters", size_B, two)

    def _ring(self, buffer: str, name: str, size_B: int, count: int = 1) -> Ring:
        """Return ``count`` new slots. Raises Infeasible where there is no room."""
        ring, regions = self.layout.slots.ring(buffer, self.step, name, size_B, count, self.tile, parted=False)
        self.taken.append((buffer, regions))
        return ring

    def release(self) -> None:
        """Give everything back."""
        for buffer, regions in self.taken:
            self.layout.release(buffer, regions)
