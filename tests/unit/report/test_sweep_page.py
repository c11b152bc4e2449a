"""The page of a sweep: what it packs, the commands on it, and in Chromium the rectangle that the table follows."""

from __future__ import annotations

import gzip
import json
import re
import shlex
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from accelsim.cli import main
from accelsim.explore.sweep.fronts import on_front
from accelsim.explore.sweep.point import Outcome, Point
from accelsim.explore.sweep.space import Sweep
from accelsim.explore.sweep.store import Member, Store
from accelsim.explore.sweep.study import Study, read_study, run_sweep
from accelsim.report.page.points import points_page
from accelsim.report.sweep import sweep as report
from tests.helpers.chromium import Opened, chromium, opened

SMALL = Sweep(
    model="gemm?M=8,N=12,K=16",
    on="edu-4x4",
    axes={
        "matrix.rows,matrix.cols": [2, 4],
        "memories.dram.memory.bandwidth": ["1 GB/s", "4 GB/s"],
        "matrix.dataflow": ["ws", "os"],
        "dtype": ["int8", "fp8_e5m2"],
    },
    limits={"latency": "4.18 us"},
)
"""Sixteen points, of which eight are refused: the chip lacks their format."""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    store = Store(tmp_path_factory.mktemp("store") / "small.db")
    run_sweep(SMALL, store, "small")
    return read_study(store)


@pytest.fixture(scope="module")
def content(study: Study) -> dict[str, Any]:
    return points_of(points_page(report(study, 0, False)))


def points_of(page: str) -> dict[str, Any]:
    """The points that a page holds."""
    block = re.search(r'id="run-data-0">([^<]*)<', page)
    assert block is not None
    found: dict[str, Any] = json.loads(gzip.decompress(b64decode(block[1])))["points"]
    return found


def column(content: dict[str, Any], key: str) -> list[object]:
    found = next(each for each in content["columns"] if each["key"] == key)
    return [found["texts"][code] for code in found["codes"]] if "codes" in found else found["values"]


def test_columns_are_the_figures_of_the_study(study: Study, content: dict[str, Any]) -> None:
    for name, key in (("latency", "latency_s"), ("energy", "energy_J"), ("throughput", "throughput_per_s")):
        np.testing.assert_allclose(np.array(column(content, key), dtype=float), study.values(name), rtol=1e-5)
    assert column(content, "matrix.dataflow") == study.axes["matrix.dataflow"]
    (bandwidth,) = (each for each in content["columns"] if each["key"] == "memories.dram.memory.bandwidth")
    assert bandwidth["places"] == [1e9, 4e9] and bandwidth["unit"] == "B/s"
    assert [at for at, text in enumerate(column(content, "front")) if text == "yes"] == sorted(study.front)
    assert "energy_per_sample_J" not in {each["key"] for each in content["columns"]}, "equals the energy"
    assert content["limits"] == {"latency_s": pytest.approx(4.18e-6)}


def test_fronts_of_two_objectives_keep_the_limits(study: Study, content: dict[str, Any]) -> None:
    costs = np.column_stack([study.values("latency"), study.values("power")])
    costs[~study.within] = np.nan
    assert sorted(content["fronts"]["latency_s power_W"]["front"]) == list(np.flatnonzero(on_front(costs)))


def test_a_command_gives_the_figures_of_the_store(study: Study, content: dict[str, Any]) -> None:
    at = int(np.nanargmin(study.values("latency")))
    done = CliRunner().invoke(main, [*shlex.split(content["commands"][at])[1:], "--no-advice", "--json"])
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert (facts["latency_s"], facts["energy_J"]) == (study.values("latency")[at], study.values("energy")[at])


def test_points_that_failed_alike_are_one_row(study: Study) -> None:
    page = points_page(report(study, 0, False))
    table = page[page.index("Points without figures") : page.index("differ in numbers alone")]
    cells = re.findall(r"<td[^>]*>(.*?)</td>", table)
    assert len(cells) == 4 and cells[:2] == ["refused", "8"] and cells[3] == "dtype fp8_e5m2"
    assert "fp8_e5m2" in cells[2]


def test_many_points_are_small() -> None:
    def page(count: int) -> int:
        random = np.random.default_rng(count)
        members = []
        for at in range(count):
            latency, energy = (float(value) for value in random.uniform(1e-6, 1e-3, 2))
            facts: dict[str, object] = {"latency_s": latency, "energy_J": energy, "limit": "compute"}
            point = Point.of(
                "cnn", "edu-4x4", {"values": "off", "set": [f"matrix.rows={at % 61 + 1}", f"clock={at % 37 + 1} MHz"]}
            )
            members.append(Member(at, point, Outcome(str(at), "done", facts)))
        axes = {
            "matrix.rows": [str(at % 61 + 1) for at in range(count)],
            "clock": [f"{at % 37 + 1} MHz" for at in range(count)],
        }
        return len(points_page(report(Study("many", members, axes, ["latency", "energy"], {}), 0, False)))

    whole, each = page(2), (page(1000) - page(2)) / 998
    assert whole + 10_000 * each < 3e6


