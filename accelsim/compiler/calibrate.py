"""Calibration: the largest magnitude that each tensor takes on some input, by executing the float graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from accelsim.compiler.state import Options
from accelsim.errors import Problem, UsageError, nearest
from accelsim.workload import execute
from accelsim.workload.graph import Array, Graph, Tensor

_MASK, _GAP = 1e4, 100.0

_SMALL_INDEX = 2
"""Integer inputs of unknown meaning are drawn below this."""


def peaks(graph: Graph, options: Options, names: Iterable[str]) -> dict[str, float]:
    """max |x| of each named tensor over all its finite elements and all ``batches`` of ``options``."""
    wanted = list(names)
    found = dict.fromkeys(wanted, 0.0)
    for feeds in batches(graph, options):
        values = execute.run(graph, feeds, keep=True)
        for name in wanted:
            found[name] = max(found[name], _peak(values[name]))
    return found


def _peak(values: Array) -> float:
    """max |x| of the finite elements; minus a large number is how masks write minus infinity, and is taken as
    that.

    A mask is told by the gap: elements of magnitude ``_MASK`` or more where all others are far below it.
    """
    high, low = float(np.max(values, initial=0.0)), float(np.min(values, initial=0.0))
    peak = max(high, -low)
    if peak < _MASK:
        return peak
    sizes = np.abs(values[np.isfinite(values)])
    near = float(np.max(sizes[sizes < _MASK], initial=0.0))
    return near if 0.0 < near <= _MASK / _GAP else float(np.max(sizes, initial=0.0))


def batches(graph: Graph, options: Options) -> Iterator[dict[str, Array]]:
    """Feeds of the shapes that the graph has.

    ``options.calibration`` may hold several batches behind each other along the first axis; they are cut.
    Without it: one batch, standard normal, whole numbers within the table that they index, drawn with
    ``options.seed``. Raises UsageError, all problems at once, when the calibration data do not fit the
    inputs.
    """
    if options.calibration is None:
        yield synthetic(graph, options.seed)
        return
    count = _count(graph, options.calibration)
    arrays = {name: np.asarray(options.calibration[name]) for name in graph.inputs}
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
        Problem(f"no input {name!r}", "calibration", expected, nearest(name, graph.inputs))
        for name in data
        if name not in graph.inputs
    ]
    counts = {}
    for name in graph.inputs:
        shape = graph.tensors[name].shape
        if name not in data:
            problems.append(Problem(f"input {name!r} is missing", "calibration"))
        elif (whole := _batches_in(np.shape(data[name]), shape)) == 0:
            what = f"input {name!r} has shape {list(np.shape(data[name]))}"
            problems.append(Problem(what, "calibration", f"{list(shape)}, or whole batches of it"))
        else:
            counts[name] = whole
    if len(set(counts.values()) - {1}) > 1:
        problems.append(
            Problem(f"numbers of batches differ: {counts}", "calibration", "the same for all inputs")
        )
    if problems:
        raise UsageError(problems)
    return max(counts.values(), default=1)


def _batches_in(given: tuple[int, ...], shape: tuple[int, ...]) -> int:
    if given == shape:
        return 1
    if len(given) != len(shape) or not shape or given[1:] != shape[1:] or shape[0] == 0:
        return 0
    return given[0] // shape[0] if given[0] % shape[0] == 0 else 0


def synthetic(graph: Graph, seed: int) -> dict[str, Array]:
    """One batch of random feeds: standard normal numbers, indices within their table, flags; reproducible."""
    rng = np.random.default_rng(seed)
    return {name: _draw(graph, graph.tensors[name], rng) for name in graph.inputs}


def _draw(graph: Graph, tensor: Tensor, rng: np.random.Generator) -> Array:
    if tensor.dtype.startswith(("fp", "bf")):
        return rng.standard_normal(tensor.shape, np.float32)
    if tensor.dtype == "bool":
        return rng.integers(0, 2, tensor.shape).astype(np.bool_)
    tables = [
        graph.tensors[node.inputs[0]].shape[node.attrs["axis"]]
        for node in graph.nodes
        if node.op == "Gather" and node.inputs[1] == tensor.name
    ]
    return rng.integers(0, min(tables, default=_SMALL_INDEX), tensor.shape).astype(tensor.dtype)
