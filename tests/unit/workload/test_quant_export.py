"""Quantised models as ONNX files: ONNX Runtime computes what is executed here, and they come back as they were."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest

from accelsim.compiler.numbers.integerise import integerise
from accelsim.compiler.numbers.ranges import synthetic
from accelsim.compiler.passes import PASSES
from accelsim.compiler.state import Options, State
from accelsim.errors import ModelError, UsageError
from accelsim.quantise_api import _chip
from accelsim.workload import execute
from accelsim.workload.graph import Array, Graph, Quant
from accelsim.workload.onnx.exporting.quantised_file import FORMS, export_quantised
from accelsim.workload.onnx.reference import saturates
from accelsim.workload.sources.load import load_model
from accelsim.workload.zoo.build import Builder
from tests.helpers.onnx_models import import_proto

onnxruntime = pytest.importorskip("onnxruntime")


def residual() -> Graph:
    """Convolutions with batch normalisation, a projection, their sum, pooling, averaging, a classifier."""
    b = Builder("residual")
    x = b.input("x", (2, 4, 8, 8))
    left = b.op("Relu", [b.batch_norm(b.conv(x, 6, 3, "c1", pad=1), "n1")], "r1")
    left = b.batch_norm(b.conv(left, 8, 3, "c2", pad=1), "n2")
    right = b.batch_norm(b.conv(x, 8, 1, "c3", bias=0), "n3")
    y = b.max_pool(b.op("Relu", [b.op("Add", [left, right], "sum")], "r2"), 2, "pool")
    y = b.op("Concat", [y, b.conv(y, 3, 1, "c4")], "cat", axis=1)
    y = b.op("Flatten", [b.op("GlobalAveragePool", [y], "mean")], "flat", axis=1)
    return b.finish(b.dense(y, 5, "fc"))


MODELS = ["mlp?hidden=64", "cnn", "mobilenet?width=25,resolution=32", "digits-cnn", "residual", "lstm?steps=2,hidden=8",
          "gpt-prefill?seq=8,hidden=16,heads=2"]  # fmt: skip
SCHEMES = ["symmetric", "affine"]


@cache
def source(name: str) -> Graph:
    graph = residual() if name == "residual" else load_model(name)
    if name == "residual":
        rng = np.random.default_rng(0)
        for tensor in graph.tensors.values():
            if tensor.name not in graph.inputs and tensor.name.startswith(("c", "n", "fc")) and "." in tensor.name:
                values = rng.standard_normal(tensor.shape).astype(np.float32)
                tensor.data = np.abs(values) + 0.5 if tensor.name.endswith((".var", ".scale")) else values
                tensor.source = None
    return graph


def coded(name: str, dtype: str = "int8", scheme: str = "symmetric", **options: Any) -> Graph:
    """The graph of codes that the compiler makes."""
    state = State(source(name), _chip(dtype), Options(dtype=dtype, scheme=scheme, seed=5, **options), dtype)
    for entry in PASSES:
        entry.run(state)
    return state.graph


def by_onnx_runtime(
    model: onnx.ModelProto, feeds: dict[str, Array], optimise: bool = False, disable: str = "0"
) -> dict[str, Array]:
    onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.disable_quant_qdq", disable)
    if saturates():  # its optimiser makes signed activations unsigned, whose sums this processor cuts off
        options.add_session_config_entry("session.qdqisint8allowed", "1")
    if not optimise:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    names = [item.name for item in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def steps(graph: Graph) -> dict[str, float]:
    """One quantisation step of each output: its own, or that of the codes before the last float op."""
    made = {name: part for node in graph.nodes for part in (node, *node.epilogue) for name in part.outputs}
    found = {}
    for name in graph.outputs:
        part = made[name]
        while part.op != "Dequantize" and part.inputs[0] in made:
            part = made[part.inputs[0]]
        found[name] = float(np.max(part.attrs.get("scale", 0)))
    return found


def assert_equal(theirs: dict[str, Array], ours: dict[str, Array]) -> None:
    assert list(theirs) == list(ours)
    for name, values in ours.items():
        assert values.dtype == theirs[name].dtype
        np.testing.assert_array_equal(theirs[name], values, err_msg=name)


def assert_close(theirs: dict[str, Array], ours: dict[str, Array], graph: Graph, share: float = 1e-3) -> None:
    """At most one step, on less than 0.1 % of the values (one value of a small tensor)."""
    for name, step in steps(graph).items():
        apart = np.abs(theirs[name].astype(np.float64) - ours[name])
        assert apart.max() <= 1.01 * step
        assert np.count_nonzero(apart > 0.01 * step) <= max(1, share * apart.size)


def exact_floats(name: str) -> bool:
    """Return whether the float ops of a model are defined to the last bit (softmax and its like are not)."""
    return name.startswith(("mlp", "mobilenet", "digits", "residual"))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", MODELS)
def test_integer_operators_are_computed_to_the_last_bit(name: str, scheme: str) -> None:
    graph = coded(name, scheme=scheme)
    model = export_quantised(graph, "qoperator")
    feeds = synthetic(graph, 1)
    theirs, ours = by_onnx_runtime(model, feeds), execute.run(graph, feeds)
    if exact_floats(name):
        assert_equal(theirs, ours)
    assert_close(theirs, ours, graph)
    found = Counter(node.op_type for node in model.graph.node)
    assert found["QLinearConv"] + found["QLinearMatMul"] > 0
    assert not found["Conv"] + found["Gemm"] + found["MatMul"]
    assert all(np.ptp(values) > 0 for values in ours.values())


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", MODELS)
def test_float_operators_between_codes_are_a_step_off_at_most(name: str, scheme: str) -> None:
    graph = coded(name, scheme=scheme)
    model = export_quantised(graph, "qdq")
    feeds = synthetic(graph, 1)
    assert_close(by_onnx_runtime(model, feeds), execute.run(graph, feeds), graph)
    found = Counter(node.op_type for node in model.graph.node)
    assert not any(op.startswith("QLinear") or op.endswith("Integer") for op in found)
    floats = {item.name for item in model.graph.initializer if item.data_type == onnx.TensorProto.FLOAT}
    products = [node for node in model.graph.node if node.op_type in ("Conv", "Gemm", "MatMul")]
    assert products and not any(floats.intersection(node.input) for node in products)


@pytest.mark.parametrize("form", sorted(FORMS))
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", MODELS)
def test_exported_models_come_back_with_the_same_codes(name: str, scheme: str, form: str) -> None:
    graph = coded(name, scheme=scheme)
    state = State(import_proto(export_quantised(graph, form)), _chip("int8"), Options(), "int8")
    integerise(state)
    feeds = synthetic(graph, 2)
    ours, back = execute.run(graph, feeds), execute.run(state.graph, feeds)
    assert_close(back, ours, graph)
    if exact_floats(name):
        assert_equal(back, ours)
    products = [node for node in state.graph.nodes if node.op in ("Conv", "Gemm", "MatMul")]
    assert products
    assert {state.graph.tensors[node.outputs[0]].dtype for node in products} == {"int32"}


@pytest.mark.parametrize(
    ("dtype", "form", "stored"),
    [
        ("int4", "qdq", onnx.TensorProto.INT4), ("int4xint8", "qdq", onnx.TensorProto.INT4),
        ("int4", "qoperator", onnx.TensorProto.INT8), ("int4xint8", "qoperator", onnx.TensorProto.INT8),
        ("int16", "qdq", onnx.TensorProto.INT16), ("int8xint16", "qdq", onnx.TensorProto.INT8),
        ("fp8_e4m3fn", "qdq", onnx.TensorProto.FLOAT8E4M3FN), ("fp8_e5m2", "qdq", onnx.TensorProto.FLOAT8E5M2),
    ],
)  # fmt: skip
def test_other_formats(dtype: str, form: str, stored: int) -> None:
    graph = coded("digits-cnn", dtype)
    model = export_quantised(graph, form)
    kinds = {item.name: item.data_type for item in model.graph.initializer if len(item.dims) == 4}
    assert set(kinds.values()) == {stored}
    feeds = synthetic(graph, 1)
    share = 0.5 if "16" in dtype else 1e-3  # float32 does not hold all sums of 16-bit codes
    theirs, ours = by_onnx_runtime(model, feeds), execute.run(graph, feeds)
    assert_close(theirs, ours, graph, share)
    state = State(import_proto(model), _chip("int8"), Options(), "int8")
    integerise(state)
    assert_close(execute.run(state.graph, feeds), ours, graph, share)


def test_packed_weights_take_half_the_bytes() -> None:
    sizes = {
        dtype: sum(len(item.raw_data) for item in export_quantised(coded("digits-cnn", dtype)).graph.initializer
                   if len(item.dims) == 4)
        for dtype in ("int8", "int4xint8")
    }  # fmt: skip
    assert sizes["int4xint8"] * 2 == sizes["int8"] > 0


@pytest.mark.parametrize("form", sorted(FORMS))
@pytest.mark.parametrize("name", MODELS)
def test_the_optimiser_of_onnx_runtime_takes_them(name: str, form: str) -> None:
    graph = coded(name)
    model = export_quantised(graph, form)
    assert [item.version for item in model.opset_import] == [20]
    feeds = synthetic(graph, 1)
    theirs, ours = by_onnx_runtime(model, feeds, optimise=True), execute.run(graph, feeds)
    assert_close(theirs, ours, graph, 0.02)


@pytest.mark.parametrize("name", ["digits-cnn", "residual", "mlp?hidden=64"])
@pytest.mark.parametrize("dtype", ["int4", "int4xint8", "fp8_e4m3fn", "int8xint16"])
def test_bounds_of_narrow_codes_survive_the_optimiser(dtype: str, name: str) -> None:
    graph = coded(name, dtype)
    feeds = synthetic(graph, 1)
    theirs = by_onnx_runtime(export_quantised(graph, "qdq"), feeds, optimise=True, disable="1")
    assert_close(theirs, execute.run(graph, feeds), graph, 0.3)


@pytest.mark.parametrize("form", sorted(FORMS))
def test_layers_keep_their_names(form: str) -> None:
    model = export_quantised(coded("digits-cnn"), form)
    names = [node.name for node in model.graph.node]
    assert {"conv1", "conv2", "fc"} <= set(names)
    assert len(set(names)) == len(names)


def test_one_scale_per_tensor() -> None:
    graph = coded("digits-cnn", per_channel=False)
    for form in FORMS:
        feeds = synthetic(graph, 1)
        assert_equal(by_onnx_runtime(export_quantised(graph, form), feeds), execute.run(graph, feeds))


def test_bounds_that_the_codes_have_anyway_are_not_written() -> None:
    graph = coded("digits-cnn", scheme="affine")  # the zero point behind a ReLU is the lowest code
    assert any(part.op == "Clip" for node in graph.nodes for part in node.epilogue)
    for form in FORMS:
        assert not any(node.op_type in ("Clip", "Relu") for node in export_quantised(graph, form).graph.node)


def test_an_idle_bound_between_other_readers_stays() -> None:
    b = Builder("small")
    attrs = {"scale": np.float32(0.1), "zero_point": 3, "axis": None}
    q = b.op("Quantize", [b.input("x", (4, 5))], "q", dtype="int8", **attrs)
    c = b.op("Clip", [q], "c", min=-128, max=None)
    graph = b.finish(b.op("Dequantize", [q], "y", **attrs), b.op("Dequantize", [c], "z", **attrs))
    for name in ("q", "c"):
        graph.tensors[name].quant = Quant(attrs["scale"], 3)
    feeds = synthetic(graph, 1)
    for form in FORMS:
        assert_equal(by_onnx_runtime(export_quantised(graph, form), feeds), execute.run(graph, feeds))


def test_formats_without_such_a_form() -> None:
    with pytest.raises(ModelError) as caught:
        export_quantised(coded("digits-cnn", "int16"), "qoperator")
    assert [problem.where for problem in caught.value.problems] == ["conv1", "conv2", "fc"]
    assert "int16 codes" in str(caught.value) and "QDQ" in str(caught.value)
    with pytest.raises(ModelError, match="int1, which ONNX does not have"):
        export_quantised(coded("digits-cnn", "int1"))
    with pytest.raises(UsageError, match=r"'qdp' is no form .* did you mean 'qdq'"):
        export_quantised(coded("digits-cnn"), "qdp")


def test_a_multiplier_that_contradicts_the_scales() -> None:
    graph = coded("digits-cnn")
    part = next(part for node in graph.nodes for part in node.epilogue if part.op == "Requantize")
    part.attrs["multiplier"] = part.attrs["multiplier"] * np.float32(1.01)
    with pytest.raises(ModelError, match="another multiplier than its scales give"):
        export_quantised(graph, "qdq")
    feeds = synthetic(graph, 1)  # the other form needs the multipliers alone
    assert_equal(by_onnx_runtime(export_quantised(graph, "qoperator"), feeds), execute.run(graph, feeds))


def test_the_same_bytes_again() -> None:
    one, two = (export_quantised(coded("digits-cnn"), "qdq").SerializeToString() for _ in range(2))
    assert one == two
