"""A chip whose memory is nothing but a DRAM: every figure follows from the DRAM and its model, under every memory model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import accelsim
from accelsim.cli import main
from accelsim.dram.pattern import Pattern
from accelsim.errors import SpecError
from accelsim.machine.memory_models import MODELS
from accelsim.spec.dram_device import device
from accelsim.spec.memory import Memory
from accelsim.spec.yaml.load import check, load_chip, show
from accelsim.spec.yaml.parts import list_drams, load_dram, load_memory, memory_names, memory_of

CHIP = """\
use: chips/edu-4x4
name: mine
title: A teaching array with another memory
memories:
  dram:
    memory: {}
"""


def of(chip: accelsim.Chip) -> Memory:
    return chip.memories["dram"].memory


@pytest.mark.parametrize("name", list_drams())
def test_every_dram_is_a_memory_under_every_model(name: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(CHIP.format(f"dram/{name}"), encoding="utf-8")
    assert check(path) == []
    chip, spec = load_chip(path), load_dram(name)
    memory, org = of(chip), spec.organisation
    assert memory.dram == spec and (memory.capacity, memory.channels) == (org.capacity, org.channels)
    assert memory.bandwidth == org.pseudo_channels * org.bus_width * spec.rate / 8
    assert 0.4 < memory.efficiency <= 1 and 0 < memory.read_energy < 1e-10 and 0 < memory.static_power < 2
    shown = tmp_path / "shown.yaml"
    shown.write_text(show(chip), encoding="utf-8")
    assert load_chip(shown).model_dump() == chip.model_dump()
    times = {}
    for model in MODELS:
        run = accelsim.run("gemm?M=64,N=64,K=64", chip, values="off", memory_model=model)
        times[model] = run.time_fs
    assert times["ideal"] < min(times["bandwidth"], times["pattern"], times["bank"])


@pytest.mark.parametrize("name", ["ddr4-3200", "ddr5-4800", "gddr6-14000"])
def test_efficiency_is_that_of_a_stream(name: str) -> None:
    made = device(load_dram(name))
    bursts = 60_000
    served = Pattern(made).serve(np.arange(bursts) * made.geometry.access_B)
    share = bursts * made.burst / made.geometry.channels / served.elapsed
    assert memory_of(load_dram(name)).efficiency == pytest.approx(share, abs=0.015)


@pytest.mark.parametrize("name", ["ddr3-1600", "ddr4-2400", "ddr4-3200"])
def test_energies_are_those_that_were_worked_out_by_hand(name: str) -> None:
    by_hand, follows = load_memory(name), memory_of(load_dram(name))
    for field in ("read_energy", "write_energy"):
        assert getattr(follows, field) == pytest.approx(getattr(by_hand, field), rel=0.005)
    assert follows.static_power == pytest.approx(by_hand.static_power, rel=0.04)
    assert (follows.capacity, follows.energy_status) == (by_hand.capacity, "derived")


def test_latency_is_that_of_a_closed_bank() -> None:
    memory = memory_of(load_dram("ddr4-3200"))
    assert memory.latency == pytest.approx((22 + 22) * 0.63e-9, rel=1e-9, abs=0)


def test_what_is_stated_stays_and_the_rest_follows() -> None:
    set_ = ["memories.dram.memory={use: dram/ddr4-3200, latency: 80 ns, efficiency: 0.5}"]
    memory, plain = of(load_chip("edu-4x4", set_)), memory_of(load_dram("ddr4-3200"))
    assert (memory.latency, memory.efficiency) == (80e-9, 0.5)
    assert (memory.bandwidth, memory.read_energy) == (plain.bandwidth, plain.read_energy)


def test_figures_follow_a_dram_that_is_changed() -> None:
    slower = ["memories.dram.memory=dram/ddr4-3200", "memories.dram.memory.dram.timing.CL=30 tCK"]
    assert of(load_chip("edu-4x4", slower)).latency == pytest.approx((22 + 30) * 0.63e-9, rel=1e-9, abs=0)


def test_another_bandwidth_drops_the_banks_and_keeps_the_rest() -> None:
    faster = ["memories.dram.memory=dram/ddr4-3200", "memories.dram.memory.bandwidth=51.2 GB/s"]
    memory, plain = of(load_chip("edu-4x4", faster)), memory_of(load_dram("ddr4-3200"))
    assert memory.dram is None and memory.bandwidth == 51.2e9
    kept = ("capacity", "latency", "efficiency", "beat", "read_energy", "write_energy", "static_power")
    assert all(getattr(memory, name) == getattr(plain, name) for name in kept)


def test_a_dram_that_is_wrong_is_told_and_not_what_would_follow() -> None:
    wrong = ["memories.dram.memory=dram/ddr4-3200", "memories.dram.memory.dram.timing.tFAW=1 tCK"]
    with pytest.raises(SpecError) as error:
        load_chip("edu-4x4", wrong)
    assert [problem.what.split(":")[0] for problem in error.value.problems] == ["memories.dram.memory.dram.timing.tFAW"]


def test_a_memory_without_figures_and_dram() -> None:
    with pytest.raises(SpecError, match=r"capacity, bandwidth, latency, read_energy, write_energy missing.*dram:"):
        load_chip("edu-4x4", ["memories.dram.memory={kind: x}"])


def test_the_command_lists_all() -> None:
    told = CliRunner().invoke(main, ["memories"], env={"COLUMNS": "120"})
    assert told.exit_code == 0
    names = [line.split()[0] for line in told.output.splitlines()[2:]]
    assert names == memory_names() and len([name for name in names if name.startswith("dram/")]) == len(list_drams())
    rows = json.loads(CliRunner().invoke(main, ["memories", "--json"]).output)
    (row,) = [row for row in rows if row["name"] == "dram/lpddr4-2400"]
    assert (row["capacity_B"], row["bandwidth_Bps"], row["energy_status"]) == (8 * 2**30, 19.2e9, "derived")
    assert row["memory_models"] == list(MODELS) and row["read_J_per_B"] > 0
