"""Energy of commands and standby against what DRAMsim3 charges for its own counts, and laws of the totals."""

from __future__ import annotations

import csv
from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.dram.device import CommandEnergy, Controller, Device, Geometry
from accelsim.dram.energy import PARTS, Energy, energy
from accelsim.dram.served import COUNTS, Served
from accelsim.errors import UsageError
from tests.validation.dram import ENERGY_COLUMNS
from tests.validation.golden import golden


class Currents(NamedTuple):
    """A configuration of DRAMsim3 (configs/NAME.ini): volts, mA, clocks; ``devices`` of a rank, clocks of a burst."""

    devices: int
    V: float
    IDD0: float
    IDD2N: float
    IDD3N: float
    IDD4R: float
    IDD4W: float
    IDD5: float
    tRAS: int
    tRP: int
    tRFC: int
    burst: int


DDR3_1600 = Currents(8, 1.35, 67, 36, 51, 125, 125, 245, 28, 11, 280, 4)
DDR4_3200 = Currents(8, 1.2, 57, 37, 52, 168, 150, 250, 52, 22, 560, 4)
DDR4_2400 = Currents(8, 1.2, 48, 34, 43, 135, 123, 250, 39, 17, 420, 4)
GDDR5 = Currents(4, 1.5, 71, 60, 61, 248, 231, 286, 56, 24, 74, 2)
GDDR6 = Currents(8, 1.35, 71, 60, 61, 248, 231, 286, 54, 24, 126, 1)
HBM2 = Currents(1, 1.2, 65, 40, 55, 390, 500, 250, 34, 14, 260, 2)

CURRENTS = {
    "DDR3_8Gb_x8_1600": DDR3_1600,
    "DDR3_aligned": DDR3_1600,
    "DDR4_8Gb_x8_2400": DDR4_2400,
    "DDR4_8Gb_x8_3200": DDR4_3200,
    "DDR4_3200_aligned": DDR4_3200,
    "GDDR5_8Gb_x32": GDDR5,
    "GDDR6_8Gb_x16": GDDR6,
    "HBM2_8Gb_x128": HBM2,
}


def of_currents(one: Currents, clock_s: float) -> CommandEnergy:
    """Joules of each command above standby, per rank."""
    mA = one.devices * one.V * 1e-3
    act = one.IDD0 * (one.tRAS + one.tRP) - one.IDD3N * one.tRAS - one.IDD2N * one.tRP
    return CommandEnergy(
        act_J=mA * clock_s * act,
        read_J=mA * clock_s * (one.IDD4R - one.IDD3N) * one.burst,
        write_J=mA * clock_s * (one.IDD4W - one.IDD3N) * one.burst,
        refresh_J=mA * clock_s * (one.IDD5 - one.IDD3N) * one.tRFC,
        refresh_bank_J=0.0,
        open_W=mA * one.IDD3N,
        closed_W=mA * one.IDD2N,
    )


def device(
    channels: int = 1, ranks: int = 1, access_B: int = 64, clock_fs: int = 1_000_000, table: CommandEnergy | None = None
) -> Device:
    geometry = Geometry(channels, ranks, 4, 4, 65536, 128, access_B)
    return Device("name", "DDR4", geometry, Controller("ro"), clock_fs, 4, {}, (), energy=table)


def dramsim3() -> list[dict[str, str]]:
    with golden("dram/dram_golden.csv").open(newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row["simulator"] == "DRAMsim3"]


@pytest.mark.parametrize("row", dramsim3(), ids=lambda row: f"{row['config']}-{row['trace']}")
def test_energies_are_those_of_dramsim3(row: dict[str, str]) -> None:
    """Its own command counts give its energies; clocks with an open bank follow from one of its standby columns, the
    other column and the total must then be met."""
    clock_fs = round(float(row["tCK_ns"]) * 1e6)
    table = of_currents(CURRENTS[row["config"].partition("@")[0]], clock_fs * 1e-15)
    one = device(int(row["channels"]), int(row["ranks"]), int(row["access_bytes"]), clock_fs, table)
    open_clocks = round(float(row["active_standby_energy_pJ"]) * 1e-12 / (table.open_W * clock_fs * 1e-15))
    counts = dict.fromkeys(COUNTS, 0) | {name: int(row[f"num_{name}"]) for name in ("act", "pre", "rd", "wr", "ref")}
    found = energy(Served(0, int(row["cycles"]), counts, open_clocks, 0), one)
    for part, column in ENERGY_COLUMNS.items():
        assert found.parts_J[part] * 1e12 == pytest.approx(float(row[column]), rel=1e-6, abs=0.1)
    assert found.die_J * 1e12 == pytest.approx(float(row["total_energy_pJ"]), rel=1e-6, abs=0)
    assert found.mean_W == pytest.approx(float(row["mean_power_W"]), rel=1e-4)
    # DRAMsim3's figure is per bit asked for: it never issues the last few writes, and merges equal reads
    assert found.pJ_per_bit == pytest.approx(float(row["pJ_per_bit"]), rel=1e-3, abs=0)
    assert found.bits == 8 * int(row["access_bytes"]) * (counts["rd"] + counts["wr"])


