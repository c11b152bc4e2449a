"""Bars of the pattern model beside the bank model on random mixes of reads and writes, memory by memory."""

from __future__ import annotations

import numpy as np
import pytest

from accelsim.dram import bank
from accelsim.dram.mapping import ALIASES
from accelsim.dram.pattern import Pattern
from accelsim.spec.dram_device import device
from accelsim.spec.yaml.load_dram import list_drams, load_dram
from tests.validation.dram_mixes import errors

pytestmark = pytest.mark.xdist_group("compiled")  # one process compiles the loops over bursts

SEED, COUNTS = 2, (4_000,)
MEDIAN, P90 = 0.10, 0.30
"""Bars of |error|: of the median, and of the 90th percentile of the ten mixes (two spans, five shares of writes)."""
STREAM = 0.05


@pytest.mark.parametrize("name", list_drams())
def test_random_mixes_take_about_as_long_as_scheduled(name: str) -> None:
    pytest.importorskip("numba", reason="numba is not installed (extra `fast`)")
    found = errors(name, SEED, COUNTS)
    assert np.median(found) <= MEDIAN
    assert np.quantile(found, 0.9) <= P90


@pytest.mark.parametrize("mapping", ["rorabachcobg", *ALIASES])
@pytest.mark.parametrize("writes", [False, True])
def test_streams_of_ddr5(writes: bool, mapping: str) -> None:
    pytest.importorskip("numba", reason="numba is not installed (extra `fast`)")
    dev = device(load_dram("ddr5-4800"), "ddr5-4800", mapping=mapping)
    addresses = np.arange(20_000) * dev.geometry.access_B
    planned, scheduled = Pattern(dev).serve(addresses, writes), bank.serve(dev, addresses, writes)
    assert abs(planned.elapsed / scheduled.elapsed - 1) <= STREAM
