"""Small graphs, chips and comparisons shared by the tests of the graph-level passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from accelsim.compiler.graph.absorb_batch_norm import absorb_batch_norm
from accelsim.compiler.graph.fuse import fuse
from accelsim.compiler.graph.legalise import legalise
from accelsim.compiler.graph.place import place
from accelsim.compiler.graph.turn import turn
from accelsim.compiler.numbers.quantise import quantise
from accelsim.compiler.numbers.ranges import synthetic
from accelsim.compiler.state import Options, State
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.load import load_chip
from accelsim.workload import execute
from accelsim.workload.graph import Array, Graph
from accelsim.workload.zoo.build import Builder

PASSES: dict[str, Callable[[State], None]] = {
    "legalise": legalise,
    "absorb_batch_norm": absorb_batch_norm,
    "place": place,
    "turn": turn,
    "fuse": fuse,
    "quantise": quantise,
}


class Graphs(Builder):
    """The zoo's builder with random weights; variances are positive."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__("small")
        self.rng = np.random.default_rng(seed)

    def weight(self, name: str, shape: Sequence[int]) -> str:
        values = self.rng.standard_normal(tuple(shape)).astype(np.float32)
        return self.constant(name, np.abs(values) + 0.5 if name.endswith(".var") else values)

    def gemm_node(self, a: str, b: str, c: str | None, name: str, **attrs: Any) -> str:
        given = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0, "a_zero_point": 0, "b_zero_point": 0, **attrs}
        return self.op("Gemm", [a, b] if c is None else [a, b, c], name, **(given | attrs))


def residual_block(seed: int = 0, pool: bool = False) -> Graph:
    """conv-bn-relu, conv-bn, a projection conv-bn, their sum, relu (and a max pool)."""
    g = Graphs(seed)
    x = g.input("x", (1, 4, 8, 8))
    left = g.op("Relu", [g.batch_norm(g.conv(x, 6, 3, "c1", pad=1), "n1")], "r1")
    left = g.batch_norm(g.conv(left, 8, 3, "c2", pad=1), "n2")
    right = g.batch_norm(g.conv(x, 8, 1, "c3", bias=0), "n3")
    y = g.op("Relu", [g.op("Sum", [left, right], "sum")], "y")
    return g.finish(g.max_pool(y, 2, "pooled") if pool else y)


@cache
def chip(name: str) -> Chip:
    return load_chip(name)


def vector_without(base: Chip, *functions: str) -> Chip:
    assert base.vector is not None
    left = {name: clocks for name, clocks in base.vector.functions.items() if name not in functions}
    return base.with_engine(base.vector.model_copy(update={"functions": left}))


def state_of(graph: Graph, chip_name: str | Chip = "edu-4x4", dtype: str = "fp32", **options: Any) -> State:
    return State(graph, chip(chip_name) if isinstance(chip_name, str) else chip_name, Options(**options), dtype)


def compiled(
    graph: Graph, chip_name: str | Chip = "edu-4x4", dtype: str = "fp32", upto: str = "quantise", **options: Any
) -> State:
    """The state after the passes up to and including ``upto``."""
    state = state_of(graph, chip_name, dtype, **options)
    for name, run in PASSES.items():
        run(state)
        if name == upto:
            break
    return state


def outputs(graph: Graph, seed: int = 1) -> dict[str, Array]:
    return execute.run(graph, synthetic(graph, seed))


def assert_same_values(before: Graph, after: Graph, tolerance: float = 1e-5) -> None:
    """Every output equal, relative to its largest element."""
    old, new = outputs(before), outputs(after)
    assert list(old) == list(new)
    for name, values in old.items():
        scale = np.max(np.abs(values)) or 1.0
        np.testing.assert_allclose(new[name] / scale, values / scale, rtol=0, atol=tolerance)


def sqnr_dB(exact: Array, other: Array) -> float:
    """Signal to quantisation noise ratio, dB."""
    signal = np.sum(np.square(exact, dtype=np.float64))
    noise = np.sum(np.square(exact.astype(np.float64) - other))
    return float(10 * np.log10(signal / max(noise, 1e-300)))


def structure(graph: Graph) -> list[Any]:
    """Everything of a graph but its numbers."""
    tensors = [
        (t.name, t.shape, t.dtype, t.is_constant, None if t.quant is None else (np.shape(t.quant.scale), t.quant.axis))
        for t in graph.tensors.values()
    ]
    parts = [
        (
            node.name,
            node.engine,
            node.note,
            part.name,
            part.op,
            part.inputs,
            part.outputs,
            part.engine,
            sorted(part.attrs),
        )
        for node in graph.nodes
        for part in (node, *node.epilogue)
    ]
    return [tensors, parts, graph.inputs, graph.outputs]
