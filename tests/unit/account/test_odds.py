"""Odds: closed forms against drawn figures, and what holds for any two beliefs."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.account.odds import ENDS, Belief, odds_below, odds_within, times, with_own
from accelsim.seeds import generator

VALUES, FACTORS, SHARES = st.floats(1e-6, 1e6), st.floats(1.0, 10.0), st.floats(0.0, 0.99)
DRAWS = 200_000


def around(value: float, below: float, above: float | None = None) -> Belief:
    return Belief(value, value / below, value * (above or below))


@st.composite
def beliefs(draw: st.DrawFn) -> Belief:
    return around(draw(VALUES), draw(FACTORS), draw(FACTORS))


@pytest.mark.parametrize("shared", [0.0, 0.6])
def test_odds_are_the_share_of_drawn_pairs(shared: float) -> None:
    """Beliefs in dollars: a shared error of the time, and a price of its own."""
    a, b = around(1.0, 1.34), around(1.2, 1.22, 2.5)
    price_a, price_b = around(2.0, 1.5), around(2.1, 1.1)
    drawn = generator(7).standard_normal((5, DRAWS))
    errors = [shared**0.5 * drawn[0] + (1 - shared) ** 0.5 * own for own in drawn[1:3]]
    times_s = [each.middle + each.sigma * error for each, error in zip((a, b), errors, strict=True)]
    prices = [each.middle + each.sigma * error for each, error in zip((price_a, price_b), drawn[3:], strict=True)]
    assert odds_below(a, b, shared) == pytest.approx(float(np.mean(times_s[0] < times_s[1])), abs=0.005)
    costs = [time + price for time, price in zip(times_s, prices, strict=True)]
    total_a, total_b = with_own(a, price_a), with_own(b, price_b)
    assert odds_below(total_a, total_b, shared) == pytest.approx(float(np.mean(costs[0] < costs[1])), abs=0.005)
    assert odds_within(total_b, 3.0) == pytest.approx(float(np.mean(costs[1] < log(3.0))), abs=0.005)
    assert np.mean((costs[1] > log(total_b.low)) & (costs[1] < log(total_b.high))) == pytest.approx(0.9, abs=0.005)


@given(beliefs(), beliefs(), SHARES, st.floats(1.001, 10.0))
def test_odds_obey_their_laws(a: Belief, b: Belief, shared: float, factor: float) -> None:
    odds = odds_below(a, b, shared)
    assert odds + odds_below(b, a, shared) == pytest.approx(1.0)
    assert odds_below(a, a, shared) == 0.5
    assert odds_below(a, times(b, factor), shared) >= odds >= odds_below(times(a, factor), b, shared)
    assert odds_below(times(a, factor), times(b, factor), shared) == pytest.approx(odds, abs=1e-6)
    assert odds_within(times(a, factor), a.value) <= odds_within(a, a.value)


@given(beliefs(), FACTORS)
def test_a_spread_of_its_own_makes_a_ranking_less_sure(a: Belief, factor: float) -> None:
    b = times(a, 1.3)
    wider = with_own(b, around(1.0, factor))
    assert wider.sigma >= b.sigma - 1e-9
    assert odds_below(a, wider, 0.9) <= odds_below(a, b, 0.9) + 1e-9


def test_errors_in_common_make_a_ranking_surer() -> None:
    a, b = around(1.0, 1.34), around(1.1, 1.34)
    assert 0.5 < odds_below(a, b, 0.0) < odds_below(a, b, 0.8) < odds_below(a, b, 1.0) == 1.0


def test_without_spread_odds_are_certain() -> None:
    one, two = around(1.0, 1.0), around(2.0, 1.0)
    assert (odds_below(one, two), odds_below(two, one), odds_below(one, one)) == (1.0, 0.0, 0.5)
    assert (odds_within(one, 1.0), odds_within(two, 1.0)) == (1.0, 0.0)
    assert with_own(one, two) == two


def test_an_interval_holds_nine_of_ten() -> None:
    belief = around(3.0, 1.2, 3.5)
    assert pytest.approx(1.645, abs=1e-3) == ENDS
    assert odds_within(belief, belief.high) == pytest.approx(0.95)
    assert odds_within(belief, belief.low) == pytest.approx(0.05)
