"""A run that takes longer than 64 bits of femtoseconds can say is refused; just below, its times are right."""

from __future__ import annotations

from unittest import mock

import pytest

import accelsim
from accelsim.errors import UsageError
from accelsim.time import NEVER

SLOW = ("clock=1 kHz", "peak={}")


@pytest.mark.parametrize(
    ("rows", "overrides"),
    [
        (4_400_000, SLOW),
        (10_000_000, SLOW),
        (256, ("memories.pcie_memory.memory.bandwidth=1 B/s",)),
        (256, ("memories.ddr3.memory.bandwidth=1 B/s",)),
    ],
)
def test_too_long(rows: int, overrides: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match=r"tpu-v1: gemm takes more than 4,611 s.*expected a smaller model"):
        accelsim.run(f"gemm?M={rows},N=256,K=256", "tpu-v1", values="off", set=overrides)


@pytest.mark.parametrize("chip", ["edu-4x4", "edu-cache", "edu-three-levels"])
def test_far_too_long(chip: str) -> None:
    """The peak of its array tells before a command is written."""
    writes = mock.patch("accelsim.compiler.lower.lower._lower_node", side_effect=AssertionError)
    with writes, pytest.raises(UsageError, match=f"{chip}: gpt3 takes more than 4,611 s"):
        accelsim.run("gpt3", chip, values="off", ignore_capacity=True)


def test_nearly_too_long() -> None:
    run = accelsim.run("gemm?M=4000000,N=256,K=256", "tpu-v1", values="off", set=SLOW)
    assert 0.9 * NEVER < run.time_fs < NEVER
    (array,) = [entry for entry in run.engines if entry.engine == "matrix"]
    assert array.busy == sum(stalls.get("active", 0) for stalls in run.step_stalls) == 4_000_000 * 10**12
