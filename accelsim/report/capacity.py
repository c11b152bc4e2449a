"""Capacity of a service as sentences, a table and a picture of latency against the rate of requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from math import inf

from accelsim.errors import UsageError
from accelsim.report.answer import Answer, Field, Table, block, in_unit, notes
from accelsim.report.picture import Axis, Mark, Panel, Picture, line, rule
from accelsim.report.style import BLUE, GREY, ORANGE, VERMILLION
from accelsim.report.text import Facts, percent, si
from accelsim.serving.capacity import Capacity, Probe
from accelsim.serving.measures import MEASURES
from accelsim.version import tool_version

NEAR = 1.04
"""Ratio of rates below which the table shows one of them."""


FACTS = (
    "model", "on", "plan", "replicas", "load", "lengths", "scheduler", "before", "after", "cores", "requests", "seed",
)  # fmt: skip
"""Fields of a question that are shown."""


def facts(question: object) -> Facts:
    """Return what was asked for of a service."""
    values = {name: getattr(question, name, "") for name in FACTS}
    return {name: value for name, value in values.items() if value != ""}


def answer(found: Capacity, limits: Mapping[str, float], service: Facts, slow: Capacity | None = None) -> Answer:
    """Report a capacity. ``service``: facts of the service that were asked for; ``slow``: the capacity if all steps or
    batches take as long as the model may be off."""
    rows = [_row(each) for each in found.probes]
    told = sentences(found, limits, slow)
    fields = [
        Field("rate_per_s", "requests/s", in_unit()), Field("within", "within limits", percent),
        Field("steady", "", lambda row: "" if row["steady"] else "no steady state", True),
    ]  # fmt: skip
    for name in limits:
        fields += [Field(f"{name}_{key}_s", f"{name} {key}", in_unit("s")) for key in ("p50", "p99")]
    facts = {
        "tool": "accelsim", "tool_version": tool_version(), **service, "limits_s": dict(limits), "share": found.share,
        "capacity_per_s": found.below and found.below.rate, "above_per_s": found.above.rate,
        "capacity_if_slow_per_s": slow and slow.below and slow.below.rate, "rates": rows, "sentences": told,
    }  # fmt: skip
    shown = [
        " ".join(told), "", Table(fields, [*_apart(found)]), "", block("service", [*service.items()]),
        *notes(["Every rate has the same requests, closer together or farther apart."]),
    ]  # fmt: skip
    pictures = {"capacity": partial(_picture, found, limits, f"{service['model']} on {service['on']}")}
    fails = UsageError(told[0].rstrip("."), "--limit", _idle(found)) if found.below is None else False
    return Answer(facts, [] if fails else shown, rows, pictures, ("capacity.json", "rates.csv"), fails=fails)


def _idle(found: Capacity) -> str:
    """Say what requests take that have the service for themselves, those of the lowest rate."""
    alone = " and ".join(f"{name} within {si(each, 's')}" for name, each in found.probes[0].p99_s.items())
    return f"longer times, or a faster service: 99 of 100 requests that come one by one have {alone}"


def _apart(found: Capacity) -> Iterator[Facts]:
    """Yield the rows to be shown: just below and above the capacity, and else none that is near another."""
    ends, last = (found.below, found.above), 0.0
    for probe in found.probes:
        near = any(1 / NEAR < probe.rate / end.rate < NEAR for end in ends if end)
        if probe in ends or (probe.rate > NEAR * last and not near):
            last = probe.rate
            yield _row(probe)


def _row(probe: Probe) -> Facts:
    row: Facts = {"rate_per_s": probe.rate, "within": probe.within, "steady": probe.steady}
    for name in probe.p50_s:
        row |= {f"{name}_p50_s": probe.p50_s[name], f"{name}_p99_s": probe.p99_s[name]}
    return row


def sentences(found: Capacity, limits: Mapping[str, float], slow: Capacity | None = None) -> list[str]:
    """Say up to which rate enough requests keep the limits, and what happens just above."""
    kept = " and ".join(f"{name} <= {si(limit, 's')}" for name, limit in limits.items())
    below, above = found.below, found.above
    if below is None:
        return [
            f"No rate is low enough: of {si(above.rate)} requests a second {percent(above.within)} keep {kept}, and "
            f"{percent(found.share)} should."
        ]
    why = f"{percent(above.within)} do" if above.steady else "more of them come than the service answers"
    told = [
        f"Up to {si(below.rate, digits=4)} requests a second, {percent(found.share)} of them keep {kept}; "
        f"at {si(above.rate, digits=4)} {why}."
    ]
    if slow is not None and slow.below is not None:
        told.append(f"If each step or batch takes as long as the model may be off (90 %), it is {si(slow.below.rate)}.")
    elif slow is not None:
        told.append("If each step or batch takes as long as the model may be off (90 %), no rate is low enough.")
    return told


def _picture(found: Capacity, limits: Mapping[str, float], title: str) -> Picture:
    panels = latencies(found, limits, "capacity")
    return Picture(3.8 * len(panels), panels, title, legend=4, share="x")


def latencies(found: Capacity, limits: Mapping[str, float], knee: str) -> list[Panel]:
    """Draw median and 99th percentile of each latency by rate, where the service has a steady state. ``limits``: s, by
    name, inf for none; ``knee``: what the capacity is called."""
    panels, steady = [], [each for each in found.probes if each.steady]
    rates = [each.rate for each in steady]
    for name, limit in limits.items():
        marks = [
            line(rates, [each.p99_s[name] for each in steady], "p99", ORANGE, marker="o", markersize=3),
            line(rates, [each.p50_s[name] for each in steady], "p50", BLUE, marker="o", markersize=3),
            *([rule(y=limit, label="limit", color=VERMILLION)] if limit < inf else []),
        ]
        panels.append(
            Panel("", [*marks, *knees(found, knee)], RATES, Axis(MEASURES[name].text, "s", "log"), grid="both")
        )
    return panels


RATES = Axis("requests per s", text=in_unit())


def knees(found: Capacity, label: str) -> list[Mark]:
    """Return the line at the capacity, if there is one."""
    return [] if found.below is None else [rule(x=found.below.rate, label=label, color=GREY)]
