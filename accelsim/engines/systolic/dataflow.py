"""The dataflows of a systolic array: which axis of a product lies along what, and all that follows from it.

Y[M,N] = A[M,K] x B[K,N]. Of the axes m, n, k one lies along the rows of the array, one along its columns, and one
passes in time. Each of A, B and Y has two of them: the matrix without time stays in the PEs, and an operand without
columns enters at the row ports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from accelsim.errors import UsageError

if TYPE_CHECKING:
    from accelsim.types import Array

T = TypeVar("T")

AXES = {"a": "mk", "b": "kn", "y": "mn"}
"""Matrix of a product -> its axes, in the order of its indices."""

ROLES = {"a": "activations", "b": "weights", "y": ""}
"""Matrix -> the role of buffers from which it is loaded to stay in the PEs; '' for sums, which begin there."""


@dataclass(frozen=True)
class Dataflow:
    """The axis along the ``rows`` of the array, along its ``cols``, and in ``time``: each of 'm', 'n', 'k' once."""

    rows: str
    cols: str
    time: str

    def __post_init__(self) -> None:
        """Raises UsageError for axes that no array here can follow."""
        if sorted((self.rows, self.cols, self.time)) != ["k", "m", "n"] or self.cols == "k":
            expected = "m, n and k once each; sums move down, so k along the rows or in time"
            raise UsageError(f"axes {self.rows}, {self.cols}, {self.time}", "dataflow", expected)

    @cached_property
    def still(self) -> str:
        """The matrix that stays in the PEs: 'a', 'b' or 'y'."""
        return _matrix(self.rows, self.cols)

    @cached_property
    def at_rows(self) -> str:
        """The operand that streams through the row ports: 'a' or 'b'."""
        return _matrix(self.rows, self.time)

    @cached_property
    def at_cols(self) -> str:
        """The operand of the column ports: the stationary one, or the second that streams."""
        return "b" if self.at_rows == "a" else "a"

    @cached_property
    def stationary(self) -> bool:
        """Return whether an operand is loaded before a fold streams, and sums move; otherwise these stay."""
        return self.still != "y"

    def spatial(self, M: T, N: T, K: T) -> tuple[T, T, T]:
        """Extents of a product M x N x K on the array: spatial rows Sr, spatial columns Sc, streamed rows T."""
        return self.in_order({"m": M, "n": N, "k": K})

    def in_order(self, by_axis: Mapping[str, T]) -> tuple[T, T, T]:
        """Return the values of a table by axis (m, n, k) in the order rows, columns, time."""
        return by_axis[self.rows], by_axis[self.cols], by_axis[self.time]

    def a_and_b(self, at_rows: T, at_cols: T) -> tuple[T, T]:
        """Return a value of the row ports and one of the column ports in the order A, B."""
        return (at_rows, at_cols) if self.at_rows == "a" else (at_cols, at_rows)

    def ports(self, a: Array, b: Array) -> tuple[Array, Array]:
        """Operands A [M,K] and B [K,N] as the ports take them: [time, rows], and [rows or time, columns]."""
        operands = {"a": a, "b": b}
        return (
            _first(self.time, self.at_rows, operands[self.at_rows]),
            _first(self.rows if self.stationary else self.time, self.at_cols, operands[self.at_cols]),
        )

    def product(self, result: Array) -> Array:
        """Y[M,N], given what left the columns: [time or rows, columns]."""
        return _first(self.time if self.stationary else self.rows, "y", result)

    @cached_property
    def advances_by_row(self) -> bool:
        """Return whether the next word of a row port lies in the next row of its matrix (else in the next column)."""
        return AXES[self.at_rows][0] == self.time


def _matrix(*axes: str) -> str:
    return next(name for name, own in AXES.items() if set(own) == set(axes))


def _first(axis: str, name: str, matrix: Array) -> Array:
    return matrix if AXES[name][0] == axis else matrix.T


DATAFLOWS: dict[str, Dataflow] = {
    "ws": Dataflow(rows="k", cols="n", time="m"),
    "os": Dataflow(rows="m", cols="n", time="k"),
    "is": Dataflow(rows="k", cols="m", time="n"),
}
"""Dataflows by name: weight, output and input stationary ('is' is 'ws' with A and B exchanged)."""
