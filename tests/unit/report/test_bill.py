"""Bills: the time of a run times the price of its instance, by hand."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from accelsim.cli import main
from accelsim.report.prices import usd

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
        ("aws:inf2.xlarge", "no spec describes it"),
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
