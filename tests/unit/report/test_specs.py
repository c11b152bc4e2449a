"""The memories of a chip as a tree in text."""

from __future__ import annotations

import pytest

from accelsim.report.specs import facts, rows, text
from accelsim.spec.yaml.load import list_chips, load_chip


def test_each_memory_is_below_what_fills_it() -> None:
    assert text(load_chip("edu-cache", ["cores=2"])).splitlines() == [
        "core, 2 of it: matrix (systolic), vector (simd)",
        "dram                    1 GiB             400 MB/s                   activations, weights, host",
        "└─ l2                   16 KiB            1.6 GB/s                   cache",
        "   ├─ core.act_sram     2 KiB (2 of it)   16 B out, 16 B in a clock  activations",
        "   └─ core.weight_sram  16 KiB (2 of it)  16 B out, 16 B in a clock  weights",
        "core.accumulators       16 KiB (2 of it)  16 B out, 16 B in a clock  partial_sums",
    ]


def test_a_memory_that_two_fill_is_below_both() -> None:
    chip = load_chip("tpu-v1", ["unified_buffer.holds=[activations, weights]", "weight_fifo.holds=[partial_sums]",
                                "matrix=null", "peak={}"])  # fmt: skip
    assert sum("core.unified_buffer" in row[0] for row in rows(chip)) == 2


@pytest.mark.parametrize("name", [each.name for each in list_chips()])
def test_every_chip_has_all_its_memories_there(name: str) -> None:
    chip = load_chip(name)
    found = [each["name"] for each in facts(chip) if "capacity_B" in each]
    local = [f"{view.core_kind}.{memory}" for view in chip.views() for memory in view.buffers]
    assert found == [*chip.memories, *local]
    assert {row[0].lstrip("│├└─ ") for row in rows(chip)} == set(found)
