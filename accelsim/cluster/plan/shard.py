"""Tensor parallelism as a pass: the graph that each rank of a group runs, with its collectives.

Weights decide: a product whose operand every rank has is split by columns, one whose operand is split already by rows,
so that the two products of a feed-forward part, and attention by heads, need one sum after them (Shoeybi et al.,
arXiv:1909.08053). All else follows its operands, backward as forward. With sequence parallelism what lies between is
split along the tokens: the sum becomes a reduce-scatter, and an all-gather stands before the next product (Korthikanti
et al., arXiv:2205.05198).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from accelsim.cluster.plan.objective import Objective
from accelsim.cluster.plan.placing import WHOLE, Ask, Choice, Place, choices, split
from accelsim.cluster.plan.spmd import SPMD, Collective, add, collectives
from accelsim.types import Array
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.ops import base
from accelsim.workload.ops.base import Shape

SEQUENCE = 1
"""Axis of the tokens in an activation [batch, tokens, features]."""
GROUP = "tp"
SPLIT_WEIGHTS = ("MatMul", "Gemm", "Conv", "ExpertMatMul", "Gather")
"""Ops whose weights are shared out where they can be."""


@dataclass(frozen=True)
class Sharded:
    """A graph as one rank runs it. ``graph``: that of one rank (split constants hold the part of rank 0);
    ``collectives``: its collectives in order; ``split``: tensor -> axis that is shared out, of inputs, constants and
    outputs (absent: whole on every rank); ``block``: nodes of the forward pass -> block (see ``Objective``; empty for
    other graphs); ``notes``: weights that stay whole although a product reads them, and why."""

    graph: Graph
    collectives: list[Collective]
    split: dict[str, int]
    ranks: int
    block: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def part(self, name: str, value: Array, rank: int) -> Array:
        """Return the part of ``rank`` of the whole ``value`` of a tensor."""
        axis = self.split.get(name)
        return value if axis is None else np.split(value, self.ranks, axis)[rank].copy()

    def whole(self, name: str, parts: Sequence[Array]) -> Array:
        """Join a tensor from the parts of all ranks."""
        axis = self.split.get(name)
        return parts[0] if axis is None else np.concatenate(parts, axis)


def shard_objective(made: Objective, tp: int, sp: bool = False) -> Sharded:
    """Shard an objective among ``tp`` ranks; gradients lie as their weights."""
    same = {grad: weight for weight, grad in made.grads.items()}
    if tp == 1:
        return Sharded(made.graph, [], {}, 1, dict(made.block))
    return _Pass(made.graph, tp, sp, set(made.weights), made.block, same, made.shared).result()


def shard_call(graph: Graph, tp: int, weights: Iterable[str]) -> Sharded:
    """Shard the ``weights`` of a graph, and its states, among ``tp`` ranks; new states lie as the old ones."""
    same = {new: old for old, new in graph.states.items()}
    return _Pass(graph, tp, False, {*weights, *graph.states}, {}, same).result()


class _Pass:
    """One graph being written anew. ``free``: tensors whose placement is decided by their first reader; ``same``:
    output -> the tensor as which it must lie; ``copies``: tensors that must lie alike."""

    def __init__(
        self,
        graph: Graph,
        ranks: int,
        sp: bool,
        free: Iterable[str],
        block: Mapping[str, int],
        same: Mapping[str, str] | None = None,
        copies: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.old, self.ranks, self.sp = graph, ranks, sp
        self.weights, self.free = frozenset(free), set(free)
        self.same, self.block = dict(same or {}), dict(block)
        self.copies = {name: group for group in (copies or {}).values() for name in group}
        self.new = graph.copy()
        self.nodes: list[Node] = []
        self.new.nodes = []
        self.shapes = {name: tensor.shape for name, tensor in graph.tensors.items()}
        known = (*graph.inputs, *(tensor.name for tensor in graph.constants()))
        self.places: dict[str, Place] = dict.fromkeys(known, WHOLE)
        self.forms: dict[str, dict[Place, str]] = {}
        self.maker: dict[str, Node] = {}
        self.notes: list[str] = []

    def result(self) -> Sharded:
        for node in self.old.nodes:
            self._place(replace(node, attrs=dict(node.attrs), inputs=list(node.inputs)))
        self.new.nodes = self.nodes
        self._finish()
        parts = {name: place.axis for name, place in self.places.items() if place.kind == "split"}
        kept = {*self.new.inputs, *self.new.outputs, *(tensor.name for tensor in self.new.constants())}
        found = {name: axis for name, axis in parts.items() if name in kept}
        return Sharded(self.new, collectives(self.new, self.ranks), found, self.ranks, self.block, self.notes)

    # What a node becomes

    def _place(self, node: Node) -> None:
        """Append a node, with what its inputs need before."""
        ask = Ask(
            node,
            [self.shapes[name] if name else None for name in node.inputs],
            [self.shapes[name] for name in node.outputs if name],
            self.ranks,
        )
        choice = self._chosen(ask)
        if choice.form in ("bias", "log_softmax"):
            (self._bias_apart if choice.form == "bias" else self._log_softmax)(node)
            return
        for name, place in zip(node.inputs, choice.ins, strict=True):
            if name in self.free:
                for copy in self.copies.get(name, (name,)):
                    self._settle(copy, place)
        pairs = zip(node.inputs, choice.ins, strict=True)
        node.inputs = [self._placed_as(name, place, node) if name else "" for name, place in pairs]
        self._write(node, choice)

    def _write(self, node: Node, choice: Choice) -> None:
        """Append a node as one rank runs it: sizes in its attributes are those of the rank."""
        outs = [name for name in node.outputs if name]
        if choice.form in SPMD:
            node.op, node.attrs["group"] = choice.form, GROUP
            if "size" in node.attrs:
                node.attrs["size"] //= self.ranks
        elif choice.form == "group":
            node.attrs["group"] //= self.ranks
        for name, place in zip(outs, choice.outs, strict=True):
            self.places[name] = place
            tensor = self.new.tensors[name]
            tensor.shape = self._local(name, place)
            if "shape" in node.attrs:
                node.attrs["shape"] = list(tensor.shape)
        self.nodes.append(node)
        self.maker.update((name, node) for name in outs)

    def _local(self, name: str, place: Place) -> Shape:
        shape = self.shapes[name]
        if place.kind != "split":
            return shape
        axis = place.axis
        return (*shape[:axis], shape[axis] // self.ranks, *shape[axis + 1 :])

    # Which placement

    def _chosen(self, ask: Ask) -> Choice:
        """Partial sums go through where they may; else weights are split first, then the least is sent."""
        found = choices(ask)
        names = ask.node.inputs
        now = tuple(self.places[name] if name else WHOLE for name in names)
        if any(place.kind == "partial" for place in now):
            through = [choice for choice in found if choice.ins == now]
            if through:
                return through[0]
        priced = [
            (self._price(ask, choice), index) for index, choice in enumerate(found) if self._eligible(ask, choice)
        ]
        best = found[min(priced)[1]]
        if set(best.ins) == {WHOLE}:
            self._note_whole(ask)
        return best

    def _note_whole(self, ask: Ask) -> None:
        """Note the weights that could have been shared out."""
        for name in ask.node.inputs:
            if name in self.free and self._leads(ask, name):
                what = f"{name} {list(self.shapes[name])} lies whole on every rank"
                self.notes.append(f"{what}: {self.ranks} do not divide what could be split")

    def _eligible(self, ask: Ask, choice: Choice) -> bool:
        """Return whether a choice has no partial operand and an operand already lies as it splits."""
        if any(place.kind == "partial" for place in choice.ins):
            return False
        if set(choice.ins) <= {WHOLE}:
            return True
        given = [(name, place) for name, place in zip(ask.node.inputs, choice.ins, strict=True) if place != WHOLE]
        ready = [place in self._available(name) for name, place in given if name not in self.free]
        led = any(name in self.free and self._leads(ask, name) for name, _ in given)
        if led:
            return all(ready) and (ask.node.op != "Gather" or choice.form != "")
        return any(ready)

    def _leads(self, ask: Ask, name: str) -> bool:
        """Return whether a tensor whose placement is free decides how a node is split: weights of products, tables that
        are read where the data say, states."""
        if name in self.old.states:
            return True
        known = ask.node.op == "Gather" and self.old.tensors[ask.node.inputs[1]].is_constant
        return ask.node.op in SPLIT_WEIGHTS and len(self.shapes[name]) > 1 and not known

    def _available(self, name: str) -> set[Place]:
        place = self.places[name]
        return {self._resolved(name) if place.kind == "partial" else place, *self.forms.get(name, ())}

    def _resolved(self, name: str) -> Place:
        """Return where sums lie after partial ones are added up: split along the tokens with sequence parallelism, else
        whole."""
        shape, place = self.shapes[name], self.places[name]
        if self.sp and place.reduce == "sum" and len(shape) == 3 and shape[SEQUENCE] % self.ranks == 0:
            return split(SEQUENCE)
        return WHOLE

    def _price(self, ask: Ask, choice: Choice) -> tuple[int, float]:
        """(weights left whole that could be split, elements sent, with a little for cutting and computing)."""
        left, sent = 0, 0.0
        for name, place in zip(ask.node.inputs, choice.ins, strict=True):
            if not name:
                continue
            size = float(np.prod(self.shapes[name]))
            if name in self.free:
                left += self._leads(ask, name) and place == WHOLE
            elif place not in self._available(name):
                sent += 0.001 * size if WHOLE in self._available(name) else size
        for name, place, shape in zip((n for n in ask.node.outputs if n), choice.outs, ask.outs, strict=True):
            size = float(np.prod(shape))
            sent += 0.01 * size / (self.ranks if place.kind == "split" else 1)
            want = self._wanted(name)
            if want is not None and want != place and place.kind != "partial":
                sent += 0.001 * size if place == WHOLE else size
        return left, sent

    def _wanted(self, name: str) -> Place | None:
        if name in self.same:
            return self.places[self.same[name]]
        return None

    def _settle(self, name: str, place: Place) -> None:
        """A weight or a state gets its placement, that which its first reader wants."""
        self.free.discard(name)
        tensor = self.new.tensors[name]
        self.places[name] = place
        tensor.shape = self._local(name, place)
        if place.kind == "split" and tensor.is_constant:
            whole, axis, ranks = self.old.tensors[name], place.axis, self.ranks
            tensor.data = None
            tensor.source = lambda: np.split(whole.value(), ranks, axis)[0].copy()

    # From one placement to another

    def _placed_as(self, name: str, place: Place, reader: Node) -> str:
        """The name under which a tensor lies as ``place``; writes what brings it there, once."""
        if self.places[name] == place:
            return name
        forms = self.forms.setdefault(name, {})
        if place in forms:
            return forms[place]
        now = self.places[name]
        if now.kind == "partial":
            summed = self._summed(name)
            return summed if self.places[summed] == place else self._placed_as(summed, place, reader)
        if now == WHOLE:
            made = self._spmd("Part", name, f"{name}.part{place.axis}", place, reader, axis=place.axis)
        elif place == WHOLE:
            made = self._spmd("AllGather", name, f"{name}.all", WHOLE, reader, axis=now.axis)
        else:
            return self._placed_as(self._placed_as(name, WHOLE, reader), place, reader)
        forms[place] = made
        return made

    def _summed(self, name: str) -> str:
        """Partial sums added up, where they are made."""
        forms, place = self.forms.setdefault(name, {}), self._resolved(name)
        if place not in forms:
            owner, reduce = self.maker[name], self.places[name].reduce
            if place == WHOLE:
                forms[place] = self._spmd("AllReduce", name, f"{name}.total", place, owner, reduce=reduce)
            else:
                forms[place] = self._spmd("ReduceScatter", name, f"{name}.total", place, owner, axis=place.axis)
        return forms[place]

    def _spmd(self, op: str, x: str, name: str, place: Place, owner: Node, **attrs: int | str) -> str:
        """A node of ``SPMD`` that belongs to the block (or to the gradient) of ``owner``."""
        made = add(self.new, self.nodes, op, [x], name, self.ranks, group=GROUP, **attrs)
        self.shapes[made], self.places[made] = self.shapes[x], place
        self.nodes[-1].part_of = owner.part_of
        self._note_block(made, owner)
        self.maker[made] = self.nodes[-1]
        return made

    def _note_block(self, name: str, owner: Node) -> None:
        if owner.name in self.block:
            self.block[name] = self.block[owner.name]

    # Ops that are written as several

    def _emit(self, op: str, inputs: list[str], name: str, like: Node, **attrs: object) -> str:
        """A further node of the whole graph, placed as all others."""
        node = Node(name, op, inputs, [name], dict(attrs), part_of=like.part_of)
        if name not in self.shapes:
            whole = [Tensor(given, self.shapes[given], self.new.tensors[given].dtype) for given in inputs]
            shape, dtype = base.get(op).infer(node, list(whole))[0]
            self.shapes[name] = tuple(shape)
            self.new.tensors[name] = Tensor(name, tuple(shape), dtype)
        self._note_block(name, like)
        self._place(node)
        return name

    def _bias_apart(self, node: Node) -> None:
        """A product of which each rank has a term: the bias is added to the sum, once."""
        product = self._emit(node.op, node.inputs[:2], f"{node.name}.product", node, **node.attrs)
        bias, out = node.inputs[2], node.outputs[0]
        if node.op == "Conv":
            self._emit("Bias", [product, bias], out, node, axis=1)
        else:
            self._emit("Add", [product, bias], out, node)

    def _log_softmax(self, node: Node) -> None:
        """x - max - log(sum(exp(x - max))), maximum and sum over all ranks."""
        x, out, axis = node.inputs[0], node.outputs[0], node.attrs["axis"]
        top = self._emit("ReduceMax", [x], f"{out}.top", node, axes=[axis], keepdims=1)
        low = self._emit("Sub", [x, top], f"{out}.low", node)
        total = self._emit(
            "ReduceSum", [self._emit("Exp", [low], f"{out}.exp", node)], f"{out}.sum", node, axes=[axis], keepdims=1
        )
        self._emit("Sub", [low, self._emit("Log", [total], f"{out}.log", node)], out, node)

    # Outputs

    def _finish(self) -> None:
        """Outputs as they must lie."""
        staying = self.old.staying
        for index, name in enumerate(self.new.outputs):
            want = self._wanted(name) or WHOLE
            state = next((state for state, new in self.old.states.items() if new == name), "")
            if state:
                want = self.places[state]
            elif name in staying and self.places[name].kind != "partial":
                continue
            if self.places[name] != want:
                self._rename(index, name, want)

    def _rename(self, index: int, name: str, want: Place) -> None:
        """Return what is sent has the name of the output; what was made, another."""
        made = self._placed_as(name, want, self.maker[name])
        own = f"{name}.own"
        for node in self.nodes:
            node.inputs = [own if given == name else given for given in node.inputs]
            node.outputs = [own if given == name else name if given == made else given for given in node.outputs]
            node.inputs = [name if given == made else given for given in node.inputs]
        tensors = self.new.tensors
        tensors[own], tensors[name] = replace(tensors[name], name=own), replace(tensors.pop(made), name=name)
        self.places[own], self.places[name] = self.places[name], want


def without_collectives(sharded: Sharded) -> Graph:
    """Return the graph of one rank with nothing sent, for the work of its device: a sum over ranks is the rank's own
    term, a gathered tensor the rank's part several times, a scattered one its first part. Its values mean nothing."""
    graph, ranks = sharded.graph.copy(), sharded.ranks
    for node in graph.nodes:
        if node.op == "AllReduce":
            node.op, node.attrs = "Identity", {}
        elif node.op == "AllGather":
            node.op, node.inputs, node.attrs = "Concat", node.inputs * ranks, {"axis": node.attrs["axis"]}
        elif node.op in ("ReduceScatter", "Part"):
            axis = node.attrs["axis"]
            end = graph.tensors[node.outputs[0]].shape[axis]
            node.op, node.attrs = "Slice", {"starts": [0], "ends": [end], "axes": [axis], "steps": [1]}
        elif node.op == "ExpertExchange":  # as many rows, each for one of its own experts
            own, count = graph.tensors[node.inputs[1]].shape[0], prod(graph.tensors[node.inputs[2]].shape)
            node.op, node.attrs["reached"] = "ExpertMatMul", max(n for n in range(1, own + 1) if count % n == 0)
            node.attrs.pop("group")
        elif node.op in ("GatherPart", "GatherGradPart"):
            node.op = node.op.removesuffix("Part")
            node.attrs.pop("group")
    return graph
