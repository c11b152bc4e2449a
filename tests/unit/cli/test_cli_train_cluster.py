"""``accelsim train --on CLUSTER``: what it prints and writes, and every refusal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

Cli = Callable[..., Result]
Refused = Callable[..., list[str]]
NETWORK = "digits-cnn?channels=4"
GPT = "gpt?layers=2,hidden=16,heads=4,ffn=32,vocab=16,seq=8"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """96 samples whose class is where the largest of the first ten numbers is."""
    x = np.random.default_rng(0).standard_normal((96, 1, 8, 8)).astype(np.float32)
    path = tmp_path / "data.npz"
    np.savez(path, x=x, y=x.reshape(96, 64)[:, :10].argmax(axis=1))
    return path


def command(data: Path, plan: str, *more: object) -> list[object]:
    return ["train", NETWORK, "--data", data, "--on", "4x-edu", "--plan", plan, "--steps", 3, "--batch", 16, *more]


def facts(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_a_table_and_a_verdict(cli: Cli, data: Path, tmp_path: Path) -> None:
    plot, table, model = tmp_path / "loss.svg", tmp_path / "loss.csv", tmp_path / "m.onnx"
    more = ("--schedule", "1f1b", "--microbatches", 2, "--plot", plot, "--csv", table, "--out", model,
            "--compare", "local-sgd,pipedream")  # fmt: skip
    result = cli(*command(data, "dp=2,pp=2", *more))
    assert result.exit_code == 0, result.output
    for part in ("digits-cnn on 4x-edu: 3 steps of 16 samples in fp32", "2 replicas x 2 stages", "2 microbatches of 4",
                 "Same weights as one device", "energy per sample", "time per step", "goes to one part of it"):  # fmt: skip
        assert part in result.stdout, part
    assert plot.stat().st_size > 0 and model.stat().st_size > 0
    head, *rows = table.read_text().splitlines()
    assert head == 'step,"loss dp=2,pp=2,microbatches=2",loss one device,loss local-sgd,loss pipedream'
    assert len(rows) == 3


def test_json_tells_the_difference_and_the_step(cli: Cli, data: Path) -> None:
    found = facts(cli(*command(data, "tp=2,dp=2,zero=1", "--precision", "fp64", "--json")))
    assert found["largest_difference"] < 1e-12 and found["devices"] == 4
    assert found["loss_last"] == pytest.approx(found["one_device"]["loss_last"], rel=1e-12, abs=0)
    step = found["step"]
    assert step["time_s"] == pytest.approx(sum(step["parts_s"].values()))
    assert step["sample_J"] == pytest.approx(step["energy_J"]["total"] / 16, rel=1e-9, abs=0)
    assert found["compared"] == {} and found["whole_weights"] == []


def test_a_pipeline_has_the_bits_of_one_device(cli: Cli, data: Path) -> None:
    again = command(data, "pp=2,dp=2", "--precision", "fp64")
    assert "Same weights as one device" in cli(*again).stdout
    result = cli("train", "digits-mlp?layers=4,hidden=8", "--data", data, "--on", "4x-edu", "--plan", "pp=4,microbatches=2",
                 "--steps", 2, "--batch", 8)  # fmt: skip
    assert "Same weights as one device, to the last bit." in result.stdout, result.output


def test_what_never_stops_has_the_time_of_a_full_pipeline(cli: Cli, data: Path) -> None:
    result = cli(*command(data, "pp=2,dp=2", "--schedule", "pipedream"))
    assert "Other weights than one device" in result.stdout and "sees older weights" in result.stdout
    assert "time per step" in result.stdout
    assert facts(cli(*command(data, "pp=2,dp=2", "--schedule", "pipedream", "--json")))["step"]["time_s"] > 0


def test_replicas_that_train_apart(cli: Cli, data: Path) -> None:
    result = cli(*command(data, "dp=4,period=2"))
    assert "this plan averages its replicas" in " ".join(result.stdout.split()), result.output


def test_weights_that_stay_whole_are_told(cli: Cli, data: Path) -> None:
    assert "fc.weight [10, 128] lies whole on every rank: 4 do not divide" in cli(
        *command(data, "tp=4")
    ).stdout.replace("\n", " ")


@pytest.mark.parametrize(
    ("options", "messages"),
    [
        (["--plan", "dp=3,pp=4,tp=3", "--compare", "foo"],
         ["unknown comparison 'foo'", "are 36 devices; expected 4", "tp=3 of channels=4", "pp=4 of 3 layers",
          "a batch of 16 on 3 replicas"]),
        (["--plan", "dq=3", "--qat", "int8"], ["a plan has no 'dq'", "--qat is of a training on one chip"]),
        (["--plan", "dp=4,microbatches=2", "--microbatches", 4], ["microbatches is given twice"]),
        (["--plan", "dp=4", "--precision", "mixed"], ["needs a loss scale"]),
        (["--plan", "dp=4,schedule=gpip"], ["did you mean 'gpipe'?"]),
        ([], ["a cluster without a plan"]),
    ],
)  # fmt: skip
def test_refusals(refused: Refused, data: Path, options: list[object], messages: list[str]) -> None:
    lines = refused("train", NETWORK, "--data", data, "--on", "4x-edu", "--steps", 3, "--batch", 16, *options)
    told = "\n".join(lines)
    assert [part for part in messages if part not in told] == []


@pytest.mark.parametrize("on", [[], ["--on", "edu-4x4"]])
def test_a_plan_needs_a_cluster(refused: Refused, data: Path, on: list[str]) -> None:
    told = "\n".join(refused("train", NETWORK, "--data", data, *on, "--plan", "dp=2", "--compare", "plain"))
    assert "--plan is of a training on a cluster" in told and "--compare is of" in told


@pytest.mark.parametrize("plan", ["dp=2,pp=2,microbatches=2", "tp=2,dp=2,sp"])
def test_a_language_model_learns_what_one_device_learns(cli: Cli, plan: str) -> None:
    result = cli("train", GPT, "--on", "4x-edu", "--plan", plan, "--steps", 3, "--batch", 8)
    assert result.exit_code == 0, result.output
    assert "Same weights as one device" in result.stdout


def test_rounding_that_grows_is_told_from_a_fault(cli: Cli) -> None:
    """The true gradient of the bias of keys is 0: Adam takes what rounding leaves for a gradient, and steps."""
    options = ("train", GPT, "--on", "4x-edu", "--plan", "dp=4", "--steps", 5, "--batch", 8, "--optimiser", "adam")
    told = " ".join(cli(*options).stdout.split())
    assert "The same training as one device, but for rounding that grows" in told and "k.bias" in told
    found = facts(cli(*options, "--json"))
    assert found["largest_difference"] > 1e-5 and found["difference_in_fp64"] < 1e-12
