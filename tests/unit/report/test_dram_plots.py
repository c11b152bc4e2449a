"""Plots of one DRAM: blocks are the commands, data never overlap on the bus, bars add up."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from accelsim.errors import UsageError
from accelsim.explore.dram_compare import TRACES, compare
from accelsim.explore.dram_replay import Replay, replay
from accelsim.explore.dram_waits import REASONS
from accelsim.report import dram as told
from accelsim.report import dram_plots
from accelsim.report.dram_plots import LOOKS, activity, blocks, default_clocks
from accelsim.spec.yaml.parts import load_dram
from tests.validation.golden import anchor


@pytest.fixture(scope="module")
def tiles() -> Replay:
    return replay("ddr4-3200", "tile3", limit=2_000)


def test_blocks_are_the_commands(tiles: Replay) -> None:
    window = (0, tiles.served.end)
    seen = blocks(tiles, window)
    counts, t = tiles.served.counts, tiles.device.timing
    for kind in ("act", "pre", "rd", "wr"):
        assert sum(each.kind == kind for each in seen) == counts[kind]
    assert sum(each.kind == "open" for each in seen) == counts["act"]
    assert {each.end - each.begin for each in seen if each.kind == "act"} == {t["tRCDRD"]}
    assert {each.end - each.begin for each in seen if each.kind == "pre"} == {t["tRP"]}
    data = sorted((each.begin, each.end) for each in seen if each.kind in ("rd", "wr"))
    assert all(after[0] >= before[1] for before, after in itertools.pairwise(data))
    assert max(end for _, end in data) == tiles.served.end


def test_a_bank_is_open_from_act_to_pre(tiles: Replay) -> None:
    seen = blocks(tiles, (0, tiles.served.end))
    for bank in {each.bank for each in seen}:
        mine = [each for each in seen if each.bank == bank]
        opened = sorted((each.begin, each.end) for each in mine if each.kind == "open")
        assert [begin for begin, _ in opened] == sorted(each.begin for each in mine if each.kind == "act")
        assert all(after[0] >= before[1] for before, after in itertools.pairwise(opened))


def test_refresh_covers_every_bank_of_its_rank() -> None:
    found = replay("ddr4-3200", "seq_read", limit=4_000)
    seen = blocks(found, (0, found.served.end))
    refreshed = [each for each in seen if each.kind == "ref"]
    assert len(refreshed) == 16 * found.served.counts["ref"] > 0
    assert {each.end - each.begin for each in refreshed} == {found.device.timing["tRFC"]}


def test_the_window_cuts(tiles: Replay) -> None:
    seen = blocks(tiles, (100, 200))
    assert seen and all(each.end > 100 and each.begin < 200 for each in seen)


def test_activity_names_banks_and_kinds(tiles: Replay) -> None:
    fig = activity(tiles).figure()
    (axes,) = fig.axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names[0] == "data bus"
    assert "rank 0 group 0 bank 0" in names
    assert axes.get_xlim() == default_clocks(tiles)
    assert "0.63 ns" in axes.get_xlabel()
    legend = {text.get_text() for text in fig.legends[0].get_texts()}
    assert {LOOKS[kind][0] for kind in ("open", "act", "rd", "wr", "pre")} == legend


def test_channels_are_told_apart() -> None:
    found = replay("hbm2-2000", "seq_read", limit=2_000)
    total = sum(
        sum(each.kind == "rd" for each in blocks(found, (0, found.served.end), channel))
        for channel in range(found.device.geometry.channels)
    )
    assert total == 2_000
    with pytest.raises(UsageError, match="no channel 16"):
        activity(found, channel=16)


@pytest.mark.parametrize("window", [(10**9, 10**9 + 1), (5, 5), (-1, 5)])
def test_windows_outside_are_refused(tiles: Replay, window: tuple[int, int]) -> None:
    with pytest.raises(UsageError, match="expected A:B"):
        activity(tiles, window)


def test_bars_of_the_bus_add_up(tiles: Replay) -> None:
    fig = dram_plots.bus([("a", tiles), ("b", tiles)], "title").figure()
    (axes,) = fig.axes
    widths = [patch.get_width() for patch in axes.patches]
    assert 95 < sum(widths) / 2 <= 100 + 1e-9
    assert set(dram_plots.WAITS) == set(REASONS)


def test_histogram_counts_every_read(tiles: Replay) -> None:
    fig = dram_plots.latency(tiles)
    assert fig is not None
    assert 99 < sum(patch.get_height() for patch in fig.figure().axes[0].patches) <= 100.01
    assert dram_plots.latency(replay("ddr4-3200", "seq_write", limit=100)) is None
    lines = told.histogram(tiles)
    shares = [float(line.split("ns")[1].split("%")[0].strip(" <")) for line in lines]
    assert sum(shares) == pytest.approx(100, abs=0.6)
    assert max(line.count("█") for line in lines) == told.BAR


def test_histogram_of_equal_latencies() -> None:
    assert told.histogram(replay("ddr4-3200", limit=1)) == ["all 1 reads took 30.9 ns"]
    assert dram_plots.latency(replay("ddr4-3200", limit=1)) is not None


def test_compare_has_a_bar_for_every_memory_and_trace(tmp_path: Path) -> None:
    rows = compare({name: load_dram(name) for name in ("ddr3-1600", "hbm2-2000")}, limit=500)
    fig = dram_plots.utilisation(rows).figure()
    heights = [patch.get_height() for patch in fig.axes[0].patches]
    assert heights == pytest.approx([100 * row.share(trace) for trace in TRACES for row in rows])
    made = told.compare(rows).write(tmp_path / "compare")
    assert {path.name for path in made} == {
        "compare.json", "utilisation.png", "utilisation.svg", "energy.png", "energy.svg"
    }  # fmt: skip
    drawn = dram_plots.energy(rows)
    assert drawn is not None
    labels = [label.get_text() for label in drawn.figure().axes[0].get_xticklabels()]
    assert labels == ["ddr3-1600", "hbm2-2000\n(not verified)"]
    assert dram_plots.energy(compare({"a": load_dram(anchor("ramulator2-ddr4-3200"))}, limit=50)) is None


def test_reports_are_the_same_each_time(tiles: Replay, tmp_path: Path) -> None:
    first = {path.name: path.read_bytes() for path in told.replay(tiles).write(tmp_path / "one")}
    again = {path.name: path.read_bytes() for path in told.replay(tiles).write(tmp_path / "one")}
    assert first == again
    assert set(first) == {"summary.json", *(f"{name}{suffix}" for name in ("activity", "bus", "latency")
                                            for suffix in (".png", ".svg"))}  # fmt: skip
    summary = json.loads(first["summary.json"])
    assert summary["accesses"] == 2_000 and summary["limits"]
    for name in ("activity", "bus", "latency"):
        assert np.std(imread(tmp_path / "one" / f"{name}.png")) > 0.05
    assert {path.name for path in tmp_path.iterdir()} == {"one"}
