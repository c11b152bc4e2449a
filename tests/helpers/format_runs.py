"""Small networks, and the whole path from one of them to a run that was checked."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from accelsim.compiler.numbers.ranges import synthetic
from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.explore.against_reference import Verdict, check_run
from accelsim.machine.check import check
from accelsim.machine.run import Run
from accelsim.machine.simulate import simulate
from accelsim.program.program import Program
from accelsim.spec.chip import Chip
from accelsim.workload import execute
from accelsim.workload.graph import Array, Graph, Node
from accelsim.workload.sources.load import load_model
from tests.helpers.pass_graphs import Graphs, chip, residual_block


def attention() -> Graph:
    """softmax(x x^T) x, a residual and a product with weights: what a transformer is made of."""
    g = Graphs(3)
    x = g.input("x", (2, 6, 8))
    scores = g.matmul(x, g.op("Transpose", [x], "t", perm=[0, 2, 1]), "scores")
    mixed = g.matmul(g.op("Softmax", [scores], "shares", axis=2), x, "mixed")
    return g.finish(g.matmul(g.op("Add", [mixed, x], "sum"), g.weight("w", (8, 5)), "y"))


NETS: dict[str, Callable[[], Graph]] = {
    "mlp": lambda: load_model("mlp?hidden=12", weights="random:0"),
    "cnn": lambda: load_model("cnn", weights="random:0"),
    "block": lambda: residual_block(pool=True),
    "attention": attention,
}


@cache
def net(name: str) -> Graph:
    return NETS[name]()


class Ran(NamedTuple):
    """A compiled network and its run."""

    program: Program
    run: Run
    verdict: Verdict


def ran(graph: Graph, on: str | Chip, feeds: dict[str, Array] | None = None, **options: Any) -> Ran:
    """Compile for a chip, run exactly, check; ranges are those of what is run unless ``ranges_from`` says otherwise."""
    target = chip(on) if isinstance(on, str) else on
    feeds = synthetic(graph, 1) if feeds is None else feeds
    program = compile(graph.copy(), target, Options(**{"ranges_from": feeds, **options}))
    run = simulate(program, feeds, "exact", keep=True)
    check(run, thorough=True)
    return Ran(program, run, check_run(run, graph))


def output(run: Run) -> Array:
    return next(iter(run.outputs.values()))


def real(graph: Graph, feeds: dict[str, Array]) -> Array:
    return next(iter(execute.run(graph, feeds).values()))


def matrix_nodes(program: Program) -> list[Node]:
    return [node for node in program.graph.nodes if node.engine == "matrix"]


def scales(program: Program) -> list[Array]:
    """Every scale and multiplier of a compiled graph."""
    graph = program.graph
    found = [tensor.quant.scale for tensor in graph.tensors.values() if tensor.quant is not None]
    parts = [part for node in graph.nodes for part in (node, *node.epilogue)]
    return found + [part.attrs[key] for part in parts for key in ("scale", "multiplier") if key in part.attrs]


def assert_usable(program: Program) -> None:
    for scale in scales(program):
        assert np.all(np.isfinite(scale)) and np.all(np.asarray(scale) > 0)
