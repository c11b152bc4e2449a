"""Dollars and joules per million tokens of a service, at the price of an hour of its chips."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from math import ceil
from pathlib import Path
from typing import NamedTuple

from accelsim.account.price import per_million_split_USD
from accelsim.errors import count_of
from accelsim.report.prices import usd
from accelsim.report.text import Facts, si
from accelsim.serving.asked import Served
from accelsim.serving.history import shares
from accelsim.serving.replicas import Group
from accelsim.serving.service import Service
from accelsim.spec.instance import Provider
from accelsim.spec.yaml.instances import FOLDER, INSTANCE, Offer, latest, load_providers, offers, rented
from accelsim.spec.yaml.kept import kept_part

MILLION = 1e6


class Spent(NamedTuple):
    """Cost of a million tokens in (of prompts) and out (new ones): joules, and USD where the chip has a price."""

    in_J: float
    out_J: float
    in_USD: float | None = None
    out_USD: float | None = None


class Hour(NamedTuple):
    """Price of an hour of an accelerator of a service, USD. ``paid``: what is paid, in words; ``instances``: how many
    are paid for, None where any with such a chip will do; ``most_USD``: the dearest price elsewhere."""

    each_USD: float
    name: str
    as_of: str
    paid: str
    instances: int | None = None
    most_USD: float | None = None


@cache
def rents(chip: str, own: Path | None = None) -> tuple[Offer, Offer] | None:
    """Return the cheapest and the dearest offer of an hour of a chip: those in a file of the user's ``own``, else all
    on demand; None for a chip without one."""
    stated = kept_part(own, FOLDER, Provider) if own else None
    every = [each for each in offers(load_providers(own)) if each.instance.chip == chip and each.accelerators >= 1]
    mine = [e for e in every if stated and e.provider.name == stated.name and e.name in stated.instances]
    found = mine or [each for each in latest(every) if each.price.term == "on-demand"]
    found.sort(key=lambda each: each.each_USD)
    return (found[0], found[-1]) if found else None


def hour_of(on: str, chip: str, replicas: Sequence[tuple[int, int]], own: Path | None = None) -> Hour | None:
    """Return the price of an hour of each device of a service on ``on``; ``replicas``: how many there are of so many
    devices. An instance is paid for as a whole, and no replica is on two that one has room for; of a chip or cluster
    the cheapest offer counts. None without a price."""
    if not INSTANCE.fullmatch(on.partition("?")[0]):
        found = rents(chip, own)
        return found and Hour(found[0].each_USD, found[0].full_name, found[0].price.as_of,
                              f"{usd(found[0].each_USD)} USD/h a device at {found[0].full_name}",
                              most_USD=found[1].each_USD)  # fmt: skip
    rented_there = rented(on, load_providers(own))
    if rented_there is None:
        return None
    offer, used = rented_there[1], sum(count * devices for count, devices in replicas)
    inside = int(offer.accelerators) or 1
    many = ceil(sum(count / Fraction(inside // n or Fraction(1, -(-n // inside))) for count, n in replicas))
    term = offer.price.term.replace("on-demand", "on demand")
    each = "" if many == 1 else f"each of {many:,} x "
    paid = f"{usd(offer.price.hour_USD)} USD/h {term} for {each}{offer.full_name}"
    idle = many * inside - used
    paid += f", {count_of(idle, 'idle accelerator')} included" if idle else ""
    return Hour(offer.price.hour_USD * many / used, offer.full_name, offer.price.as_of, paid, many)


def hour_of_service(found: Served) -> Hour | None:
    """Return the price of an hour of each device of a service of a language model."""
    replicas = [(each.count, each.times.plan.devices) for each in found.groups]
    return hour_of(found.question.on, chip_of(found), replicas, found.question.prices)


def chip_of(found: Served) -> str:
    """Return the name of the chips of a service."""
    return found.devices.fleet.chips[0].name


def spent(hour: Hour | None, groups: Sequence[Group], service: Service) -> Spent:
    """Return what a million tokens of a service on replicas take, at the price of an ``hour`` of each device."""
    parts = shares(groups, service)
    tokens_in, tokens_out = (int(service.done[name].sum()) for name in ("prompt", "output"))
    joules = MILLION * parts.prompts_J / tokens_in, MILLION * parts.tokens_J / tokens_out
    if hour is None:
        return Spent(*joules)
    cost = per_million_split_USD(hour.each_USD, parts.prompts_s, tokens_in, parts.tokens_s, tokens_out)
    return Spent(*joules, *cost)


def facts(found: Served) -> Facts:
    """Return joules and dollars for JSON."""
    hour = hour_of_service(found)
    cost = spent(hour, found.groups, found.service)
    return {
        "million_tokens_in_J": cost.in_J, "million_tokens_out_J": cost.out_J,
        "million_tokens_in_usd": cost.in_USD, "million_tokens_out_usd": cost.out_USD, **hour_facts(hour),
    }  # fmt: skip


def hour_facts(hour: Hour | None) -> Facts:
    """Return a price for JSON."""
    return {
        "usd_per_device_hour": hour and hour.each_USD, "price_of": hour and hour.name,
        "price_as_of": hour and hour.as_of, "instances": hour and hour.instances,
        "highest_usd_per_device_hour": hour and hour.most_USD,
    }  # fmt: skip


def rows(found: Served, figures: Facts) -> list[tuple[str, object]]:
    """Return names and values for the summary. ``figures``: with those of ``facts``."""
    joules = [si(figures[f"million_tokens_{way}_J"], "J") for way in ("in", "out")]
    energy = ("a million tokens", f"{joules[0]} in, {joules[1]} out, idle time included")
    costs = [figures[f"million_tokens_{way}_usd"] for way in ("in", "out")]
    hour = hour_of_service(found)
    if hour is None:
        return [energy, ("", no_price(found.question.on, chip_of(found)))]
    return [energy, ("", f"{usd(costs[0])} USD in, {usd(costs[1])} USD out ({price_text(hour)})")]


def no_price(on: str, chip: str) -> str:
    """Say that an instance, or a chip, has no price."""
    return f"no price of an hour of {on if ':' in on else chip}"


def price_text(hour: Hour) -> str:
    """Return a price in words."""
    most = hour.most_USD if hour.most_USD is not None and usd(hour.most_USD) != usd(hour.each_USD) else None
    return f"{hour.paid}, {hour.as_of}{f', up to {usd(most)} elsewhere' if most is not None else ''}"
