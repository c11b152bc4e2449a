"""``accelsim plan``: find the fastest plan to train a model on a cluster, and why the others lose."""

from __future__ import annotations

from typing import Any

import click

from accelsim.cli.answers import answers
from accelsim.cli.cluster_options import decoder_options
from accelsim.cli.common import flag, option, progress
from accelsim.cli.options import limit_options
from accelsim.errors import Gather, known
from accelsim.report.answer import Answer


@answers(
    "accelsim plan gpt3 --on 128x-dgx-a100 --batch 1536 --plot plans.png",
    "accelsim plan digits-cnn --on 4x-edu --batch 64 --objective energy",
    "accelsim plan resnet50 --on p4d-cluster --batch 32 --pipedream",
    outputs="csv plot json",
    helps={
        "csv": "Write all plans that were looked at to this file.",
        "plot": "Draw time against memory of all plans into this file.",
    },
)
@click.argument("model")
@option(
    "--on",
    "A cluster's name (see 'accelsim clusters') or YAML file; a chip is a cluster of one.",
    required=True,
    metavar="CLUSTER",
)
@option("--batch", "Samples of a step, all replicas together.", least=1)
@option(
    "--objective",
    "What the best plan minimises: energy is that of devices and links, without their hosts.",
    "time",
    metavar="time|energy",
)
@option("--set", "Change a field of the cluster. Repeatable.", multiple=True, metavar="PATH=VALUE")
@option("--dtype", "Number format; default: that of each chip.", "")
@decoder_options
@flag("--pipedream", "Cut MODEL into stages with replicas, as PipeDream's optimiser does.")
@limit_options
def plan(gather: Gather, objective: str, pipedream: bool, **asked: Any) -> Answer:
    """Find the best plan to train MODEL on a cluster: data, tensor and pipeline parallelism, microbatches, schedules,
    sequence parallelism, ZeRO, recomputation.

    All legal plans are estimated by closed forms from simulated pieces of the model; those with the lowest estimates
    are simulated, and the best ten printed. Tensor parallelism stays inside nodes. With --pipedream layers are cut
    into stages by PipeDream's optimiser instead; then MODEL may be one of its profiles (a .txt file), and --batch is
    the minibatch of a device.
    """
    from accelsim.cluster.partition.assign import assigned
    from accelsim.cluster.step.asked import Asked, ready
    from accelsim.cluster.step.costs import Setting
    from accelsim.cluster.step.ops import Options
    from accelsim.cluster.step.search import OBJECTIVES, search
    from accelsim.report.plan import best_plans, stages
    from accelsim.workload.limits import limits

    with gather.also():
        known("objective", objective, OBJECTIVES)
    other = click.get_current_context().params["plot"] is not None or objective != "time"
    gather.refuse(pipedream and other, "--plot or --objective with --pipedream", "", "neither")
    gather.done()
    setting = Setting(**{name: asked.pop(name) for name in ("dtype", "attention", "overlap_tensor", "offload")})
    wanted = Asked(**asked, setting=setting, options=Options(ignore_capacity=limits().ignore_capacity))
    if pipedream:
        return stages(assigned(wanted))
    with progress(1) as stage:
        made = ready(wanted)
        how = (made.work, made.fleet, made.batch, made.options, objective)
        return best_plans(search(*how, lambda share: stage("search", share)))
