"""``accelsim run``: simulate a model on a chip or a cluster and say what happened."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from accelsim.cli.answers import answers
from accelsim.cli.cluster_options import cluster_options, on_cluster
from accelsim.cli.common import FILE, OUT, count_or_all, flag, option, png_option
from accelsim.cli.groups import Grouped
from accelsim.cli.options import run_options
from accelsim.errors import Gather
from accelsim.report.answer import Answer


@answers(
    "accelsim run resnet50 --on tpu-v1 --out reports/resnet50-tpu-v1",
    "accelsim run my-model.onnx --on neuroncore-v2 --dtype bf16 --shape tokens=1,128 --check",
    "accelsim run 'gemm?M=64,N=512,K=512' --on my-chip.yaml --set 'clock=1 GHz' --json",
    "accelsim run cnn --on edu-mixed --dtype int4 --layer-dtype conv1=fp16 --ranges mse --sparsity 2:4",
    "accelsim run 'llama2-7b?prompt=512,new=128' --on lambda:gpu-1x-h100-sxm5 --values off",
    "accelsim run resnet50 --on a100-80-sxm --train --batch 64 --values off",
    "accelsim run gpt3 --on 128x-dgx-a100 --plan tp=8,pp=8,dp=16,recompute=full --train --batch 1536 --values off",
    "accelsim run 'mlp?inputs=16,hidden=8' --on 4x-edu --plan dp=2,pp=2 --train --whole --batch 8 --values off",
    "accelsim run resnet50 --on 8x-t4-pcie --plan dp=8 --train --batch 256 --tune-gradients --values off",
    cls=Grouped,
    outputs="json csv",
    helps={"csv": "Write the figures of the run, of several, or of the calls of a generation, to this file."},
)
@click.argument("model")
@run_options
@cluster_options
@option("--prices own", "Your own prices of instances, for the bill (see docs/prices.md).", type=FILE)
@option("--save-mapping", "Write the mapping of every layer to this file.", type=OUT)
@option("--save-trace", "Write every DRAM access to this .npz file (models pattern and bank).", type=OUT)
@flag(
    "--check",
    "Compare every tensor with a second execution: floats with ONNX Runtime within a bound that depends "
    "on the format, integers with plain arithmetic to the last bit. Exit code 1 if one differs.",
)
@option(
    "--out",
    "Directory for the report: tables, ledger, timeline, plots, one HTML page. For a "
    "prompt and new tokens: figures, calls, a plot, and the reports of two calls.",
    type=OUT,
)
@png_option
@flag("--no-advice", "Do not simulate changes of the chip to find those that help most.")
@option(
    "--layers", "Rows of the table: the layers that add most time, or all in their order.", "10", metavar="N|all",
    callback=count_or_all,
)  # fmt: skip
def run(gather: Gather, **asked: Any) -> Answer:
    """Simulate MODEL (an ONNX file, a name from 'accelsim models', or a topology CSV) on a chip.

    Prints a table of the layers, a summary, where time and energy went in plain words, and which changes of the chip
    would shorten the run most: each is simulated without values, which takes as long as such a run. A decoder with
    prompt=P and new=N ('llama2-7b?prompt=512,new=128') runs the prompt and then token by token: time to the first
    token, tokens per second, energy per token. With --train, a training step is simulated. On a cluster (see
    'accelsim clusters') both run by a parallel --plan. On an instance ('accelsim prices') you are told what it costs.
    """
    named, own = asked["on"], asked.pop("own")
    if ":" not in "".join(named):
        gather.refuse(own, "--prices without an instance", "--on", "such as aws:p5.48xlarge")
        return _simulated(gather, **asked)
    from accelsim.report.bill import billed, stand_ins

    asked["on"] = stand_ins(named, own)
    return billed(_simulated(gather, **asked), *named, prices=own)


def _simulated(gather: Gather, **asked: Any) -> Answer:
    module = import_module(f"accelsim.cli.{'run_cluster' if on_cluster(asked) else 'run_chip'}")
    answer: Answer = module.answer(gather, **asked)
    return answer
