"""Bill of a run on an instance: what samples, tokens or a training cost at its newest price."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from accelsim.account.price import Rent, per_million_split_USD, per_thousand_USD
from accelsim.report.answer import Answer, block
from accelsim.report.prices import usd
from accelsim.spec.yaml.instances import load_providers, rented

Facts = Mapping[str, Any]


class Cost(NamedTuple):
    """A cost in USD, by what it is of, with the interval that follows from that of the time, if it has one."""

    key: str
    of: str
    usd: float
    low: float | None = None
    high: float | None = None


def billed(answer: Answer, on: str, *others: str) -> Answer:
    """Return the answer of a run with its bill, if ``on`` is one instance, with a price."""
    found = None if others else rented(on, load_providers())
    if found is None or not isinstance(answer.facts, dict):
        return answer
    many, offer = found
    provider = offer.provider
    rent = Rent(offer.price.hour_USD * many, float(provider.billed_by), float(provider.billed_at_least))
    costs = _costs(answer.facts, rent)
    if not costs:
        return answer
    place = f", {offer.region}" if offer.region else ""
    price = (
        "instance",
        f"{usd(rent.hour_USD)} USD/h, {offer.price.term.replace('-', ' ')}{place}, {offer.price.as_of}",
    )
    bill = {
        "instance": on,
        "usd_per_hour": rent.hour_USD,
        "as_of": offer.price.as_of,
        "region": offer.region,
        "source": provider.sources[offer.price.source].text,
        "costs": {each.key: {"usd": each.usd, "low_usd": each.low, "high_usd": each.high} for each in costs},
    }
    rows = [{**row, **{each.key: each.usd for each in costs}} for row in answer.rows[:1]] + list(answer.rows[1:])
    return replace(
        answer,
        facts={**answer.facts, "bill": bill},
        shown=[*answer.shown, "", block("bill", [price, *map(_row, costs)])],
        rows=rows,
    )


def _row(cost: Cost) -> tuple[str, str]:
    interval = "" if cost.low is None or cost.high is None else f", 90 %: {usd(cost.low)} to {usd(cost.high)}"
    return cost.of, f"{usd(cost.usd)} USD{interval}"


def _costs(facts: Facts, rent: Rent) -> list[Cost]:
    """Return the costs of a run: of a whole training, of samples, of tokens in and out."""
    found = []
    if training := facts.get("training"):
        whole, low, high = (rent.cost_USD(training[key]) for key in ("seconds", "low_s", "high_s"))
        found.append(Cost("training_usd", "whole training", whole, low, high))
    for rate, interval in (
        ("samples_per_s", "samples_interval_per_s"),
        ("throughput_per_s", "throughput_interval_per_s"),
    ):
        if facts.get(rate):
            found.append(_of_rate(facts[rate], facts.get(interval), rent))
    if facts.get("time_to_first_token_s"):
        found += _of_tokens(facts, rent)
    return found


def _of_rate(per_s: float, interval: Sequence[float] | None, rent: Rent) -> Cost:
    cost = per_thousand_USD(rent.hour_USD, per_s)
    low, high = sorted(per_thousand_USD(rent.hour_USD, rate) for rate in interval) if interval else (None, None)
    return Cost("thousand_samples_usd", "thousand samples", cost, low, high)


def _of_tokens(facts: Facts, rent: Rent) -> list[Cost]:
    """A million tokens in and out; each pays for the time of its own phase."""
    sequences = facts["sequences"]
    prefill, tokens_in, out = facts["time_to_first_token_s"], facts["prompt"] * sequences, facts["new"] * sequences
    both = per_million_split_USD(rent.hour_USD, prefill, tokens_in, facts["decode_s"], out)
    return [
        Cost(f"million_tokens_{way}_usd", f"million tokens {way}", cost)
        for way, cost in zip(("in", "out"), both, strict=True)
    ]
