"""Bills: what samples, tokens, a run or a training cost on an instance, by the time that they take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from accelsim.account.price import Rent, per_million_split_USD, per_million_USD, per_thousand_USD
from accelsim.errors import UsageError, brief, count_of
from accelsim.report.answer import Answer, block
from accelsim.report.prices import usd
from accelsim.spec.yaml.instances import INSTANCE, RENTED, Offer, load_providers, named, rented, standing

Facts = Mapping[str, Any]
Ends = Sequence[float] | None
"""Lower and upper end of an interval."""
TIMES = (("latency_s", "latency_interval"), ("time_s", "interval_s"), ("total_s", "total_interval_s"))
"""Keys of the time of a run and of its interval, of which facts have one."""
RATES = (
    ("samples_per_s", "samples_interval_per_s", "thousand_samples_usd", "thousand samples", per_thousand_USD),
    ("throughput_per_s", "throughput_interval_per_s", "thousand_samples_usd", "thousand samples", per_thousand_USD),
    ("tokens_per_s", "tokens_interval_per_s", "million_tokens_usd", "million tokens", per_million_USD),
)
"""Keys of a rate and of its interval; key and name of its cost, and what computes that."""


class Cost(NamedTuple):
    """A cost in USD, by what it is of, with the interval that follows from that of the time, if it has one."""

    key: str
    of: str
    usd: float
    low: float | None = None
    high: float | None = None

    @property
    def text(self) -> str:
        """Cost in words, with its interval."""
        interval = "" if self.low is None or self.low == self.high else f" (90 %: {usd(self.low)} to {usd(self.high)})"
        return f"{usd(self.usd)} USD{interval}"


@dataclass(frozen=True)
class Bill:
    """Costs of a run on so many instances of an ``offer``. ``notes``: what else is paid for."""

    instance: str
    many: int
    offer: Offer
    costs: tuple[Cost, ...]
    notes: tuple[str, ...] = ()

    @property
    def hour_USD(self) -> float:
        """Price of an hour of all instances, USD."""
        return self.offer.price.hour_USD * self.many

    @property
    def rent(self) -> Rent:
        """Rent of all instances, as the provider bills time."""
        provider = self.offer.provider
        return Rent(self.hour_USD, float(provider.billed_by), float(provider.billed_at_least))

    def to_dict(self) -> dict[str, object]:
        """Return the bill for JSON."""
        offer = self.offer
        return {
            "instance": self.instance,
            "usd_per_hour": self.hour_USD,
            "term": offer.price.term,
            "as_of": offer.price.as_of,
            "region": offer.region,
            "source": offer.provider.sources[offer.price.source].text,
            "billed_by_s": self.rent.step_s,
            "billed_at_least_s": self.rent.least_s,
            "costs": {each.key: {"usd": each.usd, "low_usd": each.low, "high_usd": each.high} for each in self.costs},
            "notes": list(self.notes),
        }

    def lines(self) -> list[tuple[str, str]]:
        """Return names and values of the bill."""
        place = f", {self.offer.region}" if self.offer.region else ""
        term = self.offer.price.term.replace("on-demand", "on demand")
        price = ("instance", f"{usd(self.hour_USD)} USD/h, {term}{place}, {self.offer.price.as_of}")
        least = f", at least {self.rent.least_s:g} s" if self.rent.least_s else ""
        rule = f", billed by {self.rent.step_s:g} s{least}"
        costs = [(each.of, each.text + (rule if each.key in ROUNDED else "")) for each in self.costs]
        return [price, *costs, *(("note", text) for text in self.notes)]

    def __str__(self) -> str:
        """Name and value of each line."""
        return "\n".join(f"{name}: {value}" for name, value in self.lines())


ROUNDED = ("run_usd", "training_usd")
"""Costs that are billed in whole pieces of time; a steady service pays for its time alone."""


def bill_of(facts: Facts, on: str, many: int, offer: Offer) -> Bill:
    """Return the bill of a run with these facts."""
    empty = Bill(on, many, offer, ())
    notes = []
    used, there = facts.get("devices", 1), many * offer.accelerators
    if ("chip" in facts or "devices" in facts) and used < there:
        notes.append(f"the run uses {used} of {count_of(int(there), 'accelerator')}; all are paid for")
    return replace(empty, costs=(*alone(facts, empty.rent), *steady(facts, empty.hour_USD)), notes=tuple(notes))


def price(run: object, instance: str, prices: str | Path | None = None, term: str = "") -> Bill:
    """Return what a run costs on an instance, such as 'aws:p4d.24xlarge' or '30x-aws:p4d.24xlarge'.

    ``run``: a result of the library, an answer, its facts, or seconds. ``prices``: a file of your own prices.
    ``term``: 'spot', for example; by default on demand, or reserved where there is no other. The run alone is billed by
    the provider's pieces of time; samples and tokens pay for their time, as in a steady service.
    Raises UsageError for an unknown instance, one without such a price, or one with other accelerators than the run.
    """
    providers = load_providers(None if prices is None else Path(prices))
    found = rented(instance, providers, (term,) if term else RENTED)
    if found is None:
        match = INSTANCE.fullmatch(instance)
        named(match[2] if match else instance, providers)
        raise UsageError(
            f"{instance} has no {term or 'on-demand'} price in its provider's region", "", "one of 'accelsim prices'"
        )
    facts = _facts_of(run)
    chip, other = facts.get("chip"), found[1].instance.chip
    if chip and other and chip != other:
        raise UsageError(f"the run was on {chip}; {instance} has {other}", "", f"an instance with {chip}")
    return bill_of(facts, instance, *found)


def _facts_of(run: object) -> Facts:
    """Facts of whatever ``price`` takes. Raises UsageError for anything else."""
    if isinstance(run, int | float) and not isinstance(run, bool) and 0 <= run < float("inf"):
        return {"total_s": float(run)}
    asked = getattr(run, "to_dict", None) or getattr(run, "as_dict", None)
    facts = asked() if callable(asked) else run
    if not isinstance(facts, Mapping) or not any(key in facts for key, _ in TIMES):
        raise UsageError(f"{brief(repr(run))} has no time", "run", "a result, the answer of a cluster, or seconds")
    return facts


def stand_ins(names: tuple[str, ...], own: Path | None) -> tuple[str, ...]:
    """Return ``standing`` of each name."""
    return tuple(standing(name, own) for name in names)


def billed(answer: Answer, on: str, *others: str, prices: Path | None = None) -> Answer:
    """Return the answer of a run with its bill, if ``on`` is one instance, with a price."""
    if others or not INSTANCE.fullmatch(on.partition("?")[0]) or not isinstance(answer.facts, dict):
        return answer
    found = rented(on, load_providers(prices))
    if found is None:
        return answer
    bill = bill_of(answer.facts, on, *found)
    if not bill.costs:
        return answer
    rows = [{**row, **{each.key: each.usd for each in bill.costs}} for row in answer.rows[:1]]
    return replace(
        answer,
        facts={**answer.facts, "bill": bill.to_dict()},
        shown=[*answer.shown, "", block("bill", bill.lines())],
        rows=[*rows, *answer.rows[1:]],
    )


def alone(facts: Facts, rent: Rent) -> list[Cost]:
    """Return what a whole training costs, or this run alone, billed in the provider's pieces of time."""
    if training := facts.get("training"):
        times = [training[key] for key in ("seconds", "low_s", "high_s") if training[key] is not None]
        return [Cost("training_usd", "whole training", *map(rent.cost_USD, times))]
    found = time_of(facts)
    if found is None:
        return []
    return [Cost("run_usd", "this run alone", *map(rent.cost_USD, (found[0], *(found[1] or ()))))]


