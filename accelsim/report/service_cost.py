"""Dollars and joules per million tokens of a service, at the price of an hour of its chips."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from accelsim.account.price import per_million_split_USD
from accelsim.report.prices import usd
from accelsim.report.text import Facts, si
from accelsim.serving.asked import Served
from accelsim.serving.history import shares
from accelsim.serving.replicas import Group
from accelsim.serving.service import Service
from accelsim.spec.yaml.instances import Offer, latest, load_providers, offers

MILLION = 1e6


class Spent(NamedTuple):
    """Cost of a million tokens in (of prompts) and out (new ones): joules, and USD where the chip has a price."""

    in_J: float
    out_J: float
    in_USD: float | None = None
    out_USD: float | None = None


@cache
def rents(chip: str) -> tuple[Offer, Offer] | None:
    """Return the cheapest and the dearest offer of an hour of a chip on demand; None for a chip without one."""
    every = [each for each in offers(load_providers()) if each.instance.chip == chip and each.accelerators >= 1]
    found = sorted((e for e in latest(every) if e.price.term == "on-demand"), key=lambda each: each.each_USD)
    return (found[0], found[-1]) if found else None


def chip_of(found: Served) -> str:
    """Return the name of the chips of a service."""
    return found.devices.fleet.chips[0].name


def spent(chip: str, groups: Sequence[Group], service: Service) -> Spent:
    """Return what a million tokens of a service on replicas take, at the cheapest price of a ``chip``."""
    parts, rent = shares(groups, service), rents(chip)
    tokens_in = sum(each.request.prompt for each in service.sequences)
    tokens_out = sum(each.request.output for each in service.sequences)
    joules = MILLION * parts.prompts_J / tokens_in, MILLION * parts.tokens_J / tokens_out
    if rent is None:
        return Spent(*joules)
    cost = per_million_split_USD(rent[0].each_USD, parts.prompts_s, tokens_in, parts.tokens_s, tokens_out)
    return Spent(*joules, *cost)


def facts(found: Served) -> Facts:
    """Return joules and dollars for JSON."""
    rent, cost = rents(chip_of(found)), spent(chip_of(found), found.groups, found.service)
    return {
        "million_tokens_in_J": cost.in_J, "million_tokens_out_J": cost.out_J,
        "million_tokens_in_usd": cost.in_USD, "million_tokens_out_usd": cost.out_USD,
        "usd_per_device_hour": rent and rent[0].each_USD, "price_of": rent and rent[0].full_name,
        "price_as_of": rent and rent[0].price.as_of, "highest_usd_per_device_hour": rent and rent[1].each_USD,
    }  # fmt: skip


def rows(chip: str, figures: Facts) -> list[tuple[str, object]]:
    """Return names and values for the summary. ``figures``: with those of ``facts``."""
    joules = [si(figures[f"million_tokens_{way}_J"], "J") for way in ("in", "out")]
    found: list[tuple[str, object]] = [("a million tokens", f"{joules[0]} in, {joules[1]} out, idle time included")]
    if figures["price_of"] is None:
        return [*found, ("", f"no price of an hour of {chip}")]
    costs = [usd(figures[f"million_tokens_{way}_usd"]) for way in ("in", "out")]
    low, high = usd(figures["usd_per_device_hour"]), usd(figures["highest_usd_per_device_hour"])
    most = f", up to {high} elsewhere" if high != low else ""
    price = f"{low} USD/h a device at {figures['price_of']}, {figures['price_as_of']}{most}"
    return [*found, ("", f"{costs[0]} USD in, {costs[1]} USD out ({price})")]
