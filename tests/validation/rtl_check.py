"""Check ``rtl-machine``: every golden row of the Verilog machine, all columns, hashes included."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tests.validation.base import Check, check
from tests.validation.golden import golden
from tests.validation.rtl_machine import PARAMETERS, simulate_row

GOLDEN = "rtl_machine/machine_golden.csv"
CLOCKS = "total_clocks"
MOST_DETAILS = 20


def golden_rows() -> list[dict[str, str]]:
    """Rows of the golden file, as text."""
    with golden(GOLDEN).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def result_columns(row: Mapping[str, str]) -> list[str]:
    """The columns that are results, in the order of the file."""
    return [name for name in row if name not in (*PARAMETERS, "id")]


def roofline(row: Mapping[str, Any]) -> float:
    """Clocks by a roofline: MACs at the peak rate of the array, or bytes moved at the width of the port."""
    moved = sum(int(row[name]) for name in ("bytes_a", "bytes_w", "bytes_out"))
    return float(max(int(row["macs"]) / (int(row["R"]) * int(row["C"])), moved / int(row["B"])))


def compute_or_transfer(row: Mapping[str, Any]) -> float:
    """Clocks by max(compute, transfer): rows streamed by all folds, or data clocks of all transfers."""
    return float(max(int(row["stream_clocks"]), int(row["dram_load_clocks"]) + int(row["dram_store_clocks"])))


SIMPLER: dict[str, Callable[[Mapping[str, Any]], float]] = {
    "a roofline": roofline,
    "max(compute, transfer)": compute_or_transfer,
}
"""Models that ignore latency, queues and buffers, given the machine's own byte and row counts."""


@check("rtl-machine")
def rtl_machine() -> Check:
    """Simulate every golden row; a row is equal when every result column is."""
    rows, equal, errors, details = golden_rows(), 0, [], []
    names = result_columns(rows[0])
    for row in rows:
        found = simulate_row({name: row[name] for name in PARAMETERS})
        wrong = [f"{name} {found[name]} != {row[name]}" for name in names if str(found[name]) != row[name]]
        equal += not wrong
        errors.append(int(found[CLOCKS]) / int(row[CLOCKS]) - 1)
        details += [f"row {row['id']}: {', '.join(wrong)}"] if wrong else []
    what = f"{len(names)} columns of each run of a Verilog machine, hashes of results and trace included"
    return Check("rtl-machine", what, len(rows), equal, np.array(errors), [*details[:MOST_DETAILS], *_simpler(rows)])


def simpler_errors(rows: list[dict[str, str]]) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
    """Relative errors of the simpler models in total clocks, by model, one per row."""
    clocks = np.array([int(row[CLOCKS]) for row in rows])
    return {name: np.array([model(row) for row in rows]) / clocks - 1 for name, model in SIMPLER.items()}


def _simpler(rows: list[dict[str, str]]) -> list[str]:
    return [
        f"for comparison, {name} is off by {100 * np.median(np.abs(errors)):.1f} % in the median and "
        f"{100 * np.abs(errors).max():.0f} % at most, with every byte and fold counted right"
        for name, errors in simpler_errors(rows).items()
    ]
