"""One model in many number formats on many chips: the accuracy that is left, and the time and energy that it takes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import nan, prod
from pathlib import Path

import numpy as np

from accelsim.account.energy import HOST_IDLE, EnergyRow, energy_table, static_power_W, total_J
from accelsim.account.latency import batch_size
from accelsim.compiler.numbers.formats import canonical, pair, resolve
from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options, check_choices
from accelsim.errors import Gather, Infeasible, UsageError
from accelsim.explore.training import accuracy as share_right
from accelsim.explore.training import evaluate, train
from accelsim.explore.training_inputs import BATCH, labelled
from accelsim.formats import table
from accelsim.formats.sparsity import pattern
from accelsim.machine.simulate import simulate
from accelsim.program.program import Program
from accelsim.program.roles import HOST, HOST_OWN_MEMORY, multiplier
from accelsim.seeds import of_ranges
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.chips import load_chip
from accelsim.threads import one_blas_thread
from accelsim.time import FS
from accelsim.types import Array
from accelsim.workload import execute
from accelsim.workload.graph import Graph
from accelsim.workload.multiply import multiplies_floats
from accelsim.workload.nodes import is_product
from accelsim.workload.ops import base
from accelsim.workload.sources.datasets import Dataset
from accelsim.workload.sources.load import load_model
from accelsim.workload.training import Adam, QuantConfig, with_weights
from accelsim.workload.zoo import ZOO

DTYPES = ("fp32", "tf32", "bf16", "fp16", "fp8", "int8", "int4", "int1")
"""Formats of the table unless others are asked for."""

RANGE_SAMPLES = 256
"""Training samples that set the scales."""

STEPS = 1000
"""Steps of a training, before and with the rounding."""

QAT_RATE = 5e-4
"""Learning rate of Adam in quantisation-aware training: half of that before, for the weights are learnt already."""

EDGES, NARROW = "int8", 3
"""Format of the first and the last layer in training for codes of fewer than ``NARROW`` bits, as in binary networks
(Rastegari et al., arXiv 1603.05279, section 4): one bit of each pixel says too little."""

PTQ, QAT = "PTQ", "QAT"


@dataclass(frozen=True)
class FormatResult:
    """One format on one chip; times and energies per inference. What does not apply is NaN, and ``note`` says why.

    ``method``: 'PTQ' (rounded after training; of floats simply a cast) or 'QAT' (trained with the rounding). ``mac``:
    format in which the unit computes, another than ``dtype`` where it is emulated. ``accuracy``: share of the test
    samples, 1 is all. ``host_s``, ``host_J``: what operators on the host and the conversion of inputs and outputs
    add. ``model_B``: weights, biases and scales in memory.
    """

    chip: str
    dtype: str
    method: str
    mac: str = ""
    accuracy: float = nan
    latency_s: float = nan
    host_s: float = nan
    energy_J: float = nan
    host_J: float = nan
    model_B: float = nan
    note: str = ""

    @property
    def known(self) -> bool:
        """Return whether the chip can do it."""
        return not np.isnan(self.accuracy)

    @property
    def chip_s(self) -> float:
        """Latency without the host, s."""
        return self.latency_s - self.host_s

    @property
    def chip_J(self) -> float:
        """Energy without the host and without what is drawn while it works, J."""
        return self.energy_J - self.host_J


@dataclass(frozen=True)
class Accuracy:
    """The table: ``baseline`` is the accuracy of the model in FP32, on ``samples`` samples of ``data``."""

    model: str
    data: str
    samples: int
    batch: int
    baseline: float
    weights: str
    rows: list[FormatResult]


@dataclass(frozen=True)
class Study:
    """Request behind every row: the trained model by batch size, the data, how ranges are chosen."""

    model: Callable[[int], Graph]
    data: Dataset
    batch: int
    options: Options
    steps: int
    seed: int = 0


@one_blas_thread
def accuracy(
    model: str | Path | Graph,
    on: Sequence[str | Path | Chip],
    data: str | Path | Dataset = "digits",
    *,
    dtypes: Sequence[str] = DTYPES,
    qat: Sequence[str] = (),
    batch: int = 1,
    steps: int = STEPS,
    options: Options | None = None,
    seed: int = 0,
    progress: Callable[[str, float], None] = lambda stage, share: None,
) -> Accuracy:
    """Accuracy, latency and energy of ``model`` in each of ``dtypes`` on each chip of ``on``.

    A model of the zoo has no learnt weights: it is trained first, ``steps`` steps in FP32 with ``seed``. ``qat``:
    formats that are also trained for, from those weights on, for as many steps. Narrow formats get their ranges from
    training samples as ``options`` says; a format that a chip lacks is emulated where a wider one of its own holds
    it. ``batch``: samples of one run of inference. Raises UsageError, ModelError and SpecError, all problems at once.
    """
    gather, chips, dataset = Gather(), [], None
    for name in on:
        with gather.also():
            chips.append(with_matrix(name if isinstance(name, Chip) else load_chip(name)))
    for name in dict.fromkeys((*dtypes, *qat)):
        with gather.also():
            canonical(name)
    for name in qat:
        with gather.also():
            QuantConfig.parse(name)
    with gather.also():
        dataset = labelled(data)
    with gather.also():
        check_choices(options or Options())
    with gather.also():
        pattern((options or Options()).sparsity or "1:1")
    gather.done()
    assert dataset is not None
    progress("train", 0.0)
    study = Study(trained(model, dataset, steps, seed), dataset, batch, options or Options(), steps, seed)
    graph = study.model(batch)
    rows: list[FormatResult] = []
    for index, (dtype, method) in enumerate(jobs := [*((d, PTQ) for d in dtypes), *((d, QAT) for d in qat)]):
        progress(f"{method} {dtype}", index / len(jobs))
        rows += _rows(study, chips, dtype, method)
    baseline = evaluate(graph, dataset)
    return Accuracy(graph.name, dataset.name, len(dataset.y_test), batch_size(graph), baseline, graph.values_from, rows)


def with_matrix(chip: Chip) -> Chip:
    """The chip. Raises UsageError when it has no matrix unit."""
    if multiplier(chip) is None:
        raise UsageError(f"{chip.name} has no matrix unit", "on", "a chip with number formats of its own")
    return chip


def trained(model: str | Path | Graph, data: Dataset, steps: int, seed: int) -> Callable[[int], Graph]:
    """The model with learnt weights, as a function of the batch size; a model of the zoo is trained here."""
    if isinstance(model, Graph):
        return lambda batch: model
    if str(model).partition("?")[0] not in ZOO:
        return lambda batch: load_model(model, batch=batch)
    result = train(model, data, steps=steps, optimiser="adam", seed=seed)
    name = result.graph.values_from
    return lambda batch: with_weights(load_model(model, batch=batch), result.weights, name)


def _rows(study: Study, chips: Sequence[Chip], dtype: str, method: str) -> Iterator[FormatResult]:
    """The rows of one format: what is computed alike on two chips is executed once."""
    graph, scales = study.model(study.batch), dict[str, Array]()
    layers = dict(study.options.layers)
    if method == QAT:
        graph, scales = _retrained(study, dtype)
        layers |= dict.fromkeys(_edges(graph), EDGES) if _edges_stay_wide(dtype) else {}
    options = replace(study.options, dtype=dtype, emulate=True, scales=scales, seed=study.seed, layers=layers,
                      ranges_from=range_feeds(study.data, graph))  # fmt: skip
    seen: dict[Hashable, float] = {}
    for chip in chips:
        why = _refused(chip, dtype)
        if why:
            yield FormatResult(chip.name, canonical(dtype), method, note=why)
            continue
        try:
            program = compile(graph, chip, options)
        except Infeasible as error:
            yield FormatResult(chip.name, canonical(dtype), method, note=error.problems[0].what)
            continue
        key = _arithmetic(program)
        if key not in seen:
            seen[key] = right_share(study.data, program.graph)
        yield _row(program, canonical(dtype), method, seen[key])


def _refused(chip: Chip, dtype: str) -> str:
    """Why the chip can not even emulate a format, or ''."""
    try:
        resolve(chip, dtype, emulate=True)
    except UsageError as error:
        return error.problems[0].what
    return ""


def _retrained(study: Study, dtype: str) -> tuple[Graph, dict[str, Array]]:
    """The model trained on with fake quantisation, and the scales that it learnt."""
    start = study.model(BATCH)
    result = train(
        start,
        study.data,
        steps=study.steps,
        optimiser=Adam(QAT_RATE),
        seed=of_ranges(study.seed),
        fake_quant=QuantConfig.parse(canonical(dtype), EDGES if _edges_stay_wide(dtype) else ""),
    )
    graph = with_weights(study.model(study.batch), result.weights, result.graph.values_from)
    return graph, {**result.activation_scales, **result.weight_scales}


def _edges_stay_wide(dtype: str) -> bool:
    return max(table.get(name).bits for name in pair(dtype)) < NARROW


def _edges(graph: Graph) -> list[str]:
    """Names of the first and the last matrix layer."""
    found = [node.name for node in graph.nodes if (op := base.find(node.op)) is not None and op.kind == "matrix"]
    return [found[0], found[-1]]


def shaped(graph: Graph, samples: Array) -> Array:
    """Samples in the shape that the model reads. Raises UsageError when they have another number of elements."""
    shape = graph.tensors[graph.inputs[0]].shape[1:]
    if prod(samples.shape[1:]) != prod(shape):
        what = f"samples of shape {list(samples.shape[1:])}"
        raise UsageError(what, "data", f"{list(shape)}, as input {graph.inputs[0]!r} of {graph.name}")
    return samples.reshape(len(samples), *shape)


def range_feeds(data: Dataset, graph: Graph) -> dict[str, Array]:
    """Training samples that set scales, in whole batches."""
    size = graph.tensors[graph.inputs[0]].shape[0]
    count = max(1, min(RANGE_SAMPLES, len(data.x_train)) // size) * size
    return {graph.inputs[0]: shaped(graph, data.x_train[:count])}


def _arithmetic(program: Program) -> Hashable:
    """All that values depend on, for one model and one request."""
    return tuple(
        (
            node.label(),
            str(node.attrs.get("dot", "")),
            multiplies_floats(node.format) and node.format,
            tuple(program.graph.tensors[name].dtype for name in (*node.reads, *node.writes)),
        )
        for node in program.graph.nodes
    )


def right_share(data: Dataset, graph: Graph) -> float:
    """Share of the test samples that a compiled graph gets right."""
    return share_right(graph, shaped(graph, data.x_test), data.y_test, partial(execute.run, graph))


def _row(program: Program, dtype: str, method: str, share: float) -> FormatResult:
    run = simulate(program, None, "off")
    batch = batch_size(program.graph) * program.cores
    rows = energy_table(run)
    host_s = sum(each.busy for each in run.engines if each.engine == HOST) * FS
    formats = [node.format for node in program.graph.nodes if is_product(node)]
    return FormatResult(
        program.chip.name, dtype, method, " ".join(dict.fromkeys(formats)), share, run.seconds / batch,
        host_s / batch, total_J(rows) / batch, _host_J(program.chip, rows, host_s) / batch, model_B(program.graph),
    )  # fmt: skip


def _host_J(chip: Chip, rows: Sequence[EnergyRow], host_s: float) -> float:
    """Return what the host uses, and what the rest draws while it waits for the host."""
    own = [row for row in rows if row.component in ("host", HOST_OWN_MEMORY) or row.action == HOST_IDLE]
    return total_J(own) + host_s * sum(static_power_W(chip).values())


def model_B(graph: Graph) -> int:
    """Bytes of all constants as they lie in memory, and of the float32 scales of codes."""
    tensors = list(graph.constants())
    scales = sum(tensor.quant.scale.nbytes for tensor in tensors if tensor.quant is not None)
    return sum(tensor.nbytes for tensor in tensors) + scales
