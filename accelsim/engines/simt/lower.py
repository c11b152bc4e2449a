"""Lowering of products: a kernel becomes its launch, loads of the tiles of its panels, their products and results.

Commands are one per panel and slice of K, that is per wave of blocks, never per block. Each takes its part of the
clocks of the kernel, which :mod:`accelsim.engines.simt.waves` counts as a whole, by what its blocks do in it.
"""

from __future__ import annotations

from collections.abc import Hashable
from math import ceil

from accelsim.engines.base import Lowering, Mapped
from accelsim.engines.simt.actions import function_actions, is_simple, product_actions
from accelsim.engines.simt.algorithms import with_algorithm
from accelsim.engines.simt.kernels import Blocks, Kernel, choose, epilogue_paces, sums_B
from accelsim.engines.simt.panels import SLOTS, Product, a_B, b_B, panels, read_B, whole_B
from accelsim.engines.simt.served import timed, work_clocks
from accelsim.engines.simt.spec import Simt
from accelsim.engines.simt.writing import Shares, device_home, launch, load_parameters, rates_of, units
from accelsim.engines.tuning import choose_mapping
from accelsim.errors import Infeasible
from accelsim.program.actions import Action
from accelsim.program.commands import Effect, Tile
from accelsim.program.mapping import Mapping
from accelsim.program.tiles import Exec, a_elements, loop, sparsity, whole
from accelsim.program.work import Cycles
from accelsim.program.writing.allocator import Ring
from accelsim.program.writing.builder import PIECE
from accelsim.program.writing.layout import Place
from accelsim.workload.graph import Tensor
from accelsim.workload.limits import check_commands
from accelsim.workload.nodes import gemm_view

ADVICE = "a larger L2 cache, larger tiles, a smaller batch or model"


def lower_product(step: Lowering) -> Mapped:
    """Write a product with its best tile. Raises Infeasible where not even a block fits into the cache."""
    product = _product(step)
    likeness = _likeness(step, product)

    def chosen() -> tuple[Kernel, int]:
        roles, spec, name = step.layout.roles, step.unit.spec, step.node.name
        found = choose(spec, rates_of(step), product, name, roles.activations, step.pinned, step.leaders)
        fast = with_algorithm(step, product, found.kernels)
        kernels = {kernel.mapping: kernel for kernel in reversed(fast)}

        def write(lowering: Lowering, mapping: Blocks) -> Mapped:
            return _write(lowering, _product(lowering), kernels[mapping])

        return kernels[choose_mapping(step, likeness, [kernel.mapping for kernel in fast], write)], found.compared

    kernel, compared = step.once(likeness, chosen)
    return _write(step, product, kernel)._replace(scored=compared)


def _write(step: Lowering, product: Product, kernel: Kernel) -> Mapped:
    """The commands of a kernel."""
    panel, spec = kernel.panel, step.unit.spec
    mapping = Mapping(
        "mnk", panel.rows, panel.cols, panel.depth, panel.groups,
        a_resident=panel.kept == "a", b_resident=panel.kept == "b", y_resident=False, y_slots=1,
    )  # fmt: skip
    ProductStep(step, product, kernel, mapping).lower()
    computed = kernel.clocks / rates_of(step).clock_Hz
    binds = step.unit.name if spec.launch + computed >= kernel.seconds else step.layout.roles.activations_home
    return Mapped(product.gemm, kernel.mapping, binds, 1)


def _product(step: Lowering) -> Product:
    graph, node = step.layout.graph, step.node
    gemm = gemm_view(graph, node)
    assert gemm is not None
    tensors, (lanes, special) = graph.tensors, epilogue_paces(step.unit.spec, [part.op for part in node.epilogue])
    sides = tuple(tensors[name] for name in step.layout.facts.epilogue_reads(node).sides)
    result = tensors[node.writes[0]]
    return Product(
        gemm, node.format or step.dtype, tensors[gemm.a], tensors[gemm.b], result, sides, lanes, special, sparsity(node)
    )


def _likeness(step: Lowering, product: Product) -> Hashable:
    """All that the choice of a kernel depends on, of one chip."""
    gemm, tensors = product.gemm, (product.a, product.b, product.y, *product.sides)
    return (
        step.unit.name, gemm.groups, gemm.M, gemm.N, gemm.K, gemm.conv, product.format, product.lane_clocks,
        product.special, product.sparse, tuple(sorted(step.pinned.items())),
        *((tensor.elements, tensor.element_B) for tensor in tensors),
    )  # fmt: skip


