"""Lesson 3: one processing element, sixteen of them, every register at every edge against the register-level model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import zip_longest
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.random import Generator

from accelsim.engines.systolic.fabric import VALID, Setup
from accelsim.engines.systolic.registers import build
from accelsim.engines.systolic.stationary import StationaryArray
from accelsim.lessons.base import Ask, Figure, Lesson, Sheet, Wrong
from accelsim.lessons.compare import answer, number
from accelsim.types import Array

if TYPE_CHECKING:
    from matplotlib.patches import Rectangle

SIDE = 4
SETUP = Setup(SIDE, SIDE, "ws", schedule="sequential")
REGISTERS = ("a", "b", "y")
RULES = {
    "a": "a takes what the neighbour on the left held before this edge (in column 0: what the left port brings)",
    "b": "while weights load, b takes what the neighbour above held before this edge; else it stays",
    "y": "y is the sum of the neighbour above, from before this edge, plus the a that comes in times the b held so far",
}

PORTS = (
    ("left", "row", f"weights come in at edges 1 to 4; then A[m][k] enters row k at edge {SIDE + 1} + m + k; else 0"),
    ("top", "column", "the last row of B first, since it goes farthest down: B[3] at edge 1, B[0] at edge 4; then 0"),
)
"""Ports of A and of B: name, line of PEs that each feeds, rule."""


class Numbers(NamedTuple):
    """Operands [M, 4] and [4, 4]; the share of the question."""

    a: tuple[tuple[int, ...], ...]
    b: tuple[tuple[int, ...], ...]
    share: float

    @property
    def rows(self) -> int:
        """Return the rows of A."""
        return len(self.a)


class Edge(NamedTuple):
    """State after a clock edge: registers a, b, y [3, 4, 4], which of them hold something, and what came in at the
    ports (left [4], top [4])."""

    registers: Array
    filled: Array
    left: Array
    top: Array


@cache
def edges(numbers: Numbers) -> list[Edge]:
    """Every edge of the register-level model."""
    machine = build([np.array(numbers.a)], [np.array(numbers.b)], SETUP)
    assert isinstance(machine, StationaryArray)
    found = []
    while machine.running():
        machine.step()
        on = (machine.token[0] & VALID).astype(bool)
        registers = np.stack((machine.moving[0], machine.path.value[0], machine.psum[0]))
        filled = np.stack((on, machine.path.occupied[0].astype(bool), on))
        left = np.where(machine.row_tok[0] & VALID, machine.row_in[0], 0)
        found.append(Edge(registers, filled, left, np.where(machine.col_on[0, 0], machine.col_in[0, 0], 0)))
    return found


def cycles(rows: int) -> int:
    """Edges of a product of so many rows, by the register-level model."""
    return len(edges(Numbers(((1,) * SIDE,) * rows, ((1,) * SIDE,) * SIDE, 0.0)))


class EdgeByEdge(Lesson):
    """Lesson 3: a systolic array, edge by edge."""

    number, title, file, minutes = 3, "A systolic array, edge by edge", "array.py", 40
    idea = "A grid of multipliers that pass numbers to their neighbours computes a product with few trips to memory."
    steps = (
        "one processing element",
        "every register at every edge",
        "the left ports",
        "the top ports",
        "cycles",
        "the question",
    )

    def draw(self, rng: Generator) -> Numbers:
        rows = int(rng.integers(5, 10))
        a, b = (rng.integers(1, 10, (count, SIDE)) for count in (rows, SIDE))
        return Numbers(_rows(a), _rows(b), int(rng.integers(12, 19)) / 20)

    def words(self, numbers: Numbers) -> Mapping[str, object]:
        a, b = (", ".join(str(list(row)) for row in each) for each in (numbers.a, numbers.b))
        return {"a": a, "b": b, "rows": numbers.rows, "share": f"{numbers.share:.0%}", "fraction": numbers.share}

    def check(self, ask: Ask, numbers: Numbers, sheet: Sheet) -> Iterator[None]:
        _alone(ask)
        yield
        sheet["edges"] = []
        _together(ask, numbers, sheet)
        yield
        for (port, line, rule), matrix in zip(PORTS, (numbers.a, numbers.b), strict=True):
            operand = [list(row) for row in matrix]
            for edge, known in enumerate(edges(numbers), 1):
                for place in range(SIDE):
                    got = ask(f"{port}_port", operand, place, edge)
                    want = int(getattr(known, port)[place])
                    number(f"edge {edge}, {port} port of {line} {place}", want, got, rule, 0)
            yield
        for rows in (1, 2, numbers.rows, 50):
            rule = "4 edges of loading; the last row enters M edges later, and goes 3 down and 3 to the right"
            number(f"cycles({rows})", cycles(rows), ask("cycles", rows), rule, 0)
        yield
        fixed = cycles(1) - 1
        rule = f"M rows keep the 16 multipliers at work for M of M + {fixed} edges; take the smallest whole M"
        answer(ask, ceil(numbers.share * fixed / (1 - numbers.share) - 1e-9), rule, 0)
        yield

    def draw_picture(self, figure: Figure, numbers: Numbers, sheet: Sheet) -> None:
        """The student's array at six edges: sums in the PEs, those at work in blue, wrong ones in red."""
        from accelsim.report.style import FAINT, SKY, VERMILLION

        known, seen = edges(numbers), sheet.get("edges", [])
        last = len(seen) if seen else len(known)
        shown = sorted({min(last, max(1, edge)) for edge in (3, 5, 7, 9, last - 1, last)})
        figure.set_figheight(6.6)
        panels = figure.subplots(2, 3).flat
        for axes, edge in zip_longest(panels, shown):
            if edge is None:
                axes.set_axis_off()
                continue
            truth, got = known[edge - 1], seen[edge - 1] if edge <= len(seen) else None
            values = truth.registers if got is None else got
            wrong = np.zeros((SIDE, SIDE), bool) if got is None else ((got != truth.registers) & truth.filled).any(0)
            for row, column in np.ndindex(SIDE, SIDE):
                colour = VERMILLION if wrong[row, column] else SKY if truth.filled[2, row, column] else FAINT
                axes.add_patch(_square(column, row, colour))
                a, b, y = values[:, row, column]
                loaded, busy = truth.filled[1:, row, column]
                text = f"b {b:g}\n" * bool(loaded) + f"a {a:g}\ny {y:g}" * bool(busy)
                axes.text(column + 0.5, row + 0.5, text.strip(), ha="center", va="center", fontsize=8)
            axes.set(xlim=(0, SIDE), ylim=(SIDE, 0), aspect="equal", xticks=[], yticks=[])
            axes.set_title(f"edge {edge}", fontsize=9)
        whose = "your array" if seen else "the array as it should be"
        figure.suptitle(f"{whose}: blue PEs multiply, red ones hold something wrong", fontsize=10, x=0.01, ha="left")


