"""Factors of the counts: computed once for each set of bounds that occurs, spread over the rows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelsim.mapping.blocks import Axis, Pair
from accelsim.mapping.columns import Mappings
from accelsim.mapping.rules import Rules
from accelsim.seeds import HASHES, generator
from accelsim.types import Ints
from accelsim.workload.nest import Form, LoopNest, Operand
from accelsim.workload.windows import shared, touched

_HASH = generator(HASHES).integers(1, 1 << 62, 128, dtype=np.int64) | 1


class Tables:
    """Factors of one batch of rows; each is made when it is first asked for."""

    def __init__(self, nest: LoopNest, mappings: Mappings, rules: Rules) -> None:
        self._nest, self._mappings, self._halo = nest, mappings, rules.halo
        self._gaps, self._clipped = rules.window == "interval", rules.window == "clipped"
        self._names = list(nest.axes)
        self._places = mappings.positions()
        self._cache: dict[tuple[object, ...], Ints] = {}
        self._order: dict[tuple[int, int, int], NDArray[np.bool_]] = {}
        self._axes: dict[str, Axis] = {}
        self._which: dict[str, NDArray[np.intp]] = {}
        for index, (name, extent) in enumerate(nest.axes.items()):
            bounds = np.concatenate([mappings.temporal[:, :, index], mappings.spatial[:, :, index]], axis=1)
            kinds, self._which[name] = _kinds(bounds)
            levels = bounds.shape[1] // 2
            self._axes[name] = Axis(extent, kinds[:, :levels], kinds[:, levels:])
        self._joint: dict[tuple[str, str], tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]] = {}

    def steps(self) -> Ints:
        """Iterations of all temporal loops, lanes in step."""
        levels = len(self._mappings.frame.levels)
        return self._product([self._count(axis, levels, levels, False, 0) for axis in self._names])

    def total(self, operand: Operand, child: int, shared_from: int) -> Ints:
        """Words of the tiles at ``child`` over all steps and lanes that have work."""
        parts = [self._whole(form, child) for form in operand.dims.values()]
        for axis in self._nest.reduced(operand):
            parts.append(self._count(axis, child, child, False, shared_from))
        return self._product(parts)

    def first(self, operand: Operand, child: int, shared_from: int) -> Ints:
        """Words of a result that come to each group of lanes for the first time."""
        parts = [self._whole(form, child) for form in operand.dims.values()]
        for axis in self._nest.reduced(operand):
            parts.append(self._count(axis, child, 0, False, shared_from))
        return self._product(parts)

    def stays(self, operand: Operand, child: int, shared_from: int, level: int, axis: str) -> Ints | None:
        """Words that need not come anew over the steps of the loop of ``axis`` at ``level``; None for none at all."""
        loops = self._mappings.temporal[:, level, self._names.index(axis)]
        if all(form.axes != (axis,) for form in operand.dims.values()) and (loops > 1).any():
            windowed = axis in operand.axes
            if windowed and (self._halo == "fetched"):
                return None
            parts = [self._once(self._stays_in, form, child, level, axis) for form in operand.dims.values()]
            for other in self._nest.reduced(operand):
                alike = min(shared_from, child)
                parts.append(self._once(self._steps_of, other, child, alike, level, axis))
            return self._product(parts)
        return None

    def _product(self, parts: list[Ints]) -> Ints:
        rows = len(self._mappings)
        few = prod(int(part[0]) for part in parts if len(part) < rows)
        result = np.full(rows, few, np.int64)
        for part in parts:
            if len(part) == rows:
                result *= part
        return result

    def _once(self, make: Callable[..., Ints], *key: Any) -> Ints:
        """What ``make`` returns for its arguments, made once."""
        full = (make.__name__, *key)
        if full not in self._cache:
            self._cache[full] = make(*key)
        return self._cache[full]

    def _spread(self, key: tuple[object, ...], which: NDArray[np.intp], make: Callable[[], Ints]) -> Ints:
        if key not in self._cache:
            kinds = make()
            self._cache[key] = kinds if len(kinds) == 1 else kinds[which]
        return self._cache[key]

    def _count(self, axis: str, child: int, cut: int, own: bool, shared_from: int) -> Ints:
        shared_from = min(shared_from, child)
        return self._spread(
            ("count", axis, child, cut, own, shared_from), self._which[axis],
            lambda: self._axes[axis].places(child, cut, own=own, shared_from=shared_from),
        )  # fmt: skip

    def _outside(self, level: int, other: str, axis: str) -> NDArray[np.bool_]:
        """Whether the loop of ``other`` stands outside that of ``axis``, at one level."""
        key = (level, self._names.index(other), self._names.index(axis))
        if key not in self._order:
            self._order[key] = self._places[:, level, key[1]] < self._places[:, level, key[2]]
        return self._order[key]

    def _either(self, level: int, other: str, axis: str, make: Callable[[int], Ints]) -> Ints:
        """``make(cut)`` for the place that the loop of ``other`` has beside that of ``axis``."""
        inside, outside = make(level), make(level + 1)
        if inside is outside or (len(inside) == len(outside) == 1 and inside[0] == outside[0]):
            return inside
        return np.where(self._outside(level, other, axis), outside, inside)

    def _steps_of(self, other: str, child: int, shared_from: int, level: int, axis: str) -> Ints:
        if other == axis:
            return self._count(axis, child, level, True, shared_from)
        return self._either(
            level, other, axis, lambda cut: self._count(other, child, cut, False, shared_from)
        )

    def _whole(self, form: Form, child: int) -> Ints:
        """Words of one dimension, summed over the blocks of its axes."""
        if len(form.axes) == 1:
            extent = self._nest.axes[form.axes[0]]
            return np.array([extent], np.int64)
        which, *places = self._together(form)

        def make() -> Ints:
            total = np.zeros(len(places[0]), np.int64)
            rows = [[(extent[at], times[at]) for extent, times in self._axes[axis].blocks(child)]
                    for axis, at in zip(form.axes, places, strict=True)]  # fmt: skip
            for (p, p_times), (r, r_times) in product(*rows):
                total += p_times * r_times * self._touched(form, p, r)
            return total

        return self._spread(("whole", form, child), which, make)

    def _stays_in(self, form: Form, child: int, level: int, axis: str) -> Ints:
        if len(form.axes) == 1:
            name = form.axes[0]

            def make(cut: int) -> Ints:
                return self._spread(
                    ("kept", name, child, cut), self._which[name], lambda: self._axes[name].kept(child, cut)
                )

            return self._either(level, name, axis, make)
        p, r = form.axes
        if axis in form.axes:
            other = r if axis == p else p
            found = self._either(
                level, other, axis, lambda cut: self._window(form, child, level, cut, axis, False)
            )
            return (
                np.where(self._innermost(level, axis, child), found, 0)
                if self._halo == "innermost"
                else found
            )

        def moved(same: bool) -> Ints:
            return self._either(level, p, axis, lambda p_cut: self._either(
                level, r, axis, lambda r_cut: self._window(form, child, p_cut, r_cut, "", same)))  # fmt: skip

        return moved(self._halo != "kept")

    def _innermost(self, level: int, axis: str, child: int) -> NDArray[np.bool_]:
        """Whether no loop of two or more iterations stands between that of ``axis`` and ``child``."""
        temporal, index = self._mappings.temporal, self._names.index(axis)
        inside = (self._places[:, level] > self._places[:, level, index, None]) & (temporal[:, level] > 1)
        further = (temporal[:, level + 1 : child] > 1).any(axis=(1, 2))
        return np.asarray(~(inside.any(axis=1) | further), np.bool_)

    def _window(self, form: Form, child: int, first: int, second: int, own: str, same: bool) -> Ints:
        """Words that stay; ``first``, ``second``: cuts of its axes, or level of ``own`` and cut of the other."""
        p, r = form.axes
        cuts = (first, second) if own in ("", p) else (second, first)
        which, *places = self._together(form)

        def make() -> Ints:
            lists = [
                [Pair(*(column[at] for column in pair))
                 for pair in self._axes[axis].pairs(child, cut, own=axis == own, same=same)]
                for axis, cut, at in zip((p, r), cuts, places, strict=True)
            ]  # fmt: skip
            total = np.zeros(len(places[0]), np.int64)
            for one, two in product(*lists):
                total += (
                    one.times
                    * two.times
                    * (self._touched(form, one.before, two.before) if same else self._shared(form, one, two))
                )
            return total

        return self._spread(("window", form, child, *cuts, own, same), which, make)

    def _touched(self, form: Form, p: Ints, r: Ints) -> Ints:
        words = touched(form.coefficients, (p, r), gaps=self._gaps)
        return np.minimum(words, form.size) if self._clipped and form.size is not None else words

    def _shared(self, form: Form, p: Pair, r: Pair) -> Ints:
        """Elements that a window has before and after."""
        s, d = form.coefficients
        shift = s * p.shift + d * r.shift
        return shared((s, d), (p.before, r.before), (p.after, r.after), shift, gaps=self._gaps)

    def _together(self, form: Form) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """Sets of bounds of two axes that occur together: which one each row has, and those of either axis."""
        p, r = form.axes
        if (p, r) not in self._joint:
            other = len(self._axes[r].temporal)
            keys, which = np.unique(self._which[p] * other + self._which[r], return_inverse=True)
            self._joint[p, r] = (which, keys // other, keys % other)
        return self._joint[p, r]


def _kinds(bounds: Ints) -> tuple[Ints, NDArray[np.intp]]:
    """Different rows of bounds, and which one each row has."""
    if not len(bounds):
        return bounds, np.zeros(0, np.intp)
    varied = np.flatnonzero((bounds != bounds[0]).any(axis=0))
    if not len(varied):
        return bounds[:1], np.zeros(len(bounds), np.intp)
    keys = bounds[:, varied] @ _HASH[: len(varied)]
    _, firsts, which = np.unique(keys, return_index=True, return_inverse=True)
    kinds = bounds[firsts]
    if (kinds[which] != bounds).any():  # two rows with one hash
        kinds, which = np.unique(bounds, axis=0, return_inverse=True)
    return kinds, which.reshape(-1)
