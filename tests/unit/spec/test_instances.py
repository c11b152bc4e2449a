"""Instances and their prices: what ships is whole, a user's own file comes first, bad files are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelsim.errors import SpecError, UsageError
from accelsim.report.specs import checked
from accelsim.spec.yaml import where
from accelsim.spec.yaml.clusters import load_cluster
from accelsim.spec.yaml.instances import chosen, latest, load_providers, named, offers

OWN = """\
name: aws
title: What we pay
source: our contract
as_of: 2026-10
sources:
  contract: {text: a contract, confidence: high}
instances:
  p5.48xlarge:
    chip: h100-sxm
    count: 8
    prices:
      - {price: 31.5 USD/h, term: reserved-3y, as_of: 2026-10-01, source: contract}
"""


def test_what_ships_is_known_and_priced() -> None:
    every = offers(load_providers())
    assert len(every) > 350 and len({each.full_name for each in every}) > 200
    for each in every:
        assert each.price.hour_USD > 0 and each.price.source in each.provider.sources
        assert each.accelerators > 0 or each.instance.processor
        if each.instance.cluster:
            spec = load_cluster(each.instance.cluster)
            devices = sum(node.count * kind.count for node in spec.nodes.values() for kind in node.devices.values())
            chips = {kind.chip for node in spec.nodes.values() for kind in node.devices.values()}
            assert (devices, chips) == (each.instance.count, {each.instance.chip})


def test_prices_are_those_of_the_lists() -> None:
    """AWS's price list of 2022-06-23 and of 2026-07-20, us-east-1; Azure's of 2026-06-18, eastus."""
    demand = [each for each in offers(load_providers()) if each.price.term == "on-demand"]
    found = {(each.full_name, each.price.as_of, each.region): each.price.hour_USD for each in demand}
    assert found["aws:p4d.24xlarge", "2022-06-23", "us-east-1"] == 32.7726
    assert found["aws:p4d.24xlarge", "2026-07-20", "us-east-1"] == 21.957642
    assert found["aws:p5.48xlarge", "2026-07-20", "us-east-1"] == 55.04
    assert found["azure:nd96isr-h100-v5", "2026-06-18", "eastus"] == 98.32
    assert found["gcp:n1-t4", "2026-06-22", "us-central1"] == pytest.approx(0.35 + 0.38)  # the machine is billed apart


def test_the_newest_price_of_a_term_and_region_is_shown() -> None:
    own = [each for each in offers(load_providers()) if each.full_name == "aws:p4d.24xlarge"]
    assert [each.price.as_of for each in latest(own)] == ["2026-07-20"] and len(own) == 2


def test_a_share_of_a_card_is_a_share() -> None:
    (quarter,) = (each for each in offers(load_providers()) if each.full_name == "azure:nv8as-v4")
    assert quarter.accelerators == 0.25 and quarter.price.hour_USD / quarter.accelerators == pytest.approx(1.864)


def test_own_prices_stand_first(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(OWN, encoding="utf-8")
    found = load_providers(file)
    _, instance = named("aws:p5.48xlarge", found)
    assert [price.hour_USD for price in instance.prices] == [31.5]
    assert named("aws:p4d.24xlarge", found)[1] == named("aws:p4d.24xlarge", load_providers())[1]
    assert found["gcp"] == load_providers()["gcp"]
    assert (found["aws"].billed_by, found["aws"].region) == (1, "us-east-1")


@pytest.mark.parametrize(
    ("wrong", "right", "place", "text"),
    [
        ("31.5 USD/h", "31.5", ":12:", "unit"),
        ("31.5 USD/h", "31.5 USD", ":12:", "USD/h"),
        ("31.5 USD/h", "0 USD/h", ":12:", "free"),
        (" as_of: 2026-10-01,", "", ":12:", "as_of"),
        ("2026-10-01", "2026-13-01", ":12:", "date"),
        ("source: contract}", "source: contrakt}", ":12:", "contract"),
        ("reserved-3y", "reserved-9y", ":12:", "reserved-1y"),
        ("    chip: h100-sxm\n", "", ":9:", "chip:"),
        ("count: 8", "count: -8", ":10:", "0 or more"),
        ("count: 8", "count: 0", ":10:", "1 or more"),
    ],
)
def test_bad_prices_are_told_with_their_places(tmp_path: Path, wrong: str, right: str, place: str, text: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(OWN.replace(wrong, right), encoding="utf-8")
    with pytest.raises(SpecError) as error:
        load_providers(file)
    (problem,) = error.value.problems
    assert f"mine.yaml{place}" in str(problem) and text in str(problem)


def test_a_chip_that_there_is_not_is_told_with_the_nearest(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    wrong = OWN.replace("chip: h100-sxm", "chip: h100-sxn")
    for text, more in ((wrong, []), (wrong.replace("31.5 USD/h", "31.5").replace(" as_of: 2026-10-01,", ""), [12, 12])):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(SpecError, match=r"mine.yaml:9:11: .*no chip 'h100-sxn'.*did you mean 'h100-sxm'") as error:
            load_providers(file)
        assert [int(each.where.split(":")[-2]) for each in error.value.problems] == [9, *more]
        assert checked([str(file)]).facts == [
            {"file": str(file), "kind": None, "problems": str(error.value).split("\n")}
        ]
    assert "h100-sxm" in where.names("chips")


def test_unknown_names_are_told_with_the_nearest() -> None:
    every = offers(load_providers())
    with pytest.raises(UsageError, match=r"p4d.24xlarg'.*did you mean 'aws:p4d.24xlarge'"):
        named("aws:p4d.24xlarg", load_providers())
    with pytest.raises(UsageError) as error:
        chosen(every, chips=("h100-sx",), providers=("awz",))
    assert [problem.nearest for problem in error.value.problems] == ["h100-sxm", "aws"]
    with pytest.raises(UsageError, match="all that is asked for"):
        chosen(every, chips=("gaudi",), providers=("gcp",))
