"""Every op of the registry against ONNX Runtime: values, shapes, types."""

from __future__ import annotations

import numpy as np
import pytest

from accelsim.errors import ModelError
from accelsim.workload import ops
from accelsim.workload.graph import Node, Tensor
from tests.helpers.op_cases import CASES, WITHOUT_ONNX, f32
from tests.helpers.ort_oracle import Case, check, outs, own


@pytest.mark.parametrize("case", CASES, ids=str)
def test_as_onnx_runtime(case: Case) -> None:
    check(case)


def test_every_op_has_a_case() -> None:
    assert {case.op for case in CASES} | WITHOUT_ONNX == set(ops.REGISTRY)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_work_is_counted(case: Case) -> None:
    op = ops.get(case.op)
    work = op.work(case.node, case.tensors, outs(case))
    counts = case.attrs.get("mode") in ("linear", "cubic") or case.attrs.get("reduction", "none") != "none"
    moves = op.kind in ("move", "alias") and not counts
    assert (work.macs > 0) == (op.kind == "matrix")
    if moves:
        assert work.ops == 0
    elif op.kind != "matrix" and len(case.inputs) + case.outputs > 2:
        assert work.ops > 0


def test_silu_is_x_times_sigmoid() -> None:
    x = np.array([-200, -1, 0, 1, 200], np.float64)
    y = own(Case("Silu", [x.astype(np.float32)]))[0]
    np.testing.assert_allclose(y, x / (1 + np.exp(-x)), rtol=1e-6, atol=1e-38)


def test_bias_adds_along_its_axis() -> None:
    x, bias = f32(2, 3, 4), f32(3)
    np.testing.assert_array_equal(own(Case("Bias", [x, bias], {"axis": 1}))[0], x + bias[None, :, None])
    wide = np.full((2, 3), 2**31 - 1, np.int32)
    one = np.array([1, 0, -1], np.int32)
    want = [[-(2**31), 2**31 - 1, 2**31 - 2]] * 2
    np.testing.assert_array_equal(own(Case("Bias", [wide, one], {"axis": 1}))[0], want)


@pytest.mark.parametrize("shift", [0, 1, 5, 31])
def test_shift_rounds_half_up_and_clips(shift: int) -> None:
    x = np.array([-(2**31), -1000, -97, -3, -2, -1, 0, 1, 2, 3, 47, 48, 5000, 2**31 - 1], np.int64)
    want = np.clip(np.floor(x / 2**shift + (0.5 if shift else 0)), -128, 127)
    y = own(Case("RequantizeShift", [x.astype(np.int32)], {"shift": shift}))[0]
    np.testing.assert_array_equal(y, want)


GEMM = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}
CONV = {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [0] * 4, "dilations": [1, 1], "group": 1}


@pytest.mark.parametrize(
    ("op", "shapes", "attrs"),
    [
        ("Add", [(2, 3), (2, 4)], {}),
        ("MatMul", [(2, 3), (4, 5)], {}),
        ("Gemm", [(2, 3), (4, 5)], GEMM),
        ("Gemm", [(2, 3), (3, 5), (4, 2, 5)], GEMM),
        ("Conv", [(1, 3, 8, 8), (4, 2, 3, 3)], CONV),
        ("Conv", [(1, 3, 2, 2), (4, 3, 3, 3)], CONV),
        ("Conv", [(1, 3, 8, 8), (4, 3, 5, 5)], CONV),
        ("MaxPool", [(1, 3, 8)], {**CONV, "ceil_mode": 0}),
        ("Reshape", [(2, 3)], {"shape": [4, 2]}),
        ("Squeeze", [(2, 3)], {"axes": [0]}),
        ("Concat", [(2, 3), (3, 3)], {"axis": 1}),
        ("Split", [(2, 3)], {"axis": 1, "split": [1, 1]}),
        ("Bias", [(2, 3), (2,)], {"axis": 1}),
        ("ReduceSum", [(2, 3)], {"axes": [2], "keepdims": 1}),
        ("Add", [(2, 3)], {}),
    ],
)
def test_shapes_that_do_not_fit_name_the_node(op: str, shapes: list[tuple[int, ...]], attrs: dict) -> None:
    tensors: list[Tensor | None] = [Tensor(f"x{i}", shape) for i, shape in enumerate(shapes)]
    if op == "Add" and len(shapes) == 1:
        tensors.append(None)
    with pytest.raises(ModelError, match="the-node"):
        ops.get(op).infer(Node("the-node", op, [], ["y"], attrs), tensors)


def test_unknown_op_has_a_nearest_name() -> None:
    with pytest.raises(KeyError, match="Conv"):
        ops.get("Cnov")
    assert ops.find("Cnov") is None
