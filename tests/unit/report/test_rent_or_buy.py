"""Rent or buy: the worked example to the cent, sentences that follow from the figures, and what is refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from accelsim.account.price import Ownership
from accelsim.cli import main
from accelsim.report.prices import usd
from accelsim.report.text import percent

TINY = "gpt?layers=1,prompt=8,new=2"
ALL_YEAR = ("--set", "owning.power=10.2 kW", "--set", "owning.idle_power=10.2 kW")
"""Nameplate power at all hours, as in the worked example."""


def command(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(main, ["rent-or-buy", *words])
    return done.exit_code, done.stdout, done.stderr


def asked(*words: str) -> dict[str, Any]:
    code, out, err = command(*words, "--json")
    assert code == 0, err
    return json.loads(out)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def eight() -> dict[str, Any]:
    """The worked example: eight H100 at a load of 0.7, kept four years, against 2.95 USD/h."""
    return asked(TINY, "--on", "dgx-h100", *ALL_YEAR, "--load", "0.7", "--years", "4", "--rent", "2.95 USD/h")


def test_the_worked_example_comes_out_to_the_cent(eight: dict[str, Any]) -> None:
    yearly = eight["yearly_usd"]
    assert [round(yearly[part]) for part in ("capital", "power", "colocation", "operations")] == [
        77_261,
        11_616,
        18_360,
        15_000,
    ]
    assert yearly["total"] == pytest.approx(122_236.75, abs=0.005)
    assert eight["used_hour_usd"]["total"] == pytest.approx(2.4918, abs=5e-5)
    assert eight["named"]["yours"]["break_even_load"] == pytest.approx(0.5913, abs=5e-5)


def test_parts_add_up_to_the_total(eight: dict[str, Any]) -> None:
    for costs in (eight["yearly_usd"], eight["used_hour_usd"]):
        assert sum(value for name, value in costs.items() if name != "total") == pytest.approx(costs["total"])
    assert eight["owned"]["usd_per_used_hour"] == eight["used_hour_usd"]["total"]
    assert eight["owned"]["energy_usd_per_used_hour"] == eight["used_hour_usd"]["power"]


def test_rents_are_the_cheapest_of_each_provider(eight: dict[str, Any]) -> None:
    rents = [row["usd_per_used_hour"] for row in eight["rented"][1:]]
    providers = [row["instance"].partition(":")[0] for row in eight["rented"][1:]]
    assert rents == sorted(rents) and len(set(providers)) == len(providers) > 5
    named = eight["named"]
    assert named["cheapest"]["usd_per_used_hour"] == rents[0]
    assert named["median"]["usd_per_used_hour"] == rents[(len(rents) - 1) // 2]
    nebius = next(row for row in eight["rented"] if row["instance"].startswith("nebius"))
    assert not nebius["old"], "an old price stands only where a provider has no newer one"


def test_the_same_work_costs_in_proportion_to_the_hour(eight: dict[str, Any]) -> None:
    for row in eight["rented"]:
        for key in ("million_tokens_in_usd", "million_tokens_out_usd", "million_tokens_out_high_usd"):
            ratio = row["usd_per_used_hour"] / eight["owned"]["usd_per_used_hour"]
            assert row[key] == pytest.approx(eight["owned"][key] * ratio)
    assert eight["owned"]["million_tokens_out_low_usd"] < eight["owned"]["million_tokens_out_usd"]


def test_sentences_say_what_the_figures_say(eight: dict[str, Any]) -> None:
    told, hour = " ".join(eight["sentences"]), eight["used_hour_usd"]
    assert f"At a load of 70.0%, an hour in which an accelerator works costs {usd(hour['total'])} USD owned." in told
    for who, words in (("cheapest", "cheapest rent"), ("median", "median rent"), ("yours", "rent of your own")):
        row = eight["named"][who]
        assert f"The {words} is {usd(row['usd_per_used_hour'])} USD" in told
        assert f"owning is cheaper from a load of {percent(row['break_even_load'])}." in told
    market = eight["rented"][1:]
    beaten = sum(row["usd_per_used_hour"] > hour["total"] for row in market)
    assert f"owning is cheaper than {beaten} of {len(market)} rents." in told
    assert f"{percent(hour['power'] / hour['total'])} is energy, {usd(hour['power'])} USD/h." in told


def test_every_assumption_has_its_source_and_may_be_changed() -> None:
    found = asked(TINY, "--on", "h100-sxm", "--set", "owning.interest=0.05", "--load", "0.9", "--grid", "400 g/kWh")
    figures = {each["key"]: each for each in found["assumptions"]}
    assert all(each["source"] for each in figures.values())
    assert figures["interest"]["value"] == 0.05 and figures["interest"]["source"] == "yours; colocation-us has 8 %"
    assert figures["years"]["source"].startswith("shorter than the 5 to 6 years")
    own = Ownership(
        figures["price"]["value"], 1, figures["years"]["value"], figures["power"]["value"], figures["power_price"]["value"],
        figures["idle_power"]["value"], figures["residual"]["value"], 0.05, figures["pue"]["value"],
        figures["colocation"]["value"], figures["operations"]["value"], 0.9,
    )  # fmt: skip
    assert found["yearly_usd"]["total"] == pytest.approx(own.yearly.total)
    assert found["owned"]["co2_g_per_used_hour"] == pytest.approx(own.mean_W / 1e3 * 1.3 * 400 / 0.9)
    assert any("without the machine around" in note for note in found["notes"])


def test_power_is_that_of_the_run() -> None:
    found = asked("mlp?hidden=16", "--on", "h100-sxm", "--batch", "8")
    run = CliRunner().invoke(
        main, ["run", "mlp?hidden=16", "--on", "h100-sxm", "--batch", "8", "--values", "off", "--no-advice", "--json"]
    )
    facts = json.loads(run.stdout)
    power = next(each for each in found["assumptions"] if each["key"] == "power")
    assert power["value"] == pytest.approx(facts["energy_J"] / facts["latency_s"])
    rate = facts["throughput_per_s"]
    assert found["owned"]["thousand_samples_usd"] == pytest.approx(found["used_hour_usd"]["total"] / 3.6 / rate)


def test_copies_on_a_cluster_cost_as_much_each() -> None:
    """Eight H100 with a copy each: the rate of one, the power of all with their servers."""
    found = asked("mlp?hidden=16", "--on", "dgx-h100", "--batch", "8")
    one = asked("mlp?hidden=16", "--on", "h100-sxm", "--batch", "8")
    assert "8 such runs side by side" in found["work"]
    assert found["named"]["median"]["thousand_samples_usd"] == pytest.approx(
        one["named"]["median"]["thousand_samples_usd"]
    )
    powers = [next(e["value"] for e in each["assumptions"] if e["key"] == "power") for each in (found, one)]
    assert powers[0] > 8 * powers[1]


def test_a_decoder_without_tokens_gets_some_and_says_so() -> None:
    found = asked("gpt?layers=1", "--on", "edu-4x4", "--price", "100 USD", "--batch", "1")
    assert "512 tokens in, 128 out" in found["work"]
    assert found["named"] == {} and "No rent of edu-4x4 is known" in " ".join(found["sentences"])


def test_reserved_time_is_paid_for_all_hours() -> None:
    found = asked("mlp?hidden=16", "--on", "h100-sxm", "--term", "reserved-3y", "--load", "0.5")
    row = found["named"]["cheapest"]
    assert row["usd_per_used_hour"] == pytest.approx(2 * row["usd_per_accelerator_hour"])
    assert row["break_even_load"] is None and "paid for all hours" in " ".join(found["sentences"])


def test_an_instance_is_compared_with_its_own_rent(tmp_path: Path) -> None:
    table, picture = tmp_path / "rents.csv", tmp_path / "choice.png"
    code, out, _ = command(
        "mlp?hidden=16", "--on", "aws:g4dn.xlarge", "--price", "2000 USD", "--csv", str(table), "--plot", str(picture)
    )
    assert code == 0 and "The rent of the instance is 0.526 USD (aws:g4dn.xlarge)" in " ".join(out.split())
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert rows[0]["instance"] == "owned: aws:g4dn.xlarge" and rows[1]["usd_per_accelerator_hour"] == "0.526"
    assert picture.stat().st_size > 10_000


def test_training_has_its_cost_per_sample() -> None:
    found = asked("digits-mlp", "--on", "4x-edu", "--train", "--batch", "64", "--price", "1000 USD")
    assert "training step of 64" in found["work"] and found["owned"]["thousand_samples_usd"] > 0


@pytest.mark.parametrize(
    ("words", "texts"),
    [
        (("--on", "h100-sxm", "--set", "owning.yeers=6", "--rent", "2"), ("did you mean 'owning.years'", "'2' has no unit")),
        (("--on", "t4"), ("no price of t4", "dgx-h100, h100-sxm")),
        (("--on", "edge-and-cloud"), ("one kind of accelerator",)),
        (("--on", "h100-sxm", "--site", "colocation"), ("did you mean 'colocation-us'",)),
        (("--on", "h100-sxm", "--site", "pytorch-eager"), ("states nothing about owned machines",)),
        (("--on", "h100-sxm", "--providers", "awz"), ("did you mean 'aws'",)),
        (("--on", "h100-sxm", "--grid", "400"), ("grams of CO2 per energy in g/kWh",)),
        (("--on", "h100-sxm", "--load", "60"), ("60",)),
        (
            ("--on", "h100-sxm", "--price", "-3 USD", "--rent", "0 USD/h", "--grid", "1e300 g/kWh"),
            ("--price: '-3 USD' is out of range", "--rent: '0 USD/h' is out", "--grid: '1e300 g/kWh' is out"),
        ),
        (("--on", "dgx-h100", "--plan", "dp=8"), ("a plan for copies",)),
    ],
)  # fmt: skip
def test_bad_input_is_refused_with_what_was_expected(words: tuple[str, ...], texts: tuple[str, ...]) -> None:
    code, out, err = command("mlp?hidden=16", *words)
    assert code == 2 and not out
    for text in texts:
        assert text in err
