"""The page of a service of items: each request over time, batches, parts in use, latencies, rates, what would help."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

import numpy as np

from accelsim.account.price import per_thousand_USD
from accelsim.errors import UsageError
from accelsim.files import Make, records, text
from accelsim.report.answer import Answer
from accelsim.report.capacity import RATES, knees, latencies
from accelsim.report.page.data import FORMAT, VERSION, packed, section
from accelsim.report.page.document import Entry, html
from accelsim.report.page.form import Page, Section
from accelsim.report.page.pictures import Drawn
from accelsim.report.picture import Axis, Panel, Picture, line, points, stacked
from accelsim.report.prices import usd
from accelsim.report.service_items import distributions, hour_of_items, remarks, summary, title
from accelsim.report.service_page import (
    CLOSE,
    FILES,
    KEPT,
    KNEE,
    LATENCIES,
    PAGE,
    REQUESTS,
    WHOLE,
    Stage,
    latency_section,
)
from accelsim.report.service_timeline import left_out, lines_of, shown_of, timeline
from accelsim.report.style import BLUE, GREEN, GREY, ORANGE, SKY, VERMILLION, Look
from accelsim.report.text import Facts, percent, si, signed
from accelsim.serving.capacity import Capacity, Probe, search
from accelsim.serving.history import Span
from accelsim.serving.items.asked import Served
from accelsim.serving.items.flow import Flow
from accelsim.serving.items.history import AFTER, BEFORE, WAITS, means, spans
from accelsim.serving.items.levers import levers
from accelsim.serving.items.line import Item
from accelsim.serving.items.measures import probe, within
from accelsim.serving.levers import Lever
from accelsim.version import tool_version

LOOKS = {
    "waiting": Look(VERMILLION, "////"), "CPU before": Look(SKY), "transfer": Look(GREY), "chip": Look(ORANGE),
    "CPU after": Look(BLUE),
}  # fmt: skip
"""Kinds of spans, in their order."""
TIMELINE = (
    "One bar for each request, from its arrival until it left; rows are places, free again when a request is done. Of "
    "a request with several items the last one is drawn."
)
TIME = "Items that wait, sizes of batches as they begin, how busy cores and chips are, and what all chips draw."
RATE = f"{KNEE} Below: USD for a thousand answers, idle time included."
COLUMN = {
    "arrival": "arrival_s", "items": "items", "waiting": "waiting_s", "CPU before": "CPU before_s",
    "transfer": "transfer_s", "chip": "chip_s", "CPU after": "CPU after_s", "end to end": "e2e_s",
}  # fmt: skip
"""Heading of the table of requests -> key of a record."""
RANKS = (2, 1, 0, 1, 2, 0, 1, 0)
TERMS = (
    ("arrival", "since the first second of the simulation"),
    ("waiting", "for a core, for other items of a batch, for a free instance, for the link or the chip"),
    ("end to end", "from the arrival until the answer, or until the request was lost"),
)
"""Column of the table of requests -> what it means."""
BINDS = {
    "chips": "The number of chips", "cores": "The CPU", "chip": "The chip", "link": "The link to the host",
    "batches": "The largest batch", "delay": "Waiting for larger batches", "instances": "The number of instances",
}  # fmt: skip
"""Limits of a service -> each as the subject of a sentence."""
LEAST, SLOWEST, PARTS = 0.01, 0.99, 240


class Outcome(NamedTuple):
    """Figures of a service: mean and p99 of the time from end to end, s (inf without an answer); answers a second;
    share of the requests within the limit."""

    e2e_s: float
    p99_s: float
    per_s: float
    within: float


def page_files(
    found: Served, answer: Answer, limits: Mapping[str, float], advice: bool, stage: Stage
) -> dict[str, Make]:
    """Return the page, and the requests beside it. ``answer``: that of the service; ``advice``: simulate changes and
    other rates."""
    every = spans(found.flow)
    data = _data(found, answer, limits, every, advice, stage)
    rows = [_record(at, each, own) for at, (each, own) in enumerate(zip(found.flow.requests, every, strict=True))]
    return {PAGE: text(html([Entry(data, packed(data))])), REQUESTS: records(rows)}


def _data(
    found: Served, answer: Answer, limits: Mapping[str, float], every: Sequence[Sequence[Span]], advice: bool,
    stage: Stage,
) -> Page:  # fmt: skip
    facts: Any = answer.facts
    told, first, more = [*facts["sentences"]], [latency_section(answer, "batches")], list[Drawn]()
    if advice:
        stage("what would help", 0.0)
        base = outcome(found.flow, limits)
        tried = [(each, outcome(each.make(), limits)) for each in levers(found.asked)]
        told += helps(base, tried)
        first.insert(0, _table(base, tried, limits))
        if not found.asked.load.clients:
            stage("other rates", 0.0)
            more, knee = _rates(found, limits)
            told += knee
    shown, lanes = shown_of([(each.arrival.arrival_s, each.end_s) for each in found.flow.requests])
    drawn = timeline(every, shown, lanes, [*LOOKS.values()], [*LOOKS])
    pictures = [
        Drawn("whole", "", WHOLE, _whole(found.flow, every)),
        Drawn("requests", "Requests", f"{TIMELINE} {left_out(len(every), shown)}".strip(), drawn),
        Drawn("service", "Over time", TIME, over_time(found, every)),
        Drawn("latencies", "Latencies", LATENCIES, distributions(found, limits)),
        *more,
    ]
    rows = [_record(at, found.flow.requests[at], every[at]) for at in shown]
    cells = [[str(row["number"] + 1), *(_cell(key, row[key]) for key in COLUMN.values())] for row in rows]
    table = lines_of(shown, COLUMN, RANKS, cells, [[row["number"], *(row[k] for k in COLUMN.values())] for row in rows])
    lines = [
        [f"{row['items']:,} of its items", row["lost"] or f"answered after {si(row['e2e_s'], 's')}"] for row in rows
    ]
    return {
        "format": FORMAT, "version": VERSION, "tool_version": tool_version(), "title": title(found),
        "none": "no request", "sentences": told, "first": first, "layers": table, "lines_last": True,
        "lines": {"names": table["names"], "told": lines},
        "table": {"title": "Requests of the timeline", "file": REQUESTS, "terms": TERMS},
        "pictures": [each.data() for each in pictures],
        "files": [each for each in FILES if each[0] != "latencies.svg"],
        "last": [
            section("Summary", ("", ""), [(name, str(value)) for name, value in summary(found, facts)]),
            section("Notes", (), (), before=remarks(found)),
        ],
        "notes": [], "plots": [],
    }  # fmt: skip


def _record(at: int, item: Item, own: Sequence[Span]) -> Facts:
    """Return a request for CSV."""
    parts = {f"{name}_s": sum(s.end_s - s.start_s for s in own if s.kind == kind) for kind, name in enumerate(LOOKS)}
    arrival = item.arrival
    return {
        "number": at, "arrival_s": arrival.arrival_s, "class": arrival.rank, "items": arrival.items, **parts,
        "e2e_s": item.e2e_s, "lost": item.lost,
    }  # fmt: skip


def _cell(key: str, value: float) -> str:
    return si(value, "s") if key.endswith("_s") else f"{value:,}"


def outcome(flow: Flow, limits: Mapping[str, float]) -> Outcome:
    """Return the figures of a service by which changes are compared."""
    times = np.array([each.e2e_s for each in flow.answered] or [inf])
    kept = within(flow, limits["e2e"]) if limits else 1.0
    return Outcome(float(times.mean()), float(np.quantile(times, 0.99)), len(flow.answered) / flow.span_s, kept)


def helps(base: Outcome, tried: Sequence[tuple[Lever[Flow], Outcome]]) -> Iterator[str]:
    """Say what binds a service and what would help most. ``base``: its figures without a change."""
    saved = {lever.binds: 1 - each.e2e_s / base.e2e_s for lever, each in tried}
    order = sorted(tried, key=lambda each: -saved[each[0].binds])
    best, after = order[0]
    if not saved[best.binds] >= LEAST:
        yield f"Nothing that was tried makes requests {LEAST:.0%} faster: no single part binds."
        return
    yield f"{BINDS[best.binds]} binds: with {best.change}, requests take {percent(saved[best.binds])} less time."
    others = [
        f"{lever.change} {percent(saved[lever.binds]) if saved[lever.binds] >= LEAST else f'less than {LEAST:.0%}'}"
        for lever, _ in order[1:]
    ]
    yield f"Other changes would save less: {', '.join(others)}."
    yield (
        f"What would help most: {best.change}. Then 99 of 100 answers come within {si(after.p99_s, 's')} in place of "
        f"{si(base.p99_s, 's')}."
    )


def _table(base: Outcome, tried: Sequence[tuple[Lever[Flow], Outcome]], limits: Mapping[str, float]) -> Section:
    """Return every change that was tried, with what it gave and how to repeat it."""

    def cells(found: Outcome) -> list[str]:
        own = [si(found.e2e_s, "s"), signed(found.e2e_s / base.e2e_s - 1), si(found.p99_s, "s"), si(found.per_s)]
        return own + ([percent(found.within)] if limits else [])

    rows = [("as it is", *cells(base), ""), *((e.change, *cells(each), " ".join(e.options)) for e, each in tried)]
    heads = [
        "change",
        "end to end",
        "difference",
        "p99",
        "answers/s",
        *(["within limits"] if limits else []),
        "options",
    ]
    note = "Each change was simulated on its own, with the same requests; the options repeat it."
    return section("What would help", heads, rows, range(1, len(heads) - 1), behind=[note])


def _whole(flow: Flow, every: Sequence[Sequence[Span]]) -> Picture:
    """Draw what requests spend their time with: all, and the slowest."""
    total = np.array([each.e2e_s for each in flow.requests])
    slow = total >= np.quantile(total, SLOWEST)
    times = np.array(
        [[sum(s.end_s - s.start_s for s in own if s.kind == k) for k in range(len(LOOKS))] for own in every]
    )
    rows = {"all requests": times.mean(0), f"slowest {1 - SLOWEST:.0%}": times[slow].mean(0)}
    series = {name: [row[at] for row in rows.values()] for at, name in enumerate(LOOKS)}
    marks = stacked(range(len(rows)), series, LOOKS, {}, flat=True)
    return Picture(2.0, [Panel("", marks, Axis("time", "s", low=0), Axis(names=[*rows]))], legend=5)


def over_time(found: Served, every: Sequence[Sequence[Span]]) -> Picture:
    """Draw requests that wait, sizes of batches, use of cores and chips, and power, as means over parts of the time."""
    asked, flow = found.asked, found.flow
    edges = np.linspace(0.0, flow.span_s, PARTS + 1)
    middles = (edges[1:] + edges[:-1]) / 2

    def going_on(*kinds: int) -> Any:
        own = np.array([(s.start_s, s.end_s) for each in every for s in each if s.kind in kinds]).reshape(-1, 2)
        return means(own[:, 0], own[:, 1], edges)

    begun, ended, size, joules, computed = (
        np.array(
            [(b.start_s, b.end_s, b.size, b.cost.joules, b.cost.seconds - b.cost.transfer_s) for b in flow.batches]
        )
        .reshape(-1, 5)
        .T
    )
    lasts = np.maximum(ended - begun, 1e-30)
    watts = asked.question.replicas * asked.times.static_W + means(begun, ended, edges, joules / lasts)
    cores = 100 * going_on(BEFORE, AFTER) / asked.question.cores
    chips = 100 * means(ended - computed, ended, edges) / asked.question.replicas
    seconds = Axis("time", "s")
    panels = [
        Panel("Waiting", [line(middles, going_on(WAITS), "", VERMILLION)], seconds, Axis("requests", low=0)),
        Panel("Batches", [points(begun, size, "", ORANGE, markersize=2)], seconds, Axis("size", low=0)),
        Panel("In use", [line(middles, cores, "cores", BLUE), line(middles, chips, "chips", ORANGE)], seconds,
              Axis("% in use", low=0, high=100)),
        Panel("Power of all chips", [line(middles, watts, "", GREEN)], seconds, Axis("power", "W", low=0)),
    ]  # fmt: skip
    return Picture(8.0, panels, title(found), share="x", legend=2)


def _rates(found: Served, limits: Mapping[str, float]) -> tuple[list[Drawn], list[str]]:
    """Simulate other rates; return the picture of latencies and costs, and a sentence about the knee."""
    asked, shown = found.asked, {"e2e": inf} | dict(limits)
    at: Callable[[float], Probe] = lambda rate: probe(asked, shown, rate)  # noqa: E731
    try:
        knee = search(at, KEPT, min(asked.bounds.rate, asked.load.rate), close=CLOSE)
    except UsageError:
        return [], [f"{len(found.flow.requests):,} requests are too few to find the highest rate."]
    panels = latencies(knee, shown, "knee")
    rates, hour = [each.rate for each in knee.probes if each.steady], hour_of_items(found)
    if hour is not None and rates:
        answers = len(found.flow.requests) / len(found.flow.items)
        costs = [per_thousand_USD(hour.each_USD * asked.question.replicas, rate * answers) for rate in rates]
        marks = [line(rates, costs, "", GREEN, marker="o", markersize=3), *knees(knee, "knee")]
        panels.append(Panel("", marks, RATES, Axis("USD", scale="log", text=usd), grid="both"))
    return [Drawn("rates", "Other rates", RATE, Picture(2.6 * len(panels), panels, share="x"))], [
        _knee(found, knee, limits)
    ]


def _knee(found: Served, knee: Capacity, limits: Mapping[str, float]) -> str:
    kept = f"{KEPT:.0%} of the requests keep the limit" if limits else "the service has a steady state"
    if knee.below is None:
        return f"At no rate {kept}."
    times = knee.below.rate / found.asked.load.rate
    come = "items" if len(found.flow.items) > len(found.flow.requests) else "requests"
    return f"Up to {si(knee.below.rate)} {come} a second {kept}, {si(times)} times as many as now."
