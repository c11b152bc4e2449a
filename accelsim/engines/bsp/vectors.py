"""Functions of elements: results are cut into vectors, which are dealt to tiles and then to threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from accelsim.engines.bsp.spec import BspUnit
from accelsim.engines.bsp.supersteps import Figures, ceil, in_turn, phase
from accelsim.engines.bsp.windows import cuts
from accelsim.types import Ints


class Job(NamedTuple):
    """One function: issue slots per vector, and its operations on elements for all results together."""

    slots: int
    operations: int


class Operand(NamedTuple):
    """An operand of a vector step: ``elements`` of ``element_B`` bytes; ``spread``: each tile already has its share."""

    elements: int
    element_B: int
    spread: bool = False


def lanes(unit: BspUnit, element_B: int) -> int:
    """Return the elements of a vector."""
    return max(1, unit.vector_width // element_B)


def dealt(unit: BspUnit, results: int, width: int) -> Ints:
    """Return the results of each tile, int64 [tiles]: whole vectors of ``width``, but for the last one."""
    shares = np.diff(cuts(-(-results // width), unit.tiles)) * width
    shares[np.flatnonzero(shares)[-1]] -= -results % width
    return shares


def needed(operand: Operand, shares: Ints) -> Ints:
    """Bytes of an operand under each share of the results: of a smaller one, which serves several results, at most all;
    of a larger one its part, in whole elements.
    """
    results = int(shares.sum())
    mine = np.minimum(operand.elements, shares)
    if operand.elements > results:
        mine = ceil(operand.elements * shares, results)
    return mine * operand.element_B


def functions(unit: BspUnit, shares: Ints, element_B: int, jobs: Sequence[Job], operands: Sequence[Operand]) -> Figures:
    """Return exchange and computation of one function after the other on tiles with ``shares`` of the results; no sync.
    ``held``: results, and copies of the operands that are not spread over the tiles.
    """
    most, results, width = int(shares.max()), int(shares.sum()), lanes(unit, element_B)
    slices = [(-(-job.operations * most // results), job.slots) for job in jobs]
    compute = sum(int(in_turn(unit, ceil(mine, width), slots)) for mine, slots in slices)
    exchange = sent = received = read = 0
    held = most * element_B
    for operand in operands:
        wanted = needed(operand, shares)
        read += int(wanted.sum())
        if not operand.spread:
            held += int(wanted.max())
            spread = ceil(operand.elements, unit.tiles) * operand.element_B
            exchange += int(phase(unit, spread, wanted.max()))
            sent, received = sent + operand.elements * operand.element_B, received + int(wanted.sum())
    return Figures(0, exchange, compute, sent, received, read, results * element_B, held)
