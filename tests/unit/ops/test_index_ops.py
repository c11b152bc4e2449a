"""Ops by index that ONNX Runtime cannot judge, and laws of those that it can."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.errors import ModelError
from accelsim.machine.simulate import simulate
from accelsim.spec.yaml.load import load_chip
from accelsim.workload import ops
from accelsim.workload.execute import run
from accelsim.workload.graph import Array, Graph, Node, Tensor
from accelsim.workload.onnx.reference import compare, reference_outputs
from tests.helpers.op_cases_index import INDEX_CASES
from tests.helpers.ort_oracle import Case, outs, own

SMALL = arrays(np.float32, array_shapes(min_dims=2, max_dims=3, max_side=5), elements=st.integers(-9, 9))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_one_hot_puts_on_where_the_index_is(axis: int) -> None:
    indices = np.array([[0, 2, -1], [3, -4, 9]], np.int64)
    y = own(Case("OneHot", [indices, np.array([7, 5], np.float32)], {"depth": 3, "axis": axis}))[0]
    for (row, column), index in np.ndenumerate(indices):
        slot = index + 3 if index < 0 else index
        want = [5.0 if at == slot else 7.0 for at in range(3)]
        np.testing.assert_array_equal(np.moveaxis(y, axis, -1)[row, column], want)


@given(SMALL, st.booleans(), st.booleans())
def test_running_products_are_prefix_products(x: Array, exclusive: bool, reverse: bool) -> None:
    y = own(Case("CumProd", [x], {"axis": 1, "exclusive": int(exclusive), "reverse": int(reverse)}))[0]
    for at in range(x.shape[1]):
        if reverse:
            part = x[:, at + exclusive :]
        else:
            part = x[:, : at + 1 - exclusive]
        np.testing.assert_allclose(y[:, at], np.prod(part.astype(np.float64), axis=1), rtol=1e-5)


@given(SMALL)
def test_scattering_what_was_gathered_changes_nothing(x: Array) -> None:
    indices = np.argsort(x, axis=0, kind="stable")
    picked = own(Case("GatherElements", [x, indices], {"axis": 0}))[0]
    np.testing.assert_array_equal(picked, np.sort(x, axis=0))
    back = own(Case("ScatterElements", [np.zeros_like(x), indices, picked], {"axis": 0, "reduction": "none"}))[0]
    np.testing.assert_array_equal(back, x)


@given(SMALL, st.integers(1, 5), st.booleans())
def test_the_k_largest_are_the_front_of_the_sorted_row(x: Array, k: int, largest: bool) -> None:
    k = min(k, x.shape[1])
    values, places = own(Case("TopK", [x], {"axis": 1, "k": k, "largest": int(largest)}, outputs=2))
    ordered = np.sort(-x if largest else x, axis=1)
    front = np.take(ordered, range(k), axis=1)
    np.testing.assert_array_equal(values, -front if largest else front)
    np.testing.assert_array_equal(np.take_along_axis(x, places, axis=1), values)


@given(SMALL)
def test_two_triangles_make_the_whole(x: Array) -> None:
    parts = [own(Case("Trilu", [x], {"upper": up, "k": k}))[0] for up, k in ((1, 1), (0, 0))]
    np.testing.assert_array_equal(parts[0] + parts[1], x)


@pytest.mark.parametrize(
    ("value", "given_as", "to", "want"),
    [
        (np.float32(1.0), "fp32", "int32", 0x3F800000),
        (np.float32(1.0), "bf16", "uint16", 0x3F80),
        (np.float32(-2.0), "fp16", "int16", 0xC000 - 0x10000),
        (np.uint8(0x7E), "uint8", "fp8_e4m3fn", 448.0),
    ],
)
def test_bits_are_those_that_are_stored(value: Array, given_as: str, to: str, want: float) -> None:
    node = Node("bits", "BitCast", ["x"], ["y"], {"to": to, "given": given_as})
    assert ops.get("BitCast").kernel(node, [np.asarray(value)])[0].item() == want
    assert ops.get("BitCast").infer(node, [Tensor("x", (), given_as)]) == [((), to)]


def test_bits_of_another_size_are_refused() -> None:
    node = Node("bits", "BitCast", ["x"], ["y"], {"to": "int8", "given": "fp32"})
    with pytest.raises(ModelError, match="bits: fp32 as int8"):
        ops.get("BitCast").infer(node, [Tensor("x", (2,))])


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-3, 40))
def test_shifts_beyond_the_width_leave_the_sign(value: int, count: int) -> None:
    a, b = np.array([value], np.int32), np.array([count], np.int32)
    right, left = (own(Case("BitShift", [a, b], {"direction": way}))[0].item() for way in ("RIGHT", "LEFT"))
    beyond = not 0 <= count < 32
    assert right == (-(value < 0) if beyond else value >> count)
    assert left == (0 if beyond else ((value << count) + 2**31) % 2**32 - 2**31)


def test_a_fractional_length_is_kept_between_aligned_corners() -> None:
    """Four elements times 0.6 are 2.4: the second of two results lies at 3 / 1.4 (ONNX operator Resize)."""
    x = np.arange(1, 5, dtype=np.float32).reshape(1, 4)
    attrs = {"sizes": [1, 2], "scales": [1.0, 0.6], "mode": "linear", "coordinate": "align_corners",
             "nearest_mode": "floor"}  # fmt: skip
    np.testing.assert_allclose(own(Case("Resize", [x], attrs))[0], [[1, 1 + 3 / 1.4]], rtol=1e-6)


def _graph(case: Case) -> tuple[Graph, dict[str, Array]]:
    tensors = {tensor.name: tensor for tensor in (*case.tensors, *outs(case)) if tensor is not None}
    inputs = [name for name in case.node.inputs if name]
    graph = Graph("one op", [case.node], tensors, inputs, list(case.node.outputs), case.opset)
    return graph, {name: value for name, value in zip(inputs, case.inputs, strict=True) if value is not None}


@pytest.mark.parametrize("case", INDEX_CASES, ids=str)
def test_simulated_as_executed(case: Case) -> None:
    graph, feeds = _graph(case)
    want = run(graph, feeds)
    program = compile(graph, load_chip("systolic-generic"), Options(dtype="fp32"))
    got = simulate(program, feeds, "exact").outputs
    for name in graph.outputs:
        np.testing.assert_array_equal(got[name], want[name])


ONE_HOT = Case("OneHot", [np.array([0, 2, -1]), np.array([7, 5], np.float32)], {"depth": 3, "axis": 1})


@pytest.mark.parametrize("case", [*INDEX_CASES, ONE_HOT], ids=str)
def test_exported_as_executed(case: Case) -> None:
    graph, feeds = _graph(case)
    reference = reference_outputs(graph, feeds)
    assert all(row.relative < 1e-4 for row in compare(run(graph, feeds), reference.values))
