"""Transposed convolution without inserted zeros, as ordinary convolutions of the input.

Outputs whose places are equal modulo the stride (a *phase*) see the same places of the kernel, so each phase is a
convolution of stride 1 by a part of the kernel. Neighbouring phases that see the input in the same way are one
convolution with more filters. Dumoulin and Visin, "A guide to convolution arithmetic for deep learning",
arXiv:1603.07285, section 4, have the same products and more: those of the zeros between the elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd, prod
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from accelsim.types import Array

T = TypeVar("T")


MOST_PLACES = 65_536
"""Places of a kernel along an axis, and phases (the product of the strides), of a transposed convolution."""
MOST_FILTERS = 1 << 24
"""Filters of all phases together: a number for each is made where they must be put in order."""


class Maker(Protocol[T]):
    """Appends nodes to a graph; ``T``: how it names tensors."""

    def add(self, op: str, *inputs: T, **attrs: Any) -> T:
        """Append a node of one result and return the result."""

    def constant(self, value: Array) -> T:
        """Return a constant."""

    def zeros(self, *shape: int) -> T:
        """Return a constant of zeros."""


@dataclass(frozen=True)
class Geometry:
    """A transposed convolution of [images, channels, *size] with weights [channels, filters / group, *kernel].

    Element ``i`` of an axis adds, by place ``k`` of the kernel, to output ``i * strides + k * dilations - begins`` of
    ``out``.
    """

    images: int
    channels: int
    filters: int
    group: int
    size: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begins: tuple[int, ...]
    out: tuple[int, ...]

    @property
    def fits(self) -> bool:
        """Return whether it is within ``MOST_PLACES`` and ``MOST_FILTERS``."""
        phases = prod(self.strides)
        return max(phases, *self.kernel) <= MOST_PLACES and phases * self.filters <= MOST_FILTERS


@dataclass(frozen=True)
class _Run:
    """Neighbouring phases of one axis. ``places``: of the kernel, [phases, taps], in the order of the input; ``low``:
    the input element that the first tap of the first output sees; taps are ``step`` elements apart."""

    places: tuple[tuple[int, ...], ...]
    low: int
    step: int
    outputs: int

    @property
    def phases(self) -> int:
        return len(self.places)

    @property
    def taps(self) -> int:
        return len(self.places[0])


def transposed_conv(make: Maker[T], x: T, w: T, bias: T | None, geometry: Geometry) -> T:
    """Append the nodes of a transposed convolution and return its result [images, filters, *out]."""
    g, rank = geometry, len(geometry.size)
    axes = [_runs(g, axis) for axis in range(rank)]
    parts = [_Part(make, g, runs) for runs in product(*axes)]
    made = [part.make(x, w, bias) for part in parts]
    if prod(g.strides) == 1:
        return made[0]
    whole, group = made[0], g.group
    if len(made) > 1:
        whole, group, order = make.add("Concat", *made, axis=1), 1, _order(g, axes, parts)
        if not np.array_equal(order, np.arange(len(order))):
            whole = make.add("Gather", whole, make.constant(order), axis=1)
    rounds = _rounds(g)
    whole = make.add("Reshape", whole, shape=[g.images, group, *g.strides, g.filters // group, *rounds])
    perm = [0, 1, rank + 2, *(place for axis in range(rank) for place in (rank + 3 + axis, 2 + axis))]
    whole = make.add("Transpose", whole, perm=perm)
    wide = [each * stride for each, stride in zip(rounds, g.strides, strict=True)]
    whole = make.add("Reshape", whole, shape=[g.images, g.filters, *wide])
    return _padded(make, whole, [0] * rank, [out - each for out, each in zip(g.out, wide, strict=True)])


def _rounds(g: Geometry) -> list[int]:
    """Outputs of the first phase of each axis; those of the others are padded to as many."""
    return [-(-out // stride) for out, stride in zip(g.out, g.strides, strict=True)]


def _runs(g: Geometry, axis: int) -> list[_Run]:
    """The phases of an axis, neighbours that are alike together."""
    stride, dilation, begin = g.strides[axis], g.dilations[axis], g.begins[axis]
    step, found = dilation // gcd(stride, dilation), list[_Run]()
    for phase in range(stride):
        outputs = max(0, -(-(g.out[axis] - phase) // stride))
        places = [k for k in reversed(range(g.kernel[axis])) if (phase + begin - k * dilation) % stride == 0]
        low = (phase + begin - places[0] * dilation) // stride if places else 0
        last = low + step * (len(places) - 1) + outputs - 1
        if not outputs or low >= g.size[axis] or last < 0:
            places, low = [], 0
        run = _Run((tuple(places),), low, step, outputs)
        before = found[-1] if found else None
        if before and (before.taps, before.low, before.outputs) == (run.taps, low, outputs):
            found[-1] = _Run((*before.places, *run.places), low, step, outputs)
        else:
            found.append(run)
    return found


def _order(g: Geometry, axes: Sequence[Sequence[_Run]], parts: Sequence[_Part[Any]]) -> Array:
    """Channel of all parts one after the other -> where [*strides, filters] has it, turned round."""
    firsts = [np.cumsum([0, *(run.phases for run in runs)]).tolist() for runs in axes]
    each, channels = g.filters // g.group, []
    for place, part in zip(product(*(range(len(runs)) for runs in axes)), parts, strict=True):
        ranges = [np.arange(run.phases) + firsts[axis][place[axis]] for axis, run in enumerate(part.runs)]
        grid = np.ix_(np.arange(g.group), *ranges, np.arange(each))
        flat: Any = 0
        for axis, stride in enumerate(g.strides):
            flat = flat * stride + grid[1 + axis]
        channels.append((flat * g.filters + grid[0] * each + grid[-1]).reshape(-1))
    return np.argsort(np.concatenate(channels)).astype(np.int64)


class _Part(Generic[T]):
    """One convolution: a run of phases of each axis."""

    def __init__(self, make: Maker[T], g: Geometry, runs: tuple[_Run, ...]) -> None:
        self._add, self._maker, self._g, self.runs = make.add, make, g, runs
        self._phases = [run.phases for run in runs]
        self._channels = prod(self._phases) * g.filters

    def make(self, x: T, w: T, bias: T | None) -> T:
        """Result [images, group x phases x filters / group, *outputs of the first phase]."""
        g, runs, rank = self._g, self.runs, len(self.runs)
        added = self._bias(bias)
        if not all(run.taps for run in runs):
            return self._constant(added)
        before = [-run.low for run in runs]
        after = [
            run.low + run.step * (run.taps - 1) + run.outputs - size for run, size in zip(runs, g.size, strict=True)
        ]
        x = _padded(self._maker, x, [min(0, n) for n in before], [min(0, n) for n in after])
        y = self._add(
            "Conv", x, self._weights(w), *added, kernel_shape=[run.taps for run in runs], strides=[1] * rank,
            pads=[max(0, n) for n in (*before, *after)], dilations=[run.step for run in runs], group=g.group,
            a_zero_point=0, b_zero_point=0,
        )  # fmt: skip
        missing = [whole - run.outputs for whole, run in zip(_rounds(g), runs, strict=True)]
        return _padded(self._maker, y, [0] * rank, missing)

    def _weights(self, w: T) -> T:
        """The places of the kernel that each phase sees, as filters: [channels, channels / group, *taps]."""
        g, rank = self._g, len(self.runs)
        split = [g.group, g.channels // g.group, g.filters // g.group]
        for axis, run in enumerate(self.runs):
            places = np.array(run.places, np.int64).reshape(-1)
            if not np.array_equal(places, np.arange(g.kernel[axis])):
                w = self._add("Gather", w, self._maker.constant(places), axis=2 + axis)
            split += [run.phases, run.taps]
        w = self._add("Reshape", w, shape=split)
        perm = [0, *range(3, 3 + 2 * rank, 2), 2, 1, *range(4, 4 + 2 * rank, 2)]
        w = self._add("Transpose", w, perm=perm)
        return self._add("Reshape", w, shape=[self._channels, split[1], *(run.taps for run in self.runs)])

    def _bias(self, bias: T | None) -> list[T]:
        """Return the bias of each filter, for all of its phases."""
        if bias is None or prod(self._phases) == 1:
            return [] if bias is None else [bias]
        g = self._g
        shape = [g.group, prod(self._phases), g.filters // g.group]
        once = self._add("Reshape", bias, shape=[shape[0], 1, shape[2]])
        return [self._add("Reshape", self._add("Expand", once, shape=shape), shape=[self._channels])]

    def _constant(self, added: list[T]) -> T:
        """Outputs that no element of the input reaches."""
        shape = [self._g.images, self._channels, *_rounds(self._g)]
        if not added:
            return self._maker.zeros(*shape)
        once = self._add("Reshape", added[0], shape=[1, self._channels, *[1] * len(self.runs)])
        return self._add("Expand", once, shape=shape)


def _padded(make: Maker[T], x: T, before: Sequence[int], after: Sequence[int]) -> T:
    """``x`` with so many more zeros, or elements less, on its last axes."""
    if not any((*before, *after)):
        return x
    return make.add("Pad", x, pads=[0, 0, *before, 0, 0, *after], mode="constant", value=0)
