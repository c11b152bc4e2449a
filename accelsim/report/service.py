"""A service under load as tables, sentences and pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from accelsim.errors import count_of
from accelsim.report import service_adapters, service_cost
from accelsim.report.answer import Answer, Field, Table, block, notes
from accelsim.report.picture import Axis, Panel, Picture, area, line, rule
from accelsim.report.style import BLUE, GREEN, ORANGE, VERMILLION
from accelsim.report.text import Facts, ends_text, percent, si
from accelsim.serving.asked import Served
from accelsim.serving.capacity import GROWS
from accelsim.serving.history import watts
from accelsim.serving.measures import MEASURES, SHARES, Figure, grown_per_s, latencies, tpot_s, ttft_s, within
from accelsim.version import tool_version
from accelsim.workload.routing import UNIFORM, read_routing

COLUMNS = ("mean", *SHARES)
"""Figures of a latency."""
PLACES, PARTS = 800, 240
"""Points of a line over time; parts of the time by which power is drawn."""
WIDE = 1.1
"""Room behind a limit on a logarithmic axis."""


def answer(found: Served, limits: Mapping[str, float]) -> Answer:
    """Report a service. ``limits``: s, by names of latencies."""
    texts = {name: measure.text for name, measure in MEASURES.items()}
    rows = latency_rows(latencies(found.service), [latencies(each) for each in found.ends or ()], texts)
    figures = facts(found, limits)
    told = [*sentences(found, figures)]
    shown = [
        " ".join(told),
        "",
        latency_table(rows, "steps"),
        "",
        block("service", summary(found, figures)),
        *notes(remarks(found)),
    ]
    pictures = {"service": partial(over_time, found), "latencies": partial(distributions, found, limits)}
    return Answer(
        figures | {"latencies": rows, "sentences": told}, shown, rows, pictures, ("service.json", "latencies.csv")
    )


Latencies = Mapping[str, Mapping[str, Figure]]
"""Figures of latencies, s, by name of the latency and of the figure."""


def latency_rows(middle: Latencies, ends: Sequence[Latencies], texts: Mapping[str, str]) -> list[Facts]:
    """Return latencies for JSON and CSV: each figure, the ends that times of the chip give, and those that few requests
    leave. ``texts``: what each latency is called."""
    rows = []
    for name, figures in middle.items():
        row: Facts = {"name": name, "text": texts[name]}
        for key, figure in figures.items():
            row[f"{key}_s"] = figure.value
            steps = sorted([figure.value, *(each[name][key].value for each in ends if name in each)])
            row[f"{key}_low_s"], row[f"{key}_high_s"] = (steps[0], steps[-1]) if ends else (None, None)
            row[f"{key}_sampled_low_s"], row[f"{key}_sampled_high_s"] = figure.low, figure.high
        rows.append(row)
    return rows


def latency_table(rows: Sequence[Facts], what: str) -> Table:
    """Return a table of latencies. ``what``: steps or batches, whose times have intervals or none."""
    fields = [Field("text", "latency"), *(Field("", name, partial(_cell, name), True) for name in COLUMNS)]
    if any(row["mean_low_s"] is not None for row in rows):
        legend = f"In brackets: what they are if all {what} take as little or as long as the model may be off (90 %)"
        return Table(fields, rows, legend=legend)
    return Table(fields, rows, legend=f"{what.capitalize()} on this chip have no interval")


def _cell(key: str, row: Facts) -> str:
    low, high = row[f"{key}_low_s"], row[f"{key}_high_s"]
    ends = [] if low is None else list(dict.fromkeys((si(low, "s"), si(high, "s"))))
    spread = f"\n({' to '.join(ends)})" if len(ends) > 1 else ""
    return f"{si(row[f'{key}_s'], 's')}{spread}"


def facts(found: Served, limits: Mapping[str, float]) -> Facts:
    """Return the facts for JSON; the unit is the end of each key."""
    question, service = found.question, found.service
    done, steps = service.done, sum(map(len, service.steps))
    span, out = service.span_s, int(done["output"].sum())
    joules = found.joules
    tables = found.last.times.tables
    return {
        "tool": "accelsim", "tool_version": tool_version(), "model": found.model.name, "on": question.on,
        "dtype": found.devices.dtype, "plan": str(found.last.times.plan),
        "replicas": sum(each.count for each in found.groups),
        "scheduler": question.scheduler, "site": question.setting.site,
        "trace": None if question.trace is None else str(question.trace),
        "load": question.load, "lengths": question.lengths, "seed": question.seed,
        "requests": len(done), "span_s": span, "requests_per_s": len(done) / span,
        "prompt_tokens": int(done["prompt"].sum()), "output_tokens": out,
        "output_tokens_per_s": out / span, "energy_J": joules, "energy_per_output_token_J": joules / out,
        **service_cost.facts(found),
        "busy": service.busy,
        "blocks": found.last.blocks, "block_tokens": found.page, "block_B": found.last.block_B,
        "block_layers": found.last.layers,
        "most_blocks_held": found.last.times.plan.pp
        * max(int(each.column("held").max(initial=0)) for each in found.decoders),
        "preemptions": int(done["preempted"].sum()),
        "tokens_computed_again": int(done["again"].sum()),
        "disaggregate": question.disaggregate or None, "transfer_s": service.moved_s, "transfer_J": service.moved_J,
        **service_adapters.facts(found),
        "speculate": question.speculate or None, "tokens_per_decode": _per_decode(found, out),
        "prefix_hit_rate": _hit_rate(found),
        "mean_decoding": _mean_decoding(found), "steps": steps,
        "queue_grows_per_s": grown_per_s(service) if not found.load.clients else None,
        "limits_s": dict(limits), "within_limits": within(service, limits) if limits else None,
        "steps_simulated": {name: sum(each.times.tables[name].simulated for each in found.groups) for name in tables},
        "largest_interpolation_error": _error(found),
    }  # fmt: skip


def _hit_rate(found: Served) -> float | None:
    """Share of the tokens of all prompts that were kept from others; None where no prompt shares any."""
    if not any(each.prefix for each in found.requests):
        return None
    done = found.service.done
    return int(done["cached"].sum()) / int(done["prompt"].sum())


def _mean_decoding(found: Served) -> float:
    """Sequences that decode at one time, on average over the time of steps, of a replica."""
    decoding, seconds = (
        np.concatenate([steps.column(name) for steps in found.decoders]) for name in ("decoding", "seconds")
    )
    return float(np.average(decoding, weights=seconds)) * found.last.times.plan.pp


def _per_decode(found: Served, out: int) -> float | None:
    """Tokens that a request gets in a step that decodes; None without such steps."""
    steps = sum(decoding * count for each in found.decoders for decoding, count in each.by_decoding.items())
    return (out - len(found.service.done)) / steps if steps else None


def _error(found: Served) -> float:
    """Largest error of a line between simulated steps, a share."""
    return max(each.error for group in found.groups for each in group.times.tables.values())


def sentences(found: Served, figures: Facts) -> Iterator[str]:
    """Yield what a user should know first. ``figures``: facts of the service."""
    service, limits = found.service, figures["limits_s"]
    grows, load = figures["queue_grows_per_s"], found.load
    served = f"{count_of(len(service.done), 'request')} in {si(figures['span_s'], 's')}"
    if grows is not None and grows > GROWS * load.rate:
        yield (
            f"No steady state: {si(load.rate)} requests a second are more than the service computes, and "
            f"{si(grows)} more of them wait every second, so that all latencies grow with the length of the load."
        )
    first = ttft_s(service)
    yield (
        f"{served}: the first token comes after {si(float(first.mean()), 's')} on average and within "
        f"{si(float(np.quantile(first, 0.99)), 's')} for 99 of 100 requests."
    )
    if len(tokens := tpot_s(service)):
        yield f"Then {si(float(tokens.mean()), 's')} pass from one token to the next."
    yield (
        f"{'Replicas are' if figures['replicas'] > 1 else 'The replica is'} busy {percent(figures['busy'])} of the "
        f"time, with {si(figures['mean_decoding'])} requests that decode at once on average, and "
        f"{percent(figures['most_blocks_held'] / found.last.blocks)} of the room for keys and values is used at most."
    )
    if figures["preemptions"]:
        yield (
            f"That is too little: {count_of(figures['preemptions'], 'time')} a request lost its keys and values, and "
            f"{figures['tokens_computed_again']:,} tokens were computed again."
        )
    yield from service_adapters.sentences(found, figures)
    if limits:
        yield f"{percent(figures['within_limits'])} of the requests keep {_limits_text(limits)}."
        for name, limit in limits.items():
            values = MEASURES[name].of(service)
            if len(values) and (least := float(values.min())) > limit:
                yield f"Even the fastest has {name} = {si(least, 's')}."


def _limits_text(limits: Mapping[str, float]) -> str:
    return " and ".join(f"{name} <= {si(limit, 's')}" for name, limit in limits.items())


def summary(found: Served, figures: Facts) -> list[tuple[str, object]]:
    """Return names and values of the summary."""
    rate = [figures["output_tokens"] / each.span_s for each in found.ends or ()]
    ends, devices = (min(rate), max(rate)) if rate else None, found.last.times.plan.devices
    hits = figures["prefix_hit_rate"]
    many = found.question.on if devices == 1 else f"{devices} x {found.devices.fleet.chips[0].name}"
    return [
        *_prompts(found),
        ("on", f"{count_of(found.last.count, 'replica')}, {many} each, {found.devices.dtype}"),
        ("load", _load(found)),
        ("scheduler", found.question.scheduler),
        ("throughput", f"{si(figures['output_tokens_per_s'])} new tokens/s{ends_text(ends, '')}"),
        ("energy", f"{si(figures['energy_per_output_token_J'], 'J')} per new token, idle time included"),
        *service_cost.rows(found, figures),
        ("keys and values", _blocks(found)),
        *_speculated(figures),
        *service_adapters.rows(figures),
        *([] if hits is None else [("prefix cache", f"{percent(hits)} of the tokens of prompts were there")]),
        ("steps", f"{figures['steps']:,}, from {sum(figures['steps_simulated'].values()):,} simulated parts"),
    ]


def _blocks(found: Served) -> str:
    """Return the room for keys and values of a replica."""
    layers, every = found.last.layers, len(found.model.kinds)
    part = f" in {layers} of {every} layers" if layers < every else ""
    return f"{found.last.blocks:,} blocks of {count_of(found.page, 'token')}{part} a replica"


def _prompts(found: Served) -> Iterator[tuple[str, object]]:
    """Yield what separate replicas for prompts are, and what their keys and values take to the others."""
    if len(found.groups) > 1:
        first, count = found.groups[0], len(found.service.done)
        devices = first.times.plan.devices
        chip = found.devices.fleet.chips[0].name
        many = chip if chip == found.question.on and devices == 1 else f"{devices} x {chip}"
        yield "prompts on", f"{count_of(first.count, 'replica')}, {many} each"
        each_s, each_J = found.service.moved_s / count, found.service.moved_J / count
        yield "transfer", f"{si(each_s, 's')} and {si(each_J, 'J')} a request, from prompts to tokens"


def _speculated(figures: Facts) -> Iterator[tuple[str, object]]:
    if figures["speculate"] and figures["tokens_per_decode"]:
        yield "speculation", f"{figures['speculate']}: {si(figures['tokens_per_decode'])} tokens a step and request"


def _load(found: Served) -> str:
    question = found.question
    if question.trace is not None:
        return f"trace {question.trace.name}"
    return f"{question.load}, {question.lengths} tokens" + (f", prefix {question.prefix}" if question.prefix else "")


def remarks(found: Served) -> Iterator[str]:
    """Yield what a reader should know beside the figures."""
    error = percent(_error(found))
    yield f"Times between simulated steps are on lines, which are off by {error} in their middles at most."
    if any(layer.sparse for layer in found.model.kinds):
        routing = read_routing(found.question.setting.routing)
        word = "uniformly" if routing == UNIFORM else f"by the routing {routing}"
        yield f"Tokens choose their experts {word}: a step reads the weights of as many as expected."
    if found.model.style.quantised and not found.question.setting.dtype:
        method = found.model.style.quantised.method.upper()
        yield f"All weights are in {found.devices.dtype}; those published are partly in {method}: --dtype checkpoint."
    if found.question.adapters:
        yield service_adapters.NOTE
    if told := found.load.note(len(found.service.done)):
        yield told
    if site := found.question.setting.site:
        yield f"The serving engine, its network and its tokenizer are those of {site}."
    else:
        yield "No time of network, HTTP or tokenizer is in these figures; --site vllm-server adds what others measured."


def over_time(found: Served) -> Picture:
    """Draw requests that run and wait, and blocks held, of the replica with most steps; and the power of all."""
    steps = max(found.service.steps, key=len)
    take = np.unique(np.linspace(0, len(steps.column("end_s")) - 1, PLACES).astype(int))
    time, running, waiting, held = (steps.column(name)[take] for name in ("end_s", "running", "waiting", "held"))
    held = held / found.last.blocks * 100
    seconds, used = Axis("time", "s"), Axis("% in use", low=0, high=100)
    marks = [
        area(time, np.zeros(len(time)), running, "running", color=BLUE),
        line(time, waiting, "waiting", VERMILLION),
    ]
    panels = [
        Panel("Requests of a replica", marks, seconds, Axis("requests", low=0)),
        Panel("Room for keys and values", [line(time, held, "", ORANGE)], seconds, used),
        Panel("Power of all devices", [line(*watts(found, PARTS), "", GREEN)], seconds, Axis("power", "W", low=0)),
    ]
    return Picture(6.0, panels, title(found), share="x", legend=2)


def title(found: Served) -> str:
    """Return what was asked for in few words."""
    return f"{found.model.name} on {found.question.on}, {_load(found)}"


def distributions(found: Served, limits: Mapping[str, float]) -> Picture:
    """Draw the share of requests with a latency of at most x, and the limits."""
    panels = []
    for name, color in (("ttft", BLUE), ("tpot", ORANGE), ("e2e", GREEN)):
        values = np.sort(MEASURES[name].of(found.service))
        if not len(values):
            continue
        shares = np.arange(1, len(values) + 1) / len(values) * 100
        marks, high = [line(values, shares, "", color)], None
        if name in limits:
            marks.append(rule(x=limits[name], label="limit", color=VERMILLION))
            high = WIDE * max(limits[name], values[-1])
        text = MEASURES[name].text
        x = Axis(text, "s", "log", high=high)
        panels.append(Panel(text.capitalize(), marks, x, Axis("% of requests", low=0, high=100)))
    return Picture(2.1 * len(panels), panels, title(found))
