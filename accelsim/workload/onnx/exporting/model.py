"""Graph -> ``onnx.ModelProto`` with the very same weights, so that another implementation runs what this one runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from accelsim.errors import ModelError, Problem
from accelsim.workload.graph import FORMAT_BYTES, Graph, Node, Tensor
from accelsim.workload.onnx.exporting.rules import EXPORTS, plain
from accelsim.workload.onnx.exporting.writer import Writer
from accelsim.workload.onnx.importing.foreign_shapes import ELEMENT_TYPES, since_version
from accelsim.workload.ops import base
from accelsim.workload.ops.foreign import op_type, stored

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto, ValueInfoProto

OPSET = 21
"""Operator set of an exported model; 23 where an op needs it."""

NEWER = {"RMSNormalization": 23, "CumProd": 26, "BitCast": 26}
"""Ops that are younger than ``OPSET``."""

IR_VERSION = 10
MAX_BYTES = 2**31 - 1
"""A serialised model cannot be larger (limit of protocol buffers)."""


def export_onnx(graph: Graph, every_tensor: bool = False) -> ModelProto:
    """The model (operator set ``OPSET``) with inputs, outputs, node and weight values of ``graph``.

    ``every_tensor`` makes the result of every node an output, in graph order. Fused nodes are written one by
    one. Raises ModelError when a foreign node means something else in the exported operator set, or when the
    weights exceed ``MAX_BYTES``.
    """
    from onnx import helper

    nodes = [part for node in graph.nodes for part in (node, *node.epilogue)]
    opset = max([OPSET, *(NEWER.get(op_type(node), 0) for node in nodes)])
    _check(graph, nodes, opset)
    writer = Writer(graph)
    for node in nodes:
        EXPORTS.get(node.op, plain)(node, writer)
    names = dict.fromkeys(name for node in nodes for name in node.outputs if name) if every_tensor else {}
    outputs = [_value_info(graph.tensors[name]) for name in {**names, **dict.fromkeys(graph.outputs)}]
    inputs = [_value_info(graph.tensors[name]) for name in graph.inputs]
    body = helper.make_graph(writer.nodes, graph.name, inputs, outputs, writer.extra)
    opsets = [helper.make_opsetid(domain, version) for domain, version in _domains(graph, nodes, opset).items()]
    model = helper.make_model(body, opset_imports=opsets, ir_version=IR_VERSION, producer_name="accelsim")
    for tensor in graph.constants():
        _write_constant(tensor, model.graph.initializer.add())
    return model


def _domains(graph: Graph, nodes: list[Node], opset: int) -> dict[str, int]:
    domains = {node.attrs["domain"] for node in nodes if node.attrs.get("domain")}
    return {"": opset, **dict.fromkeys(sorted(domains), graph.opset)}


def _check(graph: Graph, nodes: list[Node], opset: int) -> None:
    problems = [*_moved(graph, nodes, opset)]
    size = sum(tensor.nbytes for tensor in graph.constants())
    if size > MAX_BYTES:
        problems.append(Problem(f"{graph.name}: {size:,} B of constants", expected=f"at most {MAX_BYTES:,} B"))
    ModelError.raise_for(problems)


def _moved(graph: Graph, nodes: list[Node], opset: int) -> Iterable[Problem]:
    """Foreign nodes whose op has another version in the exported operator set."""
    for node in nodes:
        if base.find(node.op) is not None or node.op in EXPORTS or node.attrs.get("domain"):
            continue
        op = op_type(node)
        then, now = (since_version(op, version) for version in (graph.opset, opset))
        if then != now:
            what = f"{op} of opset {graph.opset} cannot be exported: opset {opset} defines it anew"
            yield Problem(what, node.name)


def _write_constant(tensor: Tensor, proto: TensorProto) -> None:
    """Fill a TensorProto in place: each copy of one would cost as much as the weights."""
    from onnx import numpy_helper

    values = np.ascontiguousarray(stored(tensor.value(), tensor.dtype))
    if tensor.dtype == "string" or FORMAT_BYTES[tensor.dtype] < 1:  # narrow codes are packed
        proto.CopyFrom(numpy_helper.from_array(values, tensor.name))
        return
    proto.name, proto.data_type = tensor.name, ELEMENT_TYPES[tensor.dtype]
    proto.dims.extend(tensor.shape)
    proto.raw_data = values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()


def _value_info(tensor: Tensor) -> ValueInfoProto:
    from onnx import helper

    return helper.make_tensor_value_info(tensor.name, ELEMENT_TYPES[tensor.dtype], tensor.shape)
