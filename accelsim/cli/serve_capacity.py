"""``accelsim serve`` with limits, and the highest rate at which enough requests keep them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from accelsim.cli import common

if TYPE_CHECKING:
    from accelsim.errors import Gather
    from accelsim.report.answer import Answer
    from accelsim.serving.asked import Question
    from accelsim.serving.items.asked import Question as OfItems


def _limits(context: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> dict[str, float]:
    from accelsim.limits import read_limits

    return read_limits(texts, {"ttft": "s", "tpot": "s", "e2e": "s"})


limits = common.option(
    "--limit limits",
    "Latencies that requests should keep: ttft=500ms,tpot=40ms,e2e=10s.",
    multiple=True,
    callback=_limits,
    metavar="NAME=TIME,...",
)
option = common.option(
    "--capacity",
    "Find the highest rate at which this share of the requests (99%) keeps --limit.",
    is_flag=False,
    flag_value="99%",
    metavar="[SHARE]",
)


def of_tokens(gather: Gather, question: Question, limits: dict[str, float], text: str) -> Answer:
    """Search the capacity of a service of a language model; ``text``: share of the requests that keep the limits."""
    from accelsim.report import capacity as report
    from accelsim.serving import capacity
    from accelsim.serving.asked import served
    from accelsim.serving.measures import probe

    share = capacity.wanted(gather, text, question.load, limits, question.trace is not None)
    made = gather.read(lambda: served(question))
    found = capacity.search(lambda rate: probe(made.at_rate(rate).service, limits, rate), share, made.load.rate)

    def slow(rate: float) -> capacity.Probe:
        return probe(made.at_rate(rate).run_at(1, made.factors), limits, rate)

    first = found.below.rate if found.below else made.load.rate
    ends = capacity.search(slow, share, first, curve=False) if made.factors else None
    return report.answer(found, limits, report.facts(question), ends)


def of_items(gather: Gather, question: OfItems, limits: dict[str, float], text: str) -> Answer:
    """Search the capacity of a service of another model, also if all batches take as long as they may."""
    from accelsim.report import capacity as report
    from accelsim.serving import capacity
    from accelsim.serving.items.asked import read
    from accelsim.serving.items.measures import probe

    share = capacity.wanted(gather, text, question.load, limits, question.trace is not None)
    made = gather.read(lambda: read(question))

    def search(factor: float, curve: bool) -> capacity.Capacity:
        first = made.bounds_of(factor).rate
        return capacity.search(lambda rate: probe(made, limits, rate, factor), share, first, curve)

    ends = made.times.ends(made.full)
    return report.answer(search(1.0, True), limits, report.facts(question), ends and search(ends[1], False))
