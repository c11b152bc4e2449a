"""The array as text, edge by edge: what enters, what each PE holds, what leaves. For small arrays."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np

from accelsim.engines.systolic.accumulating import AccumulatingArray
from accelsim.engines.systolic.dataflow import DATAFLOWS
from accelsim.engines.systolic.fabric import FIRST, VALID, Fabric, Setup
from accelsim.engines.systolic.registers import build
from accelsim.engines.systolic.stationary import StationaryArray
from accelsim.errors import UsageError
from accelsim.types import Array

MOST_PES = 64
"""Larger arrays do not fit on a screen."""

Field = tuple[str, Array, Array, Array]
"""Label, values, where shown, where marked with a star; all [R, C]."""


def legend(setup: Setup) -> str:
    """Return what the letters in the frames of :func:`frames` mean."""
    flow = DATAFLOWS[setup.dataflow]
    if not flow.stationary:
        moving = f"{flow.at_rows} moves right, {flow.at_cols} moves down"
        return f"{moving}, {flow.still} stays (* first MAC of a fold), then moves down and leaves"
    shadow = (
        f", {flow.still}' waits for the next fold (* taken over at this edge)" if setup.schedule == "overlapped" else ""
    )
    return f"{flow.at_rows} moves right, {flow.still} stays{shadow}, y moves down and leaves at the bottom"


WIDTH = 80
"""Characters of a line, unless one column of PEs alone needs more."""


def frames(a: Array, b: Array, setup: Setup, width: int = WIDTH) -> Iterator[str]:
    """One text per clock edge of the product ``a`` [M,K] x ``b`` [K,N]: the registers after that edge.

    '.' is an empty register or port. An array that is wider than ``width`` characters is drawn in parts, some of its
    columns at a time. Raises UsageError for more than 64 PEs and what ``simulate`` raises.
    """
    if setup.rows * setup.cols > MOST_PES:
        raise UsageError(f"{setup.rows} x {setup.cols} PEs are too many to watch; at most {MOST_PES}")
    machine = build([a], [b], setup)
    while machine.running():
        machine.step()
        yield _frame(machine, width)


def _frame(machine: Fabric, most: int) -> str:
    batch, rows = machine.batch, machine.setup.rows
    cells = _cells(machine)
    ports = [_text(word, on) for word, on in zip(machine.row_in[0], machine.row_tok[0] & VALID, strict=True)]
    top = [_lanes(machine.col_in[0, :, j], machine.col_on[0, :, j]) for j in range(machine.setup.cols)]
    out = [_text(word, on) for word, on in zip(machine.out[0], machine.out_on[0], strict=True)]
    width = max(len(text) for text in (*chain(*cells), *top, *out))
    side = max(3, *(len(text) for text in ports))
    lines = [f"edge {machine.edge}: {_doing(machine, int(batch.F[0]), int(batch.T[0]))}"]
    columns = machine.setup.cols
    at_once = max(1, (most - side - 9) // (width + 3))
    for first in range(0, columns, at_once):
        part = slice(first, first + at_once)
        if columns > at_once:
            lines.append(f"columns {first + 1} to {min(first + at_once, columns)} of {columns}")
        lines.append(" " * (side + 6) + "   ".join(text.center(width) for text in top[part]) + "   in")
        for row in range(rows):
            port = f"{ports[row]:>{side}} ->" if not first else " " * (side + 3)
            lines.append(f"{port} | " + " | ".join(text.ljust(width) for text in cells[row][part]) + " |")
        lines.append(" " * (side + 6) + "   ".join(text.center(width) for text in out[part]) + "   out")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _doing(machine: Fabric, folds: int, rows: int) -> str:
    fold, t = int(machine.fold[0]), int(machine.t[0])
    if machine.row_tok[0, 0] & VALID:
        return f"fold {fold + 1} of {folds} streams row {t} of {rows}"
    return f"fold {fold + 1} of {folds} drains" if fold >= 0 else "first load"


def _cells(machine: Fabric) -> list[list[str]]:
    """Text of each PE."""
    columns = []
    for label, value, on, star in fields(machine):
        texts = [
            [_text(v, o) + ("*" if s else "") for v, o, s in zip(*row, strict=True)]
            for row in zip(value, on, star, strict=True)
        ]
        width = max(len(text) for row in texts for text in row)
        columns.append([[f"{label} {text:<{width}}" for text in row] for row in texts])
    return [["  ".join(parts) for parts in zip(*rows, strict=True)] for rows in zip(*columns, strict=True)]


def fields(machine: Fabric, case: int = 0) -> list[Field]:
    """Registers of every PE of one array of the batch: operands that move right first, sums last."""
    if isinstance(machine, StationaryArray):
        return _stationary_fields(machine, case)
    assert isinstance(machine, AccumulatingArray)
    return _accumulating_fields(machine, case)


def _stationary_fields(machine: StationaryArray, case: int) -> list[Field]:
    moving, still = machine.batch.flow.at_rows, machine.batch.flow.still
    on = (machine.token[case] & VALID).astype(bool)
    swapped, path = (machine.token[case] & FIRST).astype(bool), machine.path
    none = np.zeros_like(on)
    fields = [(moving, machine.moving[case], on, none)]
    if machine.overlapped:
        fields.append((still, machine.held[case], machine.n_swap[case] > 0, swapped))
        fields.append((still + "'", path.value[case], path.occupied[case], none))
    else:
        fields.append((still, path.value[case], path.occupied[case], none))
    return [*fields, ("y", machine.psum[case], on, none)]


def _accumulating_fields(machine: AccumulatingArray, case: int) -> list[Field]:
    on = (machine.token[case] & VALID).astype(bool)
    none, first = np.zeros_like(on), (machine.token[case] & FIRST).astype(bool)
    return [
        (machine.batch.flow.at_rows, machine.moving[case], on, none),
        (machine.batch.flow.at_cols, machine.down[case], on, none),
        ("y", machine.psum[case], on | machine.busy[case], first),
    ]


def _lanes(words: Array, on: Array) -> str:
    return ",".join(_text(word, shown) for word, shown in zip(words, on, strict=True))


def _text(word: float, shown: bool) -> str:
    return f"{word:g}" if shown else "."
