"""ONNX file -> Graph: static shapes, canonical ops, constants evaluated, nothing dead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from accelsim.errors import ModelError, Problem
from accelsim.workload.constants import constant_tensor, evaluated
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.nodes import needed_nodes
from accelsim.workload.onnx.canonical.rules import MODERN, Foreign, Scope, Trace, canonical, find_rule, foreign_node
from accelsim.workload.onnx.importing.check import MOST_DIMENSIONS
from accelsim.workload.onnx.importing.constants import CONSTANT_OPS, UNFOLDED, ConstantOp
from accelsim.workload.onnx.importing.foreign_shapes import defined, infer
from accelsim.workload.onnx.importing.inlining import body, has_body
from accelsim.workload.onnx.importing.inputs import Arrays, Shapes, bind_inputs, cached_states, rebatch_of
from accelsim.workload.onnx.importing.read import RawModel, RawNode, read_model
from accelsim.workload.onnx.importing.refusing import located, refusing
from accelsim.workload.onnx.importing.subgraphs import captured
from accelsim.workload.onnx.importing.types import form_of
from accelsim.workload.ops import base
from accelsim.workload.ops.foreign import foreign_kernel, knows, noted_formats, op_type
from accelsim.workload.ops.window import drops_a_window

NOT_REPEATABLE = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}
)
"""Ops that draw random numbers: a run could not be repeated."""


def import_onnx(
    path: str | Path,
    batch: int | None = None,
    shapes: Shapes | None = None,
    seed: int | None = None,
    arrays: Arrays = dict,
) -> Graph:
    """The graph of an ONNX file.

    ``batch`` sets the first dimension of every real input, ``shapes`` the whole shape of the inputs it names;
    ``arrays`` tells the shapes of those that are given, for dimensions that the file leaves open. Weights whose values
    are not in the file are drawn from ``seed``, with a note; with None they are an error.
    Raises ModelError (all problems at once, naming the file) when the file cannot be read or contradicts itself, when a
    dimension stays unknown, when no kernel knows an op, or when shapes contradict each other.
    """
    with located(path):
        return build(read_model(path, seed), batch, shapes or {}, arrays=arrays)


def build(raw: RawModel, batch: int | None, shapes: Shapes, trace: Trace | None = None, arrays: Arrays = dict) -> Graph:
    """The graph of a parsed file; see ``import_onnx``."""
    raw.nodes = needed_nodes(raw.nodes, raw.outputs, captured)
    read = {name for node in raw.nodes for name in (*node.inputs, *captured(node))} | set(raw.outputs)
    bound = bind_inputs([item for item in raw.inputs if item.name in read], batch, shapes, raw, arrays)
    ModelError.raise_for(_unknown_ops(raw))
    tensors = {**raw.initialisers, **bound}
    rebatch = rebatch_of(raw.inputs, bound, batch)
    scope = Scope(raw.opset, tensors, read, rebatch, raw.opsets, trace or Trace())
    nodes: list[Node] = []
    for node in raw.nodes:
        _import_node(node, scope, nodes)
    missing = [name for name in raw.outputs if name not in tensors]
    ModelError.raise_for(Problem(f"graph output {name!r} is made by no node", raw.name) for name in missing)
    if batch is None and not shapes:
        ModelError.raise_for(_misstated(raw, tensors, _shortened(nodes, tensors)))
    unused = [item.name for item in raw.inputs if item.name not in bound]
    graph = _pruned(Graph(raw.name, nodes, tensors, list(bound), list(raw.outputs), raw.opset, unused=unused))
    graph.states, graph.notes = cached_states(graph), raw.notes
    return graph


def _shortened(nodes: list[Node], tensors: Mapping[str, Tensor]) -> set[str]:
    """Tensors after a pooling whose last window lies in the padding: many files state one row more."""
    found: set[str] = set()
    for node in nodes:
        shape = tensors[node.inputs[0]].shape if node.inputs and node.inputs[0] else ()
        if not found.isdisjoint(node.inputs) or ("ceil_mode" in node.attrs and drops_a_window(node, shape[2:])):
            found.update(node.outputs)
    return found


def _misstated(raw: RawModel, tensors: Mapping[str, Tensor], shortened: set[str]) -> Iterator[Problem]:
    """Outputs that are not what the file says of them; those ``shortened`` become a note."""
    for name, stated in raw.stated.items():
        shape, dtype = tensors[name].shape, tensors[name].dtype
        if stated.dtype and stated.dtype != dtype:
            what = f"output {name!r} is stated as {stated.dtype}"
            yield Problem(what, raw.name, f"{dtype}, which its node makes")
        elif stated.dims is not None and not _agree(stated.dims, shape):
            shown = ", ".join("?" if size is None else str(size) for size in stated.dims)
            if name in shortened and len(stated.dims) == len(shape):
                raw.notes.append(
                    f"output {name!r} is stated as [{shown}] and has {list(shape)}: the last window of a "
                    "pooling would lie in the padding and is left out, as ONNX Runtime does"
                )
                continue
            yield Problem(f"output {name!r} is stated as [{shown}]", raw.name, f"{list(shape)}, which its node makes")


def _agree(stated: tuple[int | None, ...], shape: tuple[int, ...]) -> bool:
    sizes = zip(stated, shape, strict=False)
    return len(stated) == len(shape) and all(said in (None, size) for said, size in sizes)


def _unknown_ops(raw: RawModel) -> Iterable[Problem]:
    """Nodes that neither the registry nor the host knows, each once."""
    for node in raw.nodes:
        version = raw.opsets.get(node.domain, 0)
        known = node.op in CONSTANT_OPS or find_rule(node.op)
        if not node.domain and known and defined(node.op, node.domain, raw.opset):
            continue
        if node.domain and find_rule(node.qualified):
            continue
        if node.op in NOT_REPEATABLE:
            yield Problem(f"op {node.qualified} (opset {version}) gives other values in every run", node.name)
        elif has_body(node, raw.opsets):
            continue
        elif any(hasattr(value, "node") for value in node.attrs.values()):
            yield Problem(f"op {node.qualified} (opset {version}) has a subgraph, which is not supported", node.name)
        elif not (defined(node.op, node.domain, raw.opset) and knows(node.op, node.domain, raw.opset)):
            where = f"domain {node.domain or 'ai.onnx'!r}, opset {version}"
            yield Problem(f"no kernel knows op {node.op!r} ({where})", node.name)


def _import_node(raw: RawNode, scope: Scope, nodes: list[Node]) -> None:
    ModelError.raise_for(
        Problem(f"{raw.op} reads {name!r}, which nothing before it makes", raw.name)
        for name in raw.inputs
        if name and name not in scope.tensors
    )
    ModelError.raise_for(_wrong_types(raw, scope))
    depends = [] if raw.op in ("Shape", "Size") else [*raw.inputs, *captured(raw)]
    scope.trace.parents.update(dict.fromkeys(raw.outputs, depends))
    ins = [scope.tensors[name] if name else None for name in raw.inputs]
    with refusing(raw.qualified, raw.name, ins):
        make_constant = CONSTANT_OPS.get(raw.op) if not raw.domain else None
        constant = _constant(make_constant, raw, scope) if make_constant else None
        before, found = ([], []) if constant else _canonical(raw, scope)
    scope.budget.spend(max(len(found), 1), raw.name)
    if constant is not None:
        _keep([constant], raw.name, scope)
        return
    for older in before:
        _import_node(older, scope, nodes)
    if base.find(found[-1].op) is None and _replaced(raw, scope, nodes):
        return
    for node in found:
        _add(node, scope, nodes)


def _constant(make: ConstantOp, raw: RawNode, scope: Scope) -> Tensor | None:
    """The result of a node that reads no values, None where this one does."""
    try:
        return make(raw, scope)
    except Foreign:
        return None


def _canonical(raw: RawNode, scope: Scope) -> tuple[list[RawNode], list[Node]]:
    """Nodes of opset 7 that come first, and the canonical ones."""
    if scope.opset >= MODERN or raw.domain:
        return [], canonical(raw, scope)
    from accelsim.workload.onnx.canonical.legacy import modern

    try:
        *before, last = modern(raw, scope)
        return before, canonical(last, scope)
    except Foreign:
        return [], [foreign_node(raw)]


def _wrong_types(raw: RawNode, scope: Scope) -> Iterator[Problem]:
    """Inputs of formats that the op does not take, or that must be equal and are not."""
    form = form_of(raw.op, scope.opsets.get(raw.domain, scope.opset), raw.domain)
    bound: dict[str, str] = {}
    for index, name in enumerate(raw.inputs if form else ()):
        kind = form.kind(index) if form else None
        if not name or kind is None or not kind[1]:
            continue
        dtype = scope.tensors[name].dtype
        if dtype not in kind[1]:
            yield Problem(f"{raw.op} cannot take {name!r} of {dtype}", raw.name, ", ".join(sorted(kind[1])))
        elif kind[0] and bound.setdefault(kind[0], dtype) != dtype:
            what = f"{raw.op} takes {name!r} of {dtype} beside one of {bound[kind[0]]}"
            yield Problem(what, raw.name, "one format")


def _keep(tensors: Iterable[Tensor], name: str, scope: Scope) -> None:
    """Results of a node, once their shapes are ones that tensors may have."""
    for tensor in tensors:
        if len(tensor.shape) > MOST_DIMENSIONS or min(tensor.shape, default=0) < 0:
            what = f"{tensor.name!r} would have shape {list(tensor.shape)}"
            raise ModelError(what, name, f"up to {MOST_DIMENSIONS} sizes from 0")
        if tensor.name:
            scope.tensors[tensor.name] = tensor


def _replaced(raw: RawNode, scope: Scope, nodes: list[Node]) -> bool:
    """Return whether the body of a node that the registry lacks was imported in its place.

    It is, if the registry knows all that is in the body; else the node goes to the host whole, if the host knows it.
    """
    strict = scope.strict or knows(raw.op, raw.domain, scope.opset)
    try:
        with refusing(raw.qualified, raw.name, [scope.tensors[name] if name else None for name in raw.inputs]):
            inner = body(raw, scope)
        strict = strict or inner.opset != scope.opset
        scope.used.update(name for node in inner.nodes for name in (*node.inputs, *captured(node)))
        within = replace(scope, opset=inner.opset, opsets={**scope.opsets, "": inner.opset}, strict=strict)
        within.tensors = {**scope.tensors, **{tensor.name: tensor for tensor in inner.constants}}
        added: list[Node] = []
        for node in inner.nodes:
            _import_node(node, within, added)
    except (Foreign, ModelError) as error:
        if strict:
            return False
        if not isinstance(error, Foreign):
            raise
        what = f"what {raw.qualified} does depends on values that only a run makes"
        raise ModelError(what, raw.name, "constants") from error
    scope.tensors.update(within.tensors)
    nodes += added
    return True


def _add(node: Node, scope: Scope, nodes: list[Node]) -> None:
    ins = [scope.tensors[name] if name else None for name in node.inputs]
    constant = all(tensor is None or tensor.is_constant for tensor in ins) and node.op not in UNFOLDED
    op = base.find(node.op)
    if op is None:
        outputs = _foreign(node, ins, scope, constant, nodes)
    elif constant:
        outputs = evaluated(node, ins, _inferred(op, node, ins))
    else:
        shapes = _inferred(op, node, ins)
        if len(shapes) != len(node.outputs):
            what = f"{node.op} with {len(node.outputs)} results"
            raise ModelError(what, node.name, str(len(shapes)))
        outputs = [Tensor(name, *shape) for name, shape in zip(node.outputs, shapes, strict=True)]
        nodes.append(node)
    _keep(outputs, node.name, scope)


def _foreign(node: Node, ins: list[Tensor | None], scope: Scope, constant: bool, nodes: list[Node]) -> list[Tensor]:
    """Outputs of a foreign node: computed now from constants (their shapes may depend on values), else inferred."""
    if scope.strict:
        raise Foreign
    domain = node.attrs.get("domain", "")
    if not (defined(op_type(node), domain, scope.opset) and knows(op_type(node), domain, scope.opset)):
        what = f"no kernel knows this form of op {op_type(node)!r} of operator set {scope.opset}"
        raise ModelError(what, node.name)
    noted_formats(node, [tensor.dtype if tensor else "" for tensor in ins])
    if constant:
        scope.trace.host.append(op_type(node))
        values = [None if tensor is None else tensor.value() for tensor in ins]
        results = zip(node.outputs, foreign_kernel(node, scope.opset, values), strict=True)
        return [constant_tensor(name, result) for name, result in results if name]
    nodes.append(node)
    try:
        shapes = infer(node, ins, scope.opset)
    except ModelError:
        scope.trace.shaping.update(name for name in node.inputs if name)
        raise
    return [Tensor(name, *shape) for name, shape in zip(node.outputs, shapes, strict=True)]


def _inferred(op: base.Op, node: Node, ins: list[Tensor | None]) -> list[tuple[tuple[int, ...], str]]:
    with refusing(node.op, node.name, ins):
        return op.infer(node, ins)


def _pruned(graph: Graph) -> Graph:
    """``graph`` without nodes and tensors that nothing needs (after constants were evaluated)."""
    graph.nodes = needed_nodes(graph.nodes, graph.outputs)
    used = {name for node in graph.nodes for name in (*node.inputs, *node.outputs)}
    wanted = {*used, *graph.inputs, *graph.outputs}
    graph.tensors = {name: tensor for name, tensor in graph.tensors.items() if name in wanted}
    return graph
