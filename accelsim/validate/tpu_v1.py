"""Check ``tpu-v1``: figures of the TPU paper that must come out of simulations of hwspecs/chips/tpu-v1.yaml.

Jouppi et al., "In-Datacenter Performance Analysis of a Tensor Processing Unit", ISCA 2017 (arXiv:1704.04760). Nothing
here computes a time: networks are compiled and simulated, and figures are read off the records of the runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

from accelsim.account.bounds import array_seconds, array_split
from accelsim.account.latency import layers, summary
from accelsim.compiler.program import Transfer
from accelsim.machine.clock import Clock
from accelsim.machine.run import Run, Slice
from accelsim.spec.load import load_chip
from accelsim.spec.models import Chip
from accelsim.validate.anchors import (
    FS_PER_S,
    Anchor,
    matrix_steps,
    outcome,
    points,
    published,
    relative,
    run_shapes,
    slices_of,
)
from accelsim.validate.base import Check, check
from accelsim.workload.load import load_model

TILE_B = 256 * 256
KNEE_LAYER = {"hidden": 4096, "layers": 4}
"""Layers of 16 x 16 whole tiles; the third neither waits for the host's input nor stores the result."""
STEADY = 2
LOW_BATCH, HIGH_BATCH = 200, 2048

REMARKS = (
    "MLP1 is rebuilt with an assumption: the 5 million weights are four equal layers of 1118 x 1118, "
    "which fill 76 % of their tiles. The 9.4 of 10.6 % in Table 3 say 89 %, so the real layers are "
    "others; hence the wide bounds.",
    "TOPS of Table 3 are from production runs; the paper calls them not perfectly consistent with its "
    "counters (MLP0: 12.5 % of the peak are 11.5 TOPS, not 12.3). The simulated rate includes the first "
    "load and the last store of one batch.",
    "LSTM0, LSTM1: not rebuilt. Table 1 gives 24 and 37 FC layers and 52 and 34 million weights, but "
    "neither their shapes nor how often a weight is used per fetch; their active cycles (10.0 and 11.7 % "
    "of the three kinds) are more than batches of 64 and 96 explain.",
    "CNN0: not rebuilt. 2888 operations per weight byte are a batch of 8 times 19 x 19, and there are 16 "
    "layers; their kernel sizes and channels are not given.",
    "CNN1: not rebuilt. 89 layers and 100 million weights are given, the layers are not.",
    "Table 5 (interaction with the host, 21 and 76 % of MLP0 and MLP1): not compared. It includes "
    "software of the host that no figure describes; the simulated host only converts between float and "
    "int8.",
)
"""What a reader must know about the rows, and what the published figures do not allow to rebuild."""


LINES = {
    "array_active": "array active", "weight_shift": "weight shift", "weight_stall": "weight stall",
    "non_matrix": "non-matrix", "useful_macs_pct_of_peak": "useful MACs", "unused_macs": "unused MACs",
}  # fmt: skip
"""Lines of Table 3 in percent, as they are printed."""


@check("tpu-v1")
def tpu_v1() -> Check:
    """Weight tiles, the knee of the roofline, tiling, Table 3 and the peak rate of TPU v1, from simulated runs."""
    facts = published("tpu_v1")
    anchors = [
        tile_fetch(facts),
        *knee(facts),
        *tiles_of_600(facts),
        *mlp0(facts),
        *mlp1(facts),
        *peak(facts),
    ]
    what = "figures of Jouppi et al., ISCA 2017, against simulated runs, each within its bound"
    return outcome("tpu-v1", what, anchors, [said(mlp0_run()), *REMARKS])


def chip() -> Chip:
    """The chip under test, as its spec file says."""
    return load_chip("tpu-v1")


