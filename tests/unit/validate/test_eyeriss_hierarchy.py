"""The energy hierarchy of Eyeriss: costs, accounting and the split, on one image; the figure and the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelsim.report.style import save
from accelsim.spec.load import load_chip
from accelsim.validate import eyeriss
from accelsim.validate import eyeriss_report as hierarchy
from accelsim.validate.anchors import published
from accelsim.validate.eyeriss import LEVELS, alexnet_run, costs, dram_share, most_dram_share, splits

ONE = alexnet_run(1)
FOUND = splits(ONE)


def test_costs_are_those_of_table_4() -> None:
    facts = published("eyeriss")["table4"]
    assert costs(load_chip("eyeriss-hierarchy")) == pytest.approx({level: facts[level] for level in LEVELS})


def test_energy_is_words_times_costs() -> None:
    """From the ledger, without the energy account: 1, 1, 2, 6 and 200 for each word."""
    words = eyeriss.words_by_level(ONE)
    for level, cost in {"MAC": 1, "register": 1, "network": 2, "buffer": 6, "DRAM": 200}.items():
        assert sum(split.energy[level] for split in FOUND) == pytest.approx(cost * words[level], rel=1e-9)
    assert words["MAC"] == sum(split.macs for split in FOUND)


def test_one_image() -> None:
    assert [split.name for split in FOUND] == [*(f"CONV{i}" for i in range(1, 6)), "FC1", "FC2", "FC3"]
    for split in FOUND:
        assert split.largest == ("register" if split.kind == "CONV" else "DRAM")
        weights = split.macs
        assert split.kind == "CONV" or weights <= split.dram_words < 1.01 * weights, "each weight comes once"
    assert dram_share(FOUND) == pytest.approx(0.794, abs=0.005)
    assert dram_share(FOUND) < most_dram_share(1)


def test_the_bound_of_any_dataflow() -> None:
    """200 per weight, shared by the batch, against 1 + 4 for each use: 200 / 280 at 16."""
    assert most_dram_share(16) == pytest.approx(200 / 280)
    assert eyeriss.largest_batch(0.8) == 9


def test_free_levels_leave_the_others_as_they_are() -> None:
    bare = splits(eyeriss.free(ONE, "register", "network"))
    for before, after in zip(FOUND, bare, strict=True):
        assert after.energy["register"] == after.energy["network"] == 0
        assert (after.energy["DRAM"], after.energy["buffer"]) == (
            before.energy["DRAM"],
            before.energy["buffer"],
        )


def test_plot_stacks_to_the_totals(tmp_path: Path) -> None:
    drawn = hierarchy.draw(FOUND, {1: dram_share(FOUND)})
    bars = drawn.axes[0].containers
    heights = [sum(bar[place].get_height() for bar in bars) for place in range(len(FOUND))]
    assert heights == pytest.approx([split.total / split.macs for split in FOUND])
    save(drawn, tmp_path / "picture.png")


def test_page_has_command_table_and_statements() -> None:
    lines = hierarchy._table(FOUND)
    assert "| FC1 | 252.0 |" in lines
    assert lines.count("\n") == len(FOUND) + 1
