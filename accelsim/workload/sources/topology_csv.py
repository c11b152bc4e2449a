"""Layer tables in the form of SCALE-Sim topologies: convolutions, or matrix products.

Convolution form: ``Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides``
(or, for the last, ``Stride Height, Stride Width``). Matrix form: ``Layer, M, N, K``: an M x K input times a K x N
weight matrix. The header says which form a file has; case and spaces do not matter. Cells are separated by commas, tabs
or semicolons; trailing separators, blank rows and ``#`` comments are ignored. Title lines (rows of one cell) are
skipped. Columns of batch and sparsity may follow. A note says how everything that is not in the plain form was read.

The layers are independent: each has an input of its own. Convolutions are not padded, but a last window that sticks out
counts, as in SCALE-Sim: out = ceil((in - filter) / stride) + 1. What it reads beyond the input is zero.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from accelsim.errors import ModelError, Problem, UsageError, count_of
from accelsim.files.reading import read_text
from accelsim.formats.sparsity import pattern
from accelsim.workload.graph import Graph
from accelsim.workload.zoo.build import Builder

HEADINGS = {
    re.sub(r"[^a-z]", "", heading.casefold()): heading
    for heading in ("IFMAP Height", "IFMAP Width", "Filter Height", "Filter Width", "Channels", "Num Filter", "Strides",
                    "Stride Height", "Stride Width", "M", "N", "K")
}  # fmt: skip
"""Column -> its heading."""
CONV_COLUMNS = tuple(HEADINGS)[:7]
STRIDES_COLUMNS = (*CONV_COLUMNS[:-1], "strideheight", "stridewidth")
GEMM_COLUMNS = ("m", "n", "k")
FORMS = (CONV_COLUMNS, STRIDES_COLUMNS, GEMM_COLUMNS)
"""Numbers of a row, in order, by form; the layer's name comes before them."""

ALIASES = {
    "ifmapht": "ifmapheight", "ifmapwd": "ifmapwidth", "filterht": "filterheight", "filterwd": "filterwidth",
    "numfilters": "numfilter", "numberoffilters": "numfilter", "stride": "strides", "channel": "channels",
}  # fmt: skip
"""Other spellings of a column."""

EXTRA = {
    "sparsity": "sparsity",
    "sparsitysupport": "sparsity",
    "sparsityratio": "sparsity",
    "batchsize": "batch",
    "batch": "batch",
}
"""Columns that may follow those of a form, and what they are."""
SEPARATORS = ",\t;"
"""Characters that may separate cells; the header decides."""
MOST_TITLES = 3
"""Title lines that a note names."""


@dataclass(frozen=True)
class Layer:
    """One row: its name, its numbers in the order of its form, its own batch, its sparsity ('N:M', '' for dense)."""

    name: str
    sizes: tuple[int, ...]
    batch: int = 1
    sparsity: str = ""


@dataclass(frozen=True)
class Topology:
    """A file: which columns it has, its layers, and how what is not in the plain form was read."""

    columns: tuple[str, ...]
    layers: tuple[Layer, ...]
    notes: tuple[str, ...] = ()


@dataclass
class _Header:
    """The columns of a form, the cells in which other columns stand, and notes on how the header was read."""

    columns: tuple[str, ...]
    extra: dict[str, int]
    notes: list[str]


def read_topology(path: str | Path, batch: int = 1) -> Graph:
    """The graph of a topology CSV: one node per row, ``batch`` images (or, in matrix form, ``batch`` times M rows).

    Layer names are made unique by '#2', '#3'... ``Graph.notes`` says how the file was read. Raises ModelError naming
    file and line of everything that cannot be read.
    """
    path = Path(path)
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"cannot be read as text ({error})", str(path)) from error
    topology = parse_topology(text, str(path))
    return topology_graph(topology, path.stem, batch)