def tile_fetch(facts: dict[str, Any]) -> Anchor:
    """Clocks from the first data to the end of the load of a whole 64 KiB weight tile."""
    run = _gemm(M=256, N=512, K=512)
    clock = Clock(run.chip.clock)
    whole = [piece for piece in _weight_loads(run) if _work(run, piece).nbytes == TILE_B]
    spans = [clock.cycles(piece.end - piece.data) for piece in whole]
    cycles, expected = sum(spans) / len(spans), facts["text"]["tile_fetch_cycles"]
    return relative("fetch of a whole 64 KiB weight tile", expected, cycles, 0.001, " cycles")


def _work(run: Run, piece: Slice) -> Transfer:
    work = run.program.commands[piece.command].work
    assert isinstance(work, Transfer)
    return work


def _gemm(where: Chip | None = None, **sizes: int) -> Run:
    return run_shapes(load_model("gemm", params=sizes), where or chip(), "int8")


class Rate(NamedTuple):
    """A layer in the middle of a network: MACs/s, and fs that it waits for weights or their shift."""

    macs_per_s: float
    weight_wait_fs: int


def steady_rate(batch: int) -> Rate:
    """The third layer of the knee network at one batch."""
    run = run_shapes(load_model("mlp0", batch=batch, params=KNEE_LAYER), chip(), "int8")
    index = matrix_steps(run)[STEADY]
    spent = run.step_stalls[index]
    waiting = spent.get("weights", 0) + spent.get("shift", 0)
    return Rate(run.program.steps[index].macs * FS_PER_S / sum(spent.values()), waiting)


def knee(facts: dict[str, Any]) -> Iterator[Anchor]:
    """Where the slanted part of the roofline meets its peak, and where the array no longer waits for weights."""
    ridge = facts["text"]["ridge_macs_per_weight_B"]
    low, high = steady_rate(LOW_BATCH), steady_rate(HIGH_BATCH)
    per_weight_B = low.macs_per_s / LOW_BATCH
    peak_rate = summary(mlp0_run())["peak_TOPS"] / 2 * 1e12
    slope = f"ridge: slope of the roofline at batch {LOW_BATCH} against"
    for what, simulated, bound in (
        (f"{slope} the peak", peak_rate / per_weight_B, 0.01),
        (f"{slope} the rate sustained at batch {HIGH_BATCH}", high.macs_per_s / per_weight_B, 0.03),
        ("batch from which the array no longer waits for weights", first_without_wait(), 0.03),
    ):
        yield relative(what, ridge, simulated, bound, " MACs/B")


def first_without_wait(low: int = LOW_BATCH, high: int = HIGH_BATCH) -> int:
    """By bisection: at ``low`` the array waits for weights, at ``high`` it does not."""
    while high - low > 1:
        middle = (low + high) // 2
        if steady_rate(middle).weight_wait_fs:
            low = middle
        else:
            high = middle
    return high


def tiles_of_600(facts: dict[str, Any]) -> Iterator[Anchor]:
    """Weight tiles that a 600 x 600 matrix takes on arrays of 256 and 512, and the time of their transfers."""
    figures = facts["text"]["matrix_600"]
    for size, where in ARRAYS.items():
        loads = _weight_loads(_run_600(where()))
        moving_us = sum(piece.end - piece.data for piece in loads) / FS_PER_S * 1e6
        array = f"{size} x {size}"
        yield relative(f"weight tiles of 600 x 600 on {array}", figures[f"tiles_{size}"], len(loads), 0.0)
        yield relative(f"fetch of 600 x 600 for {array}", figures[f"us_{size}"], moving_us, 0.05, " us")


def _run_600(where: Chip) -> Run:
    return _gemm(where, M=200, N=600, K=600)


def _weight_loads(run: Run) -> list[Slice]:
    return [piece for piece in slices_of(run, "Load") if _work(run, piece).memory == "ddr3"]


