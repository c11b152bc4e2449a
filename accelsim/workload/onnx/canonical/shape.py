"""Canonical forms of windows (convolution, pooling) and of everything that moves or renames elements."""

from __future__ import annotations

from math import prod

from accelsim.errors import ModelError
from accelsim.workload.graph import Attributes, Node
from accelsim.workload.onnx.canonical.rules import (
    RULES,
    Foreign,
    Scope,
    axes_of,
    axis_attribute,
    drop_unread,
    ints,
    make,
    rule,
    scalar,
)
from accelsim.workload.onnx.importing.read import RawNode
from accelsim.workload.onnx.importing.types import FORMATS
from accelsim.workload.ops.values import common_shape

_POOLS: dict[str, dict[str, int]] = {"MaxPool": {}, "AveragePool": {"count_include_pad": 0}, "LpPool": {"p": 2}}
"""Pool -> its own attributes with their defaults."""


@rule(*_POOLS)
def pool(raw: RawNode, scope: Scope) -> Node:
    """A pool over windows; the Indices of MaxPool have no canonical form."""
    window = window_attrs(raw, scope, raw.attrs["kernel_shape"])
    own: Attributes = {name: int(raw.attrs.get(name, default)) for name, default in _POOLS[raw.op].items()}
    plain = drop_unread(raw, scope) if raw.op == "MaxPool" else raw
    return make(plain, **window, ceil_mode=raw.attrs.get("ceil_mode", 0), **own)


@rule("GlobalLpPool")
def global_lp_pool(raw: RawNode, scope: Scope) -> Node:
    """GlobalLpPool of p 1 or 2 is a reduction."""
    op = {1: "ReduceL1", 2: "ReduceL2"}.get(int(raw.attrs.get("p", 2)))
    if op is None:
        raise Foreign
    return make(raw, op=op, axes=list(range(2, scope.rank(raw.inputs[0]))), keepdims=1)


@rule("BitCast")
def bit_cast(raw: RawNode, scope: Scope) -> Node:
    """BitCast between formats by name."""
    if raw.attrs["to"] not in FORMATS:
        raise Foreign
    return make(raw, to=FORMATS[raw.attrs["to"]], given=scope.tensors[raw.inputs[0]].dtype)


