"""Ops that are made of other ops: ONNX functions, and control flow whose course the constants decide.

``body(raw, scope)`` gives the nodes that stand for one node: the function body that the ONNX operator specification
gives for it (operator schemas, ``function_body``), the branch of an If that a constant chooses, the copies of a Loop
body of constant trip count, the copies of a Scan body. Names inside get the name of the node's result in front.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from accelsim.errors import ModelError
from accelsim.workload.constants import constant_tensor
from accelsim.workload.onnx.canonical.rules import Foreign, Scope, axis_of, optional
from accelsim.workload.onnx.importing.foreign_shapes import ELEMENT_TYPES
from accelsim.workload.onnx.importing.functions import subgraphs
from accelsim.workload.onnx.importing.read import RawNode, initialiser
from accelsim.workload.onnx.importing.subgraphs import Body, instances, label, once
from accelsim.workload.ops.foreign import node_proto

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto


def body(raw: RawNode, scope: Scope) -> Body:
    """Return what ``raw`` is made of; Foreign when it is not made of anything, or when only a run decides of what."""
    control = CONTROL.get(raw.op) if not raw.domain else None
    return control(raw, scope) if control else _function(raw, scope)


def has_body(raw: RawNode, opsets: Mapping[str, int]) -> bool:
    """Return whether ``body`` knows the op at all."""
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


def _proto(raw: RawNode) -> NodeProto:
    return node_proto(raw.op, raw.inputs, raw.outputs, raw.attrs, raw.name, raw.domain)


MAX_STEPS = 1024
"""Iterations of a Loop or a Scan beyond which it is not unrolled."""


def _named_results(results: Iterable[str], outputs: Iterable[str]) -> list[RawNode]:
    return [
        RawNode(f"{name}.result", "Identity", "", [result], [name])
        for result, name in zip(results, outputs, strict=True)
        if name
    ]


def _if(raw: RawNode, scope: Scope) -> Body:
    """The branch that a constant condition chooses."""
    chosen = scope.constant(raw.inputs[0])
    if chosen is None:
        raise Foreign
    graph = raw.attrs["then_branch" if chosen.reshape(-1)[0] else "else_branch"]
    nodes, constants, results = once(graph, f"{label(raw)}/", [])
    return Body([*nodes, *_named_results(results, raw.outputs)], scope.opset, tuple(constants))


def _loop(raw: RawNode, scope: Scope) -> Body:
    """A Loop whose trip count is constant and whose condition is never computed: one copy of its body per step."""
    graph = raw.attrs["body"]
    limit, going = (scope.constant(optional(raw, index)) for index in (0, 1))
    kept = graph.output[0].name == graph.input[1].name or any(
        node.op_type == "Identity" and [*node.input] == [graph.input[1].name] and graph.output[0].name in node.output
        for node in graph.node
    )
    if limit is None or (optional(raw, 1) and going is None) or not kept or limit.item() > MAX_STEPS:
        raise Foreign
    steps = int(limit.item()) if going is None or going.item() else 0
    _afford(raw, scope, graph, steps)
    prefix, carried = label(raw), list(raw.inputs[2:])
    yes = constant_tensor(f"{prefix}/going", np.array(True))
    nodes, constants, scans = [], [yes], []
    for step in range(steps):
        counter = constant_tensor(f"{prefix}/step{step}", np.array(step, np.int64))
        inner, values, results = once(graph, f"{prefix}/{step}/", [counter.name, yes.name, *carried])
        nodes += inner
        constants += [counter, *values]
        carried, scanned = results[1 : 1 + len(carried)], results[1 + len(carried) :]
        scans.append(scanned)
    if not steps and len(raw.outputs) > len(carried):
        raise Foreign  # nothing says what the shape of an empty scan output is
    nodes += _named_results(carried, raw.outputs[: len(carried)])
    stacks = zip(*scans, strict=True)
    for name, parts in zip(raw.outputs[len(carried) :], stacks, strict=True):
        nodes += _stacked(name, list(parts), 0)
    return Body(nodes, scope.opset, tuple(constants))


def _afford(raw: RawNode, scope: Scope, graph: GraphProto, steps: int) -> None:
    """Raise ModelError when there are too many nodes in so many copies; those are counted again one by one when
    made."""
    inner = {item.name: item for item in graph.initializer}

    def number(name: str) -> int:
        """A whole number that is known within the subgraph, 1 where it is not."""
        tensor = initialiser(inner[name]) if name in inner else scope.tensors.get(name)
        known = tensor is not None and tensor.data is not None and tensor.elements == 1 and tensor.dtype == "int64"
        return max(int(tensor.value().item()), 1) if tensor is not None and known else 1

    count = steps * _copies(graph.node, number)
    scope.budget.spend(count, raw.name)
    scope.budget.left += count


def _copies(nodes: Iterable[NodeProto], number: Callable[[str], int]) -> int:
    """Nodes that come out when Loops of known trip counts are unrolled; other subgraphs count once."""
    total = 0
    for node in nodes:
        steps = number(node.input[0]) if node.op_type == "Loop" and node.input else 1
        total += 1 + sum(steps * _copies(graph.node, number) for graph in subgraphs(node))
    return total


def _stacked(name: str, parts: list[str], axis: int) -> list[RawNode]:
    """``parts`` as slices of a new axis of ``name``."""
    if not name:
        return []
    grown = [f"{name}.part{index}" for index in range(len(parts))]
    pairs = zip(parts, grown, strict=True)
    nodes = [RawNode(to, "Unsqueeze", "", [part], [to], {"axes": [axis]}) for part, to in pairs]
    return [*nodes, RawNode(name, "Concat", "", grown, [name], {"axis": axis})]


def _scan(raw: RawNode, scope: Scope) -> Body:
    """A Scan of opset 9 or later: one copy of its body per slice."""
    graph, attrs = raw.attrs["body"], raw.attrs
    if scope.opset < 9:  # with a batch axis and lengths
        raise Foreign
    count = attrs["num_scan_inputs"]
    if not 1 <= count <= len(raw.inputs):
        what = f"num_scan_inputs {count} of {len(raw.inputs)} inputs"
        raise ModelError(what, raw.name, f"1 to {len(raw.inputs)}")
    carried, scanned = list(raw.inputs[: len(raw.inputs) - count]), raw.inputs[len(raw.inputs) - count :]
    made = len(raw.outputs) - len(carried)
    axes = [
        axis_of(axis, scope.rank(name))
        for axis, name in zip(attrs.get("scan_input_axes") or [0] * count, scanned, strict=True)
    ]
    steps = scope.shape(scanned[0])[axes[0]]
    if not 0 < steps <= MAX_STEPS:
        raise Foreign
    _afford(raw, scope, graph, steps)
    order = [
        range(steps - 1, -1, -1) if back else range(steps) for back in attrs.get("scan_input_directions") or [0] * count
    ]
    prefix = label(raw)
    nodes, constants, scans = [], [], []
    for step in range(steps):
        slices = [f"{prefix}/{step}/slice{index}" for index in range(count)]
        for index, name in enumerate(scanned):
            at = constant_tensor(f"{slices[index]}.at", np.array(order[index][step], np.int64))
            constants.append(at)
            nodes.append(RawNode(slices[index], "Gather", "", [name, at.name], [slices[index]], {"axis": axes[index]}))
        inner, values, results = once(graph, f"{prefix}/{step}/", [*carried, *slices])
        nodes += inner
        constants += values
        carried = results[: len(carried)]
        scans.append(results[len(carried) :])
    nodes += _named_results(carried, raw.outputs[: len(carried)])
    back = attrs.get("scan_output_directions") or [0] * made
    for index, name in enumerate(raw.outputs[len(carried) :]):
        parts = [each[index] for each in scans]
        axis = (attrs.get("scan_output_axes") or [0] * made)[index]
        if axis < 0:
            raise Foreign
        nodes += _stacked(name, parts[::-1] if back[index] else parts, axis)
    return Body(nodes, scope.opset, tuple(constants))


CONTROL: dict[str, Callable[[RawNode, Scope], Body]] = {"If": _if, "Loop": _loop, "Scan": _scan}
"""Control flow of the default domain -> its course, where constants decide it."""
