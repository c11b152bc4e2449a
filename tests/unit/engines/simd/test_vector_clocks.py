"""Clocks of a vector unit by hand: lanes, chained functions, latency, what the buffers beside it can move."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.engines.registry import ENGINES
from accelsim.engines.simd.spec import OperandPaces
from accelsim.program.roles import units
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.graph import Graph, Node, Tensor

CHIP = load_chip("edu-4x4")
"""Four lanes, buffers that move 16 B a clock."""


def clocks(
    *functions: tuple[str, int], read_B: int = 0, write_B: int = 0, source: str = "accumulators",
    target: str = "act_sram", paces: Any = None, **fields: Any,
) -> int:  # fmt: skip
    unit = CHIP.engines["vector"].model_copy(update=fields)
    return unit.command_clocks(CHIP, list(functions), read_B, write_B, source, target, paces)


@pytest.mark.parametrize(("elements", "expected"), [(1, 1), (4, 1), (5, 2), (8, 2), (9, 3)])
def test_lanes_take_elements_in_turns_after_the_latency(elements: int, expected: int) -> None:
    assert clocks(("Relu", elements)) == expected
    assert clocks(("Relu", elements), latency=7) == 7 + expected
    assert clocks(("Pow", elements)) == 2 * expected  # two clocks a lane


def test_a_command_takes_its_least_and_the_paces_of_its_operands() -> None:
    assert clocks(("Relu", 8), min_interval=64, latency=7) == 7 + 64
    assert clocks(("Relu", 400), min_interval=64) == 100
    assert clocks(("Relu", 400), ("Add", 4), paces=[Fraction(1, 2), 3]) == 50 + 3
    rows = [{"tensors": 2, "formats": ["bf16"], "functions": {"Add": "1/2"}}, {"tensors": 2, "functions": {"Add": 2}}]
    unit = CHIP.engines["vector"].model_copy(update={"operands": [OperandPaces.model_validate(row) for row in rows]})
    found = [unit.pace("Add", *asked) for asked in (({"bf16"}, 2), ({"bf16", "fp32"}, 2), ({"bf16"}, 1))]
    assert found == [Fraction(1, 2), 2, 1]


def test_chained_functions_take_the_slowest_others_their_sum() -> None:
    functions = ("Relu", 16), ("Pow", 16), ("Add", 4)
    assert clocks(*functions) == 4 + 8 + 1
    assert clocks(*functions, chained=True) == 8


def test_buffers_set_the_pace_where_they_are_slower() -> None:
    assert clocks(("Relu", 4), read_B=33) == clocks(("Relu", 4), write_B=33) == 3
    assert clocks(("Relu", 4), read_B=33, clock=10 * CHIP.clock, latency=2) == 2 + 3 * 10
    assert clocks() == 1  # a command with nothing to do
    assert clocks(read_B=33, source="dram") == clocks(write_B=33, target="") == 1  # no buffer, no pace


def test_chained_units_have_only_lanes_to_gain() -> None:
    for chained in (False, True):
        chip = load_chip("edu-4x4", [f"vector.chained={str(chained).lower()}"])
        found = ENGINES["simd"].improvements(chip, units(chip)["vector"])
        names = [override.split("=")[0] for improvement in found for override in improvement.sets]
        assert names == ["vector.lanes"] + ["vector.chained"] * (not chained)


def test_chunks_are_the_largest_of_which_two_of_each_tensor_fit() -> None:
    """Operand and result of 32 KiB each: quarters fill a buffer of 32 KiB, and do not fit where it has less."""
    size_B = 32 * 1024
    tensors = {name: Tensor(name, (size_B // 4,)) for name in "xy"}
    graph = Graph("relu", [Node("relu", "Relu", ["x"], ["y"])], tensors, ["x"], ["y"])
    for capacity_B, chunks in ((size_B, 4), (size_B - 16, 8)):
        chip = load_chip("edu-4x4", [f"act_sram.capacity={capacity_B} B"])
        program = compile(graph, chip, Options(values="off", dtype="fp32"))
        assert sum(command.kind == "Vector" for command in program.commands) == chunks
