"""Several cores share one product: each does a part of its groups, rows, columns or reduction from buffers of its own.

Operands come from the memory that all cores see, and there the result goes, tile by tile. What cores have of a sum
whose reduction they share goes there too, in the format in which it is added; the first core adds all of it on its way
out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import NamedTuple, cast

from accelsim.engines.base import Lowering, Mapped
from accelsim.engines.systolic.lower import MatrixStep
from accelsim.engines.systolic.mapping.known import Choice
from accelsim.engines.systolic.mapping.ports import Ports
from accelsim.engines.systolic.mapping.search import choose, choose_with_room, lower_product
from accelsim.engines.systolic.placing import CoreShare, Result
from accelsim.errors import Infeasible
from accelsim.program.commands import Effect, Tile
from accelsim.program.mapping import SHARES, Pin, Share
from accelsim.program.tiles import in_strips, sparsity, whole
from accelsim.program.writing.entries import nbytes
from accelsim.program.writing.layout import Place
from accelsim.workload.graph import Node
from accelsim.workload.ops.base import Conv, Gemm, find

Key = tuple[int, int, int]
"""First group, row and column of a tile of the result."""

CHOSEN_BY_VALUES = 3
"""Inputs of a product from which on values choose its weights: with its last tile it is computed whole, by one core."""

CLOSED = ("nmk", "mnk")
"""Loop orders in which a tile's sums are complete before the next tile begins."""


class Shared(NamedTuple):
    """One way to share a product: the axis, a part for each core that has work, the mapping of all parts, and the
    estimate in clocks."""

    axis: Share
    parts: list[CoreShare]
    choice: Choice
    clocks: float


def lower_shared(step: Lowering, gemm: Gemm) -> Mapped:
    """Write the commands of a product on the cores of ``step.cores``, shared along the fastest axis.

    Raises Infeasible when nothing fits.
    """
    best = _best(step, gemm)
    if best.axis == "none":
        return lower_product(step, gemm, best.choice)
    _gather(step)
    mapping = replace(best.choice.mapping, share=best.axis)
    dtype, result, gathered = step.node.format or step.dtype, Result(), Gathered()
    gemm = in_strips(gemm, mapping.tq)
    given = [
        (layout, step.index, step.node, gemm, mapping, dtype, part, result)
        for layout, part in zip(step.cores, best.parts, strict=False)
    ]
    parts: list[MatrixStep] = [MatrixStep(*arguments) for arguments in given]
    if best.axis == "k":  # what is added is written before it is read
        parts = [_Contributor(*arguments, gathered=gathered) for arguments in given[1:]]
        parts.append(_Collector(*given[0], gathered=gathered))
    for part in parts:
        part.lower()
    step.notes.extend(dict.fromkeys(part.note for part in parts if part.note))
    _leave(step, result)
    return Mapped(gemm, mapping, best.choice.binds, best.choice.scored)


def _gather(step: Lowering) -> None:
    """Return what the first core has in its buffers goes to the memory, where all cores find it."""
    first, *others = step.cores
    while first.spill(step.index, ()):
        pass
    for layout, name in product(others, step.node.reads):
        layout.places[name] = Place(first.place(name).home)


def _leave(step: Lowering, result: Result) -> None:
    """Empty the buffers of the other cores; the result lies where all of them see it."""
    first, *others = step.cores
    (name,) = step.node.writes
    first.places[name].home = result.home
    for layout, operand in product(others, step.node.reads):
        place = layout.places[operand]
        if place.chip is not None:
            layout.release(layout.roles.activations, [place.chip])
            place.chip = None


