"""Canonical form of Resize and of its predecessor Upsample."""

from __future__ import annotations

from typing import Any

from accelsim.workload.graph import Attributes, Node
from accelsim.workload.onnx.canonical.rules import Foreign, Scope, axes_of, given, ints, make, rule
from accelsim.workload.onnx.importing.read import RawNode


@rule("Upsample")
def upsample(raw: RawNode, scope: Scope) -> Node:
    """Upsample (opset 7 and 9): Resize with asymmetric coordinates, rounding down."""
    scales = raw.attrs.get("scales") or _floats(raw, scope, 1)
    return _resize(raw, scope, [], scales, coordinate="asymmetric", nearest_mode="floor")


@rule("Resize")
def resize(raw: RawNode, scope: Scope) -> Node:
    """Resize by sizes or scales, of all axes or of those named."""
    if scope.opset < 11:
        return _resize(raw, scope, [], _floats(raw, scope, 1), coordinate="asymmetric", nearest_mode="floor")
    defaults = {"cubic_coeff_a": -0.75, "exclude_outside": 0, "antialias": 0}
    extra: Attributes = {key: raw.attrs[key] for key, value in defaults.items() if raw.attrs.get(key, value) != value}
    coordinate = raw.attrs.get("coordinate_transformation_mode", "half_pixel")
    if coordinate == "tf_crop_and_resize":
        extra["roi"] = _spread(_floats(raw, scope, 1), raw, scope, [0.0], [1.0])
        extra["extrapolation_value"] = raw.attrs.get("extrapolation_value", 0.0)
    sizes, scales = ints(raw, scope, 3) or [], _floats(raw, scope, 2)
    nearest_mode = raw.attrs.get("nearest_mode", "round_prefer_floor")
    return _resize(raw, scope, sizes, scales, coordinate=coordinate, nearest_mode=nearest_mode, **extra)


@rule("GridSample")
def grid_sample(raw: RawNode, scope: Scope) -> Node:
    """GridSample; before opset 20 its modes had the names of two axes."""
    mode = str(raw.attrs.get("mode", "linear")).removeprefix("bi")
    padding, aligned = raw.attrs.get("padding_mode", "zeros"), raw.attrs.get("align_corners", 0)
    return make(raw, mode=mode, padding_mode=padding, align_corners=aligned)


def _axes(raw: RawNode, scope: Scope) -> list[int]:
    rank = scope.rank(raw.inputs[0])
    return axes_of(raw.attrs.get("axes") or range(rank), rank)


def _spread(values: list[float], raw: RawNode, scope: Scope, *others: list[float]) -> list[float]:
    """``values`` of the named axes at their places, one row per entry of ``others``, which fills the other axes."""
    axes, rank = _axes(raw, scope), scope.rank(raw.inputs[0])
    found: list[float] = []
    for row, other in enumerate(others):
        full = other * rank if len(other) == 1 else list(other)
        for index, axis in enumerate(axes):
            full[axis] = values[row * len(axes) + index]
        found += full
    return found


def _resize(raw: RawNode, scope: Scope, sizes: list[int], scales: list[float], **attrs: Any) -> Node:
    shape, axes = scope.shape(raw.inputs[0]), _axes(raw, scope)
    if sizes:
        wanted = [int(size) for size in _spread([*sizes], raw, scope, [*shape])]
        scales = [size / max(length, 1) for size, length in zip(wanted, shape, strict=True)]
        policy = raw.attrs.get("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            one = (min if policy == "not_larger" else max)(scales[axis] for axis in axes)
            scales = [one if axis in axes else 1.0 for axis in range(len(shape))]
            wanted = [int(one * size + 0.5) if axis in axes else size for axis, size in enumerate(shape)]
    elif scales:
        scales = _spread(scales, raw, scope, [1.0])
        wanted = [int(length * scale) for length, scale in zip(shape, scales, strict=True)]
    else:
        raise Foreign
    mode = raw.attrs.get("mode", "nearest")
    return make(raw, 1, "Resize", sizes=wanted, scales=scales, mode=mode, **attrs)


def _floats(raw: RawNode, scope: Scope, index: int) -> list[float]:
    values = given(raw, scope, index)
    return [] if values is None else [float(value) for value in values.reshape(-1)]
