"""What 'accelsim run' prints and writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

import accelsim
from accelsim.account.latency import summary
from accelsim.machine.run import Run
from accelsim.report.write import FILES

Cli = Callable[..., Result]
CNN = ("run", "cnn", "--on", "tpu-v1", "--no-advice")


@pytest.mark.parametrize("columns", [60, 80, 132])
def test_table_summary_and_sentences_fit_the_terminal(cli: Cli, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    result = cli(*CNN, "--check", "--values", "fast")
    assert result.exit_code == 0
    assert result.stderr == ""
    assert max(map(len, result.stdout.splitlines())) <= columns
    for text in ("conv1", "latency", "The run takes", "Notes:", "holds"):
        assert text in result.stdout


def test_few_rows_are_the_layers_that_cost_most_and_the_total_is_that_of_all(cli: Cli) -> None:
    few, all_rows = cli(*CNN, "--layers", 2).stdout, cli(*CNN, "--layers", "all").stdout
    assert "The 2 of 4 layers that add most time" in few
    shown = [line.split()[0] for line in few.split("total")[0].splitlines()[2:] if line.strip()]
    assert shown[0] == "input" and sum(word.isdigit() for word in shown) == 2
    assert "conv2" in all_rows

    def total(text: str) -> str:
        return next(line for line in text.splitlines() if " total " in line)

    assert total(few).split() == total(all_rows).split()


@pytest.mark.usefixtures("unpainted")
def test_json_is_all_there_is_on_stdout_and_equals_the_python_call(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "report"
    result = cli(*CNN, "--json", "--seed", 3, "--out", out, "--check")
    facts = json.loads(result.stdout)
    check = facts.pop("check")
    direct = summary(accelsim.run("cnn", "tpu-v1", seed=3)) | {"what_ifs": None}
    assert facts == json.loads(json.dumps(direct))
    assert facts == json.loads((out / "summary.json").read_text())
    assert check["holds"] is True
    assert check["beyond_bound"] == []
    assert check["tensors"] == 5


@pytest.mark.usefixtures("unpainted")
def test_the_report_directory_and_the_mapping_file(cli: Cli, tmp_path: Path) -> None:
    out, mapping = tmp_path / "reports" / "cnn", tmp_path / "mapping.yaml"
    result = cli(*CNN, "--values", "off", "--out", out, "--save-mapping", mapping)
    assert result.exit_code == 0
    assert result.stdout.endswith(f"\nWritten: {out / 'report.html'}, {mapping}\n")
    assert {path.name for path in out.iterdir()} == {*FILES, "plots"}
    again = cli(*CNN, "--values", "off", "--mapping", mapping, "--json")
    assert json.loads(again.stdout)["latency_s"] == json.loads((out / "summary.json").read_text())["latency_s"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mapping.yaml", "reports"]


def test_a_check_that_does_not_hold_is_exit_code_1(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from accelsim.machine import simulate as module

    def wrong(*args: object) -> Run:
        run = module.simulate(*args)  # type: ignore[arg-type]
        run.tensors["pool1"] = run.tensors["pool1"].copy()
        run.tensors["pool1"].flat[7] += 1
        return run

    monkeypatch.setattr("accelsim.request.job.simulate", wrong)
    result = cli(*CNN, "--check")
    assert result.exit_code == 1
    for text in ("1 beyond the bound", "pool1", "must be equal", "does not hold"):
        assert text in result.stdout
    assert json.loads(cli(*CNN, "--check", "--json").stdout)["check"]["beyond_bound"] == ["pool1"]


def test_every_option_reaches_the_simulation(cli: Cli, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.ones((2, 1, 20, 20), np.float32))
    result = cli(
        "run", "cnn", "--on", "edu-4x4", "--batch", 2, "--dtype", "fp32", "--values", "fast", "--weights", "random:7",
        "--inputs", tmp_path / "in.npz", "--param", "resolution=20", "--set", "clock=200 MHz", "--set", "peak={}",
        "--array-timing", "sequential", "--dataflow", "os", "--json", "--no-advice",
    )  # fmt: skip
    direct = accelsim.run(
        "cnn?resolution=20", "edu-4x4", batch=2, dtype="fp32", values="fast", weights="random:7",
        inputs={"x": np.ones((2, 1, 20, 20), np.float32)}, set=["clock=200 MHz", "peak={}"],
        array_timing="sequential", dataflow="os",
    )  # fmt: skip
    told, expected = json.loads(result.stdout), json.loads(json.dumps(summary(direct) | {"what_ifs": None}))
    assert told.pop("run")["chip_sha256"] == expected.pop("run")["chip_sha256"]
    assert told == expected
    assert direct.chip.matrix is not None
    assert (direct.chip.matrix.schedule, direct.chip.matrix.dataflow) == ("sequential", "os")
    plain = accelsim.run("cnn?resolution=20", "edu-4x4", batch=2, dtype="fp32", values="off")
    assert plain.time_fs != direct.time_fs


def test_data_for_ranges_change_the_scales_only(cli: Cli, tmp_path: Path) -> None:
    np.savez(tmp_path / "big.npz", x=np.full((1, 1, 28, 28), 50.0, np.float32))
    plain = json.loads(cli(*CNN, "--check", "--json").stdout)
    other = json.loads(cli(*CNN, "--check", "--json", "--ranges-from", tmp_path / "big.npz").stdout)
    assert other["latency_s"] == plain["latency_s"]
    assert other["check"]["holds"]
    assert other["check"]["sqnr_dB"]["probabilities"] < plain["check"]["sqnr_dB"]["probabilities"] - 10


def test_a_topology_file_runs(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "net.csv"
    path.write_text("Layer, M, N, K,\nfirst, 8, 8, 8,\nsecond, 8, 4, 8,\n")
    result = cli("run", path, "--on", "edu-4x4", "--values", "off")
    assert result.exit_code == 0
    assert "second" in result.stdout


def test_progress_goes_to_a_terminal_only(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from accelsim.cli.common import progress

    with progress(2) as stage:
        stage("compile", 0.0)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress(2) as stage:
        stage("compile", 0.0)
        stage("simulate", 0.5)
    shown = capsys.readouterr()
    assert "simulate, 2 of 2" in shown.err
    assert shown.out == ""


def test_what_is_counted_is_told_with_its_number_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    from accelsim.cli.common import counted

    assert list(counted(["a", "b"], str.upper)) == ["a", "b"]
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert list(counted(["a", "b"], str.upper)) == ["a", "b"]
    assert "B, 2 of 2" in capsys.readouterr().err


@pytest.mark.parametrize(("chip", "values", "said"), [("a100-80-sxm", "exact", True), ("a100-80-sxm", "fast", False), ("tpu-v1", "exact", False)])  # fmt: skip
def test_a_long_run_without_numba_says_what_it_would_help(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, chip: str, values: str, said: bool
) -> None:
    """Tests keep Numba out (``ACCELSIM_KERNEL``), as if it were not installed."""
    monkeypatch.setattr("accelsim.report.run.SLOW_S", 0.0)
    result = cli("run", "mlp?hidden=16", "--on", chip, "--values", values, "--no-advice")
    assert result.exit_code == 0, result.output
    assert ("without Numba" in " ".join(result.stderr.split())) is said
    assert "Numba" not in result.stdout
