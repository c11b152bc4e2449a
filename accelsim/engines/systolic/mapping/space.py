"""The tilings that a product may be given, as independent choices that the search of ``mapping`` goes through."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as Fields
from dataclasses import dataclass, field, replace
from functools import cache
from math import inf, prod
from typing import NamedTuple

import numpy as np

from accelsim.engines.systolic.mapping.estimate import Estimator
from accelsim.engines.systolic.mapping.extents import Axes, Rows
from accelsim.engines.systolic.mapping.fitting import Asked, Fitted, Fitting, Need, Room
from accelsim.engines.systolic.mapping.shape import Bounds, Shape, Step
from accelsim.engines.systolic.mapping.tilings import Candidates
from accelsim.engines.systolic.mapping.work import Work
from accelsim.mapping.search import numbered
from accelsim.program.mapping import ORDERS, Mapping, Split
from accelsim.types import Bools, Floats, Ints

KEYS = 4
"""Costs that candidates are compared by: score in steps of ``RESOLUTION``, bytes across the pins, tiles, estimate."""
TRAFFIC, TILES, ESTIMATE = 1, 2, 3
RESOLUTION = 0.005
"""Relative difference of scores below which candidates count as equally fast, a round number: traffic and tiles, which
are exact, then decide. The closed form promises no more. Of 366 steps of four networks on five chips, each alone on the
machine, it was equal to 0.1 % for half of them, and 13.6 % or more too low for a tenth.
"""
MOST_AT_ONCE, AT_ONCE = 1 << 19, 1 << 14
"""Candidates up to which walks have all of them worked out, and how many at a time: a round of a walk asks for few."""
WAVES = 4
"""Candidates per leader from which on the likely ones are scored first."""


class Option(NamedTuple):
    """One residency choice: what is on the chip as a whole, and the room that this leaves for tiles."""

    a_resident: bool
    y_resident: bool
    room: Room


class Plan(NamedTuple):
    """Choices that many candidates share: ``option`` is an index."""

    option: int
    a_whole_k: bool
    a_slots: int
    split: Split
    rows: Rows


class Group(NamedTuple):
    """Candidates of a chunk that are scored together, as this ``plan``: their ``rows`` in it, what they ask of buffers
    and their work."""

    plan: int
    rows: Ints
    candidates: Candidates
    asked: Asked
    work: Work


class Chunk(NamedTuple):
    """Candidates that were listed together, by choices and by group."""

    choices: Ints
    groups: list[Group]


@dataclass(frozen=True)
class Table:
    """Candidates of a product, with all that depends neither on rates of memories nor on room: chips that differ in
    these share it. ``chunks``: by the number of the first candidate."""

    chunks: dict[int, Chunk] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Return how many candidates are in the table."""
        return sum(len(chunk.choices) for chunk in self.chunks.values())


class _Matters(NamedTuple):
    """Candidates of a ``plan``: their first costs with all the room that they could use, infinite where none would
    do, and that room in each buffer."""

    plan: int
    first: Floats
    most_B: dict[str, Ints]


class _Every(NamedTuple):
    """All candidates by number: a lower bound of their first cost (infinite where they do not fit), their costs, and
    their room in each buffer."""

    least: Floats
    keys: Floats
    most_B: dict[str, Ints]


