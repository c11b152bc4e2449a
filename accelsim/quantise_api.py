"""A float model in, a quantised ONNX model out: what the command ``accelsim quantize`` does, as a function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from math import inf, log10
from pathlib import Path
from typing import Any

import numpy as np

from accelsim.compiler.numbers.formats import canonical, is_code, is_integer, pair
from accelsim.compiler.numbers.ranges import batches
from accelsim.compiler.passes import PASSES
from accelsim.compiler.state import SCHEMES, Options, State
from accelsim.errors import AccelsimError, Problem, UsageError, count_of, nearest
from accelsim.files import as_bytes, write_file
from accelsim.formats import integer
from accelsim.formats.ranges import methods as ranges
from accelsim.spec.chip import Chip
from accelsim.spec.engine import EngineSpec
from accelsim.spec.yaml.chips import load_chip
from accelsim.threads import one_blas_thread
from accelsim.types import Array
from accelsim.workload import execute
from accelsim.workload.graph import Graph, Node
from accelsim.workload.nodes import is_product
from accelsim.workload.onnx.exporting.model import export_onnx
from accelsim.workload.onnx.exporting.quantised_file import FORMS, export_quantised
from accelsim.workload.onnx.importing.external_files import external_files
from accelsim.workload.sources.datasets import Dataset, load_dataset
from accelsim.workload.sources.load import load_model
from accelsim.workload.value_memory import check_values

CHIP = "edu-4x4"
"""A chip whose vector unit has most functions, so that no layer is left in floats for the chip's sake."""

SAMPLES = 256
"""Samples of the data that ranges are chosen from; more seldom change one."""

COMPARED = 16
"""Batches of these data on which the error of each layer is measured."""


@dataclass(frozen=True)
class LayerError:
    """One product: formats of its operands, scale and zero point of its result, and how far that is from floats.

    ``scale`` is NaN where the result is not held as codes. ``sqnr_dB``: signal to quantisation noise, 10 log10(sum
    x^2 / sum (x - y)^2), over the compared batches.
    """

    name: str
    op: str
    weights: str
    weight_scales: int
    activations: str
    scale: float
    zero_point: int
    sqnr_dB: float


@dataclass(frozen=True)
class Quantised:
    """A quantised model: the ONNX ``model``, the ``graph`` of codes that it says, and what was measured.

    ``outputs_dB``: SQNR of each output; ``bytes_before``, ``bytes_after``: sizes of both ONNX files,
    with the files of external data. ``accuracy``:
    shares of test samples that the float model and this one classify as labelled, where the data have labels.
    """

    model: Any
    graph: Graph
    format: str
    layers: list[LayerError]
    outputs_dB: dict[str, float]
    bytes_before: int
    bytes_after: int
    notes: list[str] = field(default_factory=list)
    accuracy: tuple[float, float] | None = None

    def save(self, path: str | Path) -> None:
        """Write the ONNX file: whole, or not at all. Raises UsageError where no file can be written."""
        write_file(path, as_bytes(self.model.SerializeToString()))


@one_blas_thread
def quantize(
    model: str | Path | Graph,
    *,
    dtype: str = "int8",
    ranges: str = "absmax",
    data: str | Path | Mapping[str, Array] | None = None,
    format: str = "qdq",
    scheme: str = "symmetric",
    per_tensor: bool = False,
    bias_correction: bool = False,
    percentile: float | None = None,
    weights: str = "model",
    batch: int | None = None,
    shape: Mapping[str, tuple[int, ...]] | None = None,
    seed: int = 0,
) -> Quantised:
    """Quantise a float model after training, and write it as ONNX.

    ``dtype``: format of the codes, or a pair weights x activations such as 'int4xint8'. ``ranges``: how the range
    of an activation is chosen (a key of ``formats.ranges.methods.METHODS``), with ``percentile`` for the methods of
    that name. ``data``: a dataset's name, an npz file, or arrays by input name, one or more batches behind each other;
    without it one random batch drawn with ``seed``, which says little about a trained network. ``format``: 'qdq' or
    'qoperator'. ``scheme``: 'symmetric', or 'affine' for activations with a zero point. ``per_tensor``: one scale for
    all weights of a layer, not one per channel. ``model``, ``weights``, ``shape`` and ``batch`` as in
    ``accelsim.run``. Raises UsageError (all at once) for choices and data that do not fit, ModelError for a model that
    cannot be read, is quantised already, or has no such form.
    """
    check_choices(dtype, ranges, format, scheme, percentile)
    graph = _loaded(model, batch, weights, dict(shape or {}))
    given = load_dataset(data) if isinstance(data, str | Path) else data
    options = Options(
        dtype=canonical(dtype),
        ranges=ranges,
        percentile=percentile,
        scheme=scheme,
        per_channel=not per_tensor,
        bias_correction=bias_correction,
        ranges_from=_feeds(graph, given),
        seed=seed,
    )
    _refuse_codes(graph)
    check_values(graph)
    real, state = _compiled(graph, options)
    layers, outputs = _errors(real, state.graph, options)
    proto = export_quantised(state.graph, format)
    before = _size(model) or export_onnx(graph).ByteSize()
    accuracy = _accuracy(real, state.graph, given) if isinstance(given, Dataset) else None
    return Quantised(proto, state.graph, format, layers, outputs, before, proto.ByteSize(), state.notes, accuracy)