def _best(step: Lowering, gemm: Gemm) -> Shared:
    """The way with the earliest estimate; of equals the first of ``SHARES``, so that no core works for nothing."""
    asked = cast(Share | None, step.pinned.get("share"))
    step = replace(step, pinned={name: value for name, value in step.pinned.items() if name != "share"})
    alone = choose_with_room(step, gemm) if asked in (None, "none") else None
    ways = [Shared("none", [CoreShare(whole(gemm), gemm)], alone, alone.clocks)] if alone else []
    kept = _kept(step, alone)
    for name in step.node.reads:  # where another core will find it
        step.cores[1].places[name] = Place(step.layout.place(name).home)
    for axis, cores in product(SHARES[1:] if asked is None else [asked], _numbers(len(step.cores))):
        torn = _tears(gemm, axis) and step.pinned.get("tq")
        parts = list(_parts(step, gemm, axis, cores)) if axis != "none" and not torn else []
        if len(parts) > 1:
            ways += _shared(step, gemm, axis, parts, kept)
    if not ways:
        why = f"{len(step.cores)} cores cannot share it by {asked!r}"
        raise Infeasible(step.node.name, step.layout.roles.sums, 0, 0, f"share {asked}", why)
    return min(ways, key=lambda way: way.clocks)


def _numbers(cores: int) -> Iterator[int]:
    while cores > 1:
        yield cores
        cores //= 2


def _shared(step: Lowering, gemm: Gemm, axis: Share, parts: list[CoreShare], kept: list[int]) -> Iterator[Shared]:
    """The best mapping of the largest part, if one fits; of all loop orders that the axis allows. ``kept``: see
    ``_kept``."""
    pinned, seen = {**step.pinned, "y_resident": False}, parts[0].seen
    if _tears(gemm, axis):
        pinned["tq"] = 0
    step = replace(step, layout=step.cores[1], sharing=len(parts), pinned=pinned)
    for more in _pins(step, len(parts)) if axis == "k" else [{}]:
        if any(step.pinned.get(name, value) != value for name, value in more.items()):
            continue
        try:
            choice = choose(replace(step, pinned={**step.pinned, **more}), seen)
        except Infeasible:
            continue
        summed = _summed(step, gemm, len(parts)) if axis == "k" else []
        yield Shared(axis, parts, choice, choice.clocks + _through_memory(step, [*kept, *summed]))


def _pins(step: Lowering, cores: int) -> Iterator[dict[str, Pin]]:
    """Return what a mapping needs whose reduction cores share: room for the sums of all of them when a tile is
    complete."""
    roles, unit = step.layout.roles, step.layout.roles.matrix
    fixed, needed = roles.fixed_slots(roles.sums), unit.count * cores
    if unit.epilogue and (fixed is None or fixed >= needed):
        slots: dict[str, Pin] = {"y_slots": needed + 1} if fixed is None else {}
        for order in CLOSED:
            yield {"order": order, "a_whole_k": False, **slots}


def _kept(step: Lowering, alone: Choice | None) -> list[int]:
    """Bytes of each tensor that one core alone keeps in its buffers and that goes through the memory where several
    share the product: operands that must be stored first, the result that the next step loads."""
    tensors = step.layout.graph.tensors
    stored = [name for name in step.node.reads if step.layout.place(name).home is None]
    loaded = step.node.writes if alone is not None and alone.mapping.y_resident else ()
    return [tensors[name].nbytes for name in (*stored, *loaded)]


def _summed(step: Lowering, gemm: Gemm, cores: int) -> list[int]:
    dtype = step.layout.roles.matrix.formats[step.node.format or step.dtype].accumulate
    return [nbytes(dtype, gemm.groups * gemm.M * gemm.N)] * 2 * (cores - 1)


def _through_memory(step: Lowering, sizes_B: Sequence[int]) -> float:
    roles = step.layout.roles
    ports, home = Ports(roles, float(roles.matrix.clock or roles.chip.clock)), roles.activations_home
    return sum(ports.latency(home) + float(ports.transfer(home, size_B)) for size_B in sizes_B)


@dataclass
class Gathered:
    """Regions in memory that hold the other cores' partial sums, by tile of the result."""

    regions: dict[Key, list[int]] = field(default_factory=dict)


def _key(tile: Tile) -> Key:
    return tile.g0, tile.m0, tile.n0


