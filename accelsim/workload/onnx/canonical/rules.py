"""ONNX nodes in the canonical form of the op registry, whatever operator set they were written for.

``canonical(raw, scope)`` gives the nodes that stand for one ONNX node (mostly one). What the registry cannot
express stays a foreign node for the host, with its inputs and attributes unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TypeVar

from accelsim.errors import ModelError
from accelsim.types import Array
from accelsim.workload.graph import Node, Tensor
from accelsim.workload.limits import MOST_NODES
from accelsim.workload.onnx.importing.read import RawNode
from accelsim.workload.ops.base import REGISTRY

MOST_INTEGERS = 1 << 16
"""Axes, sizes, pads: numbers of an input that are part of an op's form."""


class Foreign(Exception):
    """This use of an op has no canonical form: the node goes to the host."""


@dataclass
class Trace:
    """Record of an import: values that rules asked for, and the origin of nodes.

    ``asked``: tensors whose values some rule asked for although only a run makes them; ``shaping``: inputs of foreign
    nodes whose results have shapes that depend on values; ``host``: ops of foreign nodes that the host computed at
    once because all their inputs are constants; ``parents``: name -> what it was made of.
    """

    asked: set[str] = field(default_factory=set)
    shaping: set[str] = field(default_factory=set)
    host: list[str] = field(default_factory=list)
    parents: dict[str, list[str]] = field(default_factory=dict)

    def sources(self, wanted: Iterable[str], inputs: Iterable[str]) -> set[str]:
        """Return the ``inputs`` on which the tensors ``wanted`` depend."""
        names, seen = list(wanted), set(wanted)
        while names:
            new = [name for name in self.parents.get(names.pop(), ()) if name not in seen]
            names += new
            seen.update(new)
        return seen & set(inputs)


@dataclass
class Budget:
    """Nodes that an import may still make."""

    left: int = MOST_NODES

    def spend(self, count: int, name: str) -> None:
        """Raise ModelError, naming the node that asks for so many, when there are not as many left."""
        self.left -= count
        if self.left < 0:
            what = f"with {count:,} nodes more the unrolled model has {MOST_NODES - self.left:,}"
            raise ModelError(what, name, f"{MOST_NODES:,} at the most")


