"""A run against a reference execution, tensor by tensor: what ``accelsim run --check`` does.

A float run is compared with ONNX Runtime (else ``onnx.reference``), which executes the model as it was before the
compiler changed it, in float32. A run in integers must equal ``workload.integer_reference.integer_reference`` of the
quantised graph to the last bit; how much the quantisation itself costs is reported as SQNR against the float model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf, isfinite, log10
from typing import NamedTuple

import numpy as np

from accelsim.compiler.numbers.formats import is_code
from accelsim.errors import ModelError, UsageError
from accelsim.explore.choices import Choice, choices
from accelsim.formats.table import FORMATS
from accelsim.machine.run import Run
from accelsim.machine.values.batch import part_of_batch
from accelsim.types import Array
from accelsim.workload.execute import compute
from accelsim.workload.graph import Graph, Node
from accelsim.workload.integer_reference import integer_reference
from accelsim.workload.multiply import rounded_to
from accelsim.workload.nodes import is_product
from accelsim.workload.onnx.reference import Difference, compare, reference_outputs
from accelsim.workload.ops.values import contain

BOUNDS = {"fp32": 1e-4, "fp64": 1e-4, "tf32": 2e-2, "fp16": 2e-2, "bf16": 1e-1}
"""Operand format -> largest max |a - b| / max |b| of a tensor.

