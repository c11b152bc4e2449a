"""Constants of all candidates of one step, and the bounds of each candidate."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from accelsim.engines.base import Lowering
from accelsim.engines.systolic.pace import ADDING, ONE_ROW, Pace, pace_of
from accelsim.engines.systolic.spec import MatrixUnit
from accelsim.program.mapping import Mapping, Pin
from accelsim.program.roles import function_unit
from accelsim.program.tiles import DENSE, slabs, sparsity
from accelsim.program.writing.layout import Layout
from accelsim.types import Floats
from accelsim.workload.graph import FORMAT_BYTES
from accelsim.workload.nodes import gemm_view
from accelsim.workload.ops.base import Conv, Gemm, find


class Side(NamedTuple):
    """A side operand that is streamed: the memory that it comes from, bytes of an element and of all of it."""

    memory: str
    element_B: float
    size_B: int


@dataclass(frozen=True)
class Shape:
    """Constants of all candidates of one step. Bytes are per element; counts in words."""

    gemm: Gemm
    a_B: float
    b_B: float
    y_B: float
    sum_B: float
    alone: Pace  # of one array
    results_share: float  # result elements per sum (below 1 behind a pooling)
    functions: tuple[int, ...]  # clocks per element and lane of each fused function
    sides: tuple[Side, ...]  # side operands that are streamed
    parameters_B: int
    b_streamed: bool
    reuse: bool = True  # whether a tile is loaded only when it is not that of the command before
    w_slots: int = 2
    sparse: tuple[int, int] = DENSE  # weights kept, of how many
    sum_slots: int = 2  # where results leave from the accumulators themselves
    together: Pace = ONE_ROW  # where all arrays side by side stream
    adding: int = 0  # clocks per element and lane of adding what two arrays have of a sum

    def pace(self, arrays: int) -> Pace:
        """Return the pace of each of so many arrays that stream at once."""
        return self.alone if arrays == 1 else self.together


@dataclass(frozen=True)
class Homes:
    """Memories from which the operands come and to which results go; ``a_to_load``: A is not on the chip yet."""

    a: str
    b: str
    y: str
    a_to_load: bool

    def path_name(self, memory: str) -> str:
        """Name the traffic that comes in from a memory, in words."""
        if self.a == self.b:
            return f"traffic of {memory}"
        return f"weight fetch from {memory}" if memory == self.b else f"activations from {memory}"


class Buffers(NamedTuple):
    """Free bytes of each buffer except that of the activations, and (bytes, number) of the slots of each buffer with
    fixed slots, by name."""

    free_B: tuple[tuple[str, int], ...]
    slots: tuple[tuple[str, tuple[int, int]], ...]


@dataclass(frozen=True)
class Step:
    """Everything that the best mapping of a step depends on, but for the room that tiles have: its shape when the
    activations are streamed and when they are on the chip, and where they are. What is equal is searched once.

    ``sharing``: cores that use the memories at the same time. ``ahead``: the first weights may be loaded while the step
    before is still at work. ``rows``: what tm must be a multiple of, with whole slabs
    of a streamed convolution and without.
    """

    unit: MatrixUnit = field(compare=False)  # one per chip, and steps of one chip are compared
    streamed: Shape
    resident: Shape
    homes: Homes
    rows: tuple[int, int]
    buffers: Buffers
    sharing: int
    pinned: tuple[tuple[str, Pin], ...]
    ahead: bool = False

    @cached_property
    def product(self) -> str:
        """Return all fields but the unit and the room as text."""
        slots = self.buffers.slots
        return repr((self.streamed, self.resident, self.homes, self.rows, slots, self.sharing, self.pinned, self.ahead))

    @property
    def shape(self) -> Shape:
        """Return the shape with streamed activations, for uses in which residency does not matter."""
        return self.streamed

    @property
    def arrays(self) -> int:
        """Number of arrays that work side by side."""
        return self.unit.count

    def shape_of(self, a_resident: bool) -> Shape:
        """Return the shape with activations on the chip, or streamed."""
        return self.resident if a_resident else self.streamed


@dataclass(frozen=True)
class Bounds:
    """Clocks of each path by name, clocks for which others are ``held`` up (see ``score``), and the bytes that leave or
    enter the chip."""

    paths: dict[str, Floats]
    held: Floats
    offchip_B: Floats

    def total(self) -> Floats:
        """The estimate: the longest path."""
        longest: Floats = np.maximum.reduce(list(self.paths.values()))
        return longest

    def score(self) -> Floats:
        """Return what the search compares: how long the step takes, and for how long it keeps others from what they
        need.

        Steps overlap. One that waits for this step waits for all of it; one beside it, that needs a single resource,
        for as long as that is busy. Which one it will be is not known yet, so array, vector unit and the ports of the
        memories count the same: ``held`` is their mean. And the paths take it that all hand-overs are hidden: it has a
        token for each tile too.
        """
        return self.total() + self.held

    def binds(self, index: int) -> str:
        """Name of the longest path of one candidate."""
        return max(self.paths, key=lambda name: self.paths[name][index])


FEW = 2
"""Widths of strips that a fast search tries."""


def describe(step: Lowering, gemm: Gemm) -> Step:
    """Describe a step by the values that decide its mapping."""
    streamed, sides = _shape(step, gemm, False), _streamed_sides(step, gemm, True)
    resident = streamed if sides == _streamed_sides(step, gemm, False) else _shape(step, gemm, True)
    return Step(
        step.layout.roles.matrix,
        streamed,
        resident,
        _homes(step.layout, gemm, step.node.writes[0]),
        _rows(step, gemm),
        _buffers(step.layout),
        step.sharing,
        tuple(sorted(step.pinned.items())),
        step.layout.graph.tensors[gemm.b].is_constant and len(step.layout.builder.commands) > 0,
    )


def _shape(step: Lowering, gemm: Gemm, a_resident: bool) -> Shape:
    layout, node, roles = step.layout, step.node, step.layout.roles
    unit, tensors, dtype = roles.matrix, step.layout.graph.tensors, step.node.format or step.dtype
    vector = function_unit(roles.chip, [part.op for part in node.epilogue])
    one, all_ = (_pace(step, gemm, dtype, arrays) for arrays in (1, unit.count))
    whole = gemm_view(layout.graph, node) or gemm
    a, b, out = tensors[gemm.a], tensors[gemm.b], tensors[node.writes[0]]
    return Shape(
        gemm=replace(gemm, a="", b=""),
        a_B=a.element_B,
        b_B=b.element_B,
        y_B=out.element_B,
        sum_B=FORMAT_BYTES[unit.formats[dtype].accumulate],
        alone=one,
        together=all_,
        adding=vector.spec.functions.get(ADDING, 1) if vector else 0,
        results_share=out.elements / (whole.groups * whole.M * whole.N),
        functions=tuple(vector.spec.functions.get(part.op, 1) for part in node.epilogue) if vector else (),
        sides=tuple(_side(layout, name) for name in _streamed_sides(step, gemm, a_resident)),
        parameters_B=sum(tensors[name].nbytes for name in layout.facts.epilogue_reads(node).parameters),
        b_streamed=b.is_constant or layout.place(gemm.b).chip is None,
        reuse=bool(step.pinned.get("reuse", True)),
        w_slots=_weight_slots(step),
        sparse=sparsity(node),
        sum_slots=roles.fixed_slots(roles.sums) or 1 << 30,
    )


def _side(layout: Layout, name: str) -> Side:
    tensor, home = layout.graph.tensors[name], layout.place(name).home
    memory = layout.roles.activations_home if home is None else layout.builder.regions[home].memory
    return Side(memory, tensor.element_B, tensor.nbytes)


def _pace(step: Lowering, gemm: Gemm, dtype: str, arrays: int) -> Pace:
    roles, tensors = step.layout.roles, step.layout.graph.tensors
    streamed = {"a": gemm.a, "b": gemm.b}[roles.matrix.flow.at_rows]
    return pace_of(roles, dtype, tensors[streamed].memory_format, arrays)


def _weight_slots(step: Lowering) -> int:
    """Weight tiles in flight."""
    roles = step.layout.roles
    if roles.fixed_slots(roles.weights) is not None:
        return step.layout.slots.shape(roles.weights)[1]
    return int(step.pinned.get("w_slots", 2))


def _streamed_sides(step: Lowering, gemm: Gemm, a_resident: bool) -> list[str]:
    names = step.layout.facts.epilogue_reads(step.node).sides
    missing = [name for name in names if step.layout.place(name).chip is None]
    return [name for name in missing if name != gemm.a or not a_resident]


def _rows(step: Lowering, gemm: Gemm) -> tuple[int, int]:
    """Return what tm must be a multiple of: a whole image behind a fused pooling; and whole rows of a streamed
    convolution."""
    if gemm.conv is None:
        return 1, 1
    pooled = any((op := find(part.op)) is not None and op.kind == "pool" for part in step.node.epilogue)
    image, row = gemm.conv.out[0] * gemm.conv.out[1], gemm.conv.out[1]
    return (image, image) if pooled else (1, row)


def _homes(layout: Layout, gemm: Gemm, result: str) -> Homes:
    """Describe the sources of the operands and the destination of the result."""
    a, b, regions = layout.place(gemm.a), layout.place(gemm.b), layout.builder.regions
    a_home = regions[a.home].memory if a.home is not None else layout.result_home(gemm.a)
    b_home = regions[b.home].memory if b.home is not None else layout.roles.weights_home
    return Homes(a_home, b_home, layout.result_home(result), a.chip is None)


def _buffers(layout: Layout) -> Buffers:
    """Room in the buffers in which no activations lie, and the fixed slots of all."""
    roles = layout.roles
    names = dict.fromkeys((roles.weights, roles.sums, roles.activations))
    free = tuple((name, layout.spaces[name].room_after([]) or 0) for name in names if name != roles.activations)
    fixed = [name for name in names if roles.fixed_slots(name) is not None]
    return Buffers(free, tuple((name, layout.slots.shape(name)) for name in fixed))


def strips(step: Step, flat: Mapping | None, beat_B: int, most: int | None) -> list[int]:
    """Widths of strips: halves, quarters, ... of the image, a row of them no shorter than what its memory moves at a
    time. None of anything but images, nor where a fused pooling needs these whole.

    Beside the best tiling through whole rows, ``flat`` (None where none fits), ``most`` of those that in blocks as
    large as its tiles read least, and less than it. So there is none where it reads no row of an image twice.
    """
    gemm, conv = step.shape.gemm, step.shape.gemm.conv
    if conv is None or step.rows[False] > 1:
        return []
    halves = [-(-conv.out[1] // 2**power) for power in range(1, (conv.out[1] - 1).bit_length() + 1)]
    wide = [width for width in halves if width * conv.stride[1] * step.shape.a_B >= beat_B]
    if flat is None:
        return wide
    once, read = (slabs(conv, gemm.M, tm)[0] for tm in (conv.out[0] * conv.out[1], flat.tm))
    if flat.a_resident or read <= once:
        return []
    words = {width: _in_blocks(conv, width, flat.tm) for width in wide}
    return sorted((width for width in wide if words[width] < read), key=words.__getitem__)[:most]


def _in_blocks(conv: Conv, width: int, pixels: int) -> int:
    rows = min(max(1, round(pixels / width)), conv.out[0])
    return slabs(replace(conv, strip=width), conv.batch * conv.out[0] * conv.out[1], rows * width)[0]
