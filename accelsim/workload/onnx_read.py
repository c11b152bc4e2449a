"""ONNX files as plain Python: nodes, attributes, initialisers and inputs, before any meaning is given to
them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from accelsim.errors import ModelError, Problem
from accelsim.workload.graph import Array, Tensor
from accelsim.workload.ops.values import CONTAINERS

OPSETS = range(1, 29)
"""Versions of the default ONNX operator set that can be imported."""

DEFAULT_DOMAINS = ("", "ai.onnx")

FORMATS = {
    1: "fp32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string",
    9: "bool", 10: "fp16", 11: "fp64", 12: "uint32", 13: "uint64", 16: "bf16", 17: "fp8_e4m3fn", 18: "fp8_e4m3fnuz",
    19: "fp8_e5m2", 20: "fp8_e5m2fnuz", 21: "uint4", 22: "int4", 23: "fp4_e2m1fn", 24: "e8m0", 25: "uint2", 26: "int2",
}  # fmt: skip
"""ONNX element type number (TensorProto.DataType) -> format of a tensor."""

_EAGER_ELEMENTS = 64
_STORED_EXTERNALLY = 1  # TensorProto.EXTERNAL


@dataclass
class RawNode:
    """A node as the file has it; ``attrs`` hold Python values, arrays for tensors, protos for subgraphs."""

    name: str
    op: str
    domain: str
    inputs: list[str]
    outputs: list[str]
    attrs: dict[str, Any] = field(default_factory=dict)

    @property
    def qualified(self) -> str:
        """Op type with its domain where that is not the default one: 'com.microsoft::Gelu'."""
        return self.op if self.domain in DEFAULT_DOMAINS else f"{self.domain}::{self.op}"


@dataclass(frozen=True)
class RawInput:
    """A real input (not an initialiser): each dimension an integer, a symbol, or None where the file says
    nothing.

    ``dims`` itself is None when not even the rank is known.
    """

    name: str
    dims: tuple[int | str | None, ...] | None
    dtype: str


@dataclass
class RawModel:
    """A parsed file: nodes in file order, initialisers as tensors, names of the graph outputs."""

    name: str
    opset: int
    opsets: dict[str, int]
    nodes: list[RawNode]
    initialisers: dict[str, Tensor]
    inputs: list[RawInput]
    outputs: list[str]


@dataclass(frozen=True)
class Stored:
    """Values of an initialiser, decoded on first use; ``folder`` is where its external data lies."""

    proto: Any
    folder: str

    def __call__(self) -> Array:
        """The array, in the container type of its format."""
        from onnx import numpy_helper

        values: Array = np.asarray(numpy_helper.to_array(self.proto, self.folder))
        return values.astype(CONTAINERS[FORMATS[self.proto.data_type]], copy=False)


def read_model(path: str | Path) -> RawModel:
    """Read an ONNX file.

    Raises ModelError, naming the file, when it is missing, truncated or not ONNX, when its operator set is
    outside ``OPSETS``, when external data is missing, or when a tensor has an element type that no format
    here stands for.
    """
    path = Path(path)
    return raw_model(parse(path), path)


def parse(path: Path) -> Any:
    """The ModelProto in a file; ModelError when there is none."""
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(path.read_bytes())
    except DecodeError as error:
        raise ModelError(
            Problem("truncated, or not an ONNX model", str(path), "a serialised ModelProto")
        ) from error
    except OSError as error:
        raise ModelError(Problem(f"cannot be read ({error.strerror})", str(path))) from error
    if not proto.ir_version or not proto.opset_import or not proto.HasField("graph"):
        raise ModelError(
            Problem("not an ONNX model (no IR version, operator set or graph)", str(path), "a ModelProto")
        )
    return proto


def raw_model(proto: Any, path: Path) -> RawModel:
    """A parsed ModelProto as plain Python; ``path`` is for messages and for its external data."""
    proto = _inlined(proto)
    opsets = {
        entry.domain if entry.domain != "ai.onnx" else "": int(entry.version) for entry in proto.opset_import
    }
    if not any(node.domain in DEFAULT_DOMAINS for node in proto.graph.node):
        opsets.setdefault("", OPSETS[-1])  # nothing refers to it
    problems = [*_opset_problems(opsets, str(path)), *_tensor_problems(proto.graph, path)]
    if problems:
        raise ModelError(problems)
    folder = str(path.parent)
    initialisers = {item.name: initialiser(item, folder) for item in proto.graph.initializer}
    inputs = [_raw_input(item) for item in proto.graph.input if item.name not in initialisers]
    nodes = [raw_node(node, index) for index, node in enumerate(proto.graph.node)]
    outputs = [item.name for item in proto.graph.output]
    return RawModel(path.stem, opsets[""], opsets, nodes, initialisers, inputs, outputs)


def initialiser(proto: Any, folder: str = "") -> Tensor:
    """A TensorProto as a constant tensor; small ones are decoded now, large ones on first use."""
    source = Stored(proto, folder)
    shape, dtype = tuple(proto.dims), FORMATS[proto.data_type]
    if prod(shape) > _EAGER_ELEMENTS or proto.data_location == _STORED_EXTERNALLY:
        return Tensor(proto.name, shape, dtype, source=source)
    return Tensor(proto.name, shape, dtype, data=source())


def _inlined(proto: Any) -> Any:
    if not proto.functions:
        return proto
    from onnx import inliner

    return inliner.inline_local_functions(proto)


def _opset_problems(opsets: dict[str, int], where: str) -> list[Problem]:
    version = opsets.get("", 0)
    if version in OPSETS:
        return []
    what = f"operator set {version}" if version else "no version of the default operator set"
    return [Problem(what, where, f"{OPSETS[0]} to {OPSETS[-1]}")]


def _tensor_problems(graph: Any, path: Path) -> list[Problem]:
    problems = []
    for item in graph.initializer:
        if item.data_type not in FORMATS:
            problems.append(_format_problem(item.name, item.data_type, path))
        elif item.data_location == _STORED_EXTERNALLY:
            problems.extend(_external_problems(item, path))
    for item in graph.input:
        kind = (item.type.WhichOneof("value") or "tensor_type").removesuffix("_type")
        if kind != "tensor":
            problems.append(
                Problem(f"input {item.name!r} is no tensor but of type {kind}", str(path), "a tensor")
            )
        elif item.type.tensor_type.elem_type not in FORMATS:
            problems.append(_format_problem(item.name, item.type.tensor_type.elem_type, path))
    if graph.sparse_initializer:
        names = ", ".join(item.values.name for item in graph.sparse_initializer)
        problems.append(Problem(f"sparse initialisers ({names})", str(path), "dense initialisers"))
    return problems


def _format_problem(name: str, data_type: int, path: Path) -> Problem:
    return Problem(
        f"tensor {name!r} has ONNX element type {data_type}", str(path), ", ".join(FORMATS.values())
    )


def _external_problems(item: Any, path: Path) -> Iterable[Problem]:
    entries = {entry.key: entry.value for entry in item.external_data}
    location = entries.get("location", "")
    end = int(entries.get("offset", 0)) + int(entries.get("length", 0))
    target = Path(os.path.normpath(path.parent / location))
    if not location or not target.is_relative_to(os.path.normpath(path.parent)):
        yield Problem(f"external data of {item.name!r} at {location!r}", str(path), "a file beside the model")
    elif not target.is_file():
        yield Problem(f"external data of {item.name!r} is missing", str(path), f"a file {target}")
    elif target.stat().st_size < end:
        yield Problem(f"external data of {item.name!r} is truncated", str(target), f"{end} B")


def _raw_input(item: Any) -> RawInput:
    kind = item.type.tensor_type
    if not kind.HasField("shape"):
        return RawInput(item.name, None, FORMATS[kind.elem_type])
    dims = (dim.dim_value if dim.HasField("dim_value") else (dim.dim_param or None) for dim in kind.shape.dim)
    return RawInput(item.name, tuple(dims), FORMATS[kind.elem_type])


def raw_node(node: Any, index: int) -> RawNode:
    """A NodeProto as plain Python; nameless ones are named after their op and first result."""
    attrs = {attr.name: _attribute(attr) for attr in node.attribute}
    first = next((name for name in node.output if name), str(index))
    domain = "" if node.domain in DEFAULT_DOMAINS else node.domain
    name = node.name or f"{node.op_type}:{first}"
    return RawNode(name, node.op_type, domain, list(node.input), list(node.output), attrs)


def _tensor_value(proto: Any) -> Array:
    from onnx import numpy_helper

    return np.asarray(numpy_helper.to_array(proto))


_ATTRIBUTE_VALUES: dict[int, Callable[[Any], Any]] = {
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


def _attribute(attr: Any) -> Any:
    reader = _ATTRIBUTE_VALUES.get(attr.type)
    return attr if reader is None else reader(attr)
