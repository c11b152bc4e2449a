"""The rehearsal of a step alone against the machine: equal to the femtosecond, whatever the step consists of."""

from __future__ import annotations

from contextlib import suppress
from math import inf
from typing import Any

import numpy as np
import pytest

import accelsim
from accelsim.engines.base import Lowering
from accelsim.engines.systolic.mapping import search, space
from accelsim.engines.systolic.mapping.decide import product_program, taped
from accelsim.engines.systolic.mapping.rehearsal import Rehearsal, tape_of
from accelsim.errors import Infeasible
from accelsim.machine.simulate import simulate
from accelsim.mapping.search import solve
from accelsim.program.program import Program
from accelsim.program.roles import Roles
from accelsim.workload.ops.base import Gemm
from tests.unit.engines.systolic.test_mapping_quality import SMALL, product

MODELS = [
    ("cnn", "edu-4x4", {}), ("cnn", "tpu-v1", {}), ("digits-cnn", "neuroncore-v2", {}), ("gpt", "edu-mixed", {}),
    ("moe", "systolic-generic", {}), ("mobilenet?width=25,resolution=32", "edu-tensor-core", {}),
    ("bert?layers=1,hidden=64,heads=4,seq=9", "edu-4x4", {}), ("cnn", "edu-4x4", {"dataflow": "os"}),
    ("cnn", "edu-4x4", {"dataflow": "is", "array_timing": "sequential"}), ("cnn", "edu-tensor-core", {"sparsity": "2:4"}),
    ("cnn", "edu-4x4", {"set": ["matrix.count=2"]}),
]  # fmt: skip
"""Model, chip and options: convolutions, groups, side operands, experts, other dataflows, sparse weights, two arrays."""

FRAMING = 1e-3
"""Share of the time that packets of a link may take, which no rehearsal counts."""


def agrees(program: Program) -> bool:
    """Return whether the rehearsal takes what the machine takes; and no longer with weights that are there."""
    roles = Roles(program.chip)
    tape = tape_of(program, roles)
    assert tape is not None
    taken = Rehearsal(tape, roles).time_fs()
    ahead = Rehearsal(tape, roles, ahead=True).time_fs()
    assert taken is not None and ahead is not None and ahead <= taken
    assert Rehearsal(tape, roles).time_fs(taken) == taken  # who asks for no more than that learns it
    assert Rehearsal(tape, roles).time_fs(taken - 1) is None
    time_fs = simulate(program, None, "off").time_fs
    framed = any(memory.link is not None and memory.link.bandwidth < inf for memory in program.chip.memories.values())
    return 0 <= time_fs - taken <= (FRAMING * time_fs if framed else 0)


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_products_of_all_leading_mappings(case: Any) -> None:
    """The ten best candidates of each."""
    one = product(*case)
    problem = search.ProductSearch(one.step, one.gemm)
    tilings = problem.tilings(search.Tilings, False)
    for leader in solve(tilings, "fast", leaders=10).leaders:
        mapping = tilings.mappings([leader.choices], problem.kept)(0)
        program = product_program(one.step, one.gemm, mapping)
        assert agrees(program)
        roles = one.step.layout.roles
        assert taped(one.step, one.gemm, mapping, {}).tape == tape_of(program, roles)  # written without commands
        assert tape_of(program, roles) is not None


@pytest.mark.parametrize("case", SMALL, ids=str)
@pytest.mark.parametrize("most", [1, 7, 40])
def test_candidates_that_a_bound_rules_out_are_no_leaders(case: Any, most: int) -> None:
    """The leaders of all candidates, each scored."""
    one = product(*case)
    problem = search.ProductSearch(one.step, one.gemm)
    every, few = problem.tilings(search.Tilings, False), problem.tilings(search.Tilings, False)
    few.leaders = most
    expected, found = solve(every, "fast", leaders=most), solve(few, "fast", leaders=most)
    assert (found.leaders, found.tried) == (expected.leaders, expected.tried)
    assert len(found.leaders) == most < found.scored <= expected.scored


@pytest.mark.parametrize("case", SMALL[:2], ids=str)
def test_walks_look_up_what_they_would_work_out(case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Costs, and the room that candidates lacked."""
    one = product(*case)
    problem, rng = search.ProductSearch(one.step, one.gemm), np.random.default_rng(1)
    asked, looked = (problem.tilings(search.Tilings, True) for _ in range(2))
    choices = rng.integers(0, np.array(asked.sizes), (400, len(asked.sizes)))
    limit = float(np.sort(asked.costs(choices, inf)[0][:, 0])[40])
    looked.costs(choices, inf)
    others = rng.integers(0, np.array(asked.sizes), (800, len(asked.sizes)))
    monkeypatch.setattr(space, "MOST_AT_ONCE", 0)
    expected, scored = asked.costs(others, limit)
    monkeypatch.undo()
    found, also = looked.costs(others, limit)
    assert np.array_equal(found, expected) and 0 < scored == also < len(others)
    assert (looked.needs, looked.wants, looked.misfits) == (asked.needs, asked.wants, asked.misfits)


@pytest.mark.parametrize(("model", "chip", "options"), MODELS, ids=str)
def test_steps_of_models(model: str, chip: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each product where it comes in a model."""
    assert_steps_agree(model, chip, options, monkeypatch)


@pytest.mark.parametrize("pace", ["2", "3/2"])
def test_formats_whose_rows_take_several_cycles(pace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"set": [f"matrix.formats.int8.cycles_per_row={pace}"]}
    assert_steps_agree("mlp?hidden=16,layers=2", "edu-4x4", options, monkeypatch)


def assert_steps_agree(model: str, chip: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = search.choose
    compared: list[bool] = []

    def watched(step: Lowering, gemm: Gemm) -> Any:
        choice = chosen(step, gemm)
        with suppress(Infeasible):  # spilling makes room first
            compared.append(agrees(product_program(step, gemm, choice.mapping)))
        return choice

    monkeypatch.setattr(search, "choose", watched)
    accelsim.run(model, on=chip, values="off", **options)
    assert compared and all(compared)


def test_commands_that_only_the_machine_knows() -> None:
    """A layer on the host is none of them."""
    program = accelsim.run("moe", on="edu-4x4", values="off").program
    hosted = [command for command in program.commands if command.kind == "Host"]
    assert not hosted or tape_of(program, Roles(program.chip)) is None
