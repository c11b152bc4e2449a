"""``accelsim choose``: which hardware serves a model within limits, cheapest, fastest, with least energy."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import click

from accelsim.cli.answers import answers
from accelsim.cli.common import FILE, OUT, flag, large_count, option, progress
from accelsim.errors import Gather
from accelsim.report.answer import Answer
from accelsim.spec.instance import Term


def _split(context: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part.strip() for text in texts for part in text.split(",") if part.strip())


@answers(
    "accelsim choose resnet50 --limit latency=10ms --objective cost",
    "accelsim choose 'llama2-70b?prompt=2048,new=256' --limit ttft=1s,tpot=50ms --on gpus",
    "accelsim choose llama3-8b --limit ttft=1s,tpot=50ms --load poisson:20/s",
    "accelsim choose 'gpt3?layers=96' --train --tokens 300e9 --limit days=30 --providers aws,azure,gcp",
    outputs="out csv plot json",
    helps={"out": "Folder for all pictures: choice and loads, as PNG and SVG."},
)
@click.argument("model")
@option(
    "--limit limits", "Limits: latency, ttft, tpot, throughput, tokens, days, energy, power, cost, accuracy. "
    "Repeatable.", multiple=True, metavar="NAME=VALUE,...",
)  # fmt: skip
@option("--objective", "What decides: cost, latency, throughput or energy.", "cost", metavar="NAME")
@option("--on", "Chips, clusters, instances, 'gpus' or 'all'; default: what is for rent.", multiple=True,
        callback=_split, metavar="NAME,...")  # fmt: skip
@option("--dtype dtypes", "Number formats; default: each chip's fastest of 16 bits or more.",
        multiple=True, callback=_split, metavar="NAME,...")  # fmt: skip
@option("--batch", "This batch alone; in training 512 sequences unless given.", least=1)
@option("--load", "Choose for a service: how requests come, such as poisson:20/s; 99 of 100 keep the limits.", "",
        metavar="LOAD")  # fmt: skip
@option("--lengths", "With --load: mean tokens of prompts and outputs, and how they spread.", "lognormal:1024,256",
        metavar="NAME:P,N[,cv=X]")  # fmt: skip
@option("--scheduler schedulers", "With --load: schedulers that compete; default: vllm and vllm:budget=512. "
        "Repeatable.", multiple=True, metavar="NAME[:KEY=VALUE,...]")  # fmt: skip
@option("--requests", "With --load: requests that are simulated; default: those of a minute, at least 1,000.", least=1)
@flag("--train", "Choose for training.")
@option("--tokens", "With --train: tokens of the whole training, such as 300e9.", callback=large_count, metavar="N")
@option("--providers", "Offers of these alone.", multiple=True, callback=_split, metavar="NAME,...")
@option("--term", "Kind of price.", "on-demand", type=click.Choice(get_args(Term)))
@option("--prices", "Your own prices, in front of those that ship.", type=FILE)
@option("--data", "Labelled samples for a limit of accuracy: digits or FILE.npz.", "digits", metavar="NAME")
@option("--store", "File that keeps every result; default: one in the cache folder.", type=OUT)
@option("--workers", "Processes of this machine.", 1, least=1)
def choose(
    gather: Gather, model: str, limits: tuple[str, ...], store: Path | None, workers: int, **asked: Any
) -> Answer:
    """Choose the hardware for MODEL: the cheapest, the fastest, the one with least energy within limits.

    Chips and clusters for rent compete in their number formats, batches or plans. Bounds drop what cannot win, the
    others are simulated, and every result is kept. You are told how sure the choice is and why the others lose.
    """
    from accelsim.explore.choose.checks import with_limits
    from accelsim.explore.choose.question import Question
    from accelsim.report.choose import answer, opened

    question = gather.read(lambda: with_limits(Question(model, **asked), limits))
    with progress(1) as stage:

        def told(done: int, every: int) -> None:
            stage(f"{done:,} of {every:,} candidates", done / every)

        return answer(question, opened(store), workers, told)
