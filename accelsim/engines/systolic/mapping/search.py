"""The best mapping of one matrix step: its tilings where things lie now, given to the search of ``mapping``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product
from math import inf
from typing import Any, NamedTuple, TypeVar

from accelsim.engines.base import Lowering, Mapped
from accelsim.engines.systolic.mapping.decide import EFFORTS, Candidate, Effort, fastest, worth_rehearsing, written
from accelsim.engines.systolic.mapping.estimate import Estimator
from accelsim.engines.systolic.mapping.extents import MOST_ROW_TILES, Rows, axes
from accelsim.engines.systolic.mapping.fitting import Fitting, Need, Room, whole_operands
from accelsim.engines.systolic.mapping.known import KNOWN, TABLES, Choice, Searched, product_key
from accelsim.engines.systolic.mapping.shape import FEW, describe, strips
from accelsim.engines.systolic.mapping.space import ESTIMATE, Option, Plan, Tilings
from accelsim.engines.tuning import choose_mapping
from accelsim.errors import Infeasible
from accelsim.mapping.search import Solved, solve
from accelsim.program.mapping import ORDERS, SPLITS, Mapping, Split
from accelsim.program.roles import function_unit
from accelsim.workload.ops.base import Gemm

T = TypeVar("T", bound=Tilings)
SURE = 1e-6
"""Share by which an estimate must be above the time of another mapping, so that its own time surely is."""


def lower_product(step: Lowering, gemm: Gemm, choice: Choice | None = None) -> Mapped:
    """Write the commands of a product by ``choice``, or by the best mapping. Raises Infeasible if nothing fits, even
    after other tensors have made room."""
    choice = choice or choose_with_room(step, gemm)
    return written(step, gemm, choice.mapping, choice.binds, choice.scored)


def choose_with_room(step: Lowering, gemm: Gemm) -> Choice:
    """The best mapping. Where nothing fits, tensors that wait on the chip for later steps make room, then the operands;
    then tiles may be smaller than the array.

    Raises Infeasible when not even that helps.
    """
    while True:
        try:
            return choose(step, gemm)
        except Infeasible:
            if not (step.layout.spill(step.index, step.node.reads) or step.layout.spill(step.index, ())):
                break
    return choose(step, gemm, least=True)


def choose(step: Lowering, gemm: Gemm, least: bool = False) -> Choice:
    """The best mapping of a step where things lie now; what the user pinned is kept. ``least``: with tiles down to the
    smallest.

    Steps that are alike are searched once. Raises Infeasible (the buffer, needed and available bytes of the smallest
    tile) when nothing fits.
    """
    search = ProductSearch(step, gemm, least)
    rooms = search.rooms
    made = step.once((search.step, search.flags, least), list[Searched])
    found = next((entry for entry in made if entry.holds_for(rooms)), None)
    try:
        if found is None:
            found = _searched(step, search, rooms, least)
            made.append(found)
        search.needs = found.needs
    finally:
        search.note_needs()
    return found.choice


def _searched(step: Lowering, search: ProductSearch, rooms: list[int], least: bool) -> Searched:
    """Return the search of a product that this compilation has not made before, from an earlier one if possible."""
    if step.tuner is not None or step.search not in EFFORTS:  # it depends on more than on the product
        return search.searched()
    key = product_key(step, search.step, search.flags, least, step.search, search.effort)
    found = next((entry for entry in KNOWN.searches(key) if entry.finds_for(rooms)), None)
    if found is None:
        found = search.searched()
        KNOWN.add(key, found)
    elif found.rehearsed:  # a rehearsal gives operands their homes, and the numbers of these must be the same
        for name in step.node.reads:
            step.layout.place(name)
    return found._replace(rooms=rooms)


class _Leaders(NamedTuple):
    """The best candidates, best first; how many were tried, one of the problems, what others lacked."""

    best: list[Candidate]
    tried: int
    tilings: Tilings
    misfits: list[Need]


class ProductSearch:
    """``step``: what the result depends on; ``options``: residency choices, with the room that each leaves;
    ``least``: see ``choose``."""

    def __init__(self, step: Lowering, gemm: Gemm, least: bool = False) -> None:
        self._lowering, self._least = step, least
        self._layout, self._node, self._gemm, self._pinned = step.layout, step.node, gemm, step.pinned
        self._roles = step.layout.roles
        self.step = describe(step, gemm)
        self._too_large: list[Need] = []
        self.options = list(self._residencies())
        self.rooms = [option.room.tiles_B for option in self.options] + [
            free_B for _, free_B in self.step.buffers.free_B
        ]
        self.needs = [0] * len(self.rooms)
        self.wants = self.needs
        self.rehearsed = False

    def note_needs(self) -> None:
        """Tell the buffers how much of their room made a difference."""
        spaces, others = self._layout.spaces, [name for name, _ in self.step.buffers.free_B]
        names = [self._roles.activations] * len(self.options) + others
        for name, need_B, room_B in zip(names, self.needs, self.rooms, strict=True):
            spaces[name].needed(need_B, room_B)

    def searched(self) -> Searched:
        """Search, and return the result with the rooms for which it holds."""
        choice = self.best()
        return Searched(choice, self.rooms, self.needs, self.wants, self.rehearsed)

    def best(self) -> Choice:
        """Return the cheapest mapping, or the one that the tuner picks among the cheapest."""
        self._refuse_torn_images()
        tuner, found = self._lowering.tuner, self._leaders()
        if not found.best:
            raise self._infeasible(found.misfits)
        best, clocks = self._decided(found)
        if tuner:
            every = [best, *(candidate.mapping() for candidate in found.best)]
            best = self._tuned(list(dict.fromkeys(every))[: tuner.leaders])
        choice = self._choice(found, best, found.tried)
        return choice if tuner or self._roles.matrix.count == 1 else self._worth_it(choice, clocks)

    def _choice(self, found: _Leaders, mapping: Mapping, tried: int) -> Choice:
        bounds = found.tilings.bounds_of(mapping)
        return Choice(mapping, float(bounds.total()[0]), bounds.binds(0), tried)

    def _worth_it(self, choice: Choice, clocks: float | None) -> Choice:
        """Several arrays only where they are done before one would be: what they hold meanwhile is not the question.
        Nor is a mapping of one of them that is among the best of several the best for one.
        ``clocks``: of the choice, where they are known better than by its estimate."""
        found = self._leaders(["none"])
        if not found.best:
            return choice
        if clocks is not None and max(clocks, choice.clocks) * (1 + SURE) <= min(
            each.costs[ESTIMATE] for each in found.best
        ):  # no estimate is above the time
            return choice._replace(scored=choice.scored + found.tried)
        mapping, alone_clocks = self._decided(found)
        one = self._choice(found, mapping, choice.scored + found.tried)
        if clocks is None or alone_clocks is None:
            clocks, alone_clocks = choice.clocks, one.clocks
        return choice._replace(scored=one.scored) if clocks <= alone_clocks else one

    def _decided(self, found: _Leaders) -> tuple[Mapping, float | None]:
        self.rehearsed |= worth_rehearsing(self.effort, found.best)
        decided = fastest(self._lowering, self._gemm, self.step, self.effort, found.best, self.key)
        return decided or (found.best[0].mapping(), None)

    @property
    def effort(self) -> Effort:
        """Return the limits of rehearsing in this search."""
        return EFFORTS["fast" if self._lowering.search == "fast" else "best"]

    def _leaders(self, splits: Sequence[Split] | None = None) -> _Leaders:
        """The best tilings, those through whole rows first; blocks of images too where they have something to save."""
        effort, tuner = "best" if self._least else self._lowering.search, self._lowering.tuner
        most = max(self.effort.leaders, tuner.leaders if tuner else 0)
        tilings = self.tilings(Tilings, effort != "fast", splits)
        tilings.leaders = most
        solved = solve(tilings, effort, leaders=most)
        best = self._candidates(tilings, solved)
        tilings.note_wants(best[-1].costs[0] if len(best) == most else inf)
        tried, misfits, problems = solved.tried, tilings.misfits, [tilings]
        if widths := self._strips(best[0].mapping() if best else None):
            blocks = self.tilings(Tilings, effort != "fast", splits, widths)
            blocks.leaders, blocks.limit = most, best[-1].costs[:2] if len(best) == most else (inf, inf)
            solved = solve(blocks, effort, leaders=most)
            best = sorted([*best, *self._candidates(blocks, solved)], key=lambda each: each.costs)[:most]
            blocks.note_wants(best[-1].costs[0] if len(best) == most else inf)
            tried, misfits = tried + solved.tried, misfits + blocks.misfits
            problems.append(blocks)
        self.needs = self._largest(self.needs, [each.needs for each in problems])
        self.wants = self._largest(self.wants, [each.wants for each in problems])
        return _Leaders(best, tried, tilings, misfits)

    def _largest(self, before: list[int], noted: list[dict[int | str, int]]) -> list[int]:
        places = [*range(len(self.options)), *(name for name, _ in self.step.buffers.free_B)]
        return [max(room, *(each.get(place, 0) for each in noted)) for place, room in zip(places, before, strict=True)]

    def _candidates(self, tilings: Tilings, solved: Solved) -> list[Candidate]:
        mapping = tilings.mappings([leader.choices for leader in solved.leaders], self.kept)
        return [
            Candidate(leader.costs, lambda place=place: mapping(place))  # type: ignore[misc]
            for place, leader in enumerate(solved.leaders)
        ]

    def _strips(self, flat: Mapping | None) -> list[int]:
        """Widths of strips to try beside the best tiling through whole rows."""
        if self._pinned.keys() & {"tm", "tq"}:
            return []
        beat_B = 0 if self._least else self._roles.memory(self.step.homes.a).memory.beats_B
        return strips(self.step, flat, beat_B, None if self._lowering.search != "fast" else FEW)

    def tilings(
        self, kind: type[T], thorough: bool, splits: Sequence[Split] | None = None, widths: Sequence[int] = ()
    ) -> T:
        """The problem that is searched; ``thorough``: with many more extents of tiles; with these ``splits`` and
        ``widths`` of strips alone."""
        vector = function_unit(self._roles.chip, [part.op for part in self._node.epilogue])
        estimator = Estimator(self._roles, vector.spec if vector else None, self.step.sharing)
        fitting = Fitting(self._roles, self.step.buffers, self.step.shape, self._pinned)
        plans = [plan for plan in self._plans(widths) if splits is None or plan.split in splits]
        orders = [ORDERS.index(self._pinned["order"])] if "order" in self._pinned else list(range(len(ORDERS)))
        extents = axes(self.step, {plan.rows for plan in plans}, self._pinned, len(plans), thorough, self._least)
        table = None if thorough or self._least else TABLES.get(self.key, self.flags, tuple(plans))
        return kind(self.step, estimator, fitting, self.options, plans, orders, extents, table)

    @cached_property
    def key(self) -> str:
        """Return a hash of everything that candidates are written by but room and rates of memories."""
        return product_key(self._lowering, self.step, rates=False)

    @property
    def flags(self) -> tuple[tuple[bool, bool], ...]:
        """Return which residency choices are open."""
        return tuple((option.a_resident, option.y_resident) for option in self.options)

    def kept(self, mapping: Mapping) -> Mapping:
        """Return the mapping of a candidate with the fields that no search chooses."""
        slots: dict[str, Any] = {"b_resident": not self.step.shape.b_streamed}
        slots |= {name: self._pinned[name] for name in ("w_slots", "reuse") if name in self._pinned}
        return replace(mapping, **slots)

    def _tuned(self, leaders: list[Mapping]) -> Mapping:
        """The one that the machine decides for, on this chip and with this room."""
        depends = f"{self.step}\n{self.flags}\n{[option.room for option in self.options]}"
        return choose_mapping(
            self._lowering, depends, leaders, lambda step, mapping: written(step, self._gemm, mapping)
        )

    def _infeasible(self, misfits: list[Need]) -> Infeasible:
        """The least that is missing; the pinned fields where it is them that rule everything out."""
        smallest = self.step.rows[self._gemm.conv is not None]
        if -(-self._gemm.M // smallest) > MOST_ROW_TILES and "tm" not in self._pinned:
            why = f"no tiling of {MOST_ROW_TILES:,} tiles or fewer along M fits the buffers"
            return Infeasible(self._node.name, self._roles.activations, 0, 0, f"M {self._gemm.M:,}", why)
        for needs in (misfits, self._too_large):
            if needs:
                return min(needs, key=lambda need: need.missing_B).error(
                    self._node.name, self._pinned, self._roles.chip
                )
        pinned = ", ".join(f"{name}={value}" for name, value in self._pinned.items())
        return Infeasible(
            self._node.name, self._roles.sums, 0, 0, pinned, "no mapping of this chip has all pinned fields"
        )

    def _refuse_torn_images(self) -> None:
        """A fused pooling needs whole images, so a pinned tm must hold them; and only images have columns. Raises
        Infeasible otherwise."""
        image, tm = self.step.rows[False], int(self._pinned.get("tm", self._gemm.M))
        if (tq := int(self._pinned.get("tq", 0))) and (image > 1 or self._gemm.conv is None):
            why = f"tq {tq} cuts images, and " + (
                "the fused pooling needs them whole" if self._gemm.conv else "it has none"
            )
            raise Infeasible(self._node.name, self._roles.sums, 0, 0, f"tq {tq}", why)
        if tm < self._gemm.M and tm % image:
            why = f"tm {tm} is no multiple of {image}, the positions of an image that the fused pooling needs"
            raise Infeasible(self._node.name, self._roles.sums, 0, 0, f"tm {tm}", why)

    def _residencies(self) -> Iterator[Option]:
        """Residency choices that are open, best first: the result on the chip if it fits and is read there."""
        roles, layout, tensors = self._roles, self._layout, self._layout.graph.tensors
        space, out = layout.spaces[roles.activations], tensors[self._node.writes[0]]
        if roles.fixed_slots(roles.activations) is not None:
            yield Option(False, False, Room(space.room_after([]) or 0))
            return
        place, a_B = layout.place(self._gemm.a), tensors[self._gemm.a].nbytes
        a_choices = [True] if place.chip is not None and "a_resident" not in self._pinned else [True, False]
        useful = "y_resident" in self._pinned or not layout.facts.only_leaves(out.name)
        y_choices = [True, False] if roles.matrix.epilogue and useful else [False]
        for y_resident, a_resident in product(y_choices, a_choices):
            if self._pinned.get("a_resident", a_resident) != a_resident:
                continue
            if self._pinned.get("y_resident", y_resident) != y_resident:
                continue
            sizes = [a_B] if a_resident and place.chip is None else []
            sizes += [out.nbytes] if y_resident else []
            free_B, room = space.room_after([]) or 0, space.room_after(sizes)
            if room is None:
                self._too_large.append(whole_operands(roles.activations, sum(sizes), free_B))
            else:
                yield Option(a_resident, y_resident, Room(room, free_B - room))

    def _plans(self, widths: Sequence[int]) -> Iterator[Plan]:
        """Return what candidates have in common, for each residency choice; with ``widths`` of strips where activations
        are streamed."""
        whole = self._pinned.get("a_whole_k")
        for index, option in enumerate(self.options):
            slab = self._gemm.conv is not None and not option.a_resident
            slabs = [True, False] if slab else [False] if option.a_resident else [False, True]
            for a_whole_k, a_slots, split in product(
                slabs if whole is None else [bool(whole)], self._a_slots(option), self._splits()
            ):
                for rows in self._rows(slab, widths):
                    yield Plan(index, a_whole_k, a_slots, split, rows)

    def _rows(self, slab: bool, widths: Sequence[int]) -> Iterator[Rows]:
        """Return how M may be cut; ``slab``: activations are streamed in whole rows of the image, or of strips of these
        ``widths``."""
        conv, pinned = self._gemm.conv, int(self._pinned.get("tq", 0))
        if conv is not None and 0 < pinned < conv.out[1]:
            yield Rows(conv.out[0] * pinned, pinned, pinned)
        elif not widths:
            yield Rows(self._gemm.M, self.step.rows[slab])
        elif conv is not None and slab:
            yield from (Rows(conv.out[0] * width, width, width) for width in widths)

    def _splits(self) -> list[Split]:
        """Axes that arrays side by side may share. What they have of a sum is added in the vector unit.

        None where a buffer has a single port, through which one array works at a time.
        """
        unit, roles = self._roles.matrix, self._roles
        side_by_side = min(roles.buffer(name).ports for name in (roles.activations, roles.weights, roles.sums)) > 1
        open_ = [split for split in SPLITS if split != "k" or unit.epilogue]
        if "split" in self._pinned:
            return [split for split in open_ if split == self._pinned["split"]]
        return open_ if unit.count > 1 and side_by_side else ["none"]

    def _a_slots(self, option: Option) -> list[int]:
        """Streamed activation tiles in flight: two overlap loading and computing, one leaves room for larger tiles."""
        fixed = self._roles.tiles_in_flight
        if "a_slots" in self._pinned:
            return [int(self._pinned["a_slots"])]
        return [2] if option.a_resident else [fixed] if fixed is not None else [2, 1]
