"""AWS Neuron documentation, NKI guide to the architecture of NeuronCore-v2 (read 2026-11): times of its engines.

The published cost model must come out of simulated runs of hwspecs/chips/neuroncore-v2.yaml: initiation interval
max(N, 64) cycles for a moving operand of N columns, fp32 four times slower, stationary operands loaded up to four times
faster than a multiplication of the same size and behind it, 91.8 TFLOPS in bf16.
"""

from __future__ import annotations

import pytest

from tests.helpers.fold_edges import folds_of
from tests.validation import neuroncore_v2
from tests.validation.anchors import published

INSTRUCTIONS = 172
COLUMNS = (1, 2, 31, 63, 64, 65, 127, 128, 129, 300, 511, 512)


@pytest.mark.parametrize("N", COLUMNS)
def test_initiation_interval(N: int) -> None:
    assert neuroncore_v2.interval(neuroncore_v2.multiply(N, "bf16")) == max(N, 64)


@pytest.mark.parametrize("N", COLUMNS)
def test_fp32_runs_at_a_quarter_of_the_rate(N: int) -> None:
    assert neuroncore_v2.interval(neuroncore_v2.multiply(N, "fp32")) == 4 * max(N, 64)


def test_stationary_operand_loads_four_times_faster_and_hidden() -> None:
    record = folds_of(neuroncore_v2.multiply(128, "bf16"))[0].stream
    assert record.rows / record.load == 4
    assert record.step == record.rows


def test_peak_in_bf16() -> None:
    found = list(neuroncore_v2.peak(published("neuroncore_v2")))
    assert [round(anchor.simulated, 1) for anchor in found] == [91.8, 91.8]


def test_check_passes() -> None:
    check = neuroncore_v2.neuroncore_v2(COLUMNS)
    assert check.equal == check.rows == 2 * len(COLUMNS) + INSTRUCTIONS + 4
    assert check.max < 1e-3


def test_check_tells_a_wrong_interval() -> None:
    """A published figure that the machine does not have is not equal, and is listed."""
    facts = {**published("neuroncore_v2"), "min_interval_cycles": 32}
    wrong, right = neuroncore_v2.intervals(facts, 40), neuroncore_v2.intervals(facts, 90)
    assert [anchor.holds for anchor in (*wrong, *right)] == [False, False, True, True]


@pytest.mark.parametrize("chip", neuroncore_v2.CHIPS)
def test_every_instruction_takes_the_published_cycles(chip: str) -> None:
    rows = published("neuroncore_v2")[chip]
    found = [anchor for row in rows for N in (48, 700) for anchor in neuroncore_v2.instruction(chip, row, N)]
    assert len(found) > len(rows) and all(anchor.holds for anchor in found), list(map(str, found))
    assert len({anchor.published for anchor in found}) > 4
