"""Caches of ONNX models: found by their names and what is done with them, appended to in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import accelsim
from accelsim.compiler.numbers.ranges import synthetic
from accelsim.workload.execute import run
from tests.helpers.onnx_models import import_proto

FLOAT = TensorProto.FLOAT


def attention(past: str, present: str, scatter: list[int] | None = None, opset: int = 21) -> onnx.ModelProto:
    """Scores of a query against a cache of 5 rows and the new one, which are joined or written to row ``scatter``."""
    rows = 6 if scatter is None else 5
    w = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)
    constants = [numpy_helper.from_array(w, "w")]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["new"])]
    if scatter is None:
        nodes.append(helper.make_node("Concat", [past, "new"], [present], axis=2))
    else:
        constants.append(numpy_helper.from_array(np.array(scatter, np.int64), "places"))
        nodes.append(helper.make_node("TensorScatter", [past, "new", "places"], [present]))
    nodes += [helper.make_node("Transpose", [present], ["turned"], perm=[0, 1, 3, 2]),
              helper.make_node("MatMul", ["x", "turned"], ["scores"])]  # fmt: skip
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "attention", [info("x", FLOAT, [2, 2, 1, 8]), info(past, FLOAT, [2, 2, 5, 8])],
        [info("scores", FLOAT, [2, 2, 1, rows]), info(present, FLOAT, [2, 2, rows, 8])], constants,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=11)


NAMES = [("past_key_values.0.key", "present.0.key"), ("past_0", "present_0"), ("past_key_values.3.value", "present.3.value"),
         ("past_key_values.0.key", "present_key_values.0.key")]  # fmt: skip


@pytest.mark.parametrize(("past", "present"), NAMES)
def test_rows_joined_to_the_past_are_appended_in_place(past: str, present: str) -> None:
    graph = import_proto(attention(past, present))
    assert graph.states == {past: present}
    result = accelsim.run(graph, "neuroncore-v2", dtype="fp32")
    assert [node.op for node in result.program.graph.nodes].count("Append") == 1
    assert not [row for row in result.ledger if row.tensor in (past, present) and row.component not in ("hbm", "sbuf")]
    for name, values in run(graph, result.feeds).items():
        np.testing.assert_allclose(result.outputs[name], values, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("place", [0, 3, 4])
def test_rows_scattered_to_one_place_are_appended_in_place(place: int) -> None:
    graph = import_proto(attention("past_0", "present_0", [place, place], 24))
    assert graph.states == {"past_0": "present_0"}
    assert [node.attrs["at"] for node in graph.nodes if node.op == "Append"] == [place]
    feeds = synthetic(graph, 1)
    whole = run(graph, feeds)["present_0"]
    np.testing.assert_array_equal(np.delete(whole, place, 2), np.delete(feeds["past_0"], place, 2))
    result = accelsim.run(graph, "neuroncore-v2", dtype="fp32")
    written = sum(
        row.count for row in result.ledger if (row.component, row.action, row.tensor) == ("hbm", "write", "present_0")
    )
    assert written == 2 * 2 * 8 * 4


def test_rows_scattered_to_different_places_are_no_append() -> None:
    graph = import_proto(attention("past_0", "present_0", [1, 2], 24))
    assert not graph.states and "Append" not in [node.op for node in graph.nodes]


@pytest.mark.parametrize(("past", "present"), [("a", "b"), ("past_0", "y"), ("x_past", "x_past_out")])
def test_other_names_are_no_states(past: str, present: str) -> None:
    """Joining an input and something else is not rare; only the names say that the result comes back."""
    assert not import_proto(attention(past, present)).states


def test_a_past_that_is_not_first_is_no_state() -> None:
    model: Any = attention("past_0", "present_0")
    model.graph.node[1].input[:] = ["new", "past_0"]
    assert not import_proto(model).states
