"""A search for plans as tables, sentences, rows and a picture."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from functools import partial
from math import prod

from accelsim.cluster.partition.assign import Assigned
from accelsim.cluster.step.result import PARTS, StepResult
from accelsim.cluster.step.search import Found
from accelsim.errors import count_of, memory_text
from accelsim.report import intervals
from accelsim.report.answer import Answer, Field, Part, Table, column, in_unit
from accelsim.report.cluster.looks import PARTS as LOOKS
from accelsim.report.picture import Axis, Panel, Picture, points, rule
from accelsim.report.step import binding
from accelsim.report.style import GREY, INK
from accelsim.report.text import interval_text, percent, si, times_as

MEMORY = "memory"
WHY = {MEMORY: "the devices have too little memory", **PARTS}
"""Why a plan loses -> in words."""


def _degree(result: StepResult) -> str | int:
    return f"{result.plan.tp}, sp" if result.plan.sp else result.plan.tp


def _order(result: StepResult) -> str:
    plan = result.plan
    return f"{plan.schedule} x{plan.chunks}" if plan.chunks > 1 else plan.schedule


def _most(result: StepResult) -> str:
    name = binding(result)
    return f"{name} {percent(result.parts_fs[name] / result.time_fs)}" if name else "nothing"


BEST = (
    column("dp", lambda step: step.plan.dp),
    column("tp", _degree),
    column("pp", lambda step: step.plan.pp),
    column("m", lambda step: step.plan.microbatches),
    column("schedule", _order),
    column("zero", lambda step: step.plan.zero),
    column("recompute", lambda step: step.plan.recompute),
    column("time", lambda step: si(step.time_s, "s")),
    column("MFU", lambda step: percent(step.mfu)),
    column("memory", lambda step: memory_text(step.fullest.memory.peak_B)),
    column("energy", lambda step: si(step.total_J, "J")),
    column("besides", _most),
)
"""``m``: microbatches; after ``tp`` whether sequences are split too, after ``schedule`` the chunks of each device."""


def best_plans(found: Found) -> Answer:
    """Report the best plans, and why the others lose; the CSV file has all that were looked at."""
    said = sentences(found)
    facts = {
        "plans": len(found.looked),
        "loses_by": found.why,
        "sentences": said,
        "alike": found.alike[0],
        "alike_within": found.alike[1],
        "best": [result.as_dict() for result in found.best],
    }
    shown: list[Part] = [Table(BEST, found.best), "", " ".join(said)]
    return Answer(facts, shown, list(_records(found)), {"plans": partial(plans_figure, found)})


def sentences(found: Found) -> list[str]:
    """Return how many plans there are, what the best is, why others lose."""
    best, total = found.best[0], len(found.looked)
    told = [
        f"The best of {count_of(total, 'valid plan')} is {best.plan}: {si(best.time_s, 's')} per step"
        f"{interval_text(best.interval)} at {percent(best.mfu)} of the peak."
    ]
    told += [*intervals.sentences(best.interval, "the step"), *_alike(found)]
    if found.why:
        reasons = ", ".join(f"{count:,} by {name} ({WHY[name]})" for name, count in found.why.items())
        told.append(f"Why the others lose: {reasons}.")
    return told


def _alike(found: Found) -> Iterator[str]:
    """Return which of the first plans cannot be told apart."""
    many, factor = found.alike
    if factor > 1:
        which = f"Plans 1 to {many} cannot be told apart" if many > 1 else "The first plan is faster than the others"
        yield f"{which}: {intervals.order_text(found.order, factor)}."


def _records(found: Found) -> Iterator[dict[str, object]]:
    """A row for each plan that was looked at, for CSV: estimates, and the simulated time of the best."""
    times = {result.plan: result for result in found.best}
    for each in found.looked:
        result = times.get(each.plan)
        yield {
            "plan": str(each.plan),
            "simulated_s": result.time_s if result else "",
            "estimate_s": each.bound.time_s,
            "estimate_J": each.bound.energy_J,
            "peak_B": each.bound.peak_B,
            "capacity_B": each.bound.capacity_B,
            "loses_by": each.why,
        }


STAGES = (
    Field("stage", "stage"),
    column("layers", lambda row: f"{row['first_layer']} to {row['last_layer']}"),
    Field("replicas", "replicas", "{:,}".format),
    Field("compute_s", "one minibatch", in_unit("s")),
)


def stages(found: Assigned) -> Answer:
    """Report the stages that PipeDream's optimiser chooses."""
    rows = list(found.rows())
    return Answer(found.as_dict(), [Table(STAGES, rows), "", " ".join(stage_sentences(found))], rows)


def stage_sentences(found: Assigned) -> list[str]:
    """Return how long a minibatch takes by the optimiser's own model, and how that compares."""
    best, devices = found.partition, prod(found.machines)
    stages = count_of(len(best.stages), "stage")
    told = [
        f"PipeDream's optimiser cuts {found.model} into {stages} on {count_of(devices, 'device')} of {found.cluster}: "
        f"{si(best.time_s, 's')} per minibatch by its own model, {times_as(best.speedup)} fast as one device and "
        f"{times_as(best.speedup_over_data_parallel)} fast as data parallelism on all of them. The model leaves "
        "out latencies, overlap and bubbles."
    ]
    replicas = {row["replicas"] for row in found.rows()}
    if len(replicas) == 1 and found.samples and len(best.stages) * max(replicas) == devices:
        plan = f"pp={len(best.stages)},dp={max(replicas)},schedule=pipedream"
        command = shlex.join(["accelsim", "run", found.model, "--on", found.cluster, "--plan", plan, "--train"])
        told.append(f"To simulate such a plan, use: {command}.")
    return told


def plans_figure(found: Found) -> Picture:
    """Draw every plan: time of a step against the memory of its fullest device, coloured by what it loses by."""
    marks = [rule(x=found.looked[0].bound.capacity_B, linewidth=1)]
    for name in [*found.why, ""]:
        mine = [each.bound for each in found.looked if each.why == name]
        label = f"loses by {name}: {len(mine):,}" if name else f"the best {len(mine):,}"
        color = LOOKS[name].color if name in LOOKS else OTHERS[name]
        marker, size, faint = ("o", 3, 0.6) if name else ("*", 8, 1.0)
        look = {"ms": size, "zorder": 3 - bool(name), "alpha": faint, "markeredgewidth": 0}
        marks.append(
            points([each.peak_B for each in mine], [each.time_s for each in mine], label, color, marker, **look)
        )
    best = found.best[0]
    x = Axis("memory of the fullest device; the line is what it has", "B", "log")
    y = Axis("time of a step, estimated", "s", "log")
    title = f"Plans for {best.model} on {best.cluster}, a batch of {best.batch:,}"
    return Picture(4.6, [Panel(title, marks, x, y)], legend=4)


OTHERS = {MEMORY: GREY, "": INK}
"""Colours of what is no part of a step: what does not fit, the best."""
