"""Products alone on small arrays, each made from a number: how far the closed form of their mapping is below the machine.

``python -m tests.helpers.estimate_cases > tests/golden/estimates/gaps.csv`` writes the table anew: do so where the
estimate has come nearer to the machine, and never to let it be further away.
"""

from __future__ import annotations

import csv
import sys
from contextlib import suppress
from random import Random
from typing import Any, NamedTuple

from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.errors import AccelsimError
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.graph import Graph
from tests.helpers.estimates import choice_of, clocks
from tests.helpers.law_cases import Case, RandomGraph, with_float

MEMORIES = {"edu-4x4": "dram", "systolic-generic": "dram", "tpu-v1": "ddr3"}
"""Chips to start from and the memory of their weights."""
NUMBERS, EACH = 600, 5
"""Cases that are tried for the table, and how many of them are kept of those in which the same path binds."""


class Gap(NamedTuple):
    """A case by its number, what binds in the estimate, and by how many clocks of the array the machine takes longer."""

    number: int
    binds: str
    clocks: float


def case(number: int) -> Case:
    """One product in float, perhaps with something fused behind it, on an odd chip and with an odd mapping.

    Raises AccelsimError where chip and mapping do not go together.
    """
    rng = Random(number)
    chip_name = rng.choice(sorted(MEMORIES))
    chip = with_float(load_chip(chip_name, _sets(rng, MEMORIES[chip_name])))
    graph = _graph(rng)
    product = next(node.name for node in graph.nodes if node.op in ("Conv", "MatMul", "Gemm"))
    options: dict[str, Any] = {"pinned": {product: _mapping(rng)}}
    program = compile(graph, chip, Options(dtype="fp32", values="off", **options))
    return Case(graph, chip, program, {}, options)


def _sets(rng: Random, memory: str) -> list[str]:
    rows, cols = rng.choice([2, 4, 8]), rng.choice([2, 4, 8])
    return [
        f"matrix.rows={rows}", f"matrix.cols={cols}", f"matrix.count={rng.choice([1, 1, 1, 2])}",
        f"matrix.dataflow={rng.choice(['ws', 'ws', 'os'])}",
        f"matrix.schedule={rng.choice(['overlapped', 'overlapped', 'sequential'])}",
        f"vector.lanes={rng.choice([1, 2, 16])}", f"vector.latency={rng.choice([0, 4])}",
        f"memories.{memory}.memory.bandwidth={rng.choice([0.2, 1, 5, 40])} GB/s",
        f"memories.{memory}.memory.latency={rng.choice([0, 20, 300])} ns",
        "peak={}",
    ]  # fmt: skip


def _graph(rng: Random) -> Graph:
    g = RandomGraph(rng.randrange(100))
    if rng.random() < 0.3:
        x = g.input("x", (1, rng.randint(1, 6), rng.randint(5, 12), rng.randint(5, 12)))
        size, stride = rng.randint(1, 3), rng.randint(1, 2)
        return g.finish(g.conv2d(x, rng.randint(1, 12), (size, size), (stride, stride), [0] * 4, 1, 1, True))
    x = g.input("x", (rng.randint(1, 60), rng.randint(1, 60)))
    if rng.random() < 0.5:
        return g.finish(g.dense(x, rng.randint(1, 40), "dense", relu=rng.random() < 0.5))
    return g.finish(g.op("Add", [x, g.project(x, g.shape(x)[-1], "project")], "add"))


def _mapping(rng: Random) -> dict[str, Any]:
    free = {
        "order": rng.choice(["nmk", "mnk", "nkm", "mkn"]),
        **{f"t{axis}": rng.choice([4, 8, 16, 10**6]) for axis in "mnk"},
        "a_resident": rng.random() < 0.5, "y_resident": rng.random() < 0.5,
        "y_slots": rng.randint(1, 4), "w_slots": rng.randint(1, 3), "a_slots": rng.randint(1, 2),
    }  # fmt: skip
    return {name: value for name, value in free.items() if rng.random() < 0.7}


def gap(number: int) -> Gap:
    """The case of that number, simulated; raises as ``case``."""
    made = case(number)
    choice = choice_of(made)
    return Gap(number, choice.binds, round(clocks(made) - choice.clocks, 3))


def gaps() -> list[Gap]:
    """Of each path that binds the first cases whose chip and mapping go together."""
    found: dict[str, list[Gap]] = {}
    for number in range(NUMBERS):
        with suppress(AccelsimError):
            made = gap(number)
            found.setdefault(made.binds, []).append(made)
    return sorted(each for same in found.values() for each in same[:EACH])


def main() -> None:
    """Write the table."""
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(Gap._fields)
    out.writerows(gaps())


if __name__ == "__main__":
    main()
