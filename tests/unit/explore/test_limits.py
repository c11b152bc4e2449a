"""Limits that users write: one rule for `sweep` and `choose`."""

from __future__ import annotations

import pytest

from accelsim.errors import UsageError
from accelsim.explore.choose.question import UNITS as OF_CHOICES
from accelsim.explore.sweep.fronts import UNITS
from accelsim.limits import EXPECTED, read_limits
from accelsim.units import parse


def test_limits_stand_between_commas_with_or_without_a_unit_where_there_are_no_prefixes() -> None:
    asked = ["latency=10ms, energy=1uJ", "power=2W", "cost=0.5 USD,hour=3", "days=30d,throughput=1e3/s", "area=9mm2"]
    assert read_limits(asked, UNITS) == {
        "latency": 0.01, "energy": parse("1 uJ", "J"), "power": 2.0, "cost": 0.5, "hour": 3.0, "days": 30.0,
        "throughput": 1000.0, "area": parse("9 mm2", "m²"),
    }  # fmt: skip
    assert read_limits(["cost=0.5,days=30,throughput=1000,hour=3 USD/h"], UNITS) == read_limits(
        ["cost=0.5USD,days=30 d,throughput=1000 /s,hour=3"], UNITS
    )


@pytest.mark.parametrize("text", [
    "latency=10", "latency=10 J", "latency=0s", "latency=-1ms", "latency=", "latency", "latensy=1s", "=1s", "cost=x",
    "cost=0", "cost=-1", "cost=nan", "cost=inf", "cost=1 EUR", "power=nan", "energy=0J", "throughput=1 k", "days=1 h",
])  # fmt: skip
def test_wrong_limits_are_told_in_the_words_of_both_commands(text: str) -> None:
    with pytest.raises(UsageError) as ours:
        read_limits([text, "power=2W"], UNITS)
    with pytest.raises(UsageError) as theirs:
        read_limits([text, "power=2W"], OF_CHOICES)
    (mine,), (other,) = ours.value.problems, theirs.value.problems
    assert (mine.what, mine.where, mine.nearest) == (other.what, other.where, other.nearest)
    assert mine.expected == other.expected or mine.what.startswith("no limit")  # of the names that each has


def test_a_loss_is_a_share_of_at_most_nothing() -> None:
    assert (
        read_limits(["accuracy=-1%"], OF_CHOICES) == read_limits(["accuracy=-0.01"], OF_CHOICES) == {"accuracy": -0.01}
    )
    for text in ("accuracy=1%", "accuracy=-100%", "accuracy=", "accuracy=x"):
        with pytest.raises(UsageError, match="what may be lost"):
            read_limits([text], OF_CHOICES)


def test_every_limit_has_its_words_and_all_that_is_wrong_is_told() -> None:
    assert {*UNITS.values(), *OF_CHOICES.values()} == EXPECTED.keys()
    with pytest.raises(UsageError) as caught:
        read_limits(["latency=-1ms,energy=0J", "throughput=inf", "cots=1", "power=1W,power=2W"], UNITS, "limits")
    assert [each.where for each in caught.value.problems] == ["limits"] * 5
    assert "did you mean 'cost'" in str(caught.value) and "'power=2W' is a second limit of power" in str(caught.value)