class Tilings:
    """The choices plan, order, tg, tm, tn, tk of a step. ``needs``: of each residency choice, and of each other buffer
    by name, the room with which no candidate would have been refused, ``wants``: none that could be a leader;
    ``misfits``: what candidates lacked, where none of a plan fitted; ``limit``: what the first cost of a candidate that
    is wanted must not exceed; ``table``: keeps what does not depend on rates of memories, nor on room."""

    def __init__(self, step: Step, estimator: Estimator, fitting: Fitting, options: list[Option], plans: list[Plan],
                 orders: list[int], axes: Axes, table: Table | None = None) -> None:  # fmt: skip
        self._table, self._matters = table, list[_Matters]()
        self._scored: list[tuple[Ints, Candidates, Work]] = []  # by number, see ``numbered``
        self._made: dict[Mapping, tuple[Candidates, Work, int]] = {}
        self._chunk: Chunk | None = None
        self._every: _Every | None = None
        self._step, self._estimator, self._fitting = step, estimator, fitting
        self._options, self._plans, self._orders, self._axes = options, plans, np.array(orders), axes
        self.needs: dict[int | str, int] = {}
        self.wants: dict[int | str, int] = {}
        self.misfits: list[Need] = []
        self.limit: tuple[float, ...] = (inf, inf)
        self.leaders = 1 << 62
        self._best = np.zeros((0, len(self.limit)))
        self._whole_k = np.array([plan.a_whole_k for plan in plans])
        self._a_slots = np.array([plan.a_slots for plan in plans])
        together = [(plan.option, plan.split, plan.rows, plan.split == "k" and plan.a_whole_k) for plan in plans]
        self._first = np.array([together.index(each) for each in together])
        """For each plan the first of those that are scored together."""
        self._tm = np.zeros((len(plans), axes.sizes[1]), np.int64)
        for index, plan in enumerate(plans):
            self._tm[index, : len(axes.tm[plan.rows])] = axes.tm[plan.rows]
        splits = {
            axis: [each.split == axis and each._replace(split="none") in plans for each in plans] for axis in "mnk"
        }
        whole = [each.a_whole_k and each._replace(a_whole_k=False) in plans for each in plans]
        splits["k"] = [x or y for x, y in zip(splits["k"], whole, strict=True)]
        self._copies = {axis: np.array(flags) for axis, flags in splits.items()}
        """Plans that are another one where an axis is one tile."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of options of each choice, in order: plan, loop order, tg, tm, tn, tk."""
        return len(self._plans), len(self._orders), *self._axes.sizes

    def listed(self, numbers: range) -> Ints:
        """Return the choices of these numbers without copies of others."""
        if self._table is None:
            choices = numbered(self.sizes, numbers)
            return choices[self._distinct(choices)]
        chunk = self._table.chunks.get(numbers.start)
        if chunk is None:
            choices = numbered(self.sizes, numbers)
            choices = choices[self._distinct(choices)]
            chunk = self._table.chunks[numbers.start] = Chunk(choices, list(self._groups(choices)))
        self._chunk = chunk
        return chunk.choices

    def _distinct(self, choices: Ints) -> Bools:
        """Return which choices are no copies of others (the order of loops of one iteration does not matter)."""
        gemm, table, plan = self._step.shape.gemm, self._axes, choices[:, 0]
        order, tm = self._orders[choices[:, 1]], self._tm[plan, choices[:, 3]]
        tg, tn, tk = table.tg[choices[:, 2]], table.tn[choices[:, 4]], table.tk[choices[:, 5]]
        one = {"m": tm >= gemm.M, "n": tn >= gemm.N, "k": tk >= gemm.K}
        there: Bools = (tm > 0) & ((tg == 1) | (one["n"] & one["k"]))
        for index in self._orders.tolist():  # the first of those that run the loops that turn in one sequence
            for other in self._orders[self._orders < index].tolist():
                there &= (order != index) | ~_alike(ORDERS[index], ORDERS[other], one)
        for axis, plans in self._copies.items():
            there &= ~(plans[plan] & one[axis])
        return there

    def smallest(self) -> Ints:
        """The smallest tiles, without anything resident."""
        return np.array([len(self._plans) - 1, *[0] * (len(self.sizes) - 1)], np.int64)

    def costs(self, choices: Ints, limit: float) -> tuple[Floats, int]:
        """See ``mapping.leaders.Costly``."""
        if self._chunk is not None and choices is self._chunk.choices:
            return self._costs_of(self._chunk)
        limit = min(limit, self.limit[0])
        if limit < inf and prod(self.sizes) <= MOST_AT_ONCE:
            return self._looked_up(choices, limit)
        found, scored = np.full((len(choices), KEYS), inf), 0
        first = self._first[choices[:, 0]]
        for index in np.unique(first).tolist():
            rows, fitted = self._fitting_rows(choices, np.flatnonzero(first == index), index)
            if len(rows) and limit < inf:
                near = steps(self._estimator.least(self._step.shape_of(fitted.a_resident), fitted)) <= limit
                rows, fitted = rows[near], fitted.keep(near)
            if len(rows):
                found[rows] = self._keys(fitted)
                scored += len(rows)
        return found, scored

    def _looked_up(self, choices: Ints, limit: float) -> tuple[Floats, int]:
        """Return costs as ``costs`` does, from those of all candidates that the first such call works out."""
        every = self._every = self._every or self._everything(limit)
        numbers, first = self._numbers(choices), self._first[choices[:, 0]]
        near = every.least[numbers] <= limit
        for index in np.unique(first).tolist():
            rows = np.flatnonzero(first == index)
            mine = numbers[rows]
            if not np.isfinite(every.least[mine]).any():
                self._fitting_rows(choices, rows, index)  # which notes what they lack
                continue
            for table in (self.needs, self.wants):
                self._note(table, index, {buffer: each_B[mine] for buffer, each_B in every.most_B.items()})
        return np.where(near[:, None], every.keys[numbers], inf), int(near.sum())

    def _everything(self, limit: float) -> _Every:
        """Return the bounds of all candidates, and the costs of those whose bound is at most ``limit``."""
        size = prod(self.sizes)
        found = _Every(np.full(size, inf), np.full((size, KEYS), inf), {})
        for start in range(0, size, AT_ONCE):
            choices = numbered(self.sizes, range(start, min(start + AT_ONCE, size)))
            first = self._first[choices[:, 0]]
            for index in np.unique(first).tolist():
                rows, fitted = self._fitted(choices, np.flatnonzero(first == index), index)
                if fitted is None:
                    continue
                for buffer, each_B in fitted.most_B.items():
                    found.most_B.setdefault(buffer, np.zeros(size, np.int64))[start + rows] = each_B
                rows, kept = start + rows[fitted.fits], fitted.kept
                if len(rows):
                    least = steps(self._estimator.least(self._step.shape_of(kept.a_resident), kept))
                    found.least[rows], near = least, least <= limit
                    if near.any():
                        found.keys[rows[near]] = self._keys(kept.keep(near))
        return found

    def _costs_of(self, chunk: Chunk) -> tuple[Floats, int]:
        """Return the costs of the candidates of a chunk that could be among the best, and note which room they would
        need."""
        found, scored = np.full((len(chunk.choices), KEYS), inf), 0
        for group in chunk.groups:
            index, asked, room = group.plan, group.asked, self._options[self._plans[group.plan].option].room
            fits, y_slots = self._fitting.fits(asked, room)
            self._note(self.needs, index, asked.most_B)
            if not fits.any() and (need := self._fitting.need(group.candidates, asked, room)):
                self.misfits.append(need)
            for rows in filter(len, self._hopeful(group, fits)):
                numbers, fit = self._numbers(chunk.choices[group.rows[rows]]), fits[rows]
                keys = self._exact(group, rows, numbers, y_slots[rows], fit)
                found[group.rows[rows[fit]]] = keys[fit]
                self._best = np.concatenate([self._best, keys[fit, : len(self.limit)]])
                self._best = self._best[np.lexsort(self._best.T[::-1])][: self.leaders]
                scored += int(fit.sum())
        return found, scored

    def _hopeful(self, group: Group, fits: Bools) -> Iterator[Ints]:
        """Yield the rows of a group that may be among the best, by a lower bound of their costs; where not enough are
        known yet, the likely ones first, so that fewer of the others have to be worked out."""
        shape = self._step.shape_of(group.candidates.a_resident)
        least = steps(self._estimator.least_score(shape, group.work, self._step.homes))
        traffic_B, done = group.work.offchip_B, np.zeros(len(fits), np.bool_)
        if len(self._best) < self.leaders < len(fits) / WAVES:
            likely = np.where(fits, least + traffic_B / (1.0 + traffic_B.max()), inf)
            done[np.argpartition(likely, 2 * self.leaders)[: 2 * self.leaders]] = True
            yield np.flatnonzero(done)
        most, most_B = self.most
        yield np.flatnonzero(~done & ((least < most) | ((least == most) & (traffic_B <= most_B))))

    @property
    def most(self) -> tuple[float, ...]:
        """Return the first two costs that a candidate must not exceed to be among the best."""
        return min(self.limit, *map(tuple, self._best[self.leaders - 1 : self.leaders].tolist()), (inf, inf))

    def _exact(self, group: Group, rows: Ints, numbers: Ints, y_slots: Ints, fit: Bools) -> Floats:
        """Return the costs of these rows of a group, and note which room they would need."""
        asked, c, work = group.asked, group.candidates.keep(rows), group.work.keep(rows)
        wanted = asked.wanted[rows]
        keys, fitted = self._keys(replace(c, y_slots=wanted), work), replace(c, y_slots=y_slots)
        most_B = {buffer: each_B[rows] for buffer, each_B in asked.most_B.items()}
        self._matters.append(_Matters(group.plan, np.where(asked.legal[rows], keys[:, 0], inf), most_B))
        self._scored.append((numbers, fitted, work))
        short = fit & (y_slots < wanted)
        if short.any():
            keys[short] = self._keys(fitted.keep(short), work.keep(short))
        return keys

    def _groups(self, choices: Ints) -> Iterator[Group]:
        """Yield the candidates among these choices, those together that are scored together."""
        first = self._first[choices[:, 0]]
        for index in np.unique(first).tolist():
            rows, c = self._existing(choices, np.flatnonzero(first == index), index)
            if len(c):
                shape = self._step.shape_of(c.a_resident)
                asked = self._fitting.asked(c, shape, _sides_B(shape))
                yield Group(index, rows, c, asked, self._work(c))

    def note_wants(self, limit: float) -> None:
        """Complete ``wants`` after all candidates were listed, ``limit``: the first cost of the worst leader."""
        for index, first, most_B in self._matters:
            self._note(self.wants, index, {buffer: each_B[first <= limit] for buffer, each_B in most_B.items()})

    def _note(self, table: dict[int | str, int], index: int, most_B: Fields[str, Ints]) -> None:
        for buffer, each_B in most_B.items():
            place = self._plans[index].option if buffer == self._fitting.activations else buffer
            table[place] = max(table.get(place, 0), int(each_B.max(initial=0)))

    def mappings(
        self, choices: Sequence[tuple[int, ...]], kept: Callable[[Mapping], Mapping]
    ) -> Callable[[int], Mapping]:
        """Return what makes a mapping of each of these candidates, by its place among them, as it is ``kept``."""

        @cache
        def places() -> dict[int, tuple[Candidates, Work | None, int]]:
            every = np.array(choices, np.int64).reshape(-1, len(self.sizes))
            found, numbers = dict[int, tuple[Candidates, Work | None, int]](), self._numbers(every)
            for scored, fitted, work in self._scored:
                at = np.minimum(np.searchsorted(scored, numbers), len(scored) - 1)
                same = np.flatnonzero(scored[at] == numbers).tolist()
                found |= {place: (fitted, work, int(at[place])) for place in same}
            if len(found) == len(every):
                return found
            first = self._first[every[:, 0]]
            for index in np.unique(first).tolist():
                rows, fitted = self._fitting_rows(every, np.flatnonzero(first == index), index)
                found |= {row: (fitted, None, at) for at, row in enumerate(rows.tolist())}
            return found

        def mapping(place: int) -> Mapping:
            candidates, work, at = places()[place]
            made = kept(candidates.mapping(at))
            if work is not None:
                self._made[made] = candidates, work, at
            return made

        return mapping

    def _numbers(self, choices: Ints) -> Ints:
        """Return the numbers of choices, see ``numbered``."""
        numbers: Ints = np.ravel_multi_index(tuple(choices.T), self.sizes)
        return numbers

    def bounds_of(self, mapping: Mapping) -> Bounds:
        """Return what bounds a mapping that fits, whether it is a candidate or not."""
        if mapping in self._made:
            candidates, work, at = self._made[mapping]
            return self._bounds(candidates.keep(np.array([at])), work.keep(np.array([at])))
        c = Candidates.from_mapping(mapping, self._step.arrays)
        return self._bounds(replace(c, y_slots=np.array([mapping.y_slots])))

    def _work(self, c: Candidates) -> Work:
        return self._estimator.work(self._step.shape_of(c.a_resident), c, self._step.homes)

    def _bounds(self, c: Candidates, work: Work | None = None) -> Bounds:
        return self._estimator.bounds(self._step.shape_of(c.a_resident), c, self._step.homes, work)

    def _keys(self, c: Candidates, work: Work | None = None) -> Floats:
        work = self._work(c) if work is None else work
        bounds = self._bounds(c, work)
        return np.stack([steps(bounds.score()), bounds.offchip_B, work.results * work.parts, bounds.total()], axis=1)

    def _fitting_rows(self, choices: Ints, rows: Ints, index: int) -> tuple[Ints, Candidates]:
        """Return those of these rows (plans whose first is ``index``) that exist and fit the buffers."""
        rows, fitted = self._fitted(choices, rows, index)
        if fitted is None:
            return rows, self._existing(choices, rows, index)[1]
        for table in (self.needs, self.wants):
            self._note(table, index, fitted.most_B)
        self.misfits += [fitted.need] if fitted.need else []
        return rows[fitted.fits], fitted.kept

    def _fitted(self, choices: Ints, rows: Ints, index: int) -> tuple[Ints, Fitted | None]:
        """Return those of these rows that exist, and which of them fit; None where there are none."""
        rows, c = self._existing(choices, rows, index)
        if not len(c):
            return rows, None
        shape, option = self._step.shape_of(c.a_resident), self._options[self._plans[index].option]
        return rows, self._fitting.fitted(c, shape, _sides_B(shape), option.room)

    def _existing(self, choices: Ints, rows: Ints, index: int) -> tuple[Ints, Candidates]:
        plan, table = self._plans[index], self._axes
        option, gemm = self._options[plan.option], self._step.shape.gemm
        rows = rows[self._tm[index, choices[rows, 3]] > 0]
        tg, tn, tk = table.tg[choices[rows, 2]], table.tn[choices[rows, 4]], table.tk[choices[rows, 5]]
        whole = (tg == 1) | ((tn >= gemm.N) & (tk >= gemm.K))
        rows, tg, tn, tk = rows[whole], tg[whole], tn[whole], tk[whole]
        plans = choices[rows, 0]
        return rows, Candidates(
            self._orders[choices[rows, 1]], option.a_resident, self._whole_k[plans], option.y_resident,
            self._a_slots[plans], tg, self._tm[index, choices[rows, 3]], tn, tk, split=plan.split,
            arrays=1 if plan.split == "none" else self._step.arrays, strip=plan.rows.strip,
        )  # fmt: skip


def _sides_B(shape: Shape) -> float:
    """Bytes of streamed side operands per sum."""
    return sum(side.element_B for side in shape.sides)


def steps(clocks: Floats | float) -> Floats:
    """Return clocks on a logarithmic scale, in whole steps of a factor 1 + ``RESOLUTION``."""
    found: Floats = np.floor(np.log(np.maximum(clocks, 1.0)) / np.log1p(RESOLUTION))
    return found


def _alike(name: str, other: str, one: Fields[str, Bools]) -> Bools:
    """Return a mask of candidates for which two orders run the same loops in one sequence, single iterations left
    out."""
    pairs = [
        (x, y) for x, y in ("mn", "mk", "nk") if (name.index(x) < name.index(y)) != (other.index(x) < other.index(y))
    ]
    same: Bools = np.ones(len(one["m"]), np.bool_)
    for x, y in pairs:
        same &= one[x] | one[y]
    return same
