"""Energies per action of specs and publications: units, ranges, what several sources say, errors with their line."""

from __future__ import annotations

from collections.abc import Callable
from math import isclose
from pathlib import Path

import pytest

from accelsim.account import energy_figures
from accelsim.account.energy_figures import FILE, Figure, figures, load_published, published, spread
from accelsim.errors import SpecError, UsageError
from accelsim.spec.dram import Dram
from accelsim.spec.dram_device import device as built
from accelsim.spec.link import Link
from accelsim.spec.memory import Memory
from accelsim.spec.scaling import nanometres
from accelsim.spec.status import STATUSES, UNSTATED
from accelsim.spec.yaml.load import load_chip
from accelsim.spec.yaml.parts import load_energy, load_link, load_memory, load_part

ALL = figures()


def one(component: str, what: str, origin: str) -> Figure:
    (found,) = [each for each in ALL if (each.component, each.what, each.origin) == (component, what, origin)]
    return found


def test_units() -> None:
    """A figure is per bit, so Horowitz's 10 pJ for 64 bits are 5 pJ a word, and 640 pJ for 32 bits 20 pJ a bit."""
    assert one("SRAM", "8 KiB", "horowitz-2014").word_J == pytest.approx((5e-12, 5e-12), rel=1e-9, abs=0)
    assert one("SRAM", "1 KiB", "energy/horowitz-45nm").low_J * 8 == load_energy("horowitz-45nm").sram[0].read
    assert one("DRAM", "DRAM of no stated kind", "han-2015").low_J == pytest.approx(20e-12, rel=1e-9, abs=0)
    assert one("DRAM", "DDR3", "memories/ddr3-1600").low_J == pytest.approx(7.88e-12, rel=1e-9, abs=0)
    assert one("link", "pcie-gen3-x16", "links/pcie-gen3-x16").low_J == pytest.approx(4e-12, rel=1e-9, abs=0)
    assert one("arithmetic", "int8 multiply-accumulate", "energy/scaled-28nm").word_J is None
    memory = load_chip("tpu-v1").memories["ddr3"].memory
    assert one("DRAM", "DDR3", "memories/ddr3-tpu-v1").low_J * 8 == memory.read_energy


@pytest.mark.parametrize(("folder", "load"), [("memories", load_memory), ("links", load_link)])
def test_a_figure_is_trusted_as_its_file_says(folder: str, load: Callable[[str], Memory | Link]) -> None:
    mine = [each for each in ALL if each.origin.startswith(f"{folder}/")]
    stated = [load(each.origin.partition("/")[2]).energy_status for each in mine]
    assert [each.status for each in mine] == [status or UNSTATED for status in stated]
    assert len({each.status for each in mine}) > 1


def test_every_figure_has_unit_source_and_status() -> None:
    for each in ALL:
        assert 0 <= each.low_J <= each.high_J < (1e-7 if each.component == "link" else 1e-9)
        assert each.per in ("operation", "bit", "bit and mm")
        assert each.status in STATUSES
        assert each.source, each.origin
    assert len({each.component for each in ALL}) == 6


def test_tables_are_there_whole() -> None:
    for name in ("horowitz-45nm", "scaled-28nm", "jouppi-7nm"):
        table = load_energy(name)
        rows = [each for each in ALL if each.origin == f"energy/{name}"]
        assert len(rows) == len(table.mac) + len(table.vector) + 1 + 2 * len(table.sram)
    assert not [each for each in ALL if each.origin == "energy/eyeriss-relative"], "ratios are no energies"


@pytest.mark.parametrize(
    ("what", "low_pJ", "high_pJ"),
    [("int32 multiply", 3.1, 12.68), ("fp32 multiply", 3.7, 35.3), ("DDR3", 7.89, 70.0), ("HBM2", 1.63, 450 / 64)],
)
def test_sources_disagree_as_is_known(what: str, low_pJ: float, high_pJ: float) -> None:
    """At least so far apart: more DRAM specs may lie lower."""
    widest = max((row for row in spread(ALL) if row.what == what), key=lambda row: row.factor)
    assert 0.5 * low_pJ < widest.low.low_J * 1e12 <= low_pJ
    assert widest.high.high_J * 1e12 == pytest.approx(high_pJ, rel=1e-9, abs=0)
    assert isclose(widest.factor, widest.high.high_J / widest.low.low_J)


