"""Check ``training``: steps of language models on clusters of A100 against measured times.

Sets. None of their rows has a part in a constant of the chip: it was calibrated to products of another A100 (Vidur), and
steps of MPT on others have told what of that holds under a training (``loaded``).

* **vTrain, several nodes** (3.6 to 175 billion parameters on 64 to 512 GPUs; nodes with four cards of 200 Gbit/s,
  recalled). Nothing is fitted. Which activations were computed again is not stated; all of them is what fits (with none
  the median error is more than four times as large).
* **vTrain, one node** (small models on 2 to 8 GPUs): bound by the host, which asks for kernels one by one. Two
  constants come of every ``FITTED``-th row: its time for a kernel, and ``cluster.step.ops.EXPOSED``. The others are
  compared. Nothing is computed again: with everything the time that a further sequence of a microbatch takes would be
  232 TFLOP/s, softmax and all, more than products reach alone.
* **Korthikanti et al. 2022, table 5** (175 billion to 1 trillion parameters on Selene, all and selective
  recomputation): nothing is fitted.
* **Megatron-LM, SC21, weak scaling** (the same machine): sizes of microbatches are not published, one sequence is taken
  for all, and no interleaving.
* **GPipe, table 2, 32 microbatches** of the transformer on 2, 4 and 8 accelerators: pipelines of equal stages, played.
* **torchgpipe's pipelines** of AmoebaNet-D on 2 to 8 P40: see ``torchgpipe``.
* **Horovod's weak scaling** of VGG-16 and ResNet-101 on 16 to 512 GPUs: see ``horovod``.
* **GPT-3 on 240 p4d nodes in about 25 days**: 300 billion tokens at the simulated rate.
* **MPT and Megatron-LM of 2024**, with attention in one kernel: see ``public_training``. All others are from before
  FlashAttention: plain attention, dropout.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from accelsim.cluster.plan.plan import Plan, Recompute
from accelsim.cluster.schedules.play import play_schedule
from accelsim.cluster.schedules.registry import schedule
from accelsim.cluster.step.costs import Setting
from accelsim.cluster.step.fleet import Fleet, fleet_of
from accelsim.cluster.step.ops import Options
from accelsim.cluster.step.step import train_step
from accelsim.cluster.step.transformer import Transformer
from accelsim.cluster.step.work import DecoderWork
from accelsim.errors import count_of
from accelsim.spec.yaml.clusters import load_cluster
from tests.validation.base import Check, check
from tests.validation.gpu_rows import Row
from tests.validation.horovod import efficiencies
from tests.validation.kernel_plot import Compared
from tests.validation.measured import ABSENT, folder
from tests.validation.public_training import megatron, mpt, mpt_others
from tests.validation.torchgpipe import speed_ups

FITTED = 8
"""Of so many rows of vTrain's single nodes one tells the time of the host."""
HOST_S = 62e-6
"""Print the host that these rows tell: its time for each kernel, beside a share of 0.55 that is exposed. Found in steps of 2 us
and 0.05 between 46 and 70 us and 0 and 0.8, by the mean error."""
FOUR_CARDS = ("nodes.node.nics.count=4",)
OPTIONS = Options(overlap=False, ignore_capacity=True)
"""Megatron-LM of these years: gradients behind the last backward pass; whether a plan fits is not asked here."""
VOCAB, SEQ = 51200, 2048
NODE = 8


class Case(NamedTuple):
    """A published step: model, plan, batch, seconds."""

    name: str
    model: Transformer
    plan: Plan
    batch: int
    seconds: float


