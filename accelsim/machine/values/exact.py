"""The exact value policy: every command does to the contents of the buffers what the hardware does, tile by tile.

A region holds an array: a whole tensor, an operand tile [groups, rows, columns], or the partial sums of a tile
[groups, m, n]. Reading takes the array at the time when the hardware has read it for the last time; the command
computes with what was taken. So a wrong schedule is a wrong number (or a HazardError).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from math import prod

import numpy as np

from accelsim.formats import dot
from accelsim.formats.table import FORMATS
from accelsim.machine.values.batch import part_of_batch, whole_batch
from accelsim.machine.values.epilogue import TileShape, result_matrix, run_epilogue
from accelsim.machine.values.gating import gates_zeros, nonzero_macs, of_node
from accelsim.program.commands import Command, Step, Tile, Use
from accelsim.program.mapping import Mapping
from accelsim.program.program import Program
from accelsim.types import Array
from accelsim.workload.execute import run_node
from accelsim.workload.matrix import a_matrix, b_matrix, y_from_matrix
from accelsim.workload.multiply import entering, multiplies_floats, rounded_to
from accelsim.workload.ops.base import Gemm
from accelsim.workload.ops.product import product
from accelsim.workload.ops.values import contain


class Exact:
    """Value policy 'exact': contents by region. ``_taken``: operands that a running command has read."""

    def __init__(self, program: Program, feeds: dict[str, Array], keep: bool) -> None:
        self._program, self._keep, self._feeds = program, keep, feeds
        self._held: dict[int, Array] = {}
        self._taken: dict[tuple[int, int], Array] = {}
        self._views: dict[tuple[int, int, str, int], tuple[Array, Array]] = {}
        self._results: dict[int, tuple[Array, int]] = {}
        """Region of a result in pieces -> what is there, and how many of its elements."""
        self._noted: dict[tuple[int, int], dict[str, Array]] = {}
        self._tensors: dict[tuple[str, int], Array] = {}
        self._containers: dict[int, type[np.float32] | None] = {}
        self._gating = gates_zeros(program.chip)
        self.nonzero_macs: dict[int, int] = {}
        self.mail: dict[str, Array] = {}
        self._do: dict[str, Callable[[Command], None]] = {
            "copy": self._copy, "load_a": self._load_a, "load_b": self._load_b, "load_side": self._load_side,
            "product": self._product, "epilogue": self._epilogue, "store": self._store, "node": self._node,
            "append": self._append, "send": self._send, "receive": self._receive, "none": lambda command: None,
        }  # fmt: skip

    def read(self, command: Command, use: Use) -> None:
        """Take the operand out of the region."""
        if command.effect.what != "none":
            self._taken[command.id, use.region] = self._at(use.region)

    def _at(self, region: int) -> Array:
        if region not in self._held and region in self._program.presets:
            name, core = self._program.presets[region]
            tensor = self._program.graph.tensors[name]
            value = (
                tensor.value()
                if tensor.is_constant
                else part_of_batch(self._feeds[name], core, self._program.cores, tensor.shape)
            )
            self._held[region] = contain(value, tensor.dtype)
        return self._held.get(region, _NOTHING)

    def forget(self, region: int) -> None:
        """The bytes are being overwritten."""
        self._held.pop(region, None)

    def complete(self, command: Command) -> None:
        """Run the effect of a command."""
        if command.effect.what in TILED and self._program.steps[command.op].node.op in AT_ONCE:
            self._at_once(command)
        else:
            self._do[command.effect.what](command)
        for use in command.reads:
            self._taken.pop((command.id, use.region), None)

    def _operand(self, command: Command, index: int = 0) -> Array:
        return self._taken[command.id, command.effect.operands[index][1]]

    def _tensor(self, command: Command, index: int = 0) -> Array:
        """A whole-tensor operand in the shape that this command knows it by."""
        name = command.effect.operands[index][0]
        return self._operand(command, index).reshape(self._program.graph.tensors[name].shape)

    def _put(self, command: Command, value: Array) -> None:
        self._held[command.writes[0].region] = value

    def _copy(self, command: Command) -> None:
        self._put(command, self._operand(command))

    def _gemm(self, command: Command) -> tuple[Step, Gemm, Tile]:
        step, tile = self._program.steps[command.op], command.effect.tile
        assert step.gemm is not None and tile is not None
        return step, step.gemm, tile

    def _view(self, command: Command, role: str, group: int, source: Array, make: Callable[[], Array]) -> Array:
        """A matrix view of a whole operand, made once per step and core; views of earlier steps are dropped."""
        key = (command.op, command.core, role, group)
        if key not in self._views or self._views[key][0] is not source:
            self._views = {old: view for old, view in self._views.items() if old[0] >= command.op - 1}
            self._views[key] = (source, make())
        return self._views[key][1]

    def _tile(self, command: Command, role: str, source: Array, tile: Tile) -> Array:
        """A tile [groups, rows, columns] of operand 'a' or 'b', in the container in which it is multiplied."""
        step, gemm, _ = self._gemm(command)
        container = self._container(command)
        dtype = self._program.graph.tensors[gemm.a if role == "a" else gemm.b].dtype

        def matrix(group: int) -> Array:
            whole = entering(MATRICES[role](gemm, source, group, step.node), dtype, rounded_to(step.node))
            return whole.astype(container) if container and role == "a" else whole  # A is used once per column tile

        groups = range(tile.g0, tile.g1)
        views = [self._view(command, role, g, source, lambda g=g: matrix(g)) for g in groups]  # type: ignore[misc]
        rows, cols = slice(tile.m0, tile.m1), slice(tile.k0, tile.k1)
        if role == "b":
            rows, cols = slice(tile.k0, tile.k1), slice(tile.n0, tile.n1)
        found = _stack([view[rows, cols] for view in views])
        return found.astype(container, copy=False) if container else found

    def _container(self, command: Command) -> type[np.float32] | None:
        """Return ``_container_of`` the step of a command, worked out once."""
        if command.op not in self._containers:
            self._containers[command.op] = self._container_of(self._program.steps[command.op])
        return self._containers[command.op]

    def _container_of(self, step: Step) -> type[np.float32] | None:
        """float32 where BLAS sums the products of 8-bit operands exactly: |sum| < 2^24 over the K of a tile, all of K
        where no mapping tells it."""
        tensors = self._program.graph.tensors
        assert step.gemm is not None
        names = (step.gemm.a, step.gemm.b)
        if multiplies_floats(step.node.format):
            return None
        rows = [FORMATS[tensors[name].dtype] for name in names]
        narrow = all(row.kind in ("int", "binary") and row.bits <= 8 for row in rows)
        depth = min((step.mapping and step.mapping.depth) or step.gemm.K, step.gemm.K)
        shifted = any(np.any(step.node.attrs.get(f"{operand}_zero_point", 0)) for operand in "ab")
        largest = prod(max(row.high, -row.low) for row in rows)
        return np.float32 if narrow and not shifted and depth * largest < 1 << 24 else None

    def _load_a(self, command: Command) -> None:
        _, _, tile = self._gemm(command)
        self._put(command, self._tile(command, "a", self._whole(command), tile))

    def _load_b(self, command: Command) -> None:
        _, _, tile = self._gemm(command)
        self._put(command, self._tile(command, "b", self._whole(command), tile))

    def _whole(self, command: Command, index: int = 0) -> Array:
        """A whole tensor, always as the same array object as long as it is the same operand."""
        name, _ = command.effect.operands[index]
        value = self._operand(command, index)
        shape = self._program.graph.tensors[name].shape
        if value.shape == shape:
            return value
        return self._view(command, f"shape {name}", 0, value, lambda: value.reshape(shape))

    def _load_side(self, command: Command) -> None:
        self._put(command, self._side_tile(command, 0))

    def _side_tile(self, command: Command, index: int) -> Array:
        """The part of a whole side operand that belongs to a tile of the result."""
        step, gemm, tile = self._gemm(command)
        name, _ = command.effect.operands[index]
        shape = self._program.graph.tensors[step.node.outputs[0]].shape
        source = self._whole(command, index)
        whole = self._view(command, f"side {name}", 0, source, lambda: result_matrix(gemm, source, shape))
        return whole[tile.g0 : tile.g1, tile.m0 : tile.m1, tile.n0 : tile.n1]

    def _product(self, command: Command) -> None:
        step, _, tile = self._gemm(command)
        a, b = self._operand(command, 0), self._operand(command, 1)
        if self._is_whole(command, 0):
            a = self._tile(command, "a", self._whole(command, 0), tile)
        elif a.shape[2] != tile.k1 - tile.k0:  # a slab of all of K
            a = a[:, :, tile.k0 : tile.k1]
        if self._is_whole(command, 1):
            b = self._tile(command, "b", self._whole(command, 1), tile)
        if self._gating:
            self.nonzero_macs[command.op] = self.nonzero_macs.get(command.op, 0) + nonzero_macs(a, b)
        use = command.writes[0]
        before = None if use.role in ("whole", "begin") else self._held[use.region]
        mapping, (_, m, k), n = step.mapping, a.shape, b.shape[2]
        tm, tn, tk = (mapping.tm, mapping.tn, mapping.tk) if isinstance(mapping, Mapping) else (m, n, k)
        if m <= tm and n <= tn and k <= tk:
            self._held[use.region] = self._sum(command, a, b, before)
            return
        rows = list[Array]()
        for top in range(0, m, tm):  # a run of tiles, one after the other
            row = slice(top, top + tm)
            parts = list[Array]()
            for left in range(0, n, tn):
                column = slice(left, left + tn)
                part = None if before is None else before[:, row, column]
                for at in range(0, k, tk):
                    deep = slice(at, at + tk)
                    part = self._sum(command, a[:, row, deep], b[:, deep, column], part)
                assert part is not None
                parts.append(part)
            rows.append(np.concatenate(parts, 2))
        self._held[use.region] = np.concatenate(rows, 1)

    def _sum(self, command: Command, a: Array, b: Array, before: Array | None) -> Array:
        """Return the product of a tile, added to what is there ``before``."""
        node = self._program.steps[command.op].node
        if rule := node.attrs.get("dot", ""):  # what is there enters the sum as the unit's third operand
            found: Array = dot.product(a, b, rule, node.format, c=before)
            return found
        sums: Array = np.matmul(a, b).astype(np.int32) if self._container(command) else product(a, b)
        if before is None:
            return sums
        before += sums
        return before

    def _is_whole(self, command: Command, index: int) -> bool:
        """Return whether the operand is a tensor that lies on the chip as a whole (not a tile in a slot)."""
        region = self._program.regions[command.effect.operands[index][1]]
        return region.name in self._program.graph.tensors

    def _epilogue(self, command: Command) -> None:
        step, gemm, tile = self._gemm(command)
        partial = [self._taken[command.id, use.region] for use in command.reads if use.role == "acc"]
        acc = reduce(np.add, partial)  # of arrays that share a reduction, in their order
        sides = {
            name: self._side_tile(command, index) if self._is_whole(command, index) else self._operand(command, index)
            for index, (name, _) in enumerate(command.effect.operands)
        }
        sums = self._program.graph.tensors[step.node.outputs[0]].shape
        shape = TileShape.of_product(gemm, tile, sums, step.node)
        result = run_epilogue(step.node, self._program.graph, shape, acc, sides)
        self._deposit(command, result)

    def _deposit(self, command: Command, piece: Array) -> None:
        """Write a result tile into (a part of) the result; with the last one it becomes a tensor."""
        use = command.writes[0]
        name = command.effect.tensor
        region = self._program.regions[use.region]
        if region.name != name:  # a slot on its way out
            self._held[use.region] = piece
            return
        _, gemm, tile = self._gemm(command)
        out = self._program.graph.tensors[name]
        rows = out.elements // (gemm.groups * gemm.N)  # not M behind a pooling, which takes whole images
        before = self._results.pop(use.region, None)
        whole, there = before or (np.empty((gemm.groups, rows, gemm.N), piece.dtype), 0)
        first = tile.m0 * rows // gemm.M
        whole[tile.g0 : tile.g1, first : first + piece.shape[1], tile.n0 : tile.n1] = piece
        if there + piece.size < whole.size:  # any core may write the last piece
            self._results[use.region] = whole, there + piece.size
            return
        self._held[use.region] = y_from_matrix(gemm, whole, out.shape)
        self._remember(command, name, self._held[use.region])

    def _store(self, command: Command) -> None:
        self._deposit(command, self._operand(command))

    def _node(self, command: Command) -> None:
        step, graph = self._program.steps[command.op], self._program.graph
        values = {name: self._tensor(command, index) for index, (name, _) in enumerate(command.effect.operands)}
        results = run_node(step.node, graph, values)
        for use, name, result in zip(command.writes, step.node.writes, results, strict=True):
            self._held[use.region] = result
            self._remember(command, name, result)

    def _at_once(self, command: Command) -> None:
        """A tile of a node whose weights values choose: it holds nothing, and with the last one the node is computed
        from the whole operands that its commands have read.
        """
        step, graph = self._program.steps[command.op], self._program.graph
        noted = self._noted.setdefault((command.op, command.core), {})
        for index, (name, _) in enumerate(command.effect.operands):
            if self._is_whole(command, index):
                noted[name] = self._tensor(command, index)
        for use in command.writes:
            self._held[use.region] = _NOTHING
            if self._program.regions[use.region].name in step.node.writes and use.role in ("whole", "end"):
                (self._held[use.region],) = run_node(step.node, graph, noted)
                self._remember(command, step.node.writes[0], self._held[use.region])
                if self._gating:
                    count = self._nonzero(step, noted)
                    self.nonzero_macs[command.op] = self.nonzero_macs.get(command.op, 0) + count
                del self._noted[command.op, command.core]

    def _nonzero(self, step: Step, noted: dict[str, Array]) -> int:
        tensors, names = self._program.graph.tensors, step.node.inputs
        a, b = (entering(noted[name], tensors[name].dtype, step.node.format) for name in names[:2])
        return of_node(step.node, self._program.graph, [a, b, *(noted[name] for name in names[2:])])

    def _append(self, command: Command) -> None:
        """The state with new rows, where it lies: nobody else may read what it was."""
        step, region = self._program.steps[command.op], command.writes[0].region
        past, new = step.node.inputs
        shape = self._program.graph.tensors[past].shape
        values = {past: self._at(region).reshape(shape), new: self._tensor(command)}
        (result,) = run_node(step.node, self._program.graph, values)
        self._held[region] = result
        self._remember(command, step.node.writes[0], result)

    def _send(self, command: Command) -> None:
        self.mail[command.effect.tensor] = self._tensor(command)

    def _receive(self, command: Command) -> None:
        self._put(command, self.mail.pop(command.effect.tensor))

    def _remember(self, command: Command, name: str, value: Array) -> None:
        if self._keep:
            self._tensors[name, command.core] = value.reshape(self._program.graph.tensors[name].shape)

    def outputs(self) -> dict[str, Array]:
        """Graph outputs by name, from the memory of the host; the cores' parts of the batch put together."""
        tensors = self._program.graph.tensors
        return {
            name: whole_batch([self._at(region).reshape(tensors[name].shape) for region in regions])
            for name, regions in self._program.results.items()
        }

    def kept(self) -> dict[str, Array]:
        """Every tensor that existed in a memory, when asked to keep them."""
        if not self._keep:
            return {}
        names = dict.fromkeys(name for name, _ in self._tensors)
        cores = range(self._program.cores)
        return {name: whole_batch([self._tensors[name, core] for core in cores]) for name in names} | self.outputs()


AT_ONCE = frozenset({"ExpertMatMul"})
"""Matrix ops whose tiles carry no values: which weights a row meets is known from values alone."""

TILED = frozenset({"load_a", "load_b", "load_side", "product", "epilogue", "store"})
"""Commands on tiles."""

MATRICES = {"a": a_matrix, "b": b_matrix}
"""Matrix views of the operands."""

_NOTHING = np.empty(0, np.float32)


def _stack(tiles: list[Array]) -> Array:
    return tiles[0][np.newaxis] if len(tiles) == 1 else np.stack(tiles)
