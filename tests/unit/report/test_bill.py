"""Bills: the time of a run times the price of its instance, by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from click.testing import CliRunner

import accelsim
from accelsim.cli import main
from accelsim.errors import UsageError
from accelsim.report.prices import usd

MINE = """
name: aws
title: What we pay
source: our contract
as_of: 2026-10
sources: {contract: {text: our contract, confidence: high}}
instances:
  g4dn.xlarge: {chip: t4, count: 1, prices: [{price: 0.25 USD/h, as_of: 2026-10-01, source: contract}]}
  box: {chip: t4, count: 1, prices: [{price: 0.25 USD/h, as_of: 2026-10-01, source: contract}]}
"""
RUNS = [
    ("cnn --on aws:g4dn.xlarge --values off --no-advice", 0.526),
    ("cnn --on aws:g4dn.xlarge --batch 8 --values off --no-advice", 0.526),
    ("cnn --on aws:g5.xlarge --values off --no-advice", 1.006),
    ("mlp?hidden=16 --on azure:nc6s-v3 --values off --no-advice", 3.06),
    ("mlp?hidden=16 --on gcp:n1-p4 --values off --no-advice", 0.6 + 0.38),
    ("cnn --on lambda:gpu-1x-h100-sxm5 --values off --no-advice", 4.29),
    ("cnn --on aws:p4d.24xlarge --train --batch 64 --values off", 21.957642),
    ("cnn --on 2x-aws:p4d.24xlarge --train --batch 64 --values off", 2 * 21.957642),
    (
        "gpt?layers=1 --on 3x-aws:p4d.24xlarge --plan dp=24 --train --batch 24 --tokens 300e9 --values off",
        3 * 21.957642,
    ),
    ("gpt?prompt=8,new=4 --on aws:p5.4xlarge --values off", 6.88),
]


def asked(command: str) -> dict:  # type: ignore[type-arg]
    done = CliRunner().invoke(main, ["run", *command.split(), "--json"])
    assert done.exit_code == 0, done.output
    facts: dict = json.loads(done.stdout)  # type: ignore[type-arg]
    return facts


@pytest.mark.parametrize(("command", "hour_USD"), RUNS, ids=[command for command, _ in RUNS])
def test_a_bill_is_time_times_price(command: str, hour_USD: float) -> None:
    facts = asked(command)
    bill = facts["bill"]
    second = hour_USD / 3600
    assert bill["usd_per_hour"] == pytest.approx(hour_USD)
    costs = {key: entry["usd"] for key, entry in bill["costs"].items()}
    least_s, step_s = bill["billed_at_least_s"], bill["billed_by_s"]
    if "training" not in facts:
        seconds = next(facts[key] for key in ("latency_s", "time_s", "total_s") if key in facts)
        pieces = max(math.ceil(seconds / step_s) * step_s, least_s)
        assert costs.pop("run_usd") == pytest.approx(pieces * second)
    if "latency_s" in facts:
        assert costs == {"thousand_samples_usd": pytest.approx(facts["latency_s"] / facts["batch"] * 1000 * second)}
    elif "first" in facts or "time_to_first_token_s" in facts:
        both = costs["million_tokens_in_usd"] * facts["prompt"] + costs["million_tokens_out_usd"] * facts["new"]
        assert both / 1e6 == pytest.approx(facts["total_s"] * second)
    else:
        assert costs["thousand_samples_usd"] == pytest.approx(facts["time_s"] / facts["batch"] * 1000 * second)
    if "training" in facts:
        assert costs["training_usd"] == pytest.approx(facts["training"]["seconds"] * second, abs=second)
    for entry in bill["costs"].values():
        assert entry["low_usd"] is None or entry["low_usd"] <= entry["usd"] <= entry["high_usd"]


def test_only_an_instance_has_a_bill() -> None:
    assert "bill" not in asked("mlp?hidden=16 --on t4 --values off --no-advice")


def test_a_run_on_an_instance_is_that_on_its_chip() -> None:
    there, here = (asked(f"mlp?hidden=16 --on {on} --values off --no-advice") for on in ("aws:g4dn.xlarge", "t4"))
    assert there["latency_s"] == here["latency_s"] and there["energy_J"] == here["energy_J"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("aws:g4dn.xlarg", "did you mean 'aws:g4dn.xlarge'"),
        ("aws:f1.2xlarge", "no spec describes it"),
        ("aws:g5.48xlarge", "how the 8 accelerators"),
        ("3x-aws:g5.xlarge", "how the 3 accelerators"),
        ("aws:c5.large", "no accelerator"),
    ],
)
def test_what_no_spec_describes_is_told(name: str, text: str) -> None:
    done = CliRunner().invoke(main, ["run", "cnn", "--on", name, "--values", "off"])
    assert done.exit_code == 2 and text in done.stderr


def test_prices_are_spelled_with_three_digits_at_least() -> None:
    assert [usd(each) for each in (4_719_254.4, 32.7726, 0.085, 5.731e-5, None)] == [
        "4,719,254", "32.77", "0.085", "0.0000573", "-",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "instance", "billed_s"),
    [(0.003, "aws:g4dn.xlarge", 60), (61.2, "aws:g4dn.xlarge", 62), (61.2, "azure:nc4as-t4-v3", 120),
     (3601, "lambda:gpu-1x-h100-sxm5", 7200), (90, "2x-aws:p4d.24xlarge", 90)],
)  # fmt: skip
def test_a_run_alone_pays_for_whole_pieces_of_time(seconds: float, instance: str, billed_s: float) -> None:
    bill = accelsim.price(seconds, instance)
    assert [(each.key, each.usd) for each in bill.costs] == [
        ("run_usd", pytest.approx(bill.hour_USD * billed_s / 3600))
    ]
    assert "billed by" in str(bill)


def test_the_bill_of_a_result_is_that_of_the_command() -> None:
    bill = accelsim.price(accelsim.run("cnn", "t4", values="off"), "aws:g4dn.xlarge").to_dict()
    theirs = asked("cnn --on aws:g4dn.xlarge --values off --no-advice")["bill"]
    assert bill["costs"] == theirs["costs"] and bill["usd_per_hour"] == theirs["usd_per_hour"]
    interval = theirs["costs"]["thousand_samples_usd"]
    assert interval["low_usd"] < interval["usd"] < interval["high_usd"]


def test_spot_and_unused_accelerators_are_billed_as_such() -> None:
    run = accelsim.run("mlp?hidden=16", "h100-sxm", values="off")
    spot, demand = (accelsim.price(run, "gcp:a3-highgpu-1g", term=term) for term in ("spot", "on-demand"))
    assert spot.hour_USD < demand.hour_USD and not demand.notes
    eight = accelsim.price(run, "aws:p5.48xlarge")
    assert eight.notes == ("the run uses 1 of 8 accelerators; all are paid for",)


def test_tokens_have_the_interval_of_their_phase() -> None:
    costs = asked("gpt?prompt=8,new=4 --on aws:p5.4xlarge --values off")["bill"]["costs"]
    for way in ("in", "out"):
        each = costs[f"million_tokens_{way}_usd"]
        assert each["low_usd"] < each["usd"] < each["high_usd"]


@pytest.mark.parametrize(
    ("run", "instance", "term", "text"),
    [
        (1.0, "aws:g4dn.xlarg", "on-demand", "did you mean 'aws:g4dn.xlarge'"),
        (1.0, "t4", "on-demand", "no instance 't4'"),
        (1.0, "aws:g4dn.xlarge", "spot", "no spot price"),
        ("soon", "aws:g4dn.xlarge", "on-demand", "has no time"),
        (-1.0, "aws:g4dn.xlarge", "on-demand", "has no time"),
        ({"chip": "t4", "latency_s": 1.0}, "aws:p5.4xlarge", "on-demand", "the run was on t4"),
    ],
)
def test_what_has_no_price_is_refused(run: object, instance: str, term: str, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        accelsim.price(run, instance, term=term)


def test_own_prices_stand_before_those_that_ship(tmp_path: Path) -> None:
    """Of a shipped instance, and of one that only the user's file has."""
    mine = tmp_path / "mine.yaml"
    mine.write_text(MINE, encoding="utf-8")
    for on in ("aws:g4dn.xlarge", "aws:box"):
        bill = asked(f"mlp?hidden=16 --on {on} --prices {mine} --values off --no-advice")["bill"]
        assert bill["usd_per_hour"] == 0.25 and bill["instance"] == on
        assert accelsim.price(90, on, prices=mine).costs[0].usd == pytest.approx(0.25 * 90 / 3600)
    done = CliRunner().invoke(main, ["run", "mlp", "--on", "aws:bax", "--prices", str(mine)])
    assert done.exit_code == 2 and "did you mean 'aws:box'" in done.stderr
