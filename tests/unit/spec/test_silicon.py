"""Static power and area grow with the array and the buffers, from where they were stated."""

from __future__ import annotations

from pathlib import Path

import pytest

import accelsim
from accelsim.account.energy import static_power_W
from accelsim.account.latency import layers, summary
from accelsim.report.words import sentences
from accelsim.spec.silicon import silicon
from accelsim.spec.yaml.load import load_chip, show

BIGGER = "unified_buffer.capacity=48 MiB"
WIDER = ("matrix.cols=512", "weight_fifo.slots=null", "weight_fifo.slot_capacity=null")


def idle_W(chip: accelsim.Chip) -> float:
    return static_power_W(chip)["idle.chip"]


def test_a_chip_as_it_is_keeps_what_it_states() -> None:
    for overrides in ((), ("clock=800 MHz",), ("memories.ddr3.memory.latency=1 us",)):
        chip = load_chip("tpu-v1", overrides)
        assert chip.power and chip.power.note is None and (idle_W(chip), chip.die_area) == (28, 331e-6)


@pytest.mark.parametrize("overrides", [(BIGGER,), WIDER, ("cores=2",), (*WIDER, BIGGER)])
def test_a_larger_chip_draws_more_by_what_it_has_more(overrides: tuple[str, ...]) -> None:
    base, chip = load_chip("tpu-v1"), load_chip("tpu-v1", overrides)
    more = silicon(chip).idle_W - silicon(base).idle_W
    assert more > 5 and idle_W(chip) == pytest.approx(28 + more)
    assert chip.die_area == pytest.approx(331e-6 + more / 28 * 331e-6)
    assert chip.power and (chip.power.note or "").startswith("an estimate")
    assert chip.power.busy == pytest.approx(40 + more) and chip.power.tdp == pytest.approx(75 + more)


def test_array_and_buffer_of_tpu_v1_take_their_shares_of_it() -> None:
    array = load_chip("tpu-v1", ["matrix.rows=128"])
    assert idle_W(array) == pytest.approx(28 - 0.24 * 28 / 2)
    assert idle_W(load_chip("tpu-v1", [BIGGER])) == pytest.approx(28 + 0.29 * 28)


def test_a_derived_spec_gets_the_difference_and_reads_back(tmp_path: Path) -> None:
    file = tmp_path / "bigger.yaml"
    file.write_text(
        "use: chips/tpu-v1\nname: bigger\ncores: {core: {memories: {unified_buffer: {capacity: 48 MiB}}}}\n",
        encoding="utf-8",
    )
    chip = load_chip(file)
    assert idle_W(chip) == idle_W(load_chip("tpu-v1", [BIGGER]))
    shown = tmp_path / "shown.yaml"
    shown.write_text(show(chip), encoding="utf-8")
    assert load_chip(shown).model_dump() == chip.model_dump()


def test_power_that_is_stated_for_the_change_stays() -> None:
    chip = load_chip("tpu-v1", [BIGGER, "power.idle=30 W"])
    assert idle_W(chip) == 30 and chip.power and chip.power.note is None


def test_a_derived_spec_that_states_its_own_power_keeps_it_for_the_sizes_it_takes_over(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("use: chips/tpu-v1\nname: mine\npower: {idle: 20 W}\ndie_area: 300 mm2\n", encoding="utf-8")
    chip = load_chip(file)
    assert (idle_W(chip), chip.die_area) == (20, pytest.approx(300e-6))
    more = silicon(load_chip("tpu-v1", [BIGGER])).idle_W - silicon(load_chip("tpu-v1")).idle_W
    assert idle_W(load_chip(file, [BIGGER])) == pytest.approx(20 + more)


def test_a_newer_node_is_smaller() -> None:
    at = {node: silicon(load_chip("edu-mixed", [f"process={node} nm"])).area_m2 for node in (45, 28, 16, 7, 3)}
    assert at[45] > at[28] > at[16] > at[7] == at[3] > 0


def test_the_report_says_what_is_estimated_and_what_is_left_out() -> None:
    def told(chip: str, *overrides: str) -> str:
        run = accelsim.run("gemm?M=8,N=8,K=8", load_chip(chip, overrides), values="off")
        return " ".join(sentences(run, layers(run), summary(run)))

    assert "Its idle power is an estimate" in told("tpu-v1", BIGGER)
    assert "idle power" not in told("tpu-v1")
    assert "states no power" in told("edu-4x4")
