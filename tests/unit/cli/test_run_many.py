"""Several chips and settings in one call of ``run``."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from click.testing import Result

import accelsim
from accelsim.request.variants import variants

Cli = Callable[..., Result]

pytestmark = pytest.mark.usefixtures("unpainted")


def test_variants_are_chips_times_the_values_of_each_field() -> None:
    found = variants(["a,b", "c"], ["clock=1 GHz", "cores=2", "clock=2 GHz"])
    assert [each.on for each in found] == ["a", "a", "b", "b", "c", "c"]
    assert [each.label for each in found[:2]] == ["a clock=1 GHz", "a clock=2 GHz"]
    assert found[1].set == ("clock=2 GHz", "cores=2")
    assert [each.label for each in variants(["a"], ["clock=1 GHz"])] == ["a"]


def test_a_table_names_fields_by_the_shortest_end_that_tells_them_apart() -> None:
    fields = ["matrix.rows", "act_sram.capacity", "weight_sram.capacity"]
    found = variants(["edu-4x4"], [f"{field}={value}" for field in fields for value in (4, 8)])
    assert found[1].swept == (("rows", "4"), ("act_sram.capacity", "4"), ("weight_sram.capacity", "8"))
    assert found[1].label == "edu-4x4 matrix.rows=4 act_sram.capacity=4 weight_sram.capacity=8"
    assert [each.swept for each in variants(["a"], ["matrix.rows=4", "matrix.cols=4"])] == [()]


@pytest.mark.parametrize("columns", ["40", "100"])
def test_a_table_tells_its_rows_apart_however_narrow_it_is(
    cli: Cli, columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    fields = {"clock": ("100 MHz", "200 MHz"), "act_sram.capacity": ("64 KiB", "128 KiB")}
    sets = [text for field, values in fields.items() for value in values for text in ("--set", f"{field}={value}")]
    result = cli("run", "gemm?M=4,N=4,K=4", "--on", "edu-4x4", "--values", "off", *sets)
    head, _, *rows = result.stdout.splitlines()
    assert head.split()[1:3] == ["clock", "capacity"]
    shown = [line.split()[1:5] for line in rows[:4]]
    assert shown == [f"{clock} {room}".split() for clock, room in product(*fields.values())]


def test_one_table_with_the_figures_of_the_single_runs(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "runs.csv"
    line = ("run", "mlp?hidden=16", "--on", "edu-4x4,systolic-generic", "--set", "clock=100 MHz", "--set",
            "clock=200 MHz", "--set", "peak={}", "--values", "off", "--csv", file)  # fmt: skip
    result = cli(*line)
    assert result.exit_code == 0, result.stderr
    assert "edu-4x4           100 MHz" in result.stdout
    rows = list(csv.DictReader(file.read_text().splitlines()))
    assert len(rows) == 4
    one = accelsim.run("mlp?hidden=16", "systolic-generic", values="off", set=["clock=200 MHz", "peak={}"])
    assert float(rows[3]["latency_s"]) == one.latency_s
    assert float(rows[3]["energy_per_inference_J"]) == one.energy_J
    again = cli(*line, "--json")
    assert again.exit_code == 0, again.stderr + repr(again.exception)
    told = json.loads(again.stdout)
    assert [each["latency_s"] for each in told] == [float(row["latency_s"]) for row in rows]


@pytest.mark.parametrize(
    ("model", "chips"), [("gemm?M=4,N=4,K=4", "edu-4x4,edu-mixed"), ("gpt?layers=1,prompt=2,new=1", "edu-4x4")]
)
def test_an_option_without_effect_on_a_chip_is_told_under_tables_too(cli: Cli, model: str, chips: str) -> None:
    result = cli("run", model, "--on", chips, "--values", "off", "--share", "layer")
    assert result.exit_code == 0, result.stderr
    notes = result.stdout.partition("\nNotes:\n")[2].splitlines()
    assert notes == [
        f"- --share has no effect on {chip}: it needs a chip with several cores" for chip in chips.split(",")
    ]


def test_what_does_not_fit_is_a_row_and_stops_no_other(cli: Cli) -> None:
    result = cli("run", "cnn", "--on", "edu-4x4", "--values", "off", "--set",
                 "act_sram.capacity=64 B", "--set", "act_sram.capacity=8 KiB")  # fmt: skip
    assert result.exit_code == 2
    assert "does not fit" in result.stdout
    assert "edu-4x4 act_sram.capacity=64 B" in result.stderr
    assert "8 KiB" in result.stdout


def test_bad_input_of_every_run_is_told_at_once(cli: Cli) -> None:
    result = cli("run", "mlp?hidden=16", "--on", "edu-4x5,tpu-v2", "--values", "off")
    assert result.exit_code == 2
    assert "edu-4x5" in result.stderr and "tpu-v2" in result.stderr


def test_options_of_a_single_run_are_refused(cli: Cli) -> None:
    result = cli("run", "mlp?hidden=16", "--on", "edu-4x4,tpu-v1", "--check", "--save-mapping", "m.yaml")
    assert result.exit_code == 2
    assert "--check with several runs" in result.stderr and "--save-mapping with several runs" in result.stderr


def test_a_report_of_each_run(cli: Cli, tmp_path: Path) -> None:
    result = cli("run", "mlp?hidden=16", "--on", "edu-4x4", "--set", "clock=100 MHz", "--set", "clock=200 MHz",
                 "--set", "peak={}", "--values", "off", "--out", tmp_path / "reports")  # fmt: skip
    assert result.exit_code == 0
    assert len(list((tmp_path / "reports").glob("*/report.html"))) == 2


def test_reports_are_named_where_they_are_also_above_an_older_one(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "r"
    cli("run", "mlp?hidden=16", "--on", "edu-4x4", "--values", "off", "--no-advice", "--out", out)
    line = ("run", "mlp?hidden=16", "--on", "edu-4x4", "--values", "off", "--out", out)
    told = cli(*line, "--set", "clock=100 MHz", "--set", "clock=200 MHz").stdout
    pages = (out / f"{n}-edu-4x4-clock-{n}00-MHz" / "report.html" for n in (1, 2))
    assert told.splitlines()[-1] == f"Written: {', '.join(map(str, pages))}"


def test_a_table_says_what_its_figures_are_of(cli: Cli) -> None:
    line = ("run", "gemm?M=8,N=8,K=8", "--on", "edu-4x4,systolic-generic", "--values", "off")
    told = cli(*line).stdout
    assert "products/s" in told and "inference" not in told and "latency: of" not in told
    told = cli(*line, "--batch", "2").stdout
    assert told.splitlines()[-1] == "latency: of the whole run; energy: per product"
