"""Every plot of the registry, for few and many layers: drawn, labelled, the same bytes each time."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from accelsim.account.categories import CATEGORIES
from accelsim.account.critical_path import HIDDEN, KEYS
from accelsim.account.latency import layers
from accelsim.errors import UsageError
from accelsim.report import layer_plots, machine_plots
from accelsim.report.looks import CATEGORY_LOOKS, REASON_LOOKS
from accelsim.report.plot import PLOTS, draw
from accelsim.report.style import prefixed, save, ticks
from tests.helpers.synthetic_run import altered, make_run

SMALL, LARGE = make_run(layers=5), make_run(layers=100, tiles=2)


@pytest.mark.parametrize("name", PLOTS)
def test_the_same_run_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    for suffix, head in (("png", b"\x89PNG"), ("svg", b"<?xml")):
        paths = [tmp_path / f"{turn}.{suffix}" for turn in "ab"]
        for path in paths:
            save(draw(name, make_run(layers=2, tiles=2)), path)
        first, second = (path.read_bytes() for path in paths)
        assert first == second
        assert first.startswith(head)
        assert b"dc:date" not in first


@pytest.mark.parametrize("name", PLOTS)
@pytest.mark.parametrize("run", [SMALL, LARGE], ids=["few", "many"])
def test_titles_axes_and_no_text_outside_the_figure(name: str, run: object) -> None:
    figure = draw(name, run)  # type: ignore[arg-type]
    figure.draw_without_rendering()
    assert figure.get_suptitle() or any(axes.get_title(loc="left") for axes in figure.axes)
    assert any(axes.get_xlabel() for axes in figure.axes)
    box = figure.bbox
    for axes in figure.axes:
        for label in (axes.xaxis.label, axes.yaxis.label, *axes.get_yticklabels()):
            if label.get_text() and label.get_visible():
                extent = label.get_window_extent()
                assert box.x0 - 2 <= extent.x0 and extent.x1 <= box.x1 + 2, label.get_text()


@pytest.mark.parametrize("run", [SMALL, LARGE], ids=["few", "many"])
@pytest.mark.parametrize("name", ["latency", "energy", "moving_data"])
def test_layer_labels_do_not_overlap(name: str, run: object) -> None:
    figure = draw(name, run)  # type: ignore[arg-type]
    figure.draw_without_rendering()
    for axes in figure.axes:
        for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
            boxes = [label.get_window_extent() for label in labels if label.get_text() and label.get_visible()]
            for first, second in pairwise(boxes):
                assert not first.overlaps(second)


def test_stages_cover_every_layer_in_order() -> None:
    rows = [
        replace(layer, stage="a" if place < 30 else "" if place < 50 else "b")
        for place, layer in enumerate(layers(LARGE))
    ]
    found = layer_plots.stages(rows)
    assert [name for name, _, _ in found] == ["a", "b"]
    assert [first for _, first, _ in found] == [1, 51]
    assert found[-1][2] == len(rows)


def test_energy_is_drawn_with_and_without_static_power() -> None:
    titles = [axes.get_title(loc="left") for axes in draw("energy", SMALL).axes]
    assert titles[0].startswith("Energy per layer") and titles[1].startswith("Without static power")


def test_bars_of_the_whole_run_are_whole() -> None:
    for axes in draw("whole", SMALL).axes:
        ends: dict[float, float] = {}
        for patch in axes.patches:
            ends[patch.get_y()] = ends.get(patch.get_y(), 0.0) + patch.get_width()
        assert all(end == pytest.approx(1) for end in ends.values())


def test_both_roofs_have_their_names() -> None:
    axes = draw("roofline", SMALL).axes[0]
    shown = " ".join(text.get_text() for text in axes.texts)
    assert "peak of the matrix unit" in shown and "B/s" in shown


def test_bars_add_up_to_the_latency() -> None:
    figure = draw("latency", SMALL)
    (axes,) = figure.axes
    total = sum(patch.get_width() for patch in axes.patches)
    factor, _ = prefixed([layer.added_fs * 1e-15 for layer in layers(SMALL)], "s")
    assert total == pytest.approx(SMALL.seconds * factor)


def test_everything_has_a_look_of_its_own() -> None:
    assert sorted(REASON_LOOKS) == sorted([*KEYS, HIDDEN])
    assert set(CATEGORY_LOOKS) == set(CATEGORIES)
    for looks in (REASON_LOOKS, CATEGORY_LOOKS):
        assert len(set(looks.values())) == len(looks)


def test_a_run_without_matrix_work_or_buffers_still_has_all_plots() -> None:
    bare = altered(SMALL, ledger=[row for row in SMALL.ledger if row.component == "vector"])
    for name in PLOTS:
        draw(name, bare).draw_without_rendering()
    assert layer_plots.access_note(bare) == ""


def test_an_access_is_compared_with_a_mac() -> None:
    assert "160 pJ" in layer_plots.access_note(SMALL)
    assert "800 MACs of 200 fJ" in layer_plots.access_note(SMALL)


def test_an_unknown_plot_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'roofline'"):
        draw("rooflin", SMALL)


def test_slices_closer_than_the_gap_become_one() -> None:
    assert machine_plots.merged([(5, 9), (0, 4), (20, 30), (22, 25)], 1) == [(0, 9), (20, 30)]


@pytest.mark.parametrize(("count", "shown"), [(5, [1, 2, 3, 4, 5]), (100, [1, *range(5, 101, 5)])])
def test_ticks(count: int, shown: list[int]) -> None:
    assert ticks(count, 20) == shown


def test_user_settings_do_not_change_a_plot(tmp_path: Path) -> None:
    from matplotlib import rc_context

    save(draw("latency", SMALL), tmp_path / "a.svg")
    with rc_context({"font.size": 20, "axes.facecolor": "red"}):
        save(draw("latency", SMALL), tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    ElementTree.parse(tmp_path / "a.svg")


def test_nothing_heavy_is_loaded_before_it_is_needed() -> None:
    modules = "accelsim.report.write, accelsim.report.compare"
    code = f"import sys, {modules}; print('matplotlib' in sys.modules, 'rich' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False"]
