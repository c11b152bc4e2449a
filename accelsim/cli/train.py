"""``accelsim train``: train a small model in the formats of a chip, or on a cluster by a plan; what a step costs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from accelsim.cli.answers import answers
from accelsim.cli.cluster_options import plan_options
from accelsim.cli.common import OUT, check_file_target, option, progress
from accelsim.cli.groups import Grouped
from accelsim.cli.options import limit_options
from accelsim.errors import Gather
from accelsim.report.answer import Answer


@answers(
    "accelsim train digits-mlp --steps 300 --plot loss.png",
    "accelsim train digits-mlp --steps 300 --on neuroncore-v2 --precision mixed-bf16",
    "accelsim train digits-cnn --steps 400 --qat int4 --out digits.onnx",
    "accelsim train digits-cnn --on 4x-edu --plan dp=2,pp=2 --schedule 1f1b --microbatches 4 --steps 20",
    "accelsim train gpt --on 4x-edu --plan dp=2,tp=2 --optimiser adam --steps 20",
    outputs="csv plot json",
    cls=Grouped,
    helps={
        "csv": "Write loss and loss scale of each step to this file.",
        "plot": "Draw the loss: FILE.png or FILE.svg.",
    },
)
@click.argument("model")
@option("--on", "Chip for a simulated step, or cluster that trains: a name or a YAML file.", metavar="CHIP|CLUSTER")
@plan_options
@option("--compare", "On a cluster: train by these methods too.", "", metavar="plain,local-sgd,pipedream")
@option(
    "--data",
    "Samples and labels: x_train, y_train, x_test, y_test, or x and y; for a language model text, token numbers in a "
    "row. Default: digits; for a language model sums.",
    "",
    metavar="digits|sums|FILE.npz",
)
@option("--steps", "Batches to train on.", 300, type=int)
@option("--batch", "Samples per step; default: 64.", least=1)
@option("--lr", "Learning rate; default: 0.05 for sgd, 0.001 for adam.", type=float)
@option("--optimiser --optimizer", "Update rule; sgd has momentum 0.9.", "sgd", metavar="sgd|adam")
@option(
    "--precision",
    "mixed: products in fp16, weights in fp32; fp16 and bf16: both in that format.",
    "fp32",
    metavar="fp32|mixed|mixed-bf16|fp16|bf16",
)
@option("--loss-scale", "Against underflow; default: dynamic for mixed, fp16.", "", metavar="dynamic|none|NUMBER")
@option("--qat", "Quantisation-aware: format, or weights x activations.", "", metavar="int8|int4|int2|int1|int4xint8")
@option("--edges", "With --qat: format of the first and the last layer.", "", metavar="int8")
@option("--sparsity", "Prune the starting weights to this pattern and keep the zeros.", "", metavar="2:4")
@option("--dtype", "Format of the MACs on the chip; default: that of the precision.", "")
@option("--seed", "Seed of starting weights and batches.", 0, least=0)
@option("--set", "Change a field of the spec. Repeatable.", multiple=True, metavar="PATH=VALUE")
@limit_options
@option("--out", "Write the learnt model to this ONNX file.", type=OUT)
def train(gather: Gather, out: Path | None, **asked: Any) -> Answer:
    """Train MODEL (a name from 'accelsim models', or an ONNX file) and report what it costs.

    The values are those of the training graph in the formats of the chip; with --on one step of it is compiled
    and simulated. On a cluster every device computes its part by a plan, and the weights are compared with those of
    one device. digits-mlp and digits-cnn train in seconds, gpt in a minute.
    """
    from accelsim.cluster_training import train_on_cluster
    from accelsim.report import training
    from accelsim.spec.yaml.clusters import is_cluster

    gather.check(out, check_file_target, last=True)
    cluster = asked["on"] is not None and is_cluster(asked["on"])
    training.drop_others(gather, cluster, asked)
    with progress(1) as stage:
        do = partial(training.on_cluster, train=train_on_cluster) if cluster else training.on_chip
        return do(gather, out, partial(stage, "train", 0.0), **asked)
