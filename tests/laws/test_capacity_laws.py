"""Laws of what a memory must hold at one time: between the largest tensor and all of them, whatever runs where."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given, settings

from accelsim.errors import OverCapacity
from accelsim.program.program import Program
from accelsim.workload.limits import limited
from tests.helpers.law_cases import Case, cases, changed, compiled

QUICK = settings(max_examples=40)


def moved(program: Program) -> dict[str, dict[object, int]]:
    """Memory -> everything that a command reads or writes there, constants of all cores as one -> bytes.

    What somebody outside converts lies with that somebody.
    """
    found: dict[str, dict[object, int]] = defaultdict(dict)
    for command in program.commands:
        if 0 <= command.op < len(program.steps) and program.steps[command.op].outside:
            continue
        for use in (*command.reads, *command.writes):
            region = program.regions[use.region]
            tensor = program.graph.tensors.get(region.name)
            same = tensor is not None and tensor.is_constant and region.id in program.presets
            found[region.memory][region.name if same else region.id] = region.size_B
    return found


@QUICK
@given(cases())
def test_the_peak_is_at_least_the_largest_tensor_and_at_most_all(case: Case) -> None:
    """Also: the terms are those of the memory; what is read and written at one step is there together."""
    program, there = case.program, moved(case.program)
    assert set(program.needs) >= set(case.chip.memories)
    host_B = sum(tensor.nbytes for step in program.steps if step.engine == "host"
                 for tensor in program.graph.ins(step.node) if tensor.is_constant)  # fmt: skip
    for name, need in program.needs.items():
        sizes = there.get(name, {}).values()
        padding_B = need.weights_B if case.chip.matrix is not None and case.chip.matrix.padded_tiles else 0
        assert max(sizes, default=0) <= need.needed_B <= sum(sizes) + padding_B + host_B, name
        assert min(need.weights_B, need.states_B, need.activations_B) >= 0
        assert not need.activations_B or need.layer in {step.name for step in program.steps}


@settings(QUICK, max_examples=20)
@given(cases(pinned=False))
def test_a_memory_of_just_that_size_is_enough_and_one_byte_less_is_not(case: Case) -> None:
    for name, need in case.program.needs.items():
        if name not in case.chip.memories or need.needed_B < 2:
            continue
        enough = changed(case.chip, f"memories.{name}.memory", capacity=need.needed_B)
        assert compiled(case.graph.copy(), enough, case.program.dtype, **case.options).program.needs[name].fits
        less = changed(case.chip, f"memories.{name}.memory", capacity=need.needed_B - 1)
        with pytest.raises(OverCapacity) as caught:
            compiled(case.graph.copy(), less, case.program.dtype, **case.options)
        assert [told.memory for told in caught.value.needs] == [name]
        with limited(ignore_capacity=True):
            program = compiled(case.graph.copy(), less, case.program.dtype, **case.options).program
        assert program.commands == case.program.commands
        assert program.notes[-1].startswith(f"capacity ignored: {name}:")
