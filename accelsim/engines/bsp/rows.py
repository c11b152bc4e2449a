"""Functions whose results depend on whole rows, softmax and normalisations: rows stay together, or meet again."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from accelsim.engines.bsp.spec import BspUnit
from accelsim.engines.bsp.supersteps import Figures, ceil, in_turn, phase
from accelsim.engines.bsp.vectors import Job, Operand, dealt, functions, lanes
from accelsim.types import Ints
from accelsim.workload.graph import Node

STATISTICS_B = 8
"""What the tiles that share a row tell each other of it: two numbers in FP32 (largest and sum, or sum and squares)."""


def row_length(node: Node, shape: tuple[int, ...]) -> int:
    """Elements of a row: those that a result depends on; 1 for functions of single elements, channels and windows."""
    axis = node.attrs.get("axis", -1)
    if node.op in ("Softmax", "LogSoftmax"):
        return prod(shape[node.attrs["flatten_from"] :]) if "flatten_from" in node.attrs else shape[axis]
    if node.op in ("LayerNormalization", "RMSNormalization"):
        return prod(shape[axis:])
    if node.op == "InstanceNormalization":
        return prod(shape[2:])
    if node.op == "GroupNormalization":
        return prod(shape[1:]) // int(node.attrs["num_groups"])
    return 1


def supersteps(
    unit: BspUnit, results: int, row: int, element_B: int, jobs: Sequence[Job], operands: Sequence[Operand]
) -> tuple[list[Figures], Ints]:
    """Functions of rows: dealt as whole rows in one superstep, or evenly, with a second one in which tiles that share a
    row tell each other its statistics; whichever takes fewer clocks. Also the results of each tile, int64 [tiles].
    """
    even = dealt(unit, results, lanes(unit, element_B))
    parted = functions(unit, even, element_B, jobs, operands)._replace(sync=unit.sync)
    meet = _statistics(unit, even, row)
    if not meet.clocks:
        return [parted], even
    whole = dealt(unit, results, row)
    together = functions(unit, whole, element_B, jobs, operands)._replace(sync=unit.sync)
    if together.clocks <= parted.clocks + meet.clocks:
        return [together], whole
    return [parted, meet], even


def _statistics(unit: BspUnit, shares: Ints, row: int) -> Figures:
    """Every tile sends what it knows of each row that it shares, and adds what the others of that row send."""
    working = shares[shares > 0]
    ends = np.cumsum(working)
    first, last = (ends - working) // row, (ends - 1) // row
    rows = int(last[-1]) + 1
    touching = np.cumsum(np.bincount(first, minlength=rows + 1) - np.bincount(last + 1, minlength=rows + 1))
    shared = np.concatenate(([0], np.cumsum(touching > 1)))
    others = np.concatenate(([0], np.cumsum(touching - 1)))
    sent = (shared[last + 1] - shared[first]) * STATISTICS_B
    received = (others[last + 1] - others[first]) * STATISTICS_B
    if not received.any():
        return Figures()
    vectors = ceil(received.max(), unit.vector_width)
    return Figures(
        unit.sync, int(phase(unit, sent.max(), received.max())), int(in_turn(unit, vectors, 1)),
        int(sent.sum()), int(received.sum()), int((sent + received).sum()), int(sent.sum()),
        int((sent + received).max()),
    )  # fmt: skip
