"""ONNX files as plain Python: nodes, attributes, initialisers and inputs, before any meaning is given to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from accelsim.errors import ModelError, Problem, brief, count_of
from accelsim.types import Array
from accelsim.workload.graph import Attributes, Tensor
from accelsim.workload.onnx.importing.check import (
    STORED_EXTERNALLY,
    broken_texts,
    external_file,
    model_problems,
    stored_B,
    without_data,
)
from accelsim.workload.onnx.importing.functions import inlined
from accelsim.workload.onnx.importing.types import FORMATS
from accelsim.workload.ops.values import CONTAINERS
from accelsim.workload.sources.weights import drawn

if TYPE_CHECKING:
    from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto

OPSETS = range(1, 29)
"""Versions of the default ONNX operator set that can be imported."""

DEFAULT_DOMAINS = ("", "ai.onnx")

_EAGER_ELEMENTS = 64


@dataclass
class RawNode:
    """A node as the file has it; ``attrs`` hold Python values, arrays for tensors, protos for subgraphs."""

    name: str
    op: str
    domain: str
    inputs: list[str]
    outputs: list[str]
    attrs: Attributes = field(default_factory=dict)

    @property
    def qualified(self) -> str:
        """Op type with its domain where that is not the default one: 'com.microsoft::Gelu'."""
        return self.op if self.domain in DEFAULT_DOMAINS else f"{self.domain}::{self.op}"


@dataclass(frozen=True)
class RawInput:
    """A real input (not an initialiser): each dimension an integer, a symbol, or None where the file says nothing.

    ``dims`` itself is None when not even the rank is known.
    """

    name: str
    dims: tuple[int | str | None, ...] | None
    dtype: str


@dataclass(frozen=True)
class Stated:
    """Format ('' if unknown) and dimensions (None if unknown) that the file states of an output."""

    dtype: str
    dims: tuple[int | None, ...] | None


@dataclass
class RawModel:
    """A parsed file: nodes in file order, initialisers as tensors, names of the outputs, what is stated of them, notes
    on how it was read."""

    name: str
    opset: int
    opsets: dict[str, int]
    nodes: list[RawNode]
    initialisers: dict[str, Tensor]
    inputs: list[RawInput]
    outputs: list[str]
    stated: dict[str, Stated] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Stored:
    """Values of an initialiser, decoded on first use; ``file`` and ``offset`` say where its external data lies."""

    proto: TensorProto
    file: Path | None = None
    offset: int = 0

    def __call__(self) -> Array:
        """The array, in the container type of its format. Raises ModelError when the file cannot be read any more."""
        from onnx import numpy_helper

        proto = self.proto if self.file is None else _loaded(self.proto, self.file, self.offset)
        values: Array = np.asarray(numpy_helper.to_array(proto))
        return values.astype(CONTAINERS[FORMATS[self.proto.data_type]], copy=False)


def _loaded(proto: TensorProto, file: Path, offset: int) -> TensorProto:
    """A copy of a TensorProto that holds its external data."""
    size = stored_B(FORMATS[proto.data_type], prod(proto.dims))
    try:
        with file.open("rb") as stream:
            stream.seek(offset)
            data = stream.read(size)
    except OSError as error:
        raise ModelError(f"cannot be read ({error.strerror})", str(file)) from error
    if len(data) != size:
        raise ModelError(f"external data of {proto.name!r} is truncated", str(file), f"{size:,} B")
    return type(proto)(name=proto.name, data_type=proto.data_type, dims=proto.dims, raw_data=data)


MOST_TEXTS = 5
"""Most broken texts of a file that are reported."""


def read_model(path: str | Path, seed: int | None = None) -> RawModel:
    """Read an ONNX file. ``seed``: from which weights without data are drawn; None: these are an error.

    Raises ModelError, naming the file, when it is missing, truncated or not ONNX, when its operator set is outside
    ``OPSETS``, when external data is missing, or when a tensor has an element type that no format here stands for.
    """
    path = Path(path)
    return raw_model(parse(path), path, seed)


def parse(path: Path) -> ModelProto:
    """The ModelProto in a file; ModelError when there is none, or when its texts are none."""
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(path.read_bytes())
    except DecodeError as error:
        raise ModelError("truncated, or not an ONNX model", str(path), "a serialised ModelProto") from error
    except OSError as error:
        raise ModelError(f"cannot be read ({error.strerror})", str(path)) from error
    if not proto.ir_version or not proto.opset_import or not proto.HasField("graph"):
        raise ModelError("not an ONNX model (no IR version, operator set or graph)", str(path), "a ModelProto")
    if broken := list(islice(broken_texts(proto), MOST_TEXTS)):
        raise ModelError(Problem(f"{what} {brief(text)} is no text", str(path), "UTF-8") for what, text in broken)
    return proto


def raw_model(proto: ModelProto, path: Path, seed: int | None = None) -> RawModel:
    """A parsed ModelProto as plain Python; ``path`` is for messages and for its external data, ``seed`` as in
    ``read_model``."""
    proto = inlined(proto, path)
    opsets = {entry.domain if entry.domain != "ai.onnx" else "": int(entry.version) for entry in proto.opset_import}
    if not any(node.domain in DEFAULT_DOMAINS for node in proto.graph.node):
        opsets.setdefault("", OPSETS[-1])  # nothing refers to it
    absent = frozenset[str]() if seed is None else without_data(proto, path)
    ModelError.raise_for([*_opset_problems(opsets, str(path)), *model_problems(proto, path, opsets, absent)])
    for node in proto.graph.node:
        _fetch(node, path)
    initialisers = {
        item.name: _drawn(item, seed or 0) if item.name in absent else initialiser(item, path)
        for item in proto.graph.initializer
    }
    inputs = [_raw_input(item) for item in proto.graph.input if item.name not in initialisers]
    nodes = [raw_node(node, index) for index, node in enumerate(proto.graph.node)]
    outputs = [item.name for item in proto.graph.output]
    stated = {
        item.name: _stated(item.type.tensor_type) for item in proto.graph.output if item.type.HasField("tensor_type")
    }
    notes = [f"weights: {count_of(len(absent), 'initialiser', 'has', len(initialisers))} no data in the file; drawn "
             f"(seed {seed})"] if absent else []  # fmt: skip
    return RawModel(path.stem, opsets[""], opsets, nodes, initialisers, inputs, outputs, stated, notes)


def _drawn(proto: TensorProto, seed: int) -> Tensor:
    """A TensorProto without data as a constant tensor whose values are drawn."""
    shape, dtype = tuple(proto.dims), FORMATS[proto.data_type]
    return Tensor(proto.name, shape, dtype, source=drawn(seed, proto.name, shape, dtype))


def initialiser(proto: TensorProto, path: Path | None = None) -> Tensor:
    """A TensorProto as a constant tensor; small ones are decoded now, large and external ones on first use.

    ``path`` is the file of the model, beside which external data lie.
    """
    shape, dtype = tuple(proto.dims), FORMATS[proto.data_type]
    if path is not None and proto.data_location == STORED_EXTERNALLY:
        return Tensor(proto.name, shape, dtype, source=Stored(proto, *external_file(proto, path)))
    source = Stored(proto)
    if prod(shape) > _EAGER_ELEMENTS:
        return Tensor(proto.name, shape, dtype, source=source)
    return Tensor(proto.name, shape, dtype, data=source())


def _fetch(node: NodeProto, path: Path) -> None:
    """Put the external data of a node's attributes and subgraphs into them: what reads these knows no file."""
    for attr in node.attribute:
        graphs = (attr.g, *attr.graphs) if attr.type in (5, 10) else ()
        tensors = [attr.t] if attr.type == 4 else []
        for graph in graphs:
            tensors += graph.initializer
            for inner in graph.node:
                _fetch(inner, path)
        for tensor in tensors:
            if tensor.data_location == STORED_EXTERNALLY:
                tensor.CopyFrom(_loaded(tensor, *external_file(tensor, path)))


