"""Bars of the pattern model beside the bank model on random mixes of reads and writes, memory by memory."""

from __future__ import annotations

import numpy as np
import pytest

from accelsim.dram import bank
from accelsim.dram.mapping import ALIASES
from accelsim.dram.pattern import Pattern
from accelsim.spec.dram_device import device
from accelsim.spec.yaml.parts import list_drams, load_dram
from tests.validation.dram_mixes import errors

pytestmark = pytest.mark.xdist_group("compiled")  # one process compiles the loops over bursts

SEED, COUNTS = 2, (65_536,)
BOUND = 0.05
"""Largest |error| of the ten mixes (two spans, five shares of writes) and of a stream."""


@pytest.mark.parametrize("name", list_drams())
def test_random_mixes_take_about_as_long_as_scheduled(name: str) -> None:
    pytest.importorskip("numba", reason="numba is not installed (extra `fast`)")
    assert np.max(errors(name, SEED, COUNTS)) <= BOUND


@pytest.mark.parametrize("mapping", ["rorabachcobg", *ALIASES])
@pytest.mark.parametrize("writes", [False, True])
def test_streams_of_ddr5(writes: bool, mapping: str) -> None:
    pytest.importorskip("numba", reason="numba is not installed (extra `fast`)")
    dev = device(load_dram("ddr5-4800"), "ddr5-4800", mapping=mapping)
    addresses = np.arange(200_000) * dev.geometry.access_B
    planned, scheduled = Pattern(dev).serve(addresses, writes), bank.serve(dev, addresses, writes)
    assert abs(planned.elapsed / scheduled.elapsed - 1) <= BOUND
