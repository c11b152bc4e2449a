"""Serving on a cluster as tables, sentences, JSON, CSV and a picture."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from accelsim.account.interval import WALL
from accelsim.cluster.collectives.software import estimate
from accelsim.cluster.serving.devices import widths
from accelsim.cluster.serving.serve import Served, routing_of
from accelsim.cluster.serving.step import ServedCall
from accelsim.cluster.serving.what_if import Change
from accelsim.errors import count_of
from accelsim.files import Make, as_bytes, records, text
from accelsim.kernels.whole import Interval
from accelsim.report import intervals
from accelsim.report.answer import Answer, Field, Part, Record, Table, block, in_unit
from accelsim.report.generation_report import CALL_FIELDS, ends, interpolated, kernels_row, token_rows
from accelsim.report.picture import Axis, Panel, Picture, stacked
from accelsim.report.plot import SUFFIXES, pictures
from accelsim.report.style import BLUE, SKY, VERMILLION, Look
from accelsim.report.text import ends_text, percent, si
from accelsim.report.write import refuse_foreign
from accelsim.version import tool_version
from accelsim.workload.routing import UNIFORM

if TYPE_CHECKING:
    from accelsim.cluster.values.generated import Generated

FACTS, CALLS, PLOT = "serving.json", "calls.csv", "where_time_goes"
NAMES = (FACTS, CALLS, *(f"{PLOT}.{suffix}" for suffix in SUFFIXES))
PARTS = ("compute_s", "collectives_s", "transfer_s")
"""Parts of the time of a group of sequences."""
LEAST = 0.0005
"""Share from which it shows that something gets faster: 0.1 %, rounded."""


def answer(found: Served, changes: Sequence[Change], out: Path | None, values: Generated | None = None) -> Answer:
    """Report calls, summary and sentences. ``changes``: of the network, simulated; ``out``: directory of the report;
    ``values``: tokens that the devices compute."""
    figures, rows = facts(found, changes) | _computed(values), call_records(found)
    parts = zip(PARTS, ("compute", "collectives", "transfers"), strict=True)
    fields = [*CALL_FIELDS, *(Field(key, heading, in_unit("s")) for key, heading in parts)]
    fields.append(Field("", "energy", partial(_call_J, found.static_W), True))
    shown: list[Part] = [
        Table(fields, ends(rows)),
        "",
        block("serving", [*summary_rows(found), *_values_rows(values)]),
        "",
        " ".join(sentences(found, changes)),
    ]
    return Answer(figures, shown, rows, other_files={out: _files(found, figures)} if out else {})


def _computed(values: Generated | None) -> dict[str, object]:
    if values is None:
        return {}
    both = {"tokens": values.tokens.tolist(), "tokens_of_one_device": values.alone.tolist()}
    return both | {"largest_difference": values.difference, "largest_logit": values.largest}


def _values_rows(values: Generated | None) -> list[tuple[str, str]]:
    """Return how values of all devices and those of one agree."""
    if values is None:
        return []
    apart = f"scores differ by at most {values.difference:.3g} of {values.largest:.3g}"
    return [("values in fp32", f"{values.same:,} of {values.alone.size:,} tokens are those of one device; {apart}")]


def facts(found: Served, changes: Sequence[Change] = ()) -> dict[str, object]:
    """Return the facts for JSON; the unit is the end of each key. ``changes``: of the network, simulated."""
    spans = _spans(found)
    first, token, total = ([span.low_s, span.high_s] if span else None for span in spans)
    token_J, wall_J = found.ends_J(found.energy_per_token_J), found.ends_J(found.wall_per_token_J, WALL)
    return {
        "tool": "accelsim", "tool_version": tool_version(), "cluster": found.fleet.name, "devices": found.fleet.size,
        "model": found.model.name, "dtype": found.dtype, "plan": str(found.plan),
        **({"routing": str(routing_of(found.fleet)), "fullest": [*found.fuller]} if found.plan.ep > 1 else {}),
        "prompt": found.asked.prompt,
        "new": found.asked.new, "sequences": found.asked.sequences,
        "time_to_first_token_s": found.time_to_first_token_s,
        "time_to_first_token_interval_s": first, "tokens_per_s": found.tokens_per_s,
        "tokens_interval_per_s": found.tokens_interval_per_s and [*found.tokens_interval_per_s],
        "token_s": found.token_s, "token_interval_s": token,
        "total_interval_s": total,
        "interval_basis": {
            name: span and span.basis for name, span in zip(("first_token", "token", "total"), spans, strict=True)
        },
        "energy_per_token_J": found.energy_per_token_J,
        "energy_per_token_interval_J": token_J and list(token_J),
        "wall_per_token_J": found.wall_per_token_J,
        "wall_per_token_interval_J": wall_J and list(wall_J),
        "total_s": found.total_s, "total_J": found.total_J, "wall_J": found.wall_J,
        "prefill_J": found.prefill_J, "decode_J": found.decode_J, "decode_s": found.decode_s,
        "decode_calls": found.asked.new - 1, "decode_calls_simulated": len(found.decode.found),
        "largest_interpolation_error": found.decode.error,
        "memory_B": [
            {**parts, "capacity": room} for parts, room in zip(found.memory_B, found.room_B, strict=True)
        ],
        "changes": [
            {"change": each.words, "first_token_saved": each.first, "token_saved": each.token} for each in changes
        ],
        "prefill": _call(found.prefill),
        "decode": [_call(each) for each in found.decode.found],
    }  # fmt: skip


def _spans(found: Served) -> tuple[Interval | None, Interval | None, Interval | None]:
    return found.first_interval, found.token_interval, found.total_interval


def _call(call: ServedCall) -> dict[str, object]:
    return {
        "tokens": call.seq, "past": call.past, "groups": call.groups, "first_s": call.first_s,
        "period_s": call.period_s, "devices_J": call.energy_J, "links_J": call.links_J,
        "stages": [
            {"compute_s": each.compute_s, "products_s": each.products_s, "collectives_s": each.collectives_s,
             "transfer_s": each.transfer_s, "moved_B": each.moved_B, "macs": each.macs} for each in call.stages
        ],
    }  # fmt: skip


def _call_J(static_W: float, row: Record) -> str:
    return si(row["devices_J"] + row["links_J"] + static_W * row["seconds"], "J")


def call_records(found: Served) -> list[dict[str, object]]:
    """Return the prefill, then every call of decoding that was simulated."""
    many = found.asked.sequences
    rows = [_record("prefill", found.prefill, many * found.asked.prompt, found.prefill.first_s)]
    return rows + [_record("decode", call, many, call.period_s) for call in found.decode.found]


def _record(name: str, call: ServedCall, tokens: int, seconds: float) -> dict[str, object]:
    return {
        "call": name,
        "past": call.past,
        "tokens": tokens,
        "seconds": seconds,
        "tokens_per_s": tokens / seconds,
        **{key: call.total(key) for key in PARTS},
        "devices_J": call.energy_J,
        "links_J": call.links_J,
        "moved_B": sum(stage.moved_B for stage in call.stages),
    }


def summary_rows(found: Served) -> list[tuple[str, str]]:
    """Return names and values of the summary."""
    asked = found.asked
    return [
        ("cluster", f"{found.fleet.title} ({found.fleet.name}), {count_of(found.fleet.size, 'device')}"),
        ("plan", str(found.plan)),
        (
            "model",
            f"{found.model.name}, {found.dtype}, {asked.sequences:,} x ({asked.prompt:,} + {asked.new:,} tokens)",
        ),
        *kernels_row(found.fleet.chips[0], found.fusion, found.fleet.setting.kv_dtype, found.fleet.setting.stack),
        *([("collectives", found.fleet.software.title)] if found.plan.wide * found.plan.ep > 1 else []),
        *_experts_row(found),
        *token_rows(found, _spans(found), found.ends_J(found.energy_per_token_J)),
        *_wall_rows(found),
    ]


def _experts_row(found: Served) -> list[tuple[str, str]]:
    """Return how experts share tokens, where this is not even or devices share the experts."""
    routing, ep = routing_of(found.fleet), found.plan.ep
    if ep == 1:
        return [("experts", str(routing))] if routing != UNIFORM else []
    times = [f"{each:.3g} times" for each in found.fuller]
    whens = ("in the prefill", "in a decode step")
    shares = ", ".join(f"{each} {when}" for each, when in zip(times, whens, strict=False))
    return [("experts", f"{routing}; the fullest of {ep} devices gets the mean {shares}")]


def _wall_rows(found: Served) -> list[tuple[str, str]]:
    """Return the energy of servers, where the cluster states it: per token, or of all where none is decoded."""
    if found.wall_J is None:
        return []
    each = found.wall_per_token_J
    joules, of = (found.wall_J, "generation") if each is None else (each, "token")
    return [(f"at the wall, per {of}", si(joules, "J") + ends_text(found.ends_J(joules, WALL), "J"))]


def sentences(found: Served, changes: Sequence[Change] = ()) -> list[str]:
    """Return what the figures say, each computed; ``changes``: of the network, simulated."""
    first = found.prefill
    told = [f"The first token appears after {si(found.time_to_first_token_s, 's')}. {_goes(first)}."]
    last = found.decode.last
    if last is not None:
        told.append(
            f"Decoding then produces {si(found.tokens_per_s)} tokens per second at {si(found.energy_per_token_J, 'J')} "
            f"each. The last decode step takes {si(last.period_s, 's')}. {_goes(last)}."
        )
        told += [_moved(found, last), *_small(found)]
    told += intervals.sentences(found.total_interval, "the whole generation")
    told += _helps(changes)
    told += [*_pipeline(found), _held(found)]
    if last is not None:
        told.append(_simulated(found))
    return told


def _goes(call: ServedCall) -> str:
    """Return 'A group of sequences spends 73.8% of its time computing, 26.2% in collectives'."""
    words = {"compute_s": "computing", "collectives_s": "in collectives", "transfer_s": "between stages"}
    parts = [(percent(call.total(key) / call.through_s), words[key]) for key in PARTS if call.total(key)]
    shares = [f"{share} {'of its time ' * (not n)}{word}" for n, (share, word) in enumerate(parts)]
    return "A group of sequences spends " + ", ".join(shares)


def _moved(found: Served, last: ServedCall) -> str:
    """Return how near decoding is to the rate of the memories."""
    moving = 0.0
    for p, stage in enumerate(last.stages):
        chip = found.fleet.chips[found.plan.rank(p, 0, 0)]
        rates = [float(each.memory.rate_Bps) for each in chip.memories.values() if each.link is None]
        moving += stage.moved_B / max(rates, default=float("inf"))
    return f"Memory bandwidth alone accounts for {percent(moving / last.through_s)} of that time."


def _small(found: Served) -> Iterator[str]:
    """Return what binds the all-reduce of one token."""
    group = found.plan.tp_group(0)
    if len(group) == 1:
        return
    rows = -(-found.asked.sequences // found.plan.data // found.prefill.groups // found.plan.cp)
    each_B = widths(found.fleet.chips[0], found.fleet.setting).activation
    nbytes = ceil(rows * found.model.hidden * each_B)
    one = estimate(found.fleet.topology, found.fleet.software, "all_reduce", nbytes, group)
    share = one.latency_s / one.time_s if one.time_s else 0.0
    yield (
        f"An all-reduce of a decode step ({si(nbytes, 'B')}, {count_of(len(group), 'device')}) takes "
        f"{si(one.time_s, 's')}; {percent(share)} of it is launch and step latency, which faster links do not shorten."
    )


def _helps(changes: Sequence[Change]) -> Iterator[str]:
    """Return what changes of the network would bring; one sentence for those that bring nothing."""
    idle = [change.words for change in changes if max(change.first, change.token or 0.0) < LEAST]
    for change in changes:
        if change.words not in idle:
            yield _helped(change)
    if idle:
        yield f"With {' or '.join(idle)}, nothing gets faster."


def _helped(change: Change) -> str:
    """Return what a change brings to the first token and to those after it, where it brings anything."""
    found = []
    if change.first >= LEAST:
        found.append(f"the first token appears {percent(change.first)} earlier")
    if change.token is not None and change.token >= LEAST:
        found.append(f"each further token takes {percent(change.token)} less time")
    return f"With {change.words}, {', and '.join(found)}."


def _pipeline(found: Served) -> Iterator[str]:
    """Return how full the pipeline is while tokens are decoded."""
    last = found.decode.last or found.prefill
    stages = len(last.stages)
    if stages == 1:
        return
    busy = last.groups * last.through_s / (stages * last.period_s)
    yield (
        f"During decoding, a stage is busy {percent(busy)} of the time ({count_of(last.groups, 'group')} of sequences "
        f"on {count_of(stages, 'stage')})."
    )


def _held(found: Served) -> str:
    """The fullest device."""
    parts, room = max(zip(found.memory_B, found.room_B, strict=True), key=lambda each: sum(each[0].values()) / each[1])
    terms = ", ".join(f"{si(size, 'B')} of {kind}" for kind, size in parts.items())
    return f"The fullest device holds {terms}: {percent(sum(parts.values()) / room)} of {si(room, 'B')}."


def _simulated(found: Served) -> str:
    calls, total = len(found.decode.found), found.asked.new - 1
    if calls == total:
        return "Every decode step was simulated."
    return interpolated(calls, total, found.decode.error)


LOOKS = {"compute": Look(BLUE), "collectives": Look(VERMILLION), "transfer": Look(SKY)}


def where_time_goes(found: Served) -> Picture:
    """Draw bars of the prefill and of tokens: computing, collectives, transfers, of one group of sequences."""
    calls, last = {"prefill": found.prefill}, found.decode.last
    if last is not None:
        calls[f"token after {last.past:,}"] = last
    panels = []
    for name, call in calls.items():
        series = {key.removesuffix("_s"): [call.total(key)] for key in PARTS}
        panels.append(Panel("", stacked([0], series, LOOKS, {}, flat=True), Axis("time", "s"), Axis(names=[name])))
    title = f"{found.model.name} on {found.fleet.name}, {found.plan}"
    panels[0] = replace(panels[0], title=title, note="what a group of sequences spends in the stages of a call")
    return Picture(1.1 + 0.8 * len(calls), panels, legend=3)


def check_target(folder: Path) -> None:
    """Raise UsageError where no report of serving can be written into the directory."""
    refuse_foreign(folder, NAMES, FACTS, "report of serving")


def _files(found: Served, figures: dict[str, object]) -> dict[str, Make | None]:
    content = json.dumps(figures, indent=2, ensure_ascii=False, allow_nan=False)
    made: dict[str, Make | None] = dict.fromkeys(NAMES)
    made |= {FACTS: text(content + "\n"), CALLS: records(call_records(found))}
    return made | {name: as_bytes(drawn) for name, drawn in pictures(PLOT, where_time_goes(found)).items()}
