"""Prices of points: figures that follow from today's prices whenever a store is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

from accelsim.account.area import chip_cost_USD
from accelsim.account.price import per_thousand_USD
from accelsim.explore.sweep.kinds import Facts
from accelsim.explore.sweep.store import Member
from accelsim.spec.yaml.instances import INSTANCE, load_providers, rented


def pricing(own: Path | None = None) -> Callable[[Member], Member]:
    """Return what adds the figures that follow from today's prices, which the store does not keep: of chips whose area
    is known, and of points on an instance whose price is known (see ``instances.rented``)."""
    providers = load_providers(own) if own else None

    @cache
    def hour_USD(on: str) -> float | None:
        nonlocal providers
        if INSTANCE.fullmatch(on) is None:
            return None
        providers = providers or load_providers()
        found = rented(on, providers)
        return None if found is None else found[0] * found[1].price.hour_USD

    def priced(member: Member) -> Member:
        found = member.outcome
        if found is None or not found.facts:
            return member
        facts = found.facts | _prices(found.facts, hour_USD(member.point.on))
        return member._replace(outcome=replace(found, facts=facts))

    return priced


def _prices(facts: Facts, hour_USD: float | None) -> Facts:
    """Return the prices of a point's chip and, if an hour of its instance has one, of that and of 1,000 samples."""
    found: Facts = {}
    area_m2, nm, per_s = (facts.get(key) for key in ("area_m2", "node_nm", "throughput_per_s"))
    if isinstance(area_m2, float | int) and isinstance(nm, float | int):
        found["chip_cost_USD"] = chip_cost_USD(area_m2, nm)
    if hour_USD is not None:
        cost = per_thousand_USD(hour_USD, per_s) if isinstance(per_s, float | int) and per_s else None
        found |= {"hour_USD": hour_USD, "thousand_samples_USD": cost}
    return found