def _stated(kind: TypeProto.Tensor) -> Stated:
    """Return what the file says of the type and the shape of a result."""
    sizes = (dim.dim_value if dim.HasField("dim_value") else None for dim in kind.shape.dim)
    return Stated(FORMATS.get(kind.elem_type, ""), tuple(sizes) if kind.HasField("shape") else None)


def _opset_problems(opsets: dict[str, int], where: str) -> list[Problem]:
    problems = [
        Problem(f"operator set {version} of domain {domain!r}", where, "a version from 1")
        for domain, version in opsets.items()
        if domain and not 0 < version < 2**31
    ]
    version = opsets.get("", 0)
    if version not in OPSETS:
        what = f"operator set {version}" if version else "no version of the default operator set"
        problems.append(Problem(what, where, f"{OPSETS[0]} to {OPSETS[-1]}"))
    return problems


def _raw_input(item: ValueInfoProto) -> RawInput:
    kind = item.type.tensor_type
    if not kind.HasField("shape"):
        return RawInput(item.name, None, FORMATS[kind.elem_type])
    dims = (dim.dim_value if dim.HasField("dim_value") else (dim.dim_param or None) for dim in kind.shape.dim)
    return RawInput(item.name, tuple(dims), FORMATS[kind.elem_type])


def raw_node(node: NodeProto, index: int) -> RawNode:
    """A NodeProto as plain Python; nameless ones are named after their op and first result."""
    attrs = {attr.name: _attribute(attr) for attr in node.attribute}
    first = next((name for name in node.output if name), str(index))
    domain = "" if node.domain in DEFAULT_DOMAINS else node.domain
    name = node.name or f"{node.op_type}:{first}"
    return RawNode(name, node.op_type, domain, list(node.input), list(node.output), attrs)


def _tensor_value(proto: TensorProto) -> Array:
    from onnx import numpy_helper

    return np.asarray(numpy_helper.to_array(proto))


_ATTRIBUTE_VALUES: dict[int, Callable[[AttributeProto], object]] = {
    1: lambda attr: float(attr.f),
    2: lambda attr: int(attr.i),
    3: lambda attr: attr.s.decode("utf-8", "replace"),
    4: lambda attr: _tensor_value(attr.t),
    5: lambda attr: attr.g,
    6: lambda attr: [float(value) for value in attr.floats],
    7: lambda attr: [int(value) for value in attr.ints],
    8: lambda attr: [value.decode("utf-8", "replace") for value in attr.strings],
    10: lambda attr: list(attr.graphs),
}


def _attribute(attr: AttributeProto) -> object:
    reader = _ATTRIBUTE_VALUES.get(attr.type)
    return attr if reader is None else reader(attr)
