"""Options of ``accelsim run`` for clusters and training steps, above all how gradients are grouped and sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from accelsim.cli.common import Command, flag, large_count, option
from accelsim.errors import AccelsimError, Gather, Problem, UsageError

if TYPE_CHECKING:
    from accelsim.cluster.buckets import Fusion

FS_PER_S = 10**15
HALVED = "fp16"
"""The compression that wants gradients of 32 bits."""
OPTIONS: tuple[Callable[[Command], Command], ...] = (
    option(
        "--plan", "On a cluster: how data, layers, tensors, experts and tokens are shared out: 'tp=8,pp=8,dp=16', "
        "'ep=8' (not with --train: 'accelsim train' has it), 'cp=8'. Without recompute=, accelsim chooses the least "
        "recomputation that fits in memory; without "
        "microbatches=, the fastest size that fits.", "", metavar="PLAN",
    ),
    flag("--train", "Simulate a training step (forward, backward, update) on a cluster or a chip."),
    flag("--whole", "With --train: simulate all devices as one machine, tile by tile; small clusters."),
    option("--tokens", "With --train: how long training on N tokens takes, such as 300e9.", callback=large_count,
           metavar="N"),
    option(
        "--attention", "Of decoders in training: flash, one kernel that keeps no scores (FlashAttention 2; the default "
        "in 16 bits on GPUs that multiply bf16), memory-efficient, such a kernel of the generation before "
        "(FlashAttention 1, Triton, xFormers), 1.4 to 2 times as slow, or plain, products and a softmax of scores in "
        "memory.", "", metavar="flash|memory-efficient|plain",
    ),
    flag("--overlap-tensor", "With sp: collectives of the tensor-parallel group overlap with the products before and "
        "after them, in chunks or in bulk, as Megatron does with --tp-comm-overlap; default: one after the other."),
    flag("--offload-activations offload", "Of decoders: activations wait for the backward pass in the memory of the "
        "host; default: on the device."),
    option(
        "--library", "Of a generation on a cluster: the library of its collectives, such as nccl or vllm; default: "
        "vllm where the cluster knows it and kernels are those of serving stacks.", "", metavar="NAME",
    ),
    option(
        "--routing", "Of a generation with experts on a cluster: how popular these are: uniform (the default), even, "
        "power:EXPONENT (a power law) or shares:4/2/1/1.", "", metavar="ROUTING",
    ),
    option(
        "--gradients", "With --train: how gradients of replicas are grouped for sending: ddp (buckets of 25 MiB; the "
        "default, unless --cycle or --tune-gradients), horovod (each cycle what is ready, up to 128 MiB), "
        "horovod-ahead (the same where the host runs ahead: full buckets, sent when their last is ready), each, whole. "
        "All are hierarchical already: between nodes the library takes rings that leave each node once, or a tree of "
        "nodes with a chain in each.", "", metavar="POLICY",
    ),
    option("--threshold", "Largest bucket of gradients: '64MiB'.", "", metavar="SIZE"),
    option("--cycle", "Time between two checks for ready gradients: '5ms' (horovod: 1 ms).", "", metavar="TIME"),
    option("--compression", "Format of gradients on the network: none (unchanged), or fp16, which halves those of 32 "
           "bits.", "", metavar="FORMAT"),
    option("--gradient-bits", "Bits of a gradient where it is accumulated and kept; default: 16.",
           type=click.Choice(["16", "32"])),
    flag("--tune-gradients", "Search the best threshold and cycle time, by Optuna where the extra 'sweep' is "
        "installed, else on a grid; shows nearby settings too. The step itself is not changed."),
    flag("--overlap-gather", "With zero=1 and 2: gather new weights during the next step's first forward passes, as "
        "Megatron does with --overlap-param-gather; default: before it begins."),
)  # fmt: skip
"""Options of a cluster, in the order of the help."""
FOR_DECODERS = OPTIONS[4:7]
"""Options that only the training of a decoder takes."""


DECODERS = {"--attention": "attention", "--overlap-tensor": "overlap_tensor", "--offload-activations": "offload"}
"""Options of the training of decoders."""
SERVED = {"--library": "library", "--routing": "routing"}
"""Options of a generation."""
OWN = {"--plan": "plan", "--whole": "whole", "--tokens": "tokens", **DECODERS, **SERVED}
"""Options of clusters, beside those of gradients."""


def cluster_options(command: Command) -> Command:
    """Add the options to a command."""
    return reduce(lambda made, each: each(made), reversed(OPTIONS), command)


def decoder_options(command: Command) -> Command:
    """Add what only the training of decoders has to a command."""
    return reduce(lambda made, each: each(made), reversed(FOR_DECODERS), command)


def plan_options(command: Command) -> Command:
    """Add the options that say how a training with values is shared out to a command."""
    plan = "How the devices of the cluster share the work: dp, tp, ep, pp, sp, zero, chunks, recompute, period (steps "
    order = "Order of microbatches: gpipe, 1f1b, interleaved, zb-h1, pipedream, pipedream-vertical, pipedream-2bw."
    made = option("--microbatches", "Microbatches of each replica and step.", least=1)(command)
    made = option("--schedule", order, metavar="1f1b")(made)
    return option("--plan", f"{plan}between averagings).", metavar="dp=2,pp=2")(made)


class Fused(NamedTuple):
    """Options about gradients as texts; '' if not given."""

    gradients: str = ""
    threshold: str = ""
    cycle: str = ""
    compression: str = ""
    gradient_bits: str = ""
    tune_gradients: bool = False
    overlap_gather: bool = False

    @property
    def given(self) -> list[str]:
        """Names of the options that were given."""
        return [f"--{name.replace('_', '-')}" for name, value in self._asdict().items() if value]

    @property
    def policy(self) -> str:
        """Name of the policy: without --gradients DDP's, or Horovod's where a cycle is given or sought."""
        return self.gradients or ("horovod" if self.cycle or self.tune_gradients else "ddp")

    @property
    def gradient_B(self) -> int:
        """Bytes of a gradient."""
        return int(self.gradient_bits or 16) // 8


def taken(asked: dict[str, Any]) -> Fused:
    """Take the options about gradients out of what the command line gave."""
    return Fused(**{name: asked.pop(name) or Fused._field_defaults[name] for name in Fused._fields})


def on_cluster(asked: Mapping[str, Any]) -> bool:
    """Return whether a cluster is among what follows ``--on``, or a chip is to train: a cluster of one. UsageError for
    options of clusters on chips."""
    from accelsim.spec.yaml.clusters import is_cluster, listed

    if asked["train"] or any(is_cluster(name) for text in asked["on"] for name in listed(text)):
        return True
    wrong = [name for name, key in OWN.items() if asked[key]] + taken(dict(asked)).given
    if wrong:
        what = f"{' and '.join(wrong)} on {', '.join(asked['on'])}"
        training = "" if {*wrong} <= {*SERVED} else ", or --train"
        raise UsageError(what, "--on", f"a cluster (see 'accelsim clusters'){training}")
    return False


def check(gather: Gather, fused: Fused, train: bool, plan: str) -> None:
    """Keep everything that is wrong with the options, and with the plan where they need replicas."""
    from accelsim.cluster.plan.plan import parse_plan

    given = " and ".join(fused.given)
    if not given:
        return
    gather.refuse(not train, f"{given} without --train", "", "--train: only training makes gradients")
    with gather.also():
        read(fused)
    with gather.also():
        alone = plan and parse_plan(plan).dp < 2  # without a plan every device is a replica
        what = f"{given} of one replica, which adds up nothing"
        gather.refuse(alone, what, "--plan", "two replicas or more: dp=2")


def read(fused: Fused) -> Fusion:
    """Return the options as the simulator takes them. UsageError with all that is wrong."""
    from accelsim.cluster.buckets import COMPRESSED, Fusion, policy
    from accelsim.errors import known

    found: list[Problem] = []
    threshold_B = _number(fused.threshold, "--threshold", "B", 1, 1, found)
    cycle_fs = _number(fused.cycle, "--cycle", "s", FS_PER_S, 0, found)
    compression = fused.compression or "none"
    for typed, what, name, valid in (
        ("--gradients", "policy", fused.policy, None),
        ("--compression", "compression", compression, COMPRESSED),
    ):
        try:
            policy(name) if valid is None else known(what, name, valid)
        except AccelsimError as error:
            found += [replace(problem, where=typed) for problem in error.problems]
    if not found:
        found += _unread(fused)
    UsageError.raise_for(found)
    given = {} if cycle_fs is None else {"cycle_fs": cycle_fs}
    return Fusion(fused.policy, threshold_B, compression=compression, **given)  # type: ignore[arg-type]


def _number(text: str, typed: str, unit: str, times: int, least: int, found: list[Problem]) -> int | None:
    """A number with its unit, in whole bytes or fs; None where none is given. What is wrong goes to ``found``."""
    from accelsim.units import amount, expected

    if not text:
        return None
    try:
        value = amount(text, unit, typed) * times
    except UsageError as error:
        found += error.problems
        return None
    if value < least or value.denominator != 1:
        found.append(Problem(f"{text!r} is too small, or not whole", typed, expected(unit)))
    return int(value)


def _unread(fused: Fused) -> list[Problem]:
    """Options that change nothing with this policy or these gradients."""
    from accelsim.cluster.buckets import POLICIES

    reads = POLICIES[fused.policy].reads
    found = []
    for typed, there, field in (
        ("--threshold", fused.threshold, "threshold_B"),
        ("--cycle", fused.cycle, "cycle_fs"),
        ("--tune-gradients", fused.tune_gradients, "threshold_B"),
    ):
        if there and field not in reads:
            fitting = " or ".join(name for name, entry in POLICIES.items() if field in entry.reads)
            what = f"{typed} with --gradients {fused.policy}, which has none to choose"
            found.append(Problem(what, expected=f"--gradients {fitting}"))
    if fused.compression == HALVED and fused.gradient_B < 4:
        what = f"--compression {HALVED} of gradients of 16 bits"
        found.append(Problem(what, expected="--gradient-bits 32"))
    return found