def test_golden_has_every_row() -> None:
    assert len(dramsim3()) == 73


TABLE = CommandEnergy(1e-9, 2e-9, 3e-9, 4e-7, 5e-8, 0.5, 0.25, 6e-10, 7e-10)
WHOLE = st.integers(0, 1 << 30)


@given(st.fixed_dictionaries(dict.fromkeys(COUNTS, WHOLE)), WHOLE, st.integers(1, 8), st.integers(1, 4), st.data())
def test_parts_add_up_and_nothing_is_negative(
    counts: dict[str, int], elapsed: int, channels: int, ranks: int, data: st.DataObject
) -> None:
    open_clocks = data.draw(st.integers(0, elapsed * channels * ranks))
    bus = data.draw(st.integers(0, elapsed * channels))
    one = device(channels, ranks, table=TABLE)
    found = energy(Served(7, 7 + elapsed, counts, open_clocks, bus), one)
    assert tuple(found.parts_J) == PARTS
    assert min(found.parts_J.values()) >= 0
    assert found.die_J == pytest.approx(sum(found.parts_J.values()), rel=1e-9, abs=0)
    assert 0 <= found.idle_J <= found.background_J <= found.die_J * (1 + 1e-12)
    assert 0 <= found.idle_share <= 1 + 1e-12
    assert found.pJ_per_word == 32 * found.pJ_per_bit
    if found.bits:
        assert found.pJ_per_bit * found.bits * 1e-12 == pytest.approx(found.die_J, rel=1e-9, abs=0)


def test_every_part_is_priced_by_its_own_figure() -> None:
    counts = dict.fromkeys(COUNTS, 0) | {"act": 10, "rd": 100, "wr": 1000, "ref": 3, "refpb": 5}
    found = energy(Served(0, 1000, counts, 400, 600), device(2, 2, table=TABLE))
    assert found.parts_J == pytest.approx(
        {
            "activate": 1e-8,
            "read": 2e-7,
            "write": 3e-6,
            "refresh": 3 * 4e-7 + 5 * 5e-8,
            "open_standby": 400e-9 * 0.5,
            "closed_standby": 3600e-9 * 0.25,
        },
        rel=1e-9,
        abs=0,
    )
    assert found.io_J == pytest.approx(100 * 6e-10 + 1000 * 7e-10, rel=1e-9, abs=0)
    assert found.seconds == pytest.approx(1e-6)
    assert found.bits == 1100 * 512
    assert found.bus_share == pytest.approx(0.3)
    assert found.background_J == pytest.approx(1.1e-6, rel=1e-9, abs=0)
    assert found.idle_J == pytest.approx(0.7 * 1.1e-6, rel=1e-9, abs=0)
    assert found.mean_W == pytest.approx(found.die_J / 1e-6, rel=1e-9, abs=0)


def test_nothing_moved_in_no_time() -> None:
    found = energy(Served(5, 5, dict.fromkeys(COUNTS, 0), 0, 0), device(table=TABLE))
    assert (found.die_J, found.pJ_per_bit, found.mean_W, found.idle_share, found.bus_share) == (0, 0, 0, 0, 0)


def test_an_empty_bus_is_all_idle() -> None:
    found = energy(Served(0, 100, dict.fromkeys(COUNTS, 0), 0, 0), device(table=TABLE))
    assert found.idle_share == 1.0
    assert found.mean_W == pytest.approx(0.25)


def test_io_is_not_part_of_the_dies() -> None:
    counts = dict.fromkeys(COUNTS, 0) | {"rd": 9}
    with_io = energy(Served(0, 100, counts, 0, 36), device(table=TABLE))
    without = energy(Served(0, 100, counts, 0, 36), device(table=replace(TABLE, io_read_J=0.0)))
    assert isinstance(with_io, Energy)
    assert with_io.die_J == without.die_J
    assert (with_io.io_J, without.io_J) == (pytest.approx(9 * 6e-10, rel=1e-9, abs=0), 0.0)


def test_memory_without_currents_has_no_energy() -> None:
    with pytest.raises(UsageError, match="'name' states no currents"):
        energy(Served(0, 1, dict.fromkeys(COUNTS, 0), 0, 0), device())
