"""One training step as an ordinary graph: what goes in are data and states, what comes out are the new states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from accelsim.errors import ModelError, Problem, UsageError, nearest
from accelsim.types import Array
from accelsim.workload.gradient.backward import backward
from accelsim.workload.graph import Graph
from accelsim.workload.ops.values import contain
from accelsim.workload.training.emit import Emitter
from accelsim.workload.training.fake import QuantConfig, Wrapped
from accelsim.workload.training.forward import Forward, logits_of, trainable
from accelsim.workload.training.optimisers import SGD, Adam
from accelsim.workload.training.precision import Precision, precision_of

LABELS, RATE, SCALE, LOSS, FOUND = "labels", "lr", "loss_scale", "loss", "found_inf"
"""Names of the inputs and outputs that every training step has (``loss_scale`` and ``found_inf``: if scaled)."""

LARGEST = float(np.finfo(np.float32).max)
FLOOR = 1e-6
"""A learnt scale never becomes smaller: at 0 it could not grow again."""


@dataclass(frozen=True)
class TrainingGraph:
    """A training step. ``graph.states`` maps each state (an input) to the output that is its next value.

    Inputs besides the states: those of the model, ``labels`` (one-hot, [batch, classes]), ``lr`` and, if ``scaled``,
    ``loss_scale``. Outputs: ``loss`` (fp32, not multiplied by the scale), ``logits``, ``found_inf`` (1.0 if a gradient
    was not finite and nothing was updated; '' if not scaled) and the new states. ``start`` holds the values of the
    states before the first step, ``weights`` the names of the learnt tensors of the model, ``wrapped`` what is
    fake-quantised (tensor of the model -> how).
    """

    graph: Graph
    model: Graph
    weights: tuple[str, ...]
    logits: str
    found_inf: str
    precision: Precision
    start: dict[str, Array]
    wrapped: dict[str, Wrapped] = field(default_factory=dict)

    @property
    def scaled(self) -> bool:
        """Return whether a loss scale goes in and gradients are checked."""
        return bool(self.found_inf)


def training_graph(
    graph: Graph,
    *,
    loss: str = "cross_entropy",
    optimiser: SGD | Adam | None = None,
    precision: str = "fp32",
    scaled: bool | None = None,
    fake_quant: QuantConfig | None = None,
    scales: Mapping[str, Array] | None = None,
    masks: Mapping[str, Array] | None = None,
) -> TrainingGraph:
    """The step that trains ``graph`` (an inference graph of one output, [batch, classes]).

    ``loss``: 'cross_entropy', the mean over the batch of -sum(labels * LogSoftmax(logits)); a softmax at the end of the
    model is left out, the loss takes its own. ``optimiser``: ``SGD()`` or ``Adam()``. ``precision``: a key of
    ``PRECISIONS``; ``scaled`` None asks it whether gradients need a loss scale. ``fake_quant``: weights and the inputs
    of matrix ops are quantised and dequantised again on the way forward, with learnt scales that start at ``scales``
    (tensor -> values; default: from the weights, and 1 for activations). ``masks``: weight -> 0 and 1 of its shape;
    what is 0 stays 0. Raises UsageError and ModelError, all problems of one kind at once.
    """
    policy, rule = precision_of(precision), optimiser or SGD()
    _check(graph, loss, masks or {})
    e = Emitter(f"{graph.name}-training")
    e.graph.opset, e.graph.values_from = graph.opset, graph.values_from
    logits, weights = logits_of(graph), trainable(graph)
    forward = Forward(e, graph, policy, fake_quant)
    scores = forward.write(logits)
    lr = e.input(RATE, ())
    mean = _cross_entropy(e, scores)
    is_scaled = policy.scaled if scaled is None else scaled
    learnt = [*weights, *(item.scale for item in forward.wrapped.values() if item.learnt)]
    seed = e.input(SCALE, ()) if is_scaled else ""
    found = backward(e.graph, mean, learnt, seed)
    step = _Update(e, graph, policy, rule, lr, is_scaled, masks or {})
    step.write({name: found[name] for name in learnt}, set(weights))
    start = _start(graph, policy, forward.wrapped, scales or {}, step)
    for name in (mean, scores, *([FOUND] if is_scaled else [])):
        e.graph.outputs.append(name)
    e.graph.outputs += e.graph.states.values()
    e.graph.trains = True
    return TrainingGraph(
        e.graph, graph, tuple(weights), scores, FOUND if is_scaled else "", policy, start, forward.wrapped
    )


def _cross_entropy(e: Emitter, scores: str) -> str:
    """-sum(labels * LogSoftmax(scores)) / batch, a scalar."""
    batch, classes = e.shape(scores)
    labels = e.input(LABELS, (batch, classes))
    chosen = e.pair("Mul", labels, e.op("LogSoftmax", [scores], "loss.log_softmax", axis=1), "loss.chosen")
    total = e.op("ReduceSum", [chosen], "loss.sum", axes=[0, 1], keepdims=0)
    return e.pair("Div", total, e.number(-batch), LOSS)


@dataclass
class _Update:
    """Writes the update of every learnt tensor; ``starts`` collects the states that begin at 0."""

    e: Emitter
    model: Graph
    precision: Precision
    rule: SGD | Adam
    lr: str
    scaled: bool
    masks: Mapping[str, Array]
    starts: dict[str, Array] = field(default_factory=dict)

    def write(self, grads: Mapping[str, str], weights: set[str]) -> None:
        """New values of everything that has a gradient; ``weights`` are those that have the master format."""
        grads = {name: self.e.cast(grad, "fp32") for name, grad in grads.items()}
        finite = ""
        if self.scaled:
            inverse = self.e.op("Reciprocal", [SCALE], "loss_scale.inverse")
            grads = {name: self.e.pair("Mul", grad, inverse, f"{name}.unscaled") for name, grad in grads.items()}
            finite = self._finite(grads)
        old = {name: self._state(f"adam.{name}", (), "fp32") for name in self.rule.scalars}
        scalars = self.rule.advance(self.e, old)
        for name, tensor in scalars.items():
            self._keep(old[name], tensor, finite)
        for name, grad in grads.items():
            self._one(name, grad, scalars, finite, self.precision.master if name in weights else "fp32")

    def _one(self, name: str, grad: str, scalars: Mapping[str, str], finite: str, dtype: str) -> None:
        e, shape = self.e, self.e.shape(name)
        slots = {slot: self._state(f"{name}.{slot}", shape, dtype) for slot in self.rule.slots}
        wide = {slot: e.cast(tensor, "fp32") for slot, tensor in slots.items()}
        new = self.rule.update(e, e.cast(name, "fp32", f"{name}.wide"), grad, self.lr, wide, scalars)
        moved = new.pop("")
        if name in self.masks:
            mask = e.constant(f"{name}.mask", np.asarray(self.masks[name], np.float32))
            moved = e.pair("Mul", moved, mask, f"{name}.masked")
        if name not in self.model.tensors:
            moved = e.pair("Max", moved, e.number(FLOOR), f"{name}.floored")
        self._keep(name, moved, finite)
        for slot, tensor in new.items():
            self._keep(slots[slot], tensor, finite)

    def _state(self, name: str, shape: tuple[int, ...], dtype: str) -> str:
        self.starts[name] = contain(np.zeros(shape, np.float32), dtype)
        return self.e.input(name, shape, dtype)

    def _keep(self, state: str, new: str, finite: str) -> None:
        """The next value of ``state``: ``new`` in its format, or the old one when a gradient was not finite."""
        e, dtype = self.e, self.e.graph.tensors[state].dtype
        new = e.cast(new, dtype)
        if finite:
            new = e.op("Where", [finite, new, state], f"{state}.next")
        e.graph.states[state] = new

    def _finite(self, grads: Mapping[str, str]) -> str:
        """A truth value: no gradient is infinite or NaN (the largest magnitude is a number of the format)."""
        e, tops = self.e, []
        for name, grad in grads.items():
            size = e.op("Abs", [grad], f"{name}.magnitude")
            tops.append(
                e.op("ReduceMax", [size], f"{name}.top", axes=[*range(len(e.shape(grad)))], keepdims=0)
                if e.shape(grad)
                else size
            )
        top = e.op("Max", tops, "gradients.top")
        finite = e.pair("LessOrEqual", top, e.number(LARGEST), "gradients.finite")
        e.op("Cast", [e.op("Not", [finite], "gradients.not_finite")], FOUND, to="fp32")
        return finite


def _start(
    model: Graph, policy: Precision, wrapped: Mapping[str, Wrapped], scales: Mapping[str, Array], step: _Update
) -> dict[str, Array]:
    """Values of all states before the first step."""
    values = {}
    for name in trainable(model):
        weight = np.asarray(model.tensors[name].value(), np.float32)
        kept = weight * np.asarray(step.masks[name], np.float32) if name in step.masks else weight
        values[name] = contain(kept, policy.master)
    for name, item in wrapped.items():
        if item.learnt:
            given = scales.get(name, item.start(values[name]) if name in values else np.float32(1))
            shape = step.e.shape(item.scale)
            values[item.scale] = np.broadcast_to(np.asarray(given, np.float32), shape).copy()
    return {**values, **step.starts}


def _check(graph: Graph, loss: str, masks: Mapping[str, Array]) -> None:
    problems = []
    if loss not in LOSSES:
        expected = "one of " + ", ".join(LOSSES)
        problems.append(Problem(f"no loss {loss!r}", "", expected, nearest(loss, LOSSES)))
    learnt = trainable(graph)
    for name, mask in masks.items():
        if name not in learnt:
            problems.append(Problem(f"mask of {name!r}", graph.name, "a weight", nearest(name, learnt)))
        elif np.shape(mask) != graph.tensors[name].shape:
            want = str(list(graph.tensors[name].shape))
            problems.append(Problem(f"mask of {name!r} has shape {list(np.shape(mask))}", graph.name, want))
    UsageError.raise_for(problems)
    taken = {LABELS, RATE, SCALE, LOSS, FOUND} & set(graph.tensors)
    if not learnt or taken:
        what = f"tensors named {', '.join(sorted(taken))}" if taken else "no weight that could be trained"
        raise ModelError(what, graph.name, "other names" if taken else "learnt constants")


LOSSES = ("cross_entropy",)
"""Losses by name."""
