"""Lowering of one matrix step: the tiles of its mapping become Load, MatMul, Vector and Store commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod

from accelsim.engines.systolic.merging import A_AXES, B_AXES, MOST, passes, pieces, sizes, tiles_along
from accelsim.engines.systolic.placing import PlacedStep
from accelsim.engines.systolic.tile_costs import Results
from accelsim.program.commands import Effect, Tile, record
from accelsim.program.tiles import Exec, a_elements, a_key, array_of, b_key, loop, whole
from accelsim.program.writing.builder import PIECE


@dataclass
class Held:
    """Tiles of an operand that are on the chip, key -> region: those of this strip of arrays, and of the one before.
    ``passing``: nothing stays from strip to strip."""

    passing: bool = False
    now: dict[tuple[int, ...], int] = field(default_factory=dict)
    before: dict[tuple[int, ...], int] = field(default_factory=dict)

    def turn(self) -> None:
        """Begin a new strip of arrays: tiles of the strip before can still be found."""
        self.now, self.before = {}, {} if self.passing else self.now

    def find(self, key: tuple[int, ...]) -> int | None:
        """Return where a tile lies, None when it must be loaded."""
        return self.now.get(key, self.before.get(key))


@dataclass
class MatrixStep(PlacedStep):
    """One matrix node while its commands are written."""

    def lower(self) -> None:
        """Emit all commands. Raises Infeasible when the tiles do not fit."""
        self._prepare()
        most = Tile(0, self.runs.tg, 0, self.runs.tm, 0, self.runs.tn, 0, self.runs.tk)
        along = tiles_along(most, self.mapping)
        a_held = Held(any(along[axis] > 1 for axis in self._a_axes))
        b_held = Held(any(along[axis] > 1 for axis in B_AXES))
        sums: dict[tuple[int, int, int], list[int]] = {}
        for step in loop(self.tiles, self.runs, self.arrays):
            tile = step.tile
            array = array_of(tile, self.runs, self.arrays, self.tiles) if self.arrays > 1 else 0
            if not array:
                a_held.turn()
                b_held.turn()
            b = self._held(b_held, b_key(tile), tile, self._b)
            a = self._held(a_held, a_key(tile, self.mapping), tile, self._a)
            slots = sums.setdefault((tile.g0, tile.m0, tile.n0), [])
            if step.first:
                slots.append(self.rings["sums"].take())
            self._product(step, array, a, b, slots[array if self.mapping.split == "k" else 0])
            if tile.k1 == self.tiles.k1:
                self._finish(tile, sums.pop((tile.g0, tile.m0, tile.n0)))
        for buffer, regions in self.taken:
            self.layout.release(buffer, regions)

    @property
    def note(self) -> str:
        """Note for the user that runs of tiles share a command, '' if none do."""
        if self.runs is self.mapping:
            return ""
        each, runs = (prod(tiles_along(whole(self.seen), tiles).values()) for tiles in (self.mapping, self.runs))
        alike, gemm = self._alike, self.gemm
        layers = f"{alike} products of {gemm.M} x {gemm.N} x {gemm.K}"
        return (
            f"{self.node.name if alike == 1 else layers}: up to {-(-each // runs):,} alike tiles are one command, "
            f"as all {alike * each:,} tiles would take more than {MOST:,} commands"
        )

    @property
    def _a_axes(self) -> str:
        return "gm" if self.mapping.a_whole_k else A_AXES

    def _held(self, held: Held, key: tuple[int, ...], tile: Tile, load: Callable[[Tile], int]) -> int:
        region = held.find(key) if self.mapping.reuse else None
        held.now[key] = load(tile) if region is None else region
        return held.now[key]

    def _passes(self, tile: Tile, axes: str) -> int:
        return 1 if self.runs is self.mapping else passes(tiles_along(tile, self.mapping), self.mapping, axes)

    def _a_B(self, tile: Tile) -> int:
        """Bytes of the activation tiles of a run, of each once."""
        gemm, mapping, size_B = self.gemm, self.mapping, self._tensor(self.gemm.a).size_B
        k0, k1 = (0, gemm.K) if mapping.a_whole_k else (tile.k0, tile.k1)
        if self.runs is mapping:
            return size_B(a_elements(gemm, tile.g1 - tile.g0, tile.m0, tile.m1, k0, k1))
        along_m = pieces(tile.m0, tile.m1, mapping.tm)
        along_k = pieces(k0, k1, gemm.K if mapping.a_whole_k else mapping.tk)
        words = Counter(a_elements(gemm, 1, *m, *k) for m, k in product(along_m, along_k))
        groups = sizes(tile.g1 - tile.g0, mapping.tg)
        return sum(size_B(tg * each) * n * often for (tg, n), (each, often) in product(groups, words.items()))

    def _a(self, tile: Tile) -> int:
        if self.a_to_fetch:  # not before: the weights need not wait in its queue until somebody has made it
            self.a_to_fetch = False
            self.layout.fetch(self.op, self.gemm.a)
        if self._on_chip(self.a_region):
            return self.a_region
        times = self._passes(tile, self._a_axes)
        k = (0, self.gemm.K) if self.mapping.a_whole_k else (tile.k0, tile.k1)
        effect = record(Effect, ("load_a", record(Tile, (*tile[:6], *k)), ((self.gemm.a, self.a_region),), "", False))
        return self._load_tile("tiles", self.a_region, self.gemm.a, self._a_B(tile), effect, times)

    def _b(self, tile: Tile) -> int:
        if self._on_chip(self.b_region):
            return self.b_region
        size = self.costs.weights_B(tile)
        operands = ((self.gemm.b, self.b_region), *self.chosen.items())
        effect = record(Effect, ("load_b", tile, operands, "", False))
        times = self._passes(tile, B_AXES)
        return self._load_tile("weights", self.b_region, self.gemm.b, size, effect, times)

    def _load_tile(self, ring: str, source: int, tensor: str, size: int, effect: Effect, times: int = 1) -> int:
        slot, needs = self.rings[ring].take(), [region for _, region in effect.operands[1:]]
        self.layout.transfers.load(self.op, source, slot, tensor, size * times, effect, needs=needs, times=times)
        return slot

    def _product(self, step: Exec, array: int, a: int, b: int, acc: int) -> None:
        tile, (role_a, role_b) = step.tile, self._operand_roles
        work, actions = self.costs.product(tile, step.first, array)
        effect = record(Effect, ("product", tile, ((self.gemm.a, a), (self.gemm.b, b)), "", False))
        sources, sums = [(b, role_b), (a, role_a)], [(acc, PIECE[step.first, step.last])]
        queue = self.layout.roles.arrays[array]
        self.layout.builder.emit("MatMul", queue, self.op, self.node.name, work, effect, sources, sums, actions)

    @cached_property
    def _operand_roles(self) -> tuple[str, str]:
        a, b = self.layout.roles.matrix.flow.a_and_b("a", "w")
        return a, b

    def _finish(self, tile: Tile, sums: list[int]) -> None:
        """The sums of a tile are complete: through the vector unit into a buffer, or straight out.

        ``sums``: their slots, several where arrays shared the reduction.
        """
        layout, roles = self.layout, self.layout.roles
        role, last = self._piece(tile)
        place, sides = layout.places[self.out.name], tuple(self.sides.items())
        if roles.matrix.epilogue:
            sides = tuple([(name, self._side(name, region, tile)) for name, region in sides])
        effect = record(Effect, ("epilogue", tile, sides, self.out.name, last))
        out_B = sum([size_B * often for _, size_B, often in self._results(tile)])
        if not roles.matrix.epilogue:
            assert place.home is not None
            (acc,) = sums
            layout.transfers.store(self.op, acc, place.home, self.out.name, out_B, effect, role)
            return
        if place.chip is not None:
            self._vector(tile, sums, place.chip, role, effect)
            return
        assert place.home is not None
        slot = self.rings["results"].take()
        self._vector(tile, sums, slot, "whole", effect)
        store = record(Effect, ("store", tile, ((self.out.name, slot),), self.out.name, last))
        layout.transfers.store(self.op, slot, place.home, self.out.name, out_B, store, role)

    @property
    def _out_rows(self) -> int:
        return self.out.elements // (self.gemm.groups * self.gemm.N)

    def _results(self, tile: Tile) -> Results:
        """Return the tiles of the result in a run."""
        extents = (tile.g1 - tile.g0, tile.m1 - tile.m0, tile.n1 - tile.n0)
        if extents not in self._result_tiles:
            mapping, rows, all_rows = self.mapping, self._out_rows, self.gemm.M
            each = product(*map(sizes, extents, (mapping.tg, mapping.tm, mapping.tn)))
            self._result_tiles[extents] = tuple(
                (tg * tm * tn, self.out.size_B(tg * (tm * rows // all_rows) * tn), g * m * n)
                for (tg, g), (tm, m), (tn, n) in each
            )
        return self._result_tiles[extents]

    def _piece(self, tile: Tile) -> tuple[str, bool]:
        """Return whether this tile begins or ends the result, and is the last one."""
        result = self.result
        first = result.written == 0
        result.written += (tile.g1 - tile.g0) * (tile.m1 - tile.m0) * (tile.n1 - tile.n0)
        last = result.written == self.gemm.groups * self.gemm.M * self.gemm.N
        return PIECE[first, last], last

    def _side(self, name: str, region: int, tile: Tile) -> int:
        if self._on_chip(region):
            return region
        effect = record(Effect, ("load_side", tile, ((name, region),), "", False))
        size = sum([self.costs.side_B(name, sums) * often for sums, _, often in self._results(tile)])
        return self._load_tile(f"side {name}", region, name, size, effect)

    def _vector(self, tile: Tile, sums: list[int], target: int, role: str, effect: Effect) -> None:
        work, actions = self.costs.epilogue(self._results(tile), tuple(self.sides), len(sums))
        reads = [(acc, "acc") for acc in sums] + [(region, "src") for _, region in effect.operands]
        if self.parameter_region >= 0:
            reads.append((self.parameter_region, "src"))
        queue, writes = self._functions, [(target, role)]
        self.layout.builder.emit("Vector", queue, self.op, self.node.name, work, effect, reads, writes, actions)

    @cached_property
    def _functions(self) -> str:
        roles = self.layout.roles
        return roles.engine(roles.functions_behind(self.node).name)
