"""Instances by name, ``aws:p4d.24xlarge``, and their prices: those of the user first, then what ships."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from math import inf
from pathlib import Path
from typing import NamedTuple

from accelsim.errors import Problem, SpecError, UsageError, brief, nearest
from accelsim.spec.instance import Instance, Price, Provider
from accelsim.spec.yaml import where
from accelsim.spec.yaml.kept import kept_part

FOLDER = "instances"
INSTANCE = re.compile(r"(?:([1-9][0-9]{0,6})x-)?([a-z0-9-]+:[A-Za-z0-9._-]+)")
"""Name of an instance with a number before it or not: '30x-aws:p4d.24xlarge'."""
RENTED = ("on-demand", "reserved-1y", "reserved-3y")
"""Terms by which a run is billed, the first that an instance has."""
OLD_DAYS = 366
"""A price is old that is so many days older than the newest one."""


class Offer(NamedTuple):
    """A price of an instance."""

    provider: Provider
    name: str
    instance: Instance
    price: Price

    @property
    def full_name(self) -> str:
        """Name behind its provider's: 'aws:p4d.24xlarge'."""
        return f"{self.provider.name}:{self.name}"

    @property
    def region(self) -> str:
        """Region of the price; '' where nobody says."""
        return self.price.region or self.provider.region

    @property
    def accelerators(self) -> float:
        """Accelerators of the instance, a share of one too."""
        return self.instance.count * self.instance.share

    @property
    def each_USD(self) -> float:
        """Price of an hour of one accelerator, USD; of an instance that has some."""
        return self.price.hour_USD / self.accelerators

    @property
    def accelerator(self) -> str:
        """Chip of the instance, the name of an accelerator without a spec, or its processor."""
        return self.instance.chip or self.instance.accelerator or self.instance.processor or ""

    @property
    def day(self) -> date:
        """Day of the price; the first of a month or year."""
        return day_of(self.price.as_of)


def day_of(text: str) -> date:
    """Return the day of YYYY-MM-DD, the first one of YYYY-MM or YYYY."""
    return date(*(*map(int, text.split("-")), 1, 1)[:3])


def load_providers(own: Path | None = None) -> dict[str, Provider]:
    """Return all providers by name; of instances that are in the user's ``own`` file its prices stand alone.

    Raises SpecError with all problems of all files at once.
    """
    problems: list[Problem] = []
    found: dict[str, Provider] = {}
    files: list[str | Path] = [*where.names(FOLDER), *([own] if own else [])]
    chips = where.names("chips")
    for file in files:
        try:
            provider = kept_part(file, FOLDER, Provider)
        except SpecError as error:
            problems += _in_order([*error.problems, *unknown_chips(file)])
            continue
        if any(each.chip and each.chip not in chips for each in provider.instances.values()):
            problems += unknown_chips(file)
        found[provider.name] = _over(provider, found.get(provider.name))
    if problems:
        raise SpecError(problems)
    return found


def _in_order(problems: Sequence[Problem]) -> Sequence[Problem]:
    from accelsim.spec.yaml.load import sorted_problems

    return sorted_problems(list(problems))


def _over(own: Provider, shipped: Provider | None) -> Provider:
    """A provider with what the shipped file says of all that the user's own does not name."""
    if shipped is None:
        return own
    stated = {name: getattr(own, name) for name in own.model_fields_set}
    merged = {name: {**getattr(shipped, name), **getattr(own, name)} for name in ("sources", "instances")}
    return shipped.model_copy(update=stated | merged)


def unknown_chips(file: str | Path) -> list[Problem]:
    """Return a problem for each chip in a file of instances that no spec describes, with its line and the nearest."""
    from accelsim.spec.yaml.marks import read
    from accelsim.spec.yaml.tree import about

    path = where.names(FOLDER).get(str(file), Path(file))
    tree = read(path, Provider)
    listed = tree.value.get("instances") if isinstance(tree.value, dict) else None
    chips, found = where.names("chips"), []
    for name, each in listed.items() if isinstance(listed, dict) else ():
        chip, place = each.get("chip") if isinstance(each, dict) else None, ("instances", name, "chip")
        if isinstance(chip, str) and chip not in chips:
            what = about(place, f"no chip {brief(chip)}")
            found.append(Problem(what, str(tree.at(place)), "a name of 'accelsim chips'", nearest(chip, chips)))
    return found


def offers(providers: Mapping[str, Provider]) -> list[Offer]:
    """Return all prices of all instances, those of a provider in the order of its file."""
    return [
        Offer(provider, name, instance, price)
        for provider in providers.values()
        for name, instance in provider.instances.items()
        for price in instance.prices
    ]


def latest(found: list[Offer]) -> list[Offer]:
    """Return of prices that differ by their day alone (or by the source of the same day) the newest."""
    newest: dict[tuple[str, str, str, str], Offer] = {}
    for each in found:
        key = (
            each.full_name,
            each.price.term,
            each.region,
            each.price.note or "" if each.price.term == "owned" else "",
        )
        if key not in newest or each.day >= newest[key].day:
            newest[key] = each
    return list(newest.values())


