"""Changes that would make a step shorter: changes of plan and cluster, each simulated before anything is said of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from accelsim.cluster.schedules.registry import SCHEDULES
from accelsim.cluster.step.asked import Ready
from accelsim.cluster.step.fleet import Fleet
from accelsim.cluster.step.result import StepResult
from accelsim.cluster.step.step import step_s
from accelsim.cluster.step.work import recomputes
from accelsim.errors import Infeasible, UsageError


class WhatIf(NamedTuple):
    """A change in words, what of the command line makes it ('' for hardware that is not there), the step with it."""

    change: str
    option: str
    time_s: float
    saved: float


def changes(asked: Ready, found: StepResult) -> Iterator[tuple[str, str, Ready]]:
    """Changes that could help, each with its option and what is run for it: links and devices twice as fast, and other
    fields of the plan."""
    fleet, plan, each = asked.fleet, asked.plan, asked.batch // asked.plan.dp
    wired = {wire.link for wire in fleet.topology.wires}
    for link in filter(wired.__contains__, found.by_link_B):
        yield f"links {link} twice as fast", "", asked._replace(fleet=faster(fleet, link))
    paces = tuple(2 * pace for pace in fleet.speeds)
    yield "devices twice as fast", "", asked._replace(fleet=fleet.with_speeds(paces))
    if any(pace != 1.0 for pace in fleet.speeds):
        even = fleet.with_speeds((1.0,) * fleet.size)
        yield "no device slower than its chip", "", asked._replace(fleet=even)
    others: list[tuple[str, dict[str, object]]] = []
    for name, entry in SCHEDULES.items():
        if entry.synchronous and plan.pp > 1 and name != plan.schedule:
            chunks, text = (2, " with chunks=2") if entry.chunked else (1, "")
            others.append((f"schedule {name}{text}", {"schedule": name, "chunks": chunks}))
    for name in recomputes(asked.work, fleet.flash):
        if name != plan.recompute:
            others.append((f"recompute {name}", {"recompute": name}))
    for count in (2 * plan.microbatches, plan.microbatches // 2):
        if count and each % count == 0:
            others.append((f"microbatches of {each // count}", {"microbatches": count}))
    if plan.tp > 1 and not plan.sp:
        others.append(("sequence parallelism", {"sp": True}))
    if plan.dp > 1 and not plan.zero:
        others.append(("states of the optimiser shared out", {"zero": 1}))
    for text, fields in others:
        changed = replace(plan, **fields)  # type: ignore[arg-type]
        yield text, f"--plan {changed}", asked._replace(plan=changed)


def what_ifs(
    asked: Ready, found: StepResult, progress: Callable[[float], None] = lambda share: None
) -> list[WhatIf]:
    """Return those that can be done and fit, the one that saves most first."""
    made, tried = [], list(changes(asked, found))
    for number, (text, option, ready) in enumerate(tried):
        progress(number / len(tried))
        with suppress(UsageError, Infeasible):
            time_s = step_s(*ready)
            made.append(WhatIf(text, option, time_s, 1 - time_s / found.time_s))
    return sorted(made, key=lambda each: -each.saved)


def faster(fleet: Fleet, link: str, times: int = 2) -> Fleet:
    """The fleet with the wires of a link so many times as fast."""
    return fleet.with_topology(fleet.topology.with_faster(link, times))
