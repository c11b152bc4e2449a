"""Options of 'accelsim run' that say how numbers are represented, and what they refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

import accelsim
from accelsim.account.latency import summary

pytestmark = pytest.mark.usefixtures("unpainted")

Cli = Callable[..., Result]
Refused = Callable[..., list[str]]
CNN = ("run", "cnn", "--on", "edu-mixed", "--no-advice")


def facts(cli: Cli, *more: object) -> dict[str, Any]:
    result = cli(*more, "--json")
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--dtype", "int4"), ["int4"]),
        (("--dtype", "fp8"), ["fp8"]),
        (("--dtype", "int8", "--layer-dtype", "conv1=fp16"), ["int8"]),
        (("--dtype", "int8", "--layer-dtype", "conv1=fp16", "--layer-dtype", "fc=int4"), ["int8"]),
        (("--dtype", "int8", "--scheme", "affine"), ["affine"]),
        (("--dtype", "int8", "--ranges", "mse"), ["mse"]),
        (("--dtype", "int8", "--ranges", "percentile", "--percentile", "99"), ["percentile"]),
        (("--dtype", "int8", "--ranges", "entropy"), ["entropy"]),
        (("--dtype", "int4", "--per-tensor"), ["per tensor"]),
        (("--dtype", "int4xint8", "--bias-correction"), ["int4xint8"]),
        (("--dtype", "fp16", "--sparsity", "2:4"), ["2:4 sparse"]),
        (("--dtype", "int8", "--sparsity", "2:4", "--scheme", "affine"), ["2:4 sparse", "affine"]),
        (("--dtype", "tf32"), ["tf32"]),
    ],
)
def test_the_check_holds_and_the_notes_say_it(cli: Cli, options: tuple[str, ...], words: list[str]) -> None:
    result = cli(*CNN, *options, "--check")
    assert result.exit_code == 0, result.output
    text = " ".join(result.stdout.split())
    assert all(word in text for word in ("holds", "Notes:", *words)), text


def test_the_command_is_the_python_call(cli: Cli) -> None:
    mine = facts(cli, *CNN, "--dtype", "int4", "--layer-dtype", "conv1=fp16", "--scheme", "affine", "--ranges", "mse",
                 "--per-tensor", "--sparsity", "2:4", "--seed", 3)  # fmt: skip
    run = accelsim.run("cnn", "edu-mixed", dtype="int4", layer_dtype={"conv1": "fp16"}, scheme="affine", ranges="mse",
                       per_tensor=True, sparsity="2:4", seed=3)  # fmt: skip
    assert mine == json.loads(json.dumps(summary(run) | {"what_ifs": None}))


def test_one_layer_changes_time_energy_and_nothing_of_the_others(cli: Cli) -> None:
    plain, mixed = (facts(cli, *CNN, "--dtype", "fp32", *more) for more in ((), ("--layer-dtype", "conv2=fp16")))
    assert mixed["latency_s"] < plain["latency_s"]
    assert mixed["energy_J"] < plain["energy_J"]


def test_emulation_is_asked_for_and_told(cli: Cli, refused: Refused) -> None:
    lines = refused("run", "cnn", "--on", "tpu-v1", "--dtype", "int4")
    assert len(lines) == 1
    assert "tpu-v1 does not compute in 'int4'" in lines[0] and "int8" in lines[0] and "emulate" in lines[0]
    result = cli("run", "cnn", "--on", "tpu-v1", "--dtype", "int4", "--emulate", "--check")
    assert result.exit_code == 0
    assert "computed as int8" in " ".join(result.stdout.split())


def test_emulation_of_one_layer(cli: Cli, refused: Refused) -> None:
    options = ("run", "cnn", "--on", "tpu-v1", "--dtype", "int8", "--layer-dtype", "conv2=int2")
    assert "int2" in refused(*options)[0]
    assert cli(*options, "--emulate", "--check").exit_code == 0


def npz(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def test_data_for_ranges_set_the_scales(cli: Cli, tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((6, 1, 28, 28)).astype(np.float32)
    wide, narrow = (npz(tmp_path / f"{i}.npz", x=scale * x) for i, scale in enumerate((1, 40)))
    found = []
    for data in (wide, narrow):
        result = cli(*CNN, "--dtype", "int8", "--ranges-from", data, "--check")
        assert result.exit_code == 0
        assert "the data for ranges" in " ".join(result.stdout.split())
        line = next(line for line in result.stdout.splitlines() if line.startswith("SQNR of"))
        found.append(float(line.split()[-2]))
    assert found[0] > found[1] + 10


def test_data_for_ranges_that_cannot_be_used_are_refused(refused: Refused, tmp_path: Path) -> None:
    holes = np.zeros((2, 1, 28, 28), np.float32)
    holes[1, 0, 3, 4] = np.nan
    out = tmp_path / "out"
    for arrays, words in (
        ({"x": holes}, ["NaN", "'x'"]),
        ({"x": np.zeros((1, 1, 28, 27), np.float32)}, ["[1, 1, 28, 27]", "[1, 1, 28, 28]"]),
        ({"x": np.zeros((28, 28), np.float32)}, ["[28, 28]"]),
        ({"y": np.zeros((1, 1, 28, 28), np.float32)}, ["'y'", "'x' is missing"]),
    ):
        data = npz(tmp_path / "data.npz", **arrays)
        text = " ".join(refused(*CNN, "--dtype", "int8", "--ranges-from", data, "--out", out))
        assert all(word in text for word in words), text
    text = " ".join(refused(*CNN, "--dtype", "int8", "--ranges-from", tmp_path / "none.npz", "--out", out))
    assert "none.npz" in text
    assert not out.exists()


MISTAKES = [
    (("--scheme", "afine"), ["afine", "affine"]),
    (("--ranges", "medain"), ["medain", "absmax"]),
    (("--ranges", "entrpy"), ["did you mean 'entropy'"]),
    (("--sparsity", "5:4"), ["'5:4'", "N:M"]),
    (("--sparsity", "half"), ["'half'", "2:4"]),
    (("--sparsity", "²:4"), ["²:4"]),
    (("--layer-dtype", "conv1"), ["--layer-dtype 'conv1'", "NAME=FORMAT"]),
    (("--layer-dtype", "=int8"), ["NAME=FORMAT"]),
    (("--layer-dtype", "conv9=int8"), ["no matrix product 'conv9'", "conv"]),
    (("--layer-dtype", "conv1=imt8"), ["'imt8'", "int8"]),
    (("--layer-dtype", "conv1=fp64"), ["edu-mixed does not compute in 'fp64'"]),
    (("--dtype", "imt8"), ["'imt8'", "did you mean 'int8'"]),
    (("--dtype", "fp64"), ["edu-mixed does not compute in 'fp64'"]),
    (("--dtype", "mxfp4"), ["mxfp4"]),
    (("--percentile", "0"), ["--percentile"]),
    (("--percentile", "101"), ["--percentile"]),
]


@pytest.mark.parametrize(("more", "words"), MISTAKES)
def test_mistakes_are_refused_and_nothing_is_written(
    refused: Refused, tmp_path: Path, more: tuple[str, ...], words: list[str]
) -> None:
    dtype = () if "--dtype" in more else ("--dtype", "int8")
    text = " ".join(refused(*CNN, *dtype, *more, "--out", tmp_path / "out"))
    assert all(word in text for word in words), text
    assert list(tmp_path.iterdir()) == []


def test_mistakes_come_together(refused: Refused) -> None:
    lines = refused(*CNN, "--scheme", "afine", "--ranges", "medain", "--sparsity", "5:4", "--dtype", "imt8")
    text = " ".join(lines)
    for word in ("afine", "medain", "5:4", "imt8"):
        assert word in text, word


def test_formats_and_layers_come_together(refused: Refused) -> None:
    text = " ".join(refused(*CNN, "--dtype", "int8", "--layer-dtype", "conv9=int8", "--layer-dtype", "conv1=fp64"))
    assert "conv9" in text and "fp64" in text


def test_a_layer_without_a_product_has_no_format(refused: Refused) -> None:
    assert "relu1" in " ".join(refused(*CNN, "--dtype", "int8", "--layer-dtype", "relu1=fp16"))


def test_values_off_need_no_data_and_take_the_same_time(cli: Cli) -> None:
    options = ("--dtype", "int4", "--scheme", "affine", "--ranges", "entropy", "--bias-correction", "--sparsity", "2:4")
    exact, off = (facts(cli, *CNN, *options, "--values", values) for values in ("exact", "off"))
    for key in ("latency_s", "energy_J", "macs"):
        assert exact.get(key) == off.get(key)


def test_former_options_still_work_and_no_help_shows_them(cli: Cli) -> None:
    help_text = cli("run", "--help").stdout
    assert "--ranges-from" in help_text and "calibrat" not in help_text
    now, then = (facts(cli, *CNN, "--dtype", "int8", flag, "mse") for flag in ("--ranges", "--calibrate"))
    assert then["run"] == now["run"] and "--ranges mse" in now["run"]["command"]
    joined = facts(cli, *CNN, "--dtype", "int8", "--calibrate=mse")
    assert joined["run"] == now["run"]


def test_a_generation_says_what_an_emulated_format_is_computed_as(cli: Cli) -> None:
    asked = (
        "run",
        "gpt?layers=1,prompt=2,new=1",
        "--on",
        "h100-sxm",
        "--values",
        "off",
        "--dtype",
        "int4",
        "--emulate",
    )
    assert "quantise: int4, computed as fp16 and int8" in cli(*asked).stdout
