"""``accelsim serve``: a service of a model under load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from accelsim.cli import serve_capacity, serve_items, serve_tokens
from accelsim.cli.answers import answers
from accelsim.cli.common import FILE, OUT, add_options, flag, option, progress, set_option
from accelsim.errors import Gather
from accelsim.report.answer import Answer


@answers(
    "accelsim serve llama3-8b --on h100-sxm --load poisson:8/s --lengths lognormal:1024,256",
    "accelsim serve llama2-70b --on 'dgx-h100?devices=4' --plan tp=4 --limit ttft=500ms,tpot=40ms",
    "accelsim serve llama3-70b --on aws:p5.48xlarge --plan tp=8 --load poisson:4/s",
    "accelsim serve resnet50 --on t4 --load poisson:400/s --scheduler dynamic:max=32,delay=2ms --before decode-jpeg",
    outputs="csv plot json",
)
@click.argument("model")
@option("--on", "A chip or a cluster: the devices of one replica.", required=True, metavar="NAME")
@option("--load", "How requests come: poisson:8/s, constant:8/s, gamma:8/s,cv=3, mmpp:8/s,burst=5, rates:day.csv, "
        "or closed:64 clients who wait for their answers.", "poisson:1/s", metavar="LOAD")  # fmt: skip
@option("--trace", "Recorded requests in place of a load, CSV or JSONL: arrival_s; for language models prompt, output "
        "(or Azure's and Mooncake's columns), for items perhaps class or priority, and items.", type=FILE)  # fmt: skip
@option("--requests", "Requests in all.", 1000, least=1)
@option("--seed", "Seed of arrivals and lengths.", 0, least=0)
@option("--replicas", "Copies of the model, each on devices of its own.", 1, least=1)
@option("--scheduler", "What is computed together: vllm, vllm-v0, sarathi, sglang or static, such as vllm:budget=2048; "
        "for items dynamic:max=32,delay=2ms,instances=2,prefer=8/16,queue=100.", "",
        metavar="NAME[:KEY=VALUE,...]")  # fmt: skip
@add_options(serve_tokens.OPTIONS)
@serve_capacity.limits
@option("--dtype", "Number format; default: that of the chip; checkpoint: those of a language model's own weights, "
        "such as MXFP4 experts beside 16 bits.", "")  # fmt: skip
@serve_capacity.option
@add_options(serve_items.OPTIONS)
@option("--site", "Host and software around the chips, a file or a name: vllm-server adds the engine, the network and "
        "the tokenizer of a language model's service.", metavar="SITE")  # fmt: skip
@option("--prices", "Your own prices of instances (see docs/prices.md); they go before those that ship.", type=FILE)
@set_option(" of the chip or cluster")
@option("--out", "Directory for figures, pictures and a page to explore: each request over time, what binds, what "
        "would help.", type=OUT)  # fmt: skip
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
    from accelsim.cluster.step.transformer import transformer_of

    with progress(1 + 2 * (out is not None and not no_advice)) as stage:
        stage("simulate", 0.0)
        gather.check(out, _check_target)
        serve_items.refuse(gather, generates := transformer_of(model) is not None, model)
        for name in serve_items.OPTIONS if generates else ():
            del asked[name]
        if generates:
            return serve_tokens.answer(gather, model, limits, capacity, asked, out, not no_advice, stage)
        return serve_items.answer(gather, model, limits, capacity, asked, out, not no_advice, stage)


def _check_target(folder: Path) -> None:
    """Raise UsageError where no report can be written into the directory. A page needs many modules, an answer none."""
    from accelsim.report.service_page import check_target

    check_target(folder)
