"""The tables of the standards: their form, their expressions, and a few rows worked out by hand."""

from __future__ import annotations

from typing import get_args

import pytest

from accelsim.dram.device import Command, Device, Level
from accelsim.dram.standards import DEFAULTS, STANDARDS, Standard, clocks, names
from accelsim.spec.base import declared
from accelsim.spec.dram import Dram, Timing
from accelsim.spec.dram_device import device, timing_of
from accelsim.spec.yaml.parts import load_dram
from tests.validation.golden import anchor

ACT, PRE, RD, WR, REF, REFPB = Command
SIBLING, RANK, GROUP, BANK = Level
PARAMETERS = {name for name in Timing.model_fields if name not in ("tCK", "source", "as_of", "note")}
STANDARD_LIST = list(STANDARDS.values())


def made(name: str, *overrides: str) -> Device:
    return device(load_dram(name, overrides))


def test_a_file_may_name_every_standard_and_no_other() -> None:
    assert get_args(declared(Dram, "standard").annotation) == tuple(STANDARDS)


@pytest.mark.parametrize("standard", STANDARD_LIST, ids=lambda each: each.name)
def test_rows_speak_of_known_commands_levels_and_parameters(standard: Standard) -> None:
    known = {*standard.known, *DEFAULTS, "BL"}
    for row in standard.constraints:
        assert row.level.upper() in Level.__members__
        assert {*row.preceding.split(), *row.following.split()} <= set(standard.commands)
        assert names(row.latency) <= known
        assert row.window in (0, 4, 32)
    assert set(standard.known) <= PARAMETERS
    assert len(set(standard.constraints)) == len(standard.constraints)
    assert all(burst % standard.transfers_per_clock == 0 for burst in standard.bursts)


@pytest.mark.parametrize("standard", STANDARD_LIST, ids=lambda each: each.name)
def test_every_bank_command_waits_for_what_must_precede_it(standard: Standard) -> None:
    pairs = {
        (before, after)
        for row in standard.constraints
        if row.level == "bank"
        for before in row.preceding.split()
        for after in row.following.split()
    }
    needed = {("ACT", "RD"), ("ACT", "WR"), ("ACT", "PRE"), ("RD", "PRE"), ("WR", "PRE"), ("PRE", "ACT")}
    assert needed <= pairs
    assert standard.bank_refresh == (("REFPB", "ACT") in pairs)


def test_every_parameter_matters_to_some_standard() -> None:
    used = {name for standard in STANDARD_LIST for row in standard.constraints for name in names(row.latency)}
    used |= {name for expression in DEFAULTS.values() for name in names(expression)}
    intervals = {"tREFI", "tREFIpb"}  # when a refresh is due, not what it waits for
    assert used | intervals | {"tRCD"} >= PARAMETERS


@pytest.mark.parametrize(
    ("expression", "value"),
    [("a", 3), ("a + 2*b - 1", 12), ("max(a, b + 1)", 6), ("max(a, max(b, 9)) * 2", 18), ("7", 7)],
)
def test_expressions(expression: str, value: int) -> None:
    assert clocks(expression, {"a": 3, "b": 5}) == value


@pytest.mark.parametrize(
    "expression", ["a / 2", "min(a, 1)", "__import__('os')", "a.real", "1.5", "a if a else 1", "max()"]
)
def test_what_is_no_latency(expression: str) -> None:
    with pytest.raises(ValueError, match="does not belong"):
        clocks(expression, {"a": 3})


def test_what_is_no_expression_and_unknown_names() -> None:
    with pytest.raises(ValueError, match="no expression"):
        clocks("a +", {"a": 1})
    with pytest.raises(KeyError):
        clocks("b", {"a": 1})


