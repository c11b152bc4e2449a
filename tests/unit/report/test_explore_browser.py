"""The explorable page in Chromium: what a reader does with it, and that it asks nothing of anybody."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import helper

import accelsim
from accelsim.cli import main
from tests.helpers.chromium import Opened, chromium, opened
from tests.helpers.onnx_models import model
from tests.helpers.pictures import unpainted

PICTURES = ("whole", "latency", "energy", "moving_data", "roofline", "timeline", "buffers", "joules")
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runs of one model on chips with other clocks, written as reports."""
    base = tmp_path_factory.mktemp("runs")
    with unpainted():
        for name, more in (("plain", []), ("slow", ["clock=50 MHz"])):
            accelsim.run("cnn", "edu-4x4", values="off", set=more).report(base / name)
    return [base / "plain", base / "slow"]


@pytest.fixture
def plain(browser: Any, folders: list[Path]) -> Iterator[Opened]:
    with opened(browser, folders[0] / "report.html") as found:
        yield found
        assert found.clean


def part(found: Opened, name: str) -> Any:
    return found.page.locator(f"article:not([hidden]) [data-part={name}]")


def names(found: Opened) -> list[str]:
    """The lines of the layer table that are shown, in their order."""
    cells = found.page.locator("article:not([hidden]) table.layers tbody tr:not([hidden]) td:nth-child(2)")
    return cells.all_inner_texts()


def hover(found: Opened, chart: Any, x: float, y: float) -> str:
    """Points at a place of a chart (shares of its width and height); the text of its tooltip."""
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    found.page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
    settle(found)
    return "\n".join(chart.locator(".tip").all_inner_texts())


def settle(found: Opened) -> None:
    """Two frames later: what an event changes is drawn in the next."""
    found.page.evaluate("() => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))")


def shown_s(chart_part: Any) -> tuple[float, float]:
    """The window of time that a chart shows, s."""
    text = chart_part.locator(".controls output").inner_text().removeprefix("shown: ")
    low, high = text.split(" to ")
    return accelsim.units.parse(low, "s"), accelsim.units.parse(high, "s")


@pytest.mark.parametrize("width", [1400, 420])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_is_drawn_at_any_width_and_colour(
    browser: Any, folders: list[Path], width: int, scheme: str
) -> None:
    with opened(browser, folders[0] / "report.html", width, scheme) as found:
        parts = [part(found, name) for name in PICTURES]
        assert all(each.locator("canvas").count() for each in parts)
        wide = found.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, "the page does not scroll sideways"
        blank = found.page.evaluate(
            "[...document.querySelectorAll('.chart canvas')].filter((canvas) => !canvas.getContext('2d')"
            ".getImageData(0, 0, canvas.width, canvas.height).data.some((value) => value)).length"
        )
        assert blank == 0
        assert part(found, "array").locator("svg.chart").count() == 1
        assert found.clean


def test_the_table_sorts_by_click_and_by_key(plain: Opened) -> None:
    before = names(plain)
    head = plain.page.get_by_role("columnheader", name="time")
    head.click()
    values = plain.page.evaluate(
        "[...document.querySelectorAll('table.layers tbody tr')].map((row) => Number(row.cells[5].dataset.v))"
    )
    assert head.get_attribute("aria-sort") == "descending"
    assert values == sorted(values, reverse=True) and names(plain) != before
    plain.page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    plain.page.get_by_role("columnheader", name="layer").press(" ")
    assert names(plain) == sorted(before, key=str.casefold)


def test_the_filter_leaves_lines_with_the_text(plain: Opened) -> None:
    every = names(plain)
    field = part(plain, "table").get_by_role("searchbox")
    field.fill("CONV1")
    assert names(plain) == ["conv1"]
    assert part(plain, "table").locator("output").inner_text() == f"1 of {len(every)} lines"
    field.fill("")
    assert names(plain) == every


def test_a_layer_that_is_pointed_at_lights_up_everywhere(plain: Opened) -> None:
    charts = {name: part(plain, name).locator(".chart").first for name in PICTURES[1:]}
    before = {name: look(plain, chart) for name, chart in charts.items()}
    cell = plain.page.get_by_role("cell", name="conv2", exact=True)
    cell.hover()
    settle(plain)
    assert "conv2" in plain.page.locator("#status").inner_text()
    assert [row.inner_text() for row in plain.page.locator("tr.lit td:nth-child(2)").all()] == ["conv2"]
    cell.click()  # so that it stays while the pointer goes elsewhere
    plain.page.mouse.move(5, 5)
    assert all(look(plain, chart) != before[name] for name, chart in charts.items())
    cell.click()
    plain.page.mouse.move(5, 5)
    settle(plain)
    assert plain.page.locator("tr.lit").count() == 0
    assert {name: look(plain, chart) for name, chart in charts.items()} == before


def look(found: Opened, chart: Any) -> str:
    """All that is painted on a chart, once it is in view."""
    chart.scroll_into_view_if_needed()
    settle(found)
    painted = "(chart) => [...chart.querySelectorAll('canvas')].map((canvas) => canvas.toDataURL()).join()"
    return str(chart.evaluate(painted))