float32: sums in another order, through over 100 layers. The others: every tensor and every operand is rounded to 11
or 8 significant bits (half a step is 4.9e-4 or 3.9e-3 of the number), and the errors of about 100 layers add up.
"""

REAL_BOUND = 1e-4
"""Bound for real-valued results within a model in integers (softmax on the host)."""


class Compared(NamedTuple):
    """One tensor: how far it is from the reference, max |a - b| / max |b|, and how far it may be."""

    tensor: str
    relative: float
    bound: float

    @property
    def holds(self) -> bool:
        """Return whether it is within the bound; 0 means equal to the last bit."""
        return self.relative <= self.bound


@dataclass(frozen=True)
class Verdict:
    """Result of a comparison with a reference, ``by``: ``rows`` are the compared tensors, the outputs last.

    ``sqnr_dB`` (output -> decibels against the float model) is empty for float runs. ``alone``: tensors that only
    the compiled model has, which a float reference cannot know. ``choices``: indices and flags that the reference would
    have chosen differently, since real numbers within the bound lead to others (see ``validate.choices``). ``reason``:
    why a reference could not be executed.
    """

    by: str
    rows: list[Compared]
    sqnr_dB: dict[str, float] = field(default_factory=dict)
    alone: list[str] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    reason: str = ""

    @property
    def wrong(self) -> list[Compared]:
        """Tensors beyond their bound."""
        return [row for row in self.rows if not row.holds]

    @property
    def worst(self) -> Compared:
        """Tensor with the largest error; the first of several."""
        return max(self.rows, key=lambda row: row.relative)

    @property
    def holds(self) -> bool:
        """Return whether something was compared, and all of it is within the bound."""
        return bool(self.rows) and not self.wrong

    @property
    def text(self) -> str:
        """The verdict in words."""
        if self.rows:
            return "holds" if self.holds else "does not hold"
        return f"cannot check: {self.reason}" if self.reason else "nothing to compare: the model computes no tensor"

    def as_dict(self) -> dict[str, object]:
        """Return the facts for JSON; infinite values are None."""
        sqnr = {name: _finite(value) for name, value in self.sqnr_dB.items()}
        holds = self.holds if self.rows else None
        return {
            "holds": holds,
            "verdict": self.text,
            "reference": self.by,
            "tensors": len(self.rows),
            "bound": max((row.bound for row in self.rows), default=None),
            "largest_relative_error": _finite(self.worst.relative) if self.rows else None,
            "beyond_bound": [row.tensor for row in self.wrong],
            "sqnr_dB": sqnr,
            "choices": [choice._asdict() for choice in self.choices],
        }


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


def check_run(run: Run, model: Graph) -> Verdict:
    """Compare every tensor that ``run`` kept with the reference; ``model`` is the graph that was compiled.

    A model that no reference can execute is compared with nothing, and ``Verdict.reason`` says why. Raises UsageError
    for a run without values.
    """
    if run.values == "off":
        raise UsageError("a run with values 'off' computes nothing that could be checked")
    verdicts = [_check_core(part, model) for part in _by_core(run)]
    sqnr = {name: min(verdict.sqnr_dB[name] for verdict in verdicts) for name in verdicts[0].sqnr_dB}
    rows = [row for verdict in verdicts for row in verdict.rows]
    differing = [choice for verdict in verdicts for choice in verdict.choices]
    return Verdict(verdicts[0].by, rows, sqnr, verdicts[0].alone, differing, verdicts[0].reason)


def _by_core(run: Run) -> list[Run]:
    """The run as each core saw it: its part of inputs, tensors and outputs."""

    tensors, cores = run.program.graph.tensors, run.program.cores

    def part(values: Mapping[str, Array], core: int) -> dict[str, Array]:
        return {name: part_of_batch(value, core, cores, tensors[name].shape) for name, value in values.items()}

    return [
        replace(run, feeds=part(run.feeds, core), tensors=part(run.tensors, core), outputs=part(run.outputs, core))
        for core in range(cores)
    ]


def _multiplies_codes(graph: Graph) -> bool:
    """Return whether some product streams codes, or has weights that are stored as codes."""
    products = [node for node in graph.nodes if is_product(node)]
    streamed = (graph.tensors[node.inputs[0]].dtype for node in products)
    weights = (graph.tensors[node.inputs[1]].memory_format for node in products)
    return any(is_code(name) for name in (*streamed, *weights))


def _check_core(run: Run, model: Graph) -> Verdict:
    ours = {name: value for name, value in run.tensors.items() if name not in run.outputs} | run.outputs
    ours = {name: value for name, value in ours.items() if name not in model.inputs}
    graph = run.program.graph
    scaled = any(graph.tensors[name].quant is not None for name in ours)
    if scaled or _multiplies_codes(graph):
        return _integer(run, model, ours)
    made = choices(model, graph, ours, run.feeds)
    try:
        theirs = reference_outputs(made.model, {**run.feeds, **made.forced}, every_tensor=True)
    except ModelError as error:
        return Verdict("none", [], reason=str(error))
    names = {rounded_to(node) for node in graph.nodes} | {tensor.dtype for tensor in graph.tensors.values()}
    bound = max((BOUNDS.get(name, BOUNDS["fp32"]) for name in names), default=BOUNDS["fp32"])
    known = {name: contain(theirs.values[name], graph.tensors[name].dtype) for name in ours if name in theirs.values}
    known |= {name: value for name, value in made.expected.items() if name not in known}
    rows = [Compared(row.tensor, row.relative, bound) for row in compare(ours, known)]
    alone = [name for name in ours if name not in known]
    return Verdict(theirs.by, rows, alone=alone, choices=made.differing({**run.feeds, **theirs.values}))


def _integer(run: Run, model: Graph, ours: Mapping[str, Array]) -> Verdict:
    floats = _Floats(run.program.graph, ours)
    real_layers = _real_layers(run.program.graph)
    given = {name: ours[name] for name in real_layers if name in ours}
    tensors = run.program.graph.tensors
    feeds = {name: contain(value, tensors[name].dtype) for name, value in run.feeds.items()}
    rounded = [tensor for tensor in run.program.graph.constants() if tensor.dtype in ("fp16", "bf16")]
    # as memory holds them
    feeds |= {tensor.name: contain(tensor.value(), tensor.dtype) for tensor in rounded}
    expected = integer_reference(run.program.graph, feeds, floats, given) | floats.computed
    constants = [tensors[name] for name in ours if name not in expected]  # results that nothing computes
    expected |= {tensor.name: contain(tensor.value(), tensor.dtype) for tensor in constants}
    bounds = dict.fromkeys(floats.computed, REAL_BOUND) | real_layers
    rows = [
        Compared(row.tensor, _strict(row, ours, expected), bounds.get(row.tensor, 0.0))
        for row in compare(ours, {name: expected[name] for name in ours})
    ]
    by = "whole layers in plain integer arithmetic"
    try:
        real = reference_outputs(model, run.feeds)
    except ModelError as error:
        return Verdict(f"{by}; no SQNR: {error}", rows, reason=str(error))
    sqnr = {name: sqnr_dB(real.values[name], run.outputs[name]) for name in model.outputs}
    return Verdict(f"{by}; SQNR against {real.by}", rows, sqnr)


def _real_layers(graph: Graph) -> dict[str, float]:
    """Bounds of what layers write whose sums are real numbers, in a model that has others in integers.

    Codes in a unit of floats are such layers too: the order of the sums may turn one code into the next.
    """
    return {
        name: max(BOUNDS.get(rounded_to(node), BOUNDS["fp32"]), _step(graph.tensors[name].dtype))
        for node in graph.nodes
        if is_product(node) and graph.tensors[node.outputs[0]].dtype != "int32"
        for name in node.writes
    }


def _step(dtype: str) -> float:
    """One code, as a share of the largest; 0 of a format that is no code."""
    row = FORMATS.get(dtype)
    if row is None or not is_code(dtype):
        return 0.0
    return row.epsilon if row.kind == "float" else 2 / (row.high - row.low)


def _strict(row: Difference, ours: Mapping[str, Array], expected: Mapping[str, Array]) -> float:
    """The relative error; infinite where even the type differs."""
    return row.relative if ours[row.tensor].dtype == expected[row.tensor].dtype else inf


class _Floats:
    """Real-valued functions of an integer model, by the kernels of the ops; their last bit is not defined.

    ``computed`` holds the results, to be compared with a bound. What follows continues from the run's own values,
    so that a last bit does not become another integer: integers are compared given equal real operands.
    """

    def __init__(self, graph: Graph, ours: Mapping[str, Array]) -> None:
        self._graph, self._ours = graph, ours
        self.computed: dict[str, Array] = {}

    def __call__(self, node: Node, values: list[Array | None]) -> list[Array]:
        """Results of one part of a node, in the formats of its tensors."""
        tensors = self._graph.tensors
        values = [
            value if value is None else contain(value, tensors[name].dtype)
            for name, value in zip(node.inputs, values, strict=True)
        ]
        results = [
            contain(result, tensors[name].dtype) if name else result
            for name, result in zip(node.outputs, compute(node, self._graph, values), strict=False)
        ]
        self.computed.update(zip(node.outputs, results, strict=False))
        return [self._ours.get(name, value) for name, value in zip(node.outputs, results, strict=False)]


def sqnr_dB(real: Array, ours: Array) -> float:
    """Signal to quantisation noise, 10 log10(sum x^2 / sum (x - y)^2), dB; infinite when equal."""
    x, y = real.astype(np.float64), ours.astype(np.float64)
    signal, noise = float(np.sum(x * x)), float(np.sum((x - y) ** 2))
    if not noise:
        return inf
    return 10 * log10(signal / noise) if signal else -inf
