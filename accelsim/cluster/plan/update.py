"""The end of a step: gradients of the replicas added up, weights moved; with ZeRO, each replica moves its part.

Source: Rajbhandari et al., ZeRO, SC 2020, sections 5 and 7: stage 1 shares out the states of the optimiser, 2 the
gradients too, 3 the weights too. All three add gradients by a reduce-scatter and spread the result by an all-gather.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from accelsim.cluster.plan.objective import DOUBLE, double
from accelsim.cluster.plan.spmd import add
from accelsim.workload.graph import Graph
from accelsim.workload.training import Optimiser
from accelsim.workload.training.emit import Emitter
from accelsim.workload.training.precision import Precision
from accelsim.workload.training.step import RATE

Shape = tuple[int, ...]

SUM = ".sum"
"""Suffix of a weight's name for its gradient, added up over the microbatches of a replica."""
FLAT = "flat"
"""All weights of a rank as one vector, of which each replica has a part."""
FILL = "gradients.fill"
"""Zeros after that vector, so that its parts are equal: zero on every replica, so a sum of zeros."""
GROUP = "dp"


@dataclass(frozen=True)
class Update:
    """Graphs of the end of a step. ``graph``: inputs are weights (with ZeRO 3: the part ``flat``), ``{weight}.sum``,
    ``lr`` and the states that begin at 0; ``graph.states`` maps each to its new value. ``gather``: from ``flat`` to the
    weights (ZeRO 3 only, else empty); ``padded``: elements of the vector, a multiple of the replicas. ``zero``: 0
    without replicas."""

    graph: Graph
    gather: Graph
    padded: int
    zero: int = 0

    @property
    def kept(self) -> tuple[str, ...]:
        """The states of the optimiser, which begin at 0."""
        slots = {name for name in self.graph.inputs if name.startswith(STATE)}
        return tuple(name for name in self.graph.states if name in slots)


STATE = "state."
"""Prefix of the names of states of the optimiser."""


def update_graph(
    weights: Mapping[str, Shape], rule: Optimiser, precision: Precision, replicas: int = 1, zero: int = 0
) -> Update:
    """Write the update of ``weights`` (a rank's shapes) by ``rule``, with gradients summed over ``replicas``.

    ``zero``: as in ``Plan``; without replicas there is nothing to share out. The arithmetic is fp32, or fp64 in double
    precision, and element by element, so that what lies on which replica changes no bit of it.
    """
    zero = zero if replicas > 1 else 0
    padded = -(-sum(prod(shape) for shape in weights.values()) // replicas) * replicas
    wide = precision.master == DOUBLE
    write = _Write(weights, rule, "fp32" if wide else precision.master, replicas, padded)
    write.flat(zero) if zero else write.single()
    gather = write.gather() if zero == 3 else Graph("gather", [], {}, [], [])
    made = write.e.graph
    return Update(double(made), double(gather), padded, zero) if wide else Update(made, gather, padded, zero)


class _Write:
    """Writes one update."""

    def __init__(self, weights: Mapping[str, Shape], rule: Optimiser, master: str, replicas: int, padded: int) -> None:
        self.weights, self.rule, self.master = weights, rule, master
        self.replicas, self.padded = replicas, padded
        self.e = Emitter("update")
        self.lr = self.e.input(RATE, ())

    def _spmd(self, op: str, x: str, name: str, **attrs: int | str) -> str:
        return add(self.e.graph, self.e.graph.nodes, op, [x], name, self.replicas, group=GROUP, **attrs)

    def single(self) -> None:
        """Every weight on its own."""
        grads = {}
        for name, shape in self.weights.items():
            self.e.input(name, shape, self.master)
            grad = self.e.input(f"{name}{SUM}", shape)
            if self.replicas > 1:
                grad = self._spmd("AllReduce", grad, f"{name}.total", reduce="sum")
            grads[name] = grad
        _keep(self.e, self._moved(grads))

    def flat(self, zero: int) -> None:
        """Update all weights as one vector, in equal parts."""
        e = self.e
        sums = {name: e.input(f"{name}{SUM}", shape) for name, shape in self.weights.items()}
        total = self._spmd("ReduceScatter", self._joined(e, sums, "gradients"), "gradients.part", axis=0)
        if zero == 3:
            part = e.input(FLAT, (self.padded // self.replicas,), self.master)
        else:
            whole = {name: e.input(name, shape, self.master) for name, shape in self.weights.items()}
            part = self._spmd("Part", self._joined(e, whole, "weights"), FLAT, axis=0)
        new = self._moved({part: total})
        if zero < 3:
            new = self._separated(e, self._spmd("AllGather", new[part], "weights.new", axis=0))
        _keep(e, new)

    def gather(self) -> Graph:
        """Gather the weights from the parts of all replicas."""
        e = Emitter("gather")
        part = e.input(FLAT, (self.padded // self.replicas,), self.master)
        whole = add(e.graph, e.graph.nodes, "AllGather", [part], "whole", self.replicas, group=GROUP, axis=0)
        _keep(e, self._separated(e, whole))
        return e.graph

    def _joined(self, e: Emitter, parts: Mapping[str, str], name: str) -> str:
        """Join all arrays, filled up with zeros."""
        rows = [e.reshaped(tensor, (prod(self.weights[key]),), f"{tensor}.row") for key, tensor in parts.items()]
        fill = self.padded - sum(prod(shape) for shape in self.weights.values())
        if fill:
            dtype = e.graph.tensors[rows[0]].dtype
            rows.append(e.cast(e.constant(f"{name}.fill", np.zeros(fill)), dtype))
        return e.op("Concat", rows, f"{name}.joined", axis=0) if len(rows) > 1 else rows[0]

    def _separated(self, e: Emitter, whole: str) -> dict[str, str]:
        """The weights out of the vector."""
        sizes = [prod(shape) for shape in self.weights.values()]
        names = [f"{name}.slice" for name in self.weights]
        fill = self.padded - sum(sizes)
        if fill:
            sizes, names = [*sizes, fill], [*names, "weights.rest"]
        if len(sizes) > 1:
            e.ops("Split", [whole], names, "weights.split", axis=0, split=sizes)
        else:
            names = [whole]
        return {
            name: e.reshaped(row, shape, f"{name}.new") if e.shape(row) != tuple(shape) else row
            for (name, shape), row in zip(self.weights.items(), names, strict=False)
        }

    def _moved(self, grads: Mapping[str, str]) -> dict[str, str]:
        """Weight -> its new value; writes the states of the optimiser too."""
        e = self.e
        grads = {name: e.cast(grad, "fp32") for name, grad in grads.items()}
        old = {name: e.input(f"{STATE}{name}", ()) for name in self.rule.scalars}
        scalars = self.rule.advance(e, old)
        _keep(e, {old[name]: e.cast(tensor, "fp32") for name, tensor in scalars.items()})
        moved = {}
        for name, grad in grads.items():
            shape = e.shape(name)
            slots = {slot: e.input(f"{STATE}{name}.{slot}", shape, self.master) for slot in self.rule.slots}
            wide = {slot: e.cast(tensor, "fp32") for slot, tensor in slots.items()}
            weight = e.cast(name, "fp32", f"{name}.wide")
            new = self.rule.update(e, weight, grad, self.lr, wide, scalars)
            moved[name] = e.cast(new.pop(""), self.master)
            _keep(e, {slots[slot]: e.cast(tensor, self.master) for slot, tensor in new.items()})
        return moved


def _keep(e: Emitter, states: Mapping[str, str]) -> None:
    """Note state -> its new value, an output."""
    e.graph.states.update(states)
    e.graph.outputs.extend(states.values())
