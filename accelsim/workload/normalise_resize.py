"""Canonical form of Resize and of its predecessor Upsample."""

from __future__ import annotations

from typing import Any

from accelsim.workload.graph import Node
from accelsim.workload.normalise import Foreign, Scope, ints, make, optional, rule
from accelsim.workload.onnx_read import RawNode


@rule("Upsample")
def upsample(raw: RawNode, scope: Scope) -> Node:
    """Upsample (opset 7 and 9): Resize with asymmetric coordinates, rounding down."""
    scales = raw.attrs.get("scales") or _floats(raw, scope, 1)
    return _resize(raw, scope, None, scales, raw.attrs.get("mode", "nearest"), "asymmetric", "floor")


@rule("Resize")
def resize(raw: RawNode, scope: Scope) -> Node:
    """Resize by sizes or scales; cubic, antialiased, cropped and keep-aspect forms have no canonical form."""
    mode = raw.attrs.get("mode", "nearest")
    if scope.opset < 11:
        return _resize(raw, scope, None, _floats(raw, scope, 1), mode, "asymmetric", "floor")
    plain = not raw.attrs.get("antialias", 0) and "axes" not in raw.attrs
    stretch = raw.attrs.get("keep_aspect_ratio_policy", "stretch") == "stretch"
    if not (plain and stretch):
        raise Foreign
    coordinate = raw.attrs.get("coordinate_transformation_mode", "half_pixel")
    nearest_mode = raw.attrs.get("nearest_mode", "round_prefer_floor")
    return _resize(raw, scope, ints(raw, scope, 3), _floats(raw, scope, 2), mode, coordinate, nearest_mode)


_COORDINATES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")


def _resize(
    raw: RawNode,
    scope: Scope,
    sizes: list[int] | None,
    scales: list[float],
    mode: str,
    coordinate: str,
    nearest_mode: str,
) -> Node:
    shape = scope.shape(raw.inputs[0])
    if mode not in ("nearest", "linear") or coordinate not in _COORDINATES:
        raise Foreign
    if sizes:
        scales = [size / length for size, length in zip(sizes, shape, strict=True)]
    else:
        sizes = [int(length * scale) for length, scale in zip(shape, scales, strict=True)]
    attrs: dict[str, Any] = {"sizes": sizes, "scales": scales, "mode": mode, "coordinate": coordinate}
    return make(raw, 1, "Resize", nearest_mode=nearest_mode, **attrs)


def _floats(raw: RawNode, scope: Scope, index: int) -> list[float]:
    name = optional(raw, index)
    if not name:
        return []
    values = scope.constant(name)
    if values is None:
        raise Foreign
    return [float(value) for value in values.reshape(-1)]
