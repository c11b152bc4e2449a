"""Number formats side by side: cells, sentences, page, figures and plot, from made-up figures."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import nan
from pathlib import Path

import numpy as np
import pytest

from accelsim.errors import UsageError
from accelsim.explore.accuracy import PTQ, QAT, Accuracy, FormatResult
from accelsim.files import write_folder
from accelsim.report.accuracy import FILES, FORMATS, LOOKS, accuracy, draw, markdown, sentences
from accelsim.report.answer import Table
from accelsim.report.table import render

HEADERS = [each.title for each in FORMATS]
ROW = FormatResult("edu-mixed", "int8", PTQ, "int8", 0.9917, 21e-6, 20e-6, 834e-6, 833e-6, 4190.0)


def made(chips: int = 2, formats: int = 8) -> Accuracy:
    names = ["fp32", "tf32", "bf16", "fp16", "fp8_e4m3fn", "int8", "int4", "int1"][:formats]
    rows = []
    for method in (PTQ, QAT):
        for i, dtype in enumerate(names if method == PTQ else names[-2:]):
            for c in range(chips):
                share = 0.99 - 0.009 * i - (0.5 if dtype == "int1" and method == PTQ else 0)
                rows.append(FormatResult(f"chip-{c}", dtype, method, dtype, share, 1e-6 / (i + 1) * (c + 1) ** 2,
                                0.0 if i < 4 else 2e-7 / (i + 1), 3e-6 / (i + 1), 0.0 if i < 4 else 1e-7, 15e3 / (i + 1)))  # fmt: skip
    if chips > 1:
        rows[1] = FormatResult("chip-1", "fp32", PTQ, note="chip-1 does not compute in 'fp32'")
    return Accuracy("a-net", "blobs", 360, 1, 0.99, "training, 5 steps", rows)


def shown(result: Accuracy) -> Table:
    table = accuracy(result).shown[0]
    assert isinstance(table, Table)
    return table


def cells(row: FormatResult) -> list[str]:
    table = shown(Accuracy("m", "d", 10, 1, 0.9, "model", [row]))
    return [each.cell(table.records[0]) for each in table.fields]


def written(result: Accuracy, folder: Path) -> list[Path]:
    (content,) = accuracy(result, folder, "accelsim accuracy").other_files.values()
    assert isinstance(content, dict)
    return write_folder(folder, content)


def test_cells_of_a_row() -> None:
    assert cells(ROW) == [
        "edu-mixed", "int8", PTQ, "itself", "99.17 %", "1 us", "1 uJ", "20 us, 833 uJ", "4.19 kB",
    ]  # fmt: skip
    assert cells(replace(ROW, mac="bf16"))[3] == "bf16"
    assert cells(replace(ROW, host_s=0.0, host_J=0.0))[7] == "-"
    assert cells(FormatResult("c", "fp32", PTQ, note="no")) == ["c", "fp32", PTQ, *["-"] * 6]
    assert all(len(cells(row)) == len(HEADERS) for row in made().rows)


@pytest.mark.parametrize("width", [70, 100, 160])
def test_the_table_fits(width: int) -> None:
    text = render(shown(made()).shown(width), width, False)
    assert max(map(len, text.splitlines())) <= width
    assert "chip-1" in text and "int1" in text


def test_sentences_say_what_is_best_and_what_is_missing() -> None:
    lines = sentences(made())
    assert "99.00 %" in lines[0] and "360" in lines[0] and "training, 5 steps" in lines[0]
    assert "batch 1" in lines[1]
    best = next(line for line in lines if line.startswith("Least energy"))
    assert "tf32 (PTQ) on chip-" in best, "0.9 points lost, and less energy than fp32"
    assert lines[-1] == "Nothing in chip-1 computes fp32."


def test_without_anything_near_the_baseline_nothing_is_best() -> None:
    result = made(1, 1)
    poor = replace(result, rows=[replace(result.rows[0], accuracy=0.5)])
    assert not any("Least energy" in line for line in sentences(poor))


def test_the_page_has_command_sentences_picture_and_every_row() -> None:
    result = made()
    page = markdown(result, "accelsim accuracy a-net --on chip-0,chip-1")
    assert page.startswith("# a-net: accuracy, latency and energy by number format\n\nMade by `accelsim accuracy")
    assert "![accuracy, latency, energy](accuracy.png)" in page
    rows = [line for line in page.splitlines() if line.startswith("| chip-")]
    assert len(rows) == len(result.rows)
    assert {line.count("|") for line in page.splitlines() if line.startswith("|")} == {len(HEADERS) + 1}
    assert "Made by" not in markdown(result, "")


def test_figures_are_read_back_as_they_were() -> None:
    result = made()
    rows = accuracy(result).table()
    for row, mine in zip(rows, result.rows, strict=True):
        assert (row["chip"], row["dtype"], row["method"], row["note"]) == (
            mine.chip,
            mine.dtype,
            mine.method,
            mine.note,
        )
        for name in ("accuracy", "latency_s", "host_s", "energy_J", "host_J", "model_B"):
            value = getattr(mine, name)
            assert (row[name] is None) if value != value else row[name] == value


def test_the_same_table_gives_the_same_bytes(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        assert written(made(), folder) == [folder / name for name in FILES]
        assert sorted(path.name for path in folder.iterdir()) == sorted(FILES), "no half-written file stays"
    for name in FILES:
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()
    draw(made()).save(tmp_path / "plot.svg")
    assert (tmp_path / "plot.svg").read_bytes().startswith(b"<?xml")
    assert b"dc:date" not in (tmp_path / "plot.svg").read_bytes()


def test_a_folder_that_cannot_be_made_is_a_users_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="cannot be written"):
        written(made(), tmp_path / "file" / "out")


@pytest.mark.parametrize(("chips", "formats"), [(1, 1), (2, 8), (4, 8), (6, 8), (1, 8)])
def test_no_text_overlaps_or_leaves_the_figure(chips: int, formats: int) -> None:
    figure = draw(made(chips, formats)).figure()
    figure.draw_without_rendering()
    box = figure.bbox
    for axes in figure.axes:
        assert axes.get_ylabel()
        labels = [label for label in axes.get_xticklabels() if label.get_text() and label.get_visible()]
        for first, second in pairwise(label.get_window_extent() for label in labels):
            assert not first.overlaps(second)
        for text in (*labels, *axes.get_yticklabels(), axes.xaxis.label, axes.yaxis.label):
            if text.get_text() and text.get_visible():
                extent = text.get_window_extent()
                assert box.x0 - 2 <= extent.x0 and extent.x1 <= box.x1 + 2, text.get_text()
    (legend,) = figure.legends
    extent = legend.get_window_extent()
    assert box.x0 - 2 <= extent.x0 and extent.x1 <= box.x1 + 2 and extent.y0 >= box.y0 - 2
    assert not legend.get_window_extent().overlaps(figure.axes[-1].xaxis.label.get_window_extent())
    assert [text.get_text() for text in legend.get_texts()] == [f"chip-{c}" for c in range(chips)]


def test_points_and_bars_stand_at_their_formats() -> None:
    result = made(2)
    top, middle, bottom = draw(result).figure().axes
    known = [row for row in result.rows if row.known]
    shares = sorted(float(y) for line in top.lines[:2] for y in np.asarray(line.get_ydata()))
    assert shares == pytest.approx(sorted(100 * row.accuracy for row in known))
    for axes, name in ((middle, "chip_s"), (bottom, "chip_J")):
        heights = sorted(patch.get_height() for patch in axes.patches)  # type: ignore[attr-defined]
        values = sorted(getattr(row, name) for row in known)
        factor = heights[-1] / values[-1]
        assert heights == pytest.approx([value * factor for value in values])


def test_a_table_without_a_known_row_can_be_drawn(tmp_path: Path) -> None:
    result = Accuracy("m", "d", 10, 1, 0.9, "model", [FormatResult("c", "fp32", PTQ, note="no")])
    written(result, tmp_path)
    assert "| c | fp32 | PTQ | - |" in (tmp_path / "accuracy.md").read_text()
    assert (tmp_path / "accuracy.csv").read_text().splitlines()[1] == "c,fp32,PTQ,,,,,,,,no"


def test_chips_look_different() -> None:
    assert len(set(LOOKS)) == len(LOOKS)
    for index in range(2):
        assert len({look[index] for look in LOOKS}) == len(LOOKS)


def test_what_is_not_known_is_no_number() -> None:
    assert nan not in [row.accuracy for row in made().rows if row.known]
    assert not FormatResult("c", "int8", PTQ).known


@pytest.mark.parametrize(
    ("batch", "said"),
    [(1, "of one inference on the chip (batch 1);"), (8, "of a batch of 8 on the chip, divided by 8;")],
)
def test_a_share_of_a_batch_is_not_called_the_latency_of_one_inference(batch: int, said: str) -> None:
    result = Accuracy("m", "d", 10, batch, 0.9, "model", [FormatResult("c", "fp32", PTQ, note="no")])
    assert said in " ".join(sentences(result))
