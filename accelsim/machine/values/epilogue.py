"""The epilogue of a matrix node on one tile of its sums: the same kernels as on whole tensors, on slices.

A tile of sums is [groups, m, n], and stays so with the channels last, for a convolution of one group too where every
function is element-wise. Else that of a convolution takes the layout of the result tensor for the kernels:
[images, channels, *spatial] when the tile holds whole images and [1, channels, 1.., positions] when it does not (then
every function is element-wise), with as many spatial axes as the result has.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from accelsim.program.commands import Tile
from accelsim.types import Array
from accelsim.workload.graph import Graph, Node
from accelsim.workload.matrix import in_order
from accelsim.workload.ops.base import Gemm, get
from accelsim.workload.ops.values import contain, row_major

PER_CHANNEL = ("scale", "multiplier", "zero_point")
"""Attributes that may hold one value per channel."""

ELEMENTWISE = frozenset({"elementwise", "quantise"})
"""Kinds of ops whose results depend on one element each, and on parameters of its channel."""


@dataclass(frozen=True)
class TileShape:
    """Geometry of a tile: its ranges, the layout for the kernels, and which channels of the result it holds."""

    groups: int
    m: int
    n: int
    layout: tuple[int, ...]
    axis: int  # of the channels in the layout
    first: int  # channel
    channels: int
    whole: int  # channels of the result tensor

    @classmethod
    def of_product(cls, gemm: Gemm, tile: Tile, result: tuple[int, ...], node: Node) -> TileShape:
        """Shape of a tile of the product of ``node``, whose sums as a tensor have the shape ``result``."""
        groups, m, n = tile.g1 - tile.g0, tile.m1 - tile.m0, tile.n1 - tile.n0
        alone = gemm.groups == 1 and all(get(part.op).kind in ELEMENTWISE for part in node.epilogue)
        if gemm.conv is None or alone:
            return cls(groups, m, n, (groups, m, n), 2, tile.n0, n, gemm.N)
        spatial = result[2:]
        size = prod(spatial)
        whole = tile.m0 % size == 0 and m % size == 0
        layout = (m // size, groups * n, *spatial) if whole else (1, groups * n, *[1] * (len(spatial) - 1), m)
        return cls(groups, m, n, layout, 1, tile.g0 * gemm.N + tile.n0, groups * n, gemm.groups * gemm.N)

    def spread(self, tile: Array) -> Array:
        """[groups, m, n] -> layout of the kernels."""
        if self.axis == 2:
            return tile
        images = self.layout[0]
        by_image = tile.reshape(self.groups, images, prod(self.layout[2:]), self.n).transpose(1, 0, 3, 2)
        return by_image.reshape(self.layout)

    def gather(self, result: Array) -> Array:
        """Layout of the kernels -> [groups, m, n] (m is smaller behind a pooling)."""
        if self.axis == 2:
            return result
        images = result.shape[0]
        by_group = result.reshape(images, self.groups, self.n, -1).transpose(1, 0, 3, 2)
        return by_group.reshape(self.groups, -1, self.n)

    def slice_channels(self, values: Array) -> Array:
        """One value per channel of the result -> those of this tile."""
        return values[self.first : self.first + self.channels]


def result_matrix(gemm: Gemm, value: Array, shape: tuple[int, ...]) -> Array:
    """A tensor that broadcasts to the result, as [groups, M, N]."""
    full = np.broadcast_to(value, shape)
    if gemm.conv is None:
        return full.reshape(gemm.groups, gemm.M, gemm.N)
    by_group = full.reshape(gemm.conv.batch, gemm.groups, gemm.N, -1).transpose(1, 0, 3, 2)
    return in_order(gemm.conv, by_group.reshape(gemm.groups, gemm.M, gemm.N), 1)


def run_epilogue(node: Node, graph: Graph, shape: TileShape, sums: Array, sides: dict[str, Array]) -> Array:
    """All fused functions on one tile: [groups, m, n] sums and side operands -> [groups, m', n] results."""
    inside: dict[str, Array] = {node.outputs[0]: shape.spread(contain(sums, graph.tensors[node.outputs[0]].dtype))}
    result = inside[node.outputs[0]]
    for part in node.epilogue:
        operands = [_operand(graph, shape, name, inside, sides) for name in part.inputs]
        arrays = [operand if operand is None else row_major(operand) for operand in operands]
        result = get(part.op).kernel(_sliced(part, shape), arrays)[0]
        inside[part.outputs[0]] = result = contain(result, graph.tensors[part.outputs[0]].dtype)
    return shape.gather(result)


def _operand(
    graph: Graph, shape: TileShape, name: str, inside: dict[str, Array], sides: dict[str, Array]
) -> Array | None:
    if not name:
        return None
    if name in inside:
        return inside[name]
    if name in sides:
        return shape.spread(sides[name])
    value = contain(graph.tensors[name].value(), graph.tensors[name].dtype)
    if value.size == 1:
        return value.reshape(())
    vector = shape.slice_channels(value.reshape(-1))
    return (
        vector
        if value.ndim == 1
        else vector.reshape([-1 if axis == shape.axis else 1 for axis in range(len(shape.layout))])
    )


def _sliced(part: Node, shape: TileShape) -> Node:
    """The node with its per-channel attributes cut to the tile and its axis that of the layout."""
    attrs: dict[str, Any] = dict(part.attrs)
    if attrs.get("axis") is not None:
        attrs["axis"] = shape.axis
    for key in PER_CHANNEL:
        if isinstance(attrs.get(key), np.ndarray) and attrs[key].size > 1:
            attrs[key] = shape.slice_channels(attrs[key])
    return replace(part, attrs=attrs)
