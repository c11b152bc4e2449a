"""Canonical forms of RNN, GRU and LSTM: unrolled, with the products of all inputs in one matrix product in front.

ONNX operators RNN, GRU, LSTM (opset 14). Gates keep the order of ONNX: LSTM i o f c, GRU z r h. The reference
implementation on the host ignores lengths, clipping and activations, so nothing here falls back to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from accelsim.errors import ModelError
from accelsim.types import Array
from accelsim.workload.graph import Attributes, Node
from accelsim.workload.onnx.canonical.build import Chain
from accelsim.workload.onnx.canonical.rules import Scope, optional, rule
from accelsim.workload.onnx.importing.read import RawNode
from accelsim.workload.ops.values import CONTAINERS

MAX_STEPS = 4096
"""Longest sequence that is unrolled."""

_MATMUL: Attributes = {"a_zero_point": 0, "b_zero_point": 0}
_ACTIVATIONS: dict[str, tuple[str, dict[str, float]]] = {
    "tanh": ("Tanh", {}), "sigmoid": ("Sigmoid", {}), "relu": ("Relu", {}), "softsign": ("Softsign", {}),
    "softplus": ("Softplus", {}), "leakyrelu": ("LeakyRelu", {"alpha": 0.01}), "elu": ("Elu", {"alpha": 1.0}),
    "hardsigmoid": ("HardSigmoid", {"alpha": 0.2, "beta": 0.5}), "affine": ("", {"alpha": 1.0, "beta": 0.0}),
}  # fmt: skip
"""Name of an activation in lower case -> op ('': multiply and add), parameters with their defaults."""


@dataclass
class Cell:
    """One direction of a layer: names of its constants and what a step needs to know."""

    chain: Chain
    hidden: int
    dtype: str
    clip: float
    activations: list[Callable[[str], str]]
    recurrent: str  # R transposed [H, G*H]
    bias: str  # of the recurrent product of the GRU's candidate [H], '' where it was added already
    peepholes: list[str]
    linear: bool
    coupled: bool

    def matmul(self, a: str, b: str) -> str:
        """Multiply two matrices."""
        return self.chain.add("MatMul", a, b, **_MATMUL)

    def gates(self, total: str, count: int) -> list[str]:
        """The sum before the activations, in parts of one gate each."""
        sizes = [self.hidden] * count
        return self.chain.split("Split", total, to=[""] * count, axis=1, split=sizes) if count > 1 else [total]

    def act(self, index: int, name: str) -> str:
        """Activation ``index`` (f, g, h) of ``name``, which is clipped before."""
        if self.clip:
            name = self.chain.add("Clip", name, min=-self.clip, max=self.clip)
        return self.activations[index](name)

    def one_minus(self, name: str) -> str:
        """Subtract the tensor ``name`` from 1."""
        return self.chain.add("Sub", self.number(1.0), name)

    def number(self, value: float) -> str:
        """Add a number as a constant in the format of the layer."""
        return self.chain.constant(np.asarray(value, CONTAINERS[self.dtype]), self.dtype)


State = list[str]
"""Names of H and, for the LSTM, C: [batch, hidden]."""


def _rnn(cell: Cell, part: str, state: State) -> State:
    return [cell.act(0, cell.chain.add("Add", part, cell.matmul(state[0], cell.recurrent)))]


def _gru(cell: Cell, part: str, state: State) -> State:
    add, hidden = cell.chain.add, cell.hidden
    (h,) = state
    zr, candidate = cell.chain.split("Split", part, to=["", ""], axis=1, split=[2 * hidden, hidden])
    if cell.linear:
        both = cell.matmul(h, cell.recurrent)
        own, turned = cell.chain.split("Split", both, to=["", ""], axis=1, split=[2 * hidden, hidden])
        z, r = (cell.act(0, gate) for gate in cell.gates(add("Add", zr, own), 2))
        inner = add("Mul", r, add("Add", turned, cell.bias) if cell.bias else turned)
    else:
        first, last = cell.chain.split("Split", cell.recurrent, to=["", ""], axis=1, split=[2 * hidden, hidden])
        z, r = (cell.act(0, gate) for gate in cell.gates(add("Add", zr, cell.matmul(h, first)), 2))
        inner = cell.matmul(add("Mul", r, h), last)
        inner = add("Add", inner, cell.bias) if cell.bias else inner
    new = cell.act(1, add("Add", candidate, inner))
    return [add("Add", add("Mul", cell.one_minus(z), new), add("Mul", z, h))]


def _lstm(cell: Cell, part: str, state: State) -> State:
    add = cell.chain.add
    h, c = state
    i, o, f, new = cell.gates(add("Add", part, cell.matmul(h, cell.recurrent)), 4)
    if cell.peepholes:
        i, f = (add("Add", gate, add("Mul", cell.peepholes[at], c)) for gate, at in ((i, 0), (f, 2)))
    i = cell.act(0, i)
    f = cell.one_minus(i) if cell.coupled else cell.act(0, f)
    c = add("Add", add("Mul", f, c), add("Mul", i, cell.act(1, new)))
    if cell.peepholes:
        o = add("Add", o, add("Mul", cell.peepholes[1], c))
    return [add("Mul", cell.act(0, o), cell.activations[2](c)), c]


_CELLS: dict[str, tuple[int, list[str], Callable[[Cell, str, State], State]]] = {
    "RNN": (1, ["Tanh"], _rnn),
    "GRU": (3, ["Sigmoid", "Tanh"], _gru),
    "LSTM": (4, ["Sigmoid", "Tanh", "Tanh"], _lstm),
}
"""Op -> gates, default activations, one step."""


@rule("RNN", "GRU", "LSTM")
def recurrent(raw: RawNode, scope: Scope) -> list[Node]:
    """Unroll a recurrent node: all steps in all directions; lengths must be constants."""
    layer = _Layer(raw, scope)
    results = [layer.run(direction) for direction in range(layer.directions)]
    layer.join(results)
    return layer.chain.nodes


class _Layer:
    """Parts that the directions of one node share."""

    def __init__(self, raw: RawNode, scope: Scope) -> None:
        self.raw, self.scope, self.chain = raw, scope, Chain(raw, scope)
        self.count, self.default, self.step = _CELLS[raw.op]
        self.directions, _, self.hidden = scope.shape(raw.inputs[2])
        self.dtype = scope.tensors[raw.inputs[0]].dtype
        self.batch_first = bool(raw.attrs.get("layout", 0))
        steps, batch, _ = scope.shape(raw.inputs[0])
        self.steps, self.batch = (batch, steps) if self.batch_first else (steps, batch)
        self.x = self._time_first(raw.inputs[0])
        self.lengths = self._lengths()
        both = raw.attrs.get("direction", "forward") == "bidirectional"
        if self.directions != 1 + both:
            what = f"{raw.op} with weights of {self.directions} directions"
            raise ModelError(what, raw.name, "2, of a bidirectional one" if both else "1")
        if not 0 < self.steps <= MAX_STEPS:
            raise ModelError(f"{raw.op} over {self.steps} steps", raw.name, f"1 to {MAX_STEPS}")

    def _time_first(self, name: str) -> str:
        return self.chain.add("Transpose", name, perm=[1, 0, 2]) if self.batch_first else name

    def _lengths(self) -> Array | None:
        name = optional(self.raw, 4)
        if not name:
            return None
        lengths = self.scope.constant(name)
        if lengths is None:
            raise ModelError(f"the sequence lengths of {self.raw.op} are values", self.raw.name, "constants")
        return None if (lengths == self.steps).all() else lengths

    def _of(self, index: int, direction: int) -> str:
        """Return what input ``index`` has for one direction; '' when the input is absent."""
        name = optional(self.raw, index)
        if not name:
            return ""
        shape = list(self.scope.shape(name)[1:])
        if self.directions > 1:
            cut: Attributes = {"starts": [direction], "ends": [direction + 1], "axes": [0], "steps": [1]}
            name = self.chain.add("Slice", name, **cut)
        return self.chain.add("Reshape", name, shape=shape)

    def _cell(self, direction: int) -> tuple[Cell, str]:
        """The cell of a direction and the products of all its inputs [steps, batch, gates * hidden]."""
        add, hidden, linear = self.chain.add, self.hidden, bool(self.raw.attrs.get("linear_before_reset", 0))
        weights = add("Transpose", self._of(1, direction), perm=[1, 0])
        products = add("MatMul", self.x, weights, **_MATMUL)
        inner, both = "", self._of(3, direction)
        if both:
            size = self.count * hidden
            own, other = self.chain.split("Split", both, to=["", ""], axis=0, split=[size, size])
            if self.raw.op == "GRU" and linear:
                first, inner = self.chain.split("Split", other, to=["", ""], axis=0, split=[2 * hidden, hidden])
                none = self.chain.zeros(hidden)
                other = add("Concat", first, none, axis=0)
            products = add("Add", products, add("Add", own, other))
        holes = self._of(7, direction) if self.raw.op == "LSTM" else ""
        peepholes = self.chain.split("Split", holes, to=[""] * 3, axis=0, split=[hidden] * 3) if holes else []
        turned = add("Transpose", self._of(2, direction), perm=[1, 0])
        clip = float(self.raw.attrs.get("clip", 0.0))
        coupled = bool(self.raw.attrs.get("input_forget", 0))
        acts = list(self._activations(direction))
        return Cell(self.chain, hidden, self.dtype, clip, acts, turned, inner, peepholes, linear, coupled), products

    def _activations(self, direction: int) -> Iterator[Callable[[str], str]]:
        """f, g, h of one direction; alphas and betas go to the activations that have them, in order."""
        attrs, each = self.raw.attrs, len(self.default)
        names = [str(name).lower() for name in attrs.get("activations") or self.default * self.directions]
        unknown = [name for name in names if name not in _ACTIVATIONS]
        if unknown:
            raise ModelError(f"activation {unknown[0]!r} of {self.raw.op}", self.raw.name, ", ".join(_ACTIVATIONS))
        given = {key: list(attrs.get(f"activation_{key}") or []) for key in ("alpha", "beta")}
        for index, name in enumerate(names):
            op, defaults = _ACTIVATIONS[name]
            values = {key: given[key].pop(0) if given[key] else value for key, value in defaults.items()}
            if index // each == direction:
                yield self._function(op, values)

    def _function(self, op: str, values: Attributes) -> Callable[[str], str]:
        def apply(name: str) -> str:
            if op:
                return self.chain.add(op, name, **values)
            kind = CONTAINERS[self.dtype]
            scale, shift = (self.chain.constant(np.asarray(values[key], kind), self.dtype) for key in ("alpha", "beta"))
            return self.chain.add("Add", self.chain.add("Mul", name, scale), shift)

        return apply

    def _start(self, index: int, direction: int) -> str:
        name = optional(self.raw, index)
        shape = (self.batch, self.hidden)
        if not name:
            return self.chain.zeros(*shape)
        if self.directions == 1:
            return self.chain.add("Reshape", name, shape=list(shape))
        axis = 1 if self.batch_first else 0
        cut: Attributes = {"starts": [direction], "ends": [direction + 1], "axes": [axis], "steps": [1]}
        return self.chain.add("Reshape", self.chain.add("Slice", name, **cut), shape=list(shape))

    def run(self, direction: int) -> tuple[list[str], State]:
        """H after every step, in the order of time, and the last state."""
        cell, products = self._cell(direction)
        parts = self.chain.split("Split", products, to=[""] * self.steps, axis=0, split=[1] * self.steps)
        state = [self._start(5, direction)] + ([self._start(6, direction)] if self.raw.op == "LSTM" else [])
        backwards = direction == 1 or self.raw.attrs.get("direction", "forward") == "reverse"
        outputs = [""] * self.steps
        for step in reversed(range(self.steps)) if backwards else range(self.steps):
            part = self.chain.add("Reshape", parts[step], shape=[self.batch, self.count * self.hidden])
            outputs[step], state = self._masked(step, self.step(cell, part, state), state, cell)
        return outputs, state

    def _masked(self, step: int, new: State, old: State, cell: Cell) -> tuple[str, State]:
        """Sequences that are shorter keep their state and give 0."""
        if self.lengths is None or (self.lengths > step).all():
            return new[0], new
        runs = self.chain.constant((self.lengths > step).reshape(-1, 1), "bool")
        kept = [self.chain.add("Where", runs, a, b) for a, b in zip(new, old, strict=True)]
        return self.chain.add("Where", runs, new[0], cell.number(0.0)), kept

    def join(self, results: list[tuple[list[str], State]]) -> None:
        """The outputs of the node that somebody named: Y [steps, directions, batch, hidden], Y_h and Y_c."""
        names = [*self.raw.outputs, "", "", ""]
        rows = [[step for outputs, _ in results for step in (outputs[index],)] for index in range(self.steps)]
        if names[0]:
            flat = self._stack([name for row in rows for name in row])
            y = self.chain.add("Reshape", flat, shape=[self.steps, self.directions, self.batch, self.hidden])
            perm = [2, 0, 1, 3] if self.batch_first else [0, 1, 2, 3]
            self.chain.add("Transpose", y, to=names[0], perm=perm)
        for index, name in enumerate(names[1:3]):
            if name:
                last = self._stack([state[index] for _, state in results])
                perm = [1, 0, 2] if self.batch_first else [0, 1, 2]
                self.chain.add("Transpose", last, to=name, perm=perm)

    def _stack(self, parts: list[str]) -> str:
        grown = [self.chain.add("Unsqueeze", part, axes=[0]) for part in parts]
        return self.chain.add("Concat", *grown, axis=0)
