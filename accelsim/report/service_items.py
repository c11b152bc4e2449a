"""A service of items under load as tables, sentences and pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from accelsim.account.price import per_thousand_USD
from accelsim.errors import count_of
from accelsim.report.answer import Answer, block, notes
from accelsim.report.picture import Axis, Panel, Picture, bars, line, rule
from accelsim.report.prices import usd
from accelsim.report.service import latency_rows, latency_table
from accelsim.report.service_cost import Hour, hour_facts, hour_of, no_price, price_text
from accelsim.report.style import BLUE, ORANGE, VERMILLION
from accelsim.report.text import Facts, ends_text, percent, si
from accelsim.serving.items.asked import Asked, Served
from accelsim.serving.items.measures import STAGES, grows_per_s, joules, latencies, lost, sizes, use, within
from accelsim.serving.items.work import KINDS
from accelsim.version import tool_version

PARTS = {"cpu": "CPU", "pcie": "PCIe", "chip": "chip"}
"""Parts of a service by name."""
NAMES = {"cpu": "the CPU", "pcie": "the PCIe link", "chip": "the chip"}
SECOND = 1.05
"""Gain from a further instance that is worth a sentence."""


def answer(found: Served, limits: Mapping[str, float]) -> Answer:
    """Report a service. ``limits``: s, by name; the only one is that of the time from end to end."""
    rows = latency_rows(latencies(found.flow), [latencies(each) for each in found.ends or ()], STAGES)
    figures = facts(found, limits)
    told = [*sentences(found.asked, figures, rows)]
    shown = [
        " ".join(told),
        "",
        latency_table(rows, "batches"),
        "",
        block("service", summary(found, figures)),
        *notes(remarks(found)),
    ]
    pictures = {"service": partial(distributions, found, limits)}
    return Answer(
        figures | {"latencies": rows, "sentences": told}, shown, rows, pictures, ("service.json", "latencies.csv")
    )


def facts(found: Served, limits: Mapping[str, float]) -> Facts:
    """Return the facts for JSON; the unit is the end of each key."""
    asked, flow = found.asked, found.flow
    question, bounds, answered = asked.question, asked.bounds, len(flow.answered)
    span, energy = flow.span_s, joules(asked, flow)
    ranks = (
        {each.arrival.rank for each in flow.items} if question.urgent or (asked.trace and asked.trace.classes) else ()
    )
    return {
        "tool": "accelsim", "tool_version": tool_version(), "model": question.model, "on": question.on,
        "chips": question.replicas, "load": load_text(asked), "scheduler": question.scheduler, "seed": question.seed,
        "before_s": asked.before.seconds, "after_s": asked.after.seconds, "cores": question.cores,
        "trace": None if question.trace is None else str(question.trace),
        "kept": asked.before.keep, "requests": len(flow.requests), "items": len(flow.items),
        "answered": answered, "lost": dict(lost(flow)),
        "span_s": span, "answered_per_s": answered / span, "busy": use(asked, flow),
        "batches": {str(size): count for size, count in sizes(flow).items()},
        "mean_batch": float(np.mean([each.size for each in flow.batches])) if flow.batches else None,
        "energy_J": energy, "energy_per_answer_J": energy / answered if answered else None,
        **_paid(found, answered / span), "static_W": asked.times.static_W, "full_batch": asked.full,
        "most_per_s": {"cpu": bounds.cpu, "pcie": bounds.pcie, "chip": bounds.chip, "instances": bounds.instances},
        "capacity_per_s": bounds.rate, "limited_by": bounds.limit,
        "e2e_by_class_s": {asked.classes[rank]: _of_rank(found, rank) for rank in sorted(ranks)},
        "queue_grows_per_s": grows_per_s(flow) if not asked.load.clients else None,
        "limits_s": dict(limits), "within_limits": within(flow, limits["e2e"]) if limits else None,
        "batches_simulated": len(asked.times.simulated),
    }  # fmt: skip


def title(found: Served) -> str:
    """Return what was asked for in few words."""
    question = found.asked.question
    return f"{question.model} on {question.on}, {load_text(found.asked)}"


def load_text(asked: Asked) -> str:
    """Return the load, or the name of the file with its requests."""
    return asked.question.load if asked.question.trace is None else f"trace {asked.question.trace.name}"


def hour_of_items(found: Served) -> Hour | None:
    """Return the price of an hour of each chip."""
    question = found.asked.question
    return hour_of(question.on, found.asked.times.chip.name, [(question.replicas, 1)], question.prices)


def _paid(found: Served, per_s: float) -> Facts:
    """Return what a thousand answers cost, for JSON."""
    hour = hour_of_items(found)
    cost = per_thousand_USD(hour.each_USD * found.asked.question.replicas, per_s) if hour and per_s else None
    return {"thousand_answers_usd": cost, **hour_facts(hour)}


def _of_rank(found: Served, rank: int) -> dict[str, float]:
    """Mean and p99 of the time from end to end of a class, s."""
    values = [each.e2e_s for each in found.flow.answered if each.arrival.rank == rank]
    return {"mean": float(np.mean(values)), "p99": float(np.quantile(values, 0.99))} if values else {}


def sentences(asked: Asked, figures: Facts, rows: list[Facts]) -> Iterator[str]:
    """Yield what a user should know first. ``figures``: facts of the service; ``rows``: its latencies."""
    load, most, bounded = (asked.load, figures["most_per_s"], asked.rules.queue < np.inf or asked.timeout_s < np.inf)
    come = "items" if figures["items"] > figures["requests"] else "requests"
    if figures["capacity_per_s"] < load.rate < np.inf and not bounded:
        yield (
            f"No steady state: {si(load.rate)} {come} a second come, and the service answers "
            f"{si(figures['capacity_per_s'])} at most, so that latencies grow with the length of the load."
        )
    served = f"{count_of(figures['answered'], 'request', 'was', of=figures['requests'])} answered"
    if rows:
        total = rows[-1]
        yield (
            f"{served} in {si(figures['span_s'], 's')}: after {si(total['mean_s'], 's')} on average, and within "
            f"{si(total['p99_s'], 's')} for 99 of 100."
        )
        part = max(rows[:-1], key=lambda row: row["mean_s"])
        yield f"The largest part is {WORDS[part['name']]}, with {si(part['mean_s'], 's')}."
    else:
        yield f"{served}."
    limit = asked.bounds.limit
    free = [f"{NAMES[key]} could do {si(most[key])}" for key in PARTS if PARTS[key] != limit and most[key] < np.inf]
    first = NAMES[next(key for key in PARTS if PARTS[key] == limit)]
    rest = f"; {', '.join(free)}" if free else ""
    yield f"T{first[1:]} limits the service to {si(figures['capacity_per_s'])} {come} a second{rest}."
    gain = min(most[key] for key in PARTS) / most["instances"]
    if limit != "CPU" and gain > SECOND:
        yield f"With more instances, transfers would hide behind the chip's work: {si(gain)} times as many."
    if figures["lost"]:
        yield f"Lost: {', '.join(f'{number:,} ({why})' for why, number in figures['lost'].items())}."
    for limit_s in figures["limits_s"].values():
        yield f"{percent(figures['within_limits'])} of the requests are answered within {si(limit_s, 's')}."


WORDS = {
    "queue": "waiting", "before": "work of the CPU before the chip", "transfer": "the transfers",
    "chip": "the chip's work", "after": "work of the CPU after the chip",
}  # fmt: skip
"""Stages in a sentence."""


def summary(found: Served, figures: Facts) -> list[tuple[str, object]]:
    """Return names and values of the summary."""
    asked, rules, busy = found.asked, found.asked.rules, figures["busy"]
    rates = [len(each.answered) / each.span_s for each in found.ends or ()]
    ends = (min(rates), max(rates)) if len({si(each) for each in rates}) > 1 else None
    host = " and ".join(
        text for text in (_work(asked.question.before, "before"), _work(asked.question.after, "after")) if text
    )
    batch = f"{si(figures['mean_batch'])} on average, {rules.most} at most" if figures["mean_batch"] else "none"
    wait = f", after {si(rules.delay_s, 's')} of waiting at most" if rules.delay_s else ""
    energy = figures["energy_per_answer_J"]
    copies = f", {rules.instances} instances each" if rules.instances > 1 else ""
    return [
        ("on", f"{count_of(asked.question.replicas, 'chip')}, {asked.question.on}{copies}"),
        ("load", load_text(asked)),
        ("host", f"{count_of(asked.question.cores, 'core')}: {host}" if host else "no work"),
        ("batches", f"{batch}{wait}"),
        ("throughput", f"{si(figures['answered_per_s'])} answers/s{ends_text(ends, '')}"),
        ("busy", ", ".join(f"{text} {percent(busy[key])}" for key, text in PARTS.items())),
        ("energy", f"{si(energy, 'J')} per answer, idle time of the chip included" if energy else "-"),
        ("1,000 answers", _cost(found, figures)),
    ]  # fmt: skip


def _cost(found: Served, figures: Facts) -> str:
    hour, cost = hour_of_items(found), figures["thousand_answers_usd"]
    if hour is None or cost is None:
        return no_price(found.asked.question.on, found.asked.times.chip.name) if hour is None else "-"
    return f"{usd(cost)} USD ({price_text(hour)})"


def _work(text: str, when: str) -> str:
    return f"{text} {when}" if text else ""


def remarks(found: Served) -> Iterator[str]:
    """Yield what a reader should know beside the figures."""
    asked = found.asked
    yield f"Times of {count_of(len(asked.times.simulated), 'batch size')} were simulated, each as 'accelsim run' does."
    for name in dict.fromkeys(each for each in (*asked.before.names, *asked.after.names) if each in KINDS):
        kind = KINDS[name]
        yield f"{name}: {kind.text}; {si(kind.seconds, 's')} on one core: {kind.source}."
    if told := asked.load.note(len(found.flow.items)):
        yield told
    if asked.rules.instances > 1:
        yield "Instances of one chip take turns on its link and on the chip."
    yield "No time of network or HTTP, and no energy of the host, is in these figures."


def distributions(found: Served, limits: Mapping[str, float]) -> Picture:
    """Draw the share of requests with a latency of at most x, and how often batches have each size."""
    values = np.sort([each.e2e_s for each in found.flow.answered])
    shares = np.arange(1, len(values) + 1) / max(1, len(values)) * 100
    marks = [line(values, shares, "", BLUE)]
    marks += [rule(x=limit_s, label="limit", color=VERMILLION) for limit_s in limits.values()]
    count = sizes(found.flow)
    latency = Panel("Latency", marks, Axis("end to end", "s", "log"), Axis("% of answers", low=0, high=100))
    batches = Panel(
        "Batches", [bars(list(count), list(count.values()), "", ORANGE)], Axis("size"), Axis("batches", low=0)
    )
    return Picture(4.2, [latency, batches], title(found))