def _rows(array: Array) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(each) for each in row) for row in array)


def _square(column: int, row: int, colour: str) -> Rectangle:
    from matplotlib.patches import Rectangle

    return Rectangle((column, row), 1, 1, facecolor=colour, edgecolor="white", lw=1.5)


def _alone(ask: Ask) -> None:
    """A PE at a few edges: what comes in, what it holds, whether weights load."""
    for a_in, b_in, y_in, b, loading in (
        (3, 5, 10, 7, False),
        (0, 5, 0, 7, True),
        (2, 0, 1, 4, True),
        (0, 0, 9, 6, False),
    ):
        expected = (a_in, b_in if loading else b, y_in + a_in * b)
        got = ask("pe_step", a_in, b_in, y_in, b, loading)
        where = f"pe_step(a_in={a_in}, b_in={b_in}, y_in={y_in}, b={b}, loading={loading})"
        if not isinstance(got, tuple | list) or len(got) != 3:
            raise Wrong(where, "(a, b, y)", got, "the three registers behind the edge, in this order")
        for name, want, have in zip(REGISTERS, expected, got, strict=True):
            number(f"{where}, register {name}", want, have, RULES[name], 0)


def _together(ask: Ask, numbers: Numbers, sheet: Sheet) -> None:
    """Sixteen of the student's PEs between right ports, edge by edge."""
    held = np.zeros((3, SIDE, SIDE))
    for edge, known in enumerate(edges(numbers), 1):
        before, held = held, np.zeros_like(held)
        for row, column in np.ndindex(SIDE, SIDE):
            a_in = before[0, row, column - 1] if column else known.left[row]
            b_in = before[1, row - 1, column] if row else known.top[column]
            y_in = before[2, row - 1, column] if row else 0
            got = ask("pe_step", int(a_in), int(b_in), int(y_in), int(before[1, row, column]), edge <= SIDE)
            held[:, row, column] = got
        sheet["edges"].append(held)
        for row, column, index in np.ndindex(SIDE, SIDE, len(REGISTERS)):
            if known.filled[index, row, column]:
                name, want = REGISTERS[index], int(known.registers[index, row, column])
                where = f"edge {edge}, row {row}, column {column}, register {name}"
                number(where, want, float(held[index, row, column]), RULES[name], 0)


LESSON = EdgeByEdge()