class ProductStep:
    """One product while its commands are written. ``held``: the latest tile of each operand that comes and goes;
    ``kept``: all tiles of the one that stays; ``costs``: entries of pieces by their size."""

    def __init__(self, step: Lowering, product: Product, kernel: Kernel, mapping: Mapping) -> None:
        self.step, self.product, self.kernel, self.mapping = step, product, kernel, mapping
        self.layout, self.op, self.node, self.spec = step.layout, step.index, step.node, step.unit.spec
        self.gemm, self.units, self.timed = product.gemm, units(step), timed(step)
        self.cache, self.queue = self.layout.roles.activations, self.layout.roles.queue(step.unit.name)
        self.held: dict[str, tuple[tuple[int, ...], int]] = {}
        self.kept: dict[tuple[int, ...], int] = {}
        self.costs: dict[tuple[int, ...], list[Action]] = {}
        self.taken, self.written = list[int](), 0

    def lower(self) -> None:
        """Emit all commands. Raises TooLarge before the first where they are too many."""
        self._check_size()
        self._prepare()
        for step in loop(whole(self.gemm), self.mapping):
            tile = step.tile
            b = self._operand("b", (tile.g0, tile.n0, tile.k0), tile)
            a = self._operand("a", (tile.g0, tile.m0, tile.k0), tile)
            self._multiply(step, a, b)
            if step.last:
                self._finish(tile)
        self.layout.release(self.cache, self.taken)

    def _check_size(self) -> None:
        slices = ceil(self.gemm.K / self.mapping.tk)
        self.pieces = panels(self.gemm, self.kernel.panel) * slices
        needed = panels(self.gemm, self.kernel.panel) * (3 * slices + 2 + len(self.product.sides))
        before = len(self.layout.builder.commands)
        check_commands(f"{self.node.name} in {self.pieces:,} pieces", needed, before, ADVICE)

    def _prepare(self) -> None:
        """Operands in the memory of the device, the launch, slots for tiles, a place for the result."""
        layout, out = self.layout, self.product.y
        reads = layout.facts.epilogue_reads(self.node)
        names = dict.fromkeys((self.gemm.a, self.gemm.b, *self.node.inputs[2:], *reads.sides))
        self.homes = {name: device_home(layout, self.op, name) for name in names}
        self.chosen = {name: self.homes[name] for name in self.node.inputs[2:]}
        layout.places[out.name] = Place(home=layout.result(out.name))
        call = float(self.spec.convolution.call) if self.gemm.conv else 0.0
        width, begin = self._width(self.kernel.grid.blocks), None if self.timed is None else self.timed.launch
        self.launched = launch(self.step, self.homes.values(), width, call, begin)
        self.sums = layout.off_chip(self.units.engine, f"{self.node.name} sums", 0)
        self._take_slots()
        size = sum(layout.graph.tensors[name].nbytes for name in reads.parameters)
        self.parameters = load_parameters(self.step, reads.parameters, size, self.launched)
        self._cut_clocks()

    def _cut_clocks(self) -> None:
        """The end of a panel takes the epilogue of its last blocks, half of its time at the most; its products share
        the rest."""
        ends, clocks = panels(self.gemm, self.kernel.panel), self._clocks()
        self.end = max(1, min(self.kernel.grid.times.epilogue, clocks // (2 * ends)))
        weight = self.kernel.grid.blocks * self.gemm.K
        self.shares = Shares(clocks - ends * self.end, self.pieces, weight)

    def _clocks(self) -> int:
        """Clocks of all its blocks: its own, or what a kernel of a serving stack takes."""
        if self.timed is None:
            return self.kernel.clocks
        near, product, panel = rates_of(self.step), self.product, self.kernel.panel
        others = product.y.nbytes + sum(side.nbytes for side in product.sides)
        results = panel.groups * min(panel.rows, self.gemm.M) * min(panel.cols, self.gemm.N)
        ends_B = a_B(product, panel) + b_B(product, panel) + product.y.size_B(results)
        moving = (read_B(product, panel) + others) / near.dram_Bps
        return work_clocks(self.timed.rest, moving, ends_B / near.dram_Bps, self.pieces, near.clock_Hz)

    def _take_slots(self) -> None:
        """Several tiles in flight of everything that comes and goes: each has its share of the cache, through which
        larger ones stream."""
        panel, gemm = self.kernel.panel, self.gemm
        sums = panel.groups * min(panel.rows, gemm.M) * min(panel.cols, gemm.N)
        sizes = {"a": a_B(self.product, panel), "b": b_B(self.product, panel), "y": self.product.y.size_B(sums)}
        sizes |= {side.name: side.size_B(min(sums, side.elements)) for side in self.product.sides}
        sizes.pop(panel.kept, None)
        kept_B = dict(zip("ab", whole_B(self.product, panel), strict=True)).get(panel.kept, 0)
        free_B = self.layout.spaces[self.cache].free_B() - kept_B
        share = max(1, free_B // (SLOTS * len(sizes)))
        self.rings = {
            name: Ring([self._room(f"tile {name} {i}", min(size, share), streams=True) for i in range(SLOTS)])
            for name, size in sizes.items()
        }

    def _room(self, name: str, size_B: int, streams: bool = False) -> int:
        """A region of the cache. Raises Infeasible where there is none."""
        region = self.layout.on_chip(self.cache, name, size_B, streams)
        if region is None:
            panel, free = self.kernel.panel, self.layout.spaces[self.cache].free_B()
            shape = f"{panel.groups}x{panel.rows}x{panel.cols}x{panel.depth}"
            raise Infeasible(self.node.name, self.cache, size_B, free, shape)
        self.taken.append(region)
        return region

    def _operand(self, operand: str, key: tuple[int, ...], tile: Tile) -> int:
        """The region of an operand's tile: kept, still there from the command before, or loaded now."""
        if operand == self.kernel.panel.kept:
            if key not in self.kept:
                self.kept[key] = self._load(operand, tile)
            return self.kept[key]
        if operand not in self.held or self.held[operand][0] != key:
            self.held[operand] = (key, self._load(operand, tile))
        return self.held[operand][1]

    def _load(self, operand: str, tile: Tile) -> int:
        tensor, groups = self.product.a if operand == "a" else self.product.b, tile.g1 - tile.g0
        if operand == "a":
            size = tensor.size_B(a_elements(self.gemm, groups, tile.m0, tile.m1, tile.k0, tile.k1))
        else:
            size = tensor.size_B(groups * (tile.n1 - tile.n0) * (tile.k1 - tile.k0))
        kept = operand == self.kernel.panel.kept
        slot = self._room(f"kept {operand} {len(self.kept)}", size) if kept else self.rings[operand].take()
        chosen = self.chosen if operand == "b" else {}
        source = self.homes[tensor.name]
        effect = Effect(f"load_{operand}", tile, ((tensor.name, source), *chosen.items()))
        needs = [*self.launched, *chosen.values()]
        self.layout.transfers.load(self.op, source, slot, tensor.name, size, effect, needs=needs)
        return slot

    def _blocks(self, tile: Tile) -> int:
        shape = self.kernel.tile
        down, across = ceil((tile.m1 - tile.m0) / shape.m), ceil((tile.n1 - tile.n0) / shape.n)
        return self.kernel.splits * (tile.g1 - tile.g0) * down * across

    def _width(self, blocks: int) -> int:
        """Multiprocessors that so many blocks keep from other kernels."""
        spec: Simt = self.spec
        return min(ceil(blocks * spec.hold), spec.multiprocessors)

    def _multiply(self, step: Exec, a: int, b: int) -> None:
        tile, blocks = step.tile, self._blocks(step.tile)
        work = self.shares.take(blocks * (tile.k1 - tile.k0), self._width(blocks))
        effect = Effect("product", tile, ((self.gemm.a, a), (self.gemm.b, b)))
        reads, writes = [(b, "src"), (a, "src")], [(self.sums, PIECE[step.first, step.last])]
        name, actions = self.node.name, self._actions(tile)
        self.layout.builder.emit("MatMul", self.queue, self.op, name, work, effect, reads, writes, actions)

    def _actions(self, tile: Tile) -> list[Action]:
        """Return what a piece costs; most are of the same size, and the last of K alone has steps that are not full."""
        size = (tile.g1 - tile.g0, tile.m1 - tile.m0, tile.n1 - tile.n0, tile.k1 - tile.k0)
        key = (*size, tile.k1 == self.gemm.K)
        if key not in self.costs:
            self.costs[key] = product_actions(self.spec, self.units, self.product, self.kernel, tile)
        return self.costs[key]

    def _finish(self, tile: Tile) -> None:
        """The sums of a panel are complete: through the functions after them, into the cache and out."""
        layout, out = self.layout, self.product.y
        count = (tile.g1 - tile.g0) * (tile.m1 - tile.m0) * (tile.n1 - tile.n0)
        first, self.written = not self.written, self.written + count
        last = self.written == self.gemm.groups * self.gemm.M * self.gemm.N
        sides = {side.name: self._side(side, count, tile) for side in self.product.sides}
        slot, out_B = self.rings["y"].take(), out.size_B(count)
        blocks, name = self._blocks(tile), self.product.format
        shared_B = blocks * sums_B(self.spec, self.kernel.tile, name) if self.kernel.splits > 1 else 0
        read_B = {side.name: side.size_B(min(count, side.elements)) for side in self.product.sides}
        read_B[out.name], written_B = shared_B, {out.name: out_B + shared_B}
        after, simple = len(self.node.epilogue), sum(map(is_simple, self.node.epilogue))
        actions = function_actions(self.units, read_B, written_B, count * (after - simple), count * simple)
        work = Cycles(self.end, width=self._width(blocks))
        effect = Effect("epilogue", tile, tuple(sides.items()), out.name, last)
        reads = [(self.sums, "acc"), *((region, "src") for region in (*sides.values(), *self.parameters))]
        writes = [(slot, "whole")]
        layout.builder.emit("Vector", self.queue, self.op, self.node.name, work, effect, reads, writes, actions)
        store = Effect("store", tile, ((out.name, slot),), out.name, last)
        home = layout.places[out.name].home
        assert home is not None
        layout.transfers.store(self.op, slot, home, out.name, out_B, store, PIECE[first, last])

    def _side(self, side: Tensor, count: int, tile: Tile) -> int:
        slot, source = self.rings[side.name].take(), self.homes[side.name]
        effect = Effect("load_side", tile, ((side.name, source),))
        size = side.size_B(min(count, side.elements))
        self.layout.transfers.load(self.op, source, slot, side.name, size, effect, needs=self.launched)
        return slot
