"""The page of a service in Chromium: every picture is drawn, requests can be pointed at, the timeline zooms."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import accelsim
from accelsim.cli import main
from accelsim.report.service_page import NAMES
from tests.helpers.chromium import chromium, opened
from tests.helpers.pictures import unpainted

SMALL = "llama?layers=1,hidden=64,heads=1,kv_heads=1,ffn=128,vocab=100"
ASKED = ("serve", SMALL, "--on", "h100-sxm", "--load", "poisson:8000/s", "--lengths", "fixed:32,4", "--requests", "80",
         "--limit", "ttft=1ms")  # fmt: skip
PICTURES = ("whole", "requests", "service", "latencies", "rates")


@pytest.fixture(scope="module", name="folder")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A service with its page; changes of the chip, which take longest, are left out."""
    folder = tmp_path_factory.mktemp("service") / "out"
    with unpainted(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("accelsim.serving.levers.CHIPS", ())
        done = CliRunner().invoke(main, [*ASKED, "--out", str(folder)])
    assert done.exit_code == 0, done.output
    assert done.stdout.rstrip().endswith(f"Written: {folder / 'report.html'}")
    return folder


@pytest.fixture(scope="module", name="browser")
def _browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def test_the_folder_has_the_figures_and_every_request(folder: Path) -> None:
    assert {each.name for each in folder.iterdir()} == set(NAMES)
    facts = json.loads((folder / "service.json").read_text())
    rows = [*csv.DictReader((folder / "requests.csv").read_text().splitlines())]
    assert len(rows) == facts["requests"] == 80
    total = sum(float(row["waiting_s"]) + float(row["prompt_s"]) + float(row["tokens_s"]) for row in rows)
    assert total == pytest.approx(sum(float(row["e2e_s"]) for row in rows))


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    done = CliRunner().invoke(main, [*ASKED, "--out", str(tmp_path), "--no-advice", "--router", "none"])
    assert done.exit_code == 2 and "holds no report of a service" in done.output and "none" in done.output


@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (420, "dark")])
def test_everything_is_drawn(browser: Any, folder: Path, width: int, scheme: str) -> None:
    with opened(browser, folder / "report.html", width, scheme) as found:
        for name in PICTURES:
            assert found.page.locator(f"[data-part={name}] canvas").count(), name
        assert found.page.evaluate("document.documentElement.scrollWidth") <= width
        words = found.page.locator("article").inner_text()
        assert "binds: with" in words or "no single part binds" in words
        assert "90% of the requests keep the limits" in words and "What would help" in words
        assert found.clean


def test_a_request_can_be_pointed_at_chosen_and_zoomed_to(browser: Any, folder: Path) -> None:
    with opened(browser, folder / "report.html") as found:
        part = found.page.locator("[data-part=requests]")
        output = part.locator(".controls output")
        whole = output.inner_text()
        row = found.page.locator("table.layers tbody tr").nth(40)
        row.locator("td").first.click()
        part.get_by_role("button", name="zoom to the chosen layer").click()
        found.page.wait_for_timeout(100)
        low, high = (
            accelsim.units.parse(each, "s") for each in output.inner_text().removeprefix("shown: ").split(" to ")
        )
        assert output.inner_text() != whole and low < high
        chart = part.locator(".chart")
        chart.scroll_into_view_if_needed()
        box, told = chart.bounding_box(), set[str]()
        for share in range(1, 20):
            found.page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + share / 20 * box["height"])
            told |= set(chart.locator(".tip").all_inner_texts())
        assert any(text.startswith("request ") and "tokens of prompt" in text for text in told)
        assert found.clean


def test_the_page_of_items_is_drawn(browser: Any, tmp_path: Path) -> None:
    given = (
        "serve",
        "mlp?hidden=64",
        "--on",
        "t4",
        "--load",
        "poisson:20000/s",
        "--requests",
        "60",
        "--before",
        "50us",
    )
    with unpainted():
        done = CliRunner().invoke(
            main, [*given, "--scheduler", "dynamic:max=4,delay=1ms", "--out", str(tmp_path / "out")]
        )
    assert done.exit_code == 0, done.output
    with opened(browser, tmp_path / "out" / "report.html") as found:
        for name in PICTURES:
            assert found.page.locator(f"[data-part={name}] canvas").count(), name
        words = found.page.locator("article").inner_text()
        assert ("binds: with" in words or "no single part binds" in words) and "What would help" in words
        assert found.clean
