"""Random graphs with all options of a run: values within the check's bounds, one timeline for all policies, a report."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from accelsim.account.energy import energy_table
from accelsim.explore.against_reference import check_run
from accelsim.machine.check import check
from accelsim.machine.run import Run
from accelsim.report.write import write_run
from accelsim.request.job import execute
from accelsim.workload.graph import Graph

from .random_graphs import random_graph
from .run_options import drawn_chip, drawn_options, drawn_request, jobs

REPORTS = 50
"""One case of so many writes its report, which takes seconds."""


def case(seed: int) -> None:
    """One graph on one chip with one set of options. Raises AssertionError for a law that does not hold."""
    rng = np.random.default_rng(1_000_000 + seed)

    def pick(values: Sequence[Any]) -> Any:
        return values[int(rng.integers(len(values)))]

    graph, chip = random_graph(seed), drawn_chip(pick)
    request, extra = drawn_request(pick, graph, chip), drawn_options(pick, graph, chip)
    asked = jobs(request, extra)
    runs = {values: execute(job, keep=values != "off") for values, job in asked.items()}
    one_timeline(runs)
    right_values(runs, asked["exact"].graph)  # with its weights pruned, where that was asked for
    if seed % REPORTS == 0:
        with tempfile.TemporaryDirectory() as folder:
            write_run(runs["off"], Path(folder) / "report")


def one_timeline(runs: dict[str, Run]) -> None:
    """Time, ledger and (where no multiplication by zero is gated) energy are the same for all policies."""
    exact = runs["exact"]
    check(exact, thorough=True)
    for name, other in runs.items():
        assert other.time_fs == exact.time_fs, f"{name} takes {other.time_fs} fs, exact {exact.time_fs}"
        assert other.slices == exact.slices and other.engines == exact.engines, name
        assert other.ledger == exact.ledger, name
        if exact.chip.matrix is None or not exact.chip.matrix.zero_gating:
            assert energy_table(other) == energy_table(exact), name


def right_values(runs: dict[str, Run], graph: Graph) -> None:
    """Every tensor is within the bound of a reference, tile by tile and layer by layer."""
    for name in ("exact", "fast"):
        verdict = check_run(runs[name], graph)
        if not verdict.rows:
            continue
        worst = [(row.tensor, row.relative, row.bound) for row in verdict.wrong[:5]]
        assert verdict.holds, f"{name} ({runs[name].program.dtype}): {worst}"
