"""Clocks of a vector unit by hand: lanes, chained functions, latency, what the buffers beside it can move."""

from __future__ import annotations

from typing import Any

import pytest

from accelsim.engines.simd.clocks import vector_clocks
from accelsim.spec.yaml.load import load_chip

CHIP = load_chip("edu-4x4")
"""Four lanes, buffers that move 16 B a clock."""


def clocks(*functions: tuple[str, int], read_B: int = 0, write_B: int = 0, **fields: Any) -> int:
    unit = CHIP.engines["vector"].model_copy(update=fields)
    return vector_clocks(CHIP, unit, list(functions), read_B, write_B, "accumulators", "act_sram")


@pytest.mark.parametrize(("elements", "expected"), [(1, 1), (4, 1), (5, 2), (8, 2), (9, 3)])
def test_lanes_take_elements_in_turns_after_the_latency(elements: int, expected: int) -> None:
    assert clocks(("Relu", elements)) == expected
    assert clocks(("Relu", elements), latency=7) == 7 + expected
    assert clocks(("Pow", elements)) == 2 * expected  # two clocks a lane


def test_chained_functions_take_the_slowest_others_their_sum() -> None:
    functions = ("Relu", 16), ("Pow", 16), ("Add", 4)
    assert clocks(*functions) == 4 + 8 + 1
    assert clocks(*functions, chained=True) == 8


def test_buffers_set_the_pace_where_they_are_slower() -> None:
    assert clocks(("Relu", 4), read_B=33) == clocks(("Relu", 4), write_B=33) == 3
    assert clocks(("Relu", 4), read_B=33, clock=10 * CHIP.clock, latency=2) == 2 + 3 * 10
    assert clocks() == 1  # a command with nothing to do
