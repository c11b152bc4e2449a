"""Check a file before use: sizes, names, attributes, counts.

Every check looks at the ModelProto only and returns all problems that it finds. What depends on shapes and element
types of results is checked node by node during the import.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from accelsim.errors import Problem
from accelsim.workload.onnx.importing.types import FORMATS, Form, form_of
from accelsim.workload.sources.weights import DRAWN

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

MOST_DIMENSIONS = 64
"""Dimensions of a tensor: NumPy has no more."""
STORED_EXTERNALLY = 1
"""TensorProto.EXTERNAL."""

_BITS = {
    "fp64": 64, "int64": 64, "uint64": 64, "fp32": 32, "int32": 32, "uint32": 32,
    "fp16": 16, "bf16": 16, "int16": 16, "uint16": 16,
    "uint4": 4, "int4": 4, "fp4_e2m1fn": 4, "uint2": 2, "int2": 2,
}  # fmt: skip
"""Bits of an element in the raw bytes of a file; 8 where it is not listed. Narrow ones are packed without gaps."""

_FIELDS = {
    "fp32": "float_data",
    "fp64": "double_data",
    "int64": "int64_data",
    "uint32": "uint64_data",
    "uint64": "uint64_data",
    "string": "string_data",
}
"""Format -> field of typed data; int32_data where it is not listed."""

_KINDS = {
    1: "a float", 2: "an integer", 3: "a text", 4: "a tensor", 5: "a graph", 6: "floats", 7: "integers", 8: "texts",
    9: "tensors", 10: "graphs", 11: "a sparse tensor", 12: "sparse tensors", 13: "a type", 14: "types",
}  # fmt: skip
"""AttributeProto.AttributeType in words."""


HOW_TO_DRAW = "; or --values off or --weights random:SEED, which do without"
"""Advice in an error about weights without data."""


def without_data(proto: ModelProto, path: Path) -> frozenset[str]:
    """Return the names of initialisers that state format and shape but have no values.

    Files that hold the architecture of a network only have such: external data that was left out, or empty tensors.
    """
    return frozenset(item.name for item in proto.graph.initializer if _lacks_data(item, path))


def _lacks_data(item: TensorProto, path: Path) -> bool:
    if FORMATS.get(item.data_type, "") not in DRAWN or min(item.dims, default=1) < 1:
        return False
    if item.data_location == STORED_EXTERNALLY:
        location = next((entry.value for entry in item.external_data if entry.key == "location"), "")
        return _beside(location, path) and not os.path.lexists(path.parent / location)
    return not item.raw_data and not len(getattr(item, _FIELDS.get(FORMATS[item.data_type], "int32_data")))


def model_problems(
    proto: ModelProto, path: Path, opsets: dict[str, int], absent: frozenset[str] = frozenset()
) -> list[Problem]:
    """Everything about a model that contradicts itself, the ONNX format or the definition of an op.

    ``absent``: initialisers whose values nobody looks for.
    """
    found = _Found(path, opsets, [], absent)
    found.graph(proto.graph, "")
    found.inputs(proto.graph)
    return found.problems


def broken_texts(proto: ModelProto) -> Iterator[tuple[str, bytes]]:
    """Texts of a message and of all inside it that are no UTF-8: the field ('NodeProto.op_type'), and the bytes."""
    open_ = [proto]
    while open_:
        for field, value in open_.pop().ListFields():
            if field.type == field.TYPE_MESSAGE:
                open_ += [value] if hasattr(value, "ListFields") else value
            elif field.type == field.TYPE_STRING:
                for text in [value] if isinstance(value, str | bytes) else value:
                    if isinstance(text, bytes):
                        yield f"{field.containing_type.name}.{field.name}", text


def stored_B(dtype: str, elements: int) -> int:
    """Return the bytes that ``elements`` of a format take in a file."""
    return -(-elements * _BITS.get(dtype, 8) // 8)


def external_file(item: TensorProto, path: Path) -> tuple[Path, int]:
    """File and first byte of the external data of a tensor that was checked."""
    entries = {entry.key: entry.value for entry in item.external_data}
    return path.parent / entries["location"], int(entries.get("offset") or 0)


@dataclass
class _Found:
    """Collects problems; ``path`` is the model's file, ``absent`` are initialisers that need no data."""

    path: Path
    opsets: dict[str, int]
    problems: list[Problem]
    absent: frozenset[str] = frozenset()

    def add(self, what: str, expected: str = "", within: str = "") -> None:
        """Note a problem of the node ``within`` ('': of the file)."""
        where = f"{self.path}: {within}" if within else str(self.path)
        self.problems.append(Problem(what, where, expected))

    def graph(self, graph: GraphProto, within: str) -> None:
        """A graph, and those in the attributes of its nodes."""
        self._names(graph, within)
        for item in graph.initializer:
            self.tensor(item, f"tensor {item.name!r}", within)
        if graph.sparse_initializer:
            names = ", ".join(item.values.name for item in graph.sparse_initializer)
            self.add(f"sparse initialisers ({names})", "dense initialisers", within)
        for node in graph.node:
            self._node(node)

    def inputs(self, graph: GraphProto) -> None:
        """Inputs of the model are tensors of a known element type."""
        for item in graph.input:
            kind = (item.type.WhichOneof("value") or "tensor_type").removesuffix("_type")
            what = f"input {item.name!r}"
            if kind != "tensor":
                self.add(f"{what} is no tensor but of type {kind}", "a tensor")
            elif item.type.tensor_type.elem_type not in FORMATS:
                self._format(item.name, item.type.tensor_type.elem_type, "")
            elif len(item.type.tensor_type.shape.dim) > MOST_DIMENSIONS:
                self._rank(what, len(item.type.tensor_type.shape.dim), "")

    def _names(self, graph: GraphProto, within: str) -> None:
        """Each tensor is made once, and has a name."""
        given = [item.name for item in graph.input]
        stored = [item.name for item in graph.initializer]
        for what, names in (("input", given), ("initialiser", stored), ("output", [x.name for x in graph.output])):
            if "" in names:
                self.add(f"an {what} of the graph has no name", "names", within)
            twice = [name for name, count in Counter(names).items() if count > 1 and name and what != "output"]
            for name in twice:
                self.add(f"{what} {name!r} is there twice", "names that differ", within)
        known = {*given, *stored}
        makers: dict[str, str] = {}
        for node in graph.node:
            for name in filter(None, node.output):
                if name in makers:
                    what = f"{node.op_type} makes {name!r}, which {makers[name]} makes too"
                    self.add(what, "one maker of each tensor", label(node))
                elif name in known:
                    what = f"{node.op_type} makes {name!r}, which is an input or an initialiser"
                    self.add(what, "one maker of each tensor", label(node))
                makers[name] = label(node)

    def tensor(self, item: TensorProto, what: str, within: str) -> None:
        """The data of a tensor are as many as its dimensions say."""
        if item.data_type not in FORMATS:
            self._format(item.name, item.data_type, within)
        elif len(item.dims) > MOST_DIMENSIONS:
            self._rank(what, len(item.dims), within)
        elif min(item.dims, default=0) < 0:
            self.add(f"{what} has dimensions {list(item.dims)}", "sizes from 0", within)
        elif item.HasField("segment"):
            self.add(f"{what} is stored in segments", "whole tensors", within)
        elif item.name in self.absent and not within:
            pass
        elif item.data_location == STORED_EXTERNALLY:
            self._external(item, what, within)
        else:
            self._size(item, what, within)

    def _format(self, name: str, data_type: int, within: str) -> None:
        self.add(f"tensor {name!r} has ONNX element type {data_type}", ", ".join(FORMATS.values()), within)

    def _rank(self, what: str, rank: int, within: str) -> None:
        self.add(f"{what} has {rank} dimensions", f"{MOST_DIMENSIONS} at the most", within)

    def _size(self, item: TensorProto, what: str, within: str) -> None:
        dtype, elements = FORMATS[item.data_type], prod(item.dims)
        shape = f"{what} of shape {list(item.dims)} and type {dtype}"
        if item.HasField("raw_data"):
            if dtype == "string":
                self.add(f"{what} holds texts as raw bytes", "string_data", within)
            elif len(item.raw_data) != stored_B(dtype, elements):
                held = f"{len(item.raw_data):,} B of data"
                self.add(f"{shape} has {held}", f"{stored_B(dtype, elements):,} B", within)
            return
        field = _FIELDS.get(dtype, "int32_data")
        packing = max(1, 8 // _BITS.get(dtype, 8))
        entries, wanted = len(getattr(item, field)), -(-elements // packing)
        if entries != wanted:
            advice = HOW_TO_DRAW if not within and _lacks_data(item, self.path) else ""
            self.add(f"{shape} has {entries:,} entries in {field}", f"{wanted:,}{advice}", within)

    def _external(self, item: TensorProto, what: str, within: str) -> None:
        entries = {entry.key: entry.value for entry in item.external_data}
        location, dtype = entries.get("location", ""), FORMATS[item.data_type]
        numbers = {key: entries.get(key) or "0" for key in ("offset", "length")}
        wrong = [key for key, text in numbers.items() if not (text.isascii() and text.isdigit() and len(text) < 19)]
        data = f"external data of {item.name!r}"
        for key in wrong:
            self.add(f"{data} has {key} {numbers[key]!r}", "a number of bytes", within)
        if not _beside(location, self.path):
            self.add(f"{data} at {location!r}", "a file beside the model", within)
        elif dtype == "string":
            self.add(f"{what} holds texts in a file", "string_data", within)
        elif not os.path.isfile(self.path.parent / location):  # noqa: PTH113 - False too for a name that is too long
            advice = HOW_TO_DRAW if not within and _lacks_data(item, self.path) else ""
            self.add(f"{data} is missing", f"a file {os.path.normpath(self.path.parent / location)}{advice}", within)
        elif not wrong:
            needed = stored_B(dtype, prod(item.dims))
            if entries.get("length") and int(numbers["length"]) != needed:
                self.add(f"{data} has {int(numbers['length']):,} B", f"{needed:,} B for {list(item.dims)}", within)
            end = int(numbers["offset"]) + needed
            size = (self.path.parent / location).stat().st_size
            if size < end:
                self.add(f"{data} is truncated: {location} has {size:,} B", f"{end:,} B", within)

    def _node(self, node: NodeProto) -> None:
        where = label(node)
        if not node.op_type:
            self.add("a node has no op", "an op type", where)
        for attr in node.attribute:
            if attr.ref_attr_name:
                self.add(f"attribute {attr.name!r} stands for one of a function", "a value", where)
            elif not attr.type:
                self.add(f"attribute {attr.name!r} has no type", "what it is", where)
            for tensor in (attr.t, *attr.tensors) if attr.type in (4, 9) else ():
                self.tensor(tensor, f"tensor of attribute {attr.name!r}", where)
            for graph in (attr.g, *attr.graphs) if attr.type in (5, 10) else ():
                self.graph(graph, where)
        version = self.opsets.get("" if node.domain == "ai.onnx" else node.domain, 0)
        form = form_of(node.op_type, version, "" if node.domain == "ai.onnx" else node.domain)
        for what, expected in _form_problems(node, form) if form else ():
            self.add(what, expected, where)


def label(node: NodeProto) -> str:
    """Name of a NodeProto: its own, or its op and first result."""
    return node.name or f"{node.op_type}:{next((name for name in node.output if name), '?')}"


def _beside(location: str, path: Path) -> bool:
    """Return whether ``location``, links followed, lies in the folder of the model."""
    if not location or "\0" in location or Path(location).is_absolute():
        return False
    try:
        folder = path.parent.resolve()
        return (folder / location).resolve().is_relative_to(folder) and ".." not in Path(location).parts
    except (OSError, RuntimeError):  # a name that is too long, links that go round
        return False


def _form_problems(node: NodeProto, form: Form) -> Iterator[tuple[str, str]]:
    for side, names, (least, most) in (("inputs", node.input, form.inputs), ("outputs", node.output, form.outputs)):
        count = len(names)
        while count > least and not names[count - 1]:
            count -= 1  # absent ones at the end need not be there
        if not least <= count <= most:
            yield f"{node.op_type} has {count} {side}", _span(least, most)
    for index in sorted(form.needed):
        if index < len(node.input) and not node.input[index]:
            yield f"input {index} of {node.op_type} is absent", "a tensor"
    seen = Counter(attr.name for attr in node.attribute)
    for attr in node.attribute:
        kind = form.attributes.get(attr.name, (attr.type, False))[0]
        if seen[attr.name] > 1:
            yield f"attribute {attr.name!r} of {node.op_type} is there {seen[attr.name]} times", "it once"
            seen[attr.name] = 1
        if attr.type != kind and not attr.ref_attr_name:
            given = _KINDS.get(attr.type, f"of unknown type {attr.type}")
            yield f"attribute {attr.name!r} of {node.op_type} is {given}", _KINDS.get(kind, str(kind))
    for name, (_, required) in form.attributes.items():
        if required and name not in seen:
            yield f"{node.op_type} lacks the attribute {name!r}", "it"


def _span(least: int, most: int) -> str:
    if least == most:
        return str(least)
    return f"{least} to {most}" if most < 2**31 - 1 else f"{least} or more"
