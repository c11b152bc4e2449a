"""The backend test suite of ONNX against accelsim as a backend, and the backend interface itself."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from accelsim.errors import ModelError, UsageError
from tests.helpers.onnx_models import model, node
from tests.validation import onnx_backend_suite as suite
from tests.validation.base import CHECKS
from tests.validation.onnx_backend import AccelsimBackend
from tests.validation.onnx_backend_page import COMMAND, SETS, VERDICTS, Result, page

pytestmark = pytest.mark.xdist_group("onnx backend")  # one process, so that the suite runs once

REPORT = Path(__file__).parents[3] / "reports" / "onnx-backend.md"
X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(scope="module")
def results() -> list[Result]:
    return suite.results()


def test_no_case_fails_and_most_pass_by_own_kernels(results: list[Result]) -> None:
    counts = Counter(each.verdict for each in results)
    assert not [(each.name, each.reason) for each in results if each.verdict == "failed"]
    assert counts["own"] >= suite.LEAST_OWN
    assert counts["excluded"] <= len(suite.EXCLUDED)


def test_the_suite_is_all_there(results: list[Result]) -> None:
    sizes = Counter(each.suite for each in results)
    assert set(sizes) == set(SETS)
    assert sizes["node"] >= 1884 and sizes["simple"] >= 23
    assert sizes["pytorch-converted"] >= 82 and sizes["pytorch-operator"] >= 35


def test_what_is_not_own_says_why(results: list[Result]) -> None:
    assert all(bool(each.reason) == (each.verdict != "own") for each in results)
    assert {each.verdict for each in results} <= set(VERDICTS)


def test_few_own_cases_are_left_without_anything_to_execute(results: list[Result]) -> None:
    own = [each for each in results if each.verdict == "own"]
    assert sum(each.evaluated for each in own) < 0.05 * len(own)
    assert sum(each.bound for each in own) < 0.25 * len(own)


OWN = (
    "abs", "add_uint8", "and_bcast4v2d", "attention_4d", "argmax_default_axis_example", "averagepool_2d_ceil",
    "basic_conv_with_padding", "batchnorm_example_training_mode", "bitcast_float32_to_int32", "bitshift_left_uint8",
    "cast_FLOAT_to_FLOAT8E4M3FN", "cast_no_saturate_FLOAT_to_FLOAT8E5M2", "cast_FLOAT_to_INT4", "clip", "compress_0",
    "convtranspose_group_2", "cumsum_2d_axis_1", "dequantizelinear_axis", "dynamicquantizelinear", "einsum_batch_matmul",
    "gather_elements_1", "gathernd_example_int32", "gru_bidirectional", "hardmax_axis_0", "layer_normalization_2d_axis0",
    "lppool_2d_pads", "lstm_bidirectional", "loop11", "maxpool_3d_default", "nllloss_NC", "onehot_with_axis", "pow",
    "qlinearconv", "qlinearmatmul_2D_int8_float32", "reduce_max_empty_set", "resize_downsample_scales_cubic_antialias",
    "reshape_zero_dim", "rnn_seq_length", "rotary_embedding", "scan9_sum", "scatternd_add", "sce_mean", "slice", "softmax_axis_1",
    "split_zero_size_splits_opset18", "top_k", "tril_zero", "where_example",
)  # fmt: skip
"""Cases of every family of ops that must stay on own kernels."""


def test_every_family_is_on_own_kernels(results: list[Result]) -> None:
    verdicts = {each.name: each.verdict for each in results}
    assert {name: verdicts[f"test_{name}"] for name in OWN} == dict.fromkeys(OWN, "own")


def test_every_pytorch_model_is_on_own_kernels(results: list[Result]) -> None:
    assert {each.verdict for each in results if each.suite.startswith("pytorch")} == {"own"}


@pytest.mark.parametrize("name", sorted(name for name in suite.EXCLUDED if "attention" in name))
def test_excluded_cases_are_nearer_to_the_exact_result(name: str) -> None:
    (case,) = (each for each in suite.cases() if each.name == name)
    proto, [(inputs, [wanted])] = suite.loaded(case)
    (ours,) = AccelsimBackend.run_model(proto, inputs)
    exact = _attention(*(value.astype(np.float64) for value in inputs[:3]))
    apart = ours.view(np.int16).astype(int) - wanted.view(np.int16).astype(int)
    assert abs(apart).max() == 2  # units in the last place
    assert np.abs(ours - exact).max() < np.abs(wanted - exact).max()
    assert (np.abs(ours - exact)[apart != 0] <= np.abs(wanted - exact)[apart != 0]).mean() > 0.5


@pytest.mark.parametrize("name", sorted(name for name in suite.EXCLUDED if "dft" in name))
def test_excluded_transforms_differ_where_the_result_is_zero(name: str) -> None:
    (case,) = (each for each in suite.cases() if each.name == name)
    proto, [(inputs, [wanted])] = suite.loaded(case)
    (ours,) = AccelsimBackend.run_model(proto, inputs)
    x = inputs[0].astype(np.float64)
    result = np.fft.ifft(x[..., 0] + 1j * x[..., 1], axis=1)
    exact = np.stack([result.real, result.imag], axis=-1)
    np.testing.assert_allclose(ours, exact, rtol=case.rtol, atol=case.atol)  # what the suite expects is not
    differ = ~np.isclose(ours, wanted, rtol=case.rtol, atol=case.atol)
    assert differ.sum() == 10 and np.abs(exact[differ]).max() < 1e-7 and np.abs(ours[differ]).max() < 1e-13


def _attention(q: Any, k: Any, v: Any) -> Any:
    """Causal attention in float64 (Vaswani et al. 2017, equation 1)."""
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True) @ v


def test_a_wrong_value_shape_type_and_error_all_count_as_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(each for each in suite.cases() if each.name == "test_abs")
    spoilt = {
        "Not equal": lambda y: y + 1, "shape": lambda y: y[:1], "float64": lambda y: y.astype(np.float64),
        "ZeroDivisionError": lambda y: 1 // 0,
    }  # fmt: skip
    run = suite.loaded
    for text, spoil in spoilt.items():
        proto, _ = run(case)
        prepared = AccelsimBackend.prepare(proto)
        honest = prepared.run
        monkeypatch.setattr(prepared, "run", lambda values, h=honest, s=spoil: [s(y) for y in h(values)])
        monkeypatch.setattr(AccelsimBackend, "prepare", lambda *_, p=prepared: p)
        result = suite.run_case(case)
        assert result.verdict == "failed" and text in result.reason
        monkeypatch.undo()


def test_the_report_is_that_of_its_command(results: list[Result]) -> None:
    text = REPORT.read_text(encoding="utf-8")
    assert COMMAND in text.split("\n\n")[1]
    made = [f"of onnx {onnx.__version__}: each"]
    if made[0] in text:
        assert text == page(results)


def test_the_page_names_what_failed() -> None:
    found = [Result("node", "test_a", ("Add",), "failed", "values differ"), Result("node", "test_b", ("Add",), "own")]
    text = page(found)
    assert "- values differ: `test_a`" in text and "| `Add` | 1 | 0 | 0 | 0 | 1 |" in text


def test_check_counts_what_ran() -> None:
    verdicts = ("own", "own", "host", "unsupported", "failed")
    found = [Result("node", f"test_{index}", (), verdict, "why") for index, verdict in enumerate(verdicts)]
    check = suite.summed(found)
    assert CHECKS["onnx-backend"] is suite.onnx_backend
    assert (check.rows, check.equal) == (4, 3) and check.details[1] == "test_4: why"


def test_shapes_that_are_inputs_make_them_constants_and_no_others() -> None:
    proto = model([node("Reshape", ["x", "t"], ["r"]), node("Relu", ["r"], ["y"])], {"x": (3, 4)}, ["y"])
    proto.graph.input.append(helper.make_tensor_value_info("t", TensorProto.INT64, [2]))
    prepared = AccelsimBackend.prepare(proto)
    (y,) = prepared.run([X, np.array([2, -1])])
    assert y.shape == (2, 6) and prepared.outcome is not None
    assert prepared.outcome.bound == ["t"] and prepared.outcome.graph.inputs == ["x"]
    (y,) = prepared.run({"x": X, "t": np.array([12])})
    assert y.shape == (12,)


def test_integers_that_are_data_stay_inputs() -> None:
    proto = model([node("Add", ["a", "b"], ["y"])], {}, ["y"])
    for name in "ab":
        proto.graph.input.append(helper.make_tensor_value_info(name, TensorProto.INT64, [2]))
    prepared = AccelsimBackend.prepare(proto)
    np.testing.assert_array_equal(prepared.run([np.array([1, 2]), np.array([3, 4])])[0], [4, 6])
    assert prepared.outcome is not None and prepared.outcome.bound == []


def test_one_node_and_one_array_will_do() -> None:
    (y,) = AccelsimBackend.run_node(helper.make_node("Neg", ["x"], ["y"]), [X])
    np.testing.assert_array_equal(y, -X)
    (y,) = AccelsimBackend.run_model(model([node("Neg", ["x"], ["y"])], {"x": (3, 4)}, ["y"]), X)
    np.testing.assert_array_equal(y, -X)
    assert AccelsimBackend.supports_device("CPU") and not AccelsimBackend.supports_device("CUDA")


def test_host_ops_are_named() -> None:
    prepared = AccelsimBackend.prepare(model([node("Det", ["x"], ["y"])], {"x": (2, 3, 3)}, ["y"]))
    prepared.run([np.eye(3, dtype=np.float32)[None].repeat(2, 0)])
    assert prepared.outcome is not None and prepared.outcome.host == ["Det"]
    proto = model([node("NonZero", ["x"], ["y"])], {"x": (2, 2)}, ["y"])
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    prepared = AccelsimBackend.prepare(proto)
    prepared.run([np.eye(2, dtype=np.float32)])
    assert prepared.outcome is not None and prepared.outcome.host == ["NonZero"]


def test_too_many_inputs_and_sequences_are_refused() -> None:
    prepared = AccelsimBackend.prepare(model([node("Neg", ["x"], ["y"])], {"x": (3, 4)}, ["y"]))
    with pytest.raises(UsageError, match="2 inputs"):
        prepared.run([X, X])
    with pytest.raises(ModelError, match="'x' is a list of values"):
        prepared.run([[X]])
    with pytest.raises(ModelError, match="'x' is an absent optional value"):
        prepared.run([None])
