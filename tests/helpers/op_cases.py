"""At least one case per registered op that has an ONNX equivalent."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import onnx

from accelsim.errors import ModelError
from accelsim.workload import ops
from accelsim.workload.graph import Array
from tests.helpers.op_cases_index import INDEX_CASES, INDEX_WITHOUT_ONNX
from tests.helpers.ort_oracle import Case

_RNG = np.random.default_rng(7)


def f32(*shape: int) -> Array:
    return _RNG.normal(size=shape).astype(np.float32)


def positive(*shape: int) -> Array:
    return _RNG.uniform(0.1, 3, size=shape).astype(np.float32)


def whole(low: int, high: int, *shape: int, dtype: Any = np.int64) -> Array:
    return _RNG.integers(low, high, size=shape).astype(dtype)


def flags(*shape: int) -> Array:
    return _RNG.integers(0, 2, size=shape).astype(bool)


def i64(*values: int) -> Array:
    return np.asarray(values, np.int64)


def _conv(x: Array, w: Array, bias: bool = False, **attrs: Any) -> Case:
    rank = x.ndim - 2
    full = {"kernel_shape": list(w.shape[2:]), "strides": [1] * rank, "pads": [0] * 2 * rank,
            "dilations": [1] * rank, "group": 1, **attrs}  # fmt: skip
    return Case("Conv", [x, w, f32(w.shape[0])] if bias else [x, w], full, label=f"{x.shape}x{w.shape}")


def _pool(op: str, *shape: int, opset: int = 22, **attrs: Any) -> Case:
    rank = len(shape) - 2
    average = {"count_include_pad": 0} if op == "AveragePool" else {}
    full = {"kernel_shape": [3] * rank, "strides": [2] * rank, "pads": [1] * 2 * rank, "ceil_mode": 0,
            "dilations": [1] * rank, **average, **attrs}  # fmt: skip
    return Case(op, [f32(*shape)], full, opset=opset, label=f"{rank}d{sorted(attrs.items())}")


def _matrix() -> list[Case]:
    gemm = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}
    return [
        _conv(f32(2, 3, 9, 7), f32(5, 3, 3, 3), bias=True, pads=[1, 1, 1, 1]),
        _conv(f32(1, 8, 9, 9), f32(8, 1, 3, 3), group=8, strides=[2, 2], pads=[1, 0, 1, 2], bias=True),
        _conv(f32(2, 4, 8, 8), f32(12, 1, 3, 3), group=4, dilations=[2, 2]),
        _conv(f32(2, 8, 8, 8), f32(8, 4, 1, 1), group=2, strides=[2, 2]),
        _conv(f32(2, 4, 20), f32(6, 2, 5), group=2, strides=[3], pads=[2, 1], dilations=[2], bias=True),
        _conv(f32(1, 2, 5, 6, 7), f32(3, 2, 3, 2, 3), pads=[1, 0, 1, 1, 0, 1]),
        _conv(f32(1, 64, 40, 41), f32(16, 64, 5, 5), pads=[2, 2, 2, 2]),
        Case("MatMul", [f32(5, 7), f32(7, 3)]),
        Case("MatMul", [f32(2, 3, 5, 7), f32(7, 4)], label="batch as rows"),
        Case("MatMul", [f32(2, 1, 5, 7), f32(3, 7, 4)], label="broadcast"),
        Case("MatMul", [f32(7), f32(2, 7, 4)], label="vector-left"),
        Case("MatMul", [f32(2, 5, 7), f32(7)], label="vector-right"),
        Case("MatMul", [f32(7), f32(7)], label="dot"),
        Case("Gemm", [f32(5, 7), f32(7, 3), f32(3)], gemm),
        Case(
            "Gemm", [f32(7, 5), f32(3, 7), f32(5, 1)], {"alpha": 0.5, "beta": 2.0, "transA": 1, "transB": 1}, label="T"
        ),
        Case("Gemm", [f32(5, 7), f32(7, 3)], {**gemm, "alpha": -1.5}, label="no C"),
    ]


def _unary() -> list[Case]:
    x = np.concatenate([np.linspace(-6, 6, 97), [0.0, -0.0, 30, -30, 100, -100, np.inf, -np.inf]])
    x = x.astype(np.float32).reshape(3, 5, 7)
    plain = ["Relu", "Sigmoid", "Tanh", "Erf", "Exp", "Neg", "Abs", "Sign", "Floor", "Ceil", "Round",
             "HardSwish", "Softplus", "Softsign"]  # fmt: skip
    finite = np.clip(x, -100, 100)
    return [
        *(Case(op, [x]) for op in plain),
        *(Case(op, [finite]) for op in ("Sin", "Cos")),
        Case("Mish", [finite], opset=18),
        *(Case(op, [positive(4, 5)]) for op in ("Log", "Sqrt", "Reciprocal")),
        Case("LeakyRelu", [x], {"alpha": 0.1}),
        Case("Elu", [x], {"alpha": 1.5}),
        Case("Selu", [x], {"alpha": 1.6, "gamma": 1.05}),
        Case("HardSigmoid", [x], {"alpha": 0.3, "beta": 0.4}),
        Case("Gelu", [finite], {"approximate": "none"}, opset=20),
        Case("Gelu", [finite], {"approximate": "tanh"}, opset=20, label="tanh"),
        _clip(x, -1.0, 2.5),
        _clip(finite, None, 6.0),
        _clip(whole(-9, 9, 4, 4), -3, None),
        Case("Not", [flags(4, 5)]),
        Case("Relu", [whole(-9, 9, 4, dtype=np.int32)], label="int32"),
        Case("Cast", [x[:, :, :2]], {"to": "fp64"}, {"to": 11}),
        Case("Cast", [3 * f32(4, 5)], {"to": "int32"}, {"to": 6}, label="truncates"),
        Case("Cast", [whole(-2, 2, 9)], {"to": "bool"}, {"to": 9}, label="bool"),
    ]


def _clip(x: Array, low: float | None, high: float | None) -> Case:
    tail = [None if bound is None else np.asarray(bound, x.dtype) for bound in (low, high)]
    while tail and tail[-1] is None:
        tail.pop()
    return Case("Clip", [x], {"min": low, "max": high}, {}, tail, label=f"{low},{high}")


def _binary() -> list[Case]:
    pair = [f32(2, 3, 4), f32(3, 1)]
    integers = [whole(-9, 9, 4, 5), whole(1, 4, 5)]
    three = [f32(2, 3), f32(3), f32(2, 1)]
    bits = [flags(4, 5), flags(5)]
    return [
        *(Case(op, pair) for op in ("Add", "Sub", "Mul", "Div")),
        *(Case(op, integers, label="int64") for op in ("Add", "Sub", "Mul", "Div")),
        Case("Pow", [positive(3, 4), f32(4)]),
        Case("Pow", [whole(-5, 5, 6), whole(0, 4, 6)], label="int64"),
        Case("Pow", [positive(3, 4), whole(0, 4, 4)], label="mixed"),
        Case("PRelu", [f32(2, 3, 4, 4), positive(3, 1, 1)]),
        *(Case(op, integers) for op in ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")),
        *(Case(op, bits) for op in ("And", "Or", "Xor")),
        *(Case(op, three) for op in ("Min", "Max", "Sum", "Mean")),
        *(Case(op, three[:1], label="one") for op in ("Min", "Max", "Sum", "Mean")),
        Case("Where", [flags(2, 1, 4), f32(3, 4), f32(1)]),
    ]


def _pools() -> list[Case]:
    both = [case for op in ("MaxPool", "AveragePool") for case in (
        _pool(op, 2, 3, 9, 8), _pool(op, 2, 3, 9, 8, ceil_mode=1), _pool(op, 1, 2, 11, dilations=[2]),
        _pool(op, 1, 2, 6, 7, 8, strides=[1, 2, 3]), _pool(op, 1, 2, 10, 10, pads=[0, 0, 0, 0], ceil_mode=1),
    )]  # fmt: skip
    return [
        *both,
        _pool("AveragePool", 2, 3, 9, 8, count_include_pad=1),
        _pool("AveragePool", 2, 3, 10, 9, count_include_pad=1, ceil_mode=1, pads=[1, 0, 2, 1]),
        Case("MaxPool", [whole(-99, 99, 1, 2, 8, 8, dtype=np.int8)], both[0].attrs, label="int8"),
        *(Case(op, [f32(2, 3, 5, 4)]) for op in ("GlobalAveragePool", "GlobalMaxPool")),
        *(Case(op, [f32(2, 3, 5)], label="1d") for op in ("GlobalAveragePool", "GlobalMaxPool")),
    ]


def _normalise() -> list[Case]:
    x = f32(2, 6, 4, 5)
    return [
        Case("BatchNormalization", [x, f32(6), f32(6), f32(6), positive(6)], {"epsilon": 1e-3}),
        Case("LRN", [x], {"size": 3, "alpha": 0.1, "beta": 0.75, "bias": 1.0}),
        Case("LRN", [x], {"size": 5, "alpha": 0.1, "beta": 0.5, "bias": 2.0}, label="5"),
        *(Case(op, [5 * x], {"axis": axis}, label=f"{axis}") for op in ("Softmax", "LogSoftmax") for axis in (1, 3)),
        *(Case(op, [x], {"flatten_from": 2}, {"axis": 2}, opset=11, label="2d") for op in ("Softmax", "LogSoftmax")),
        Case("LayerNormalization", [x + 9, f32(4, 5), f32(4, 5)], {"axis": 2, "epsilon": 1e-5}),
        Case("LayerNormalization", [x, f32(5)], {"axis": 3, "epsilon": 1e-5}, label="no bias"),
        Case("RMSNormalization", [x, f32(5)], {"axis": 3, "epsilon": 1e-5}, opset=23),
        Case("InstanceNormalization", [x, f32(6), f32(6)], {"epsilon": 1e-5}),
        Case("GroupNormalization", [x, f32(6), f32(6)], {"num_groups": 3, "epsilon": 1e-5}, opset=21),
        Case("GroupNormalization", [x, f32(3), f32(3)], {"num_groups": 3, "epsilon": 1e-5}, opset=18, label="18"),
    ]


def _reduce() -> list[Case]:
    x = f32(2, 3, 4, 5)
    names = ["Mean", "Sum", "Max", "Min", "Prod", "L1", "L2", "SumSquare"]
    cases = []
    for name in names:
        for axes, keep in (((1,), 1), ((0, 2), 0), ((0, 1, 2, 3), 0)):
            attrs = {"axes": list(axes), "keepdims": keep}
            cases.append(Case(f"Reduce{name}", [x], attrs, {"keepdims": keep}, [i64(*axes)], opset=18, label=f"{axes}"))
    ties = whole(0, 3, 4, 9, dtype=np.int32)
    for op in ("ArgMax", "ArgMin"):
        for axis, keep, last in ((0, 1, 0), (1, 0, 1), (1, 1, 0)):
            attrs = {"axis": axis, "keepdims": keep, "select_last_index": last}
            cases.append(Case(op, [ties], attrs, label=f"{axis}{keep}{last}"))
    return cases


def _slice(x: Array, starts: Array, ends: Array, axes: Array, steps: Array) -> Case:
    attrs = {name: value.tolist() for name, value in
             (("starts", starts), ("ends", ends), ("axes", axes), ("steps", steps))}  # fmt: skip
    return Case("Slice", [x], attrs, {}, [starts, ends, axes, steps], label=f"{starts}{ends}{steps}")


def _pad(x: Array, pads: Array, mode: str, value: float = 0.0) -> Case:
    attrs = {"pads": pads.tolist(), "mode": mode, "value": value}
    return Case("Pad", [x], attrs, {"mode": mode}, [pads, np.float32(value)], opset=19, label=mode)


def _move() -> list[Case]:
    x = f32(2, 8, 4, 6)
    big = np.iinfo(np.int64).max
    return [
        Case("Concat", [f32(2, 3), f32(2, 1), f32(2, 4)], {"axis": 1}),
        Case("Split", [x], {"axis": 1, "split": [1, 5, 2]}, {"axis": 1}, [i64(1, 5, 2)], outputs=3),
        _slice(x, i64(1, -3), i64(7, big), i64(1, 3), i64(2, 1)),
        _slice(x, i64(-1, 99), i64(-big, 0), i64(1, 2), i64(-1, -2)),
        _slice(x, i64(5), i64(2), i64(1), i64(1)),
        Case("Gather", [x, whole(-8, 8, 3, 2)], {"axis": 1}),
        Case("Gather", [f32(5), np.asarray(3)], {"axis": 0}, label="scalar"),
        Case("Transpose", [x], {"perm": [0, 2, 3, 1]}),
        _pad(x, i64(0, 1, 2, 0, 0, 0, 1, 3), "constant", 2.5),
        _pad(x, i64(0, 0, -1, 2, 0, 0, 1, -2), "constant", -1.0),
        *(_pad(x, i64(0, 0, 1, 2, 0, 0, 3, 1), mode) for mode in ("reflect", "edge", "wrap")),
        Case("Expand", [f32(3, 1)], {"shape": [2, 3, 4]}, {}, [i64(2, 1, 4)]),
        Case("Tile", [f32(2, 3)], {"repeats": [2, 3]}, {}, [i64(2, 3)]),
        *(Case("DepthToSpace", [x], {"blocksize": 2, "mode": mode}, label=mode) for mode in ("DCR", "CRD")),
        Case("SpaceToDepth", [x], {"blocksize": 2}),
        *_resizes(),
    ]


def _resizes() -> list[Case]:
    coordinates = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    cases = [
        _resize(mode, coordinate, "floor", scale)
        for mode in ("nearest", "linear")
        for coordinate in coordinates
        for scale in (2.0, 0.6)
        if coordinate != "align_corners" or scale == 2  # ONNX Runtime cuts the length to a whole number first
    ]
    nearest = ("round_prefer_floor", "round_prefer_ceil", "ceil")
    return [*cases, *(_resize("nearest", "half_pixel", rounding, 0.5) for rounding in nearest)]


def _resize(mode: str, coordinate: str, nearest: str, scale: float) -> Case:
    scales, sizes = [1.0, 1.0, scale, scale], [1, 2, int(5 * scale), int(6 * scale)]
    same = {"mode": mode, "nearest_mode": nearest}
    attrs = {**same, "sizes": sizes, "scales": scales, "coordinate": coordinate}
    onnx_attrs = {**same, "coordinate_transformation_mode": coordinate}
    tail = [None, np.asarray(scales, np.float32)]
    label = f"{mode}-{coordinate}-{nearest}-{scale}"
    return Case("Resize", [f32(1, 2, 5, 6)], attrs, onnx_attrs, tail, opset=13, label=label)


def _alias() -> list[Case]:
    x = f32(2, 1, 3, 1)
    return [
        Case("Reshape", [x], {"shape": [3, 2]}, {}, [i64(3, 2)]),
        *(Case("Flatten", [f32(2, 3, 4)], {"axis": axis}, label=f"{axis}") for axis in (0, 1, 2, 3)),
        Case("Squeeze", [x], {"axes": [1, 3]}, {}, [i64(1, 3)]),
        Case("Unsqueeze", [f32(2, 3)], {"axes": [0, 3]}, {}, [i64(0, 3)]),
        Case("Identity", [x]),
        Case("Dropout", [x]),
    ]


def _quantise() -> list[Case]:
    x, per_channel = 40 * f32(4, 6), positive(6)
    codes = whole(-128, 128, 4, 6, dtype=np.int8)
    zeros = whole(-5, 5, 6, dtype=np.int8)

    def case(op: str, value: Array, scale: Array, zero: Array, axis: int | None, dtype: str) -> Case:
        attrs = {"scale": scale, "zero_point": zero, "axis": axis, "dtype": dtype}
        return Case(op, [value], attrs, {} if axis is None else {"axis": axis}, [scale, zero], opset=21,
                    onnx_op=op + "Linear", label=f"{dtype}{axis}")  # fmt: skip

    return [
        case("Quantize", x, np.asarray(0.3, np.float32), np.asarray(3, np.uint8), None, "uint8"),
        case("Quantize", x, per_channel, zeros, 1, "int8"),
        case("Quantize", x, np.asarray(0.001, np.float32), np.asarray(0, np.int16), None, "int16"),
        case("Dequantize", codes, np.asarray(0.3, np.float32), np.asarray(-7, np.int8), None, "int8"),
        case("Dequantize", codes, per_channel, zeros, 1, "int8"),
        Case("DynamicQuantizeLinear", [x], outputs=3),
    ]


def _drawn(op: ops.Op) -> Case:
    """Of an elementwise op whose attributes are those of ONNX: their defaults, on numbers of both signs."""
    opset = max(17, onnx.defs.get_schema(op.name).since_version)
    x = f32(4, 10)
    for inputs in ([x], [x, f32(10)]):
        case = Case(op.name, inputs, dict(op.onnx or {}), opset=opset)
        with suppress(ModelError):
            op.infer(case.node, case.tensors)
            return case
    raise AssertionError(f"{op.name}: neither one input nor two; it needs a case of its own")


_OWN = [
    *_matrix(),
    *_unary(),
    *_binary(),
    *_pools(),
    *_normalise(),
    *_reduce(),
    *_move(),
    *_alias(),
    *_quantise(),
    *INDEX_CASES,
]
_SEEN = {case.op for case in _OWN}
CASES = _OWN + [
    _drawn(op)
    for op in ops.REGISTRY.values()
    if op.kind == "elementwise" and op.onnx is not None and op.name not in _SEEN
]
"""A new elementwise op with the attributes of ONNX is drawn; every other one needs a case of its own."""
WITHOUT_ONNX = {
    *INDEX_WITHOUT_ONNX,
    "Append", "TopKGating", "ExpertMatMul", "Silu", "Requantize", "RequantizeShift", "Bias", "FakeQuantize", "FakeQuantizeGrad", "MaxPoolGrad", "GatherGrad",
    "AttentionGrad",
}  # fmt: skip
"""Proven in tests of their own: ONNX has no such op (Silu: not before opset 24)."""
