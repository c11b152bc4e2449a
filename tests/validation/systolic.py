"""Checks ``systolic`` and ``scalesim``: closed forms against the register-level model and SCALE-Sim."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any

import numpy as np

from accelsim.engines.systolic.counts import COUNTS, counts
from accelsim.engines.systolic.dataflow import DATAFLOWS
from accelsim.engines.systolic.fabric import Setup
from accelsim.engines.systolic.registers import HARDWARE_SCHEDULES, simulate
from accelsim.engines.systolic.spec import SHADOW_LOADS
from accelsim.engines.systolic.timing import cycles
from accelsim.seeds import generator
from accelsim.types import Ints
from tests.validation.base import Check, check
from tests.validation.golden import golden
from tests.validation.scalesim_report import scalesim_report

GOLDEN = ("scalesim2_check.csv", "scalesim3_calc.csv", "scalesim3_compute_only.csv")
"""Files of golden rows under ``systolic/``."""

MOST_ROWS, MOST_SIZE, MOST_FOLDS = 16, 24, 6
"""Random cases: arrays up to 16 x 16, GEMM sizes up to 24 and up to 6 folds each way."""

CASES_PER_SHAPE = 8
"""Cases that share a size of the array, on average: they run side by side."""

MOST_DETAILS = 20
"""Differences that are listed."""


def combinations() -> list[tuple[str, str, str]]:
    """Every (dataflow, schedule, shadow load) that is a different machine."""
    return [
        (flow, schedule, shadow)
        for flow, row in DATAFLOWS.items()
        for schedule in HARDWARE_SCHEDULES
        for shadow in SHADOW_LOADS
        if shadow == "column" or (row.stationary and schedule == "overlapped")
    ]


@check("systolic")
def systolic(cases: int = 5000, seed: int = 20240601) -> Check:
    """Cycles, values and every access count of ``cases`` random GEMMs per machine: equal, or listed."""
    equal, details = 0, []
    machines = combinations()
    for number, (flow, schedule, shadow) in enumerate(machines):
        rng = generator(seed, number)
        good, bad = prove(flow, schedule, shadow, cases, rng)
        details.append(f"{flow} {schedule} {shadow}: {good:,} of {cases:,} equal")
        details += bad[:MOST_DETAILS]
        equal += good
    what = "closed forms = register-level model: cycles, values and every access count"
    return Check("systolic", what, cases * len(machines), equal, np.zeros(0), details)


def prove(flow: str, schedule: str, shadow: str, cases: int, rng: np.random.Generator) -> tuple[int, list[str]]:
    """Equal cases, and a line for each other one, of one machine. Raises what ``simulate`` raises."""
    equal, details = 0, []
    for setup, sizes in _random(flow, schedule, shadow, cases, rng):
        wrong = differences(setup, sizes, rng)
        equal += len(sizes) - len(wrong)
        details += [f"{setup}: M, N, K = {tuple(sizes[i].tolist())}: {names}" for i, names in wrong.items()]
    return equal, details


def _random(
    flow: str, schedule: str, shadow: str, cases: int, rng: np.random.Generator
) -> Iterator[tuple[Setup, Ints]]:
    """Batches of sizes [n, 3] that share an array."""
    pool = rng.integers(1, MOST_ROWS + 1, (max(1, cases // CASES_PER_SHAPE), 2))
    shapes = pool[rng.integers(0, len(pool), cases)]
    for (R, C), many in zip(*np.unique(shapes, axis=0, return_counts=True), strict=True):
        lanes, interval = int(rng.choice([1, 1, 2, 3, 4])), int(rng.choice([0, 0, 16]))
        words = int(rng.choice([0, rng.integers(1, C + 1)]))
        setup = Setup(int(R), int(C), flow, schedule, shadow, lanes, interval, words)
        # sizes along the rows, along the columns, streamed; then put in the order M, N, K
        most = np.minimum(MOST_SIZE, np.array([MOST_FOLDS * R, MOST_FOLDS * C, MOST_SIZE]))
        drawn = rng.integers(1, most + 1, (int(many), 3))
        place = dict(zip(DATAFLOWS[flow].in_order({axis: axis for axis in "mnk"}), drawn.T, strict=True))
        yield setup, np.stack([place[axis] for axis in "mnk"], axis=1)


def differences(setup: Setup, sizes: Ints, rng: np.random.Generator) -> dict[int, str]:
    """Case -> names of the figures in which closed form and register-level model differ."""
    a = [rng.integers(-128, 128, (M, K)) for M, _, K in sizes.tolist()]
    b = [rng.integers(-128, 128, (K, N)) for _, N, K in sizes.tolist()]
    seen = simulate(a, b, setup)
    measured = {"cycles": seen.cycles, **seen.counts.as_dict()}
    wrong: dict[int, list[str]] = {}
    for name, formula in closed_forms(setup, sizes).items():
        model = measured[name]
        for index in np.nonzero(model != formula)[0].tolist():
            wrong.setdefault(index, []).append(f"{name} {model[index]} != {formula[index]}")
    for index, (x, y, product) in enumerate(zip(a, b, seen.products, strict=True)):
        if not np.array_equal(x @ y, product):
            wrong.setdefault(index, []).append("values")
    return {index: ", ".join(names) for index, names in sorted(wrong.items())}


def closed_forms(setup: Setup, sizes: Ints) -> dict[str, Ints]:
    """Cycles and every count of the cases ``sizes`` [n, 3] (M, N, K)."""
    M, N, K = sizes.T
    array, lanes = (setup.rows, setup.cols, setup.dataflow, setup.schedule), setup.load_rows_per_clock
    row, leave = rates(setup)
    total = cycles(
        *array, setup.shadow_load, M, N, K,
        cycles_per_row=row, load_rows_per_clock=lanes, min_interval=setup.min_interval, leave=leave,
    )  # fmt: skip
    accesses = counts(*array, M, N, K, shadow_load=setup.shadow_load, load_rows_per_clock=lanes)
    return {"cycles": total, **{name: getattr(accesses, name) + 0 * M for name in COUNTS}}


def rates(setup: Setup) -> tuple[int, int]:
    """Clocks per streamed row, and per row of sums at the end of a fold, that the port of the sums allows."""
    taken = -(-setup.cols // setup.port_words)
    return (taken, 1) if DATAFLOWS[setup.dataflow].stationary else (1, taken)


@check("scalesim")
def scalesim() -> Check:
    """Every golden row of SCALE-Sim 2.0.2 and 3.0.0: cycles, percentages, SRAM words, MACs."""
    rows, equal, errors, details = 0, 0, [], []
    for name in GOLDEN:
        with golden(f"systolic/{name}").open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                wrong = scalesim_differences(row)
                rows, equal = rows + 1, equal + (not wrong)
                total = int(row["total_cycles"])
                errors.append(_report(row)["total_cycles"] / total - 1)
                details += [f"{name}, {row['workload']} {row['layer_name']}: {', '.join(wrong)}"] if wrong else []
    what = "cycles, percentages, SRAM words and MACs that SCALE-Sim 2.0.2 and 3.0.0 report"
    return Check("scalesim", what, rows, equal, np.array(errors), details[:MOST_DETAILS])


def scalesim_differences(row: dict[str, str]) -> list[str]:
    """Columns of a golden row that differ: whole numbers exactly, percentages as printed (six decimals)."""
    wrong = []
    for name, figure in _report(row).items():
        same = abs(figure - float(row[name])) < 6e-7 if name.endswith("_pct") else figure == int(row[name])
        wrong += [] if same else [f"{name} {figure} != {row[name]}"]
    return wrong


def _report(row: dict[str, str]) -> dict[str, Any]:
    sizes = [int(row[f"gemm_{name}"]) for name in "MNK"]
    report = scalesim_report(int(row["array_rows"]), int(row["array_cols"]), row["dataflow"], *sizes).as_dict()
    return report | {"total_cycles": report["total_cycles"] + int(row["stall_cycles"])}
