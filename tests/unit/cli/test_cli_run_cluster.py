"""``accelsim run --train`` and ``accelsim plan`` on clusters: what is printed, written and refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from accelsim.cli import main

TRAIN = ("run", "gpt?layers=2", "--on", "4x-edu", "--plan", "dp=2,pp=2", "--train", "--batch", "4", "--values", "off")


def test_a_step_is_printed_and_written(tmp_path: Path) -> None:
    table, out = tmp_path / "step.csv", tmp_path / "step"
    told = CliRunner().invoke(main, [*TRAIN, "--csv", str(table), "--out", str(out), "--no-advice"])
    assert told.exit_code == 0, told.output
    for part in ("MFU", "HFU", "bubble", "energy of a sample", "of the step", "uses the most memory"):
        assert part in told.output
    assert [row["stage"] for row in csv.DictReader(table.read_text().splitlines())] == ["0", "1"]
    facts = json.loads((out / "step.json").read_text())
    assert facts["devices"] == 4 and facts["time_s"] == pytest.approx(sum(facts["parts_s"].values()))
    assert (out / "timeline.json.gz").stat().st_size and (out / "report.html").stat().st_size


def test_a_whole_training_takes_as_many_steps_as_its_tokens_need(tmp_path: Path) -> None:
    out = tmp_path / "step"
    told = CliRunner().invoke(main, [*TRAIN, "--tokens", "1e6", "--no-advice", "--out", str(out)])
    assert told.exit_code == 0, told.output
    facts = json.loads((out / "step.json").read_text())
    whole, each = facts["training"], 4 * facts["tokens_per_s"] / facts["samples_per_s"]
    assert whole["steps"] == -(-(10**6) // round(each)) and whole["tokens"] == 10**6
    assert whole["seconds"] == pytest.approx(whole["steps"] * facts["time_s"])
    assert whole["joules"] == pytest.approx(whole["steps"] * facts["energy_J"]["total"], rel=1e-9, abs=0)
    assert "whole training" in told.output and "Training on 1M tokens takes" in " ".join(told.output.split())


def test_json_has_what_would_help() -> None:
    told = CliRunner().invoke(main, [*TRAIN, "--json"])
    assert told.exit_code == 0, told.output
    facts = json.loads(told.output)
    saved = [each["saved"] for each in facts["what_ifs"]]
    assert saved == sorted(saved, reverse=True) and saved


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("run", "gpt", "--on", "4x-edu", "--plan", "dp=3,tp=2,sp", "--train", "--values", "off"), ("6 devices",)),
        (("run", "gpt", "--on", "4x-edu", "--plan", "dpp=3", "--train", "--values", "off"), ("a plan has no 'dpp'", "did you mean")),
        (("run", "gpt", "--on", "4x-edu", "--check"), ("--check", "--values exact", "--train")),
        (("run", "gpt", "--on", "edu-4x4", "--plan", "dp=2"), ("--plan on edu-4x4", "a cluster", "or --train")),
        (("run", "gpt", "--on", "edu-4x4", "--train"), ("--values exact with --train", "--values off")),
        (("run", "gpt", "--on", "edu-4x4", "--tokens", "5"), ("--tokens on edu-4x4", "or --train")),
        (("run", "gpt?prompt=4,new=2", "--on", "edu-4x4", "--library", "nccl"), ("see 'accelsim clusters')\n",)),
        (("run", "digits-cnn", "--on", "4x-edu", "--plan", "dp=4", "--train", "--values", "off", "--tokens", "5"), ("samples of digits-cnn have no tokens", "a language model")),
        (("run", "gpt", "--on", "4x-edu", "--plan", "dp=4", "--train", "--whole", "--values", "off", "--tokens", "5"), ("--tokens", "without --whole")),
        (("run", "gpt5?prompt=4,new=2", "--on", "4x-edu", "--values", "off"), ("no model 'gpt5'", "did you mean 'gpt'")),
        (("run", "gpt5?prompt=4,new=2", "--on", "edu-4x4", "--values", "off"), ("no model 'gpt5'", "did you mean 'gpt'")),
        (("run", "gpt", "--on", "4x-edu", "--train", "--values", "off", "--dtype", "int8"), ("a training in int8", "a floating-point format")),
        (("run", "gpt", "--on", "4x-edu", "--train", "--values", "off", "--dtype", "fp17"), ("fp17", "did you mean 'fp16'")),
        (("plan", "gpt", "--on", "4x-edu", "--dtype", "int4xint8"), ("a training in int4xint8", "a floating-point format")),
        (("run", "gpt", "--on", "edu-4x4,t4", "--train", "--values", "off"), ("one at a time",)),
        (("run", "gpt", "--on", "edu-4x5", "--train", "--values", "off"), ("no cluster or chip 'edu-4x5'", "did you mean 'edu-4x4'")),
        (("run", "gpt", "--on", "edu-4x4", "--plan", "dp=2", "--train", "--values", "off"), ("2 devices", "1")),
        (("run", "gpt", "--on", "edu-4x4", "--train", "--values", "off", "--check"), ("--check with --train", "a run without --train")),
        (("run", "gpt", "--on", "4x-edu", "--train", "--values", "off", "--plan", "dp=2"), ("or --on '4x-edu?devices=2'",)),
        (("run", "gpt?prompt=4,new=2", "--on", "2x-dgx-h100", "--values", "off", "--plan", "tp=2"), ("or --on 'dgx-h100?devices=2'",)),
        (("plan", "digits-mlp", "--on", "4x-edu", "--objective", "tim"), ("unknown objective", "time")),
    ],
)  # fmt: skip
def test_bad_input_is_refused(arguments: tuple[str, ...], parts: tuple[str, ...]) -> None:
    told = CliRunner().invoke(main, list(arguments))
    assert told.exit_code == 2
    for part in parts:
        assert part in told.output


def facts_of(*arguments: str) -> dict[str, Any]:
    told = CliRunner().invoke(main, [*arguments, "--json"])
    assert told.exit_code == 0, told.output
    facts: dict[str, Any] = json.loads(told.output)
    return facts


def test_a_chip_is_a_cluster_of_one() -> None:
    rest = ("--train", "--batch", "8", "--values", "off", "--no-advice")
    alone, one = (facts_of("run", "digits-cnn", "--on", name, *rest) for name in ("edu-4x4", "1x-edu"))
    assert alone["devices"] == 1 and alone["cluster"] == "edu-4x4"
    same = ("time_s", "parts_s", "energy_J")
    assert [alone[key] for key in same] == [one[key] for key in same]
    fast = facts_of("run", "digits-cnn", "--on", "edu-4x4", "--set", "clock=2 GHz", *rest)
    assert fast["time_s"] < alone["time_s"]


def test_plans_of_a_small_model(tmp_path: Path) -> None:
    table, plot = tmp_path / "plans.csv", tmp_path / "plans.png"
    told = CliRunner().invoke(
        main, ["plan", "gpt?layers=2", "--on", "4x-edu", "--batch", "4", "--csv", str(table), "--plot", str(plot)]
    )
    assert told.exit_code == 0, told.output
    assert "The best of" in told.output and "valid plans is" in " ".join(told.output.split()) and plot.stat().st_size
    rows = list(csv.DictReader(table.read_text().splitlines()))
    best = [float(row["simulated_s"]) for row in rows if row["simulated_s"]]
    assert len(best) == 10 and min(best) > 0
    assert all(row["loses_by"] for row in rows if not row["simulated_s"])
