"""Subgraphs and function bodies as nodes of the graph around them: copies with names of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from accelsim.workload.graph import Tensor
from accelsim.workload.onnx.importing.read import RawNode, initialiser, raw_node

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, NodeProto


@dataclass(frozen=True)
class Body:
    """The nodes that stand for another one, the constants that they read, and the operator set they are written for."""

    nodes: list[RawNode]
    opset: int
    constants: tuple[Tensor, ...] = ()


def captured(raw: RawNode) -> list[str]:
    """Names that the subgraphs of a node read from around it (and some of their own)."""
    names: list[str] = []
    for value in raw.attrs.values():
        if hasattr(value, "node"):
            for node in value.node:
                inner = raw_node(node, 0)
                names += [*inner.inputs, *captured(inner)]
            names += [item.name for item in value.output]
    return names


def label(raw: RawNode) -> str:
    """Name of a node's first result."""
    return next(name for name in raw.outputs if name)


def instances(
    nodes: Iterable[NodeProto],
    bound: Mapping[str, str],
    prefix: str,
    attributes: Mapping[str, AttributeProto] | None = None,
) -> list[RawNode]:
    """Copies of NodeProtos: names in ``bound`` replaced, ``prefix`` before the other names that they define.

    ``attributes`` are those of the function whose body the nodes are; what the function was not given is absent.
    """
    nodes = list(nodes)
    defined = {name: f"{prefix}{name}" for name in _defined(nodes) if name}
    names = {**defined, **bound}
    copies = [_copy(node, names, attributes or {}) for node in nodes]
    return [_named(raw_node(copy, index), prefix) for index, copy in enumerate(copies)]


def _named(raw: RawNode, prefix: str) -> RawNode:
    raw.name = raw.name if raw.name.startswith(prefix) else f"{prefix}{raw.name}"
    return raw


def _defined(nodes: Iterable[NodeProto]) -> list[str]:
    found: list[str] = []
    for node in nodes:
        found += node.output
        for attr in node.attribute:
            if attr.HasField("g"):
                found += [item.name for item in (*attr.g.input, *attr.g.initializer)]
                found += _defined(attr.g.node)
    return found


def _copy(node: NodeProto, names: Mapping[str, str], attributes: Mapping[str, AttributeProto]) -> NodeProto:
    copy = type(node)()
    copy.CopyFrom(node)
    copy.name = ""
    for field in (copy.input, copy.output):
        field[:] = [names.get(name, name) for name in field]
    given = [_resolved(attr, attributes) for attr in node.attribute]
    del copy.attribute[:]
    for attr in given:
        if attr is not None:
            _rename_graph(copy.attribute.add(), attr, names, attributes)
    return copy


def _resolved(attr: AttributeProto, attributes: Mapping[str, AttributeProto]) -> AttributeProto | None:
    """The attribute itself, or the one of the function that it refers to, under its own name; None if not given."""
    if not attr.ref_attr_name:
        return attr
    found = attributes.get(attr.ref_attr_name)
    if found is None:
        return None
    copy = type(attr)()
    copy.CopyFrom(found)
    copy.name = attr.name
    return copy


def _rename_graph(
    target: AttributeProto, attr: AttributeProto, names: Mapping[str, str], attributes: Mapping[str, AttributeProto]
) -> None:
    target.CopyFrom(attr)
    if not attr.HasField("g"):
        return
    for item in (*target.g.input, *target.g.output, *target.g.initializer):
        item.name = names.get(item.name, item.name)
    nodes = [_copy(node, names, attributes) for node in attr.g.node]
    del target.g.node[:]
    target.g.node.extend(nodes)


def once(graph: GraphProto, prefix: str, inputs: Iterable[str]) -> tuple[list[RawNode], list[Tensor], list[str]]:
    """One copy of a subgraph: its nodes, its constants, and the names of its results."""
    bound = dict(zip((item.name for item in graph.input), inputs, strict=True))
    bound |= {item.name: f"{prefix}{item.name}" for item in graph.initializer}
    constants = []
    for item in graph.initializer:
        tensor = initialiser(item)
        tensor.name = bound[item.name]
        constants.append(tensor)
    names = {**{name: f"{prefix}{name}" for name in _defined(graph.node) if name}, **bound}
    results = [names.get(item.name, item.name) for item in graph.output]
    return instances(graph.node, bound, prefix), constants, results
