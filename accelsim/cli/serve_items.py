"""``accelsim serve`` for models that answer one item at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from accelsim.cli import serve_capacity, serve_tokens
from accelsim.cli.common import Number, option

if TYPE_CHECKING:
    from accelsim.errors import Gather
    from accelsim.report.answer import Answer


OPTIONS = {
    "before": option("--before", "Work of the host before the chip: decode-jpeg, resize, normalise, tokenise, 3ms; "
                     "keep=30%: share of requests that need the chip.", "", metavar="WORK,..."),
    "after": option("--after", "Work of the host after the chip: top5, nms, 1ms.", "", metavar="WORK,..."),
    "cores": option("--cores", "Cores of the host.", 8, least=1),
    "timeout": option("--timeout", "Age from which on no work begins for a request: 100ms.", "", metavar="TIME"),
    "edges": option("--edges", "Where inputs become codes: on the host, which takes time, or outside the service.", "",
                    metavar="host|outside"),
    "inputs": option("--inputs", "Memory in which requests are when their batch begins: that of the host, or of the "
                     "device, to which a network card writes.", "host", metavar="host|device"),
    "longest": option("--longest", "Tokens of the longest request of a batch: kernels of attention compute so many for "
                      "all of it.", 0, least=0),
    "urgent": option("--urgent", "Share of requests that go before the others.", 0.0, type=Number(0, 1)),
}  # fmt: skip
"""Options of models that answer one item at a time."""


def answer(
    gather: Gather, model: str, limits: dict[str, float], share: str | None, asked: dict[str, Any],
    out: Path | None, advice: bool, stage: Callable[[str, float], None],
) -> Answer:  # fmt: skip
    """Simulate a service of a model that answers one item at a time, or search its capacity for a ``share``; ``asked``:
    options by name. ``out``: directory of the page, with ``advice`` or without."""
    from dataclasses import fields

    from accelsim.report import service_items
    from accelsim.serving.items.asked import Question, served

    if asked["trace"]:
        serve_tokens.refuse_beside_trace(gather, "load", "requests", "urgent")
    known = {each.name for each in fields(Question)}
    question = Question(model, **{name: value for name, value in asked.items() if name in known})
    gather.refuse(limits.keys() - {"e2e"}, "a limit of tokens", "--limit", f"e2e=15ms: {model} has no tokens")
    if share is not None:
        return serve_tokens.written(serve_capacity.of_items(gather, question, limits, share), out)
    made = service_items.answer(found := gather.read(lambda: served(question)), limits)
    if out is None:
        return made
    from accelsim.report.items_page import page_files

    return serve_tokens.written(made, out, page_files(found, made, limits, advice, stage))


def refuse(gather: Gather, generates: bool, model: str) -> None:
    """Keep what was given and has no meaning for a model. ``generates``: it is a language model."""
    context = click.get_current_context()
    kind, other = ("a language model", "another model") if generates else ("no language model", "a language model")
    for param in context.command.params:
        name = param.name or ""
        wrong = name in (OPTIONS if generates else serve_tokens.OPTIONS)
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        gather.refuse(wrong and given, f"{model} is {kind}", param.opts[0], other)
