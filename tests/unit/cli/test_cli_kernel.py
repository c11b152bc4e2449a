"""``accelsim kernel`` and ``accelsim calibrate``: a table goes round, and what is wrong is told."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.helpers.kernel_rows import measured_csv, shapes_csv

Cli = Callable[..., Result]


def test_every_column_comes_back_with_what_is_predicted(cli: Cli, tmp_path: Path) -> None:
    source, out = measured_csv(tmp_path / "in.csv", "t4", 20), tmp_path / "out.csv"
    result = cli("kernel", "--csv", str(source), "--on", "t4", "--out", str(out))
    assert result.exit_code == 0, result.output
    before, after = (list(csv.DictReader(path.read_text(encoding="utf-8").splitlines())) for path in (source, out))
    assert [{key: row[key] for key in before[0]} for row in after] == before
    assert list(after[0])[-8:] == [
        "predicted_us", "low_us", "high_us", "tile", "split", "waves", "binds", "interval",
    ]  # fmt: skip
    assert {row["interval"] for row in after} == {"any lab"}
    for row in after:
        assert float(row["low_us"]) < float(row["predicted_us"]) < float(row["high_us"])
    again = cli("kernel", "--csv", str(source), "--on", "t4")
    assert again.stdout == out.read_text(encoding="utf-8")


def test_one_kernel_is_told_in_words_and_as_json(cli: Cli) -> None:
    words = ("kernel", "gemm", "8192", "12288", "1536", "--on", "a100-80-sxm")
    text = cli(*words).stdout
    assert "90 %:" in text and "waves" in text and "Uncalibrated" not in text
    facts = json.loads(cli(*words, "--json").stdout)
    assert (facts["M"], facts["K"], facts["N"]) == ("8192", "12288", "1536") and facts["calibrated"]
    assert facts["low_us"] < facts["predicted_us"] < facts["high_us"]
    assert "Uncalibrated" in cli("kernel", "gemm", "64", "64", "64", "--on", "k80", "--dtype", "fp32").stdout


@pytest.mark.parametrize(
    ("kernel", "binds", "sentence"),
    [
        ("softmax 8 8", "launch", "Launch and host take longest: "),
        ("gemm 8192 8192 8192", "products", "Computation takes longest; launch and host take"),
        ("copy 1GB", "memory", "Memory access takes longest; launch and host take less than 0.1% of the time."),
    ],
)
def test_what_takes_longest_is_said(cli: Cli, kernel: str, binds: str, sentence: str) -> None:
    words = ("kernel", *kernel.split(), "--on", "k80")
    assert sentence in " ".join(cli(*words).stdout.split())
    facts = json.loads(cli(*words, "--json").stdout)
    assert facts["binds"] == binds


def test_bytes_may_have_a_unit(cli: Cli) -> None:
    times = {
        json.loads(cli("kernel", "copy", size, "--on", "k80", "--json").stdout)["predicted_us"]
        for size in ("67108864", "64MiB", "bytes=64 MiB")
    }
    assert len(times) == 1
    wrong = cli("kernel", "copy", "64XB", "--on", "k80")
    assert wrong.exit_code == 2 and "bytes is '64XB'; expected a number, or one with a unit" in wrong.output


def test_without_a_format_it_is_fp16_or_what_the_chip_has(cli: Cli) -> None:
    found = {
        chip: json.loads(cli("kernel", "gemm", "64", "64", "64", "--on", chip, "--json").stdout)["dtype"]
        for chip in ("t4", "p4")
    }
    assert found == {"t4": "fp16", "p4": "fp32"}


@pytest.mark.parametrize(("chip", "near"), [("h100-sxm", "fp8_e4m3fn"), ("a100-80-sxm", "")])
def test_another_format_is_named_only_where_it_is_akin(cli: Cli, chip: str, near: str) -> None:
    said = cli("kernel", "gemm", "64", "64", "64", "--on", chip, "--dtype", "fp8_e4m3").output
    assert f"{chip} does not multiply fp8_e4m3; expected fp16" in said
    assert ("did you mean" in said) is bool(near) and near in said


def test_a_calibrated_spec_is_used_and_a_site_too(cli: Cli, tmp_path: Path) -> None:
    rows, spec, site = (measured_csv(tmp_path / "rows.csv", "t4", 40), tmp_path / "mine.yaml", tmp_path / "site.yaml")
    result = cli("calibrate", "t4", "--data", str(rows), "--out", str(spec), "--as-of", "2026-11")
    assert result.exit_code == 0 and "kernels left out of the fit" in result.stdout, result.output
    made = cli("calibrate", "t4", "--data", str(rows), "--site", "here", "--out", str(site), "--as-of", "2026-11")
    assert made.exit_code == 0 and "The site" in made.stdout, made.output
    one = ("kernel", "gemm", "512", "512", "512", "--on", str(spec))
    assert "Uncalibrated" not in cli(*one).stdout
    slow = tmp_path / "slow.yaml"
    slow.write_text("name: slow\ndispatch: 90 us\nsource: a test\nas_of: 2026-11\n")
    plain, late = (json.loads(cli(*one, "--json", *more).stdout) for more in ((), ("--site", str(slow))))
    assert late["predicted_us"] == pytest.approx(1.15 * 90, rel=0.01)  # the host is what such a call waits for
    assert plain["predicted_us"] < 45
    assert cli(*one, "--site", str(site)).exit_code == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("kernel", "--on", "t4"), "one kernel or a table"),
        (("kernel", "gem", "1", "--on", "t4"), "op 'gem' is no kernel"),
        (("kernel", "gemm", "1", "2", "--on", "t4"), "no N; expected a value of N or n"),
        (("kernel", "gemm", "1", "2", "3", "4", "5", "--on", "t4"), "5 sizes of a gemm; expected M K N B"),
        (("kernel", "gemm", "1", "2", "3", "--on", "t4", "--dtype", "bf16"), "t4 does not multiply bf16"),
        (("kernel", "gemm", "1", "2", "3", "--on", "tpu-v1"), "tpu-v1 has no engine that runs kernels"),
        (("kernel", "gemm", "1", "2", "3", "--on", "t4", "--out", "x.csv"), "--out without a table"),
        (("kernel", "--csv", "x.csv", "--on", "t4", "--json"), "--json with a table or a sweep"),
        (("kernel", "serving_linear", "1", "2", "3", "layers=-1", "--on", "t4"), "layers is -1; expected 0 or more"),
        (("kernel", "attention", "8", "4", "2", "2", "64", "--on", "t4"), "4 keys of 8 tokens"),
    ],
)
def test_bad_input_is_told(cli: Cli, words: tuple[str, ...], told: str) -> None:
    result = cli(*words)
    assert result.exit_code == 2 and told in result.stderr


def test_small_shares_are_no_zeros(cli: Cli) -> None:
    words = ("kernel", "gemm", "1", "1", "1e9", "--on", "h100-sxm")
    told = " ".join(cli("kernel", "gemm", "1", "1", "1", "--on", "h100-sxm").stdout.split())
    assert "gives less than 1% of this time" in told and " 0%" not in told
    assert ".00 waves" not in cli(*words).stdout and "last wave" not in cli(*words).stdout


def test_a_device_that_is_not_there_is_told_with_those_that_are(cli: Cli, tmp_path: Path) -> None:
    rows = measured_csv(tmp_path / "rows.csv", "t4", 20)
    result = cli("calibrate", "v100-pcie", "--data", str(rows))
    assert result.exit_code == 2 and "no rows of v100-pcie; expected --device with one of: t4" in result.stderr
    untimed = shapes_csv(tmp_path / "shapes.csv", "t4", 20)
    assert "no time; expected a column time_us" in cli("calibrate", "t4", "--data", str(untimed)).stderr
    both = cli("calibrate", "t4", "--data", str(rows), "--site", "x", "--constants", "sm.launch")
    assert both.exit_code == 2 and "--constants with --site" in both.stderr
    unknown = cli("calibrate", "t4", "--data", str(rows), "--constants", "sm.lunch")
    assert unknown.exit_code == 2 and "did you mean 'sm.launch'" in unknown.stderr


def test_a_format_that_a_generation_lacks_is_told_with_chips_that_have_it(cli: Cli) -> None:
    for words in (("run", "mlp", "--values", "off"), ("kernel", "gemm", "64", "64", "64")):
        told = cli(*words, "--on", "v100-pcie", "--dtype", "bf16")
        assert told.exit_code == 2 and "chips that have it: a10, a100-40-pcie" in told.stderr


def test_the_sweep_is_the_kernels_one_by_one(cli: Cli, tmp_path: Path) -> None:
    out, plot = tmp_path / "steps.csv", tmp_path / "steps.png"
    words = ("kernel", "gemm", "256", "512", "--on", "a100-80-sxm", "--sweep", "K=64:256:64")
    result = cli(*words, "--out", str(out), "--plot", str(plot))
    assert result.exit_code == 0, result.output
    rows = out.read_text(encoding="utf-8").splitlines()
    assert len(rows) == 5 and plot.stat().st_size > 10_000 and "Written:" in result.stdout
    one = cli("kernel", "gemm", "256", "192", "512", "--on", "a100-80-sxm", "--json")
    names = rows[0].split(",")
    third = dict(zip(names, rows[3].split(","), strict=True))
    assert (third["M"], third["K"], third["N"]) == ("256", "192", "512")
    assert f'"predicted_us": {third["predicted_us"]}'[:20] in one.stdout


@pytest.mark.parametrize("words", [("--sweep", "K=1:2"), ("gemm", "1", "1", "1", "--plot", "x.png")])
def test_what_does_not_go_together(cli: Cli, words: tuple[str, ...]) -> None:
    result = cli("kernel", *words, "--on", "t4")
    assert result.exit_code == 2 and ("--sweep" in result.stderr or "one kernel or a table" in result.stderr)