def test_rows_of_ddr4_3200() -> None:
    """DRAMsim3 configs/DDR4_8Gb_x8_3200.ini by the formulas of src/timing.cc: CL 22, CWL 16, burst 4, tWTR 4 and 12."""
    wait = made("ddr4-3200").latency
    assert wait[BANK][ACT][RD] == wait[BANK][ACT][WR] == 22
    assert (wait[BANK][ACT][PRE], wait[BANK][ACT][ACT], wait[BANK][PRE][ACT]) == (52, 74, 22)
    assert (wait[BANK][RD][PRE], wait[BANK][WR][PRE]) == (12, 16 + 4 + 24)
    assert (wait[RANK][RD][RD], wait[GROUP][RD][RD], wait[RANK][WR][WR], wait[GROUP][WR][WR]) == (4, 8, 4, 8)
    assert (wait[RANK][RD][WR], wait[RANK][WR][RD], wait[GROUP][WR][RD]) == (12, 24, 32)
    assert (wait[RANK][ACT][ACT], wait[GROUP][ACT][ACT]) == (4, 8)
    assert wait[SIBLING][RD][RD] == 5 and wait[SIBLING][WR][WR] == 4
    assert (wait[SIBLING][RD][WR], wait[SIBLING][WR][RD]) == (22 + 4 + 1 - 16, 0)
    assert (wait[RANK][PRE][REF], wait[RANK][REF][ACT], wait[RANK][REF][REF]) == (22, 560, 560)
    assert made("ddr4-3200").windows == ((4, 34),)


def test_writes_of_ddr5_to_one_group_are_far_apart() -> None:
    wait = made("ddr5-4800").latency
    assert (wait[GROUP][WR][WR], wait[GROUP][RD][RD], wait[RANK][WR][WR]) == (48, 12, 8)


def test_ddr3_has_no_groups_and_gddr_a_window_of_32() -> None:
    assert not any(any(row) for row in made("ddr3-1600").latency[GROUP])
    assert made("gddr5").windows == ((4, 40), (32, 360))
    assert made(anchor("ramulator2-gddr6-14000")).windows == ((4, 29),)


def test_hbm3_stated_turnaround_and_stack_ids() -> None:
    wait = made("hbm3").latency
    assert wait[RANK][RD][WR] == 20 == wait[SIBLING][RD][WR]
    assert (wait[SIBLING][RD][RD], wait[SIBLING][WR][WR]) == (3, 2)
    assert wait[RANK][RD][RD] == 2 and wait[GROUP][RD][RD] == 4
    assert wait[SIBLING][WR][RD] == 10 + 2 + 7 and wait[GROUP][WR][RD] == 10 + 2 + 10
    assert (wait[BANK][ACT][RD], wait[BANK][ACT][WR], wait[BANK][ACT][ACT]) == (31, 15, 72)


def test_refresh_of_single_banks() -> None:
    wait = made("lpddr5").latency
    assert (wait[BANK][REFPB][ACT], wait[BANK][PRE][REFPB]) == (96, 15)
    assert (wait[RANK][REFPB][REFPB], wait[RANK][REFPB][ACT]) == (72, 6)
    assert not any(made("ddr4-3200").latency[level][REFPB][ACT] for level in Level)


def test_additive_latency_moves_the_command_but_not_the_data() -> None:
    """With AL a RD is sent earlier, waits in the device, and precharge waits for it (JESD79-3)."""
    plain, posted = made("ddr3-1600"), made("ddr3-1600", "timing.AL=9 tCK")
    assert posted.unloaded_read == plain.unloaded_read
    assert posted.latency[BANK][ACT][RD] == plain.latency[BANK][ACT][RD] - 9
    assert posted.timing["CL"] == plain.timing["CL"] + 9
    for level, before, after, more in (
        (BANK, RD, PRE, 9), (BANK, WR, PRE, 9), (RANK, RD, WR, 0), (RANK, WR, RD, 0), (SIBLING, RD, WR, 0),
    ):  # fmt: skip
        assert posted.latency[level][before][after] == plain.latency[level][before][after] + more


def test_times_are_rounded_up_to_clocks() -> None:
    t = timing_of(load_dram("ddr3-2133"))  # 0.9375 ns
    assert (t["tRAS"], t["tRRD_S"], t["tFAW"], t["tREFI"]) == (36, 6, 27, 8320)
    assert timing_of(load_dram("ddr3-2133", ["timing.tRAS=33.75 ns"]))["tRAS"] == 36
    assert timing_of(load_dram("ddr3-2133", ["timing.tRAS=33.76 ns"]))["tRAS"] == 37
