"""At least one case per op that has a gradient, at several shapes and attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from accelsim.workload.graph import Array
from accelsim.workload.ops import REGISTRY
from tests.helpers.gradient_cases import Case

_RNG = np.random.default_rng(11)
"""For the cases of this module; a test that draws has one of its own, so that others do not change what it draws."""


def apart(*shape: int, rng: np.random.Generator = _RNG) -> Array:
    """Distinct values in -2.93..3.07, shuffled, none at a kink of an op."""
    count = int(np.prod(shape))
    return rng.permutation(np.linspace(-2.93, 3.07, count) if count > 1 else np.array([0.7])).reshape(shape)


def distinct(*shape: int) -> Array:
    """Odd multiples of 1/64, shuffled: at most 256 of them, which every float format holds exactly."""
    count = int(np.prod(shape))
    assert count <= 256
    return _RNG.permutation(np.arange(1 - count, count, 2) / 64).reshape(shape)


def positive(*shape: int) -> Array:
    return _RNG.uniform(0.4, 2.0, size=shape)


def normal(*shape: int, rng: np.random.Generator = _RNG) -> Array:
    return rng.normal(size=shape)


def whole(high: int, *shape: int) -> Array:
    return _RNG.integers(0, high, size=shape)


def window(rank: int, kernel: Sequence[int], **attrs: Any) -> dict[str, Any]:
    return {
        "kernel_shape": list(kernel),
        "strides": [1] * rank,
        "pads": [0] * 2 * rank,
        "dilations": [1] * rank,
        **attrs,
    }


def _conv(x: Sequence[int], w: Sequence[int], bias: bool = False, **attrs: Any) -> Case:
    full = {**window(len(x) - 2, w[2:]), "group": 1, **attrs}
    label = f"{tuple(x)}*{tuple(w)}{sorted(attrs.items())}"
    return Case("Conv", [normal(*x), normal(*w), *([normal(w[0])] if bias else [])], full, label=label)


def _matrix() -> list[Case]:
    zero = {"a_zero_point": 0, "b_zero_point": 0}
    gemm = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0, **zero}
    shapes = [((5, 7), (7, 3)), ((2, 3, 5, 7), (7, 4)), ((2, 1, 5, 7), (3, 7, 4)), ((7,), (2, 7, 4)), ((7,), (7, 3)),
              ((2, 5, 7), (7,)), ((5, 7), (7,)), ((7,), (7,)), ((5, 7), (3, 7, 2)), ((2, 3, 4), (1, 4, 2))]  # fmt: skip
    return [
        *(Case("MatMul", [normal(*a), normal(*b)], zero, label=f"{a}@{b}") for a, b in shapes),
        *(
            Case("Gemm", [normal(*((7, 5) if ta else (5, 7))), normal(*((3, 7) if tb else (7, 3))), normal(*c)],
                 {**gemm, "alpha": 0.5, "beta": 2.0, "transA": ta, "transB": tb}, label=f"{ta}{tb}{c}")
            for ta in (0, 1) for tb in (0, 1) for c in ((3,), (5, 1), (5, 3), ())
        ),
        Case("Gemm", [normal(5, 7), normal(7, 3)], {**gemm, "alpha": -1.5}, label="no C"),
        _conv((2, 3, 9, 7), (5, 3, 3, 3), bias=True, pads=[1, 1, 1, 1]),
        _conv((1, 8, 9, 9), (8, 1, 3, 3), bias=True, group=8, strides=[2, 2], pads=[1, 0, 1, 2]),
        _conv((2, 4, 8, 8), (12, 1, 3, 3), group=4, dilations=[2, 2]),
        _conv((2, 8, 8, 8), (8, 4, 1, 1), group=2, strides=[2, 2]),
        _conv((2, 4, 20), (6, 2, 5), bias=True, group=2, strides=[3], pads=[2, 1], dilations=[2]),
        _conv((2, 3, 9, 10), (4, 3, 2, 3), strides=[3, 2], pads=[0, 2, 3, 1], dilations=[3, 2]),
        _conv((1, 2, 6, 6), (3, 2, 1, 1), pads=[2, 1, 1, 2]),
        _conv((1, 2, 5, 6, 7), (3, 2, 3, 2, 3), pads=[1, 0, 1, 1, 0, 1], strides=[1, 2, 2]),
    ]  # fmt: skip


def _unary() -> list[Case]:
    plain = ["Relu", "Sigmoid", "Tanh", "Exp", "Neg", "Abs", "HardSwish", "Silu", "Softplus", "Softsign", "Mish", "Sin",
             "Cos", "Identity", "Dropout"]  # fmt: skip
    return [
        *(Case(op, [apart(4, 10)]) for op in plain),
        Case("Erf", [apart(4, 10)], tolerance=2e-5),
        *(Case(op, [apart(4, 5) / 3.2]) for op in ("Asin", "Acos", "Atanh", "Tan")),
        *(Case(op, [apart(4, 5)]) for op in ("Sinh", "Cosh", "Atan", "Asinh")),
        Case("Acosh", [positive(4, 5) + 1]),
        Case("Shrink", [apart(4, 10)], {"bias": 0.3, "lambd": 0.51}),
        *(Case(op, [positive(4, 5)]) for op in ("Log", "Sqrt", "Reciprocal")),
        Case("LeakyRelu", [apart(4, 10)], {"alpha": 0.1}),
        Case("LeakyRelu", [apart(4, 10)], {"alpha": -0.5}, label="negative"),
        Case("Elu", [apart(4, 10)], {"alpha": 1.5}),
        Case("Selu", [apart(4, 10)], {"alpha": 1.6, "gamma": 1.05}),
        Case("HardSigmoid", [apart(4, 10)], {"alpha": 0.3, "beta": 0.4}),
        Case("Gelu", [apart(4, 10)], {"approximate": "none"}, tolerance=2e-5),
        Case("Gelu", [apart(4, 10)], {"approximate": "tanh"}, label="tanh"),
        *(Case("Clip", [apart(4, 10)], {"min": a, "max": b}, label=f"{a},{b}") for a, b in ((-1.0, 2.0), (None, 2.0), (-1.0, None), (None, None))),
        Case("Cast", [apart(4, 5)], {"to": "fp64"}),
    ]  # fmt: skip


def _binary() -> list[Case]:
    pairs = [
        (apart(2, 3, 4), apart(3, 1)),
        (apart(3, 1), apart(2, 3, 4)),
        (apart(2, 3), apart(2, 3)),
        (positive(4), np.asarray(0.7)),
    ]
    flags = whole(2, 2, 1, 4).astype(bool)
    return [
        *(Case(op, pair, label=f"{pair[0].shape},{pair[1].shape}") for op in ("Add", "Sub", "Mul", "Div") for pair in pairs),
        Case("Pow", [positive(3, 4), normal(4)]),
        Case("Pow", [positive(3, 1), normal(4)], label="broadcast"),
        Case("Pow", [positive(3, 4), whole(4, 4)], label="int exponent"),
        *(Case("Mod", [apart(3, 4), positive(4)], {"fmod": fmod}, label=str(fmod)) for fmod in (0, 1)),
        Case("PRelu", [apart(2, 3, 4, 4), positive(3, 1, 1)]),
        *(Case(op, [apart(2, 3), apart(3) + 0.31, apart(2, 1) + 0.17]) for op in ("Min", "Max", "Sum", "Mean")),
        *(Case(op, [apart(2, 3)], label="one") for op in ("Min", "Max", "Sum", "Mean")),
        Case("Where", [flags, normal(3, 4), normal(1)]),
        Case("Bias", [normal(2, 3, 4), normal(3)], {"axis": 1}),
        Case("Bias", [normal(2, 3), normal(3)], {"axis": 1}, label="rows"),
    ]  # fmt: skip


def _pool(op: str, shape: Sequence[int], kernel: Sequence[int], **attrs: Any) -> Case:
    average = {"count_include_pad": 0} if op == "AveragePool" else {}
    full = {**window(len(shape) - 2, kernel), "ceil_mode": 0, **average, **attrs}
    return Case(op, [distinct(*shape)], full, label=f"{tuple(shape)}{tuple(kernel)}{sorted(attrs.items())}")


def _pools() -> list[Case]:
    shapes = [
        ((1, 2, 8, 7), (2, 2), {"strides": [2, 2]}),
        ((1, 2, 9, 8), (3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ((1, 2, 9, 8), (3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1}),
        ((1, 2, 10, 10), (3, 2), {"strides": [3, 4], "ceil_mode": 1}),
        ((1, 2, 11), (3,), {"strides": [2], "pads": [1, 1], "dilations": [2]}),
        ((1, 1, 6, 6, 7), (3, 3, 3), {"strides": [1, 2, 3], "pads": [1] * 6}),
        ((2, 1, 7, 6), (2, 3), {"strides": [3, 1], "pads": [1, 0, 0, 2]}),
    ]  # fmt: skip
    whole_axes = [(op, shape) for op in ("GlobalAveragePool", "GlobalMaxPool") for shape in ((2, 3, 4, 5), (2, 3, 6))]
    return [
        *(_pool(op, shape, kernel, **attrs) for op in ("MaxPool", "AveragePool") for shape, kernel, attrs in shapes),
        *(_pool("AveragePool", shape, kernel, count_include_pad=1, **attrs) for shape, kernel, attrs in shapes),
        *(_pool("LpPool", shape, kernel, p=p, **attrs) for shape, kernel, attrs in shapes[:5] for p in (1, 2, 3)),
        *(Case(op, [distinct(*shape)], label=str(shape)) for op, shape in whole_axes),
    ]


def _normalisations() -> list[Case]:
    eps = {"epsilon": 1e-3}
    x = (2, 6, 4, 3)
    return [
        *(Case("BatchNormalization", [normal(*s), *(positive(s[1]) for _ in range(4))], eps, label=str(s)) for s in (x, (4, 3))),
        *(Case("LRN", [normal(*x)], {"size": n, "alpha": 0.3, "beta": 0.75, "bias": 1.5}, label=str(n)) for n in (1, 2, 3, 5)),
        *(Case(op, [normal(2, 3, 4)], {"axis": axis}, label=str(axis)) for op in ("Softmax", "LogSoftmax") for axis in (0, 1, 2)),
        *(Case(op, [normal(2, 3, 4)], {"flatten_from": n}, label=f"from{n}") for op in ("Softmax", "LogSoftmax") for n in (0, 1, 2)),
        Case("LayerNormalization", [normal(*x), normal(4, 3), normal(4, 3)], {"axis": 2, **eps}),
        Case("LayerNormalization", [normal(*x), normal(3), None], {"axis": 3, **eps}, label="no bias"),
        Case("LayerNormalization", [normal(*x), normal(1, 3), normal(3)], {"axis": 2, **eps}, label="broadcast"),
        Case("RMSNormalization", [normal(*x), normal(4, 3)], {"axis": 2, **eps}),
        Case("InstanceNormalization", [normal(*x), normal(6), normal(6)], eps),
        *(Case("GroupNormalization", [normal(*x), normal(n), normal(n)], {"num_groups": 3, **eps}, label=str(n)) for n in (3, 6)),
    ]  # fmt: skip


def _reductions() -> list[Case]:
    ops = ["ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare"]
    forms = [([1], 1), ([1], 0), ([0, 2], 0), ([0, 1, 2], 0)]
    return [
        Case(op, [apart(2, 3, 4)], {"axes": axes, "keepdims": keep}, label=f"{axes}{keep}")
        for op in ops
        for axes, keep in forms
    ]


def _moves() -> list[Case]:
    def cut(shape: Sequence[int], starts: list[int], ends: list[int], axes: list[int], steps: list[int]) -> Case:
        attrs = {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
        return Case("Slice", [normal(*shape)], attrs, label=f"{starts}{ends}{axes}{steps}")

    pads = [("constant", [1, 0, 0, 2, 1, 0]), ("reflect", [1, 0, 2, 1, 2, 0]), ("edge", [2, 0, 1, 0, 3, 1]), ("wrap", [1, 0, 2, 1, 2, 0]),
            ("constant", [-1, 1, 0, 0, -1, 2])]  # fmt: skip
    return [
        Case("Concat", [normal(2, 3), normal(2, 1), normal(2, 4)], {"axis": 1}),
        Case("Concat", [normal(2, 3)], {"axis": 0}, label="one"),
        Case("Split", [normal(2, 7)], {"axis": 1, "split": [3, 1, 3]}, outputs=3),
        Case("Split", [normal(2, 7)], {"axis": 0, "split": [2]}, label="one"),
        cut((5, 7), [1, 2], [4, 6], [0, 1], [1, 1]),
        cut((5, 11), [2], [11], [1], [3]),
        cut((5, 11), [-2], [-12], [1], [-3]),
        cut((6, 11), [5, 1], [-100, 100], [0, 1], [-1, 2]),
        cut((6, 4), [100], [1], [0], [-2]),
        Case("Gather", [normal(5, 4), whole(5, 2, 3)], {"axis": 0}),
        Case("Gather", [normal(2, 5, 3), np.array([4, -1, 4, 0])], {"axis": 1}, label="repeated"),
        Case("Gather", [normal(2, 5), np.asarray(3)], {"axis": 1}, label="scalar"),
        Case("Transpose", [normal(2, 3, 4)], {"perm": [2, 0, 1]}),
        *(Case("Pad", [normal(3, 5, 4)], {"pads": p, "mode": mode, "value": 0.5}, label=f"{mode}{p}") for mode, p in pads),
        Case("Expand", [normal(3, 1)], {"shape": [2, 3, 4]}),
        Case("Expand", [normal(2, 3)], {"shape": [1, 3]}, label="two ways"),
        Case("Tile", [normal(2, 3)], {"repeats": [2, 3]}),
        *(Case("DepthToSpace", [normal(2, 8, 3, 2)], {"blocksize": 2, "mode": mode}, label=mode) for mode in ("DCR", "CRD")),
        Case("SpaceToDepth", [normal(2, 3, 4, 6)], {"blocksize": 2}),
        Case("SpaceToDepth", [normal(2, 3, 4, 6)], {"blocksize": 2, "mode": "CRD"}, label="CRD"),
        *_resizes(),
        Case("Reshape", [normal(2, 6)], {"shape": [3, 4]}),
        Case("Flatten", [normal(2, 3, 4)], {"axis": 2}),
        Case("Squeeze", [normal(2, 1, 3, 1)], {"axes": [1, 3]}),
        Case("Unsqueeze", [normal(2, 3)], {"axes": [0, 2]}),
    ]  # fmt: skip


def _resizes() -> list[Case]:
    forms = [("nearest", "asymmetric", (8, 6)), ("nearest", "half_pixel", (3, 7)), ("linear", "half_pixel", (8, 6)),
             ("linear", "align_corners", (5, 7)), ("linear", "asymmetric", (2, 5))]  # fmt: skip
    return [
        Case("Resize", [normal(1, 2, 4, 3)],
             {"sizes": [1, 2, *size], "scales": [1.0, 1.0, size[0] / 4, size[1] / 3], "mode": mode,
              "coordinate": coordinate, "nearest_mode": "floor"}, label=f"{mode}-{coordinate}-{size}")
        for mode, coordinate, size in forms
    ]  # fmt: skip


def _indices() -> list[Case]:
    scan = [{"exclusive": e, "reverse": r, "axis": 1} for e in (0, 1) for r in (0, 1)]
    pairs = np.array([[0, 3], [2, 1], [4, 0]])
    return [
        Case("GatherElements", [normal(5, 4), whole(5, 3, 4)], {"axis": 0}),
        Case("GatherND", [normal(5, 4, 2), np.array([[0, 3], [0, 3], [4, 1]])], {"batch_dims": 0}),
        Case("GatherND", [normal(2, 5, 3), whole(5, 2, 4, 1)], {"batch_dims": 1}, label="batch"),
        *(Case("ScatterND", [normal(5, 4), pairs, normal(3)], {"reduction": r}, label=r) for r in ("none", "add")),
        *(
            Case(
                "ScatterElements",
                [normal(5, 3), np.array([[4, 0, 1], [2, 1, 0]]), normal(2, 3)],
                {"axis": 0, "reduction": r},
                label=r,
            )
            for r in ("none", "add")
        ),
        Case("OneHot", [whole(4, 3, 2), positive(2)], {"axis": 1, "depth": 4}),
        *(Case("Trilu", [normal(2, 4, 5)], {"upper": upper, "k": 1}, label=str(upper)) for upper in (0, 1)),
        *(Case("TopK", [apart(3, 6)], {"axis": 1, "k": 2, "largest": n}, outputs=2, label=str(n)) for n in (0, 1)),
        *(Case("CumSum", [normal(3, 5)], attrs, label=str(i)) for i, attrs in enumerate(scan)),
        *(Case("CumProd", [positive(3, 5)], attrs, label=str(i)) for i, attrs in enumerate(scan)),
    ]


def _gradient_ops() -> list[Case]:
    return [
        Case("GatherGrad", [normal(2, 3, 4), whole(5, 2, 3)], {"axis": 0, "size": 5}),
        Case("GatherGrad", [normal(4, 2, 3), whole(5, 2)], {"axis": 1, "size": 5}, label="axis 1"),
    ]


_OWN = [
    *_matrix(),
    *_unary(),
    *_binary(),
    *_pools(),
    *_normalisations(),
    *_reductions(),
    *_moves(),
    *_indices(),
    *_gradient_ops(),
]
_SEEN = {case.op for case in _OWN}
GATINGS: dict[str, dict[str, Any]] = {
    "chosen": {},
    "softmax": {"score": "softmax", "scale": 1.5},
    "normalised": {"score": "softmax", "normalise": True},
    "sigmoid": {"score": "sigmoid", "normalise": True, "groups": 2, "top_groups": 1, "pair": True},
}
"""Attributes of TopKGating."""


def _routed() -> list[Case]:
    """Choices of experts, and attention with sinks."""
    rng = np.random.default_rng(12)
    zero = {"a_zero_point": 0, "b_zero_point": 0}
    rows = [(6, 2, 6, {}), (6, 2, 12, {}), (6, 1, 6, {"full": 1})]
    return [
        *(Case("TopKGating", [apart(4, 8, rng=rng)], {"k": 2, **attrs}, outputs=2, label=name) for name, attrs in GATINGS.items()),
        Case("TopKGating", [apart(4, 8, rng=rng), 0 * normal(8, rng=rng)], {"k": 3}, outputs=2, fixed=(1,), label="corrected"),
        *(
            Case("ExpertMatMul", [normal(given, 5, rng=rng), normal(4, 5, 3, rng=rng), rng.integers(0, 4, (tokens, k))],
                 {**zero, **attrs}, label=f"{given} of {tokens}x{k}")
            for tokens, k, given, attrs in rows
        ),
        Case("Softmax", [normal(2, 3, 4, rng=rng), normal(3, 1, rng=rng)], {"axis": 2}, label="sinks"),
    ]  # fmt: skip


CASES = [*_OWN, *_routed()] + [
    Case(op.name, [apart(4, 10)], dict(op.onnx))
    for op in REGISTRY.values()
    if callable(op.gradient) and op.onnx is not None and op.name not in _SEEN
]
"""A new op of one input that brings its rule is drawn; every other one needs a case of its own."""