def larger_chip() -> Chip:
    """The chip of section 7 of the paper: an array of 512 x 512, and what holds its tiles four times as large."""
    settings = {
        "matrix.rows": 512, "matrix.cols": 512, "peak": "{}",
        "buffers.weight_fifo.capacity": "1 MiB", "buffers.weight_fifo.slot_capacity": "256 KiB",
        **{f"buffers.weight_fifo.{way}_width": "512 B" for way in ("read", "write")},
        **{f"buffers.unified_buffer.{way}_width": "512 B" for way in ("read", "write")},
        **{f"buffers.accumulators.{way}_width": "2 KiB" for way in ("read", "write")},
    }  # fmt: skip
    return load_chip("tpu-v1", [f"{path}={value}" for path, value in settings.items()])


ARRAYS: dict[int, Callable[[], Chip]] = {256: chip, 512: larger_chip}
"""Rows and columns of an array -> its chip."""


@cache
def mlp0_run() -> Run:
    """MLP0 as Table 1 has it: five layers, 20 million weights, batch 200."""
    return run_shapes(load_model("mlp0"), chip(), "int8")


@cache
def mlp1_run() -> Run:
    """MLP1: four layers, 5 million weights, batch 168; that the layers are equal is an assumption."""
    return run_shapes(load_model("mlp0", batch=168, params={"hidden": 1118, "layers": 4}), chip(), "int8")


def mlp0(facts: dict[str, Any]) -> Iterator[Anchor]:
    """MLP0: what binds its layers, and its column of Table 3."""
    run = mlp0_run()
    bound = sum(layer.bound_key == "weight_fetch" for layer in layers(run) if layer.gemm is not None)
    yield relative("MLP0: layers bound by weight fetch", facts["table1"]["MLP0"]["FC"], bound, 0.0)
    yield from table3(facts, "MLP0", run, split_points=2.0, cycle_points=5.0, tops=0.20)


def mlp1(facts: dict[str, Any]) -> Iterator[Anchor]:
    """MLP1 with equal layers: its column of Table 3."""
    yield from table3(facts, "MLP1", mlp1_run(), split_points=5.0, cycle_points=5.0, tops=0.40)


def table3(
    facts: dict[str, Any], name: str, run: Run, split_points: float, cycle_points: float, tops: float
) -> Iterator[Anchor]:
    """One column of Table 3: how matrix cycles split, all kinds of cycles, useful MACs, and the achieved rate."""
    table = {line: row[name] for line, row in facts["table3"].items()}
    three = table["array_active"] + table["weight_shift"] + table["weight_stall"]
    totals, split = summary(run), array_split(run.step_stalls)
    for line, key in (("array_active", "active"), ("weight_shift", "shift"), ("weight_stall", "stall")):
        what = f"{name}: {key} cycles, of active + shift + stall"
        yield points(what, round(100 * table[line] / three, 1), split[key], split_points)
    seconds = array_seconds(run.step_stalls)
    keys = {"array_active": "active", "weight_shift": "shift", "weight_stall": "weights"}
    shares = {line: 100 * seconds[key] / run.seconds for line, key in keys.items()}
    shares["non_matrix"] = 100 - sum(shares.values())
    shares["useful_macs_pct_of_peak"] = 100 * totals["utilisation"]
    shares["unused_macs"] = shares["array_active"] - shares["useful_macs_pct_of_peak"]
    for line, share in shares.items():
        yield points(f"{name}: {LINES[line]}, of all cycles", table[line], share, cycle_points)
    yield relative(f"{name}: achieved rate", table["TOPS"], totals["achieved_TOPS"], tops, " TOPS")


def peak(facts: dict[str, Any]) -> Iterator[Anchor]:
    """The peak rate that follows from the spec, and what a layer that is bound by compute sustains."""
    stated, sustained = facts["text"]["peak_TOPS"], 2e-12 * steady_rate(HIGH_BATCH).macs_per_s
    yield relative("peak rate", stated, summary(mlp0_run())["peak_TOPS"], 0.005, " TOPS")
    yield relative("rate sustained by a layer of 4096 x 4096 at batch 2048", stated, sustained, 0.03, " TOPS")


def said(run: Run) -> str:
    """What the words of the report say about a run."""
    from accelsim.report.words import sentences

    return f"{run.program.graph.name}: " + " ".join(sentences(run, layers(run), summary(run)))
