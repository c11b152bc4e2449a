"""Bindings of a service: where its time goes, what limits it, what would help; each figure from a simulation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from accelsim.report.page.data import section
from accelsim.report.page.form import Section
from accelsim.report.text import percent, si, signed
from accelsim.serving.asked import Served
from accelsim.serving.history import PROMPT, TOKENS, WAITS, spans
from accelsim.serving.levers import Lever, levers
from accelsim.serving.measures import end_to_end_s, tpot_s, ttft_s, within
from accelsim.serving.service import Service

BINDS = {
    "queue": "The queue", "room": "The room for keys and values", "arithmetic": "Arithmetic",
    "bandwidth": "Memory bandwidth", "links": "The network between devices", "host": "The host, with its network,",
}  # fmt: skip
"""Limits of a service -> each as the subject of a sentence."""
LEAST = 0.01
"""Share of the time from end to end from which on a change is said to help."""
SLOWEST = 0.99
"""Percentile of the time from end to end from which on requests are the slowest."""
PARTS = {WAITS: "waiting", PROMPT: "prompt", TOKENS: "tokens"}


class Outcome(NamedTuple):
    """Figures of a service: mean time from end to end, p99 of the time to the first token and mean time per token, s;
    new tokens per second; share of the requests within all limits."""

    e2e_s: float
    ttft_s: float
    tpot_s: float | None
    tokens_per_s: float
    within: float


class Tried(NamedTuple):
    """A change that was simulated, and what came of it."""

    lever: Lever[Service]
    outcome: Outcome


def outcome(service: Service, limits: Mapping[str, float]) -> Outcome:
    """Return the figures of a service by which changes are compared."""
    tokens, each = int(service.done["output"].sum()), tpot_s(service)
    return Outcome(
        float(end_to_end_s(service).mean()), float(np.quantile(ttft_s(service), 0.99)),
        float(each.mean()) if len(each) else None, tokens / service.span_s, within(service, limits),
    )  # fmt: skip


def tried(found: Served, limits: Mapping[str, float]) -> Iterator[Tried]:
    """Simulate every change of a service, and yield what came of it."""
    for lever in levers(found):
        yield Tried(lever, outcome(lever.make(), limits))


def parts(service: Service) -> dict[str, dict[str, float]]:
    """Return the mean time that requests spend waiting, on their prompt and with tokens, s: all of them, and the
    slowest."""
    total, every = end_to_end_s(service), spans(service)
    slow = total >= np.quantile(total, SLOWEST)
    times = np.array([[sum(s.end_s - s.start_s for s in own if s.kind == kind) for kind in PARTS] for own in every])
    rows = {"all requests": times.mean(0), f"slowest {1 - SLOWEST:.0%}": times[slow].mean(0)}
    return {name: dict(zip(PARTS.values(), row.tolist(), strict=True)) for name, row in rows.items()}


def parts_sentence(service: Service) -> str:
    """Say what requests spend their time with."""
    mean, slow = ({name: value / sum(row.values()) for name, value in row.items()} for row in parts(service).values())
    return (
        f"A request spends {percent(mean['waiting'])} of its time waiting, {percent(mean['prompt'])} on its prompt and "
        f"{percent(mean['tokens'])} getting tokens. The slowest {1 - SLOWEST:.0%} wait {percent(slow['waiting'])} of "
        "theirs."
    )


def sentences(base: Outcome, changes: Sequence[Tried], limits: Mapping[str, float]) -> Iterator[str]:
    """Say what binds a service and what would help most. ``base``: its figures without a change."""
    saved = {each.lever.binds: 1 - each.outcome.e2e_s / base.e2e_s for each in changes}
    order = sorted(changes, key=lambda each: -saved[each.lever.binds])
    helping = [each for each in order if saved[each.lever.binds] >= LEAST]
    if not helping:
        yield f"Nothing that was tried makes requests {LEAST:.0%} faster: no single part binds."
        return
    best, *others = helping
    yield (
        f"{BINDS[best.lever.binds]} binds: with {best.lever.change}, requests take "
        f"{percent(saved[best.lever.binds])} less time."
    )
    found = [f"{each.lever.change} {percent(saved[each.lever.binds])}" for each in others]
    found += [f"{each.lever.change} less than {LEAST:.0%}" for each in order if each not in helping]
    yield f"Other changes would save less: {', '.join(found)}."
    if limits and base.within < 1:
        best = max(changes, key=lambda each: each.outcome.within)
    yield _helps(base, best)


def _helps(base: Outcome, best: Tried) -> str:
    after = best.outcome
    told = [f"99 of 100 first tokens come within {si(after.ttft_s, 's')} in place of {si(base.ttft_s, 's')}"]
    if base.tpot_s is not None:
        told.append(f"a token takes {si(after.tpot_s, 's')} in place of {si(base.tpot_s, 's')}")
    if after.within != base.within:
        told.append(f"{percent(after.within)} of the requests keep the limits in place of {percent(base.within)}")
    return f"What would help most: {best.lever.change}. Then {', and '.join(told)}."


def table(base: Outcome, changes: Sequence[Tried], limits: Mapping[str, float]) -> Section:
    """Return every change that was tried, with what it gave and how to repeat it."""
    rows = [("as it is", *_cells(base, base, limits), "")]
    rows += [(each.lever.change, *_cells(each.outcome, base, limits), " ".join(each.lever.options)) for each in changes]
    heads = ["change", "end to end", "difference", "first token, p99", "per token", "tokens/s"]
    heads += [*(["within limits"] if limits else []), "options"]
    note = "Each change was simulated on its own, with the same requests; the options repeat it."
    return section("What would help", heads, rows, range(1, len(heads) - 1), behind=[note])


def _cells(found: Outcome, base: Outcome, limits: Mapping[str, float]) -> list[str]:
    cells = [si(found.e2e_s, "s"), signed(found.e2e_s / base.e2e_s - 1), si(found.ttft_s, "s")]
    cells += [si(found.tpot_s, "s"), si(found.tokens_per_s)]
    return cells + ([percent(found.within)] if limits else [])
