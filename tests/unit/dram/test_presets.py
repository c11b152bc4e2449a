"""Every DRAM preset: it loads, its numbers agree, and the timed model reaches its peak and its latency."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from accelsim.dram.device import Device, Level
from accelsim.dram.mapping import Place, decoder
from accelsim.dram.standards import STANDARDS
from accelsim.errors import UsageError
from accelsim.spec.dram_device import device, devices_per_rank
from accelsim.spec.yaml.load import check, load_chip
from accelsim.spec.yaml.parts import list_drams, load_dram, resolve_dram
from tests.validation.golden import ANCHORS, anchor

ALL = [*list_drams(), *(str(path) for path in sorted(ANCHORS.glob("*.yaml")))]
SHORT = (
    "ddr3-1600", "ddr4-2400", "ddr4-3200", "ddr5-4800", "lpddr4-2400", "lpddr5-6400", "gddr5", "gddr6-14000",
    "hbm1-1000", "hbm2-2000", "hbm2e-3600", "hbm3-6400",
)  # fmt: skip


def stem(name: str) -> str:
    return Path(name).stem


def of(name: str) -> Device:
    return device(load_dram(name), name)


def test_every_standard_has_a_preset() -> None:
    assert set(SHORT) <= set(list_drams())
    assert {load_dram(name).standard for name in list_drams()} == set(STANDARDS)
    assert len(ALL) - len(list_drams()) >= 21


@pytest.mark.parametrize("name", ALL, ids=stem)
def test_preset_is_right(name: str) -> None:
    assert check(resolve_dram(name)) == []
    dram, made = load_dram(name), of(name)
    org = dram.organisation
    pins = org.bus_width * org.channels * org.pseudo_channels
    assert made.peak_Bps == pytest.approx(pins / 8 * dram.rate, rel=0.01)
    assert made.geometry.capacity_B == org.capacity
    assert made.geometry.row_B == org.columns * org.bus_width // 8
    assert made.name == name and made.clock_fs == round(dram.timing.tCK * 1e15)
    assert all(wait >= 0 for level in Level for row in made.latency[level] for wait in row)
    assert made.timing["tRC"] >= made.timing["tRAS"] + made.timing["tRP"] - 1
    energy = made.energy
    assert energy is not None or name.startswith(str(ANCHORS))
    if energy is not None:
        assert min(energy.act_J, energy.read_J, energy.write_J, energy.refresh_J, energy.closed_W) > 0
        assert energy.open_W >= energy.closed_W
        per_bit = energy.read_J / made.geometry.access_B / 8
        assert 0.5e-12 < per_bit < 20e-12


@pytest.mark.parametrize("name", ALL, ids=stem)
def test_preset_maps_every_burst_to_a_place_of_its_own(name: str) -> None:
    made = of(name)
    found = decoder(made.controller.mapping, made.geometry)
    bursts = made.geometry.capacity_B // made.geometry.access_B
    some = np.unique(np.concatenate([np.arange(5000), np.arange(0, bursts, bursts // 4999)])) % bursts
    addresses = some * made.geometry.access_B
    assert np.array_equal(found.encode(found.decode(addresses)), addresses)


# Act, read and write in pJ, refresh in nJ, standby open and closed in mW: what DRAMsim3 charges, and what its runs show.
ENERGIES = {
    "ddr3-1600": (10652, 3996, 3996, 733, 551, 389),
    "ddr4-2400": (3450, 2932, 2550, 693, 413, 326),
    "ddr4-3200": (4234, 2806, 2371, 671, 499, 355),
    "lpddr4-2400": (6956, 6247, 5769, 364, 226, 163),
    "gddr5": (3298, 1497, 1361, 66.6, 366, 360),
    anchor("dramsim3-hbm1"): (828, 1464, 1848, 60.8, 66, 48),
    anchor("dramsim3-hbm2"): (828, 804, 1068, 60.8, 66, 48),
}


@pytest.mark.parametrize("name", ENERGIES, ids=stem)
def test_energies_from_currents_are_those_of_dramsim3(name: str) -> None:
    energy = of(name).energy
    assert energy is not None
    act, read, write, refresh, open_mW, closed_mW = ENERGIES[name]
    digits = 1 if isinstance(refresh, float) else 0
    found = (energy.act_J * 1e12, energy.read_J * 1e12, energy.write_J * 1e12)
    assert tuple(round(each) for each in found) == (act, read, write)
    assert round(energy.refresh_J * 1e9, digits) == refresh
    assert (round(energy.open_W * 1e3), round(energy.closed_W * 1e3)) == (open_mW, closed_mW)


def test_energy_of_a_golden_run_to_the_last_digit() -> None:
    """DRAMsim3, DDR3-1600, seq_read: 1,213 ACT, 262,144 RD, 280 REF; its own totals, times tCK."""
    energy = of(anchor("dramsim3-ddr3-1600")).energy
    assert energy is not None
    for count, each, total_pJ in (
        (1213, energy.act_J, 12920269.5), (262144, energy.read_J, 1047527424.0), (280, energy.refresh_J, 205329600.0),
    ):  # fmt: skip
        assert count * each * 1e12 == pytest.approx(total_pJ, rel=1e-9, abs=0)


def test_stated_energies_are_per_burst_and_io_is_apart() -> None:
    energy = of("hbm2-2000").energy
    assert energy is not None and energy.act_J == 909e-12
    assert energy.read_J == pytest.approx(32 * 8 * 1.96e-12, rel=1e-9, abs=0)
    assert energy.io_read_J == pytest.approx(32 * 8 * 0.80e-12, rel=1e-9, abs=0)
    assert energy.refresh_bank_J == pytest.approx(energy.refresh_J / 16, rel=1e-9, abs=0)


def test_devices_side_by_side() -> None:
    assert devices_per_rank(load_dram("ddr4-3200")) == 8
    haswell = load_chip("tpu-v1").host
    assert haswell is not None and haswell.memory.dram is not None
    assert devices_per_rank(haswell.memory.dram) == 16


def test_controller_may_be_changed() -> None:
    dram = load_dram("ddr4-3200")
    made = device(dram, mapping="bank-group-lowest", window=1)
    assert (made.controller.mapping, made.controller.window) == ("bank-group-lowest", 1)
    assert made.controller.page_policy == dram.controller.page_policy
    with pytest.raises(UsageError, match="did you mean 'window'"):
        device(dram, windows=1)
    with pytest.raises(UsageError, match="field ba"):
        device(dram, mapping="robgco")


def test_files_of_the_simulators_differ_where_they_are_known_to() -> None:
    """What a misspelt key does: 12 of DRAMsim3's DDR3 files write REFI, and run with 7,800 clocks."""
    assert of("ddr3-1600").timing["tREFI"] == 6240
    assert of(anchor("dramsim3-ddr3-1600")).timing["tREFI"] == 7800
    assert of(anchor("dramsim3-ddr3-aligned")).timing["tRTW"] == 9
    assert of(anchor("dramsim3-ddr4-3200-closed")).controller.page_policy == "closed"
    assert of(anchor("dramsim3-gddr6")).burst == 1


