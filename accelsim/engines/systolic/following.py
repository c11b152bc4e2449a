"""Follow the matrix element that each register of an array holds, clock edge by clock edge, to draw it.

The register-level model runs operands whose values identify them. One array of the batch carries the number of each
element as its value; in four more, each sum comes out as the row, the column, the first term and the number of terms
of the result that it is part of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from accelsim.engines.systolic.dataflow import DATAFLOWS
from accelsim.engines.systolic.fabric import VALID, Fabric, Setup
from accelsim.engines.systolic.registers import build
from accelsim.engines.systolic.watch import fields
from accelsim.types import Array, Bools, Ints

EMPTY, PADDING, FIRST_INDEX = 0, 1, 2
"""Codes of a register: empty, a zero that pads a fold, or the index plus 2."""

IDLE, PADS, WORKS = 0, 1, 2
"""Work of a PE at an edge: none, a multiplication that pads the fold, one of the product."""

OPERANDS, SUMS = slice(0, 1), slice(1, 5)
"""Arrays of the batch whose words number elements of A and B, and those whose sums say what they are."""


@dataclass(frozen=True)
class Edge:
    """State of one array after a clock edge.

    ``registers``: name -> indices int64 [2, R, C] of an operand (those of A[m,k] or B[k,n]), [4, R, C] of a sum (m, n,
    the first k in it, the number of its terms). Of the ports: 'left' [2, 1, R], 'top' [2, lanes, C], 'out' [4, 1, C].
    ``work`` [R, C]: what each PE did at this edge. ``fold`` (from 0; -1 before the first), ``row``: of the stream, as
    row port 0 sees it; ``row`` is -1 where nothing enters.
    """

    registers: dict[str, Ints]
    work: Ints
    fold: int
    row: int


def names(setup: Setup) -> dict[str, str]:
    """Name of each register and port -> the matrix whose elements it holds: 'a', 'b' or 'y'."""
    flow = DATAFLOWS[setup.dataflow]
    if not flow.stationary:
        inside = {"moving": flow.at_rows, "down": flow.at_cols}
    elif setup.schedule == "overlapped":
        inside = {"moving": flow.at_rows, "held": flow.still, "waiting": flow.still}
    else:
        inside = {"moving": flow.at_rows, "held": flow.still}
    return {**inside, "sum": "y", "left": flow.at_rows, "top": flow.at_cols, "out": "y"}


def follow(M: int, N: int, K: int, setup: Setup) -> Iterator[Edge]:
    """Yield the array after each edge of Y[M,N] = A[M,K] x B[K,N]. Raises what ``registers.simulate`` raises."""
    machine = build(*_tagged(M, N, K, setup), setup)
    matrices, wide = names(setup), {"a": K, "b": N}
    before = machine.n_mac[0].copy(), machine.n_real[0].copy()
    while machine.running():
        machine.step()
        registers = {
            name: _sums(values[SUMS], on) if matrices[name] == "y" else _operand(values[0], on, wide[matrices[name]])
            for name, (values, on) in _read(machine, list(matrices)).items()
        }
        after = machine.n_mac[0].copy(), machine.n_real[0].copy()
        work = np.where(after[1] > before[1], WORKS, np.where(after[0] > before[0], PADS, IDLE))
        before = after
        enters = bool(machine.row_tok[0, 0] & VALID)
        yield Edge(registers, work, int(machine.fold[0]), int(machine.t[0]) - 1 if enters else -1)


def _tagged(M: int, N: int, K: int, setup: Setup) -> tuple[list[Ints], list[Ints]]:
    """Operands A and B of all arrays of the batch."""
    m, k, n = np.arange(1, M + 1)[:, None], np.arange(K), np.arange(1, N + 1)
    ones_a, ones_b = np.ones((M, K), np.int64), np.ones((K, N), np.int64)
    fold = setup.rows if DATAFLOWS[setup.dataflow].rows == "k" else K  # terms that are added up in the PEs
    first = (k % fold == 0).astype(np.int64)
    return (
        [np.arange(1, M * K + 1).reshape(M, K), m * first, ones_a * first, ones_a * (k + 1) * first, ones_a],
        [np.arange(1, K * N + 1).reshape(K, N), ones_b, ones_b * n, ones_b, ones_b],
    )


def _read(machine: Fabric, wanted: list[str]) -> dict[str, tuple[Array, Bools]]:
    """Name -> words of all arrays of the batch, and where there is one."""
    by_case = [fields(machine, case) for case in range(machine.batch.n)]
    inside = [
        (np.stack(values), on[0])
        for _, values, on, _ in (zip(*each, strict=True) for each in zip(*by_case, strict=True))
    ]
    ports = [
        (machine.row_in[:, None], (machine.row_tok[0] & VALID).astype(bool)[None]),
        (machine.col_in, machine.col_on[0]),
        (machine.out[:, None], machine.out_on[0][None]),
    ]
    return dict(zip(wanted, [*inside, *ports], strict=True))


def _operand(number: Array, on: Bools, columns: int) -> Ints:
    """Row and column of the elements with these numbers."""
    indices = np.stack(np.divmod(number - 1, columns)) + FIRST_INDEX
    return np.where(on, np.where(number > 0, indices, PADDING), EMPTY)


def _sums(tags: Array, on: Bools) -> Ints:
    """Row, column, first term of the sums with these tags (which count from 1), and their number of terms."""
    less = np.array([1, 1, 1, 0]).reshape(-1, *[1] * (tags.ndim - 1))
    real = (tags[:3] > 0).all(axis=0)
    return np.where(on, np.where(real, tags - less + FIRST_INDEX, PADDING), EMPTY)
