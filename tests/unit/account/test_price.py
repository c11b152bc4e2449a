"""Money: published examples to the cent, and what holds for any price."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.account.price import (
    Ownership,
    Rent,
    accelerator_hours,
    per_million_split_USD,
    per_million_USD,
    per_thousand_USD,
    training_flop,
)

MONEY, TIME, SHARE = st.floats(0.01, 1e4), st.floats(1e-3, 1e8), st.floats(0.05, 1.0)
EIGHT_H100 = Ownership(
    300_000, 8, 4, 10_200, 0.10, residual=0.2, interest=0.08, pue=1.3, kW_month_USD=150, operations=0.05, load=0.7
)


def test_tokens_cost_what_is_published() -> None:
    assert per_million_USD(23.92, 122.1203704) == pytest.approx(54.40897716, abs=5e-9)  # dstack, 8 x H100
    assert per_million_USD(10, 3400) == pytest.approx(0.82, abs=0.005)  # kshirol-dev, 4 x H100
    assert per_million_USD(4.29, 15_220) == pytest.approx(0.0783, abs=5e-5)


def test_a_day_of_deepseek_costs_what_is_published() -> None:
    """DeepSeek open-infra-index, day 6: 226.75 nodes of eight H800 at 2 USD an hour, 168 billion tokens out."""
    day = Rent(2 * 8).cost_USD(24 * 3600) * 226.75
    assert day == 87_072
    assert day / 168e3 == pytest.approx(0.518, abs=5e-4)


def test_trainings_cost_what_is_published() -> None:
    assert 2.788e6 * Rent(2.0).cost_USD(3600) == pytest.approx(5.576e6)  # DeepSeek-V3, Table 1
    assert 30.84e6 * Rent(2.0).cost_USD(3600) == pytest.approx(61.7e6, rel=1e-3)  # Llama 3.1 405B, model card
    hours = accelerator_hours(3.14e23, 28e12)
    assert hours / 8760 == pytest.approx(355.6, abs=0.05)  # Lambda: 355 years of a V100
    assert hours * 1.5 == pytest.approx(4.67e6, rel=1e-3)
    assert training_flop(175e9, 300e9) == pytest.approx(3.15e23)  # GPT-3, Table D.1: 3.14e23


@pytest.mark.parametrize(("hour_USD", "dollars"), [(32.7726, 4_719_254.4), (21.957642, 3_161_900.448)])
def test_gpt3_on_240_p4d_for_25_days(hour_USD: float, dollars: float) -> None:
    """144,000 hours of an instance, at its prices of 2022 and of 2026."""
    assert Rent(hour_USD).cost_USD(25 * 86_400, 240) == pytest.approx(dollars, abs=0.005)


def test_a_thousand_pictures_cost_what_division_says() -> None:
    assert per_thousand_USD(8, 100_000) == pytest.approx(2.22e-5, abs=5e-8)


def test_owned_machines_cost_what_arithmetic_says() -> None:
    parts = EIGHT_H100.yearly
    assert [round(part) for part in parts] == [77_261, 11_616, 18_360, 15_000]
    assert parts.total == pytest.approx(122_236.75, abs=0.005)
    assert EIGHT_H100.used_hour_USD == pytest.approx(2.4918, abs=5e-5)
    assert EIGHT_H100.break_even_load(2.95) == pytest.approx(0.5913, abs=5e-5)


def test_time_is_billed_in_pieces() -> None:
    rent = Rent(3.6, step_s=1, least_s=60)
    assert [rent.billed_s(seconds) for seconds in (0.5, 60.0, 60.2)] == [60, 60, 61]
    assert rent.cost_USD(0.5) == pytest.approx(0.06)
    assert Rent(3.6, step_s=3600).cost_USD(3601) == pytest.approx(7.2)


def test_tokens_in_and_out_share_the_time_of_their_phases() -> None:
    into, out = per_million_split_USD(3.6, prefill_s=0.5, tokens_in=1000, decode_s=2.0, tokens_out=100)
    assert (into * 1000 + out * 100) / 1e6 == pytest.approx(0.001 * 2.5)


@given(MONEY, MONEY, TIME, TIME, st.integers(1, 100))
def test_more_time_or_a_higher_price_never_costs_less(
    low: float, high: float, one: float, two: float, count: int
) -> None:
    low, high, short, long = *sorted((low, high)), *sorted((one, two))
    for step in (0, 1, 60, 3600):
        cheap, dear = Rent(low, step, 60), Rent(high, step, 60)
        assert cheap.cost_USD(short, count) <= cheap.cost_USD(long, count)
        assert cheap.cost_USD(short, count) <= dear.cost_USD(short, count)
        assert cheap.cost_USD(short, count) >= Rent(low).cost_USD(short, count) * (1 - 1e-12)


@given(MONEY, TIME, SHARE, SHARE)
def test_twice_the_load_never_raises_the_cost_of_a_token(hour: float, rate: float, one: float, two: float) -> None:
    assert per_million_USD(hour, rate, max(one, two)) <= per_million_USD(hour, rate, min(one, two))


@given(
    st.floats(1e3, 1e6), st.integers(1, 64), st.floats(1, 10), st.floats(100, 2e4), SHARE, st.floats(0, 0.5),
    st.floats(0, 0.2), SHARE, st.floats(0.5, 20),
)  # fmt: skip
def test_owning_and_renting_cost_the_same_at_the_break_even(
    price: float, count: int, years: float, watts: float, idle: float, residual: float, interest: float, load: float,
    rent: float,
) -> None:  # fmt: skip
    own = Ownership(price, count, years, watts, 0.1, watts * idle, residual, interest, 1.2, 150, 0.05, load)
    assert own.yearly.total == pytest.approx(sum(own.yearly))
    even = own.break_even_load(rent)
    if even < float("inf"):
        assert replace(own, load=even).used_hour_USD == pytest.approx(rent)
    assert replace(own, kWh_USD=0.2).yearly.total >= own.yearly.total
    months = own.break_even_months(rent)
    if months < float("inf"):
        spared = count * 8760 * load * rent - own.yearly.total + own.yearly.capital
        assert spared * months / 12 == pytest.approx(price)


@given(
    st.floats(1e3, 1e6), st.floats(1e3, 1e6), st.floats(100, 2e4), SHARE, SHARE, SHARE, st.floats(0, 0.2), st.floats(1, 8),
)  # fmt: skip
def test_owning_costs_less_for_a_lower_price_and_for_more_work(
    one: float, two: float, watts: float, idle: float, low: float, high: float, interest: float, years: float
) -> None:
    own = Ownership(
        max(one, two), 8, years, watts, 0.1, watts * idle, 0.2, interest, 1.3, 150, 0.05, min(low, high), watts
    )
    assert replace(own, price_USD=min(one, two)).yearly.total <= own.yearly.total * (1 + 1e-12)
    busy = replace(own, load=max(low, high))
    assert busy.used_hour_USD <= own.used_hour_USD * (1 + 1e-12)
    assert busy.yearly.power >= own.yearly.power * (1 - 1e-12) and busy.yearly.capital == own.yearly.capital
    assert replace(own, rated_W=None).yearly == own.yearly
    assert replace(own, rated_W=2 * watts).yearly.colocation == pytest.approx(2 * own.yearly.colocation)


@given(MONEY, TIME, TIME, TIME, st.integers(1, 4096), st.integers(1, 4096))
def test_tokens_in_and_out_add_up_to_the_time_of_the_run(
    hour: float, prefill: float, decode: float, more: float, prompt: int, new: int
) -> None:
    into, out = per_million_split_USD(hour, prefill, prompt, decode, new)
    assert (into * prompt + out * new) / 1e6 == pytest.approx(Rent(hour).cost_USD(prefill + decode))
    later = per_million_split_USD(hour, prefill, prompt, decode + more, new)
    assert later[0] == into and later[1] >= out


def test_a_loan_without_interest_is_paid_in_equal_parts() -> None:
    assert Ownership(1000, 1, 4, 0, 0).yearly.capital == 250
    assert Ownership(1000, 1, 4, 0, 0, interest=1e-9).yearly.capital == pytest.approx(250)
