"""The range that each tensor takes on some inputs, by executing the float graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from accelsim.compiler.graph import edit
from accelsim.compiler.state import Options, State
from accelsim.errors import Problem, UsageError, nearest
from accelsim.formats import integer
from accelsim.seeds import generator
from accelsim.types import Array
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.nodes import is_product
from accelsim.workload.ops.values import CONTAINERS

if TYPE_CHECKING:
    from accelsim.formats.collect import Collector


_MASK, _GAP = 1e4, 100.0

_SMALL_INDEX = 2
"""Integer inputs of unknown meaning are drawn below this."""


_WORDS = np.array(["a", "b", "c"], np.object_)
"""Texts are drawn from these."""


class Range(NamedTuple):
    """Lowest and highest real number that codes must reach, both sides of zero, and the mean magnitude."""

    low: float
    high: float
    mean: float

    def stretched(self, factor: float) -> Range:
        """Return the range, ``factor`` times as wide on either side."""
        return Range(self.low * factor, self.high * factor, self.mean)


UNKNOWN = Range(-1.0, 1.0, 1.0)


def union(spans: Iterable[Range]) -> Range:
    """The range over several tensors; the mean magnitude is the largest."""
    every = list(spans)
    return Range(min(span.low for span in every), max(span.high for span in every), max(span.mean for span in every))


def affine(span: Range, dtype: str) -> tuple[Array, int]:
    """Scale (0-d float32) and zero point that spread the codes over a range."""
    from accelsim.formats.scale_of_range import scale_zero_point

    scale, zero_point = scale_zero_point(span.low, span.high, dtype, symmetric=False)
    return np.asarray(scale, np.float32), int(zero_point)


def ranges(graph: Graph, options: Options, bits: Mapping[str, int]) -> dict[str, Range]:
    """Range of each named tensor over all ``batches``, by the method of ``options.ranges``.

    ``bits``: name -> bits of its codes, for the methods that weigh rounding against clipping. Raises UsageError for
    an unknown method and for NaN in what the network computes.
    """
    if options.values == "off":
        return dict.fromkeys(bits, UNKNOWN)
    from accelsim.formats.collect import Collector
    from accelsim.formats.ranges.methods import get
    from accelsim.workload import execute

    method = get(options.ranges)
    found: dict[str, Extent | Collector] = {
        name: Extent() if method.name == "absmax" else Collector(signed=True) for name in bits
    }
    for index, feeds in enumerate(batches(graph, options)):
        values = execute.run(graph, feeds, keep=True)
        for name, collector in found.items():
            collector.add(_unmasked(values[name]), f"tensor {name!r}, batch {index} of the data for ranges")
    return {name: _range(options, collector, bits[name]) for name, collector in found.items()}


def channel_means(graph: Graph, options: Options, axes: Mapping[str, int]) -> dict[str, Array]:
    """Mean of each named tensor per index of the given axis, float64, over all ``batches``."""
    from accelsim.workload import execute

    sums: dict[str, Array] = {}
    count = 0
    for feeds in batches(graph, options):
        values = execute.run(graph, feeds, keep=True)
        count += 1
        for name, axis in axes.items():
            others = tuple(i for i in range(values[name].ndim) if i != axis)
            mean = np.asarray(np.mean(values[name], axis=others, dtype=np.float64))
            sums[name] = sums[name] + mean if name in sums else mean
    return {name: total / count for name, total in sums.items()}


class Extent:
    """Lowest, highest and mean magnitude of what it is shown: all that 'absmax' needs, without a histogram."""

    def __init__(self) -> None:
        self.low, self.high, self._sum, self._count = 0.0, 0.0, 0.0, 0

    def add(self, x: Array, where: str) -> None:
        """Take the values of a batch into account. Raises UsageError for NaN, naming ``where``."""
        if not x.size:
            return
        low, high = float(np.min(x)), float(np.max(x))
        if np.isnan(low) or np.isinf(high - low):
            raise UsageError("holds NaN or infinity", where, "finite numbers")
        self.low, self.high = min(self.low, low), max(self.high, high)
        self._sum += float(np.sum(np.abs(x), dtype=np.float64))
        self._count += x.size

    @property
    def mean_abs(self) -> float:
        """Mean magnitude of all values so far, 0 if there are none."""
        return self._sum / max(self._count, 1)


def _range(options: Options, seen: Extent | Collector, bits: int) -> Range:
    from accelsim.formats.ranges.methods import affine_range, peak_of

    low, high = min(seen.low, 0.0), max(seen.high, 0.0)
    if not isinstance(seen, Extent):
        bits = min(max(bits, 2), 16)
        if options.scheme == "affine":
            low, high = affine_range(options.ranges, seen, bits, options.percentile)
        else:
            limit = peak_of(options.ranges, seen, bits, False, options.percentile)
            low, high = max(low, -limit), min(high, limit)
    return Range(min(low, 0.0), max(high, 0.0), seen.mean_abs)


def _unmasked(values: Array) -> Array:
    """The finite elements; minus a large number is how masks write minus infinity, and is taken as that.

    A mask is told by the gap: elements of magnitude ``_MASK`` or more where all others are far below it.
    """
    high, low = float(np.max(values, initial=0.0)), float(np.min(values, initial=0.0))
    if max(high, -low) < _MASK:
        return values
    finite = values[np.isfinite(values) | np.isnan(values)]
    near = finite[np.abs(finite) < _MASK]
    return near if 0.0 < np.max(np.abs(near), initial=0.0) <= _MASK / _GAP else finite


def batches(graph: Graph, options: Options) -> Iterator[dict[str, Array]]:
    """Feeds of the shapes that the graph has.

    ``options.ranges_from`` may hold several batches behind each other along the first axis; they are cut. Without it:
    one batch, standard normal, whole numbers within the table that they index, drawn with ``options.seed``. Raises
    UsageError, all problems at once, when the data for ranges do not fit the inputs.
    """
    if options.ranges_from is None:
        yield synthetic(graph, options.seed)
        return
    count = _count(graph, options.ranges_from)
    arrays = {name: np.asarray(options.ranges_from[name]) for name in graph.inputs}
    UsageError.raise_for(
        Problem(f"input {name!r} holds {int(np.isnan(array).sum())} NaN", "ranges_from", "numbers")
        for name, array in arrays.items()
        if array.dtype.kind == "f" and np.isnan(array).any()
    )
    for index in range(count):
        yield {name: _cut(graph.tensors[name], array, index, count) for name, array in arrays.items()}


def _cut(tensor: Tensor, array: Array, index: int, count: int) -> Array:
    if array.shape == tensor.shape:
        return array
    step = len(array) // count
    return array[index * step : (index + 1) * step]


def _count(graph: Graph, data: Mapping[str, Array]) -> int:
    """Number of batches in ``data``; the same for all inputs."""
    expected = "one of " + ", ".join(graph.inputs)
    problems = [
        Problem(f"no input {name!r}", "ranges_from", expected, nearest(name, graph.inputs))
        for name in data
        if name not in (*graph.inputs, *graph.unused)
    ]
    counts = {}
    for name in graph.inputs:
        shape = graph.tensors[name].shape
        if name not in data:
            problems.append(Problem(f"input {name!r} is missing", "ranges_from"))
        elif (whole := _batches_in(np.shape(data[name]), shape)) == 0:
            what = f"input {name!r} has shape {list(np.shape(data[name]))}"
            problems.append(Problem(what, "ranges_from", f"{list(shape)}, or whole batches of it"))
        else:
            counts[name] = whole
    if len(set(counts.values()) - {1}) > 1:
        problems.append(Problem(f"numbers of batches differ: {counts}", "ranges_from", "the same for all inputs"))
    UsageError.raise_for(problems)
    return max(counts.values(), default=1)


def _batches_in(given: tuple[int, ...], shape: tuple[int, ...]) -> int:
    if given == shape:
        return 1
    if len(given) != len(shape) or not shape or given[1:] != shape[1:] or shape[0] == 0:
        return 0
    return given[0] // shape[0] if given[0] % shape[0] == 0 else 0


def synthetic(graph: Graph, seed: int) -> dict[str, Array]:
    """One batch of random feeds: standard normal numbers, indices within their table, flags; reproducible."""
    rng = generator(seed)
    return {name: _draw(graph, graph.tensors[name], rng) for name in graph.inputs}


def _draw(graph: Graph, tensor: Tensor, rng: np.random.Generator) -> Array:
    if tensor.dtype.startswith(("fp", "bf")):
        return rng.standard_normal(tensor.shape, np.float32)
    if tensor.dtype == "bool":
        return rng.integers(0, 2, tensor.shape).astype(np.bool_)
    if tensor.dtype == "string":
        return np.asarray(rng.choice(_WORDS, tensor.shape), np.object_)
    if tensor.dtype == "e8m0":  # powers of two, without a sign
        return np.exp2(rng.integers(-2, 3, tensor.shape)).astype(np.float32)
    tables = [
        graph.tensors[node.inputs[0]].shape[node.attrs["axis"]]
        for node in graph.nodes
        if node.op == "Gather" and node.inputs[1] == tensor.name
    ]
    return rng.integers(0, min(tables, default=_SMALL_INDEX), tensor.shape).astype(CONTAINERS[tensor.dtype])


def mean_shift(state: State, node: Node, weights: Tensor, codes: Tensor) -> Array | float:
    """Return what to add to the bias per output channel: minus E[x] times the error of the rounded weights.

    0.0 unless ``Options.bias_correction`` is set, values are known and the layer has a bias. Nagel et al., arXiv
    1906.04721, section 4.2, with the mean of the inputs measured on the data for ranges.
    """
    has_bias = bool(node.epilogue) and node.epilogue[0].op == "Bias"
    means, conv = state.means.get(node.inputs[0]), node.op == "Conv"
    if not has_bias or means is None or codes.quant is None or (not conv and len(weights.shape) != 2):
        return 0.0
    from accelsim.formats.bias_correction import output_shift

    rounded = integer.dequantise(codes.value(), codes.quant.scale, axis=codes.quant.axis)
    group = node.attrs["group"] if conv else 1
    return -output_shift(edit.peek(weights), rounded, means, group, axis=0 if conv else 1)


def input_means(state: State) -> dict[str, Array]:
    """Mean per channel, over the data for ranges, of what every matrix node streams."""
    tensors = state.graph.tensors
    nodes = [node for node in state.graph.nodes if is_product(node)]
    axes = {node.inputs[0]: 1 if node.op == "Conv" else len(tensors[node.inputs[0]].shape) - 1 for node in nodes}
    return channel_means(state.graph, state.options, axes)
