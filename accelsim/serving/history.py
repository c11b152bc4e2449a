"""History of a service: what each request did when, what replicas drew, and whom its time and energy are for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from accelsim.serving.asked import Served
from accelsim.serving.replicas import Group
from accelsim.serving.service import Service
from accelsim.serving.steps import Steps
from accelsim.types import Array

WAITS, PROMPT, TOKENS = range(3)
"""Kinds of spans: a request waits, its prompt (or what it lost) is computed, its tokens come out."""


TINY_S = 1e-12
"""Time that rounding may leave between spans."""


class Span(NamedTuple):
    """Part of the time of a request, s."""

    kind: int
    start_s: float
    end_s: float


def spans(service: Service) -> list[list[Span]]:
    """Return the spans of each request, in order of time; they follow each other from its arrival to its last token.
    Keys and values that move to another replica count as its tokens."""
    events: list[list[tuple[float, float]]] = [[] for _ in service.sequences]
    for steps in service.steps:
        for number, start_s, end_s in zip(steps.number, steps.from_s, steps.to_s, strict=True):
            events[number].append((start_s, end_s))
    return [
        [*_spans(each.request.arrival_s, sorted(found), each.last_s)]
        for each, found in zip(service.sequences, events, strict=True)
    ]


def _spans(arrival_s: float, events: Sequence[tuple[float, float]], last_s: float) -> Iterator[Span]:
    """Yield the spans of a request. ``events``: start and end of the steps that computed more than a next token; where
    both are equal, it lost its blocks."""
    now_s = arrival_s
    for at, (start_s, end_s) in enumerate(events):
        if start_s == end_s:
            continue
        if start_s - now_s > TINY_S:
            yield Span(WAITS, now_s, start_s)
        yield Span(PROMPT, start_s, end_s)
        now_s, (next_s, until_s) = end_s, events[at + 1] if at + 1 < len(events) else (last_s, last_s)
        if next_s == until_s and next_s > now_s:
            yield Span(TOKENS, now_s, next_s)
            now_s = next_s


def watts(found: Served, parts: int) -> tuple[Array, Array]:
    """Return the ends of equal parts of the time of a service, s, and the power of all its devices in each, W."""
    service = found.service
    edges = np.linspace(0.0, service.span_s, parts + 1)
    joules = np.full(parts, edges[1] * sum(each.count * each.static_W for each in found.groups))
    for steps in service.steps:
        ends, seconds = steps.column("end_s"), steps.column("seconds")
        times = np.stack([ends - seconds, ends], 1).ravel()
        total = np.cumsum(np.stack([np.zeros(len(ends)), steps.column("joules")], 1).ravel())
        joules += np.diff(np.interp(edges, times, total, left=0.0)) if len(ends) else 0.0
    return edges[1:], joules / edges[1]


class Shares(NamedTuple):
    """Seconds of devices and joules of a service that are for tokens of prompts, and those for new tokens. Idle time is
    shared as the time in which a replica works, and the joules of a step as its time."""

    prompts_s: float
    tokens_s: float
    prompts_J: float
    tokens_J: float


def shares(groups: Sequence[Group], service: Service) -> Shares:
    """Return who the time and the energy of a service on replicas are for; keys and values that move count as
    prompts."""
    every = [_of_replica(group, steps, service.span_s) for group, steps in replicas(groups, service)]
    found = Shares(*np.sum(every, 0).tolist())
    return found._replace(prompts_J=found.prompts_J + service.moved_J)


def replicas(groups: Sequence[Group], service: Service) -> Iterator[tuple[Group, Steps]]:
    """Return each scheduler's group and steps."""
    return zip([each for each in groups for _ in range(each.schedulers)], service.steps, strict=True)


def _of_replica(group: Group, steps: Steps, span: float) -> Shares:
    seconds, joules = steps.column("seconds"), steps.column("joules")
    prompts_s, step_J = steps.of_prompts
    prompts = float(prompts_s / seconds.sum()) if len(seconds) else 0.0
    plan = group.times.plan
    total_J, devices_s = group.static_W * span / plan.pp, plan.devices * span / plan.pp
    return Shares(
        devices_s * prompts, devices_s * (1 - prompts), total_J * prompts + step_J,
        total_J * (1 - prompts) + float(joules.sum()) - step_J,
    )  # fmt: skip
