"""Ops that copy without arithmetic: concat, split, slice, gather, transpose, pad, expand, tile, ..."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from accelsim.types import Array
from accelsim.workload.graph import FORMAT_BYTES, Node
from accelsim.workload.ops.base import Op, Shape, register
from accelsim.workload.ops.values import (
    CONTAINERS,
    Infer,
    Infers,
    Ins,
    Kernel,
    Values,
    array,
    broadcast,
    known_within,
    no_work,
    require,
    tensor,
    within,
)


def _one(rule: Callable[[Node, Shape], Shape]) -> Infer:
    """Shape rule of an op of one input and one output."""

    def infer(node: Node, ins: Ins) -> Infers:
        x = tensor(node, ins, 0)
        return [(rule(node, x.shape), x.dtype)]

    return infer


def _register(name: str, infer: Infer, kernel: Kernel, family: str = "moves", keeps: bool = True) -> None:
    register(Op(name, "move", infer, kernel, no_work, family=family, keeps=keeps))


def _concat_infer(node: Node, ins: Ins) -> Infers:
    axis, parts = node.attrs["axis"], [tensor(node, ins, index) for index in range(len(ins))]
    first = parts[0]
    for part in parts[1:]:
        alike = len(part.shape) == len(first.shape) and all(
            a == b for i, (a, b) in enumerate(zip(part.shape, first.shape, strict=True)) if i != axis
        )
        require(alike, node, f"cannot join {list(first.shape)} and {list(part.shape)} along axis {axis}")
    total = sum(part.shape[axis] for part in parts)
    return [((*first.shape[:axis], total, *first.shape[axis + 1 :]), first.dtype)]


def _concat(node: Node, values: Values) -> list[Array]:
    return [np.concatenate([array(values, i) for i in range(len(values))], axis=node.attrs["axis"])]


_register("Concat", _concat_infer, _concat)


def _append_infer(node: Node, ins: Ins) -> Infers:
    past, new = tensor(node, ins, 0), tensor(node, ins, 1)
    axis, at = node.attrs["axis"], node.attrs["at"]
    _concat_infer(node, ins)  # what cannot be joined cannot be appended either
    held = past.shape[axis]
    require(0 <= at <= held, node, f"rows from {at} on", f"a place from 0 to {held}, the rows that are there")
    return [((*past.shape[:axis], max(held, at + new.shape[axis]), *past.shape[axis + 1 :]), past.dtype)]


def _append(node: Node, values: Values) -> list[Array]:
    past, new, axis, at = array(values, 0), array(values, 1), node.attrs["axis"], node.attrs["at"]
    before, behind = np.split(past, [at], axis)
    rest = np.split(behind, [min(new.shape[axis], behind.shape[axis])], axis)[1]
    return [np.concatenate([before, new, rest], axis)]


_register("Append", _append_infer, _append, family="")


def _split_infer(node: Node, ins: Ins) -> Infers:
    x, axis, sizes = tensor(node, ins, 0), node.attrs["axis"], node.attrs["split"]
    require(sum(sizes) == x.shape[axis] and min(sizes) >= 0, node, f"split {list(sizes)} of {x.shape[axis]}")
    require(len(sizes) == len(node.outputs), node, f"{len(sizes)} parts for {len(node.outputs)} outputs")
    return [((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype) for size in sizes]


def _split(node: Node, values: Values) -> list[Array]:
    cuts = np.cumsum(node.attrs["split"])[:-1]
    return list(np.split(array(values, 0), cuts, axis=node.attrs["axis"]))


_register("Split", _split_infer, _split)


def slices(node: Node, shape: Shape) -> tuple[slice, ...]:
    """Return the slices of a Slice by ONNX's clamping: as Python's, but a negative step may run past element 0."""
    cuts = [slice(None)] * len(shape)
    a = node.attrs
    for axis, start, end, step in zip(a["axes"], a["starts"], a["ends"], a["steps"], strict=True):
        size = shape[axis]
        start, end = (value + size if value < 0 else value for value in (start, end))
        if step > 0:
            cuts[axis] = slice(min(max(start, 0), size), min(max(end, 0), size), step)
        else:
            start, end = min(max(start, 0), size - 1), min(max(end, -1), size - 1)
            cuts[axis] = slice(start, None if end < 0 else end, step)
    return tuple(cuts)


def _slice_shape(node: Node, shape: Shape) -> Shape:
    a = node.attrs
    require(all(a["steps"]), node, f"steps {list(a['steps'])}", "steps that are not 0")
    counts = [len(a[name]) for name in ("starts", "ends", "axes", "steps")]
    require(len(set(counts)) == 1, node, f"{counts} starts, ends, axes and steps", "as many of each")
    return tuple(len(range(*cut.indices(size))) for cut, size in zip(slices(node, shape), shape, strict=True))


def _slice(node: Node, values: Values) -> list[Array]:
    x = array(values, 0)
    return [x[slices(node, x.shape)]]


_register("Slice", _one(_slice_shape), _slice)


def _gather_infer(node: Node, ins: Ins) -> Infers:
    x, indices, axis = tensor(node, ins, 0), tensor(node, ins, 1), node.attrs["axis"]
    require(axis < len(x.shape), node, f"axis {axis} of {list(x.shape)}")
    known_within(node, indices, x.shape[axis])
    return [((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x.dtype)]


def _gather(node: Node, values: Values) -> list[Array]:
    x, axis = array(values, 0), node.attrs["axis"]
    return [np.asarray(np.take(x, within(node, array(values, 1), x.shape[axis]), axis=axis))]


_register("Gather", _gather_infer, _gather, "indexing")


def _transpose(node: Node, values: Values) -> list[Array]:
    return [np.asarray(np.transpose(array(values, 0), node.attrs["perm"]), order="C")]


def _transposed(node: Node, shape: Shape) -> Shape:
    perm = node.attrs["perm"]
    require(sorted(perm) == list(range(len(shape))), node, f"perm {list(perm)} of {list(shape)}", "each axis once")
    return tuple(shape[axis] for axis in perm)


_register("Transpose", _one(_transposed), _transpose)


PAD_MODES = ("constant", "reflect", "edge", "wrap")


def _pad_shape(node: Node, shape: Shape) -> Shape:
    pads, mode = node.attrs["pads"], node.attrs["mode"]
    require(mode in PAD_MODES, node, f"mode {mode!r}", ", ".join(PAD_MODES))
    require(len(pads) == 2 * len(shape), node, f"pads {list(pads)}", f"{2 * len(shape)} of them")
    return tuple(n + pads[i] + pads[i + len(shape)] for i, n in enumerate(shape))


def _pad(node: Node, values: Values) -> list[Array]:
    x, pads, mode = array(values, 0), node.attrs["pads"], node.attrs["mode"]
    before, after = pads[: x.ndim], pads[x.ndim :]
    cuts = tuple(slice(max(-b, 0), n - max(-a, 0)) for b, a, n in zip(before, after, x.shape, strict=True))
    widths = [(max(b, 0), max(a, 0)) for b, a in zip(before, after, strict=True)]
    if mode == "constant":
        return [np.pad(x[cuts], widths, constant_values=x.dtype.type(node.attrs["value"]))]
    return [np.pad(x[cuts], widths, mode=mode)]


_register("Pad", _one(_pad_shape), _pad)


def _expand_shape(node: Node, shape: Shape) -> Shape:
    return broadcast(node, [shape, tuple(node.attrs["shape"])])


def _expand(node: Node, values: Values) -> list[Array]:
    x = array(values, 0)
    return [np.asarray(np.broadcast_to(x, _expand_shape(node, x.shape)), order="C")]


_register("Expand", _one(_expand_shape), _expand)


def _tile_shape(node: Node, shape: Shape) -> Shape:
    return tuple(n * times for n, times in zip(shape, node.attrs["repeats"], strict=True))


def _tile(node: Node, values: Values) -> list[Array]:
    return [np.tile(array(values, 0), tuple(node.attrs["repeats"]))]


_register("Tile", _one(_tile_shape), _tile)


def _bit_cast_infer(node: Node, ins: Ins) -> Infers:
    x, to = tensor(node, ins, 0), node.attrs["to"]
    require(FORMAT_BYTES[x.dtype] == FORMAT_BYTES[to], node, f"{x.dtype} as {to}", "formats of the same size")
    return [(x.shape, to)]


def _bit_cast(node: Node, values: Values) -> list[Array]:
    """Read stored bits as another format."""
    from accelsim.workload.ops.foreign import stored

    given = stored(array(values, 0), node.attrs["given"])
    kind = stored(np.zeros(1, CONTAINERS[node.attrs["to"]]), node.attrs["to"]).dtype
    return [given.view(kind).astype(CONTAINERS[node.attrs["to"]])]


_register("BitCast", _bit_cast_infer, _bit_cast, "conversions", keeps=False)


def _to_space_shape(node: Node, shape: Shape) -> Shape:
    n, c, h, w = shape
    block = node.attrs["blocksize"]
    require(c % block**2 == 0, node, f"{c} channels", f"a multiple of {block**2}")
    return n, c // block**2, h * block, w * block


def _to_space(node: Node, values: Values) -> list[Array]:
    x, block = array(values, 0), node.attrs["blocksize"]
    n, c, h, w = x.shape
    if node.attrs["mode"] == "CRD":
        parts = x.reshape(n, c // block**2, block, block, h, w).transpose(0, 1, 4, 2, 5, 3)
    else:
        parts = x.reshape(n, block, block, c // block**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    return [parts.reshape(_to_space_shape(node, x.shape))]


_register("DepthToSpace", _one(_to_space_shape), _to_space, "blocks")


def _to_depth_shape(node: Node, shape: Shape) -> Shape:
    n, c, h, w = shape
    block = node.attrs["blocksize"]
    require(h % block == 0 and w % block == 0, node, f"{h} x {w}", f"multiples of {block}")
    return n, c * block**2, h // block, w // block


def _to_depth(node: Node, values: Values) -> list[Array]:
    x, block = array(values, 0), node.attrs["blocksize"]
    n, c, h, w = x.shape
    order = (0, 1, 3, 5, 2, 4) if node.attrs.get("mode") == "CRD" else (0, 3, 5, 1, 2, 4)
    parts = x.reshape(n, c, h // block, block, w // block, block).transpose(order)
    return [parts.reshape(_to_depth_shape(node, x.shape))]


_register("SpaceToDepth", _one(_to_depth_shape), _to_depth, "blocks")