def test_charts_tell_what_lies_under_the_pointer(plain: Opened) -> None:
    told = hover(plain, part(plain, "timeline").locator(".chart"), 0.5, 0.12)
    assert "critical path: conv2" in told and "the run waited for" in told
    assert plain.page.locator("tr.lit td:nth-child(2)").inner_text() == "conv2"
    assert "waited for:" in hover(plain, part(plain, "timeline").locator(".chart"), 0.5, 0.46)
    bars = hover(plain, part(plain, "latency").locator(".chart"), 0.2, 0.2)
    assert "time that the layer adds" in bars and "compute: 9" in bars
    assert "80.7%" in hover(plain, part(plain, "whole").locator(".chart").first, 0.3, 0.4)
    assert "% of the run" in hover(plain, part(plain, "joules").locator(".chart"), 0.2, 0.1)
    buffers = part(plain, "buffers").locator(".chart")
    said = "\n".join(hover(plain, buffers.nth(number), 0.5, 0.6) for number in range(buffers.count()))
    assert "in use" in said and "conv2.weight" in said and "written by conv2" in said


def test_rooflines_name_the_mark_under_the_pointer(plain: Opened) -> None:
    chart = part(plain, "roofline").locator(".chart").first
    places = plain.page.evaluate(
        "() => { const view = VIEWS.get('0'), chart = view.charts.find((each) => each.panel.label.startsWith('Roofline'));"
        " const frame = chart.frame(), mark = chart.marks.find((each) => each.columns.name);"
        " return mark.columns.line.map((line, i) => [view.nameOf(line),"
        " chart.area.x + frame.x(mark.x[i]), chart.area.y + frame.y(mark.y[i])]); }"
    )
    box = chart.bounding_box()
    assert {name for name, _, _ in places} == {"conv1", "conv2", "fc"}
    for name, x, y in places:
        told = hover(plain, chart, x / box["width"], y / box["height"])
        assert told.startswith(name) and "of the roof there" in told


def test_the_timeline_zooms_from_the_run_to_one_clock_edge(plain: Opened) -> None:
    timeline = part(plain, "timeline")
    whole = shown_s(timeline)
    assert whole[0] == 0 and whole[1] == pytest.approx(605e-6, rel=0.01)
    chart = timeline.locator(".chart")
    chart.focus()
    for _ in range(40):
        plain.page.keyboard.press("+")
    settle(plain)
    low, high = shown_s(timeline)
    assert high - low == pytest.approx(1e-8, rel=0.2), "one clock of 100 MHz"
    plain.page.keyboard.press("ArrowRight")
    settle(plain)
    assert shown_s(timeline)[0] > low
    plain.page.keyboard.press("Home")
    settle(plain)
    assert shown_s(timeline) == whole
    timeline.get_by_role("button", name="zoom in").click()
    settle(plain)
    assert shown_s(timeline)[1] - shown_s(timeline)[0] == pytest.approx(whole[1] / 2, rel=0.01)
    hover(plain, chart, 0.5, 0.3)
    plain.page.keyboard.down("Control")
    plain.page.mouse.wheel(0, -300)
    plain.page.keyboard.up("Control")
    plain.page.wait_for_timeout(200)  # ECharts gathers turns of the wheel
    assert shown_s(timeline)[1] - shown_s(timeline)[0] < 0.49 * whole[1]


def test_a_chosen_layer_stays_lit_and_can_be_zoomed_to(plain: Opened) -> None:
    timeline = part(plain, "timeline")
    timeline.get_by_role("button", name="zoom to the chosen layer").click()
    assert "Choose a layer first" in timeline.locator(".told").inner_text()
    plain.page.get_by_role("cell", name="fc", exact=True).click()
    plain.page.mouse.move(5, 5)
    settle(plain)
    assert plain.page.locator("tr.lit td:nth-child(2)").inner_text() == "fc"
    timeline.get_by_role("button", name="zoom to the chosen layer").click()
    settle(plain)
    low, high = shown_s(timeline)
    assert 0 < low < high and high - low < 300e-6
    plain.page.keyboard.press("Escape")
    timeline.locator(".chart").press("Escape")
    settle(plain)
    assert plain.page.locator("tr.lit").count() == 0


def test_rows_and_slices_can_be_reached_by_keys(plain: Opened) -> None:
    body = plain.page.locator("table.layers tbody")
    assert body.locator("tr[tabindex='0']").count() == 1
    body.locator("tr").first.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowUp", "Enter"):
        plain.page.keyboard.press(key)
    settle(plain)
    assert plain.page.locator("tr.lit td:nth-child(2)").inner_text() == "conv1"
    plain.page.keyboard.press("Escape")
    part(plain, "latency").locator(".chart").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown"):
        plain.page.keyboard.press(key)
        settle(plain)
    assert plain.page.locator("#status").inner_text().startswith("pool1")
    timeline = part(plain, "timeline")
    timeline.locator(".chart").focus()
    for key in ("ArrowDown", ".", "."):
        plain.page.keyboard.press(key)
    assert "waited for" in timeline.locator(".told").inner_text()


