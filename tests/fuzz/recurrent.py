"""Random ONNX models of steps that repeat: LSTM, GRU, RNN, Loop, Scan and If, unrolled to as many steps as are drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx

from accelsim.workload.graph import Graph
from tests.helpers.onnx_models import import_proto

from .corpus import INT, graph, info, model, node

MOST_STEPS = 13
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
ELEMENTWISE = ("Add", "Mul", "Sub", "Max")


class RecurrentModel:
    """Draws one model from ``seed``."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.steps = int(self.rng.integers(1, MOST_STEPS + 1))

    def pick(self, values: Sequence[Any]) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def weight(self, *shape: int) -> np.ndarray:
        return self.rng.standard_normal(shape).astype(np.float32)

    def build(self) -> onnx.ModelProto:
        return self.pick((self.cell, self.cell, self.loop, self.loop, self.scan, self.branch))()

    def cell(self) -> onnx.ModelProto:
        """A recurrent layer in either or both directions."""
        op, hidden, inputs, batch = self.pick(list(GATES)), *(self.pick([1, 2, 3, 5]) for _ in range(3))
        direction = self.pick(["forward", "reverse", "bidirectional"])
        ways, rows = 1 + (direction == "bidirectional"), GATES[op] * hidden
        attrs = {"hidden_size": hidden, "direction": direction}
        if op == "GRU":
            attrs["linear_before_reset"] = self.pick([0, 1])
        bias = {"b": self.weight(ways, 2 * rows)} if self.pick([True, False]) else {}
        names, outputs = f"x w r {'b' if bias else ''}", self.pick(["y", "y h", "_ h"])
        return model(
            [node(op, names, outputs, **attrs)], [info("x", [self.steps, batch, inputs])],
            outputs.replace("_", "").strip(), w=self.weight(ways, rows, inputs), r=self.weight(ways, rows, hidden), **bias,
        )  # fmt: skip

    def body(self, value: str, extent: int) -> tuple[list[onnx.NodeProto], dict[str, np.ndarray]]:
        """Nodes from ``value`` to 'next' and 'out', and their constants."""
        constants = {"w": self.weight(extent)}
        nodes = [node(self.pick(ELEMENTWISE), f"{value} w", "a")]
        if self.pick([True, False]):
            constants["k"] = self.weight(extent, extent) / extent
            nodes.append(node("MatMul", "a k", "p"))
        nodes += [node("Tanh", nodes[-1].output[0], "next"), node(self.pick(["Relu", "Neg"]), "next", "out")]
        return nodes, constants

    def loop(self) -> onnx.ModelProto:
        """A state through so many iterations, each of which leaves a row."""
        extent = self.pick([1, 3, 6])
        nodes, constants = self.body("v", extent)
        inner = graph([node("Identity", "go", "going"), *nodes], [info("n", [], INT), info("go", [], 9), info("v", None)],
                      [info("going", [], 9), info("next", None), info("out", None)], {})  # fmt: skip
        return model([node("Loop", "m c x", "z y", body=inner)], [info("x", [2, extent])], "z y",
                     m=np.int64(self.steps), c=np.array(True), **constants)  # fmt: skip

    def scan(self) -> onnx.ModelProto:
        """A state past the rows of a tensor."""
        extent = self.pick([1, 3, 6])
        nodes, constants = self.body("u", extent)
        inner = graph([node("Add", "s e", "u"), *nodes], [info("s", [1, extent]), info("e", [1, extent])],
                      [info("next", [1, extent]), info("out", [1, extent])], {})  # fmt: skip
        return model([node("Scan", "i x", "z y", body=inner, num_scan_inputs=1)], [info("x", [self.steps, 1, extent])],
                     "z y", i=self.weight(1, extent), **constants)  # fmt: skip

    def branch(self) -> onnx.ModelProto:
        """One of two bodies, by a constant."""
        extent, ways = self.pick([1, 3, 6]), []
        constants: dict[str, np.ndarray] = {}
        for way in ("yes", "no"):
            nodes, own = self.body("x", extent)
            constants |= {f"{way}_{name}": values for name, values in own.items()}
            for each in nodes:
                each.input[:] = [f"{way}_{name}" if name in own else name for name in each.input]
            ways.append(graph(nodes, [], [info("out", None)], {}))
        return model([node("If", "c", "y", then_branch=ways[0], else_branch=ways[1])], [info("x", [2, extent])],
                     c=np.array(self.pick([True, False])), **constants)  # fmt: skip


def recurrent_graph(seed: int) -> Graph:
    """A graph of a model that is valid by construction."""
    build: Callable[[], onnx.ModelProto] = RecurrentModel(seed).build
    return import_proto(build())