def _loaded(model: str | Path | Graph, batch: int | None, weights: str, shapes: dict[str, tuple[int, ...]]) -> Graph:
    if not isinstance(model, Graph):
        return load_model(model, batch=batch, weights=weights, shapes=shapes)
    if batch is not None or weights != "model" or shapes:
        what = "batch, shape or weights for a graph that is loaded already"
        raise UsageError(what, expected="them in load_model")
    return model


def check_choices(dtype: str, method: str, format: str, scheme: str, percentile: float | None = None) -> None:
    """Raise UsageError, with all of them, for choices of ``quantize`` that do not exist."""
    problems: list[Problem] = []
    for check in (lambda: _coded(dtype), lambda: ranges.get(method)):
        try:
            check()
        except AccelsimError as error:
            problems += error.problems
    for what, given, valid in (("format", format, tuple(FORMS)), ("scheme", scheme, SCHEMES)):
        if given not in valid:
            problems.append(Problem(f"no {what} {given!r}", "", " or ".join(valid), nearest(given, valid)))
    if percentile is not None and not 0 < percentile <= 100:
        problems.append(Problem(f"percentile {percentile:g}", "", "above 0, at most 100"))
    elif percentile is not None and method in ranges.METHODS and not ranges.METHODS[method].percentile:
        what = f"percentile {percentile:g} has no effect with ranges {method!r}"
        problems.append(Problem(what, "", "ranges 'percentile' or 'percentile-ort'"))
    UsageError.raise_for(problems)


def _coded(dtype: str) -> None:
    if not all(is_code(half) for half in pair(dtype)):
        raise UsageError(f"{dtype!r} has no codes with scales", "dtype", "int8, int4, int4xint8, fp8 ...")


def _size(model: str | Path | Graph) -> int:
    """Bytes of an ONNX file and of its external data; 0 for a model that is none."""
    if isinstance(model, Graph) or Path(model).suffix != ".onnx":
        return 0
    path = Path(model)
    return sum(each.stat().st_size for each in (path, *external_files(path)))


def _feeds(graph: Graph, data: Dataset | Mapping[str, Array] | None) -> dict[str, Array] | None:
    """Data for ranges by input name, at most ``SAMPLES`` samples in whole batches."""
    if data is None:
        return None
    if isinstance(data, Dataset):
        given = _arrays(graph, data)
    else:
        given = {name: np.asarray(value) for name, value in data.items()}
    return {name: _whole_batches(graph, name, value) for name, value in given.items()}


def _arrays(graph: Graph, data: Dataset) -> dict[str, Array]:
    if data.inputs:
        return dict(data.inputs)
    if len(graph.inputs) != 1:
        what = f"{data.name} has one array of samples, the model has {count_of(len(graph.inputs), 'input')}"
        raise UsageError(what, "ranges_from", f"an npz file with {', '.join(graph.inputs)}")
    return {graph.inputs[0]: data.x_train}


