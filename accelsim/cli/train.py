"""``accelsim train``: train a small model in the formats of a chip, or on a cluster by a plan; what a step costs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from accelsim.cli.answers import answers
from accelsim.cli.common import OUT, check_file_target, option, progress, whole_list
from accelsim.cli.groups import Grouped
from accelsim.cli.options import limit_options
from accelsim.errors import Gather, Problem, UsageError
from accelsim.report.answer import Answer

if TYPE_CHECKING:
    from accelsim.cluster.plan.plan import Plan

ONLY_CHIP = ("qat", "edges", "sparsity", "loss_scale", "dtype")
"""Options of a training on one chip."""
ONLY_CLUSTER = ("plan", "schedule", "microbatches", "compare")
"""Options of a training on a cluster."""


@answers(
    "accelsim train digits-mlp --steps 300 --plot loss.png",
    "accelsim train digits-mlp --steps 300 --on neuroncore-v2 --precision mixed-bf16",
    "accelsim train digits-cnn --steps 400 --qat int4 --out digits.onnx",
    "accelsim train digits-cnn --on 4x-edu --plan dp=2,pp=2 --schedule 1f1b --microbatches 4 --steps 20",
    "accelsim train gpt --on 4x-edu --plan dp=2,tp=2 --optimiser adam --steps 20",
    outputs="csv plot json",
    cls=Grouped,
    helps={
        "csv": "Write each step's loss and loss scale, and whether it was skipped.",
        "plot": "Draw the loss: FILE.png or FILE.svg.",
    },
)
@click.argument("model")
@option(
    "--on",
    "Simulate one step on this chip, or train on all devices of this cluster: a name or a YAML file.",
    metavar="CHIP|CLUSTER",
)
@option(
    "--plan",
    "How the devices of the cluster share the work: dp, tp, pp, sp, "
    "zero, chunks, recompute, period (steps between averagings).",
    metavar="dp=2,pp=2",
)
@option(
    "--schedule",
    "Order of a pipeline's microbatches: gpipe, 1f1b, interleaved, "
    "zb-h1, pipedream, pipedream-vertical, pipedream-2bw.",
    metavar="1f1b",
)
@option("--microbatches", "Microbatches of each replica and step.", least=1)
@option(
    "--compare",
    "With a cluster: also train with these methods and show their losses.",
    "",
    metavar="plain,local-sgd,pipedream",
)
@option(
    "--data",
    "Samples and labels: x_train, y_train, x_test, y_test, or x and y; for a language model text, token "
    "numbers in a row. Default: digits; for a language model sums.",
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
@option(
    "--loss-scale",
    "Factor against underflow of gradients in fp16; default: dynamic for mixed, fp16.",
    "",
    metavar="dynamic|none|NUMBER",
)
@option(
    "--qat",
    "Quantisation-aware training: formats of weights and activations.",
    "",
    metavar="int8|int4|int2|int1|int4xint8",
)
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
    from accelsim.explore.training import train as run_training
    from accelsim.report import training
    from accelsim.spec.yaml.clusters import is_cluster
    from accelsim.workload.training import QuantConfig

    gather.check(out, check_file_target, last=True)
    cluster = asked["on"] is not None and is_cluster(asked["on"])
    others, kind = (ONLY_CHIP, "one chip") if cluster else (ONLY_CLUSTER, "a cluster")
    expected = "one chip, or none" if cluster else "--on with a cluster (accelsim clusters lists them)"
    for name in others:
        typed = f"--{name.replace('_', '-')}"
        gather.refuse(asked[name], f"{typed} is of a training on {kind}", typed, expected)
    gather.refuse(cluster and not asked["plan"], "a cluster without a plan", "--on", "--plan, such as dp=2,pp=2")
    gather.refuse(not cluster and asked["edges"] and not asked["qat"], "--edges without --qat", "", "both")
    with progress(1) as stage:
        if cluster:
            asked |= {"plan": gather.read(lambda: _plan(asked)), "compare": whole_list(asked["compare"])}
            for name in (*ONLY_CHIP, "schedule", "microbatches"):
                del asked[name]
            stage("train", 0.0)
            return training.on_cluster(train_on_cluster(**asked), out)
        for name in ONLY_CLUSTER:
            del asked[name]
        qat, edges = asked.pop("qat"), asked.pop("edges")
        quant = gather.read(lambda: QuantConfig.parse(qat, edges) if qat else None)
        stage("train", 0.0)
        return training.on_chip(run_training(fake_quant=quant, **asked), out)


def _plan(asked: dict[str, Any]) -> Plan:
    """The plan of --plan with --schedule and --microbatches. UsageError for one that is given in both."""
    from accelsim.cluster.plan.plan import Plan, parse_plan

    text, given = asked["plan"], {name: asked[name] for name in ("schedule", "microbatches") if asked[name]}
    plan = parse_plan(text) if text else Plan()
    twice = [name for name in given if text and f"{name}=" in text.replace(" ", "")]
    if twice:
        raise UsageError([Problem(f"{name} is given twice", "--plan", f"here or in --{name}") for name in twice])
    return replace(plan, **given)
