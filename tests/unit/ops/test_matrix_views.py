"""The matrix views, multiplied, are the kernel: for every matrix op, group and layout."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.workload import ops
from accelsim.workload.graph import Array
from accelsim.workload.matrix import a_matrix, b_matrix, finish, y_from_matrix
from accelsim.workload.ops.base import Gemm
from accelsim.workload.ops.product import product
from accelsim.workload.ops.values import row_major
from tests.helpers.geometry import convolutions
from tests.helpers.op_cases import CASES
from tests.helpers.ort_oracle import Case, outs, own

MATRIX = [case for case in CASES if ops.get(case.op).kind == "matrix" and case.inputs[0].ndim < 5]


def by_views(case: Case) -> tuple[Gemm, Array]:
    view = ops.get(case.op).gemm
    assert view is not None
    gemm = view(case.node, case.tensors, outs(case))
    assert gemm is not None
    a, b = case.inputs[0], case.inputs[1]
    products = []
    for group in range(gemm.groups):
        left, right = a_matrix(gemm, a, group, case.node), b_matrix(gemm, b, group, case.node)
        assert left.shape == (gemm.M, gemm.K)
        assert right.shape == (gemm.K, gemm.N)
        products.append(product(left, right))
    y = y_from_matrix(gemm, np.stack(products), outs(case)[0].shape)
    return gemm, finish(case.node, y, case.inputs[2] if len(case.inputs) > 2 else None)


@pytest.mark.parametrize("case", MATRIX, ids=str)
def test_views_of_every_matrix_op(case: Case) -> None:
    gemm, y = by_views(case)
    np.testing.assert_allclose(y, own(case)[0], rtol=1e-5, atol=1e-4)
    assert gemm.macs == ops.get(case.op).work(case.node, case.tensors, outs(case)).macs
    assert (gemm.a, gemm.b) == ("x0", "x1")


@settings(max_examples=60)
@given(convolutions())
def test_views_of_any_conv(case: Case) -> None:
    np.testing.assert_allclose(by_views(case)[1], own(case)[0], rtol=1e-4, atol=1e-4)


@settings(max_examples=60)
@given(convolutions(dtype=np.int8), st.integers(-9, 9), st.integers(-9, 9))
def test_views_of_integer_convs_with_zero_points(case: Case, a_zero: int, b_zero: int) -> None:
    case.attrs.update(a_zero_point=a_zero, b_zero_point=b_zero)
    np.testing.assert_array_equal(by_views(case)[1], own(case)[0])


def test_shared_weights_take_the_batch_as_rows() -> None:
    case = Case("MatMul", [np.ones((2, 3, 5, 7), np.float32), np.ones((7, 4), np.float32)])
    gemm, _ = by_views(case)
    assert (gemm.groups, gemm.M, gemm.N, gemm.K) == (1, 30, 4, 7)


def test_two_batched_operands_are_groups() -> None:
    case = Case("MatMul", [np.ones((2, 1, 5, 7), np.float32), np.ones((3, 7, 4), np.float32)])
    gemm, _ = by_views(case)
    assert (gemm.groups, gemm.M, gemm.N, gemm.K, gemm.batch) == (6, 5, 4, 7, (2, 3))


@pytest.mark.parametrize("rows", [1, 32, 33, 100])
def test_transposed_matrices_become_row_major(rows: int) -> None:
    matrix = np.arange(rows * 3).reshape(rows, 3)
    turned = row_major(matrix.T)
    assert turned.flags.c_contiguous and row_major(turned) is turned
    assert turned.tolist() == [[row[column] for row in matrix.tolist()] for column in range(3)]
