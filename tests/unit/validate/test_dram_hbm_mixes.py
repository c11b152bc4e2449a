"""Random mixes of reads and writes on HBM2 and HBM3, by the rules of Ramulator 2.1, through the bank model."""

from __future__ import annotations

import csv
import importlib.util
from pathlib import Path

import pytest

from accelsim.dram import bank
from accelsim.dram.traces import Trace, made
from tests.validation.dram_ranks import mix
from tests.validation.dram_replay import RAMULATOR2, device_of

pytestmark = pytest.mark.xdist_group("compiled")  # one process compiles the loops over bursts

GOLDEN = Path(__file__).parents[2] / "golden" / "dram"

CLOCKS, ACTIVATIONS = 0.01, 0.001
"""Bounds of the errors of a row."""

with (GOLDEN / "dram_hbm_mixes.csv").open(newline="", encoding="utf-8") as file:
    ROWS = list(csv.DictReader(file))


def trace_of(row: dict[str, str]) -> Trace:
    """The accesses of a row."""
    return made("rand_mix", 32) if row["trace"] == "rand_mix" else mix(int(row["write_percent"]), 32)


def test_rows_are_those_of_two_configurations() -> None:
    assert len(ROWS) == 14
    assert {row["config"] for row in ROWS} == {"HBM2_2000_8Gb_8ch", "HBM3_8ch"}
    for row in ROWS:
        addresses, writes, _ = trace_of(row)
        assert len(addresses) == int(row["accesses"])
        assert 0 <= writes.sum() - int(row["num_wr"]) <= 1  # two writes of one place that wait together are one


@pytest.mark.skipif(
    importlib.util.find_spec("numba") is None, reason="65,536 accesses take a minute without numba (extra `fast`)"
)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['config']}-{row['trace']}{row['write_percent']}")
def test_commands_meet_the_rows(row: dict[str, str]) -> None:
    one = device_of(RAMULATOR2, row["config"])
    assert one.controller.scheduler == "commands"
    addresses, writes, _ = trace_of(row)
    found = bank.serve(one, addresses, writes, injection=one.geometry.channels)
    assert found.elapsed == pytest.approx(int(row["cycles"]), rel=CLOCKS)
    assert found.counts["act"] == pytest.approx(int(row["num_act"]), rel=ACTIVATIONS)
