"""Functions that a model file defines: counted before they are put in place of their calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from accelsim.errors import ModelError, Problem
from accelsim.workload.limits import MOST_NODES

if TYPE_CHECKING:
    from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

Key = tuple[str, str, str]
"""Domain, name and overload of a function."""


def inlined(proto: ModelProto, path: Path) -> ModelProto:
    """The model with its functions in place of their calls.

    Raises ModelError for functions that call themselves, for calls that do not fit, and when more than ``MOST_NODES``
    nodes would come out.
    """
    if not proto.functions:
        return proto
    from onnx import inliner

    functions = {(item.domain, item.name, item.overload): item for item in proto.functions}
    ModelError.raise_for(_problems(proto, functions, str(path)))
    try:
        return inliner.inline_local_functions(proto)
    except Exception as error:  # onnx raises its own types, RuntimeError and ValueError
        what = f"its functions cannot be put in place of their calls: {error}"
        raise ModelError(what, str(path), "functions as ONNX defines them") from error


def _problems(proto: ModelProto, functions: dict[Key, FunctionProto], where: str) -> Iterator[Problem]:
    order, circle = _order(functions)
    if circle:
        calls = " -> ".join(name for _, name, _ in circle)
        yield Problem(f"a function calls itself: {calls}", where, "functions that end")
        return
    for item in (proto.graph, *proto.functions):
        yield from _calls_that_do_not_fit(item, functions, where)
    sizes: dict[Key, int] = {}
    for key in order:
        sizes[key] = _size(functions[key].node, sizes)
    total = _size(proto.graph.node, sizes)
    if total > MOST_NODES:
        what = f"{total:,} nodes once its functions are put in place of their calls"
        yield Problem(what, where, f"{MOST_NODES:,} at the most")


def _order(functions: dict[Key, FunctionProto]) -> tuple[list[Key], list[Key]]:
    """The functions, called ones before their callers, or a circle of calls."""
    done: dict[Key, None] = {}
    for start in functions:
        path: list[tuple[Key, Iterator[Key]]] = [(start, _called(functions, start))]
        while path and start not in done:
            key, rest = path[-1]
            following = next((each for each in rest if each not in done), None)
            if following is None:
                done[key] = None
                path.pop()
            elif following in (open_key for open_key, _ in path):
                names = [open_key for open_key, _ in path]
                return [], [*names[names.index(following) :], following]
            else:
                path.append((following, _called(functions, following)))
    return list(done), []


def _called(functions: dict[Key, FunctionProto], key: Key) -> Iterator[Key]:
    calls = (_call(node) for node in _all_nodes(functions[key].node))
    return iter([each for each in dict.fromkeys(calls) if each in functions])


def _call(node: NodeProto) -> Key:
    return node.domain, node.op_type, node.overload


def _all_nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """The nodes and those of the subgraphs within them."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from _all_nodes(graph.node)


def subgraphs(node: NodeProto) -> list[GraphProto]:
    """Return the graphs in the attributes of a NodeProto."""
    return [graph for attr in node.attribute if attr.type in (5, 10) for graph in (attr.g, *attr.graphs)]


def _size(nodes: Iterable[NodeProto], sizes: dict[Key, int]) -> int:
    return sum(sizes.get(_call(node), 1) for node in _all_nodes(nodes))


def _calls_that_do_not_fit(
    graph: GraphProto | FunctionProto, functions: dict[Key, FunctionProto], where: str
) -> Iterator[Problem]:
    for node in _all_nodes(graph.node):
        function = functions.get(_call(node))
        if function is None:
            continue
        for what, given, known in (("inputs", node.input, function.input), ("outputs", node.output, function.output)):
            if len(given) > len(known):
                text = f"a call of {function.name} with {len(given)} {what}"
                yield Problem(text, f"{where}: {node.name or node.op_type}", f"{len(known)} at the most")
