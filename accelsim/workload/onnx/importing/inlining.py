"""Ops that are made of other ops: ONNX functions, and control flow whose course the constants decide.

``body(raw, scope)`` gives the nodes that stand for one node: the function body that the ONNX operator specification
gives for it (operator schemas, ``function_body``), the branch of an If that a constant chooses, the copies of a Loop
body of constant trip count, the copies of a Scan body. Names inside get the name of the node's result in front.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from accelsim.workload.onnx.canonical.rules import Foreign, Scope
from accelsim.workload.onnx.importing.control_flow import CONTROL
from accelsim.workload.onnx.importing.foreign_shapes import ELEMENT_TYPES
from accelsim.workload.onnx.importing.read import RawNode
from accelsim.workload.onnx.importing.subgraphs import Body, instances, label
from accelsim.workload.ops.foreign import node_proto


def body(raw: RawNode, scope: Scope) -> Body:
    """What ``raw`` is made of; Foreign when it is not made of anything, or when only a run decides of what."""
    control = CONTROL.get(raw.op) if not raw.domain else None
    return control(raw, scope) if control else _function(raw, scope)


def has_body(raw: RawNode, opsets: Mapping[str, int]) -> bool:
    """Whether ``body`` knows the op at all."""
    if not raw.domain and raw.op in CONTROL:
        return True
    schema = _schema(raw, opsets)
    return schema is not None and bool(schema.has_function or schema.has_context_dependent_function)


def _schema(raw: RawNode, opsets: Mapping[str, int]) -> Any:
    from onnx import defs

    version = opsets.get(raw.domain, 1)
    return defs.get_schema(raw.op, version, raw.domain) if defs.has(raw.op, version, raw.domain) else None


def _function(raw: RawNode, scope: Scope) -> Body:
    import onnx

    schema = _schema(raw, scope.opsets)
    if schema is None:
        raise Foreign
    version = _version(schema, scope.opset)
    function = onnx.FunctionProto()
    if version in schema.function_opset_versions:
        function.ParseFromString(schema.get_function_with_opset_version(version))
    else:
        function.ParseFromString(_built(schema, version, raw, scope))
    given = {name: attr.default_value for name, attr in schema.attributes.items() if attr.default_value.type}
    given |= {attr.name: attr for attr in _proto(raw).attribute}
    bound = dict(zip(function.input, raw.inputs, strict=False))
    bound |= dict.fromkeys(function.input[len(raw.inputs) :], "")
    bound |= {inner: outer for inner, outer in zip(function.output, raw.outputs, strict=False) if outer}
    nodes = instances(function.node, bound, f"{label(raw)}/", given)
    default = scope.opset if raw.domain else version
    opset = next((item.version for item in function.opset_import if item.domain in ("", "ai.onnx")), default)
    return Body(nodes, int(opset))


def _version(schema: Any, opset: int) -> int:
    """The operator set that the body is written for: the newest up to ``opset``, else the oldest (of the same op)."""
    versions = list(schema.all_function_opset_versions)
    if not versions:
        raise Foreign
    return int(max((version for version in versions if version <= opset), default=min(versions)))


def _built(schema: Any, version: int, raw: RawNode, scope: Scope) -> bytes:
    """The body of a function that depends on the types and attributes of the node."""
    from onnx import TypeProto, helper

    types = [
        helper.make_tensor_type_proto(ELEMENT_TYPES[scope.tensors[name].dtype], scope.shape(name))
        if name
        else TypeProto()
        for name in raw.inputs
    ]
    node = _proto(raw).SerializeToString()
    code = [each.SerializeToString() for each in types]
    try:
        made: bytes = schema.get_context_dependent_function_with_opset_version(version, node, code)
    except Exception as error:  # onnx raises RuntimeError and its own types where the builder refuses a node
        raise Foreign from error
    if not made:
        raise Foreign
    return made


def _proto(raw: RawNode) -> Any:
    return node_proto(raw.op, raw.inputs, raw.outputs, raw.attrs, raw.name, raw.domain)