def window_attrs(raw: RawNode, scope: Scope, kernel: list[int]) -> Attributes:
    """kernel_shape, strides, pads and dilations of a convolution or pooling, padding resolved."""
    ones = [1] * len(kernel)
    strides = list(raw.attrs.get("strides") or ones)
    dilations = list(raw.attrs.get("dilations") or ones)
    if min((*kernel, *strides, *dilations), default=1) < 1:
        raise ValueError(f"kernel {kernel}, strides {strides}, dilations {dilations} are not 1 or more each")
    pads = list(raw.attrs.get("pads") or [0] * (2 * len(kernel)))
    auto = raw.attrs.get("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        pads = same_pads(scope.shape(raw.inputs[0])[2:], kernel, strides, dilations, upper=auto == "SAME_UPPER")
    elif auto == "VALID":
        pads = [0] * (2 * len(kernel))
    elif auto != "NOTSET":
        raise ValueError(f"auto_pad {auto!r} is none of NOTSET, VALID, SAME_UPPER, SAME_LOWER")
    if min(pads, default=0) < 0:
        raise ValueError(f"pads {pads} are less than 0")
    return {"kernel_shape": list(kernel), "strides": strides, "pads": pads, "dilations": dilations}


def same_pads(
    size: tuple[int, ...], kernel: list[int], strides: list[int], dilations: list[int], upper: bool
) -> list[int]:
    """Padding for ceil(size / stride) outputs per axis (ONNX auto_pad SAME): all begins, then all ends."""
    begins, ends = [], []
    for length, k, stride, dilation in zip(size, kernel, strides, dilations, strict=True):
        out = -(-length // stride)
        total = max((out - 1) * stride + (k - 1) * dilation + 1 - length, 0)
        small, large = total // 2, total - total // 2
        begins.append(small if upper else large)
        ends.append(large if upper else small)
    return begins + ends


RULES.update({
    "Conv": lambda raw, scope: make(
        raw, **window_attrs(raw, scope, list(scope.shape(raw.inputs[1])[2:])), group=raw.attrs.get("group", 1),
        a_zero_point=0, b_zero_point=0,
    ),
    **dict.fromkeys(
        ("Concat", "Gather", "GatherElements"), lambda raw, scope: make(raw, axis=axis_attribute(raw, scope, 0))
    ),
    "Flatten": lambda raw, scope: make(raw, axis=axis_attribute(raw, scope, 1, end=True)),
    # without perm all axes are reversed
    "Transpose": lambda raw, scope: make(
        raw, perm=list(raw.attrs.get("perm") or reversed(range(scope.rank(raw.inputs[0]))))
    ),
    "Tile": lambda raw, scope: make(raw, 1, repeats=ints(raw, scope, 1)),
    "DepthToSpace": lambda raw, scope: make(
        raw, blocksize=raw.attrs["blocksize"], mode=raw.attrs.get("mode", "DCR")
    ),
})  # fmt: skip


@rule("Squeeze")
def squeeze(raw: RawNode, scope: Scope) -> Node:
    """Squeeze: axes are an attribute before opset 13; without axes all of size 1."""
    shape = scope.shape(raw.inputs[0])
    axes = ints(raw, scope, 1, "axes")
    if axes is None:
        axes = [axis for axis, size in enumerate(shape) if size == 1]
    return make(raw, 1, axes=sorted(axes_of(axes, len(shape))))


@rule("Unsqueeze")
def unsqueeze(raw: RawNode, scope: Scope) -> Node:
    """Unsqueeze: axes are an attribute before opset 13 and count in the result."""
    axes = ints(raw, scope, 1, "axes") or []
    return make(raw, 1, axes=sorted(axes_of(axes, scope.rank(raw.inputs[0]) + len(axes))))


@rule("Slice")
def slice_(raw: RawNode, scope: Scope) -> Node:
    """Slice: everything is an attribute before opset 10, an input from there on."""
    rank = scope.rank(raw.inputs[0])
    starts, ends = ints(raw, scope, 1, "starts") or [], ints(raw, scope, 2, "ends") or []
    axes = ints(raw, scope, 3, "axes") or list(range(len(starts)))
    steps = ints(raw, scope, 4) or [1] * len(starts)
    return make(raw, 1, starts=starts, ends=ends, axes=axes_of(axes, rank), steps=steps)


@rule("Split")
def split(raw: RawNode, scope: Scope) -> Node:
    """Split: sizes are an attribute before opset 13; without sizes all equal, the last perhaps smaller."""
    shape = scope.shape(raw.inputs[0])
    axis = axis_attribute(raw, scope, 0)
    count = len(raw.outputs)
    sizes = ints(raw, scope, 1, "split")
    if sizes is None:
        part = -(-shape[axis] // count)
        sizes = [part] * (count - 1) + [shape[axis] - part * (count - 1)]
    return make(raw, 1, outputs=count, axis=axis, split=sizes)


@rule("Expand")
def expand(raw: RawNode, scope: Scope) -> Node:
    """Expand to a constant shape, which broadcasts with that of the input."""
    target = ints(raw, scope, 1) or []
    return make(raw, 1, shape=list(common_shape(scope.shape(raw.inputs[0]), tuple(target))))


@rule("SpaceToDepth")
def space_to_depth(raw: RawNode, scope: Scope) -> Node:
    """SpaceToDepth; ``mode`` is stated only where it is CRD."""
    order: Attributes = {"mode": "CRD"} if raw.attrs.get("mode", "DCR") == "CRD" else {}
    return make(raw, blocksize=raw.attrs["blocksize"], **order)


@rule("Pad")
def pad(raw: RawNode, scope: Scope) -> Node:
    """Pad: everything but the mode is an attribute before opset 11, an input from there on."""
    rank = scope.rank(raw.inputs[0])
    pads = ints(raw, scope, 1, "pads") or []
    value = raw.attrs.get("value", 0.0) if scope.opset < 11 else scalar(raw, scope, 2) or 0
    axes = axes_of(ints(raw, scope, 3) or range(rank), rank)
    full = [0] * (2 * rank)
    for index, axis in enumerate(axes):
        full[axis], full[rank + axis] = pads[index], pads[len(axes) + index]
    return make(raw, 1, pads=full, mode=raw.attrs.get("mode", "constant"), value=value)


@rule("Reshape")
def reshape(raw: RawNode, scope: Scope) -> Node:
    """Reshape with 0 and -1 resolved, and with a literal batch rewritten when the batch is."""
    shape = scope.shape(raw.inputs[0])
    target = ints(raw, scope, 1, "shape") or []
    if not raw.attrs.get("allowzero", 0):
        target = [shape[index] if size == 0 and index < len(shape) else size for index, size in enumerate(target)]
    if scope.batch is not None and not scope.tensors[raw.inputs[0]].is_constant:
        target = rebatched(target, shape, scope.batch)
    return make(raw, 1, shape=_resolved(target, shape, raw.name))


def rebatched(target: list[int], shape: tuple[int, ...], batch: tuple[int, int]) -> list[int]:
    """A Reshape target written for batch ``batch[0]``, for data of ``shape`` that has batch ``batch[1]``.

    A literal first dimension carries the batch (perhaps times heads): it is scaled when the element counts differ by
    the ratio of the batches, or, beside a -1, when it equals the old batch and the data's first dimension the new one.
    """
    old, new = batch
    if not target or target[0] <= 0:
        return target
    literal = -1 not in target
    grown = literal and prod(target) * new == prod(shape) * old and target[0] * new % old == 0
    beside = not literal and target[0] == old and shape[:1] == (new,)
    return [target[0] * new // old, *target[1:]] if grown or beside else target


def _resolved(target: list[int], shape: tuple[int, ...], where: str) -> list[int]:
    known = prod(size for size in target if size != -1)
    elements = prod(shape)
    if target.count(-1) == 1 and known and elements % known == 0:
        target = [elements // known if size == -1 else size for size in target]
    if -1 in target or prod(target) != elements:
        raise ModelError(f"cannot reshape {list(shape)} to {target}", where, f"{elements} elements")
    return target
