"""Search for the mapping of one matrix step: thousands of tilings, scored by the closed form, the best that fits."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from collections.abc import Mapping as Fields
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from accelsim.engines.base import Lowering, Mapped
from accelsim.engines.systolic.lower import MatrixStep
from accelsim.engines.systolic.mapping.estimate import Estimator
from accelsim.engines.systolic.mapping.fitting import Fitted, Fitting, Need, Room, whole_operands
from accelsim.engines.systolic.mapping.shape import Homes, Shape
from accelsim.engines.systolic.mapping.tilings import Candidates
from accelsim.engines.systolic.pace import ADDING, Pace, cycles_per_row
from accelsim.errors import Infeasible
from accelsim.program.mapping import ORDERS, SPLITS, Mapping, Split
from accelsim.program.roles import function_unit
from accelsim.program.tiles import packs, sparsity
from accelsim.types import Ints
from accelsim.workload.graph import FORMAT_BYTES
from accelsim.workload.nodes import gemm_view
from accelsim.workload.ops.base import Gemm, find

CLOSE = 1.005
"""Candidates up to this factor slower than the fastest count as equally fast; among them the least traffic wins."""

LATE = 1.03
"""Of these, candidates whose estimate alone is later than the earliest by more than this factor do not count.

Chosen by hand, not derived. With 1.005 the last layer of MLP0 on TPU v1 was cut into tiles of 64 rows, not 200: an
estimate 2.8 % earlier, a run 0.1 % slower, and 28.3 % of weight shift where Table 3 of the TPU paper has 19.3 %.
"""


MOST_ROW_TILES = 1 << 20
"""Tiles along M that the search considers at the most: what a convolution reads is counted tile by tile."""


class Choice(NamedTuple):
    """The best mapping, its estimate (clocks of the array), what binds it, and how many were scored."""

    mapping: Mapping
    clocks: float
    binds: str
    scored: int


class Searched(NamedTuple):
    """A search that was made: its result, the rooms it had, and the rooms from which on more changes nothing, bytes."""

    choice: Choice
    rooms: list[int]
    needs: list[int]

    def holds_for(self, rooms: list[int]) -> bool:
        """Whether the same search with other rooms has the same result."""
        pairs = zip(self.rooms, rooms, self.needs, strict=True)
        return all(then == now or min(then, now) >= need for then, now, need in pairs)


class _Scored(NamedTuple):
    score: float
    offchip_B: float
    tiles: int
    mapping: Mapping
    clocks: float
    binds: str


@dataclass(frozen=True)
class _Option:
    """One residency choice: what is on the chip as a whole, and the room that this leaves for tiles."""

    a_resident: bool
    y_resident: bool
    room: Room


def lower_product(step: Lowering, gemm: Gemm, choice: Choice | None = None) -> Mapped:
    """The commands of a product by its best mapping, which may be known. Raises Infeasible when nothing fits, whatever
    makes room."""
    choice = choice or choose_with_room(step, gemm)
    dtype = step.node.format or step.dtype
    MatrixStep(step.layout, step.index, step.node, gemm, choice.mapping, dtype, binds=choice.binds).lower()
    return Mapped(gemm, choice.mapping, choice.binds, choice.scored)


def choose_with_room(step: Lowering, gemm: Gemm) -> Choice:
    """The best mapping. Where nothing fits, tensors that wait on the chip for later steps make room, then the operands.

    Raises Infeasible when not even that helps.
    """
    while True:
        try:
            return choose(step, gemm)
        except Infeasible:
            if not (step.layout.spill(step.index, step.node.reads) or step.layout.spill(step.index, ())):
                raise


def choose(step: Lowering, gemm: Gemm) -> Choice:
    """The best mapping of a step where things lie now; what the user pinned is kept.

    Steps that are alike are searched once. Raises Infeasible (the buffer, needed and available bytes of the smallest
    tile) when nothing fits.
    """
    search = _Search(step, gemm)
    entries: list[Searched] = step.memo.setdefault(search.likeness(), [])
    rooms = search.rooms()
    for entry in entries:
        if entry.holds_for(rooms):
            return entry.choice
    entries.append(Searched(search.best(), rooms, search.needs()))
    return entries[-1].choice


class _Search:
    def __init__(self, step: Lowering, gemm: Gemm) -> None:
        layout, node, pinned = step.layout, step.node, step.pinned
        self._layout, self._node, self._gemm, self._pinned = layout, node, gemm, pinned
        self._nameless = replace(gemm, a="", b="")
        self._whole = gemm_view(layout.graph, node) or gemm
        self._roles, self._tensors = layout.roles, layout.graph.tensors
        self._vector = function_unit(layout.roles.chip, [part.op for part in node.epilogue])
        self._estimator = Estimator(layout.roles, self._vector.spec if self._vector else None, step.sharing)
        self._sharing = step.sharing
        self._out = self._tensors[node.writes[0]]
        self._b_streamed = self._tensors[gemm.b].is_constant or not self._resident_b()
        self._sides = {resident: self._streamed_sides(resident) for resident in (False, True)}
        self._shapes = self._described(node.format or step.dtype)
        self._fitting = Fitting(layout, gemm, self._b_streamed, pinned)
        self._misfits: list[Need] = []
        self._too_large: list[Need] = []
        self._choices = list(self._options())
        self._needs = dict.fromkeys(range(len(self._choices)), 0)

    def likeness(self) -> Hashable:
        """Everything that the best mapping depends on, but for the room in the buffer of the activations."""
        shapes, sides = tuple(self._shapes.values()), tuple(len(names) for names in self._sides.values())
        free = self._fitting.others()
        flags = tuple((option.a_resident, option.y_resident) for option in self._choices)
        pooled, pinned = self._image_rows(False), tuple(sorted(self._pinned.items()))
        return shapes, sides, free, flags, pooled, self._homes(), pinned, self._sharing

    def rooms(self) -> list[int]:
        """Room for tiles in each residency choice, bytes."""
        return [option.room.tiles_B for option in self._choices]

    def needs(self) -> list[int]:
        """Room with which no candidate would have been refused, in each residency choice."""
        return [self._needs[index] for index in range(len(self._choices))]

    def _resident_b(self) -> bool:
        return self._layout.place(self._gemm.b).chip is not None

    def _described(self, dtype: str) -> dict[bool, Shape]:
        """The step with its activations streamed, and with them on the chip; mostly these are the same."""
        streamed = self._describe(dtype, False)
        return {
            False: streamed,
            True: streamed if self._sides[True] == self._sides[False] else self._describe(dtype, True),
        }

    def _describe(self, dtype: str, a_resident: bool) -> Shape:
        gemm, node, layout, whole = self._nameless, self._node, self._layout, self._whole
        unit, vector = self._roles.matrix, self._vector
        one, all_ = (self._pace(dtype, arrays) for arrays in (1, unit.count))
        a, b, out = self._tensors[self._gemm.a], self._tensors[self._gemm.b], self._out
        sides = [name for name in self._sides[a_resident] if not self._tensors[name].is_constant]
        return Shape(
            gemm=gemm, a_B=a.element_B, b_B=b.element_B, y_B=out.element_B,
            sum_B=FORMAT_BYTES[unit.formats[dtype].accumulate],
            cycles_per_row=one, together=all_, adding=vector.spec.functions.get(ADDING, 1) if vector else 0,
            results_share=out.elements / (whole.groups * whole.M * whole.N),
            functions=tuple(vector.spec.functions.get(part.op, 1) for part in node.epilogue) if vector else (),
            results_pass=vector.name if vector else "",
            sides=len(sides), side_B=sum(self._tensors[name].element_B for name in sides),
            parameters_B=sum(self._tensors[name].nbytes for name in layout.epilogue_reads(node).parameters),
            b_streamed=self._b_streamed,
            reuse=bool(self._pinned.get("reuse", True)),
            w_slots=self._weight_slots(),
            sparse=sparsity(node),
            sum_slots=self._roles.fixed_slots(self._roles.sums) or 1 << 30,
        )  # fmt: skip

    def _pace(self, dtype: str, arrays: int) -> Pace:
        """Cycles per row of each of so many arrays that stream at once."""
        streamed = self._gemm.b if self._roles.matrix.dataflow == "is" else self._gemm.a
        return cycles_per_row(self._roles, dtype, self._tensors[streamed].memory_format, arrays)

    def _weight_slots(self) -> int:
        """Weight tiles in flight."""
        if self._roles.fixed_slots(self._roles.weights) is not None:
            return self._layout.slot_shape(self._roles.weights)[1]
        return int(self._pinned.get("w_slots", 2))

    def _streamed_sides(self, a_resident: bool) -> list[str]:
        """Side operands that are not on the chip when the step starts."""
        layout = self._layout
        names = layout.epilogue_reads(self._node).sides
        missing = [name for name in names if layout.place(name).chip is None]
        return [name for name in missing if name != self._gemm.a or not a_resident]

    def best(self) -> Choice:
        """Score every option and keep the fastest; among the equally fast the one that moves least."""
        self._refuse_torn_images()
        found: list[_Scored] = []
        scored = 0
        for index, option in enumerate(self._choices):
            for candidates in self._candidates(option):
                scored += len(candidates)
                fitted = self._fitted(candidates, index)
                if len(fitted.kept):
                    found.append(self._score(fitted.kept))
        if not found:
            raise self._infeasible()
        best = _best(found)
        alone = [entry for entry in found if entry.mapping.split == "none"]
        if (
            alone and best.mapping.split != "none"
        ):  # several arrays only where they are done before one would be
            best = min(best, _best(alone), key=lambda entry: entry.clocks)
        return Choice(best.mapping, best.clocks, best.binds, scored)

    def _infeasible(self) -> Infeasible:
        """The least that is missing; the pinned fields where it is them that rule everything out."""
        smallest = self._image_rows(self._gemm.conv is not None)
        if -(-self._gemm.M // smallest) > MOST_ROW_TILES and "tm" not in self._pinned:
            why = f"no tiling of {MOST_ROW_TILES:,} tiles or fewer along M fits the buffers"
            return Infeasible(self._node.name, self._roles.activations, 0, 0, f"M {self._gemm.M:,}", why)
        for needs in (self._misfits, self._too_large):
            if needs:
                return min(needs, key=lambda need: need.missing_B).error(self._node.name, self._pinned)
        pinned = ", ".join(f"{name}={value}" for name, value in self._pinned.items())
        return Infeasible(
            self._node.name, self._roles.sums, 0, 0, pinned, "no mapping of this chip has all pinned fields"
        )

    def _refuse_torn_images(self) -> None:
        """A fused pooling needs whole images, so a pinned tm must hold them. Raises Infeasible otherwise."""
        image, tm = self._image_rows(False), int(self._pinned.get("tm", self._gemm.M))
        if tm < self._gemm.M and tm % image:
            why = f"tm {tm} is no multiple of {image}, the positions of an image that the fused pooling needs"
            raise Infeasible(self._node.name, self._roles.sums, 0, 0, f"tm {tm}", why)

    def _options(self) -> Iterator[_Option]:
        """Residency choices that are open, best first: the result on the chip if it fits and is read there."""
        roles, layout, gemm = self._roles, self._layout, self._gemm
        space = layout.spaces[roles.activations]
        if roles.fixed_slots(roles.activations) is not None:
            yield _Option(False, False, Room(space.room_after([]) or 0))
            return
        place, a_B = layout.place(gemm.a), self._tensors[gemm.a].nbytes
        a_choices = [True] if place.chip is not None and "a_resident" not in self._pinned else [True, False]
        useful = "y_resident" in self._pinned or not layout.only_leaves(self._out.name)
        y_choices = [True, False] if roles.matrix.epilogue and useful else [False]
        for y_resident, a_resident in product(y_choices, a_choices):
            if self._pinned.get("a_resident", a_resident) != a_resident:
                continue
            if self._pinned.get("y_resident", y_resident) != y_resident:
                continue
            sizes = [a_B] if a_resident and place.chip is None else []
            sizes += [self._out.nbytes] if y_resident else []
            free_B, room = space.free_B(), space.room_after(sizes)
            if room is None:
                self._too_large.append(whole_operands(roles.activations, sum(sizes), free_B))
            else:
                yield _Option(a_resident, y_resident, Room(room, free_B - room))

    def _candidates(self, option: _Option) -> Iterator[Candidates]:
        """All tilings of all loop orders for one residency choice."""
        gemm = self._gemm
        conv_slab = gemm.conv is not None and not option.a_resident
        grids = _grids(self._roles, gemm, self._image_rows(conv_slab), self._pinned)
        orders = [self._pinned["order"]] if "order" in self._pinned else ORDERS
        whole = self._pinned.get("a_whole_k")
        slabs = (
            [whole]
            if whole is not None
            else [True, False]
            if conv_slab
            else [False]
            if option.a_resident
            else [False, True]
        )
        for order, a_whole_k, slots, split in product(orders, slabs, self._a_slots(option), self._splits()):
            yield Candidates(
                order, option.a_resident, bool(a_whole_k), option.y_resident, slots, *grids, split=split,
                arrays=1 if split == "none" else self._roles.matrix.count,
            )  # fmt: skip

    def _splits(self) -> list[Split]:
        """Axes that arrays side by side may share. What they have of a sum is added in the vector unit.

        None where a buffer has a single port, through which one array works at a time.
        """
        unit, roles = self._roles.matrix, self._roles
        side_by_side = (
            min(roles.buffer(name).ports for name in (roles.activations, roles.weights, roles.sums)) > 1
        )
        open_ = [split for split in SPLITS if split != "k" or unit.epilogue]
        if "split" in self._pinned:
            return [split for split in open_ if split == self._pinned["split"]]
        return open_ if unit.count > 1 and side_by_side else ["none"]

    def _a_slots(self, option: _Option) -> list[int]:
        """Streamed activation tiles in flight: two overlap loading and computing, one leaves room for larger tiles."""
        fixed = self._roles.tiles_in_flight
        if "a_slots" in self._pinned:
            return [int(self._pinned["a_slots"])]
        return [2] if option.a_resident else [fixed] if fixed is not None else [2, 1]

    def _image_rows(self, conv_slab: bool) -> int:
        """What tm must be a multiple of: a whole image behind a fused pooling, whole rows of a streamed convolution."""
        conv = self._gemm.conv
        pooled = any((op := find(part.op)) is not None and op.kind == "pool" for part in self._node.epilogue)
        if conv is None:
            return 1
        return conv.out[0] * conv.out[1] if pooled else conv.out[1] if conv_slab else 1

    def _fitted(self, c: Candidates, index: int) -> Fitted:
        """Candidates whose tiles fit all buffers; remembers what the best lacks, for the error when none does."""
        sides_B = sum(self._tensors[name].element_B for name in self._sides[c.a_resident])
        fitted = self._fitting.fitted(c, self._shapes[c.a_resident], sides_B, self._choices[index].room)
        self._needs[index] = max(self._needs[index], fitted.most_B)
        self._misfits += [fitted.need] if fitted.need else []
        return fitted

    def _homes(self) -> Homes:
        """Where operands come from and results go to."""
        roles, layout = self._roles, self._layout
        a, b = layout.place(self._gemm.a), layout.place(self._gemm.b)
        regions = layout.builder.regions
        a_home = regions[a.home].memory if a.home is not None else layout.result_home(self._gemm.a)
        b_home = regions[b.home].memory if b.home is not None else roles.weights_home
        return Homes(a_home, b_home, layout.result_home(self._out.name), a.chip is None)

    def _score(self, c: Candidates) -> _Scored:
        homes = self._homes()
        bounds = self._estimator.bounds(self._shapes[c.a_resident], c, homes)
        score, total = bounds.score(), bounds.total()
        near = score <= score.min() * CLOSE
        near = np.flatnonzero(near & (total <= total[near].min() * LATE))
        tiles = (
            -(-self._gemm.M // c.tm)
            * -(-self._gemm.N // c.tn)
            * -(-self._gemm.K // c.tk)
            * -(-self._gemm.groups // c.tg)
        )
        best = int(min(near, key=lambda i: (bounds.offchip_B[i], tiles[i], score[i])))
        slots: dict[str, Any] = {"b_resident": not self._b_streamed}
        slots |= {name: self._pinned[name] for name in ("w_slots", "reuse") if name in self._pinned}
        mapping = replace(c.mapping(best), **slots)
        return _Scored(
            float(score[best]),
            float(bounds.offchip_B[best]),
            int(tiles[best]),
            mapping,
            float(total[best]),
            bounds.binds(best),
        )


def _best(found: list[_Scored]) -> _Scored:
    """Of the equally fast the one that moves least, then the one with the fewest tiles."""
    limit = min(entry.score for entry in found) * CLOSE
    near = [entry for entry in found if entry.score <= limit]
    limit = min(entry.clocks for entry in near) * LATE
    return min(
        (entry for entry in near if entry.clocks <= limit), key=lambda entry: (entry.offchip_B, entry.tiles)
    )


def _grids(roles: Any, gemm: Gemm, row: int, pinned: Fields[str, Any]) -> tuple[Ints, Ints, Ints, Ints]:
    """Columns tg, tm, tn, tk of all tilings: even cuts and powers of two, in units of the array."""
    unit = roles.matrix
    axes = [
        _pin(pinned, "tg", {1}, gemm.groups),
        _pin(pinned, "tm", _row_sizes(gemm.M, row), gemm.M),
        _pin(pinned, "tn", _sizes(gemm.N, unit.cols), gemm.N),
        _pin(pinned, "tk", _sizes(gemm.K, unit.rows), gemm.K),
    ]
    rows = list(product(*axes))
    if gemm.groups > 1 and not pinned.keys() & {"tm", "tn", "tk"}:
        together = gemm.groups // int(packs(unit, gemm.groups, gemm.N, gemm.K))
        several = sorted((_sizes(gemm.groups, 1) | _sizes(gemm.groups, max(1, together))) - {1})
        rows += product([] if "tg" in pinned else several, axes[1], [gemm.N], [gemm.K])
    columns = np.array(rows, np.int64)
    return columns[:, 0], columns[:, 1], columns[:, 2], columns[:, 3]


def _pin(pinned: Fields[str, Any], name: str, sizes: set[int], extent: int) -> list[int]:
    return [min(int(pinned[name]), extent)] if name in pinned else sorted(sizes)


def _row_sizes(extent: int, unit: int) -> set[int]:
    """Sizes along M; not those of more tiles than ``MOST_ROW_TILES``."""
    return {size for size in _sizes(extent, unit) if -(-extent // size) <= MOST_ROW_TILES}


def _sizes(extent: int, unit: int) -> set[int]:
    """Tile extents to try, multiples of ``unit``: even cuts in 1 to 8 parts, powers of two, and even cuts in as many
    parts as those give.
    """
    units = -(-extent // unit)
    powers = {1 << power for power in range(units.bit_length())}
    counts = {*range(1, 9), *(-(-units // power) for power in powers)}
    return {min(part * unit, extent) for part in powers | {-(-units // count) for count in counts}}
