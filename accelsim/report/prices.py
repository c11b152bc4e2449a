"""Answer about prices: what an hour of an accelerator costs, at whom, since when, and what has no price."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from functools import partial
from math import floor, log10
from typing import Any

from accelsim.report.answer import Answer, Field, Record, Table, notes
from accelsim.report.picture import Axis, Mark, Panel, Picture, points
from accelsim.report.style import BLUE, GREEN, ORANGE, PURPLE
from accelsim.spec.yaml.instances import OLD_DAYS, Offer

TERMS = {"on-demand": BLUE, "spot": GREEN, "reserved-1y": PURPLE, "reserved-3y": PURPLE, "owned": ORANGE}
"""Terms and the colours of their marks."""
BOUND = ("spot", "reserved-1y", "reserved-3y")
"""Terms that a provider may have beside on-demand."""


def usd(value: float | None) -> str:
    """Spell a price: '32.77', '0.085', '0.0000573', '4,719,254'; a dash for none."""
    if value is None:
        return "-"
    if value >= 1000:
        return f"{value:,.0f}"
    digits = 2 if value >= 1 else 2 - floor(log10(value))
    return f"{value:,.{digits}f}" if value >= 1 else f"{value:.{digits}f}".rstrip("0")


def _holds(row: Record) -> str:
    if not row["accelerators"]:
        return f"no accelerator ({row['accelerator']})"
    share = row["accelerators"]
    number = f"{share:g} of a" if share < 1 else f"{share:g} x"
    return f"{number} {row['accelerator']}"


def _day(row: Record) -> str:
    return f"{row['as_of']} (old)" if row["old"] else str(row["as_of"])


OFFERS = (
    Field("instance", "instance"),
    Field("accelerators", "holds", _holds, True),
    Field("usd_per_hour", "USD/h", usd),
    Field("usd_per_accelerator_hour", "each", usd, meaning="USD per accelerator and hour"),
    Field("term", "term"),
    Field("region", "region", lambda value: value or "-"),
    Field("as_of", "as of", _day, True),
    Field("confidence", "trust", meaning="high: the provider's own list; medium: read elsewhere; low: recalled"),
)
CHIPS = (
    Field("accelerator", "accelerator"),
    Field("offers", "offers", "{:,}".format),
    Field("low_usd", "from", usd, meaning="lowest price of an accelerator, USD/h, on demand, and at whom"),
    Field("cheapest", " "),
    Field("high_usd", "to", usd, meaning="highest one"),
    Field("dearest", "  "),
    Field("spot_usd", "spot", usd, meaning="lowest price of time that the provider may take back"),
    Field("spec", "spec", lambda has: "yes" if has else "none", meaning="none: it cannot be simulated yet"),
)


def _record(offer: Offer, newest: date) -> dict[str, Any]:
    """One price for JSON."""
    source = offer.provider.sources[offer.price.source]
    return {
        "instance": offer.full_name,
        "accelerator": offer.accelerator,
        "accelerators": offer.accelerators,
        "chip": offer.instance.chip,
        "usd_per_hour": offer.price.hour_USD,
        "usd_per_accelerator_hour": offer.each_USD if offer.accelerators else None,
        "term": offer.price.term,
        "region": offer.region,
        "as_of": offer.price.as_of,
        "old": (newest - offer.day).days > OLD_DAYS,
        "confidence": source.confidence,
        "source": source.text,
        "note": offer.price.note or "",
        "vcpus": offer.instance.vcpus,
        "memory_B": offer.instance.memory,
        "network_Bps": offer.instance.network,
        "cluster": offer.instance.cluster,
    }


def prices(found: Sequence[Offer], everything: Sequence[Offer], one_by_one: bool) -> Answer:
    """Report prices: one by one, or by accelerator. ``everything``: all prices there are, which say what is old."""
    newest = max(each.day for each in everything)
    rows = [_record(each, newest) for each in found]
    shown = (
        [Table(OFFERS, rows, legend="Prices")] if one_by_one else [Table(CHIPS, _by_accelerator(rows), legend="Prices")]
    )
    told = [*_sentences(rows), *_missing(rows)]
    facts = {"newest": newest.isoformat(), "offers": rows, "notes": told}
    return Answer(facts, [*shown, *notes(told)], rows, {"prices": partial(_picture, rows)})


def _by_accelerator(rows: Sequence[Record]) -> list[dict[str, Any]]:
    """A row for each accelerator, that with most offers first; processors without one are left out."""
    groups: dict[str, list[Record]] = {}
    for row in rows:
        if row["accelerators"] and row["term"] != "owned":
            groups.setdefault(row["accelerator"], []).append(row)
    return [_group(name, groups[name]) for name in sorted(groups, key=lambda name: (-len(groups[name]), name))]


def _each(row: Record) -> float:
    return float(row["usd_per_accelerator_hour"])


def _provider(row: Record) -> str:
    return str(row["instance"]).partition(":")[0]


def _group(name: str, rows: Sequence[Record]) -> dict[str, Any]:
    demand = [row for row in rows if row["term"] == "on-demand"]
    low, high = (chosen(demand, key=_each) if demand else None for chosen in (min, max))
    return {
        "accelerator": name,
        "offers": len(rows),
        "cheapest": _provider(low) if low else "",
        "low_usd": low and _each(low),
        "dearest": _provider(high) if high else "",
        "high_usd": high and _each(high),
        "spot_usd": min((_each(row) for row in rows if row["term"] == "spot"), default=None),
        "spec": rows[0]["chip"] is not None,
    }


def _sentences(rows: Sequence[Record]) -> list[str]:
    """The cheapest and the dearest of one accelerator; how many prices are old."""
    told = []
    names = {row["accelerator"] for row in rows if row["accelerators"]}
    demand = [row for row in rows if row["term"] == "on-demand" and row["accelerators"]]
    if len(names) == 1 and len(demand) > 1:
        low, high = min(demand, key=_each), max(demand, key=_each)
        more = f" and {_each(high) / _each(low):.3g} times as much at {high['instance']}"
        dearer = more if _each(high) > _each(low) else ""
        told.append(f"On demand, an accelerator costs {usd(_each(low))} USD/h at {low['instance']}{dearer}.")
    if old := sum(row["old"] for row in rows):
        told.append(f"Over a year older than the newest price, and marked as old: {old:,} of {len(rows):,}.")
    return told


def _missing(rows: Sequence[Record]) -> list[str]:
    """Providers without a price for a term, and accelerators without a spec."""
    told = []
    terms: dict[str, set[str]] = {}
    for row in rows:
        terms.setdefault(_provider(row), set()).add(row["term"])
    for term in BOUND:
        if lacking := [name for name, own in terms.items() if not own & {term, "owned"}]:
            told.append(f"No {term} price: {', '.join(lacking)}.")
    if bare := sorted({row["accelerator"] for row in rows if row["accelerators"] and not row["chip"]}):
        told.append(f"No spec, so nothing to simulate: {', '.join(bare)}.")
    return told


def _picture(rows: Sequence[Record]) -> Picture | None:
    """Prices of an accelerator and hour by accelerator, the cheapest first; one mark for each offer."""
    rented = [row for row in rows if row["accelerators"]]
    if not rented:
        return None
    lowest: dict[str, float] = {}
    for row in rented:
        lowest[row["accelerator"]] = min(_each(row), lowest.get(row["accelerator"], _each(row)))
    order = sorted(lowest, key=lambda name: (lowest[name], name))
    marks: list[Mark] = []
    for term, color in TERMS.items():
        own = [row for row in rented if row["term"] == term]
        if own:
            places = [float(order.index(row["accelerator"])) for row in own]
            marks.append(
                points(
                    [_each(row) for row in own], places, term, color, "o" if term == "on-demand" else "D", markersize=4
                )
            )
    title = "What an hour of an accelerator costs"
    panel = Panel(
        title, marks, Axis("USD per accelerator and hour", scale="log"), Axis(names=order), grid="x", legend=5
    )
    return Picture(1.2 + 0.19 * len(order), [panel])