@cache
def fleet(devices: int, changes: tuple[str, ...] = (), host_s: float = 0.0) -> Fleet:
    """The first devices of as many nodes of eight A100 as it takes."""
    whole = _nodes(-(-devices // NODE), changes, host_s)
    return whole.first(devices)


@cache
def _nodes(nodes: int, changes: tuple[str, ...], host_s: float) -> Fleet:
    made = fleet_of(load_cluster(f"{nodes}x-dgx-a100", changes), Setting("fp16", host_s=host_s, attention="plain"))
    if nodes > 1:  # what pieces cost is known of all nodes or of none
        vars(made)["_costs"] = {id(chip): _nodes(1, changes, host_s).costs(0) for chip in made.chips}
    return made


@cache
def work(model: Transformer) -> DecoderWork:
    """The work of a model, which knows its pieces."""
    return DecoderWork(model)


def gpt(layers: int, hidden: int, heads: int, seq: int = SEQ) -> Transformer:
    """A GPT with the vocabulary of Megatron-LM, and its dropout."""
    return Transformer("gpt", layers, hidden, heads, heads, 4 * hidden, VOCAB, seq, positions=seq, dropout=True)


def predicted(case: Case, changes: tuple[str, ...] = (), host_s: float = 0.0) -> Row:
    """A case beside its simulated step."""
    step = train_step(work(case.model), fleet(case.plan.devices, changes, host_s), case.plan, case.batch, OPTIONS)
    return Row(case.name, case.seconds, step.time_s)


def vtrain(path: Path, recompute: Recompute = "full") -> Iterator[Case]:
    """Rows of vTrain; columns from the GPUs on are those of both files."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file))
    first = rows[0].index("# GPUs")
    for row in rows[1:]:
        gpus, batch, micro, hidden, heads, layers, seq, tp, dp, pp = (int(float(x)) for x in row[first : first + 10])
        plan = Plan(dp=dp, tp=tp, pp=pp, microbatches=batch // dp // micro, recompute=recompute)
        name = f"hidden {hidden}, {layers} layers on {gpus} GPUs, batch {batch}, {plan}"
        yield Case(name, gpt(layers, hidden, heads, seq), plan, batch, float(row[first + 10]) / 1e3)


def several_nodes(data: Path) -> Iterator[Row]:
    """vTrain on several nodes."""
    for case in vtrain(data / "training" / "vtrain_multi_a100.csv"):
        yield predicted(case, FOUR_CARDS)


def one_node_cases(data: Path) -> Iterator[Case]:
    """vTrain on one node, without the rows that told constants of the host."""
    for index, case in enumerate(vtrain(data / "training" / "vtrain_single_a100.csv", "none")):
        if index % FITTED:
            yield case


def one_node(data: Path) -> Iterator[Row]:
    """vTrain on one node."""
    yield from (predicted(case, (), HOST_S) for case in one_node_cases(data))


TABLE_5 = (
    ("175B", 96, 12288, 96, 64, 64, 8, 3, 18.13, 13.75),
    ("530B", 105, 20480, 128, 280, 280, 35, 3, 49.05, 37.83),
    ("1T", 128, 25600, 160, 512, 512, 64, 1, 94.42, 71.49),
)
"""Model, layers, hidden, heads, GPUs, batch, stages, chunks; seconds with full and with selective recomputation and
sequence parallelism (arXiv 2205.05198, table 5), tensor parallelism of 8, microbatches of one sequence."""


def table_5(data: Path) -> Iterator[Row]:
    """Those on the machine of Megatron-LM."""
    yield from (predicted(case) for case in table_5_cases())


def table_5_cases() -> Iterator[Case]:
    """Six rows of Korthikanti et al."""
    for name, layers, hidden, heads, _, batch, stages, chunks, full, selective in TABLE_5:
        shape = Plan(tp=8, pp=stages, chunks=chunks, microbatches=batch,
                     schedule="interleaved" if chunks > 1 else "1f1b")  # fmt: skip
        for recompute, sp, seconds in (("full", False, full), ("selective", True, selective)):
            plan = Plan(**{**vars(shape), "recompute": recompute, "sp": sp})
            yield Case(f"{name}, {recompute}", gpt(layers, hidden, heads), plan, batch, seconds)


WEAK_SCALING = (
    (1.7, 2304, 24, 32, 512, 137, 24, 1, 1), (3.6, 3072, 30, 64, 512, 138, 32, 2, 1),
    (7.5, 4096, 36, 128, 512, 142, 32, 4, 1), (18.4, 6144, 40, 256, 1024, 135, 48, 8, 1),
    (39.1, 8192, 48, 512, 1536, 138, 64, 8, 2), (76.1, 10240, 60, 1024, 1792, 140, 80, 8, 4),
    (145.6, 12288, 80, 1536, 2304, 148, 96, 8, 8), (310.1, 16384, 96, 1920, 2160, 155, 128, 8, 16),
    (529.6, 20480, 105, 2520, 2520, 163, 128, 8, 35), (1008.0, 25600, 128, 3072, 3072, 163, 160, 8, 64),
)  # fmt: skip
"""Billions of parameters, hidden, layers, GPUs, batch, TFLOP/s of a GPU, heads, tensor parallelism, stages (Narayanan
et al., SC21, table 1; the last three recalled)."""


def weak_scaling_cases() -> Iterator[Case]:
    """Ten models of Megatron-LM; seconds follow from TFLOP/s by the paper's own count of operations."""
    for billions, hidden, layers, gpus, batch, rate, heads, tp, pp in WEAK_SCALING:
        dp = gpus // tp // pp
        flops = 96 * batch * SEQ * layers * hidden**2 * (1 + SEQ / (6 * hidden) + VOCAB / (16 * layers * hidden))
        plan = Plan(dp=dp, tp=tp, pp=pp, microbatches=batch // dp, recompute="full")
        seconds = flops / (rate * 1e12 * gpus)
        yield Case(f"{billions}B on {gpus} GPUs", gpt(layers, hidden, heads), plan, batch, seconds)


def weak_scaling(data: Path) -> Iterator[Row]:
    """Those on the machine of Megatron-LM."""
    yield from (predicted(case) for case in weak_scaling_cases())


GPIPE = {2: 1.8, 4: 3.4, 8: 6.3}
"""Accelerators -> throughput of Transformer-48 with 32 microbatches, that of two with one microbatch being 1 (arXiv
1811.06965, table 2)."""


def gpipe(data: Path) -> Iterator[Row]:
    """Inverse throughput of equal stages that cut one model, relative to two stages and one microbatch."""
    whole, many = 840, 32

    def of(stages: int, microbatches: int) -> float:
        orders = schedule("gpipe").orders(stages, microbatches)
        return float(play_schedule(orders, whole // stages, 2 * whole // stages).makespan_fs) / microbatches

    for stages, measured in GPIPE.items():
        yield Row(f"GPipe, {stages} accelerators", 1 / measured, of(stages, many) / of(2, 1))


def days_of_gpt3(data: Path) -> Iterator[Row]:
    """300 billion tokens on 240 nodes of eight A100 with EFA (AWS, about 25 days)."""
    model = gpt(96, 12288, 96)
    cluster = fleet_of(load_cluster("240x-p4d-cluster"), Setting("fp16", attention="plain"))
    plan = Plan(dp=30, tp=8, pp=8, microbatches=48, recompute="full", zero=1)
    step = train_step(work(model), cluster, plan, 1440, Options(ignore_capacity=True))
    day = 86400.0
    yield Row("GPT-3 on 240 p4d, 300 billion tokens", 25 * day, 300e9 / step.tokens_per_s)


def torchgpipe(data: Path) -> Iterator[Row]:
    """Speed-ups of pipelines over the shortest one."""
    yield from speed_ups()


def horovod(data: Path) -> Iterator[Row]:
    """Efficiencies of weak scaling."""
    yield from efficiencies()


class Set(NamedTuple):
    """Rows, what of their errors is claimed, and how much."""

    rows: Callable[[Path], Iterator[Row]]
    figure: str
    claimed: float


def sizes_of(rows: Sequence[Row]) -> np.ndarray:
    """Absolute relative errors."""
    return np.abs([row.error for row in rows])


FIGURES: Mapping[str, Callable[[Sequence[Row]], float]] = {
    "median": lambda rows: float(np.median(sizes_of(rows))),
    "mean": lambda rows: float(np.mean(sizes_of(rows))),
    "largest difference": lambda rows: max(abs(row.predicted - row.measured) for row in rows),
}
"""What is claimed of a set -> its figure; a difference is one of efficiencies, so in points."""


SETS: Mapping[str, Set] = {
    "vTrain, several nodes": Set(several_nodes, "mean", 0.09),
    "vTrain, one node": Set(one_node, "mean", 0.08),
    "Korthikanti et al., table 5": Set(table_5, "mean", 0.03),
    "Megatron-LM, weak scaling": Set(weak_scaling, "mean", 0.06),
    "GPipe, 32 microbatches": Set(gpipe, "mean", 0.08),
    "Horovod, weak scaling": Set(horovod, "largest difference", 0.03),
    "torchgpipe, AmoebaNet-D": Set(torchgpipe, "mean", 0.12),
    "GPT-3 on 240 p4d": Set(days_of_gpt3, "mean", 0.2),
    "MPT, 7 to 70 billion parameters, to 8,192 tokens": Set(mpt, "mean", 0.05),
    "MPT, smaller models and longer sequences": Set(mpt_others, "mean", 0.06),
    "Megatron-LM of 2024, H100": Set(megatron, "mean", 0.11),
}
"""Set -> its rows, and the error that is claimed of it."""


@check("training")
def training() -> Check:
    """The errors of each set, with its worst row."""
    what, data = "training steps on clusters against measured times", folder()
    if data is None:
        return Check("training", what, 0, 0, np.zeros(0), [ABSENT])
    told, errors, kept, compared = [], list[float](), 0, []
    for name, (rows_of, figure, claimed) in SETS.items():
        rows = list(rows_of(data))
        sizes = sizes_of(rows)
        kept += FIGURES[figure](rows) <= claimed
        errors += [row.error for row in rows]
        worst = rows[int(np.argmax(sizes))]
        measured, times = (np.array([getattr(row, each) for row in rows]) for each in ("measured", "predicted"))
        compared.append(Compared(name, measured, times, np.full(len(rows), "", dtype=object)))
        told.append(
            f"{name}: {count_of(len(rows), 'row')}, mean {sizes.mean():.1%}, median {np.median(sizes):.1%}, "
            f"90th percentile {np.quantile(sizes, 0.9):.1%} (claimed: {figure} {claimed:.0%}); "
            f"worst {worst.name}: {worst.error:+.1%}"
        )
    return Check(
        "training", what, len(SETS), int(kept), np.array(errors), told, "errors as claimed",
        compared=compared,
    )  # fmt: skip
