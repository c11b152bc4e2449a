"""Memories of GPUs by their banks: stacks and devices in any number, at the rates of the boards."""

from __future__ import annotations

import numpy as np
import pytest

from accelsim.dram.bank import Bank
from accelsim.dram.pattern import Pattern
from accelsim.spec.dram_device import device
from accelsim.spec.dram_memory import figures
from accelsim.spec.memory import Memory
from accelsim.spec.yaml.load import load_chip
from tests.helpers.chips import GPUS
from tests.validation.gpu_models import DEVICES

pytestmark = pytest.mark.xdist_group("compiled")  # one process compiles the loops over bursts

NOT_FOR_USE_B = {"h200-sxm": 3 << 30}
"""What the banks have besides the capacity that is sold."""


def memory(chip: str) -> Memory:
    """Where the activations of a GPU are."""
    return next(each.memory for each in load_chip(chip).memories.values() if "activations" in each.holds)


@pytest.mark.parametrize("chip", GPUS)
def test_every_gpu_has_the_banks_of_its_memory(chip: str) -> None:
    found = memory(chip)
    assert found.dram is not None
    made = figures(found.dram)
    assert made.capacity == found.capacity + NOT_FOR_USE_B.get(chip, 0)
    assert made.bandwidth * made.channels == pytest.approx(found.peak_Bps, rel=0.02)
    assert 0.7 < made.efficiency <= 1


@pytest.mark.parametrize("chip", sorted(set(DEVICES.values()) - {"p4"}))
def test_a_stream_takes_as_long_by_patterns_as_by_banks(chip: str) -> None:
    spec = memory(chip).dram
    assert spec is not None
    dev = device(spec)
    addresses = np.arange(40_000, dtype=np.int64) * dev.geometry.access_B
    planned, scheduled = Pattern(dev).serve(addresses), Bank(dev).serve(addresses, False)
    assert planned.end == pytest.approx(scheduled.end, rel=0.05)
    assert planned.counts["rd"] == scheduled.counts["rd"] == len(addresses)
