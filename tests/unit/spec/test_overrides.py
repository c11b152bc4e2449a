"""Overrides and composition: the chip that comes out."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from accelsim.errors import SpecError
from accelsim.spec.link import Link
from accelsim.spec.yaml.load import load_chip
from accelsim.units import spell


def test_overrides_reach_everything() -> None:
    chip = load_chip(
        "tpu-v1",
        [
            "memories.ddr3.memory.bandwidth=180 GB/s",
            "memories.ddr3.link=links/pcie-gen4-x16",
            "memories.pcie_memory.link.latency=1 us",
            "energy.sram.0.read=7 pJ/B",
            "energy.mac.int8=1 pJ",
            "vector.functions.Gelu=2",
            "vector.chained=no",
            "matrix.stationary_from=[weights, activations]",
            "weight_fifo.slots=2",
            "note=null",
            "host.memory={use: memories/ddr4-3200, capacity: 1 GiB}",
        ],
    )
    assert chip.memories["ddr3"].memory.bandwidth == 180e9
    assert chip.memories["ddr3"].link and round(chip.memories["ddr3"].link.bandwidth, -7) == 26.37e9
    assert chip.memories["pcie_memory"].link and chip.memories["pcie_memory"].link.latency == 1e-6
    assert chip.energy.sram[0].read == 7e-12
    assert chip.energy.mac["int8"] == 1e-12
    assert chip.vector and chip.vector.functions["Gelu"] == 2 and chip.vector.chained is False
    assert chip.matrix and chip.matrix.stationary_from == ["weights", "activations"]
    assert chip.buffers["weight_fifo"].slots == 2
    assert chip.note is None
    assert chip.host and (chip.host.memory.capacity, chip.host.memory.bandwidth) == (2**30, 25.6e9)


def test_an_item_can_be_added_to_a_list() -> None:
    points = load_chip("dae-edu").energy.sram
    more = load_chip("dae-edu", ["energy.sram.9={capacity: 128 MiB, read: 50 pJ/B, write: 50 pJ/B}"]).energy.sram
    assert more[:-1] == points and more[-1].capacity == 2**27


def test_claims_of_the_file_yield_to_overrides() -> None:
    chip = load_chip("tpu-v1", ["matrix.rows=128", "matrix.dataflow=os"])
    assert chip.peak == {} and chip.matrix and chip.matrix.dataflow == "os"
    assert load_chip("tpu-v1", ["memories.ddr3.memory.bandwidth=68 GB/s"]).peak == {"int8": 92e12}
    with pytest.raises(SpecError, match="contradicts"):
        load_chip("tpu-v1", ["matrix.rows=128", "peak.int8=92 TOPS"])


def test_the_file_itself_is_left_alone() -> None:
    before = load_chip("tpu-v1")
    load_chip("tpu-v1", ["clock=1 GHz"])
    assert load_chip("tpu-v1") == before


@pytest.mark.parametrize(
    ("text", "what", "near"),
    [
        ("matrx.rows=4", "no field 'matrx'", "matrix"),
        ("matrix.row=4", "no field 'cores.core.engines.matrix.row'", "cores.core.engines.matrix.rows"),
        ("memories.ddr.memory.bandwidth=1 GB/s", "no field 'memories.ddr'", "memories.ddr3"),
        ("energy.sram.77.read=1 pJ/B", "no field 'energy.sram.77'", ""),
        ("clock.rate=4", "'clock' has no fields", ""),
        ("calibration.residual=none", "'calibration' is not given in this spec", ""),
        ("clock", "not an override", ""),
        ("=4", "not an override", ""),
        ("clock=[", "not valid YAML: expected the node content, but found '<stream end>'", ""),
        ("clock=700", "clock: '700' has no unit", ""),
        ("clock=", "clock: an empty value has no unit", ""),
        ("clock=\u0661 GHz", "clock: '\u0661 GHz' is not a number with a unit", ""),
        ("energy=energy/nothing", "energy: no spec file 'energy/nothing'", ""),
        ("energy=energy/horowitz", "energy: no spec file 'energy/horowitz'", "energy/horowitz-45nm"),
        ("host=processors/xeon-e5-2699", "host: no spec file 'processors/xeon-e5-2699'", "processors/xeon-e5-2699v3"),
    ],
)
def test_a_wrong_override_says_which_and_what(text: str, what: str, near: str) -> None:
    with pytest.raises(SpecError) as error:
        load_chip("tpu-v1", [text])
    assert [(each.what, each.nearest, each.where) for each in error.value.problems] == [
        (what, near, f"override {text!r}")
    ]


def test_all_wrong_overrides_at_once() -> None:
    with pytest.raises(SpecError) as error:
        load_chip("tpu-v1", ["matrx.rows=4", "clock=3", "power.idle=10 J"])
    assert len(error.value.problems) == 3


DERIVED = """\
use: chips/tpu-v1
name: derived
title: TPU with other memories
memories:
  ddr3:
    memory: memories/hbm2
  pcie_memory:
    memory: {use: memories/ddr4-2400, capacity: 2 GiB}
    link:
      latency: 5 us
cores:
  core:
    engines:
      matrix: {epilogue: false}
      vector: null
"""


def test_a_chip_may_start_from_another(tmp_path: Path) -> None:
    path = tmp_path / "derived.yaml"
    path.write_text(DERIVED, encoding="utf-8")
    chip, base = load_chip(path), load_chip("tpu-v1")
    assert chip.matrix and base.matrix and chip.vector is None
    assert (chip.matrix.rows, chip.matrix.epilogue) == (base.matrix.rows, False)
    assert (
        chip.memories["ddr3"].memory
        == load_chip("tpu-v1", ["memories.ddr3.memory=memories/hbm2"]).memories["ddr3"].memory
    )
    assert chip.memories["ddr3"].load_engine == "weight_dma"
    assert chip.memories["pcie_memory"].memory.capacity == 2 * 2**30
    link, old = chip.memories["pcie_memory"].link, base.memories["pcie_memory"].link
    assert link and old and (link.latency, link.bandwidth) == (5e-6, old.bandwidth)


@given(st.floats(min_value=1e3, max_value=1e15), st.just(0.0) | st.floats(min_value=1e-15, max_value=1e-3))
def test_models_write_what_they_read(bandwidth: float, latency: float) -> None:
    link = Link(kind="pcie", bandwidth=spell(bandwidth, "B/s"), latency=spell(latency, "s"), energy="4 pJ/bit")
    assert (link.bandwidth, link.latency) == (bandwidth, latency)
    assert Link.model_validate(link.model_dump(mode="json")) == link


def test_a_bare_number_is_refused_in_python_too() -> None:
    with pytest.raises(ValidationError, match="has no unit"):
        Link(kind="pcie", bandwidth=1e9, latency="1 us", energy="4 pJ/bit")


def test_a_path_into_what_another_override_made_a_list() -> None:
    with pytest.raises(SpecError) as error:
        load_chip("edu-4x4", ["memories.dram.memory.dram=[]", "memories.dram.memory.dram.organisation.ranks=2"])
    assert any("no field" in problem.what for problem in error.value.problems)


def test_a_block_may_be_replaced_after_a_field_of_it_was_set() -> None:
    with pytest.raises(SpecError, match="no spec file 'nowhere'"):
        load_chip("a100-80-sxm", ["memories.hbm.memory.read_energy=1pJ/B", "memories.hbm=nowhere"])
