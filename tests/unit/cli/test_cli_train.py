"""``accelsim train``: the table, the JSON, the files, what it says of failures, and every refusal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

from accelsim.workload.sources.load import load_model

Cli = Callable[..., Result]
Refused = Callable[..., list[str]]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """96 samples of 64 numbers whose class is where the largest of the first ten is."""
    x = np.random.default_rng(0).standard_normal((96, 1, 8, 8)).astype(np.float32)
    path = tmp_path / "data.npz"
    np.savez(path, x=x, y=x.reshape(96, 64)[:, :10].argmax(axis=1))
    return path


def facts(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_digits_by_default(cli: Cli) -> None:
    pytest.importorskip("sklearn")
    result = cli("train", "digits-mlp")
    assert result.exit_code == 0, result.output
    assert "digits-mlp: 300 steps of 64 samples in fp32" in result.stdout
    assert "accuracy, test data" in result.stdout and "The loss fell from 2." in result.stdout
    assert "skipped" not in result.stdout and "One step" not in result.stdout


def test_json(cli: Cli, data: Path) -> None:
    command = ["train", "digits-mlp", "--data", data, "--steps", 5, "--batch", 16, "--seed", 3, "--json"]
    found = facts(cli(*command))
    assert (found["steps"], found["batch"], found["seed"], found["weights"]) == (5, 16, 3, 26122)
    assert found["loss_first"] > found["loss_last"] > 0
    assert found["chip"] is found["step_s"] is found["loss_scale_last"] is found["quantised"] is None
    assert facts(cli(*command)) == found


def test_on_a_chip(cli: Cli, data: Path) -> None:
    command = ["train", "digits-mlp", "--data", data, "--steps", 4, "--batch", 8, "--on", "edu-4x4"]
    found = facts(cli(*command, "--json"))
    assert found["chip"] == "edu-4x4"
    assert found["time_s"] == pytest.approx(4 * found["step_s"])
    assert found["images_per_s"] == pytest.approx(8 / found["step_s"])
    faster = facts(cli(*command, "--set", "clock=1 GHz", "--json"))
    assert faster["step_s"] < found["step_s"]
    text = " ".join(cli(*command).stdout.split())
    assert "time per step on edu-4x4" in text and "energy of all steps" in text
    assert "One step: The run takes" in text and "moving data costs" in text


def test_mixed_precision_says_the_scale(cli: Cli, data: Path) -> None:
    command = ["train", "digits-mlp", "--data", data, "--steps", 3, "--precision", "mixed"]
    assert "loss scale at the end" in cli(*command).stdout
    assert facts(cli(*command, "--loss-scale", "256", "--json"))["loss_scale_last"] == 256
    none = " ".join(cli(*command, "--loss-scale", "none").stdout.split())
    assert "Without a loss scale, gradients below 3e-8 are zero in fp16." in none
    skipped = " ".join(cli(*command, "--loss-scale", "1e30").stdout.split())
    assert "3 of 3 steps were skipped" in skipped and "learnt nothing" in skipped


def test_a_loss_that_is_no_number(cli: Cli, data: Path) -> None:
    command = ["train", "digits-mlp", "--data", data, "--steps", 4, "--lr", "1e30"]
    assert "no longer a number" in cli(*command).stdout
    assert facts(cli(*command, "--json"))["loss_last"] is None


def test_files(cli: Cli, data: Path, tmp_path: Path) -> None:
    model = tmp_path / "learnt.onnx"
    for suffix, start in ((".png", b"\x89PNG"), (".svg", b"<?xml")):
        plot = tmp_path / f"loss{suffix}"
        result = cli("train", "digits-cnn", "--data", data, "--steps", 2, "--batch", 8, "--out", model, "--plot", plot)
        assert result.exit_code == 0, result.output
        assert f"Written: {model}, {plot}" in result.stdout
        assert plot.read_bytes().startswith(start)
    again = facts(cli("train", model, "--data", data, "--steps", 1, "--batch", 8, "--lr", 0, "--json"))
    assert again["weights"] == sum(load_model(model).tensors[name].elements for name in
                                   ("conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias", "fc.weight", "fc.bias"))  # fmt: skip


def test_quantisation_and_sparsity(cli: Cli, data: Path, tmp_path: Path) -> None:
    model = tmp_path / "learnt.onnx"
    command = ["train", "digits-mlp", "--data", data, "--steps", 2, "--qat", "int4xint8", "--edges", "int8"]
    result = cli(*command, "--sparsity", "2:4", "--out", model)
    assert "6 tensors: int8, int4" in result.stdout
    weight = load_model(model).tensors["fc2.weight"].value()
    assert (np.count_nonzero(weight.reshape(-1, 4), axis=1) <= 2).all()
    assert facts(cli(*command, "--json"))["quantised"]["fc2.weight"] == "int4"


def test_everything_wrong_at_once(refused: Refused) -> None:
    lines = refused("train", "digits-mpl", "--steps", 0, "--precision", "mixd", "--optimiser", "adm",
                    "--data", "digit", "--on", "tpu-v1x")  # fmt: skip
    assert len(lines) == 6
    for near in ("digits-mlp", "mixed", "adam", "digits", "tpu-v1"):
        assert any(line.endswith(f"did you mean {near!r}?") for line in lines), near


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--steps", "-3"], "-3 steps; expected 1 or more"),
        (["--qat", "int3"], "no format 'int3' to train for"),
        (["--edges", "int8"], "--edges without --qat"),
        (["--loss-scale", "big"], "loss scale 'big'; expected dynamic, none, or a positive number"),
        (["--loss-scale", "-2"], "a positive FP32 number"),
        (["--lr", "-1"], "lr is -1"),
        (["--sparsity", "4:2"], "'4:2' is no pattern of structured sparsity; expected N:M"),
        (["--batch", "64", "--data", "none.npz"], "none.npz: cannot be read"),
        (["--plot", "loss.pdf"], "a file that ends in .png or .svg"),
        (["--plot", "none/loss.png"], "its directory does not exist"),
        (["--out", "."], "is a directory"),
        (["--on", "tpu-v1"], "tpu-v1 does not compute in 'fp32'"),
        (["--on", "edu-4x4", "--dtype", "int9"], "int9"),
        (["--batch", "5000"], "at least one batch of 5000"),
    ],
)
def test_refusals(refused: Refused, data: Path, options: list[str], message: str) -> None:
    given = [] if "--data" in options else ["--data", str(data)]
    lines = refused("train", "digits-mlp", *given, *options)
    assert len(lines) == 1 and message in lines[0], lines


def test_data_of_the_wrong_shape(refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "wide.npz"
    np.savez(path, x=np.zeros((70, 3, 5), np.float32), y=np.arange(70) % 12)
    lines = refused("train", "digits-mlp", "--data", path)
    assert lines == [
        f"error: {path}: samples of shape [3, 5]; expected [1, 8, 8], as input 'x' of digits-mlp",
        f"error: {path}: 12 classes; expected at most 10, as digits-mlp tells",
        f"error: {path}: 56 samples to train on; expected at least one batch of 64",
    ]
    np.savez(path, x=np.full((70, 1, 8, 8), np.nan), y=np.zeros((70, 2)))
    lines = refused("train", "digits-mlp", "--data", path)
    assert [line.split(": ", 2)[2] for line in lines] == [
        "x holds 4480 values that are NaN or infinite; expected finite numbers"
    ]


def test_help_names_every_precision(cli: Cli) -> None:
    from accelsim.workload.training import OPTIMISERS, PRECISIONS

    text = cli("train", "--help").stdout
    assert all(name in text for name in (*PRECISIONS, *OPTIMISERS, "digits-mlp"))
