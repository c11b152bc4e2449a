"""Placements, and the registry of what operators do with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from accelsim.workload.graph import Node
from accelsim.workload.ops import find
from accelsim.workload.ops.base import Shape


class Place(NamedTuple):
    """How a tensor lies on the ranks of a group.

    'whole': every rank has all of it. 'split': rank r has the r-th of equal parts along ``axis``. 'partial': every
    rank has an array of the whole shape, and the tensor is their sum (``reduce``: or their maximum).
    """

    kind: str
    axis: int = -1
    reduce: str = ""

    def __str__(self) -> str:
        if self.kind == "split":
            return f"split along axis {self.axis}"
        return "partial sums" if self.reduce == "sum" else "partial maxima" if self.reduce else "whole"


WHOLE = Place("whole")


def split(axis: int) -> Place:
    """Equal parts along ``axis``."""
    return Place("split", axis)


def partial(reduce: str = "sum") -> Place:
    """Terms of a sum (or candidates for a maximum)."""
    return Place("partial", -1, reduce)


@dataclass(frozen=True)
class Ask:
    """A node, the whole shapes of its inputs (None where absent) and of its outputs, and the number of ranks."""

    node: Node
    ins: list[Shape | None]
    outs: list[Shape]
    ranks: int

    def fits(self, size: int) -> bool:
        """Return whether an axis of so many elements has equal parts."""
        return size % self.ranks == 0 and size > 0


class Choice(NamedTuple):
    """Placements of inputs with which an op can be computed rank by rank, and those of its results.

    ``form``: '' where each rank runs the node as it is; else how it is written (``shard``).
    """

    ins: tuple[Place, ...]
    outs: tuple[Place, ...]
    form: str = ""


Rule = Callable[[Ask], Iterator[Choice]]
RULES: dict[str, Rule] = {}
"""Op, or kind of ops, -> its choices besides that everything is whole."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register the choices of ops, or of a kind of ops; a second rule for one name is an error."""

    def add(function: Rule) -> Rule:
        for name in names:
            if name in RULES:
                raise ValueError(f"two rules of placement for {name!r}")
            RULES[name] = function
        return function

    return add


def choices(ask: Ask) -> list[Choice]:
    """All choices of a node; the first: everything whole, the only one of an op that no rule knows."""
    op = find(ask.node.op)
    whole = Choice((WHOLE,) * len(ask.ins), (WHOLE,) * len(ask.outs))
    made = RULES.get(ask.node.op) or (RULES.get(op.kind) if op is not None else None)
    return [whole, *(made(ask) if made is not None else ())]
