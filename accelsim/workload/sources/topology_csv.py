"""Layer tables in the form of SCALE-Sim topologies: convolutions, or matrix products.

Convolution form: ``Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter,
Strides`` (or, for the last, ``Stride Height, Stride Width``). Matrix form: ``Layer, M, N, K``: an M x K input
times a K x N weight matrix. The header says which form a file has; case and spaces do not matter, trailing
commas, blank rows, tabs and ``#`` comments are ignored. A sparsity column is ignored with a note.

The layers are independent: each has an input of its own. Convolutions are not padded, but a last window that
sticks out counts, as in SCALE-Sim: out = ceil((in - filter) / stride) + 1. What it reads beyond the input is
zero.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from accelsim.errors import ModelError, Problem
from accelsim.files.reading import read_text
from accelsim.workload.graph import Graph
from accelsim.workload.zoo.build import Builder

CONV_COLUMNS = (
    "ifmapheight",
    "ifmapwidth",
    "filterheight",
    "filterwidth",
    "channels",
    "numfilter",
    "strides",
)
STRIDES_COLUMNS = (*CONV_COLUMNS[:-1], "strideheight", "stridewidth")
GEMM_COLUMNS = ("m", "n", "k")
FORMS = (CONV_COLUMNS, STRIDES_COLUMNS, GEMM_COLUMNS)
"""Numbers of a row, in order, by form; the layer's name comes before them."""

ALIASES = {
    "ifmapht": "ifmapheight", "ifmapwd": "ifmapwidth", "filterht": "filterheight", "filterwd": "filterwidth",
    "numfilters": "numfilter", "numberoffilters": "numfilter", "stride": "strides", "channel": "channels",
}  # fmt: skip
"""Other spellings of a column."""

IGNORED = ("sparsity", "sparsitysupport", "sparsityratio")


@dataclass(frozen=True)
class Layer:
    """One row: its name and its numbers in the order of its form."""

    name: str
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Topology:
    """A file: which columns it has, its layers, and what was ignored."""

    columns: tuple[str, ...]
    layers: tuple[Layer, ...]
    notes: tuple[str, ...] = ()


def read_topology(path: str | Path, batch: int = 1) -> Graph:
    """The graph of a topology CSV: one node per row, ``batch`` images (or, in matrix form, ``batch`` times M
    rows).

    Layer names are made unique by '#2', '#3'... The graph's first node carries the file's notes. Raises
    ModelError naming file and line of everything that cannot be read.
    """
    path = Path(path)
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(Problem(f"cannot be read as text ({error})", str(path))) from error
    topology = parse_topology(text, str(path))
    return topology_graph(topology, path.stem, batch)


def topology_graph(topology: Topology, name: str, batch: int = 1) -> Graph:
    """The graph of a parsed topology; see ``read_topology``."""
    builder = Builder(name)
    add = _add_gemm if topology.columns == GEMM_COLUMNS else _add_conv
    outputs = [add(builder, layer, batch) for layer in topology.layers]
    graph = builder.finish(*outputs)
    graph.nodes[0].note = "; ".join(topology.notes)
    graph.products = batch
    return graph


def parse_topology(text: str, where: str = "topology") -> Topology:
    """The layers of a topology in ``text``; ``where`` is the file name for messages.

    Raises ModelError with one problem per bad line.
    """
    rows = list(_rows(text))
    if not rows:
        raise ModelError(Problem("no rows", where, "a header and one row per layer"))
    line, header = rows[0]
    columns, notes = _form(header, f"{where}:{line}")
    problems: list[Problem] = []
    layers: list[Layer] = []
    seen: dict[str, int] = {}
    for line, cells in rows[1:]:
        found = _row_problems(cells, columns, f"{where}:{line}")
        problems += found
        if not found:
            layers.append(Layer(_unique(cells[0] or f"layer{line}", seen), _sizes(cells, columns)))
    if not problems and not layers:
        problems.append(Problem("no layers", where, "one row per layer"))
    if problems:
        raise ModelError(problems)
    return Topology(columns, tuple(layers), notes)


def _rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """(line number, cells) of the rows that say something."""
    for number, line in enumerate(text.splitlines(), 1):
        cells = [cell.strip() for cell in line.partition("#")[0].split(",")]
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            yield number, cells


def _form(header: list[str], where: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns of the form that a header announces, and notes about columns that are ignored."""
    names = [re.sub(r"[^a-z]", "", cell.casefold()) for cell in header]
    names = [ALIASES.get(name, name) for name in names]
    for form in FORMS:
        stated = tuple(name for name in names[1:] if name not in IGNORED)
        if stated == form and tuple(names[1 : len(form) + 1]) == form:
            extra = [header[index] for index, name in enumerate(names) if name in IGNORED]
            return form, tuple(f"column {name!r} of the topology is ignored" for name in extra)
    expected = (
        "'Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides'"
    )
    raise ModelError(Problem(f"header {', '.join(header)!r}", where, f"{expected} or 'Layer, M, N, K'"))


def _row_problems(cells: list[str], columns: tuple[str, ...], where: str) -> list[Problem]:
    numbers = cells[1 : len(columns) + 1]
    if len(numbers) < len(columns):
        return [Problem(f"{len(numbers)} numbers", where, f"{len(columns)}: {', '.join(columns)}")]
    problems = [
        Problem(f"{column} is {cell!r}", where, "an integer of at least 1")
        for column, cell in zip(columns, numbers, strict=True)
        if not re.fullmatch(r"0*[1-9][0-9]{0,17}", cell, re.ASCII)
    ]
    if not problems and columns != GEMM_COLUMNS:
        height, width, filter_height, filter_width = (int(cell) for cell in numbers[:4])
        if filter_height > height or filter_width > width:
            what = f"filter {filter_height} x {filter_width} on {height} x {width}"
            problems.append(Problem(what, where, "a filter no larger than its unpadded input"))
    return problems


def _sizes(cells: list[str], columns: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(int(cell) for cell in cells[1 : len(columns) + 1])


def _unique(name: str, seen: dict[str, int]) -> str:
    seen[name] = seen.get(name, 0) + 1
    candidate = name if seen[name] == 1 else f"{name}#{seen[name]}"
    if candidate != name and candidate in seen:
        return _unique(name, seen)
    seen.setdefault(candidate, 1)
    return candidate


def _add_conv(builder: Builder, layer: Layer, batch: int) -> str:
    height, width, filter_height, filter_width, channels, filters, stride, *second = layer.sizes
    x = builder.input(f"{layer.name}.ifmap", (batch, channels, height, width))
    weight = builder.weight(f"{layer.name}.filter", (filters, channels, filter_height, filter_width))
    kernel, strides = [filter_height, filter_width], [stride, *(second or [stride])]
    beyond = [_beyond(size, k, step) for size, k, step in zip((height, width), kernel, strides, strict=True)]
    window = {"kernel_shape": kernel, "strides": strides, "pads": [0, 0, *beyond], "dilations": [1, 1]}
    return builder.op("Conv", [x, weight], layer.name, **window, group=1, a_zero_point=0, b_zero_point=0)


def _beyond(size: int, kernel: int, stride: int) -> int:
    """How far the last window sticks out of the input."""
    return -(size - kernel) % stride


def _add_gemm(builder: Builder, layer: Layer, batch: int) -> str:
    m, n, k = layer.sizes
    x = builder.input(f"{layer.name}.a", (batch * m, k))
    return builder.matmul(x, builder.weight(f"{layer.name}.b", (k, n)), layer.name)