def test_a_part_of_the_energy_is_shown_over_the_whole_width(plain: Opened) -> None:
    joules = part(plain, "joules")
    before = joules.locator("output").inner_text()
    hover(plain, joules.locator(".chart"), 0.8, 0.1)
    box = joules.locator(".chart").bounding_box()
    plain.page.mouse.click(box["x"] + 0.8 * box["width"], box["y"] + 0.1 * box["height"])
    settle(plain)
    assert joules.locator("output").inner_text() != before


def test_the_array_steps_and_plays(plain: Opened) -> None:
    array = part(plain, "array")
    array.locator(".sysarr").focus()
    assert array.locator(".now").inner_text().startswith("Edge 1 of ")
    plain.page.keyboard.press("ArrowRight")
    assert array.locator(".now").inner_text().startswith("Edge 2 of ")
    assert array.locator(".pe").count() == 16
    plain.page.keyboard.press("Space")
    array.locator(".sysarr[data-edge='4']").wait_for()
    plain.page.keyboard.press("Space")
    plain.page.keyboard.press("Home")
    busy = []
    for _ in range(12):
        plain.page.keyboard.press("ArrowRight")
        busy.append(array.locator(".works").count())
    assert busy[0] == 0 and busy == sorted(busy) and busy[-1] == 16, "the wavefront moves in"


def test_runs_stand_side_by_side(browser: Any, folders: list[Path], tmp_path: Path) -> None:
    target = tmp_path / "both.html"
    done = CliRunner().invoke(main, ["report", *map(str, folders), "--out", str(target)])
    assert done.exit_code == 0, done.output
    with opened(browser, target) as found:
        page = found.page
        assert page.locator("h1:visible").all_inner_texts() == ["2 runs side by side"]
        assert page.get_by_text(re.compile(r"clock=50 MHz against defaults: latency 1\.\d+ ms against ")).is_visible()
        assert hover(found, part(found, "compare").locator(".chart").first, 0.3, 0.35)
        part(found, "table").get_by_role("searchbox").fill("conv2")
        rows = page.locator("article.comparison table.layers tbody tr:not([hidden])")
        assert rows.count() == 1 and "+" in rows.first.inner_text()
        page.get_by_role("button", name="clock=50 MHz").click()
        page.wait_for_selector("article[data-run='1'] [data-part=joules] canvas")
        assert page.locator("h1:visible").count() == 1 and shown_s(part(found, "timeline"))[1] > 1e-3
        page.get_by_role("button", name="side by side").click()
        assert page.locator("h1:visible").all_inner_texts() == ["2 runs side by side"]
        assert found.clean


def hostile(folder: Path) -> Path:
    """A model whose nodes and tensors are called as code that runs where somebody forgot to escape it."""
    nodes = [
        helper.make_node("MatMul", ["x", f"w{HOSTILE}"], [f"y{HOSTILE}"], name=HOSTILE),
        helper.make_node("Relu", [f"y{HOSTILE}"], ["z"], name=f"</script>{HOSTILE}"),
    ]
    made = model(nodes, {"x": (1, 16)}, ["z"], {f"w{HOSTILE}": np.ones((16, 8), np.float32)})
    file = folder / "model.onnx"
    onnx.save(made, file)
    return file


def test_names_that_are_code_are_shown_as_text(browser: Any, tmp_path: Path, unpainted: None) -> None:
    report = accelsim.run(str(hostile(tmp_path)), "edu-4x4", values="off").report(tmp_path / "r")
    with opened(browser, report) as found:
        assert HOSTILE in " ".join(names(found))
        charts = found.page.locator(".chart")
        told = [hover(found, charts.nth(n), 0.5, y) for n in range(charts.count()) for y in (0.1, 0.3)]
        assert sum(HOSTILE in text for text in told) > 2
        assert found.page.locator("img").count() == 0
        assert found.clean


def test_the_page_prints_light_and_without_controls(browser: Any, folders: list[Path]) -> None:
    with opened(browser, folders[0] / "report.html", scheme="dark") as found:
        found.page.emulate_media(media="print")
        assert not part(found, "timeline").locator(".controls").is_visible()
        assert found.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        found.page.emulate_media(media="screen")
        found.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        chart = part(found, "timeline").locator("canvas")
        assert chart.bounding_box()["width"] == 660, "as wide as paper"
        found.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        assert chart.bounding_box()["width"] > 1000
        assert found.clean


def test_a_picture_that_fails_says_so_and_leaves_the_others(browser: Any, folders: list[Path], tmp_path: Path) -> None:
    shutil.copytree(folders[0], tmp_path / "run")
    file = tmp_path / "run" / "page.json.gz"
    data = json.loads(gzip.decompress(file.read_bytes()))
    data["pictures"][-1]["panels"] = 17
    file.write_bytes(gzip.compress(json.dumps(data).encode()))
    assert CliRunner().invoke(main, ["report", str(tmp_path / "run")]).exit_code == 0
    with opened(browser, tmp_path / "run" / "report.html") as found:
        assert "cannot be drawn" in part(found, "joules").inner_text()
        assert part(found, "timeline").locator("canvas").count() and len(found.errors) == 1
