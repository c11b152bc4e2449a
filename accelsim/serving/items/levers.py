"""Changes of a service of items, each simulated: what binds it, and what would help most."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from accelsim.serving.items.asked import Asked
from accelsim.serving.items.batcher import Cost
from accelsim.serving.items.flow import Flow
from accelsim.serving.items.rules import text_of
from accelsim.serving.levers import Lever


def levers(asked: Asked) -> Iterator[Lever[Flow]]:
    """Yield the changes that a service can have."""
    question, rules = asked.question, asked.rules
    count, cores = 2 * question.replicas, 2 * question.cores
    more = replace(asked, question=replace(question, replicas=count))
    yield Lever("chips", "twice as many chips", ("--replicas", f"{count}"), partial(more.run, asked.load))
    if asked.before.seconds + asked.after.seconds:
        more = replace(asked, question=replace(question, cores=cores))
        yield Lever("cores", "twice as many cores", ("--cores", f"{cores}"), partial(more.run, asked.load))
    for binds, change, faster in PARTS:
        yield Lever(binds, change, (), partial(asked.run, asked.load, change=faster))
    others = [("batches", "batches twice as large", rules._replace(most=2 * rules.most, prefer=()))]
    others += [("delay", "no waiting for larger batches", rules._replace(delay_s=0.0))] if rules.delay_s else []
    others += [("instances", "one more instance on each chip", rules._replace(instances=rules.instances + 1))]
    for binds, change, other in others:
        options = ("--scheduler", text_of(other))
        yield Lever(binds, change, options, partial(replace(asked, rules=other).run, asked.load))


def _chip(cost: Cost) -> Cost:
    return cost._replace(seconds=(cost.seconds + cost.transfer_s) / 2)


def _link(cost: Cost) -> Cost:
    half = cost.transfer_s / 2
    return cost._replace(seconds=cost.seconds - half, transfer_s=half, link_s=cost.link_s / 2)


PARTS: tuple[tuple[str, str, Callable[[Cost], Cost]], ...] = (
    ("chip", "a chip twice as fast", _chip),
    ("link", "a link to the host twice as fast", _link),
)
"""Faster parts: what binds a service that one helps, the change, and the cost of a batch with it."""
