"""Models that their file quantises: the integers are those of ONNX Runtime, and of the file's own float ops."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.compiler.graph.absorb_batch_norm import absorb_batch_norm
from accelsim.compiler.graph.legalise import legalise
from accelsim.compiler.numbers.integerise import integerise
from accelsim.compiler.numbers.ranges import synthetic
from accelsim.compiler.state import State
from accelsim.workload import execute
from accelsim.workload.graph import Array, Graph, Tensor
from accelsim.workload.integer_reference import integer_reference
from accelsim.workload.onnx.exporting.model import export_onnx
from accelsim.workload.ops import base
from accelsim.workload.sources.load import load_model
from tests.helpers.onnx_models import import_proto
from tests.helpers.pass_graphs import Graphs, state_of

SCALE, OUT = np.float32(0.021), np.float32(0.35)


class Quantised(Graphs):
    """Graphs in QDQ form."""

    def pair(self, x: str, name: str, scale: Any = OUT, zero: int = 0, dtype: str = "int8") -> str:
        """x quantised and dequantised."""
        attrs = {"scale": np.asarray(scale, np.float32), "zero_point": zero, "axis": None}
        codes = self.op("Quantize", [x], f"{name}.q", dtype=dtype, **attrs)
        return self.op("Dequantize", [codes], f"{name}.dq", **attrs)

    def codes(self, name: str, values: Array, scale: Any, zero: Any = 0, axis: int | None = None) -> str:
        """A constant of codes, dequantised."""
        self.graph.tensors[name] = Tensor(name, values.shape, str(values.dtype), values)
        attrs = {"scale": np.asarray(scale, np.float32), "zero_point": zero, "axis": axis}
        return self.op("Dequantize", [name], f"{name}.dq", **attrs)

    def int8(self, *shape: int) -> Array:
        return self.rng.integers(-127, 128, shape).astype(np.int8)

    def window(self, kernel: int) -> dict[str, Any]:
        return {"kernel_shape": [kernel] * 2, "strides": [1, 1], "pads": [kernel // 2] * 4, "dilations": [1, 1],
                "group": 1, "a_zero_point": 0, "b_zero_point": 0}  # fmt: skip


def integers(graph: Graph) -> State:
    state = state_of(graph, dtype="int8")
    integerise(state)
    return state


def ops(graph: Graph) -> Counter[str]:
    return Counter(node.op for node in graph.nodes)


def assert_one_step(before: Graph, after: Graph, step: float, share: float = 1e-3, seed: int = 0) -> None:
    """The integer graph gives the codes of the float one, or very seldom a neighbour."""
    feeds = synthetic(before, seed)
    old, new = execute.run(before, feeds), execute.run(after, feeds)
    assert list(old) == list(new)
    for name, values in old.items():
        assert values.dtype == new[name].dtype
        apart = np.abs(new[name].astype(np.float64) - values) / step
        assert apart.max() <= 1.001
        assert np.count_nonzero(apart > 1e-4) <= max(share * apart.size, 1)
        assert np.ptp(values) > 4 * step


def assert_reference(graph: Graph) -> None:
    feeds = synthetic(graph, 3)
    expected = integer_reference(graph, feeds, lambda node, values: base.get(node.op).kernel(node, values))
    for name, values in execute.run(graph, feeds, keep=True).items():
        np.testing.assert_array_equal(values, expected[name], err_msg=name)


def onnx_runtimes_own(name: str, folder: Path, per_channel: bool, form: str = "QDQ") -> tuple[Any, dict[str, Array]]:
    """A model that ONNX Runtime's quantiser has written, and its results."""
    quantization = pytest.importorskip("onnxruntime.quantization")
    from accelsim.workload.onnx.reference import _onnxruntime

    logging.getLogger().setLevel(logging.ERROR)
    graph = load_model(name)
    onnx.save(export_onnx(graph), folder / "float.onnx")

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self.feeds = iter([synthetic(graph, seed) for seed in range(2)])

        def get_next(self) -> Any:
            return next(self.feeds, None)

    kinds = (quantization.QuantType.QUInt8, quantization.QuantType.QInt8)
    quantization.quantize_static(
        folder / "float.onnx", folder / "codes.onnx", Reader(), quant_format=quantization.QuantFormat[form],
        per_channel=per_channel, activation_type=kinds[0 if per_channel else 1], weight_type=kinds[1],
    )  # fmt: skip
    model = onnx.load(folder / "codes.onnx")
    return model, _onnxruntime(model, synthetic(graph, 9), True)[0]


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize("per_channel", [True, False], ids=["uint8-channels", "int8-tensor"])
@pytest.mark.parametrize(
    "name", ["mlp?hidden=32", "cnn", "lstm?steps=2,hidden=8", "gpt-prefill?seq=8,hidden=16,heads=2"]
)
def test_files_of_onnx_runtimes_quantiser(name: str, per_channel: bool, form: str, tmp_path: Path) -> None:
    model, theirs = onnx_runtimes_own(name, tmp_path, per_channel, form)
    before = import_proto(model)
    state = integers(before)
    products = [node for node in state.graph.nodes if node.op in ("Conv", "Gemm", "MatMul")]
    assert products
    for node in products:
        assert state.graph.tensors[node.outputs[0]].dtype == "int32"
    assert ops(state.graph)["Requantize"] == len(products)
    ours = execute.run(state.graph, synthetic(before, 9))
    steps = {node.outputs[0]: float(node.attrs["scale"]) for node in state.graph.nodes if node.op == "Dequantize"}
    for key, values in theirs.items():
        apart = np.abs(ours[key].astype(np.float64) - values) / steps[key]
        assert apart.max() <= 1.001
        share = 1e-3 if form == "QDQ" else 0.03  # its QLinearAdd multiplies in another order
        assert np.count_nonzero(apart > 1e-3) <= max(share * apart.size, 1)
        assert np.ptp(values) > 0
    assert_reference(state.graph)


