"""What 'accelsim accuracy' prints and writes, and what it refuses before it trains anything."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

from accelsim.report.accuracy import FILES

Cli = Callable[..., Result]
Refused = Callable[..., list[str]]


def save(path: Path, shape: tuple[int, ...] = (1, 8, 8), **more: Any) -> Path:
    rng = np.random.default_rng(0)
    y = np.arange(150) % 10
    x = (rng.standard_normal((10, *shape))[y] + 0.8 * rng.standard_normal((150, *shape))).astype(np.float32)
    np.savez(path, **{"x": x, "y": y, **more})
    return path


@pytest.fixture(scope="module")
def blobs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("data") / "blobs.npz")


def command(data: Path, *more: object, on: str = "edu-mixed", dtypes: str = "fp32,int8") -> tuple[object, ...]:
    return ("accuracy", "digits-mlp", "--on", on, "--data", data, "--steps", 25, "--dtypes", dtypes, *more)


@pytest.mark.parametrize("columns", [80, 132])
def test_the_table_and_what_it_says(cli: Cli, blobs: Path, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    result = cli(*command(blobs, on="edu-mixed,tpu-v1", dtypes="fp32,int8,int4"))
    assert result.exit_code == 0 and result.stderr == ""
    assert max(map(len, result.stdout.splitlines())) <= columns
    for text in ("accuracy", "tpu-v1", "int4", "Least energy", "30 test samples", "Nothing in tpu-v1 computes fp32"):
        assert text in " ".join(result.stdout.split()), text


def test_json_is_all_there_is_and_has_every_figure(cli: Cli, blobs: Path) -> None:
    facts = json.loads(cli(*command(blobs, "--json", on="edu-mixed,tpu-v1")).stdout)
    assert facts["tool"] == "accelsim"
    assert (facts["model"], facts["samples"], facts["batch"]) == ("digits-mlp", 30, 1)
    assert [(row["chip"], row["dtype"]) for row in facts["rows"]] == [
        ("edu-mixed", "fp32"), ("tpu-v1", "fp32"), ("edu-mixed", "int8"), ("tpu-v1", "int8"),
    ]  # fmt: skip
    first, missing = facts["rows"][:2]
    assert first["accuracy"] == facts["baseline"] and first["energy_J"] > 0 and first["note"] == ""
    assert missing["accuracy"] is None and missing["latency_s"] is None and "fp32" in missing["note"]


def test_the_files_hold_the_same_figures(cli: Cli, blobs: Path, tmp_path: Path) -> None:
    out = tmp_path / "reports" / "mlp"
    result = cli(*command(blobs, "--out", out, "--json"))
    assert result.exit_code == 0
    assert sorted(path.name for path in out.iterdir()) == sorted(FILES)
    with (out / "accuracy.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row, fact in zip(rows, json.loads(result.stdout)["rows"], strict=True):
        assert (row["chip"], row["dtype"]) == (fact["chip"], fact["dtype"])
        assert float(row["energy_J"]) == fact["energy_J"]
        assert float(row["accuracy"]) == fact["accuracy"]
    page = (out / "accuracy.md").read_text()
    assert "--steps 25" in page and f"--data {blobs}" in page and "| edu-mixed | int8 |" in page
    assert (out / "accuracy.png").read_bytes().startswith(b"\x89PNG")
    shown = cli(*command(blobs, "--out", out))
    assert shown.stdout.endswith(f"Written: {out}\n")


def test_the_same_command_writes_the_same_bytes(cli: Cli, blobs: Path, tmp_path: Path) -> None:
    made = []
    for _ in range(2):
        cli(*command(blobs, "--out", tmp_path / "out"))
        made.append({path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()})
    assert made[0] == made[1]


def test_the_page_names_the_command_that_makes_it(cli: Cli, blobs: Path, tmp_path: Path) -> None:
    options = ("--batch", 4, "--seed", 2, "--qat", "int4")
    cli(*command(blobs, "--out", tmp_path / "a", *options))
    page = (tmp_path / "a" / "accuracy.md").read_text()
    line = next(text for text in page.splitlines() if text.startswith("Made by"))
    for option in ("--batch 4", "--seed 2", "--qat int4", "--dtypes fp32,int8", "--on edu-mixed"):
        assert option in line


def test_the_command_on_the_page_has_the_options_of_numbers_too(cli: Cli, blobs: Path, tmp_path: Path) -> None:
    options = (
        "--ranges",
        "mse",
        "--scheme",
        "affine",
        "--per-tensor",
        "--sparsity",
        "2:4",
        "--layer-dtype",
        "fc1=fp16",
    )
    cli(*command(blobs, "--out", tmp_path / "a", *options))
    page = (tmp_path / "a" / "accuracy.md").read_text()
    line = next(text for text in page.splitlines() if text.startswith("Made by"))
    for option in ("--ranges mse", "--scheme affine", "--per-tensor", "--sparsity 2:4", "--layer-dtype fc1=fp16"):
        assert option in line


def test_layers_that_must_stay_wide(cli: Cli, blobs: Path) -> None:
    result = cli(*command(blobs, "--keep", "fp16", "--budget", 5, "--steps", 60, dtypes="int1"))
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    for word in (
        "all but it narrow",
        "All layers in fp16",
        "combinations were tried",
        "To use it: --dtype int1 --layer-dtype",
    ):
        assert word in text, word


def test_keep_takes_one_chip_and_one_format(refused: Refused, blobs: Path) -> None:
    assert "--keep" in refused(*command(blobs, "--keep", "fp16"))[0]
    assert "--keep" in refused(*command(blobs, "--keep", "fp16", on="edu-mixed,tpu-v1", dtypes="int8"))[0]
    lines = refused(*command(blobs, "--keep", "fp61", dtypes="int4"))
    assert "fp16" in " ".join(lines)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--dtypes", "imt8"), ["'imt8'", "did you mean 'int8'"]),
        (("--dtypes", ""), ["--dtypes"]),
        (("--qat", "int99"), ["int99"]),
        (("--on", "haswell-e5-2699v3"), ["haswell-e5-2699v3 has no matrix unit"]),
        (("--on", "edu-mixd"), ["did you mean 'edu-mixed'"]),
        (("--layer-dtype", "fc1"), ["--layer-dtype 'fc1'", "NAME=FORMAT"]),
        (("--data", "digts"), ["digts", "digits"]),
    ],
)
def test_mistakes_are_refused_and_nothing_is_written(
    refused: Refused, blobs: Path, tmp_path: Path, more: tuple[str, ...], words: list[str]
) -> None:
    lines = refused(*command(blobs, "--steps", 10**9, "--out", tmp_path / "out", *more))
    text = " ".join(lines)
    assert all(word in text for word in words), text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "more",
    [("--ranges", "medain"), ("--scheme", "afine"), ("--sparsity", "5:4"), ("--layer-dtype", "fc1=imt8"),
     ("--layer-dtype", "fc9=int8")],
)  # fmt: skip
def test_options_that_make_no_sense_are_refused(refused: Refused, blobs: Path, more: tuple[str, ...]) -> None:
    refused(*command(blobs, "--steps", 2, *more))


def test_all_mistakes_at_once(refused: Refused, blobs: Path) -> None:
    text = " ".join(refused(*command(blobs, "--qat", "int99", on="edu-mixd,haswell-e5-2699v3", dtypes="imt8")))
    for word in ("edu-mixd", "no matrix unit", "imt8", "int99"):
        assert word in text, word


def test_data_that_do_not_fit_are_refused(refused: Refused, tmp_path: Path) -> None:
    out = tmp_path / "out"
    unlabelled = tmp_path / "x.npz"
    np.savez(unlabelled, x=np.ones((20, 1, 8, 8), np.float32))
    assert "no labels" in " ".join(refused(*command(unlabelled, "--out", out)))
    wrong = save(tmp_path / "wrong.npz", (1, 7, 8))
    assert "[1, 7, 8]" in " ".join(refused(*command(wrong, "--out", out)))
    holes = save(tmp_path / "nan.npz", x=np.full((150, 1, 8, 8), np.nan, np.float32))
    assert "finite" in " ".join(refused(*command(holes, "--out", out)))
    missing = tmp_path / "missing.npz"
    assert "missing.npz" in " ".join(refused(*command(missing, "--out", out)))
    assert not out.exists()


def test_a_place_where_nothing_can_be_written_is_refused_first(refused: Refused, blobs: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    lines = refused(*command(blobs, "--steps", 10**9, "--out", tmp_path / "file" / "out"))
    assert "cannot be written" in lines[0]


def test_numbers_out_of_range(refused: Refused, blobs: Path) -> None:
    for option, value in (("--percentile", 0), ("--percentile", 150), ("--batch", 0), ("--steps", 0), ("--budget", -1)):
        assert option in " ".join(refused(*command(blobs, option, value)))
