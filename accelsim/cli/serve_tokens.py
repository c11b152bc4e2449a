"""``accelsim serve`` for language models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from accelsim.cli import serve_capacity
from accelsim.cli.common import Number, option

if TYPE_CHECKING:
    from accelsim.errors import Gather
    from accelsim.files import Make
    from accelsim.report.answer import Answer

OPTIONS = {
    "lengths": option("--lengths", "Mean tokens of prompts and outputs, and how they spread: fixed, uniform or "
                      "lognormal.", "lognormal:1024,256", metavar="NAME:P,N[,cv=X]"),
    "prefix": option("--prefix", "Prompts that begin alike: share=0.5,tokens=512,groups=10.", "",
                     metavar="NAME=VALUE,..."),
    "plan": option("--plan", "How the devices of a replica share the model: tp=N, of tensors; ep=N, of experts; pp=N, "
                   "of layers.", "", metavar="PLAN"),
    "routing": option("--routing", "How popular experts are: uniform, even, power:EXPONENT or shares:4/2/1/1.", "",
                      metavar="ROUTING"),
    "disaggregate": option("--disaggregate", "Replicas for prompts and others for tokens: prefill=2xtp4,"
                           "decode=4xtp2ep4,over=LINK.", "", metavar="NAME=COUNTxtpNepN,..."),
    "speculate": option("--speculate", "Proposed tokens that are checked together: draft=MODEL or cost=0.1, tokens=4,"
                        "accept=0.7.", "", metavar="NAME=VALUE,..."),
    "adapters": option("--adapters", "LoRA: 32:rank=16,targets=qkvo,popularity=zipf:1,resident=8.", "", metavar="N:.."),
    "router": option("--router", "Replica that gets a request: round-robin or least-loaded.", "round-robin",
                     metavar="NAME"),
    "memory": option("--memory", "Share of a device's memory that is used.", 0.9, type=Number(0, 1, min_open=True)),
    "kv_dtype": option("--kv-dtype", "Number format of keys and values; default: that of activations.", ""),
    "stack": option("--stack", "Serving stack whose kernels run: vllm or tensorrt-llm.", "", metavar="NAME"),
}  # fmt: skip
"""Options of language models."""


def answer(
    gather: Gather, model: str, limits: dict[str, float], share: str | None, asked: dict[str, Any],
    out: Path | None, advice: bool, stage: Callable[[str, float], None],
) -> Answer:  # fmt: skip
    """Simulate a service of a language model, or search its capacity for a ``share``; ``asked``: options by name.
    ``out``: directory of the page, with ``advice`` or without."""
    from accelsim.cluster.step.costs import Setting
    from accelsim.report import service
    from accelsim.serving.asked import Question, served

    if asked["trace"]:
        refuse_beside_trace(gather, "load", "lengths", "requests")
    setting = Setting(**{name: asked.pop(name) for name in ("dtype", "kv_dtype", "stack", "site", "routing")})
    question = Question(model, setting=setting, **asked | {"scheduler": asked["scheduler"] or "vllm"})
    if share:
        return written(serve_capacity.of_tokens(gather, question, limits, share), out)
    made = service.answer(found := gather.read(lambda: served(question)), limits)
    if out is None:
        return made
    from accelsim.report.service_page import page_files

    return written(made, out, page_files(found, made, limits, advice, stage))


def refuse_beside_trace(gather: Gather, *names: str) -> None:
    """Keep options that were given beside a trace."""
    given = click.get_current_context().get_parameter_source
    for name in names:
        wrong = given(name) is ParameterSource.COMMANDLINE
        gather.refuse(wrong, "a trace beside it, which says all of its requests", f"--{name}", "one of them")


def written(answer: Answer, out: Path | None, more: Mapping[str, Make] = MappingProxyType({})) -> Answer:
    """Return an answer that is written to the directory of --out, with ``more`` files."""
    return replace(answer, other_files={out: {**answer.files(), **more}}) if out else answer
