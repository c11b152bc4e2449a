"""Bus or sports car: latency, joules and dollars of a prediction by batch, and which chip is best from where on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle
from typing import NamedTuple

from accelsim.account.odds import Belief
from accelsim.explore.saved import money
from accelsim.explore.saved.results import Result
from accelsim.report.answer import Answer, Field, Table, in_unit
from accelsim.report.picture import Axis, Mark, Panel, Picture, line
from accelsim.report.prices import usd
from accelsim.report.saved.common import COLOURS, answer, offered, row, surely
from accelsim.report.text import Facts
from accelsim.spec.yaml.instances import Offer


class Measure(NamedTuple):
    """Something of a prediction that is to be small: its key, what it is called, how it is spelled."""

    key: str
    title: str
    best: str
    spell: Callable[[float], str]


MEASURES = (
    Measure("seconds", "latency", "fastest", in_unit("s")),
    Measure("sample_J", "energy of a prediction", "least energy", in_unit("J")),
    Measure("million_usd", "cost of a million", "cheapest", lambda value: f"{usd(value)} USD"),
)
PRICED = "million_usd"
FIELDS = (
    Field("on", "chip"),
    Field("dtype", "format"),
    Field("batches", "batches", meaning="the smallest and the largest, 'small' and 'large' in other columns"),
    Field("first_s", "latency, small", in_unit("s"), meaning="time of the whole batch"),
    Field("last_s", "latency, large", in_unit("s")),
    Field("first_J", "energy, small", in_unit("J"), meaning="of one prediction"),
    Field("last_J", "energy, large", in_unit("J")),
    Field("first_usd", "USD/million, small", usd, meaning="a million predictions at the cheapest price, no hour idle"),
    Field("last_usd", "USD/million, large", usd),
)


def bus_or_sports_car(found: Sequence[Result], offers: Sequence[Offer]) -> Answer:
    """Report latency, energy and cost of a prediction by chip and batch."""
    cheap = {each.on: each.now or each.then for each in money.chip_costs(found, offers)}
    rows = [_row(each, cheap.get(each.on)) for each in found]
    told = batch_sentences(found, rows)
    bare = [each["on"] for each in rows if each[PRICED] is None]
    return answer(rows, Table(FIELDS, _ends(rows)), told, partial(_picture, found[0].model, rows), bare)


def _row(result: Result, offer: Offer | None) -> Facts:
    cost = None if offer is None else money.million_USD(result, offer)
    return row(result, sample_J=result.joules / result.batch, million_usd=cost, at=offered(offer))


def _ends(rows: Sequence[Facts]) -> list[Facts]:
    """A line for each chip: its figures at its smallest and its largest batch."""
    made = []
    for name in dict.fromkeys(each["on"] for each in rows):
        own = sorted((each for each in rows if each["on"] == name), key=lambda each: each["batch"])
        ends = {"first": own[0], "last": own[-1]}
        batches = " to ".join(str(batch) for batch in dict.fromkeys(each["batch"] for each in ends.values()))
        short = {"s": "seconds", "J": "sample_J", "usd": PRICED}
        figures = {f"{end}_{unit}": each[key] for end, each in ends.items() for unit, key in short.items()}
        made.append({"on": name, "dtype": own[0]["dtype"], "batches": batches, **figures})
    return made


def batch_sentences(found: Sequence[Result], rows: Sequence[Facts]) -> list[str]:
    """Say which chip is best by batch, how sure that is, what large batches save; without interval none is ranked."""
    sure = {each.on for each in money.ranked(found)}
    own = [each for each in rows if each["on"] in sure]
    told = []
    for measure in MEASURES:
        values = _values(own, measure.key)
        if won := [_won(win, values, measure) for win in money.wins(values)]:
            told.append(f"{measure.best.capitalize()}: {'; '.join(won)}.")
    costs = _values(own, PRICED)
    for batch in sorted({min(at for _, at in costs), max(at for _, at in costs)}) if costs else ():
        order = sorted((each for each in costs if each[1] == batch), key=lambda each: costs[each])
        if len(order) > 1:
            beliefs = [_belief(found, each, costs[each]) for each in order[:2]]
            told.append(
                f"At batch {batch} a prediction costs {costs[order[1]] / costs[order[0]]:.2f} times as much on "
                f"{order[1][0]} as on {order[0][0]}{surely(*beliefs)}"
            )
    saved = {each["on"]: each["first_usd"] / each["last_usd"] for each in _ends(own) if each["first_usd"]}
    if saved:
        most, least = max(saved, key=lambda name: saved[name]), min(saved, key=lambda name: saved[name])
        and_least = f", {saved[least]:.3g} times on {least}" if len(saved) > 1 else ""
        told.append(
            f"From the smallest to the largest batch a prediction gets {saved[most]:.3g} times cheaper on {most}"
            f"{and_least}."
        )
    if bare := [each for each in dict.fromkeys(each.on for each in found) if each not in sure]:
        told.append(f"Drawn but not ranked, since their times have no interval: {', '.join(bare)}.")
    return told


def _values(rows: Sequence[Facts], key: str) -> dict[tuple[str, int], float]:
    return {(each["on"], each["batch"]): each[key] for each in rows if each[key] is not None}


def _won(win: money.Win, values: dict[tuple[str, int], float], measure: Measure) -> str:
    ends = " to ".join(measure.spell(values[win.chip, at]) for at in dict.fromkeys((win.first, win.last)))
    batches = f"batch {win.first}" + (f" to {win.last}" if win.last > win.first else "")
    return f"{win.chip} at {batches} ({ends})"


def _belief(found: Sequence[Result], which: tuple[str, int], cost: float) -> Belief | None:
    result = next(each for each in found if (each.on, each.batch) == which)
    return money.belief(result, cost / result.seconds)


def _picture(model: str, rows: Sequence[Facts]) -> Picture:
    """One panel for each measure over the batch, a line for each chip."""
    names = list(dict.fromkeys(each["on"] for each in rows))
    batches = sorted({each["batch"] for each in rows})
    x = Axis("batch", scale="log", names={batch: str(batch) for batch in batches})
    panels = []
    for measure in MEASURES:
        marks: list[Mark] = []
        for name, colour in zip(names, cycle(COLOURS), strict=False):
            own = [each for each in rows if each["on"] == name and each[measure.key] is not None]
            places, values = [each["batch"] for each in own], [each[measure.key] for each in own]
            marks += [line(places, values, name, colour, marker="o", markersize=3)] if own else []
        if marks:
            panels.append(Panel("", marks, x, Axis(measure.title, scale="log", text=measure.spell), grid="both"))
    title = f"{model}: one at a time or many together"
    return Picture(2 + 2 * len(panels), panels, title, legend=7, share="x")