def topology_graph(topology: Topology, name: str, batch: int = 1) -> Graph:
    """The graph of a parsed topology; see ``read_topology``."""
    builder = Builder(name)
    add = _add_gemm if topology.columns == GEMM_COLUMNS else _add_conv
    outputs = [add(builder, layer, batch * layer.batch) for layer in topology.layers]
    graph = builder.finish(*outputs)
    graph.notes = [f"topology: {note}" for note in topology.notes]
    graph.sparsity = {layer.name: layer.sparsity for layer in topology.layers if layer.sparsity}
    graph.products = batch
    return graph


def parse_topology(text: str, where: str = "topology") -> Topology:
    """The layers of a topology in ``text``; ``where`` is the file name for messages.

    Raises ModelError with one problem per bad line.
    """
    separator = _separator(text)
    rows = list(_rows(text, separator))
    titles = [cells[0] for _, cells in rows if len(cells) == 1]
    rows = [(line, cells) for line, cells in rows if len(cells) > 1]
    if not rows:
        raise ModelError("no rows", where, "a header and one row per layer")
    line, cells = rows[0]
    header = _header(cells, f"{where}:{line}")
    problems: list[Problem] = []
    layers: list[Layer] = []
    seen: dict[str, int] = {}
    for line, cells in rows[1:]:
        found = _row_problems(cells, header, f"{where}:{line}")
        problems += found
        if not found:
            layers.append(_layer(_unique(cells[0] or f"layer{line}", seen), cells, header))
    if not problems and not layers:
        problems.append(Problem("no layers", where, "one row per layer"))
    ModelError.raise_for(problems)
    return Topology(header.columns, tuple(layers), tuple(_notes(separator, header, titles, rows, layers)))


def _separator(text: str) -> str:
    """Return what separates the cells: what occurs most in the first line that has several of them."""
    for line in text.splitlines():
        counts = {each: line.partition("#")[0].count(each) for each in SEPARATORS}
        most = max(counts, key=lambda each: counts[each])
        if counts[most] > 1:
            return most
    return SEPARATORS[0]