def test_the_passes_behind_it_keep_the_values(tmp_path: Path) -> None:
    model, _ = onnx_runtimes_own("cnn", tmp_path, True)
    state = integers(import_proto(model))
    feeds = synthetic(state.graph, 2)
    before = execute.run(state.graph, feeds)
    legalise(state)
    absorb_batch_norm(state)
    for name, values in execute.run(state.graph, feeds).items():
        np.testing.assert_array_equal(values, before[name])


BETWEEN: dict[str, Any] = {
    "nothing": lambda g, y: y,
    "relu": lambda g, y: g.op("Relu", [y], "r"),
    "clip": lambda g, y: g.op("Clip", [y], "r", min=-3.0, max=7.7),
    "half-clip": lambda g, y: g.op("Clip", [y], "r", min=None, max=1.0),
    "pool": lambda g, y: g.max_pool(g.op("Relu", [y], "r"), 2, "p"),
    "moves": lambda g, y: g.op("Transpose", [g.op("Reshape", [y], "v", shape=[5, 64])], "t", perm=[1, 0]),
    "pad": lambda g, y: g.op("Pad", [y], "d", pads=[0, 0, 1, 1, 0, 0, 1, 1], mode="constant", value=0.0),
}


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("between", sorted(BETWEEN))
def test_what_stands_before_a_quantize_works_on_codes(between: str, dtype: str) -> None:
    g = Quantised()
    low = 0 if dtype == "uint8" else -128
    x = g.pair(g.input("x", (1, 4, 8, 8)), "x", SCALE, low + 131, dtype)
    w = g.codes("w", g.int8(5, 4, 3, 3), g.rng.uniform(0.001, 0.01, 5), 0, 0)
    y = g.op("Conv", [x, w], "c", **g.window(3))
    before = g.finish(g.pair(BETWEEN[between](g, y), "y", np.float32(0.04), low + 119, dtype))
    after = integers(before).graph
    found = ops(after)
    assert found["Quantize"] == found["Dequantize"] == found["Requantize"] == 1
    assert after.tensors[next(node for node in after.nodes if node.op == "Requantize").outputs[0]].dtype == dtype
    assert_one_step(before, after, 0.04)
    assert_reference(after)


def test_a_relu_that_the_format_does_already_goes() -> None:
    g = Quantised()
    x = g.pair(g.input("x", (6, 16)), "x", SCALE)
    y = g.op("MatMul", [x, g.codes("w", g.int8(16, 9), 0.01)], "m", a_zero_point=0, b_zero_point=0)
    before = g.finish(g.pair(g.op("Relu", [y], "r"), "y", OUT, 0, "uint8"))
    after = integers(before).graph
    assert ops(after) == {"Quantize": 1, "MatMul": 1, "Requantize": 1, "Dequantize": 1}
    assert_one_step(before, after, float(OUT))