@pytest.mark.parametrize("name", ALL, ids=stem)
def test_unloaded_latency_is_its_formula(name: str) -> None:
    """One read of a closed bank: tRCD + CL + burst, and a clock from acceptance to its first command.

    So it is in DRAMsim3 and Ramulator: their smallest latency with DDR4-3200, of a row hit, is 27 = 22 + 4 + 1.
    """
    from accelsim.dram.bank import serve

    made = device(load_dram(name), refresh="none")
    served = serve(made, np.array([0]), np.array([False]), record=True)
    assert served.arrived is not None and served.done is not None
    assert served.done[0] - served.arrived[0] == made.unloaded_read + 1


@pytest.mark.parametrize("name", ALL, ids=stem)
def test_best_case_stream_reaches_the_peak(name: str) -> None:
    """Hits of open rows, turn by turn through channels and bank groups, fill every data bus."""
    from accelsim.dram.bank import serve

    made = device(load_dram(name), refresh="none", page_policy="open")
    geometry = made.geometry
    each = 2048  # bursts of a channel
    turn, channel = np.divmod(np.arange(each * geometry.channels), geometry.channels)
    zero = np.zeros_like(turn)
    column, group = turn // geometry.groups % geometry.columns, turn % geometry.groups
    addresses = decoder(made.controller.mapping, geometry).encode(Place(channel, zero, group, zero, zero, column))
    writes = np.zeros(len(addresses), bool)
    served = serve(made, addresses, writes, injection=geometry.channels)
    needed = each * max(made.burst, made.timing["tCCD_S"])
    start = made.unloaded_read + geometry.groups * made.timing["tRRD_L"] + made.timing["tFAW"]
    assert needed <= served.elapsed <= 1.01 * needed + start