def cheapest() -> dict[str, float]:
    """Return the lowest newest price on demand of an hour of each chip, USD; that of an instance is shared evenly."""
    found: dict[str, float] = {}
    for each in latest(offers(load_providers())):
        chip, instance = each.instance.chip, each.instance
        if chip and instance.count and instance.share == 1 and each.price.term == "on-demand":
            found[chip] = min(found.get(chip, inf), each.each_USD)
    return found


def rented(on: str, providers: Mapping[str, Provider], terms: Sequence[str] = RENTED) -> tuple[int, Offer] | None:
    """Return how many instances '30x-aws:p4d.24xlarge' names, and the newest price of one in the provider's region, by
    the first of ``terms`` that it has; None for a name of no instance, or one without such a price."""
    found = INSTANCE.fullmatch(on.partition("?")[0])
    provider_name, _, name = (found[2] if found else "").partition(":")
    provider = providers.get(provider_name)
    if found is None or provider is None or name not in provider.instances:
        return None
    instance = provider.instances[name]
    there = [
        Offer(provider, name, instance, price)
        for price in instance.prices
        if price.term in terms and price.region in ("", provider.region)
    ]
    first = min((terms.index(each.price.term) for each in there), default=0)
    own = [each for each in reversed(there) if each.price.term == terms[first]]
    return (int(found[1] or 1), max(own, key=lambda each: each.day)) if own else None


def named(full_name: str, providers: Mapping[str, Provider]) -> tuple[Provider, Instance]:
    """Return the provider and the instance of 'aws:p4d.24xlarge'. Raises UsageError with the nearest name."""
    provider_name, _, name = full_name.partition(":")
    known = [f"{provider.name}:{each}" for provider in providers.values() for each in provider.instances]
    provider = providers.get(provider_name)
    if provider is None or name not in provider.instances:
        expected = "PROVIDER:INSTANCE, see 'accelsim prices'"
        raise UsageError(f"no instance {brief(full_name)}", "", expected, nearest(full_name, known))
    return provider, provider.instances[name]


def chosen(
    found: list[Offer],
    chips: tuple[str, ...] = (),
    providers: tuple[str, ...] = (),
    terms: tuple[str, ...] = (),
    regions: tuple[str, ...] = (),
) -> list[Offer]:
    """Return the offers of these accelerators, providers, terms and regions; nothing of a kind stands for all of it.

    Raises UsageError with all names that nothing has, and the nearest.
    """
    kinds: dict[str, tuple[tuple[str, ...], Callable[[Offer], str]]] = {
        "--chip": (chips, lambda each: each.accelerator),
        "--provider": (providers, lambda each: each.provider.name),
        "--term": (terms, lambda each: each.price.term),
        "--region": (regions, lambda each: each.region),
    }
    problems = []
    for option, (names, value) in kinds.items():
        known = sorted({value(each) for each in found})
        problems += [
            Problem(f"no price of {brief(name)}", option, "a name of 'accelsim prices'", nearest(name, known))
            for name in names
            if name not in known
        ]
    if problems:
        raise UsageError(problems)
    kept = [each for each in found if all(not names or value(each) in names for names, value in kinds.values())]
    if not kept:
        raise UsageError("no price has all that is asked for", expected="fewer of --chip, --provider, --term, --region")
    return kept


def stands_for(text: str, own: Path | None = None) -> str:
    """Return the chip or cluster that an instance is, for what simulates it; any other name as it is.

    ``own``: a file of the user's instances. Counts may follow, as after a cluster's name: 'aws:p5.48xlarge?devices=4'.
    Raises UsageError for an unknown instance with the nearest, and for one whose inside no spec describes.
    """
    name, _, given = text.partition("?")
    found = INSTANCE.fullmatch(name)
    if found is None:
        return text
    many, instance = int(found[1] or 1), named(found[2], load_providers(own))[1]
    if instance.cluster is not None:
        cluster, _, counts = instance.cluster.partition("?")
        own_counts = dict(each.split("=") for each in counts.split(",") if each) | {"nodes": str(many)}
        rest = [f"{key}={value}" for key, value in own_counts.items() if f"{key}=" not in given]
        return f"{cluster}?{','.join([*rest, *filter(None, given.split(','))])}"
    if instance.chip is None:
        raise UsageError(_bare(found[2], instance), expected="an instance whose accelerator has a spec")
    if given:
        raise UsageError(f"{given} of {name}, which is no cluster", "", f"{name} alone")
    if many > 1 or instance.count != 1 or instance.share != 1:
        what = f"no spec says how the {many * instance.count} accelerators of {text} are joined"
        raise UsageError(what, "", "one with 'cluster:' in hwspecs/instances, or with one whole accelerator")
    return instance.chip


def standing(text: str, own: Path | None) -> str:
    """Return ``stands_for`` where instances may be the user's ``own``; without a file of these the name stays."""
    return text if own is None else stands_for(text, own)


def one_of(text: str, own: Path | None = None) -> str:
    """Return the chip of each accelerator of an instance; any other name as it is. Raises as ``stands_for``."""
    found = INSTANCE.fullmatch(text)
    if found is None:
        return text
    instance = named(found[2], load_providers(own))[1]
    return instance.chip if instance.chip is not None and instance.share == 1 else stands_for(text, own)


def _bare(name: str, instance: Instance) -> str:
    """Say why an instance cannot be simulated."""
    held = instance.accelerator or f"no accelerator, only {instance.processor}"
    return f"{name} has {held}: no spec describes it"