@pytest.mark.parametrize(("zero", "op", "attrs"), [(0, "Relu", {}), (-7, "Clip", {"min": -7, "max": None})])
def test_a_relu_of_codes_keeps_what_is_above_the_zero_point(zero: int, op: str, attrs: dict[str, Any]) -> None:
    g = Quantised()
    x = g.pair(g.input("x", (6, 16)), "x", SCALE)
    y = g.op("MatMul", [x, g.codes("w", g.int8(16, 9), 0.01)], "m", a_zero_point=0, b_zero_point=0)
    after = integers(g.finish(g.pair(g.op("Relu", [y], "r"), "y", OUT, zero))).graph
    assert [(node.op, node.attrs) for node in after.nodes][3] == (op, attrs)


@settings(max_examples=30)
@given(st.data())
def test_gemms_with_any_bias_and_zero_points(data: st.DataObject) -> None:
    g = Quantised(data.draw(st.integers(0, 99)))
    turned, form = (data.draw(st.booleans()), data.draw(st.sampled_from(["none", "real", "codes", "others", "row"])))
    zero_x, zero_w, zero_y = (data.draw(st.integers(-20, 20)) for _ in range(3))
    channels = data.draw(st.booleans())
    scale = g.rng.uniform(0.004, 0.009, 7).astype(np.float32) if channels else np.float32(0.006)
    values = g.int8(7, 24) if turned else g.int8(24, 7)
    w = g.codes("w", values, scale, zero_w, (0 if turned else 1) if channels else None)
    x = g.pair(g.input("x", (5, 24)), "x", SCALE, zero_x)
    bias = g.rng.integers(-3000, 3000, 7).astype(np.int32)
    given_ = {"none": lambda: None, "real": lambda: g.constant("b", (bias * SCALE * scale).astype(np.float32)),
              "row": lambda: g.constant("b", (bias * SCALE * scale).astype(np.float32).reshape(1, 7)),
              "codes": lambda: g.codes("b", bias, SCALE * scale, 0, 0 if channels else None),
              "others": lambda: g.codes("b", bias, np.float32(2e-4))}[form]()  # fmt: skip
    before = g.finish(g.pair(g.gemm_node(x, w, given_, "m", transB=int(turned)), "y", OUT, zero_y))
    state = integers(before)
    product = state.graph.nodes[1]
    assert (product.op, product.attrs["a_zero_point"], product.attrs["b_zero_point"]) == ("Gemm", zero_x, zero_w)
    assert len(product.inputs) == (2 if form == "none" else 3)
    if form in ("codes", "real", "row"):
        np.testing.assert_array_equal(state.graph.tensors[product.inputs[2]].value(), bias)
    assert_one_step(before, state.graph, float(OUT), share=0.03)
    assert_reference(state.graph)


@pytest.mark.parametrize("shape", [(2, 6, 16), (6, 16)])
@pytest.mark.parametrize("form", ["codes", "real"])
def test_a_sum_behind_a_matmul_is_its_bias(shape: tuple[int, ...], form: str) -> None:
    g = Quantised()
    x = g.pair(g.input("x", shape), "x", SCALE, 5)
    scale = g.rng.uniform(0.004, 0.009, 9).astype(np.float32)
    zeros = g.rng.integers(-4, 5, 9)
    y = g.op("MatMul", [x, g.codes("w", g.int8(16, 9), scale, zeros, 1)], "m", a_zero_point=0, b_zero_point=0)
    bias = g.rng.integers(-3000, 3000, 9).astype(np.int32)
    b = (
        g.codes("b", bias, SCALE * scale, 0, 0)
        if form == "codes"
        else g.constant("b", np.float32(bias * SCALE * scale))
    )
    before = g.finish(g.pair(g.op("Add", [b, y], "a"), "y", OUT))
    after = integers(before).graph
    assert [node.op for node in after.nodes] == ["Quantize", "MatMul", "Bias", "Requantize", "Dequantize"]
    np.testing.assert_array_equal(after.tensors[after.nodes[2].inputs[1]].value(), bias)
    np.testing.assert_array_equal(after.nodes[1].attrs["b_zero_point"], zeros)
    assert_one_step(before, after, float(OUT), share=0.02)
    assert_reference(after)


