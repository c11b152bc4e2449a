"""``accelsim quantize``: the file that it writes, what it prints, what it refuses."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result

from accelsim.cli import COMMANDS, main
from accelsim.cli.quantize import quantize as command
from accelsim.errors import ModelError, UsageError
from accelsim.formats.ranges.methods import METHODS
from accelsim.quantise_api import Quantised, quantize
from accelsim.workload.execute import run
from accelsim.workload.onnx.exporting.model import export_onnx
from accelsim.workload.sources.load import load_model
from tests.helpers.onnx_models import import_proto

MODEL = "digits-cnn"


def images(count: int = 12, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).random((count, 1, 8, 8)).astype(np.float32)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "samples.npz"
    np.savez(path, x=images())
    return path


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "quantize", ("accelsim.cli.quantize", "quantise a model"))


def called(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["quantize", *map(str, arguments)])


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_the_file_and_the_table(form: str, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "q.onnx"
    result = called(MODEL, "--data", data, "--format", form, "--out", out)
    assert result.exit_code == 0, result.output
    model = onnx.load(out)
    onnx.checker.check_model(model, full_check=True)
    lines = {line.split()[0]: line for line in result.output.splitlines() if line}
    assert {"conv1", "conv2", "fc"} <= set(lines)
    assert "int8 x int8" in lines["conv1"]
    assert "SQNR of fc" in result.output and f"{out.stat().st_size:,} B" in result.output
    assert f"accelsim run {out}" in result.output
    graph = import_proto(model)
    real = load_model(MODEL)
    x = images(1, 7)
    exact, ours = (run(each, {"x": x})["fc"] for each in (real, graph))
    assert 0 < np.abs(exact - ours).max() < 0.1 * np.abs(exact).max()


def test_python_gives_what_the_command_writes(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "q.onnx"
    assert called(MODEL, "--data", data, "--out", out).exit_code == 0
    result = quantize(MODEL, data={"x": images()})
    assert result.model.SerializeToString() == out.read_bytes()
    assert result.bytes_after == out.stat().st_size < result.bytes_before
    assert [row.name for row in result.layers] == ["conv1", "conv2", "fc"]
    assert all(row.sqnr_dB > 25 for row in result.layers)


def test_the_size_before_is_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "real.onnx"
    onnx.save(export_onnx(load_model(MODEL)), path)
    assert quantize(path).bytes_before == path.stat().st_size


def sqnr(**options: Any) -> float:
    result = quantize(MODEL, data={"x": images()}, **options)
    return result.outputs_dB["fc"]


def test_more_bits_and_more_scales_are_nearer_to_floats() -> None:
    assert sqnr(dtype="int4") < sqnr(dtype="int4xint8") < sqnr() - 10 < sqnr(dtype="int16") - 20
    assert sqnr(per_tensor=True) < sqnr()
    assert sqnr(scheme="affine") > 20


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_chooses_ranges(method: str) -> None:
    assert sqnr(ranges=method) > 12


def test_ranges_change_the_scales() -> None:
    def scales(**options: Any) -> list[float]:
        return [row.scale for row in quantize(MODEL, data={"x": images() ** 4}, **options).layers]

    assert scales() != scales(ranges="percentile", percentile=95.0) != scales(ranges="mse")
    shares = [scales(ranges="percentile", percentile=share)[0] for share in (90.0, 99.0, 100.0)]
    assert shares == sorted(shares) and shares[0] < shares[2]


def test_bias_correction_changes_only_biases() -> None:
    plain, corrected = (
        quantize(MODEL, data={"x": images()}, dtype="int4xint8", bias_correction=on) for on in (False, True)
    )
    one, two = ({item.name: item for item in each.model.graph.initializer} for each in (plain, corrected))
    changed = {name for name in one if one[name] != two[name]}
    assert changed and all("bias" in name for name in changed)


@pytest.mark.parametrize(
    ("dtype", "warned"), [("int8", False), ("int8xint16", False), ("int4xint8", True), ("fp8", True)]
)
def test_what_onnx_runtime_cannot_optimise_is_said(dtype: str, warned: bool, data: Path, tmp_path: Path) -> None:
    result = called(MODEL, "--data", data, "--dtype", dtype, "--out", tmp_path / "q.onnx")
    assert ("session.disable_quant_qdq" in result.output) is warned


def test_without_data_it_says_so(tmp_path: Path) -> None:
    result = called(MODEL, "--out", tmp_path / "q.onnx")
    assert result.exit_code == 0
    assert "one random batch" in result.output and "give --data" in result.output


def test_the_digits() -> None:
    pytest.importorskip("sklearn")
    result = quantize(MODEL, data="digits")
    assert result.outputs_dB["fc"] > 25
    assert result.accuracy is not None and abs(result.accuracy[0] - result.accuracy[1]) < 0.1


def test_labelled_data_tell_the_accuracy(tmp_path: Path) -> None:
    x = images(40)
    labels = np.array([run(load_model(MODEL), {"x": x[i : i + 1]})["fc"].argmax() for i in range(40)])
    labels[39] = 9  # so that there are ten classes, whatever the model says
    path = tmp_path / "labelled.npz"
    np.savez(path, x_train=x, y_train=labels, x_test=x, y_test=labels)
    result = quantize(MODEL, data=path, dtype="int4")
    assert result.accuracy is not None
    assert result.accuracy[0] >= 39 / 40
    assert result.accuracy[1] < 1.0
    shown = called(MODEL, "--data", path, "--out", tmp_path / "q.onnx").output
    assert "accuracy" in shown and "% in floats ->" in shown


def test_a_loaded_graph_has_its_batch_already() -> None:
    graph = load_model(MODEL)
    assert quantize(graph).layers
    with pytest.raises(UsageError, match="loaded already"):
        quantize(graph, batch=2)


def test_every_wrong_choice_is_told_at_once(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "nowhere" / "q.onnx"
    result = called(MODEL, "--data", data, "--out", out, "--dtype", "int9", "--ranges", "entropie", "--format",
                    "qd", "--scheme", "afine", "--percentile", 0)  # fmt: skip
    assert result.exit_code == 2
    for words in ("directory does not exist", "did you mean 'int8'", "did you mean 'entropy'", "did you mean 'qdq'",
                  "did you mean 'affine'", "percentile 0"):  # fmt: skip
        assert words in result.output


def test_floats_need_no_codes(data: Path, tmp_path: Path) -> None:
    result = called(MODEL, "--data", data, "--out", tmp_path / "q.onnx", "--dtype", "bf16")
    assert result.exit_code == 2
    assert "'bf16' has no codes" in result.output


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": np.full((4, 1, 8, 8), np.nan, np.float32)}, ["NaN"]),
        ({"x": np.zeros((4, 1, 8, 9), np.float32)}, ["[4, 1, 8, 9]", "[1, 1, 8, 8]"]),
        ({"z": np.zeros((4, 1, 8, 8), np.float32)}, ["no input 'z'", "'x' is missing"]),
    ],
)
def test_data_that_do_not_fit(arrays: dict[str, Any], words: list[str], tmp_path: Path) -> None:
    path, out = tmp_path / "bad.npz", tmp_path / "q.onnx"
    np.savez(path, **arrays)
    result = called(MODEL, "--data", path, "--out", out)
    assert result.exit_code == 2
    assert all(word in result.output for word in words), result.output
    assert not out.exists()
    with pytest.raises(UsageError):
        quantize(MODEL, data=arrays)


def test_a_file_that_is_no_npz(tmp_path: Path) -> None:
    path = tmp_path / "bad.npz"
    path.write_text("no")
    result = called(MODEL, "--data", path, "--out", tmp_path / "q.onnx")
    assert result.exit_code == 2
    assert "not an npz file" in result.output


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_a_quantised_model_is_refused(form: str, tmp_path: Path) -> None:
    out = tmp_path / "q.onnx"
    quantize(MODEL, format=form).save(out)
    content = out.read_bytes()
    result = called(out, "--out", tmp_path / "again.onnx")
    assert result.exit_code == 2
    assert "is quantised already" in result.output
    assert called(out, "--out", out).exit_code == 2
    assert out.read_bytes() == content


def test_a_form_that_the_format_does_not_have(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "q.onnx"
    result = called(MODEL, "--data", data, "--dtype", "int16", "--format", "qoperator", "--out", out)
    assert result.exit_code == 2
    assert "int16 codes has no QOperator form" in result.output
    assert not out.exists()


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "q.onnx"
    out.write_bytes(b"old")
    result = quantize(MODEL)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match="No space left"):
        result.save(out)
    assert [path.name for path in tmp_path.iterdir()] == ["q.onnx"]
    assert out.read_bytes() == b"old"


def test_the_result_is_a_plain_record() -> None:
    result = quantize(MODEL, scheme="affine")
    assert isinstance(result, Quantised)
    assert result.layers[0].zero_point == -128  # behind a ReLU
    assert any(note.startswith("quantise: int8, affine") for note in result.notes)


def test_unknown_models() -> None:
    with pytest.raises(ModelError, match="did you mean 'digits-cnn'"):
        quantize("digits-cn")


def test_the_function_has_the_names_of_the_options() -> None:
    """What says where and how to print apart; limits are a context in Python."""
    options = {name.lstrip("-").replace("-", "_") for each in command.params for name in each.opts}
    apart = {"out", "csv", "json", "limit_commands", "limit_bytes", "ignore_capacity"}
    assert options - apart == set(inspect.signature(quantize).parameters)
