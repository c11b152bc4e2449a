"""The pattern model beside the bank model, which schedules every command, on controllers and streams drawn at random."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from accelsim.dram.bank import Bank
from accelsim.dram.device import Device
from accelsim.dram.pattern import Pattern
from accelsim.spec.dram_device import device
from accelsim.spec.yaml.parts import load_dram
from accelsim.types import Array

pytestmark = pytest.mark.xdist_group("compiled")  # one process compiles the loops over bursts

MEMORIES = ("ddr3-1600", "ddr4-2400", "ddr5-4800", "lpddr4-2400", "gddr6-14000", "hbm1-1000", "hbm2-2000", "hbm3-6400")
CASES = 200


def controller(rng: np.random.Generator) -> dict[str, Any]:
    """Any controller with a window that is worth the name."""
    choices: dict[str, list[Any]] = {
        "window": [8, 16, 32, 64],
        "page_policy": ["open", "closed", "capped", "timeout"],
        "cap": [4, 8],
        "timeout": [50, 1000],
        "act_clocks": [0, 1, 2],
        "mapping": ["row-bank-column", "bank-group-lowest", "column-lowest", "mop4", "bank-xor"],
    }
    return {name: values[rng.integers(len(values))] for name, values in choices.items()}


def stream(rng: np.random.Generator, dev: Device) -> tuple[Array, Array]:
    """Stretches, strides and random accesses, reads and writes in turn or mixed."""
    span = int(rng.choice([1000, 100_000, 2**22]))
    lines, writes = [], []
    for _ in range(20):
        count = int(rng.integers(1, 200))
        stretch = rng.integers(span) + np.arange(count) * rng.choice([1, 1, 2, 16])
        lines.append(stretch if rng.random() < 0.5 else rng.integers(0, span, count))
        writes.append(rng.random(count) < rng.choice([0.0, 0.0, 0.4, 1.0]))
    return np.concatenate(lines) * dev.geometry.access_B % dev.geometry.capacity_B, np.concatenate(writes)


def test_most_of_them_take_as_long() -> None:
    pytest.importorskip("numba", reason="numba is not installed (extra `fast`)")
    rng = np.random.default_rng(7)
    ratios = []
    for case in range(CASES):
        name = MEMORIES[case % len(MEMORIES)]
        dev = device(load_dram(name), name, **controller(rng))
        asked = stream(rng, dev)
        planned, scheduled = Pattern(dev).serve(*asked), Bank(dev).serve(*asked)
        ratios.append(planned.end / scheduled.end)
        found = planned.counts
        assert found["hits"] + found["misses"] + found["conflicts"] == len(asked[0]) and min(found.values()) >= 0
    assert abs(float(np.median(ratios)) - 1) < 0.03
    assert np.mean(np.abs(np.array(ratios) - 1) < 0.15) > 0.85
    assert min(ratios) > 0.6 and max(ratios) < 1.7