def _rows(text: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """(line number, cells) of the rows that say something."""
    for number, line in enumerate(text.splitlines(), 1):
        cells = [cell.strip() for cell in line.partition("#")[0].split(separator)]
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            yield number, cells


def _header(cells: list[str], where: str) -> _Header:
    """The form that a header announces. Raises ModelError for a header that is of none."""
    names = [re.sub(r"[^a-z]", "", cell.casefold()) for cell in cells[1:]]
    names = [ALIASES.get(name, name) for name in names]
    for form in FORMS:
        stated, others = names[: len(form)], names[len(form) :]
        repeated = _repeated(stated, form)
        if stated == list(form) or repeated:
            if unknown := [cells[1 + len(form) + i] for i, name in enumerate(others) if name not in EXTRA]:
                what = f"{_listed(unknown)} after {cells[len(form)]!r}"
                raise ModelError(what, where, "a column Sparsity or Batch Size there, or none")
            extra = {EXTRA[name]: 1 + len(form) + index for index, name in enumerate(others)}
            told = [
                f"column {index + 1} is headed {cells[index + 1]!r} again; it is read as "
                f"{HEADINGS[form[index]]!r}, by position"
                for index in repeated
            ]
            return _Header(form, extra, told)
    expected = f"'Layer name, {_headings(CONV_COLUMNS)}'"
    raise ModelError(f"header {', '.join(cells)!r}", where, f"{expected} or 'Layer, M, N, K'")


def _headings(columns: Sequence[str]) -> str:
    return ", ".join(HEADINGS[column] for column in columns)


def _repeated(stated: list[str], form: tuple[str, ...]) -> list[int]:
    """Places of columns that are headed as another of the form, which stands at its own place too."""
    if len(stated) != len(form):
        return []
    wrong = [index for index, (name, wanted) in enumerate(zip(stated, form, strict=True)) if name != wanted]
    right = {stated[index] for index in range(len(form)) if index not in wrong}
    return wrong if all(stated[index] in right for index in wrong) else []


def _row_problems(cells: list[str], header: _Header, where: str) -> list[Problem]:
    columns = header.columns
    numbers = cells[1 : len(columns) + 1]
    if len(numbers) < len(columns):
        return [Problem(f"{len(numbers)} numbers", where, f"{len(columns)}: {_headings(columns)}")]
    problems = [
        Problem(f"{HEADINGS.get(column, column)} is {cell!r}", where, "an integer of at least 1")
        for column, cell in [*zip(columns, numbers, strict=True), ("batch", _extra(cells, header, "batch") or "1")]
        if not re.fullmatch(r"0*[1-9][0-9]{0,17}", cell, re.ASCII)
    ]
    if sparsity := _extra(cells, header, "sparsity"):
        try:
            pattern(sparsity)
        except UsageError:
            problems.append(Problem(f"sparsity is {sparsity!r}", where, "N:M, such as 2:4"))
    if not problems and columns != GEMM_COLUMNS:
        height, width, filter_height, filter_width = (int(cell) for cell in numbers[:4])
        if filter_height > height or filter_width > width:
            what = f"filter {filter_height} x {filter_width} on {height} x {width}"
            problems.append(Problem(what, where, "a filter no larger than its unpadded input"))
    return problems


def _extra(cells: list[str], header: _Header, what: str) -> str:
    """The cell of an additional column; '' where there is none."""
    place = header.extra.get(what, len(cells))
    return cells[place] if place < len(cells) else ""


def _layer(name: str, cells: list[str], header: _Header) -> Layer:
    """A row without problems."""
    sizes = tuple(int(cell) for cell in cells[1 : len(header.columns) + 1])
    if _second_stride(cells, header):
        sizes += (int(cells[len(sizes) + 1]),)
    kept, group = pattern(_extra(cells, header, "sparsity") or "1:1")
    sparsity = f"{kept}:{group}" if kept < group else ""
    return Layer(name, sizes, int(_extra(cells, header, "batch") or 1), sparsity)


def _second_stride(cells: list[str], header: _Header) -> bool:
    """Return whether a number without a column follows the stride: the other stride, as SCALE-Sim reads it."""
    place = len(CONV_COLUMNS) + 1
    plain = header.columns == CONV_COLUMNS and not header.extra
    return plain and len(cells) > place and bool(re.fullmatch("[1-9][0-9]{0,17}", cells[place], re.ASCII))


def _notes(
    separator: str, header: _Header, titles: list[str], rows: list[tuple[int, list[str]]], layers: list[Layer]
) -> Iterator[str]:
    """Return how what is not in the plain form was read."""
    if separator != ",":
        yield f"cells are separated by {'tabs' if separator == chr(9) else 'semicolons'}"
    yield from header.notes
    if titles:
        more = ", ..." if len(titles) > MOST_TITLES else ""
        yield f"{_listed(titles[:MOST_TITLES], 'title line', len(titles))}{more} skipped"
    width = 1 + len(header.columns) + len(header.extra)
    second = [line for line, cells in rows[1:] if _second_stride(cells, header)]
    if second:
        yield f"a second number after the stride is the stride along the width ({_listed(second, 'line')})"
    surplus = [line for line, cells in rows[1:] if len(cells) > width and line not in second]
    if surplus:
        yield f"cells after the last column are ignored ({_listed(surplus, 'line')})"
    if "batch" in header.extra:
        yield "the batch column multiplies the inputs of its layer, beside --batch"
    if "sparsity" in header.extra:
        sparse = sum(bool(layer.sparsity) for layer in layers)
        pruned = count_of(sparse, "layer", of=len(layers))
        yield f"the sparsity column prunes the weights of {pruned}; --sparsity overrides it"


def _listed(items: Sequence[object], what: str = "column", count: int | None = None) -> str:
    """'column 'Padding'', 'lines 3, 4'."""
    several = (len(items) if count is None else count) > 1
    shown = ", ".join(repr(item) if isinstance(item, str) else str(item) for item in items)
    return f"{what}{'s' * several} {shown}"


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
    """Return how far the last window sticks out of the input."""
    return -(size - kernel) % stride


def _add_gemm(builder: Builder, layer: Layer, batch: int) -> str:
    m, n, k = layer.sizes
    x = builder.input(f"{layer.name}.a", (batch * m, k))
    return builder.matmul(x, builder.weight(f"{layer.name}.b", (k, n)), layer.name)
