"""The page of a service: each request over time, batches, power, latencies, rates, what binds and what would help."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any

from accelsim.errors import UsageError
from accelsim.files import Make, records, text
from accelsim.report import service_helps as helps
from accelsim.report.answer import Answer
from accelsim.report.capacity import RATES, knees, latencies
from accelsim.report.page.data import FORMAT, VERSION, packed, section
from accelsim.report.page.document import Entry, html
from accelsim.report.page.form import Page, Section, Table
from accelsim.report.page.pictures import Drawn
from accelsim.report.picture import Axis, Panel, Picture, line, stacked
from accelsim.report.prices import usd
from accelsim.report.service import COLUMNS, distributions, over_time, remarks, summary, title
from accelsim.report.service_cost import hour_of_service, spent
from accelsim.report.service_timeline import left_out, lines_of, shown_of, timeline
from accelsim.report.style import BLUE, GREEN, ORANGE, VERMILLION, Look
from accelsim.report.text import Facts, si
from accelsim.report.write import refuse_foreign
from accelsim.serving.asked import Served
from accelsim.serving.capacity import Capacity, Probe, search
from accelsim.serving.history import Span, spans
from accelsim.serving.measures import probe
from accelsim.serving.requests import Sequence as Request
from accelsim.version import tool_version

FACTS, REQUESTS, PAGE = "service.json", "requests.csv", "report.html"
PICTURES = ("service", "latencies")
NAMES = (FACTS, "latencies.csv", REQUESTS, PAGE, *(f"{name}.{end}" for name in PICTURES for end in ("png", "svg")))
FILES = (
    (FACTS, "the figures of the service in one dictionary"),
    ("latencies.csv", "a row for each latency, all digits"),
    (REQUESTS, "a row for each request, all digits"),
    *((f"{name}.svg", "a picture of this page for papers") for name in PICTURES),
)
"""File beside the page -> what is in it."""
KEPT, CLOSE = 0.9, 1.05
"""Share of the requests that keep all limits up to the knee (DistServe's goodput); ratio of the rates around it."""
LOOKS = {"waiting": Look(VERMILLION, "////"), "prompt": Look(ORANGE), "tokens": Look(BLUE)}
TIMELINE = (
    "One bar for each request, from its arrival to its last token; rows are places, free again when a request is done. "
    "A prompt in pieces shows each piece. A wait after the prompt means that the request lost its keys and values."
)
LATENCIES = "How many requests are at most so late; where the line crosses the limit, the rest is too late."
WHOLE = "What requests spend their time with, on average: all of them, and the slowest, which p99 is about."
TIME = "Requests in the busiest replica, how full its room for keys and values is, and what all devices draw together."
KNEE = (
    "The same requests closer together or farther apart, where the service has a steady state; right of the knee it "
    "has none, or too many requests break a limit."
)
RATE = f"{KNEE} Below: USD for a million new tokens. Idle time is paid too, so few requests make tokens dear."
COLUMN = {
    "arrival": "arrival_s", "prompt": "prompt", "new": "output", "waiting": "waiting_s", "first token": "ttft_s",
    "per token": "tpot_s", "end to end": "e2e_s", "preempted": "preempted",
}  # fmt: skip
"""Heading of the table of requests -> key of a record."""
RANKS = (2, 1, 1, 0, 0, 0, 0, 2)
"""Columns of higher rank go first on narrow pages."""
TERMS = (
    ("arrival", "since the first second of the simulation"),
    ("prompt, new", "tokens that came, and tokens that were asked for"),
    ("waiting", "time without computing: in the queue, or after the request lost its keys and values"),
    ("first token, per token, end to end", "latencies, as in the table above"),
    ("preempted", "how often it lost its keys and values"),
)
"""Column of the table of requests -> what it means."""


def check_target(folder: Path) -> None:
    """Raise UsageError where no report of a service can be written into the directory."""
    refuse_foreign(folder, NAMES, FACTS, "report of a service")


Stage = Callable[[str, float], None]


def page_files(
    found: Served, answer: Answer, limits: Mapping[str, float], advice: bool, stage: Stage
) -> dict[str, Make]:
    """Return the page, and the requests beside it. ``answer``: that of the service; ``advice``: simulate changes and
    other rates."""
    every = [_record(each, own) for each, own in zip(found.service.sequences, spans(found.service), strict=True)]
    data = _data(found, answer, limits, advice, stage)
    return {PAGE: text(html([Entry(data, packed(data))])), REQUESTS: records(every)}


def _data(found: Served, answer: Answer, limits: Mapping[str, float], advice: bool, stage: Stage) -> Page:
    facts: Any = answer.facts
    told, first = [*facts["sentences"], helps.parts_sentence(found.service)], [latency_section(answer, "steps")]
    more = list[Drawn]()
    if advice:
        stage("what would help", 0.0)
        base, tried = helps.outcome(found.service, limits), list(helps.tried(found, limits))
        told += helps.sentences(base, tried, limits)
        first.insert(0, helps.table(base, tried, limits))
        if not found.load.clients:
            stage("other rates", 0.0)
            more, knee = _rates(found, limits)
            told += knee
    every = spans(found.service)
    shown, lanes = shown_of([(own[0].start_s, own[-1].end_s) for own in every])
    pictures = [
        Drawn("whole", "", WHOLE, _whole(found)),
        Drawn(
            "requests",
            "Requests",
            f"{TIMELINE} {left_out(len(every), shown)}".strip(),
            timeline(every, shown, lanes, [*LOOKS.values()], [*LOOKS]),
        ),
        Drawn("service", "Over time", TIME, over_time(found)),
        Drawn("latencies", "Latencies", LATENCIES, distributions(found, limits)),
        *more,
    ]
    table, lines = _lines(found, shown)
    return {
        "format": FORMAT, "version": VERSION, "tool_version": tool_version(), "title": title(found),
        "none": "no request", "sentences": told, "first": first, "layers": table, "lines_last": True,
        "lines": {"names": table["names"], "told": lines},
        "table": {"title": "Requests of the timeline", "file": REQUESTS, "terms": TERMS},
        "pictures": [each.data() for each in pictures], "files": FILES,
        "last": [
            section("Summary", ("", ""), [(name, str(value)) for name, value in summary(found, facts)]),
            section("Notes", (), (), before=remarks(found)),
        ],
        "notes": [], "plots": [],
    }  # fmt: skip


def _record(request: Request, own: Sequence[Span]) -> Facts:
    """Return a request for CSV."""
    times = {f"{name}_s": sum(s.end_s - s.start_s for s in own if s.kind == kind) for kind, name in helps.PARTS.items()}
    asked = request.request
    return {
        "number": request.number, "arrival_s": asked.arrival_s, "prompt": asked.prompt, "output": asked.output,
        **times, "ttft_s": request.ttft_s, "tpot_s": request.tpot_s, "e2e_s": request.e2e_s,
        "preempted": request.preempted, "cached": request.cached,
    }  # fmt: skip


def latency_section(answer: Answer, what: str) -> Section:
    """Return the latencies as a table, with intervals of both kinds. ``what``: steps or batches."""
    rows = []
    for each in answer.rows:
        for key in COLUMNS:
            low, high = (each[f"{key}_{end}_s"] for end in ("low", "high"))
            few = [each[f"{key}_sampled_{end}_s"] for end in ("low", "high")]
            model = "-" if low is None else f"{si(low, 's')} to {si(high, 's')}"
            sampled = " to ".join(si(end, "s") for end in few) if any(end is not None for end in few) else "-"
            rows.append((each["text"] if key == "mean" else "", key, si(each[f"{key}_s"], "s"), model, sampled))
    heads = ("latency", "", "predicted", f"if all {what} are off (90 %)", "left open by so few requests (90 %)")
    return section("Latencies", heads, rows, (2,))


def _whole(found: Served) -> Picture:
    """Draw what requests spend their time with: all, and the slowest."""
    rows = helps.parts(found.service)
    series = {name: [row[name] for row in rows.values()] for name in LOOKS}
    marks = stacked(range(len(rows)), series, LOOKS, {}, flat=True)
    return Picture(2.0, [Panel("", marks, Axis("time", "s", low=0), Axis(names=[*rows]))], legend=3)


def _rates(found: Served, limits: Mapping[str, float]) -> tuple[list[Drawn], list[str]]:
    """Simulate other rates; return the picture of latencies and costs, and a sentence about the knee."""
    hour, costs = hour_of_service(found), dict[float, float | None]()
    shown = {"ttft": inf, "tpot": inf} | dict(limits)

    def at(rate: float) -> Probe:
        service = found.at_rate(rate).service
        costs[rate] = spent(hour, found.groups, service).out_USD
        return probe(service, shown, rate)

    try:
        knee = search(at, KEPT, found.load.rate, close=CLOSE)
    except UsageError:
        return [], [f"{len(found.service.done):,} requests are too few to find the highest rate."]
    panels = latencies(knee, shown, "knee")
    steady = [each.rate for each in knee.probes if each.steady]
    paid = [(rate, cost) for rate in steady if (cost := costs[rate]) is not None]
    if paid:
        marks = [line([rate for rate, _ in paid], [cost for _, cost in paid], "", GREEN, marker="o", markersize=3)]
        panels.append(Panel("", [*marks, *knees(knee, "knee")], RATES, Axis("USD", scale="log", text=usd), grid="both"))
    drawn = Drawn("rates", "Other rates", RATE, Picture(2.6 * len(panels), panels, share="x"))
    return [drawn], [_knee(found, knee, costs, limits)]


def _knee(found: Served, knee: Capacity, costs: Mapping[float, float | None], limits: Mapping[str, float]) -> str:
    kept = f"{KEPT:.0%} of the requests keep the limits" if limits else "the service has a steady state"
    if knee.below is None:
        return f"At no rate {kept}."
    rate, now = knee.below.rate, costs[found.load.rate]
    cost = costs[rate]
    paid = f"; there a million new tokens cost {usd(cost)} USD, now {usd(now)}" if cost and now else ""
    return f"Up to {si(rate)} requests a second {kept}, {si(rate / found.load.rate)} times as many as now{paid}."


def _lines(found: Served, shown: Sequence[int]) -> tuple[Table, list[list[str]]]:
    """Return the table of requests, and what the timeline says of each."""
    every, cells, values, told = spans(found.service), list[list[str]](), list[list[float | None]](), list[list[str]]()
    for at in shown:
        row = _record(found.service.sequences[at], every[at])
        figures = [row["number"], *(row[key] for key in COLUMN.values())]
        cells.append([
            str(row["number"] + 1),
            *(si(row[key], "s") if key.endswith("_s") else f"{row[key]:,}" for key in COLUMN.values()),
        ])  # fmt: skip
        values.append(figures)
        told.append([
            f"{row['prompt']:,} tokens of prompt, {row['output']:,} new", f"first token after {si(row['ttft_s'], 's')}",
            f"all after {si(row['e2e_s'], 's')}",
        ])  # fmt: skip
    return lines_of(shown, COLUMN, RANKS, cells, values), told
