"""Parts that answers of saved studies share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from accelsim.account.odds import Belief, odds_below
from accelsim.explore.saved.results import Result
from accelsim.report.answer import Answer, Part, Table
from accelsim.report.picture import Picture
from accelsim.report.prices import usd
from accelsim.report.style import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION, YELLOW
from accelsim.report.text import Facts
from accelsim.spec.yaml.instances import Offer

COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILLION, YELLOW, GREY)
SURE = 0.9
"""Probability from which one cost is said to be below another."""


def answer(
    rows: Sequence[Facts],
    table: Table,
    told: Sequence[str],
    draw: Callable[[], Picture | None],
    bare: Sequence[str] = (),
) -> Answer:
    """Return the answer of a study: its results as rows, a table, sentences, a picture.

    ``bare``: chips, instances and clusters that have no price.
    """
    if bare:
        lacks = f"No price by the hour: {', '.join(dict.fromkeys(bare))}."
        told = [*told, f"{lacks} 'accelsim prices' lists all that have one; --prices FILE adds your own."]
    shown: list[Part] = [replace(table, legend="Columns")] if table.records else []
    shown += [part for sentence in told for part in ("", sentence)][0 if shown else 1 :]
    return Answer(
        {"points": list(rows), "sentences": list(told)}, shown, rows, {"study": draw}, ("study.json", "study.csv")
    )


def row(result: Result, **more: object) -> Facts:
    """Return a result as a row, with what else is known of it."""
    return {**result._asdict(), "samples_per_s": result.per_s, **more}


def offered(offer: Offer | None) -> str:
    """Spell an offer: its instance, price of an accelerator, day."""
    return "" if offer is None else f"{offer.full_name}, {usd(offer.each_USD)} USD/h each, {offer.price.as_of}"


def surely(first: Belief | None, second: Belief | None) -> str:
    """End a sentence that says that the first is below the second: with how sure that is."""
    if first is None or second is None:
        return "; how sure that is cannot be said without intervals."
    sure = odds_below(first, second)
    text = "over 99%" if sure > 0.99 else f"{sure:.0%}"
    return f"; {text} sure" + ("." if sure >= SURE else ", so they cannot be told apart.")