def _whole_batches(graph: Graph, name: str, value: Array) -> Array:
    """The first samples, as many as make whole batches; arrays of another shape as they are (told later)."""
    shape = graph.tensors[name].shape if name in graph.inputs else ()
    if not shape or value.ndim != len(shape) or value.shape[1:] != shape[1:] or len(value) < shape[0]:
        return value
    return value[: max(min(len(value), SAMPLES) // shape[0], 1) * shape[0]]


def _refuse_codes(graph: Graph) -> None:
    found = [node.op for node in graph.nodes if node.op in ("Quantize", "Dequantize", "Requantize")]
    if found:
        raise UsageError(f"{graph.name} is quantised already ({found[0]})", "", "a model of real numbers")


def _chip(dtype: str) -> Chip:
    """A chip that multiplies in this very format."""
    chip = load_chip(CHIP)
    whole = all(is_integer(half) for half in pair(dtype))
    like = "int8" if whole else "fp32"

    def also(unit: EngineSpec) -> EngineSpec:
        formats = getattr(unit, "formats", None)
        return unit.model_copy(update={"formats": {dtype: formats[like], **formats}}) if formats else unit

    return chip.with_engines(also)


def _compiled(graph: Graph, options: Options) -> tuple[Graph, State]:
    """The fused graph of real numbers, and the state behind the passes."""
    state = State(graph, _chip(options.dtype), options, options.dtype)
    real = graph
    for entry in PASSES:
        if entry.name == "quantise":
            real = state.graph.copy()
        entry.run(state)
    return real, state


class _Ratio:
    """Signal and noise, summed up over batches."""

    def __init__(self) -> None:
        self.signal, self.noise = 0.0, 0.0

    def add(self, real: Array, ours: Array) -> None:
        x, y = real.astype(np.float64), ours.astype(np.float64)
        self.signal += float(np.sum(x * x))
        self.noise += float(np.sum((x - y) ** 2))

    @property
    def dB(self) -> float:
        if not self.noise:
            return inf
        return 10 * log10(self.signal / self.noise) if self.signal else -inf


def _errors(real: Graph, coded: Graph, options: Options) -> tuple[list[LayerError], dict[str, float]]:
    """SQNR of the result of every product, and of the outputs."""
    nodes = [node for node in coded.nodes if is_product(node)]
    names = {node.writes[0]: _origin(real, node.writes[0]) for node in nodes} | {n: n for n in coded.outputs}
    ratios = {name: _Ratio() for name in names}
    for feeds in islice(batches(real, options), COMPARED):
        exact, ours = execute.run(real, feeds, keep=True), execute.run(coded, feeds, keep=True)
        for name, origin in names.items():
            if origin in exact:
                ratios[name].add(exact[origin], _as_real(coded, name, ours[name]))
    rows = [_row(coded, node, ratios[node.writes[0]].dB) for node in nodes]
    return rows, {name: ratios[name].dB for name in coded.outputs}


def _accuracy(real: Graph, coded: Graph, data: Dataset) -> tuple[float, float] | None:
    """Top-1 accuracy of both graphs on at most ``SAMPLES`` test samples; None where there is nothing to classify."""
    if not data.labelled or len(real.outputs) != 1 or real.tensors[real.outputs[0]].shape[1:] != (data.classes,):
        return None
    name = real.inputs[0]
    count = real.tensors[name].shape[0]
    x = _whole_batches(real, name, data.x_test)
    if x.shape[1:] != real.tensors[name].shape[1:] or len(x) < count or len(x) % count:
        return None
    labels, hits = data.y_test[: len(x)], np.zeros(2, np.int64)
    for start in range(0, len(x), count):
        feeds, wanted = {name: x[start : start + count]}, labels[start : start + count]
        for index, graph in enumerate((real, coded)):
            found = execute.run(graph, feeds)[real.outputs[0]].argmax(axis=1)
            hits[index] += int(np.count_nonzero(found == wanted))
    return float(hits[0] / len(x)), float(hits[1] / len(x))


def _origin(real: Graph, name: str) -> str:
    """The tensor of the float graph that a tensor of the graph of codes stands for."""
    return name if name in real.tensors else name.rpartition(".")[0]


def _as_real(graph: Graph, name: str, values: Array) -> Array:
    quant = graph.tensors[name].quant
    return values if quant is None else integer.dequantise(values, quant.scale, quant.zero_point, quant.axis)


def _row(graph: Graph, node: Node, sqnr_dB: float) -> LayerError:
    a, b = (graph.tensors[name] for name in node.inputs[:2])
    scales = np.size(b.quant.scale) if b.quant is not None else 0
    quant = graph.tensors[node.writes[0]].quant
    scale, zero = (float("nan"), 0) if quant is None else (float(quant.scale), quant.zero_point)
    return LayerError(node.name, node.label(), b.dtype, scales, a.dtype, scale, zero, sqnr_dB)