def test_a_last_layer_gives_its_sums_as_reals() -> None:
    g = Quantised()
    x = g.pair(g.input("x", (6, 16)), "x", SCALE, 5)
    scale = g.rng.uniform(0.004, 0.009, 9).astype(np.float32)
    before = g.finish(g.gemm_node(x, g.codes("w", g.int8(16, 9), scale, 0, 1), None, "m"))
    after = integers(before).graph
    assert [node.op for node in after.nodes] == ["Quantize", "Gemm", "Dequantize"]
    feeds = synthetic(before, 0)
    np.testing.assert_allclose(execute.run(after, feeds)["m"], execute.run(before, feeds)["m"], rtol=1e-5, atol=1e-4)


def test_a_product_of_two_activations() -> None:
    g = Quantised()
    a, b = (g.pair(g.input(name, (2, 4, 6, 6)), name, SCALE, zero) for name, zero in (("a", 3), ("b", -9)))
    before = g.finish(g.pair(g.op("MatMul", [a, b], "m", a_zero_point=0, b_zero_point=0), "y", np.float32(0.05)))
    after = integers(before).graph
    product = next(node for node in after.nodes if node.op == "MatMul")
    assert (product.attrs["a_zero_point"], product.attrs["b_zero_point"]) == (3, -9)
    assert_one_step(before, after, 0.05)


def test_a_residual_sum_stays_in_floats_between_codes() -> None:
    g = Quantised()
    x = g.pair(g.input("x", (1, 4, 8, 8)), "x", SCALE)
    w = g.codes("w", g.int8(4, 4, 3, 3), 0.005)
    y = g.pair(g.op("Conv", [x, w], "c", **g.window(3)), "y", OUT)
    before = g.finish(g.pair(g.op("Relu", [g.op("Add", [y, x], "s")], "r"), "z", OUT))
    after = integers(before).graph
    assert ops(after) == {"Quantize": 2, "Dequantize": 3, "Conv": 1, "Requantize": 1, "Add": 1, "Relu": 1}
    assert_one_step(before, after, float(OUT))


def test_branches_of_other_scales_meet_in_codes() -> None:
    g = Quantised()
    x = g.pair(g.input("x", (1, 4, 8, 8)), "x", SCALE)
    left = g.op("Relu", [g.op("Conv", [x, g.codes("w", g.int8(3, 4, 3, 3), 0.005)], "c", **g.window(3))], "r")
    before = g.finish(g.pair(g.op("Concat", [left, x], "cat", axis=1), "y", OUT))
    after = integers(before).graph
    cat = next(node for node in after.nodes if node.op == "Concat")
    assert [after.tensors[name].dtype for name in (*cat.inputs, *cat.outputs)] == ["int8"] * 3
    assert_one_step(before, after, float(OUT))
    assert_reference(after)


def test_moves_between_equal_codes_need_no_reals() -> None:
    g = Quantised()
    x = g.pair(g.input("x", (2, 3, 4)), "x", SCALE, 7)
    y = g.op("Slice", [g.op("Transpose", [x], "t", perm=[2, 0, 1])], "s", starts=[1], ends=[3], axes=[0], steps=[1])
    before = g.finish(g.pair(y, "y", SCALE, 7))
    after = integers(before).graph
    assert [node.op for node in after.nodes] == ["Quantize", "Transpose", "Slice", "Dequantize"]
    feeds = synthetic(before, 0)
    np.testing.assert_array_equal(execute.run(after, feeds)["y.dq"], execute.run(before, feeds)["y.dq"])


def test_weights_seen_through_a_transpose_stay_codes() -> None:
    g = Quantised()
    w = g.op("Transpose", [g.codes("w", g.int8(9, 16), g.rng.uniform(0.004, 0.009, 9), 0, 0)], "wt", perm=[1, 0])
    x = g.pair(g.input("x", (6, 16)), "x", SCALE)
    before = g.finish(g.pair(g.op("MatMul", [x, w], "m", a_zero_point=0, b_zero_point=0), "y", OUT))
    after = integers(before).graph
    product = after.nodes[1]
    assert after.tensors[product.inputs[1]].dtype == "int8"
    np.testing.assert_array_equal(after.tensors[product.inputs[1]].value(), before.tensors["w"].value().T)
    assert_one_step(before, after, float(OUT), share=0.02)