@pytest.fixture(scope="module")
def file(study: Study, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "small.html"
    file.write_text(points_page(report(study, 0, False)), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def page(browser: Any, file: Path) -> Iterator[Opened]:
    with opened(browser, file) as found:
        yield found
        assert found.clean


def settle(found: Opened) -> None:
    """Two frames later: what an event changes is drawn in the next."""
    found.page.evaluate("() => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))")


def listed(found: Opened) -> list[int]:
    """Numbers of the points in the table, in its order."""
    return [int(text) for text in found.page.locator("tbody tr[data-layer] td:first-child").all_inner_texts()]


def drag(found: Opened, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Draw a rectangle over a part of the chart, in shares of its width and height."""
    box = found.page.locator(".brushed .chart").bounding_box()
    places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in (start, end)]
    found.page.mouse.move(*places[0])
    found.page.mouse.down()
    found.page.mouse.move(*places[1], steps=4)
    settle(found)
    found.page.mouse.up()
    settle(found)


def test_the_table_follows_the_rectangle(page: Opened, study: Study) -> None:
    assert sorted(listed(page)) == list(range(16))
    drag(page, (0.09, 0.5), (0.6, 0.9))
    ranges = dict(page.page.evaluate("[...VIEWS.get('0').charts[0].marks[0].owner.ranges]"))
    x, y = study.values("latency"), study.values("energy")
    (left, right), (low, high) = ranges["latency_s"], ranges["energy_J"]
    inside = [int(at) for at in np.flatnonzero((left <= x) & (x <= right) & (low <= y) & (y <= high))]
    assert 0 < len(inside) < 8 and sorted(listed(page)) == inside
    best = min(inside, key=lambda at: x[at])
    assert listed(page)[0] == best, "by latency at first"
    said = page.page.locator(".lead").last.inner_text()
    assert said.startswith(f"{len(inside)} of 16 points. Best latency: ")
    assert f"dataflow {study.axes['matrix.dataflow'][best]}" in said
    assert page.page.locator(".pick code").inner_text().startswith("accelsim run 'gemm?M=8,N=12,K=16' --on edu-4x4")
    page.page.get_by_role("button", name="front only").click()
    assert sorted(listed(page)) == sorted(set(inside) & set(study.front))
    for _ in range(3):
        page.page.get_by_title("drop this range").first.click()
    assert len(listed(page)) == 16


def test_columns_sort_and_a_row_is_chosen(page: Opened, study: Study) -> None:
    head = page.page.get_by_role("columnheader", name="energy")
    head.click()
    found = [study.values("energy")[at] for at in listed(page)]
    assert head.get_attribute("aria-sort") == "ascending" and np.isnan(found[8:]).all()
    assert found[:8] == sorted(found[:8])
    head.press("Enter")
    assert listed(page)[0] == int(np.nanargmax(study.values("energy"))) and np.isnan(found[8:]).all()
    row = page.page.locator("tbody tr[data-layer]").nth(2)
    row.click()
    assert page.page.locator(".pick strong").inner_text() == f"Point {row.locator('td').first.inner_text()}, chosen: "
    page.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.page.get_by_role("button", name="copy the command").click()
    page.page.get_by_text("copied").wait_for()
    assert page.page.evaluate("navigator.clipboard.readText()") == page.page.locator(".pick code").inner_text()


def test_keys_move_the_rectangle_and_axes_are_chosen(page: Opened, study: Study) -> None:
    chart = page.page.locator(".brushed .chart")
    chart.press("ArrowDown")
    for _ in range(6):
        chart.press("Shift+ArrowRight")
        chart.press("Shift+ArrowUp")
    assert {study.axes["matrix.rows,matrix.cols"][at] for at in listed(page)} == {"2"}, "the slow ones"
    assert page.page.get_by_title("drop this range").count() == 2
    chart.press("Escape")
    assert len(listed(page)) == 16
    page.page.get_by_label("across").select_option(label="bandwidth")
    drag(page, (0.5, 0.02), (0.98, 0.9))
    bandwidth = study.axes["memories.dram.memory.bandwidth"]
    assert {bandwidth[at] for at in listed(page)} == {"4 GB/s"} and len(listed(page)) == 4
    assert page.page.get_by_title("drop this range").first.inner_text() == "bandwidth: 4 GB/s ✕"
    page.page.get_by_role("button", name="logarithmic axis x").click()
    page.page.get_by_role("button", name="zoom to the selection").click()
    drag(page, (0.0, 0.0), (0.01, 0.01))
    assert "0 of 16 points." in page.page.locator(".lead").last.inner_text()


@pytest.mark.parametrize("width", [1400, 420])
def test_the_page_is_drawn_at_any_width(browser: Any, file: Path, width: int) -> None:
    with opened(browser, file, width, "dark") as found:
        assert found.page.evaluate("document.documentElement.scrollWidth") <= width
        assert (
            found.page.locator(".chart canvas").count() >= 3
            and "limit (dashed)" in found.page.locator(".key").first.inner_text()
        )
        assert found.clean


def test_a_study_without_figures_has_a_page(browser: Any, study: Study, tmp_path: Path) -> None:
    failed = [member for member in study.members if member.outcome is not None and member.outcome.error]
    file, axes = tmp_path / "failed.html", {"clock": [str(at) for at in range(len(failed))]}
    file.write_text(points_page(report(Study("failed", failed, axes, ["latency"], {}), 0, False)), encoding="utf-8")
    with opened(browser, file) as found:
        assert found.page.locator(".lead").last.inner_text() == "8 of 8 points."
        assert listed(found) == [member.number for member in failed]
        assert found.clean
