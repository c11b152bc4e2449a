"""Check ``light-models``: nine real networks simulated with values on two chips, every tensor against a reference.

In fp32 the reference is ONNX Runtime (else ``onnx.reference``); in int8 every tensor must equal plain integer
arithmetic on whole layers to the last bit, and the signal-to-noise ratio tells what the quantisation itself costs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from accelsim.account.energy import energy_table, total_J
from accelsim.account.latency import traffic_by_memory
from accelsim.compiler.numbers.ranges import synthetic
from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.errors import UsageError
from accelsim.explore.against_reference import check_run
from accelsim.machine.run import Run
from accelsim.machine.simulate import simulate
from accelsim.seeds import of_inputs, of_ranges
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.sources.load import load_model
from accelsim.workload.zoo.light import LIGHT
from tests.validation.base import Check, check

SEED, WEIGHTS = 0, "random:0"


class Target(NamedTuple):
    """A chip and the operand format of its matrix unit."""

    chip: str
    dtype: str


TARGETS = (Target("tpu-v1", "int8"), Target("systolic-generic", "fp32"))


@dataclass(frozen=True)
class Outcome:
    """One network on one target, batch 1.

    ``tensors``: compared with the reference; ``equal``: of them, with both value policies, equal to the last bit.
    ``exact``, ``fast``: largest max |a - b| / max |b| of a tensor, by value policy. ``within``: tensors within the
    bound of their format under both. ``sqnr_dB``: of the worst output against the float model (int8 only).
    """

    model: str
    target: Target
    latency_s: float
    energy_J: float
    read_B: int
    written_B: int
    tensors: int
    equal: int
    within: int
    exact: float
    fast: float
    sqnr_dB: float | None


def measure(model: str, target: Target) -> Outcome:
    """Compile and simulate one network, tile by tile and layer by layer, and compare every tensor of both runs."""
    graph = load_model(model, weights=WEIGHTS)
    options = Options(dtype=target.dtype, seed=of_ranges(SEED))
    program = compile(graph, load_chip(target.chip), options)
    feeds = synthetic(graph, of_inputs(SEED))
    runs = {policy: simulate(program, feeds, policy, keep=True) for policy in ("exact", "fast")}
    verdicts = {policy: check_run(run, graph) for policy, run in runs.items()}
    layer_by_layer = {row.tensor: row for row in verdicts["fast"].rows}
    pairs = [(row, layer_by_layer[row.tensor]) for row in verdicts["exact"].rows]
    read_B, written_B = _traffic(runs["exact"])
    return Outcome(
        model, target, runs["exact"].seconds, total_J(energy_table(runs["exact"])), read_B, written_B, len(pairs),
        equal=sum(not max(row.relative for row in pair) for pair in pairs),
        within=sum(all(row.holds for row in pair) for pair in pairs),
        exact=verdicts["exact"].worst.relative, fast=verdicts["fast"].worst.relative,
        sqnr_dB=min(verdicts["exact"].sqnr_dB.values(), default=None),
    )  # fmt: skip


def _traffic(run: Run) -> tuple[int, int]:
    """Bytes read from and written to all off-chip memories."""
    memories = traffic_by_memory(run).values()
    return sum(each["read_B"] for each in memories), sum(each["write_B"] for each in memories)


def outcomes(
    models: Sequence[str] = tuple(LIGHT), targets: Sequence[Target] = TARGETS,
    each: Callable[[str], None] = lambda name: None,
) -> list[Outcome]:  # fmt: skip
    """One network at a time (the largest has half a gigabyte of weights); ``each`` is told before every one.

    Raises UsageError when ``models`` is empty.
    """
    if not models:
        raise UsageError("no models to check")
    found = []
    for model in models:
        for target in targets:
            each(f"{model} on {target.chip}")
            found.append(measure(model, target))
    return found


@check("light-models")
def light_models(models: Sequence[str] = tuple(LIGHT)) -> Check:
    """Every tensor of simulated runs of ``models``: int8 equal to the last bit, fp32 within 1e-4.

    ``equal`` counts the tensors within the bound, tile by tile and layer by layer. Raises UsageError as ``outcomes``.
    """
    return summed(outcomes(models))


def summed(found: Sequence[Outcome]) -> Check:
    """All outcomes as one check; ``errors`` are the largest ones of each network and target."""
    errors = np.array([max(each.exact, each.fast) for each in found])
    rows, within = sum(each.tensors for each in found), sum(each.within for each in found)
    what = "every tensor of simulated networks: int8 equal to integer arithmetic, fp32 within 1e-4 of ONNX Runtime"
    return Check("light-models", what, rows, within, errors, [line(each) for each in found],
                 "int8 exact, fp32 within 1e-04")  # fmt: skip


def line(each: Outcome) -> str:
    """One outcome in words."""
    error = max(each.exact, each.fast)
    text = f"{each.model} on {each.target.chip} in {each.target.dtype}: {each.within} of {each.tensors} tensors within"
    text += f" bounds, {each.equal} equal to the last bit, largest error {error:.1e}"
    return text if each.sqnr_dB is None else f"{text}, SQNR of the output {each.sqnr_dB:.1f} dB"