@dataclass
class _Summing(MatrixStep):
    """A core's part of a reduction."""

    gathered: Gathered = field(default_factory=Gathered)

    def _sums_B(self, tile: Tile) -> int:
        count = (tile.g1 - tile.g0) * (tile.m1 - tile.m0) * (tile.n1 - tile.n0)
        return nbytes(self.layout.roles.matrix.formats[self.dtype].accumulate, count)


class _Contributor(_Summing):
    """All cores but the first: their sums go to the memory as they are."""

    def _place_result(self) -> None:
        self.layout.places.setdefault(self.out.name, Place())

    def _finish(self, tile: Tile, sums: list[int]) -> None:
        layout, name, size_B = self.layout, f"sums of {self.out.name}", self._sums_B(tile)
        for acc in sums:
            region = layout.off_chip(layout.roles.activations_home, name, size_B)
            copy = Effect("copy", operands=((name, acc),), tensor=name)
            layout.transfers.store(self.op, acc, region, name, size_B, copy)
            self.gathered.regions.setdefault(_key(tile), []).append(region)


class _Collector(_Summing):
    """The first core: adds what the others have to its own sums, and writes the result."""

    def _finish(self, tile: Tile, sums: list[int]) -> None:
        layout, name, size_B, found = self.layout, f"sums of {self.out.name}", self._sums_B(tile), list(sums)
        for region in self.gathered.regions.pop(_key(tile)):
            slot = self.rings["sums"].take()
            layout.transfers.load(
                self.op, region, slot, name, size_B, Effect("copy", operands=((name, region),), tensor=name)
            )
            found.append(slot)
        super()._finish(tile, found)


def _parts(step: Lowering, gemm: Gemm, axis: Share, cores: int) -> Iterator[CoreShare]:
    """Yield the part of each core along an axis: whole channels of a convolution and whole patterns of sparse weights
    along k; along m whole images, or rows of the only image unless a pooling needs it whole."""
    if len(step.node.inputs) >= CHOSEN_BY_VALUES:
        return
    conv, kernel, per_image = gemm.conv, 1, 1
    if conv is not None:
        kernel = prod(conv.kernel)
        per_image = prod(conv.out) if conv.batch > 1 or _pools(step.node) else conv.out[1]
    extents = {"g": gemm.groups, "m": gemm.M, "n": gemm.N, "k": gemm.K}
    granule = {"m": per_image, "k": kernel * sparsity(step.node)[1]}.get(axis, 1)
    most = -(-extents[axis] // (cores * granule)) * granule
    largest = min(most, extents[axis])
    if conv is not None and axis in "mk":
        conv = _band(conv, largest) if axis == "m" else replace(conv, channels=largest // kernel)
    sizes = extents | {axis: largest}
    seen = replace(gemm, groups=sizes["g"], M=sizes["m"], N=sizes["n"], K=sizes["k"], conv=conv)
    for first in range(0, extents[axis], most):
        tile = whole(gemm)._asdict() | {f"{axis}0": first, f"{axis}1": min(first + most, extents[axis])}
        yield CoreShare(Tile(**tile), seen)


def _tears(gemm: Gemm, axis: Share) -> bool:
    return axis == "m" and gemm.conv is not None and gemm.conv.batch == 1


def _band(conv: Conv, rows: int) -> Conv:
    """The convolution of so many positions, anywhere in the image: a border that would be padded is not."""
    if rows >= prod(conv.out):
        return replace(conv, batch=rows // prod(conv.out))
    high = rows // conv.out[1]
    height = (high - 1) * conv.stride[0] + (conv.kernel[0] - 1) * conv.dilation[0] + 1
    pad = (0, conv.pad[1], 0, conv.pad[3])
    return replace(conv, height=min(height, conv.height), pad=pad, out=(high, conv.out[1]))


def _pools(node: Node) -> bool:
    return any((op := find(part.op)) is not None and op.kind == "pool" for part in node.epilogue)
