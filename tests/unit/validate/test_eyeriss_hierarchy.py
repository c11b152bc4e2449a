"""The energy hierarchy of Eyeriss: costs, accounting and the split, on one image; the figure and the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelsim.machine.run import Run
from accelsim.report.style import save
from accelsim.spec.yaml.load import load_chip
from tests.validation import eyeriss
from tests.validation import eyeriss_report as hierarchy
from tests.validation.anchors import published
from tests.validation.eyeriss import LEVELS, alexnet_run, costs, dram_share, most_dram_share, splits

pytestmark = pytest.mark.xdist_group("eyeriss")  # one process, so that each batch is simulated once


@pytest.fixture(scope="module", name="one")
def _one() -> Run:
    return alexnet_run(1)


@pytest.fixture(scope="module")
def found(one: Run) -> list[eyeriss.Split]:
    return splits(one)


def test_costs_are_those_of_table_4() -> None:
    facts = published("eyeriss")["table4"]
    assert costs(load_chip("eyeriss-hierarchy")) == pytest.approx({level: facts[level] for level in LEVELS})


def test_another_pe_costs_its_register_and_the_way() -> None:
    """Table IV has 2 for both together, so the spec's hop is 1 of them: 0.5 pJ/B where a MAC is 1 pJ."""
    chip = load_chip("eyeriss-hierarchy")
    assert costs(chip)["network"] == 2
    assert chip.energy.network == pytest.approx(0.5e-12, rel=1e-9, abs=0)
    assert eyeriss.booked(published("eyeriss")["table4"])["network"] == 1


def test_a_word_has_16_bits_everywhere(found: list[eyeriss.Split]) -> None:
    """Sums, too: a weight-stationary PE writes and hands on one input and one sum for each MAC, and no more."""
    fc = eyeriss.per_mac(found, "FC")
    chip = load_chip("eyeriss-hierarchy")
    assert chip.matrix is not None
    assert chip.matrix.formats["int16"].accumulate == "int16"
    # reads: weight 1, input 13/14 (the last PE's is not read), sum 1; writes: input, sum, and at batch 1 the weight
    # twice, into the shadow register and, with its swap, into the one that stays
    assert fc["register"] == pytest.approx(3 - 1 / 14 + 4, rel=0.01)
    assert fc["network"] == pytest.approx(13 / 14 + 11 / 12, rel=0.01)


def test_energy_is_words_times_costs(one: Run, found: list[eyeriss.Split]) -> None:
    """From the ledger, without the energy account: 1, 1, 6 and 200 for each word, 1 for a hop alone."""
    words = eyeriss.words_by_level(one)
    for level, cost in {"MAC": 1, "register": 1, "network": 1, "buffer": 6, "DRAM": 200}.items():
        assert sum(split.energy[level] for split in found) == pytest.approx(cost * words[level], rel=1e-9, abs=0)
    assert words["MAC"] == sum(split.macs for split in found)


def test_one_image(found: list[eyeriss.Split]) -> None:
    assert [split.name for split in found] == [*(f"CONV{i}" for i in range(1, 6)), "FC1", "FC2", "FC3"]
    for split in found:
        assert split.largest == ("register" if split.kind == "CONV" else "DRAM")
        weights = split.macs
        assert split.kind == "CONV" or weights <= split.dram_words < 1.01 * weights, "each weight comes once"
    assert dram_share(found) == pytest.approx(0.896, abs=0.005)
    assert dram_share(found) < most_dram_share(1)


def test_dram_in_the_fully_connected_layers_by_batch() -> None:
    shares = eyeriss.fc_shares()
    assert shares == pytest.approx({1: 0.896, 4: 0.798, 8: 0.698, 16: 0.560}, abs=0.005)
    assert all(share < most_dram_share(batch) for batch, share in shares.items())


def test_batch_16_has_more_on_the_chip_than_in_dram_in_every_convolution() -> None:
    said = {text: holds for text, holds, _ in eyeriss.statements(splits(alexnet_run(eyeriss.BATCH)))}
    assert len(said) == 13
    assert all(said.values()), said


def test_the_bound_of_any_dataflow() -> None:
    """200 per weight, shared by the batch, against 1 + 4 for each use: 200 / 280 at 16."""
    assert most_dram_share(16) == pytest.approx(200 / 280)
    assert eyeriss.largest_batch(0.8) == 9
    assert eyeriss.largest_simulated(0.8) == 3
    told = eyeriss.bound_in_words()
    assert "cannot follow" in told
    assert "12.5 / (12.5 + 5) = 71.4%" in told


def test_free_levels_leave_the_others_as_they_are(one: Run, found: list[eyeriss.Split]) -> None:
    bare = splits(eyeriss.free(one, "register", "network"))
    for before, after in zip(found, bare, strict=True):
        assert after.energy["register"] == after.energy["network"] == 0
        assert (after.energy["DRAM"], after.energy["buffer"]) == (before.energy["DRAM"], before.energy["buffer"])


def test_plot_stacks_to_the_totals(found: list[eyeriss.Split], tmp_path: Path) -> None:
    drawn = hierarchy.draw(found, {1: dram_share(found)})
    bars = drawn.axes[0].containers
    heights = [sum(bar[place].get_height() for bar in bars) for place in range(len(found))]
    assert heights == pytest.approx([split.total / split.macs for split in found])
    save(drawn, tmp_path / "picture.png")


def test_page_has_command_table_and_statements(found: list[eyeriss.Split]) -> None:
    lines = hierarchy._table(found)
    assert "| FC1 | 223.3 |" in lines
    assert lines.count("\n") == len(found) + 1
    page = hierarchy.page(found, "accelsim energy eyeriss --out here")
    assert "Made by `accelsim energy eyeriss --out here`" in page
    assert "| 16 | 12.5 | 56.0% | 71.4% |" in page
    assert eyeriss.bound_in_words() in page
    assert "does not hold" not in page