def test_a_result_with_two_readers_is_dequantised_for_both() -> None:
    g = Quantised()
    x = g.pair(g.input("x", (6, 16)), "x", SCALE)
    y = g.op("MatMul", [x, g.codes("w", g.int8(16, 9), 0.01)], "m", a_zero_point=0, b_zero_point=0)
    before = g.finish(g.pair(y, "y", OUT), g.op("Sigmoid", [y], "s"))
    after = integers(before).graph
    assert ops(after)["Requantize"] == 0
    assert after.tensors["m.sum"].dtype == "int32"
    feeds = synthetic(before, 0)
    old, new = (execute.run(graph, feeds) for graph in (before, after))
    np.testing.assert_allclose(new["s"], old["s"], atol=1e-5)
    assert np.abs(new["y.dq"] - old["y.dq"]).max() <= 1.001 * OUT


def test_a_relu_with_two_readers_stays_real() -> None:
    g = Quantised()
    x = g.pair(g.input("x", (6, 16)), "x", SCALE)
    y = g.op("MatMul", [x, g.codes("w", g.int8(16, 9), 0.01)], "m", a_zero_point=0, b_zero_point=0)
    y = g.op("Relu", [y], "r")
    before = g.finish(g.pair(y, "y", OUT), g.op("Sigmoid", [y], "s"))
    after = integers(before).graph
    assert after.tensors["r"].dtype == "fp32"
    feeds = synthetic(before, 0)
    old, new = (execute.run(graph, feeds) for graph in (before, after))
    np.testing.assert_allclose(new["s"], old["s"], atol=1e-5)


def test_integer_weights_alone_are_noted_and_dequantised() -> None:
    g = Quantised()
    before = g.finish(g.op("MatMul", [g.input("x", (6, 16)), g.codes("w", g.int8(16, 9), 0.01)], "m",
                           a_zero_point=0, b_zero_point=0))  # fmt: skip
    state = integers(before)
    assert ops(state.graph) == {"MatMul": 1}
    assert any("1 layer has integer weights but real activations" in note for note in state.notes)
    feeds = synthetic(before, 0)
    np.testing.assert_array_equal(execute.run(state.graph, feeds)["m"], execute.run(before, feeds)["m"])


@pytest.mark.parametrize(("peak", "stays"), [(100, False), (1, True)])
def test_sums_that_could_leave_int32_stay_in_floats(peak: int, stays: bool) -> None:
    g = Quantised()
    x = g.pair(g.input("x", (2, 4096)), "x", np.float32(1e-4), 0, "int16")
    w = (peak * np.ones((4096, 3))).astype(np.int8)
    before = g.finish(g.gemm_node(x, g.codes("w", w, 0.01), None, "m"))
    state = integers(before)
    assert (state.graph.tensors["m"].dtype, ops(state.graph)["Dequantize"]) == ("fp32", 1)
    assert ("m.sum" in state.graph.tensors) is stays
    assert any("could leave 32-bit sums" in note for note in state.notes) is not stays


def test_repeated_quantizes_of_one_tensor_are_one() -> None:
    g = Quantised()
    x = g.input("x", (6, 16))
    outs = []
    for side in "ab":
        w = g.codes(f"w{side}", g.int8(16, 9), 0.01)
        y = g.op("MatMul", [g.pair(x, f"x{side}", SCALE), w], f"m{side}", a_zero_point=0, b_zero_point=0)
        outs.append(g.pair(y, f"y{side}", OUT))
    before = g.finish(*outs)
    after = integers(before).graph
    assert ops(after) == {"Quantize": 1, "MatMul": 2, "Requantize": 2, "Dequantize": 2}
    assert_one_step(before, after, float(OUT), share=0.03)


def test_models_without_codes_are_left_alone() -> None:
    state = state_of(load_model("mlp?hidden=8"))
    graph = state.graph
    integerise(state)
    assert state.graph is graph and not state.notes


def test_the_graph_that_was_given_is_not_changed() -> None:
    g = Quantised()
    x = g.pair(g.input("x", (6, 16)), "x", SCALE)
    before = g.finish(g.gemm_node(x, g.codes("w", g.int8(16, 9), 0.01), None, "m"))
    names = [(node.op, list(node.inputs), list(node.outputs)) for node in before.nodes]
    integers(before)
    assert [(node.op, node.inputs, node.outputs) for node in before.nodes] == names
