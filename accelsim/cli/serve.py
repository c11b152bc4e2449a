"""``accelsim serve``: a service of a model under load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

from accelsim.cli import serve_capacity, serve_items
from accelsim.cli.answers import answers
from accelsim.cli.common import FILE, OUT, Number, flag, option, progress, set_option
from accelsim.errors import Gather
from accelsim.files import Make
from accelsim.report.answer import Answer


@answers(
    "accelsim serve llama3-8b --on h100-sxm --load poisson:8/s --lengths lognormal:1024,256",
    "accelsim serve llama2-70b --on 'dgx-h100?devices=4' --plan tp=4 --limit ttft=500ms,tpot=40ms",
    "accelsim serve resnet50 --on t4 --load poisson:400/s --scheduler dynamic:max=32,delay=2ms --before decode-jpeg",
    outputs="csv plot json",
)
@click.argument("model")
@option("--on", "A chip or a cluster: the devices of one replica.", required=True, metavar="NAME")
@option("--load", "How requests come: poisson:8/s, constant:8/s, gamma:8/s,cv=3, mmpp:8/s,burst=5, rates:day.csv, "
        "or closed:64 clients who wait for their answers.", "poisson:1/s", metavar="LOAD")  # fmt: skip
@option("--lengths", "Mean tokens of prompts and outputs, and how they spread: fixed, uniform or lognormal.",
        "lognormal:1024,256", metavar="NAME:P,N[,cv=X]")  # fmt: skip
@option("--trace", "Recorded requests in place of load and lengths: CSV or Mooncake's JSONL.", type=FILE)
@option("--prefix", "Prompts that begin alike: share=0.5,tokens=512,groups=10.", "", metavar="NAME=VALUE,...")
@option("--requests", "Requests in all.", 1000, least=1)
@option("--seed", "Seed of arrivals and lengths.", 0, least=0)
@option(
    "--plan", "How the devices of a replica share the model: tp=N, of tensors; ep=N, of experts.", "", metavar="PLAN"
)
@option("--routing", "How popular experts are: uniform, even, power:EXPONENT or shares:4/2/1/1.", "", metavar="ROUTING")
@option("--replicas", "Copies of the model, each on devices of its own.", 1, least=1)
@option("--disaggregate", "Replicas for prompts and others for tokens: prefill=2xtp4,decode=4xtp8,over=LINK.",
        "", metavar="NAME=COUNTxtpN,...")  # fmt: skip
@option("--speculate", "Proposed tokens that are checked together: draft=MODEL or cost=0.1, tokens=4,accept=0.7.", "",
        metavar="NAME=VALUE,...")  # fmt: skip
@option("--router", "Replica that gets a request: round-robin or least-loaded.", "round-robin", metavar="NAME")
@option("--scheduler", "What is computed together: vllm, vllm-v0, sarathi, sglang or static, such as vllm:budget=2048; "
        "for items dynamic:max=32,delay=2ms,instances=2,prefer=8/16,queue=100.", "",
        metavar="NAME[:KEY=VALUE,...]")  # fmt: skip
@serve_capacity.limits
@option("--memory", "Share of a device's memory that is used.", 0.9, type=Number(0, 1, min_open=True))
@option("--dtype", "Number format; default: that of the chip.", "")
@option("--kv-dtype", "Number format of keys and values; default: that of activations.", "")
@option("--stack", "Serving stack whose kernels run: vllm or tensorrt-llm.", "", metavar="NAME")
@serve_capacity.option
@option("--site", "Serving engine, network and tokenizer around the steps: vllm-server, or a file.", metavar="SITE")
@serve_items.options
@set_option(" of the chip or cluster")
@option("--out", "Directory for figures, pictures and, of language models, a page to explore: each request over time, "
        "what binds, what would help.", type=OUT)  # fmt: skip
@flag("--no-advice", "For the page: do not simulate changes of the service and other rates.")
def serve(
    gather: Gather, model: str, limits: dict[str, float], capacity: str | None, out: Path | None, no_advice: bool,
    **asked: Any,
) -> Answer:  # fmt: skip
    """Simulate a service of MODEL under load: requests arrive, wait, and run in batches.

    For language models a scheduler plans each step: which requests compute a token, which prompts join, and who gives
    way when the room for keys and values is full. Requests to other models are items: the host prepares them, and
    Triton's rules make batches of them. Latencies are given as mean and percentiles, with intervals.
    """
    from accelsim.cluster.step.costs import Setting
    from accelsim.cluster.step.transformer import transformer_of
    from accelsim.report.service import answer
    from accelsim.report.service_page import check_target, page_files
    from accelsim.serving.asked import Question, served

    with progress(1 + 2 * (out is not None and not no_advice)) as stage:
        stage("simulate", 0.0)
        gather.check(out, check_target)
        serve_items.refuse(gather, generates := transformer_of(model) is not None, model)
        if not generates:
            return written(serve_items.answer(gather, model, limits, capacity, asked), out)
        for name in serve_items.OPTIONS:
            del asked[name]
        setting = Setting(**{name: asked.pop(name) for name in ("dtype", "kv_dtype", "stack", "site", "routing")})
        question = Question(model, setting=setting, **asked | {"scheduler": asked["scheduler"] or "vllm"})
        if capacity:
            return written(serve_capacity.of_tokens(gather, question, limits, capacity), out)
        made = answer(found := gather.read(lambda: served(question)), limits)
        if out is None:
            return made
        return written(made, out, page_files(found, made, limits, not no_advice, stage))


def written(answer: Answer, out: Path | None, more: Mapping[str, Make] = MappingProxyType({})) -> Answer:
    """Return an answer that is written to the directory of --out, with ``more`` files."""
    return replace(answer, other_files={out: {**answer.files(), **more}}) if out else answer
