"""Laws hold with every option of a run: one timeline and ledger for all value policies, right values, a sum of parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from math import fsum
from typing import Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from accelsim.account.energy import by_component, energy_table, total_J
from accelsim.compiler.state import Options
from accelsim.errors import AccelsimError
from accelsim.machine.run import Run
from accelsim.request import Request
from accelsim.request.job import execute
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.graph import Graph
from accelsim.workload.sources.load import load_model
from tests.fuzz.graphs import one_timeline, right_values
from tests.fuzz.random_graphs import random_graph
from tests.fuzz.run_options import NOT_DRAWN, candidates, drawn_chip, drawn_options, drawn_request, jobs


@st.composite
def asked(draw: Callable[[st.SearchStrategy[Any]], Any]) -> tuple[Graph, dict[str, Run]]:
    """A random graph, run with every option drawn, by value policy."""

    def pick(values: Any) -> Any:
        return draw(st.sampled_from(list(values)))

    graph = random_graph(draw(st.integers(0, 10**6)))
    try:
        chip = drawn_chip(pick)
        request, extra = drawn_request(pick, graph, chip), drawn_options(pick, graph, chip)
        by_policy = jobs(request, extra)
        runs = {name: execute(job, keep=name != "off") for name, job in by_policy.items()}
    except AccelsimError:
        reject()
    return by_policy["exact"].graph, runs


@settings(max_examples=30)
@given(asked())
def test_the_value_policies_agree_with_any_options(case: tuple[Graph, dict[str, Run]]) -> None:
    graph, runs = case
    one_timeline(runs)
    right_values(runs, graph)
    rows = energy_table(runs["off"])
    assert fsum(by_component(rows).values()) == pytest.approx(total_J(rows), rel=1e-12, abs=0)


def test_every_option_of_a_run_is_drawn_or_has_a_reason_not_to_be() -> None:
    """A new option is drawn by its type; one whose values nobody knows must be named in ``run_options``."""
    graph, chip = load_model("mlp"), load_chip("edu-4x4")
    for declared in (Request, Options):
        for entry in fields(declared):
            if entry.name not in NOT_DRAWN and entry.name != "per_channel":
                assert len(candidates(entry.name, str(entry.type), graph, chip)) >= 1
    drawn = {entry.name for declared in (Request, Options) for entry in fields(declared)} - NOT_DRAWN.keys()
    assert {"dtype", "scheme", "ranges", "sparsity", "edges", "fusion", "memory_model", "emulate"} <= drawn