def time_of(facts: Facts) -> tuple[float, Ends] | None:
    """Return the time of a run and its interval; None for facts of no run."""
    for key, interval in TIMES:
        if key in facts:
            found = facts.get(interval) or facts.get("intervals", {}).get("total")
            return facts[key], ends(found)
    return None


def ends(interval: Facts | Ends) -> Ends:
    """Return the ends of an interval, from a pair or from a record with ``low_s`` and ``high_s``."""
    return (interval["low_s"], interval["high_s"]) if isinstance(interval, Mapping) else interval


def steady(facts: Facts, hour_USD: float) -> list[Cost]:
    """Return what a thousand samples or a million tokens cost of a machine that does nothing else, at ``hour_USD``."""
    if facts.get("time_to_first_token_s"):
        return _of_tokens(facts, hour_USD)
    found = []
    for key, interval, name, of, cost in RATES:
        if rate := facts.get(key):
            low, high = sorted(cost(hour_USD, end) for end in facts[interval]) if facts.get(interval) else (None, None)
            found.append(Cost(name, of, cost(hour_USD, rate), low, high))
    return found


def _of_tokens(facts: Facts, hour_USD: float) -> list[Cost]:
    """A million tokens in and out; each pays for the time of its own phase, with the interval of that."""
    sequences, new, spans = facts["sequences"], facts["new"], facts.get("intervals", {})
    first = ends(spans.get("first") or facts.get("time_to_first_token_interval_s"))
    step = ends(spans.get("token") or facts.get("token_interval_s")) or (0.0, 0.0)
    times = [(facts["time_to_first_token_s"], facts["decode_s"])]
    times += [] if first is None else [(first[at], step[at] * (new - 1)) for at in (0, 1)]
    tokens = facts["prompt"] * sequences, new * sequences
    costs = [per_million_split_USD(hour_USD, prefill, tokens[0], decode, tokens[1]) for prefill, decode in times]
    return [
        Cost(f"million_tokens_{way}_usd", f"million tokens {way}", *each)
        for way, each in zip(("in", "out"), zip(*costs, strict=True), strict=True)
    ]
