"""Shapes of what foreign nodes give, by ONNX's own shape inference on a model of that one node."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from accelsim.errors import ModelError, brief
from accelsim.workload.constants import format_of
from accelsim.workload.graph import Node, Tensor
from accelsim.workload.limits import check_memory
from accelsim.workload.onnx.importing.types import FORMATS
from accelsim.workload.ops.foreign import OWN_ATTRIBUTES, foreign_kernel, node_proto, op_type, stored
from accelsim.workload.ops.values import CONTAINERS

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TypeProto

ELEMENT_TYPES = {name: number for number, name in FORMATS.items()}
"""Format of a tensor -> ONNX element type number."""

_KNOWN_ELEMENTS = 1024
EQUATION = re.compile(r"[A-Za-z. ]*(,[A-Za-z. ]*)*(->[A-Za-z. ]*)?")
"""Equations of an Einsum; on others the inference of ONNX need not end."""

Shapes = list[tuple[tuple[int, ...], str]]


def infer(node: Node, ins: list[Tensor | None], opset: int) -> Shapes:
    """[(shape, dtype)] of the outputs of a foreign node; of an op that ONNX has no rule for, those on inputs of ones.

    Raises ModelError when ONNX cannot tell (the shape depends on values that only a run makes).
    """
    from onnx import shape_inference

    equation = str(node.attrs.get("equation", ""))
    if op_type(node) == "Einsum" and not EQUATION.fullmatch(equation):
        raise ModelError(f"equation {brief(equation)}", node.name, "letters as in 'ij,jk->ik'")
    if not _has_inference(node, opset):
        return _tried(node, ins, opset)
    model = _one_node_model(node, ins, opset)
    try:
        inferred = shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    except Exception as error:  # onnx raises InferenceError, and RuntimeError where a function body fails
        raise ModelError(f"shapes of {op_type(node)} (opset {opset}): {error}", node.name) from error
    found = {item.name: item.type.tensor_type for item in inferred.graph.output}
    return [_static(found.get(name), node, name) for name in node.outputs]


def defined(op: str, domain: str, opset: int) -> bool:
    """Return whether version ``opset`` of the operator set of ``domain`` has the op at all."""
    from onnx import defs

    return bool(defs.has(op, opset, domain))


def since_version(op: str, opset: int) -> int:
    """The operator set in which the op got the form that it has in ``opset``; 0 when it has none."""
    from onnx import defs

    return int(defs.get_schema(op, opset).since_version) if defs.has(op, opset, "") else 0


def _has_inference(node: Node, opset: int) -> bool:
    from onnx import defs

    schema: Any = defs.get_schema(op_type(node), opset, node.attrs.get("domain", ""))
    defined_by_ops = schema.has_function or schema.has_context_dependent_function
    return bool(schema.has_type_and_shape_inference_function or defined_by_ops)


def _tried(node: Node, ins: list[Tensor | None], opset: int) -> Shapes:
    made = [tensor for tensor in ins if tensor is not None and not tensor.is_constant]
    check_memory(node.name, sum(each.elements * np.dtype(CONTAINERS[each.dtype]).itemsize for each in made))
    values = [
        None
        if tensor is None
        else tensor.value()
        if tensor.is_constant
        else np.ones(tensor.shape, CONTAINERS[tensor.dtype])
        for tensor in ins
    ]
    return [(value.shape, format_of(value.dtype)) for value in foreign_kernel(node, opset, values)]


def onnx_node(node: Node) -> NodeProto:
    """The NodeProto of a foreign node, unchanged from the file that it came from."""
    attrs = {key: value for key, value in node.attrs.items() if key not in OWN_ATTRIBUTES}
    return node_proto(op_type(node), node.inputs, node.outputs, attrs, node.name, node.attrs.get("domain", ""))


def _one_node_model(node: Node, ins: list[Tensor | None], opset: int) -> ModelProto:
    from onnx import TensorProto, helper, numpy_helper

    given = {tensor.name: tensor for tensor in ins if tensor is not None}
    known = {
        name: numpy_helper.from_array(stored(tensor.value(), tensor.dtype), name)
        for name, tensor in given.items()
        if tensor.is_constant and tensor.elements <= _KNOWN_ELEMENTS
    }
    inputs = [
        helper.make_tensor_value_info(name, ELEMENT_TYPES[tensor.dtype], tensor.shape) for name, tensor in given.items()
    ]
    outputs = [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in node.outputs if name]
    graph = helper.make_graph([onnx_node(node)], "one node", inputs, outputs, list(known.values()))
    domain = node.attrs.get("domain", "")
    opsets = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, opset)] if domain else [])]
    return helper.make_model(graph, opset_imports=opsets)


def _static(kind: TypeProto.Tensor | None, node: Node, name: str) -> tuple[tuple[int, ...], str]:
    if not name:
        return (), "fp32"
    dims = [dim.dim_value if dim.HasField("dim_value") else None for dim in kind.shape.dim] if kind else [None]
    if kind is None or kind.elem_type not in FORMATS or None in dims or not kind.HasField("shape"):
        what = f"the shape or format of {name!r}, made by {op_type(node)}, depends on values"
        raise ModelError(what, node.name, "static shapes")
    return tuple(int(dim) for dim in dims if dim is not None), FORMATS[kind.elem_type]