def test_nodes_that_differ_are_not_compared() -> None:
    """int32 multiplications at 7 nm (1.48 pJ) are not set against those at 45 nm."""
    for row in spread(ALL):
        nodes = [nanometres(each.node) for each in (row.low, row.high)]
        assert None in nodes or max(nodes) / min(nodes) < energy_figures.ALIKE


def test_a_source_that_states_nothing_is_no_factor_away() -> None:
    free, dear = (
        Figure("wire", "wire", "45 nm", joules, joules, "bit and mm", "recalled", origin, origin)
        for joules, origin in ((0.0, "a"), (1e-15, "b"))
    )
    assert spread([free, dear]) == []
    assert spread([dear, dear._replace(high_J=3e-15, origin="c")])[0].factor == pytest.approx(3, rel=1e-9, abs=0)


def test_a_node_without_a_table_is_scaled_in_every_way() -> None:
    found = figures(20)
    ways = {each.origin for each in found if each.component == "arithmetic"}
    assert ways == {"horowitz-45nm scaled: stillmaker", "horowitz-45nm scaled: jouppi"}
    assert {each.node for each in found} <= {"20 nm", ""}
    assert [each for each in found if each.component == "DRAM"]
    assert {each.origin for each in figures(45) if each.what == "fp32 add"} == {"energy/horowitz-45nm", "horowitz-2014"}
    with pytest.raises(UsageError, match=r"no scaling to 3 nm.*7 to 130"):
        figures(3)


def test_without_dram_specs_the_rest_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    names = energy_figures.where.names
    monkeypatch.setattr(energy_figures.where, "names", lambda kind: {} if kind == "dram" else names(kind))
    assert not [each for each in figures() if each.origin.startswith("dram/")]
    assert [each for each in figures() if each.origin.startswith("memories/")]


def test_published_table_says_no_more_than_its_sources() -> None:
    rows = published().rows
    assert not [row for row in rows if row.what == "int16 multiply"], "Horowitz has none"
    seven = {row.what: row.energy * 1e12 for row in rows if row.origin == "jouppi-2021" and row.node == "7 nm"}
    assert len(seven) == 13 and seven["bf16 multiply"] == pytest.approx(0.21)
    assert {row.status for row in rows if row.origin == "jouppi-2021"} == {"recalled"}


def test_errors_of_the_published_table_have_their_line(tmp_path: Path) -> None:
    text = FILE.read_text(encoding="utf-8")
    copy = tmp_path / "published.yaml"
    for old, new in (
        ("energy: 0.03 pJ", "energy: 0.03"),
        ("origin: han-2015", "origin: han-2016"),
        ("high: 2600 pJ", "high: 26 pJ"),
        ("status: verified-in-tool", "status: verifid"),
    ):
        assert old in text
        copy.write_text(text.replace(old, new, 1), encoding="utf-8")
        with pytest.raises(SpecError) as error:
            load_published(copy)
        line = text[: text.index(old)].count("\n") + 1
        assert [problem.where.split(":")[1] for problem in error.value.problems] == [str(line)], old


def test_a_bit_of_dram_costs_its_part_of_a_burst_and_of_a_row() -> None:
    """DDR3 of eight chips: bursts of 64 B, rows of 16 KiB."""
    device = built(load_part("ddr3-1600", "dram", Dram), "ddr3-1600")
    assert device.energy is not None
    row_J = device.energy.act_J / (8 * 16384)
    for what, burst_J in (("DDR3", device.energy.read_J), ("DDR3, write", device.energy.write_J)):
        assert one("DRAM", what, "dram/ddr3-1600").low_J == pytest.approx(burst_J / (8 * 64) + row_J, rel=1e-9, abs=0)


def test_a_range_may_be_of_one_energy(tmp_path: Path) -> None:
    copy = tmp_path / "published.yaml"
    copy.write_text(FILE.read_text(encoding="utf-8").replace("high: 2600 pJ", "high: 1300 pJ"), encoding="utf-8")
    assert {row.high for row in load_published(copy).rows} >= {1300e-12}
