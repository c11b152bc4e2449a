"""The answer about a matrix product on a systolic array, by one dataflow or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from accelsim.account.array_energy import array_energy_J
from accelsim.engines.systolic.dataflow import DATAFLOWS
from accelsim.engines.systolic.fabric import Setup
from accelsim.engines.systolic.sweep import one
from accelsim.engines.systolic.watch import frames, legend
from accelsim.errors import UsageError
from accelsim.report.answer import Answer, Field, Lines, Table
from accelsim.report.text import Facts, si

MOST_EDGES = 2000
"""Clock edges that are shown at most."""


def _words(name: str, record: Mapping[str, Any]) -> str:
    """A column name as one reads it: 'utilisation_pct' becomes 'utilisation, %'. A sum says what it lacks."""
    if name.endswith("_pct"):
        return f"{name.removesuffix('_pct').replace('_', ' ')}, %"
    lacking = [key.removesuffix("_energy_J") for key, value in record.items() if value is None]
    without = f" without {', '.join(lacking)}" if name == "array_energy_J" and lacking else ""
    return name.removesuffix("_J").replace("_", " ") + without


def _text(name: str, value: float | None) -> str:
    if value is None:
        return "not stated"
    if name.endswith("_J"):
        return si(value, "J")
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"


def side_by_side(
    sizes: Sequence[int],
    dataflows: Sequence[str],
    *,
    rows: int,
    cols: int,
    schedule: str,
    shadow_load: str,
    energy: str,
    dtype: str,
) -> Answer:
    """Report Y[M,N] = A[M,K] x B[K,N] of ``sizes`` (M, N, K): a row for each figure, a column for each dataflow.

    ``energy``: table for the accesses of the array, read in ``dtype``. Raises UsageError without a dataflow, ModelError
    for bad values.
    """
    if not dataflows:
        raise UsageError("no dataflow", "--dataflow", f"{', '.join(DATAFLOWS)}, or several of them")
    (M, N, K), found = sizes, list[Facts]()
    for name in dataflows:
        result = one(rows, cols, name, schedule, M, N, K, shadow_load)
        found.append({"dataflow": name, **result, **array_energy_J(name, result, energy, dtype)})
    array = f"{rows} x {cols} PEs, {', '.join(dataflows)}, {schedule}"
    heading = f"Y[{M},{N}] = A[{M},{K}] x B[{K},{N}] on {array}; energies of {energy}, {dtype}"
    lines = [
        {"figure": _words(key, found[0]), **{each["dataflow"]: _text(key, each[key]) for each in found}}
        for key in found[0]
        if key != "dataflow"
    ]
    several = len(dataflows) > 1
    fields = [Field("figure", "figure"), *(Field(name, name if several else "value") for name in dataflows)]
    return Answer(found if several else found[0], [Lines(heading), Table(fields, lines)], found)


def watched(
    sizes: Sequence[int], dataflows: Sequence[str], setup: Mapping[str, Any], edge: int | None, width: int
) -> Answer:
    """Show every register of an array at every clock edge of a product, or at one ``edge``, in lines of ``width``.

    ``setup``: rows, cols, schedule, shadow_load. Raises UsageError where it cannot be shown.
    """
    if len(dataflows) != 1:
        raise UsageError(f"--watch with {len(dataflows)} dataflows", "", "one of them")
    machine = Setup(setup["rows"], setup["cols"], dataflows[0], setup["schedule"], setup["shadow_load"])
    M, N, K = sizes
    cycles = one(machine.rows, machine.cols, machine.dataflow, machine.schedule, M, N, K, machine.shadow_load)["cycles"]
    if cycles > MOST_EDGES:
        raise UsageError(f"{cycles:,} cycles are too many to watch", expected=f"at most {MOST_EDGES:,}")
    a, b = np.arange(1, M * K + 1).reshape(M, K), np.arange(1, K * N + 1).reshape(K, N)
    edges = list(frames(a, b, machine, max(width, 40)))
    if edge is not None:
        if edge > len(edges):
            raise UsageError(f"--edge {edge}", expected=f"1 to {len(edges)}, the edges of this product")
        edges = [edges[edge - 1]]
    what = f"A[{M},{K}] and B[{K},{N}] count from 1, row by row; {legend(machine)}"
    return Answer(None, [what, "", Lines("\n".join(edges))])
