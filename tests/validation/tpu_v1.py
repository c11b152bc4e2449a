"""Check ``tpu-v1``: figures of the TPU paper that must come out of simulations of hwspecs/chips/tpu-v1.yaml.

Jouppi et al., "In-Datacenter Performance Analysis of a Tensor Processing Unit", ISCA 2017 (arXiv:1704.04760). Nothing
here computes a time: networks are compiled and simulated, and figures are read off the records of the runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from accelsim.account.latency import layers, summary
from accelsim.machine.run import Run, Slice
from accelsim.program.work import Transfer
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.load import load_chip
from accelsim.time import FS_PER_S, Clock
from accelsim.workload.sources.load import load_model
from tests.validation.anchors import Anchor, matrix_steps, outcome, published, relative, run_shapes, slices_of
from tests.validation.base import Check, check
from tests.validation.tpu_v1_table3 import REMARKS, bound_by_weights, paper_run, table3

TILE_B = 256 * 256
KNEE_LAYER = {"hidden": 4096, "layers": 4}
"""Layers of 16 x 16 whole tiles; the third neither waits for the host's input nor stores the result."""
STEADY = 2
LOW_BATCH, HIGH_BATCH = 200, 2048

REMARK = (
    "Table 5 (interaction with the host, 21 and 76 % of MLP0 and MLP1): not compared. It includes "
    "software of the host that no figure describes; the simulated host only converts between float and "
    "int8."
)
"""What else a reader must know about the rows."""


@check("tpu-v1")
def tpu_v1() -> Check:
    """Weight tiles, the knee of the roofline, tiling, Table 3 and the peak rate of TPU v1, from simulated runs."""
    facts = published("tpu_v1")
    anchors = [
        tile_fetch(facts),
        *knee(facts),
        *tiles_of_600(facts),
        bound_by_weights(facts),
        *table3(facts),
        *peak(facts),
    ]
    what = "figures of Jouppi et al., ISCA 2017, against simulated runs, each within its bound"
    return outcome("tpu-v1", what, anchors, [said(paper_run("MLP0")), *REMARKS, REMARK])


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
    peak_rate = summary(paper_run("MLP0"))["peak_TOPS"] / 2 * 1e12
    slope = f"ridge: slope of the roofline at batch {LOW_BATCH} against"
    for what, simulated, bound in (
        (f"{slope} the peak", peak_rate / per_weight_B, 0.01),
        (f"{slope} the rate sustained at batch {HIGH_BATCH}", high.macs_per_s / per_weight_B, 0.03),
        ("batch from which the array no longer waits for weights", first_without_wait(), 0.02),
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
        "weight_fifo.capacity": "1 MiB", "weight_fifo.slot_capacity": "256 KiB",
        **{f"weight_fifo.{way}_width": "512 B" for way in ("read", "write")},
        **{f"unified_buffer.{way}_width": "512 B" for way in ("read", "write")},
        **{f"accumulators.{way}_width": "2 KiB" for way in ("read", "write")},
    }  # fmt: skip
    return load_chip("tpu-v1", [f"{path}={value}" for path, value in settings.items()])


ARRAYS: dict[int, Callable[[], Chip]] = {256: chip, 512: larger_chip}
"""Rows and columns of an array -> its chip."""


def peak(facts: dict[str, Any]) -> Iterator[Anchor]:
    """The peak rate that follows from the spec, and what a layer that is bound by compute sustains."""
    stated, sustained = facts["text"]["peak_TOPS"], 2e-12 * steady_rate(HIGH_BATCH).macs_per_s
    yield relative("peak rate", stated, summary(paper_run("MLP0"))["peak_TOPS"], 0.005, " TOPS")
    yield relative("rate sustained by a layer of 4096 x 4096 at batch 2048", stated, sustained, 0.03, " TOPS")


def said(run: Run) -> str:
    """Return what the words of the report say about a run."""
    from accelsim.report.words import sentences

    return f"{run.program.graph.name}: " + " ".join(sentences(run, layers(run), summary(run)))
