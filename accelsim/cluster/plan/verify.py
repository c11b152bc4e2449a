"""Check of a sharded graph: shapes, and where the elements of every tensor lie, node by node.

It knows nothing of how the graph was made. From the placements of inputs and constants it follows what each node makes
of them by the same table of operators (``placing``); sums that are not added up yet must not be read as values. The
shape of a rank's part alone may leave open along which axis a reshaped tensor is split (of [1, 8] along either): then
all possibilities are followed, and one of them must lead to the end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from math import prod
from typing import NamedTuple

from accelsim.cluster.plan.placing import WHOLE, Ask, Choice, Place, choices, partial, split
from accelsim.cluster.plan.shard import Sharded
from accelsim.cluster.plan.spmd import SPMD
from accelsim.cluster.plan.update import FILL, FLAT, GROUP, SUM, Update
from accelsim.errors import ModelError, Problem
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.ops import find, get
from accelsim.workload.ops.base import Shape


def verify(
    graph: Graph,
    ranks: int,
    placed: Mapping[str, Place],
    wanted: Mapping[str, Place] | None = None,
    group: str = "tp",
    alike: Collection[str] = (),
) -> dict[str, tuple[Place, ...]]:
    """Return the placements of every tensor in the graph of one rank, in ``group`` of ``ranks``: nearly always one.

    ``placed``: inputs and constants that are not whole on every rank; ``wanted``: outputs, by default whole; ``alike``:
    what is there once for each sample, always the same, and so may count as split along its first axis too. Raises
    ModelError with everything that is wrong: a shape that is not that of its op, operands that do not lie as the op
    needs them, partial sums that are read as values, a collective that fits no operand, outputs that lie otherwise.
    """
    check = _Check(graph, ranks, placed, group)
    check.places.update((name, (WHOLE, split(0))) for name in alike)
    for node in graph.nodes:
        check.node(node)
    check.outputs(wanted or {})
    if check.problems:
        raise ModelError(check.problems)
    return check.places


def verify_sharded(sharded: Sharded) -> dict[str, tuple[Place, ...]]:
    """Verify a result of ``shard``, which states where inputs, constants and outputs lie."""
    graph = sharded.graph
    places = {name: split(axis) for name, axis in sharded.split.items()}
    given = {*graph.inputs, *(tensor.name for tensor in graph.constants())}
    return verify(
        graph,
        sharded.ranks,
        {name: place for name, place in places.items() if name in given},
        {name: place for name, place in places.items() if name in graph.outputs},
    )


def verify_update(update: Update, replicas: int) -> dict[str, tuple[Place, ...]]:
    """Verify the end of a step among the replicas: gradients come as partial sums, weights must lie as before. With
    ZeRO each replica has its part of the states of the optimiser (and, in stage 3, of the weights)."""
    graph = update.graph
    part = update.padded // replicas
    placed: dict[str, Place] = {}
    for name in (*graph.inputs, *(tensor.name for tensor in graph.constants())):
        shared = update.zero and graph.tensors[name].shape == (part,)
        if replicas > 1 and (name.endswith(SUM) or name == FILL):
            placed[name] = partial()
        elif shared and (name in update.kept or name == FLAT):
            placed[name] = split(0)
    wanted = {new: placed.get(state, WHOLE) for state, new in graph.states.items()}
    return verify(graph, replicas, placed, wanted, GROUP)


class _Check:
    """Placements known so far, and problems."""

    def __init__(self, graph: Graph, ranks: int, placed: Mapping[str, Place], group: str) -> None:
        self.graph, self.ranks, self.group = graph, ranks, group
        given = (*graph.inputs, *(tensor.name for tensor in graph.constants()))
        self.places: dict[str, tuple[Place, ...]] = {name: (placed.get(name, WHOLE),) for name in given}
        self.problems: list[Problem] = []

    def node(self, node: Node) -> None:
        """Follow one node; after a problem its results count as whole, so that one fault is given once."""
        names = [name for name in node.inputs if name]
        outs = [name for name in node.outputs if name]
        missing = [name for name in names if name not in self.places]
        if missing:
            self._wrong(node, f"reads {', '.join(missing)}, which nothing has made")
        elif node.op in SPMD:
            self._collective(node)
        else:
            self._plain(node)
        for name in outs:
            self.places.setdefault(name, (WHOLE,))

    def outputs(self, wanted: Mapping[str, Place]) -> None:
        """Compare the outputs with what is wanted of them."""
        for name in self.graph.outputs:
            want, found = wanted.get(name, WHOLE), self.places.get(name, ())
            if want not in found:
                given = " or ".join(str(place) for place in found) or "never made"
                self.problems.append(Problem(f"output {name!r} is {given}", self.graph.name, str(want)))

    def _wrong(self, node: Node, what: str, expected: str = "") -> None:
        self.problems.append(Problem(f"{node.op} {what}", node.name, expected))

    def _whole(self, shape: Shape, place: Place) -> Shape:
        if place.kind != "split":
            return shape
        return (*shape[: place.axis], shape[place.axis] * self.ranks, *shape[place.axis + 1 :])

    def _plain(self, node: Node) -> None:
        """A node that each rank runs on its own."""
        op = find(node.op)
        if op is None:
            self._wrong(node, "is no op", "one of the registry")
            return
        tensors = [self.graph.tensors[name] if name else None for name in node.inputs]
        try:
            shapes = [tuple(shape) for shape, _ in op.infer(node, tensors)]
        except ModelError as error:
            self.problems += error.problems
            return
        have = [self.graph.tensors[name].shape for name in node.outputs if name]
        if shapes[: len(have)] != have:
            self._wrong(node, f"gives the shapes {[list(s) for s in shapes]}", str([list(shape) for shape in have]))
            return
        ways = [*product(*(self.places[name] if name else (WHOLE,) for name in node.inputs))]
        found = [choice.outs for now in ways for choice in self._matching(node, have, now)]
        if not found:
            self._unmatched(node, ways[0])
            return
        for index, name in enumerate(name for name in node.outputs if name):
            self.places[name] = tuple(dict.fromkeys(outs[index] for outs in found))

    def _matching(self, node: Node, have: Sequence[Shape], now: tuple[Place, ...]) -> Iterator[Choice]:
        """Return what a node may make of operands that lie so, with results of the shapes that a rank has."""
        for ask in self._asked(node, have, now):
            for choice in choices(ask):
                if choice.ins == now and choice.form in ("", "group") and self._fits(ask, choice, have):
                    yield choice

    def _unmatched(self, node: Node, now: tuple[Place, ...]) -> None:
        sums = [name for name, place in zip(node.inputs, now, strict=True) if place.kind == "partial"]
        given = ", ".join(f"{name} ({place})" for name, place in zip(node.inputs, now, strict=True) if name)
        if sums:
            what = f"reads {', '.join(sums)} as values, which are {now[node.inputs.index(sums[0])]}"
            self._wrong(node, what, "an AllReduce or a ReduceScatter before")
        else:
            self._wrong(node, f"cannot be computed from operands that lie so: {given}")

    def _asked(self, node: Node, have: Sequence[Shape], now: tuple[Place, ...]) -> Iterator[Ask]:
        """The node of the whole graph. What it makes follows from its whole operands; where a shape is an attribute,
        which is that of a rank, from each way in which the result may be split."""
        tensors = [self.graph.tensors[name] if name else None for name in node.inputs]
        ins = [
            None if each is None else self._whole(each.shape, place) for each, place in zip(tensors, now, strict=True)
        ]
        if "shape" in node.attrs:
            for out in (have[0], *(self._whole(have[0], split(axis)) for axis in range(len(have[0])))):
                if prod(ins[0] or ()) == prod(out) or node.op == "Expand":
                    yield Ask(node, ins, [out], self.ranks)
            return
        whole = node
        if node.op == "Conv" and now[:2] == (split(1), split(0)):  # its weights say that groups are shared out
            whole = replace(node, attrs={**node.attrs, "group": node.attrs["group"] * self.ranks})
        operands = [
            None if shape is None or each is None else Tensor("", shape, each.dtype)
            for shape, each in zip(ins, tensors, strict=True)
        ]
        with suppress(ModelError):
            outs = [tuple(shape) for shape, _ in get(node.op).infer(whole, operands)]
            yield Ask(whole, ins, outs[: len(have)], self.ranks)

    def _fits(self, ask: Ask, choice: Choice, have: Sequence[Shape]) -> bool:
        parts = zip(ask.outs, choice.outs, have, strict=True)
        return all(self._whole(local, place) == whole for whole, place, local in parts)

    def _collective(self, node: Node) -> None:
        """A node of ``SPMD``: what it needs of its operand, and what it makes of it."""
        row = SPMD[node.op]
        shapes = [self.graph.tensors[name].shape for name in node.inputs]
        shape, have = row.shape(node, shapes, self.ranks), self.graph.tensors[node.outputs[0]].shape
        if node.attrs.get("group") != self.group:
            self._wrong(node, f"runs in group {node.attrs.get('group')!r}", repr(self.group))
        if shape != have:
            self._wrong(node, f"gives the shape {list(shape)}", str(list(have)))
        step = _STEPS[node.op](node)
        for name, need in zip(node.inputs, step.needs, strict=True):
            if need not in self.places[name]:
                given = " or ".join(str(place) for place in self.places[name])
                self._wrong(node, f"of {name}, which is {given}", str(need))
        self.places[node.outputs[0]] = (step.gives,)


class _Lies(NamedTuple):
    needs: tuple[Place, ...]
    gives: Place


def _along(node: Node) -> Place:
    return split(node.attrs["axis"])


_STEPS: dict[str, Callable[[Node], _Lies]] = {
    "AllReduce": lambda node: _Lies((partial(node.attrs["reduce"]),), WHOLE),
    "AllGather": lambda node: _Lies((_along(node),), WHOLE),
    "ReduceScatter": lambda node: _Lies((partial(),), _along(node)),
    "Part": lambda node: _Lies((WHOLE,), _along(node)),
    "GatherPart": lambda node: _Lies((_along(node), WHOLE), partial()),
    "GatherGradPart": lambda node: _Lies((WHOLE, WHOLE), _along(node)),
}
"""Op -> how its operands must lie, and how its result does."""
