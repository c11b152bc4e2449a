"""Check ``neuroncore-v2``: the published cost model of the engines, from simulated runs.

AWS Neuron documentation, NKI guide to the architecture of NeuronCore-v2: a multiplication whose moving operand has N
columns starts max(N, 64) cycles after the one before; fp32 takes four times as long; the stationary operand loads up
to four times faster than a multiplication of the same size, and behind it. N columns are N streamed rows here. The reference of NKI's instructions states the cost of each on the other engines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import Any

from accelsim.account.array_share import array_seconds
from accelsim.account.latency import summary
from accelsim.machine.run import Run
from accelsim.program.work import Folds
from accelsim.spec.yaml.load import load_chip
from accelsim.time import Clock, clock_of
from accelsim.workload.graph import Tensor
from accelsim.workload.ops.values import Filled
from accelsim.workload.sources.load import load_model
from accelsim.workload.zoo.build import Builder
from tests.helpers.fold_edges import folds_of
from tests.validation.anchors import Anchor, outcome, published, relative, run_shapes, slices_of
from tests.validation.base import Check, check

ARRAY = 128
FOLDS = (6, 2)
"""Multiplications of the first and of the second command of a run; their durations differ by four intervals."""
SIZE = 4096
SIZES = (1, 32, 64, 65, 128, 300, 512, 2048)
"""Elements per partition of an instruction of the scalar, vector or GpSimd engine."""
MOST_DETAILS = 20
CHIPS = ("neuroncore-v2", "neuroncore-v3")


@check("neuroncore-v2")
def neuroncore_v2(columns: Iterable[int] = range(1, 513)) -> Check:
    """Initiation interval for every N of ``columns`` in bf16 and fp32, stationary load, and the peak rate."""
    facts = published("neuroncore_v2")
    every = [anchor for N in columns for anchor in intervals(facts, N)]
    others = [*stationary_load(facts), *peak(facts)]
    every += [anchor for chip in CHIPS for row in facts[chip] for N in SIZES for anchor in instruction(chip, row, N)]
    what = "the engines as the NKI guide describes them, against simulated runs, each figure within its bound"
    result = outcome("neuroncore-v2", what, [*every, *others], [])
    wrong = [str(anchor) for anchor in every if not anchor.holds]
    compared = f"cycles of an instruction: {len(every):,} compared, {len(every) - len(wrong):,} equal"
    return replace(result, details=[compared, *wrong[:MOST_DETAILS], *map(str, others), sustained()])


def multiply(N: int, dtype: str) -> Run:
    """Two commands of ``FOLDS`` multiplications each: N moving columns times 128 x 128 stationary values."""
    depth = ARRAY * sum(FOLDS)
    graph = load_model("gemm", params={"M": N, "N": ARRAY, "K": depth})
    pinned = {"y": {"order": "nmk", "tm": N, "tn": ARRAY, "tk": ARRAY * FOLDS[0]}}
    return run_shapes(graph, load_chip("neuroncore-v2"), dtype, pinned)


def interval(run: Run) -> float:
    """Cycles from one multiplication to the next: what one command takes longer than the other, per multiplication."""
    clock, (long, short) = Clock(run.chip.clock), slices_of(run, "MatMul")
    folds = {command.id: command.work.n for command in run.program.commands if isinstance(command.work, Folds)}
    spans = [clock.edge(piece.end) - clock.edge(piece.data) for piece in (long, short)]
    return (spans[0] - spans[1]) / (folds[long.command] - folds[short.command])


def intervals(facts: dict[str, Any], N: int) -> Iterator[Anchor]:
    """max(N, 64) in bf16, four times that in fp32."""
    least = max(N, facts["min_interval_cycles"])
    for dtype, slower in (("bf16", 1), ("fp32", facts["fp32_slowdown"])):
        cycles = interval(multiply(N, dtype))
        yield relative(f"interval of {N} columns in {dtype}", slower * least, cycles, 0.0, " cycles")


def stationary_load(facts: dict[str, Any]) -> Iterator[Anchor]:
    """Cycles to load 128 x 128 stationary values against those to multiply by them, and how much of them is hidden."""
    record = folds_of(multiply(ARRAY, "bf16"))[0].stream
    what = "cycles to load a stationary operand, of those to multiply by it"
    yield relative(what, 1 / facts["stationary_load_speedup"], record.load / record.rows, 0.0)
    shown = (record.step - record.rows) / record.load
    yield relative("share of a later load that hides behind a multiplication", 1.0, 1 - shown, 0.0)


def instruction(chip: str, row: list[Any], N: int) -> Iterator[Anchor]:
    """Cycles of one instruction on 128 partitions of N elements; none where the published formula lacks a least."""
    name, op, tensors, dtype, least, per, fixed = row
    stated = fixed + max(least, ceil(N * Fraction(per)))
    if stated >= least_of(row):
        yield relative(
            f"{name} of {N} {dtype} on {chip}", stated, cycles_of(chip, op, tensors, dtype, N), 0.0, " cycles"
        )


def least_of(row: list[Any]) -> int:
    """Least cycles of an instruction here, also where its published cost has none."""
    return 0 if row[4] or row[6] else 64


def cycles_of(name: str, op: str, tensors: int, dtype: str, N: int) -> int:
    """Cycles of the only function of a run: an operator on so many tensors; of one, with a constant where it needs
    two."""
    b, chip = Builder(op), load_chip(name)
    inputs = [b.input(f"x{index}", (ARRAY, N), dtype) for index in range(tensors)]
    if tensors == 1 and op in ("Add", "Mul"):
        b.graph.tensors["c"] = Tensor("c", (1,), dtype, source=Filled((1,), 1.0, dtype))
        inputs.append("c")
    graph = b.finish(b.op(op, inputs, "y", **({"axes": [1], "keepdims": 1} if op.startswith("Reduce") else {})))
    (piece,) = slices_of(run := run_shapes(graph, chip, dtype, edges="outside"), "Vector")
    unit = chip.engines[run.program.commands[piece.command].engine]
    clock = clock_of(unit.clock or chip.clock)
    return clock.edge(piece.end) - clock.edge(piece.data)


def peak(facts: dict[str, Any]) -> Iterator[Anchor]:
    """The peak in bf16: of the spec, and while multiplications of the most columns follow each other."""
    stated, N = facts["peak_bf16_TFLOPS"], facts["most_columns"]
    run = multiply(N, "bf16")
    dense = 2e-12 * N * ARRAY * ARRAY / interval(run) * run.chip.clock
    yield relative("peak rate in bf16", stated, summary(run)["peak_TOPS"], 0.001, " TFLOPS")
    yield relative(f"rate of multiplications of {N} columns, one behind the other", stated, dense, 0.001, " TFLOPS")


def sustained() -> str:
    """Return what a large product reaches; no figure is published for it."""
    run = run_shapes(load_model("gemm", params=dict.fromkeys("MNK", SIZE)), load_chip("neuroncore-v2"), "bf16")
    rate = 2e-12 * SIZE**3
    at_work = rate / sum(array_seconds(run.step_stalls).values())
    return (
        f"not compared: a product of {SIZE} x {SIZE} x {SIZE} in bf16 reaches {rate / run.seconds:.1f} TFLOPS, "
        f"{at_work:.1f} without its first loads and last stores; no such figure is published"
    )