@dataclass
class Scope:
    """State of an import at a node: all tensors made so far, and the names that later nodes read.

    ``opsets`` are the versions by domain; ``batch`` is (batch of the file, batch asked for) when the batch is
    rewritten, else None; ``strict`` forbids foreign nodes (inside the body of an op that may go to the host whole).
    ``budget``: how many nodes may still be made.
    """

    opset: int
    tensors: dict[str, Tensor]
    used: set[str]
    batch: tuple[int, int] | None = None
    opsets: dict[str, int] = field(default_factory=dict)
    trace: Trace = field(default_factory=Trace)
    strict: bool = False
    budget: Budget = field(default_factory=Budget)

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor that exists."""
        return self.tensors[name].shape

    def rank(self, name: str) -> int:
        """Number of dimensions of a tensor that exists."""
        return len(self.tensors[name].shape)

    def constant(self, name: str) -> Array | None:
        """Values of a constant, or None when ``name`` is '' or an activation (which the trace then notes)."""
        tensor = self.tensors[name] if name else None
        if tensor is None or tensor.is_constant:
            return None if tensor is None else tensor.value()
        self.trace.asked.add(name)
        return None


Rule = Callable[[RawNode, Scope], "Node | list[Node]"]
R = TypeVar("R", bound=Rule)

RULES: dict[str, Rule] = {}
"""ONNX op type ('domain::type' outside the default domain) -> how it becomes canonical; ``find_rule`` fills it."""
MODERN = 7
"""The first operator set whose forms the rules know; ``legacy`` rewrites nodes of older ones."""
COMMON = "arithmetic", "shape"
"""Families that most networks need: the others are loaded for the first op that these do not have."""


def rule(*ops: str) -> Callable[[R], R]:
    """Register a rule for these ONNX op types."""

    def add(function: R) -> R:
        RULES.update(dict.fromkeys(ops, function))
        return function

    return add


def axis_attribute(raw: RawNode, scope: Scope, default: int, end: bool = False) -> int:
    """The attribute ``axis`` of the first input, counted from the front; ``end`` as in ``axis_of``."""
    return axis_of(raw.attrs.get("axis", default), scope.rank(raw.inputs[0]), end)


def find_rule(op: str) -> Rule | None:
    """Return the rule of an ONNX op type, None where there is none."""
    _load_families(common=True)
    if op not in RULES:
        _load_families(common=False)
    return RULES.get(op)


@cache
def _load_families(common: bool) -> None:
    """Import the common families, or all: each fills ``RULES``."""
    package = __name__.rpartition(".")[0]
    names = COMMON if common else [entry.name for entry in iter_modules(import_module(package).__path__)]
    for name in names:
        import_module(f"{package}.{name}")


def canonical(raw: RawNode, scope: Scope) -> list[Node]:
    """The canonical nodes of one ONNX node of opset 7 or later, in order; one foreign node where there is no canonical
    form."""
    apply = find_rule(raw.qualified)
    if apply is None or has_subgraph(raw):
        return [foreign_node(raw)]
    try:
        nodes = apply(raw, scope)
    except Foreign:
        return [foreign_node(raw)]
    return nodes if isinstance(nodes, list) else [nodes]


def has_subgraph(raw: RawNode) -> bool:
    """Return whether a node carries a subgraph (control flow), which no rule reads."""
    return any(hasattr(value, "node") for value in raw.attrs.values())


def foreign_node(raw: RawNode) -> Node:
    """The node for the host: inputs and attributes as in the file, ``domain`` added when not the default."""
    known = not raw.domain and raw.op in REGISTRY
    attrs = {**raw.attrs, **({"domain": raw.domain} if raw.domain else {})}
    return Node(raw.name, f"onnx::{raw.op}" if known else raw.op, list(raw.inputs), list(raw.outputs), attrs)


def make(raw: RawNode, inputs: int | None = None, op: str = "", outputs: int = 1, **attrs: object) -> Node:
    """A canonical node with the first ``inputs`` inputs of ``raw`` (None: all) and ``attrs``.

    Raises Foreign when an output beyond ``outputs`` is named: callers drop unread ones with ``drop_unread`` first.
    """
    names = list(raw.inputs if inputs is None else raw.inputs[:inputs])
    while names and not names[-1]:
        names.pop()
    if any(raw.outputs[outputs:]):
        raise Foreign
    return Node(raw.name, op or raw.op, names, list(raw.outputs[:outputs]), attrs)


def drop_unread(raw: RawNode, scope: Scope, keep: int = 1) -> RawNode:
    """``raw`` with only its first ``keep`` outputs; Foreign when a later one is read by anybody."""
    if any(name in scope.used for name in raw.outputs[keep:] if name):
        raise Foreign
    return RawNode(raw.name, raw.op, raw.domain, raw.inputs, raw.outputs[:keep], raw.attrs)


def axis_of(value: int, rank: int, end: bool = False) -> int:
    """An axis counted from the front; ValueError when there is none. ``end``: the place after the last counts too."""
    if not -rank <= value < rank + end:
        raise ValueError(f"axis {value} is none of {rank} axes")
    return int(value) + rank if value < 0 else int(value)


def axes_of(values: Iterable[int], rank: int) -> list[int]:
    """Axes counted from the front; ValueError when one does not exist or is named twice."""
    axes = [axis_of(int(value), rank) for value in values]
    if len(set(axes)) < len(axes):
        raise ValueError(f"axes {list(values)} name one axis twice")
    return axes


def optional(raw: RawNode, index: int) -> str:
    """Name of an input, '' when it is absent."""
    return raw.inputs[index] if index < len(raw.inputs) else ""


def given(raw: RawNode, scope: Scope, index: int) -> Array | None:
    """Values of constant input ``index``; None when it is absent. Raises Foreign when it is not a constant."""
    name = optional(raw, index)
    values = scope.constant(name)
    if name and values is None:
        raise Foreign
    return values


def ints(raw: RawNode, scope: Scope, index: int, attr: str = "") -> list[int] | None:
    """Integers given as attribute ``attr`` or as constant input ``index``; None when absent.

    Raises Foreign when the input is not a constant.
    """
    if attr and attr in raw.attrs:
        return [int(value) for value in raw.attrs[attr]]
    name = optional(raw, index)
    if not name:
        return None
    elements = scope.tensors[name].elements
    if elements > MOST_INTEGERS:
        what = f"input {index} of {raw.op} has {elements:,} elements"
        raise ModelError(what, raw.name, f"{MOST_INTEGERS:,} at the most")
    values = given(raw, scope, index)
    return None if values is None else [int(value) for value in values.reshape(-1)]


def scalar(raw: RawNode, scope: Scope, index: int) -> float | int | None:
    """A number given as constant input ``index``; None when absent. Raises Foreign when not a constant."""
    values = given(raw, scope, index)
    if values is None:
        return None
    if values.size != 1:
        raise Foreign
    number: float | int = values.reshape(-1)[0].item()
    return number
