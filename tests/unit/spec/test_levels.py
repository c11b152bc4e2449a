"""Levels between buffers and memories: what a chip may say of them, and what a byte costs there."""

from __future__ import annotations

import pytest

from accelsim.account.energy import price_list
from accelsim.account.provenance import status_of
from accelsim.errors import SpecError
from accelsim.spec.chip import Chip
from accelsim.spec.energy import sram_J_per_B
from accelsim.spec.levels import cache_of, home_behind, levels_before, managed
from accelsim.spec.yaml.load import load_chip, show

LEVEL, CACHE = "edu-three-levels", "edu-cache"
AT = "memories.global_sram"
SECOND = "{memory: {kind: sram, capacity: 4 KiB, bandwidth: 3.2 GB/s, latency: 10 ns}, fed_by: global_sram, holds: [activations]}"


def test_the_way_from_a_memory_to_the_buffers() -> None:
    chip = load_chip(LEVEL, [f"memories.near_sram={SECOND}"])
    assert set(managed(chip)) == {"global_sram", "near_sram"}
    assert levels_before(chip, "dram") == ["near_sram", "global_sram"]
    assert levels_before(chip, "near_sram") == []
    assert {home_behind(chip, name) for name in chip.memories} == {"dram"}
    assert cache_of(chip, "dram") == ""
    assert (cache_of(load_chip(CACHE), "dram"), managed(load_chip(CACHE))) == ("l2", [])


@pytest.mark.parametrize("name", [LEVEL, CACHE])
def test_a_shown_chip_says_the_same(name: str, tmp_path: object) -> None:
    text = show(load_chip(name))
    assert "fed_by: dram" in text


def test_energies_that_are_not_stated_are_those_of_the_table() -> None:
    chip = load_chip(LEVEL)
    size = chip.memories["global_sram"].memory.capacity
    prices = price_list(chip)
    for way in ("read", "write"):
        assert prices["global_sram", way] == sram_J_per_B(chip.energy.sram, size, way == "write")
    assert status_of(chip, "global_sram", "read") == status_of(chip, "act_sram", "read")
    stated = load_chip(LEVEL, [f"{AT}.memory.read_energy=2 pJ/B", f"{AT}.memory.energy_status=measured"])
    assert price_list(stated)["global_sram", "read"] == 2e-12
    assert price_list(stated)["global_sram", "write"] == prices["global_sram", "write"]
    assert status_of(stated, "global_sram", "read") == "measured"
    assert status_of(stated, "global_sram", "write") == status_of(chip, "act_sram", "write")


def wrong(name: str, *overrides: str) -> str:
    with pytest.raises(SpecError) as error:
        load_chip(name, overrides)
    return str(error.value)


@pytest.mark.parametrize(
    ("chip", "sets", "told"),
    [
        (LEVEL, [f"{AT}.fed_by=dran"], "no memory 'dran'; expected dram; did you mean 'dram'"),
        (LEVEL, [f"{AT}.fed_by=global_sram"], "'global_sram' feeds itself"),
        (LEVEL, ["memories.dram.fed_by=global_sram"], "'global_sram' feeds itself"),
        (LEVEL, [f"memories.near={SECOND}", "memories.near.fed_by=dram"], "'dram' feeds two levels without a cache"),
        (CACHE, [f"memories.near={SECOND}", "memories.near.fed_by=l2"], "'l2' is a cache; expected fed_by: dram"),
        (LEVEL, [f"memories.near={SECOND}", "memories.near.cache={line: 64 B, ways: 4}", "memories.near.holds=[]"],
         "'global_sram' is a level itself; expected fed_by: dram"),
        (LEVEL, [f"{AT}.holds=[activations, weights]"], "it holds activations, weights; expected [activations]"),
        (CACHE, ["memories.l2.holds=[weights]"], "a cache holds whatever passes it; expected no holds"),
        (LEVEL, [f"{AT}.memory.kind=edram"], "a level of kind 'edram'; expected kind: sram"),
        (LEVEL, [f"{AT}.link=links/pcie-gen3-x16"], "a link before a level on the chip; expected no link"),
        (LEVEL, [f"{AT}.memory.capacity=1 GiB"], "1 GiB are no fewer than 'dram' has; expected less than 1 GiB"),
        (LEVEL, [f"{AT}.memory.bandwidth=200 MB/s"],
         "200 MB/s are less than 'dram' gives; expected 400 MB/s or more"),
        (CACHE, ["memories.l2.cache.ways=3"], "are no whole sets of"),
        (CACHE, ["memories.l2.cache.ways=128"], "64"),
        (CACHE, ["memories.l2.cache.policy=copy_back"], "write_back"),
        (CACHE, ["memories.dram.link=links/pcie-gen3-x16"], "the cache has one port"),
        ("edu-4x4", ["memories.dram.cache={line: 64 B, ways: 4}"], "a cache of no memory; expected fed_by:"),
        ("edu-4x4", ["memories.dram.holds=[]"], "nothing lives in 'dram'; expected holds:"),
    ],
    ids=str,
)  # fmt: skip
def test_what_makes_no_sense_is_refused(chip: str, sets: list[str], told: str) -> None:
    assert told in wrong(chip, *sets)


def test_a_level_before_a_memory_without_activations() -> None:
    text = wrong(
        "tpu-v1", f"memories.cmem={SECOND}", "memories.cmem.fed_by=ddr3", "memories.cmem.memory.bandwidth=40 GB/s"
    )
    assert "no activations live in 'ddr3'; expected fed_by: pcie_memory" in text


def test_levels_are_part_of_the_silicon() -> None:
    from accelsim.spec.silicon import silicon

    def held_B(chip: Chip) -> int:
        return silicon(chip).buffers_B

    more = load_chip(LEVEL, [f"{AT}.memory.capacity=128 KiB"])
    assert held_B(more) - held_B(load_chip(LEVEL)) == 64 * 1024
    plain = load_chip("tpu-v1")
    level = f"memories.cmem={SECOND}"
    chip = load_chip("tpu-v1", [level, "memories.cmem.fed_by=pcie_memory", "memories.cmem.memory.bandwidth=40 GB/s"])
    assert chip.power is not None and plain.power is not None and chip.power.idle > plain.power.idle
    larger = load_chip("tpu-v1", ["memories.ddr3.memory.capacity=16 GiB"])
    assert larger.power == plain.power
