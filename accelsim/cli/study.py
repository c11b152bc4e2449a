"""``accelsim study``: chips side by side under one question."""

from __future__ import annotations

import click

from accelsim.cli.answers import answers
from accelsim.cli.batching import parsed_batches
from accelsim.cli.common import example, option, progress
from accelsim.cli.study_service import service
from accelsim.errors import Gather
from accelsim.report.answer import Answer


def _names(context: click.Context, option: click.Parameter, text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


chips_option = option("--on chips", "Chips, or their YAML files.", required=True, callback=_names, metavar="A,B,...")


@click.group(
    epilog=example(
        "accelsim study precision resnet50 --on t4,a100-80-sxm --batch 64",
        "accelsim study crossover resnet50 --on haswell-e5-2699v3,t4 --batches 1,16",
    )
)
def study() -> None:
    """Chips side by side under one question: a table, sentences and a picture."""


@answers(
    "accelsim study precision resnet50 --on v100-sxm2-16,t4,a100-80-sxm,h100-sxm --batch 64 --plot ladder.png",
    "accelsim study precision bert-base --on t4,a30 --dtypes fp32,fp16,int8",
    outputs="csv plot json",
    make=study.command,
)
@click.argument("model")
@chips_option
@option("--dtypes", "Number formats, from wide to narrow; a chip runs those that it has.",
        "fp32,tf32,bf16,fp16,fp8_e4m3fn,int8,int4", callback=_names, metavar="F,F,...")  # fmt: skip
@option("--batch", "Batch size.", 1, least=1)
def precision(gather: Gather, model: str, chips: tuple[str, ...], dtypes: tuple[str, ...], batch: int) -> Answer:
    """Time and energy of MODEL in every number format of each chip, and the error of a product there.

    The error is computed: Gaussian operands, K = 1024, each chip by its own rule of sums, against FP32.
    """
    from accelsim.explore import studies
    from accelsim.report import studies as said

    gather.done()
    with progress(1) as stage:
        return said.precision(studies.precision(model, chips, dtypes, batch, lambda share: stage("simulate", share)))


@answers(
    "accelsim study crossover resnet50 --on haswell-e5-2699v3,t4,a100-80-sxm --batches 1,4,16,64 --plot crossover.png",
    outputs="csv plot json",
    make=study.command,
)
@click.argument("model")
@chips_option
@option("--batches", "Batch sizes.", "1,2,4,8,16,32,64", callback=parsed_batches, metavar="N,N,...")
@option("--dtype", "Operand format; without: the one that each chip prefers.", "")
def crossover(gather: Gather, model: str, chips: tuple[str, ...], batches: tuple[int, ...], dtype: str) -> Answer:
    """Find the batch size from which each chip is faster than the first, transfers to and from the host included."""
    from accelsim.explore import studies
    from accelsim.report import studies as said

    gather.done()
    with progress(1) as stage:
        return said.crossover(studies.crossover(model, chips, batches, dtype, lambda share: stage("simulate", share)))


study.add_command(service)
