"""Area and cost of chips: what TPU v1 and textbooks give, and what holds for any design."""

from __future__ import annotations

from itertools import pairwise
from typing import get_args

import pytest

from accelsim.account.area import Area, chip_cost_USD, designed, die_m2, figures
from accelsim.account.price import Wafer, die_yield, dies_per_wafer, good_die_USD
from accelsim.spec.status import Status
from accelsim.spec.yaml.load import load_chip

MM2, CM2 = 1e-6, 1e-4
INT8 = "matrix.formats={int8: {accumulate: int32}}"


def area(chip: str, *overrides: str) -> Area:
    found = designed(load_chip(chip, overrides))
    assert found is not None
    return found


def test_tpu_v1_comes_out_as_its_floor_plan() -> None:
    """Jouppi et al. 2017, Figure 2: buffers 37 % and compute 30 % of at most 331 mm2."""
    found = area("tpu-v1")
    assert found.total_m2 == pytest.approx(331 * MM2, rel=1e-3)
    assert found.memories_m2 == pytest.approx(0.37 * 331 * MM2, rel=1e-3)
    assert found.arrays_m2 == pytest.approx(0.24 * 331 * MM2, rel=1e-3)
    assert found.vectors_m2 == pytest.approx(0.06 * 331 * MM2, rel=1e-3)


def test_interfaces_take_what_was_measured_of_dies() -> None:
    """LLMCompass: 10.45 mm2 for a stack of 1,024 bits; 25.6 GB/s of DDR4-3200 are 64 bits."""
    assert area("systolic-generic").phys_m2 == pytest.approx(2 * 1.45 * MM2, rel=1e-2)
    assert area("tpu-v4").phys_m2 == pytest.approx(4 * 10.45 * MM2, rel=1e-2)
    assert area("edu-4x4").phys_m2 == 0


@pytest.mark.parametrize(
    ("change", "part"),
    [("matrix.rows=256", 0), ("vector.lanes=256", 1), ("act_sram.capacity=16 MiB", 2),
     ("memories.dram.memory.bandwidth=51.2 GB/s", 3)],
)  # fmt: skip
def test_what_grows_is_the_part_that_was_changed_and_the_rest(change: str, part: int) -> None:
    before, after = area("systolic-generic"), area("systolic-generic", change)
    grown = [new > old * (1 + 1e-9) for old, new in zip(before, after, strict=True)]
    assert grown == [at in (part, 4) for at in range(5)]
    if part != 2:
        assert after[part] == pytest.approx(2 * before[part])


def test_a_pe_is_as_large_as_the_format_that_needs_most() -> None:
    def arrays(formats: str) -> float:
        return area("systolic-generic", f"matrix.formats={{{formats}}}").arrays_m2

    int8, fp16 = arrays("int8: {accumulate: int32}"), arrays("fp16: {accumulate: fp32}")
    both = arrays("int8: {accumulate: int32}, fp16: {accumulate: fp32}")
    assert int8 < fp16 == both < arrays("fp32: {accumulate: fp32}")
    twice = arrays("int8: {accumulate: int32, cycles_per_row: 1/2}")
    assert twice == pytest.approx(2 * int8)
    cells_um2 = 282 + 137 + (3 * 8 + 32) * 4.522
    assert int8 == pytest.approx(16384 * cells_um2 * 1e-12 * 4.898 * 0.3682, rel=1e-3)  # 28 nm: 0.3682 of 45 nm


def test_newer_nodes_are_smaller_but_for_their_interfaces() -> None:
    found = [area("systolic-generic", f"process={nm} nm") for nm in (65, 45, 28, 16, 7, 5)]
    for old, new in pairwise(found):
        assert new.memories_m2 < old.memories_m2 and new.arrays_m2 <= old.arrays_m2 and new.phys_m2 == old.phys_m2


def test_a_stated_die_counts_and_a_design_without_a_model_has_none() -> None:
    assert die_m2(load_chip("a100-80-sxm")) == 826e-6
    assert die_m2(load_chip("tpu-v1")) == 331e-6
    assert die_m2(load_chip("tpu-v4")) == area("tpu-v4").total_m2
    assert die_m2(load_chip("b200-sxm")) is None


def test_dies_and_yields_are_those_of_the_textbook() -> None:
    """Hennessy and Patterson, section 1.6: 300 mm; 5th edition (recalled): 0.031 defects a cm2, N = 13.5.

    The 6th edition prints 120 and 444 good dies for 0.047 and N = 12, which its formula gives for N = 8 instead.
    """
    for side_cm, dies, share, fifth, sixth in ((1.5, 270, 0.40, 109, 120), (1.0, 640, 0.66, 424, 444)):
        die = side_cm**2 * CM2
        assert round(dies_per_wafer(die)) == dies
        found = die_yield(die, 13.5 * 0.031 / CM2, 13.5)
        assert found == pytest.approx(share, abs=0.005) and round(dies * found) == fifth
        assert dies * die_yield(die, 8 * 0.047 / CM2, 8) == pytest.approx(sixth, abs=1)


def test_a_good_die_costs_its_share_of_a_wafer() -> None:
    wafer = Wafer(3000, 0.1 / CM2, 3)
    dies, good = 70685.83 / 100 - 942.4778 / 200**0.5, (1 + 0.1 / 3) ** -3
    assert good_die_USD(100 * MM2, wafer) == pytest.approx(3000 / (dies * good), rel=1e-6)
    assert good_die_USD(100 * MM2, Wafer(6000, 0.1 / CM2, 3)) == pytest.approx(6000 / (dies * good), rel=1e-6)
    for mm2 in (1, 10, 100, 400):
        assert good_die_USD(2 * mm2 * MM2, wafer) > 2 * good_die_USD(mm2 * MM2, wafer)


def test_cost_follows_the_node() -> None:
    """7 nm: 9,346 USD a wafer (CSET 2020), 0.15 defects a cm2."""
    at = {nm: chip_cost_USD(1e-4, nm) for nm in (130, 10, 8, 7)}
    assert at[7] == pytest.approx(good_die_USD(1e-4, Wafer(9346, 1500, 3)))
    assert at[10] and at[8] and at[7] and at[10] < at[8] < at[7]
    assert at[130] is None and chip_cost_USD(900 * MM2, 7) is None


def test_every_figure_says_how_far_to_trust_it() -> None:
    found = dict(figures())
    words = [
        found["phys_status"], found["wafers_status"],
        *(block["status"] for name in ("operations", "flip_flop", "bitcells", "layout") for block in (found[name],)
          if isinstance(block, dict)),
    ]  # fmt: skip
    assert len(words) == 6 and set(words) <= set(get_args(Status))
