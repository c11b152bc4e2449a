"""ONNX file -> Graph: static shapes, canonical ops, constants folded, nothing dead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from accelsim.errors import ModelError, Problem, nearest
from accelsim.workload import normalise_math, normalise_resize, normalise_shape
from accelsim.workload.folding import CONSTANT_OPS, UNFOLDED, constant_tensor, folded
from accelsim.workload.foreign_shapes import defined, infer
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.normalise import RULES, Scope, canonical
from accelsim.workload.onnx_read import RawInput, RawModel, RawNode, raw_model, read_model
from accelsim.workload.ops import base
from accelsim.workload.ops.foreign import foreign_kernel, knows

RULE_MODULES = (normalise_math, normalise_resize, normalise_shape)
"""Modules whose import fills the table of rules."""

NOT_REPEATABLE = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}
)
"""Ops that draw random numbers: a run could not be repeated."""

Shapes = Mapping[str, tuple[int, ...]]


def import_onnx(path: str | Path, batch: int | None = None, shapes: Shapes | None = None) -> Graph:
    """The graph of an ONNX file.

    ``batch`` sets the first dimension of every real input, ``shapes`` the whole shape of the inputs it names.
    Raises ModelError (all problems at once) when the file cannot be read, when a dimension stays unknown,
    when no kernel knows an op, or when shapes contradict each other.
    """
    return build(read_model(path), batch, shapes or {})


def import_proto(
    proto: Any, name: str = "model", batch: int | None = None, shapes: Shapes | None = None
) -> Graph:
    """The graph of an ``onnx.ModelProto`` in memory, named ``name``; otherwise as ``import_onnx``."""
    return build(raw_model(proto, Path(name)), batch, shapes or {})


def build(raw: RawModel, batch: int | None, shapes: Shapes) -> Graph:
    """The graph of a parsed file; see ``import_onnx``."""
    raw.nodes = live(raw.nodes, raw.outputs)
    read = {name for node in raw.nodes for name in node.inputs} | set(raw.outputs)
    bound = bind_inputs([item for item in raw.inputs if item.name in read], batch, shapes, raw)
    _raise(_unknown_ops(raw))
    tensors = {**raw.initialisers, **bound}
    scope = Scope(raw.opset, tensors, frozenset(read), _rebatch(raw.inputs, bound, batch))
    nodes: list[Node] = []
    for node in raw.nodes:
        _import_node(node, scope, nodes)
    missing = [name for name in raw.outputs if name not in tensors]
    _raise(Problem(f"graph output {name!r} is made by no node", raw.name) for name in missing)
    return _pruned(Graph(raw.name, nodes, tensors, list(bound), list(raw.outputs), raw.opset))


def live(nodes: list[RawNode], outputs: Iterable[str]) -> list[RawNode]:
    """The nodes that the outputs depend on, in order."""
    needed = set(outputs)
    kept = []
    for node in reversed(nodes):
        if any(name in needed for name in node.outputs if name):
            needed.update(node.inputs)
            kept.append(node)
    return kept[::-1]


def bind_inputs(
    inputs: list[RawInput], batch: int | None, shapes: Shapes, raw: RawModel
) -> dict[str, Tensor]:
    """Real inputs with static shapes; a symbol bound by one input is bound in all. ModelError names what is
    missing.
    """
    known = [item.name for item in raw.inputs]
    unknown = [name for name in shapes if name not in known]
    _raise(
        Problem(f"no input {name!r}", raw.name, " or ".join(known), nearest(name, known)) for name in unknown
    )
    symbols: dict[str, int] = {}
    dims = {item.name: _stated(item, batch, shapes, symbols) for item in inputs}
    bound: dict[str, list[Any]] = {
        name: [symbols.get(size, size) if isinstance(size, str) else size for size in sizes or ()]
        for name, sizes in dims.items()
    }
    _raise(_input_problems(inputs, dims, bound, shapes))
    return {item.name: Tensor(item.name, tuple(bound[item.name]), item.dtype) for item in inputs}


def _stated(item: RawInput, batch: int | None, shapes: Shapes, symbols: dict[str, int]) -> list[Any] | None:
    """Dimensions of one input as the user or the file states them; symbols that the user fixes are noted."""
    if item.dims is None:
        return list(shapes[item.name]) if item.name in shapes else None
    stated: list[Any] = list(item.dims)
    if item.name in shapes:
        stated = list(shapes[item.name])
    elif batch is not None and stated:
        stated[0] = batch
    for dim, size in zip(item.dims, stated, strict=False):
        if isinstance(dim, str) and isinstance(size, int):
            symbols.setdefault(dim, size)
    return stated


def _input_problems(
    inputs: list[RawInput], dims: dict[str, list[Any] | None], bound: dict[str, list[Any]], shapes: Shapes
) -> Iterable[Problem]:
    for item in inputs:
        sizes = bound[item.name]
        if dims[item.name] is None:
            yield Problem(f"input {item.name!r} has no shape", expected=f"--shape {item.name}=...")
        elif item.dims is not None and len(sizes) != len(item.dims):
            yield Problem(f"input {item.name!r}: shape {sizes}", expected=f"{len(item.dims)} dimensions")
        elif not all(isinstance(size, int) and size > 0 for size in sizes):
            shown = ", ".join("?" if size is None else str(size) for size in sizes)
            yield Problem(f"input {item.name!r} has shape [{shown}]",
                          expected=f"positive sizes; give --shape {item.name}=... or a batch")  # fmt: skip


def _rebatch(inputs: list[RawInput], bound: dict[str, Tensor], batch: int | None) -> tuple[int, int] | None:
    """(old, new) batch when a static first dimension was replaced."""
    for item in inputs:
        if item.name in bound and item.dims and isinstance(item.dims[0], int):
            old, new = item.dims[0], bound[item.name].shape[0]
            if old != new and old > 0:
                return old, new
    return None


def _unknown_ops(raw: RawModel) -> Iterable[Problem]:
    """Nodes that neither the registry nor the host knows, each once."""
    for node in raw.nodes:
        if not node.domain and (node.op in RULES or node.op in CONSTANT_OPS):
            continue
        version = raw.opsets.get(node.domain, 0)
        if node.op in NOT_REPEATABLE:
            yield Problem(f"op {node.qualified} (opset {version}) gives other values in every run", node.name)
        elif any(hasattr(value, "node") for value in node.attrs.values()):
            yield Problem(
                f"op {node.qualified} (opset {version}) has a subgraph, which is not supported", node.name
            )
        elif not (defined(node.op, node.domain, raw.opset) and knows(node.op, node.domain, raw.opset)):
            where = f"domain {node.domain or 'ai.onnx'!r}, opset {version}"
            yield Problem(f"no kernel knows op {node.op!r} ({where})", node.name)


def _import_node(raw: RawNode, scope: Scope, nodes: list[Node]) -> None:
    _raise(
        Problem(f"{raw.op} reads {name!r}, which nothing before it makes", raw.name)
        for name in raw.inputs
        if name and name not in scope.tensors
    )
    make_constant = CONSTANT_OPS.get(raw.op) if not raw.domain else None
    constant = make_constant(raw, scope) if make_constant else None
    if constant is not None:
        scope.tensors[constant.name] = constant
        return
    for node in canonical(raw, scope):
        _add(node, scope, nodes)


def _add(node: Node, scope: Scope, nodes: list[Node]) -> None:
    ins = [scope.tensors[name] if name else None for name in node.inputs]
    constant = all(tensor is None or tensor.is_constant for tensor in ins) and node.op not in UNFOLDED
    op = base.find(node.op)
    if op is None:
        outputs = _foreign(node, ins, scope.opset, constant, nodes)
    elif constant:
        outputs = folded(node, ins, _inferred(op, node, ins))
    else:
        outputs = [
            Tensor(name, *shape) for name, shape in zip(node.outputs, _inferred(op, node, ins), strict=True)
        ]
        nodes.append(node)
    scope.tensors.update((tensor.name, tensor) for tensor in outputs if tensor.name)


def _foreign(
    node: Node, ins: list[Tensor | None], opset: int, constant: bool, nodes: list[Node]
) -> list[Tensor]:
    """Outputs of a foreign node: computed now from constants (their shapes may depend on values), else
    inferred.
    """
    if constant:
        values = [None if tensor is None else tensor.value() for tensor in ins]
        results = zip(node.outputs, foreign_kernel(node, opset, values), strict=True)
        return [constant_tensor(name, result) for name, result in results if name]
    nodes.append(node)
    return [Tensor(name, *shape) for name, shape in zip(node.outputs, infer(node, ins, opset), strict=True)]


def _inferred(op: base.Op, node: Node, ins: list[Tensor | None]) -> list[tuple[tuple[int, ...], str]]:
    try:
        return op.infer(node, ins)
    except (ValueError, IndexError, KeyError) as error:
        given = ", ".join("-" if tensor is None else f"{tensor.name} {list(tensor.shape)}" for tensor in ins)
        raise ModelError(Problem(f"{node.op} cannot take {given}: {error}", node.name)) from error


def _pruned(graph: Graph) -> Graph:
    """``graph`` without nodes and tensors that nothing needs (after folding)."""
    needed = set(graph.outputs)
    kept = []
    for node in reversed(graph.nodes):
        if any(name in needed for name in node.outputs):
            needed.update(name for name in node.inputs if name)
            kept.append(node)
    graph.nodes = kept[::-1]
    made = {name for node in graph.nodes for name in node.outputs if name}
    wanted = needed | made | set(graph.inputs)
    graph.tensors = {name: tensor for name, tensor in graph.tensors.items() if name in wanted}
    return graph


def _raise(problems: Iterable[Problem]) -> None:
    found = list(problems)
    if found:
        raise ModelError(found)
