"""Work and ledger entries of the tiles of one matrix step. Tiles of one shape cost the same, so each is made once; in
steps that are alike only the names of the tensors differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import product
from typing import Any, NamedTuple

from accelsim.engines.systolic.actions import Product, product_actions
from accelsim.engines.systolic.mapping.tilings import Candidates, fetches
from accelsim.engines.systolic.merging import sizes
from accelsim.engines.systolic.pace import ADDING, b_elements, folds, pace_of
from accelsim.program.actions import READ, WRITE, Action, ActionName, op
from accelsim.program.commands import Tile
from accelsim.program.mapping import Mapping
from accelsim.program.roles import Roles
from accelsim.program.tiles import kept, sparsity
from accelsim.program.work import Cycles, Folds
from accelsim.program.writing.entries import nbytes
from accelsim.workload.graph import Node, Tensor
from accelsim.workload.limits import check_commands
from accelsim.workload.ops.base import Gemm

Actions = tuple[Action, ...]
ProductKey = tuple[int, int, int, int, bool, int]
"""Groups, rows, columns and words of the reduction of a tile, whether it opens its sums, the array."""
Results = tuple[tuple[int, int, int], ...]
"""(sums, bytes of the result, how often) of tiles of the result."""


@dataclass
class TileCosts:
    """Costs of one step; ``b_on_chip``: the stationary operand is read from the buffer of the activations; ``arrays``
    stream side by side.

    ``alike``: what all steps on the same core share, by ``_likeness`` and tile.
    """

    roles: Roles
    dtype: str
    node: Node
    gemm: Gemm
    tensors: dict[str, Tensor]
    b_on_chip: bool
    alike: dict[Hashable, Any]
    mapping: Mapping
    arrays: int = 1
    _weights: dict[tuple[int, int, int], int] = field(default_factory=dict)
    _products: dict[ProductKey, tuple[Folds, Actions]] = field(default_factory=dict)
    _epilogues: dict[tuple[Results, tuple[str, ...], int], tuple[Cycles, Actions]] = field(default_factory=dict)

    def weights_B(self, tile: Tile) -> int:
        """Bytes that a run of tiles loads of the stationary operand, each tile counted once."""
        key = (tile.g1 - tile.g0, tile.n1 - tile.n0, tile.k1 - tile.k0)
        if key not in self._weights:
            b, mapping = self.tensors[self.gemm.b], self.mapping
            each = product(*map(sizes, key, (mapping.tg, mapping.tn, mapping.tk)))
            self._weights[key] = sum(
                b.size_B(int(b_elements(self.roles.matrix, tg, tn, tk))) * g * n * k
                for (tg, g), (tn, n), (tk, k) in each
            )
        return self._weights[key]

    def product(self, tile: Tile, first: bool, array: int = 0) -> tuple[Folds, Actions]:
        """Array work and ledger entries of a MatMul; ``first``: it writes its sums, others add to them."""
        key = (tile.g1 - tile.g0, tile.m1 - tile.m0, tile.n1 - tile.n0, tile.k1 - tile.k0, first, array)
        if key not in self._products:
            self._products[key] = self._named(tile, key)
        return self._products[key]

    @cached_property
    def _likeness(self) -> Hashable:
        a, b = self.tensors[self.gemm.a], self.tensors[self.gemm.b]
        formats = (a.memory_format, a.element_B, b.memory_format, b.element_B)
        return (self.dtype, sparsity(self.node), self.b_on_chip, self.arrays, *formats)

    def _named(self, tile: Tile, key: ProductKey) -> tuple[Folds, Actions]:
        """The product of a tile as in steps that are alike, with the tensors of this one."""
        *extents, first, array = key
        mapping = self.mapping
        each = list(product(*map(sizes, extents, (mapping.tg, mapping.tm, mapping.tn, mapping.tk))))
        if len(each) == 1 and all(often == 1 for _, often in each[0]):
            work, entries = self._nameless(key)
        else:
            work, entries = self._run(each, first, array)
        names = {"": "", "a": self.gemm.a, "b": self.gemm.b, "y": self.node.writes[0]}
        return work, tuple([Action(unit, action, names[of], count) for unit, action, of, count in entries])

    def _nameless(self, key: ProductKey) -> tuple[Folds, Actions]:
        """Work and entries with operands 'a' and 'b' and the result 'y', as in steps that are alike."""
        nameless = (self._likeness, key)
        if nameless not in self.alike:
            self.alike[nameless] = self._product(key)
        found: tuple[Folds, Actions] = self.alike[nameless]
        return found

    def _run(self, each: list[tuple[tuple[int, int], ...]], first: bool, array: int) -> tuple[Folds, Actions]:
        """Work and entries of all tiles of a run, given as (extent, how often) along each axis."""
        found = list[tuple[Folds, Actions, int]]()
        for (tg, g), (tm, m), (tn, n), (tk, k) in each:
            opening = g * m * n * (first and tk == each[0][3][0])
            for opens, often in ((True, opening), (False, g * m * n * k - opening)):
                found.append((*self._nameless((tg, tm, tn, tk, opens, array)), often))
        counts = Counter[tuple[str, ActionName, str]]()
        for _, actions, often in found:
            for unit, action, name, count in actions:
                counts[unit, action, name] += count * often
        count_of_folds = sum(work.n * often for work, _, often in found)
        rows = round(sum(work.rows * work.n * often for work, _, often in found) / count_of_folds)
        held = round(sum(work.held * work.n * often for work, _, often in found) / count_of_folds)
        entries = tuple(Action(*key, count) for key, count in counts.items() if count)
        return found[0][0]._replace(n=count_of_folds, rows=rows, held=held), entries

    def _product(self, key: ProductKey) -> tuple[Folds, Actions]:
        """Work and entries of one tile."""
        roles, gemm, tensors = self.roles, self.gemm, self.tensors
        a, b = replace(tensors[gemm.a], name="a"), replace(tensors[gemm.b], name="b")
        streamed = {"a": a, "b": b}[roles.matrix.flow.at_rows].memory_format
        groups, tm, tn, tk, first, array = key
        sparse = sparsity(self.node)
        pace = pace_of(roles, self.dtype, streamed, self.arrays)
        work = folds(roles.matrix, groups, tm, tn, kept(sparse, tk), pace)
        b_from = roles.activations if self.b_on_chip else roles.weights
        operands = Product(self.dtype, sparse, a, b, "y", b_from, roles.arrays[array])
        return work, tuple(product_actions(roles, operands, Tile(0, groups, 0, tm, 0, tn, 0, tk), first))

    def epilogue(self, results: Results, sides: Sequence[str], partial: int = 1) -> tuple[Cycles, Actions]:
        """Clocks and ledger entries of the Vector command that finishes these tiles of sums and reads ``sides``.

        ``partial``: parts that each sum comes in, which are added first.
        """
        key = (results, tuple(sides), partial)
        if key not in self._epilogues:
            self._epilogues[key] = self._epilogue(*key)
        return self._epilogues[key]

    def _epilogue(self, results: Results, sides: tuple[str, ...], partial: int) -> tuple[Cycles, Actions]:
        roles, out = self.roles, self.node.writes[0]
        accumulate, unit = roles.matrix.formats[self.dtype].accumulate, roles.functions_behind(self.node)
        clocks = all_sums_B = all_out_B = operations = 0
        for sums, out_B, often in results:
            sums_B = nbytes(accumulate, partial * sums)
            functions = [(ADDING, sums)] * (partial - 1) + [(part.op, sums) for part in self.node.epilogue]
            each = unit.spec.command_clocks(roles.chip, functions, sums_B, out_B, roles.sums, roles.activations)
            clocks, operations = clocks + often * each, operations + often * sums * len(functions)
            all_sums_B, all_out_B = all_sums_B + often * sums_B, all_out_B + often * out_B
        buffer = roles.engine(roles.activations)
        entries = [
            Action(roles.engine(roles.sums), READ, out, all_sums_B),
            Action(buffer, WRITE, out, all_out_B),
            *(
                Action(buffer, READ, name, sum(self.side_B(name, sums) * often for sums, _, often in results))
                for name in sides
            ),
            Action(roles.engine(unit.name), op("fp32"), "", operations),
        ]
        return Cycles(clocks), tuple(entry for entry in entries if entry.count)

    def side_B(self, name: str, sums: int) -> int:
        """Bytes of a side operand under a tile; one that broadcasts has fewer elements than the tile."""
        tensor = self.tensors[name]
        return tensor.size_B(min(sums, tensor.elements))


ADVICE = "a larger array, larger buffers, a smaller batch or model"


class StreamedData(NamedTuple):
    """Data of a matrix step that moves tile by tile: operands, ``sides`` (number of side operands), and ``writes``:
    commands that take a result tile out of the accumulators; ``arrays`` run side by side."""

    a: bool
    b: bool
    sides: int
    writes: int
    arrays: int


def matrix_commands(gemm: Gemm, mapping: Mapping, streams: StreamedData) -> int:
    """Commands of all tiles of a mapping: loads, products, vector functions, stores. Counted once for alike steps,
    whatever the names of their operands."""
    return _matrix_commands(replace(gemm, a="", b=""), mapping, streams)


@lru_cache(maxsize=4096)
def _matrix_commands(gemm: Gemm, mapping: Mapping, streams: StreamedData) -> int:
    tiles = Candidates.from_mapping(mapping, streams.arrays)
    m, n, k, groups = (
        -(-extent // tile)
        for extent, tile in (
            (gemm.M, mapping.tm),
            (gemm.N, mapping.tn),
            (gemm.K, mapping.tk),
            (gemm.groups, mapping.tg),
        )
    )
    a, b = (int(passes[0]) for passes in fetches(gemm, tiles, mapping.reuse))
    loads_a = a * m * (1 if mapping.a_whole_k else k) if streams.a else 0
    loads_b = b * n * k if streams.b else 0
    return groups * (m * n * k + loads_a + loads_b + m * n * (streams.writes + streams.sides))


def check_matrix(name: str, mapping: Mapping, commands: int, before: int) -> None:
    """Raise TooLarge when a matrix step makes a program of ``before`` commands longer than the limits allow."""
    tiles = "x".join(str(extent) for extent in (mapping.tg, mapping.tm, mapping.tn, mapping.tk))
    check_commands(f"{name} in tiles of {tiles} (groups x M x N x K)", commands, before, ADVICE)
