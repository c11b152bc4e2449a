"""Cases of the ops that take or put elements by an index, of bits, of the rarer functions and of resizing."""

from __future__ import annotations

from typing import Any

import numpy as np

from accelsim.workload.graph import Array
from tests.helpers.ort_oracle import Case

_RNG = np.random.default_rng(11)

INDEX_WITHOUT_ONNX = {"OneHot", "CumProd", "BitCast"}
"""ONNX has them in another order of inputs, or in operator sets that ONNX Runtime does not know yet."""


def _f32(*shape: int) -> Array:
    return _RNG.normal(size=shape).astype(np.float32)


def _whole(low: int, high: int, *shape: int, dtype: Any = np.int64) -> Array:
    return _RNG.integers(low, high, size=shape).astype(dtype)


def _functions() -> list[Case]:
    x, inside, above = _f32(4, 5), _RNG.uniform(-0.99, 0.99, (4, 5)), _RNG.uniform(1, 9, (4, 5))
    special = np.array([1, -1, np.inf, -np.inf, np.nan, 0], np.float32)
    flags = {"detect_negative": 1, "detect_positive": 0}
    return [
        *(Case(op, [x]) for op in ("Tan", "Sinh", "Cosh", "Atan", "Asinh")),
        *(Case(op, [inside.astype(np.float32)]) for op in ("Asin", "Acos", "Atanh")),
        Case("Acosh", [above.astype(np.float32)]),
        Case("Shrink", [x], {"bias": 0.3, "lambd": 0.5}),
        Case("IsNaN", [special]),
        Case("IsInf", [special], flags),
        Case("IsInf", [special], {**flags, "detect_positive": 1}, label="both"),
    ]


def _bits() -> list[Case]:
    pair = [_whole(0, 256, 3, 4, dtype=np.uint8), _whole(0, 8, 4, dtype=np.uint8)]
    signed = [_whole(-99, 99, 3, 4, dtype=np.int32), _whole(1, 9, 4, dtype=np.int32)]
    real = [7 * _f32(3, 4), 1 + np.abs(_f32(4))]
    return [
        *(Case("BitShift", pair, {"direction": way}, label=way) for way in ("LEFT", "RIGHT")),
        *(Case(op, signed, opset=18) for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")),
        Case("BitwiseNot", signed[:1], opset=18),
        *(Case("Mod", signed, {"fmod": fmod}, label=f"int{fmod}") for fmod in (0, 1)),
        Case("Mod", real, {"fmod": 1}, label="float"),
    ]


def _places() -> list[Case]:
    x, rows = _f32(3, 4, 5), _whole(-3, 3, 2, 2, dtype=np.int64)
    unique = np.array([[0, 2], [1, 0]], np.int64)
    return [
        Case("GatherElements", [x, _whole(-4, 4, 2, 3, 5)], {"axis": 1}),
        Case("GatherND", [x, rows], {"batch_dims": 0}),
        Case("GatherND", [x, _whole(0, 4, 3, 2, 1)], {"batch_dims": 1}, label="batch"),
        *(Case("ScatterElements", [_f32(3, 4), _whole(-3, 3, 2, 4), _f32(2, 4)], {"axis": 0, "reduction": kind},
               opset=18, label=kind) for kind in ("add", "mul", "max", "min")),
        Case("ScatterElements", [_f32(3, 4), np.array([[0, 2]]), _f32(1, 2)], {"axis": 1, "reduction": "none"}, opset=18),
        *(Case("ScatterND", [_f32(3, 4), unique, _f32(2)], {"reduction": kind}, opset=18, label=kind)
          for kind in ("none", "add", "max")),
        *(Case("Trilu", [_f32(2, 4, 5)], {"upper": up, "k": k}, {"upper": up}, [np.asarray(k)], label=f"{up}{k}")
          for up, k in ((1, 0), (0, -1), (1, 2))),
    ]  # fmt: skip


def _order() -> list[Case]:
    ties = _whole(0, 4, 3, 9).astype(np.float32)
    cases = []
    for largest, axis in ((1, 1), (0, 1), (1, 0)):
        given = {"axis": axis, "largest": largest}
        cases.append(
            Case("TopK", [ties], {**given, "k": 2}, given, [np.array([2])], outputs=2, label=f"{largest}{axis}")
        )
    for exclusive, reverse in ((0, 0), (1, 0), (0, 1), (1, 1)):
        flags = {"exclusive": exclusive, "reverse": reverse}
        cases.append(Case("CumSum", [_f32(3, 5)], {"axis": 1, **flags}, flags, [np.asarray(1)],
                          label=f"{exclusive}{reverse}"))  # fmt: skip
    return cases


def _pools() -> list[Case]:
    base = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1], "dilations": [1, 1], "ceil_mode": 0}
    return [Case("LpPool", [_f32(1, 2, 7, 6)], {**base, "p": p}, opset=18, label=f"{p}") for p in (1, 2, 3)]


def _resize(mode: str, scale: float, coordinate: str = "half_pixel", **more: Any) -> Case:
    scales, sizes = [1.0, 1.0, scale, scale], [1, 2, int(10 * scale), int(8 * scale)]
    same = {"mode": mode, "nearest_mode": "floor", **more}
    roi = same.pop("roi", None)
    attrs = {**same, "sizes": sizes, "scales": scales, "coordinate": coordinate, **({"roi": roi} if roi else {})}
    tail = [None if roi is None else np.asarray(roi, np.float32), np.asarray(scales, np.float32)]
    return Case("Resize", [_f32(1, 2, 10, 8)], attrs, {**same, "coordinate_transformation_mode": coordinate}, tail,
                opset=19, rtol=1e-4, label=f"{mode}-{coordinate}-{scale}-{sorted(more.items())}")  # fmt: skip


def _resizes() -> list[Case]:
    roi = [0.0, 0.0, 0.2, 0.3, 1.0, 1.0, 0.9, 1.4]
    return [
        *(_resize("cubic", scale, coordinate) for scale in (2.0, 0.5) for coordinate in ("half_pixel", "asymmetric")),
        _resize("cubic", 0.5, cubic_coeff_a=-0.5, exclude_outside=1),
        *(_resize(mode, 0.5, antialias=1) for mode in ("linear", "cubic")),
        _resize("linear", 0.5, "half_pixel_symmetric"),
        *(_resize(mode, 0.5, "tf_crop_and_resize", roi=roi, extrapolation_value=3.0) for mode in ("linear", "nearest")),
    ]


def _samples() -> list[Case]:
    cases = []
    for mode in ("nearest", "linear", "cubic"):
        for padding in ("zeros", "border", "reflection"):
            for aligned in (0, 1):
                attrs = {"mode": mode, "padding_mode": padding, "align_corners": aligned}
                named = {**attrs, "mode": mode if mode == "nearest" else f"bi{mode}"}
                pair = [_f32(2, 3, 5, 4), _RNG.uniform(-1.6, 1.6, (2, 3, 6, 2)).astype(np.float32)]
                label = f"{mode}-{padding}-{aligned}"
                cases.append(Case("GridSample", pair, attrs, named, rtol=1e-4, label=label))
    deep = [_f32(1, 2, 3, 4, 5), _RNG.uniform(-1.2, 1.2, (1, 2, 2, 2, 3)).astype(np.float32)]
    attrs = {"mode": "linear", "padding_mode": "zeros", "align_corners": 1}
    return [*cases, Case("GridSample", deep, attrs, opset=20, rtol=1e-4, label="3d")]


INDEX_CASES = [*_functions(), *_bits(), *_places(), *_order(), *_pools(), *_resizes(), *_samples()]
