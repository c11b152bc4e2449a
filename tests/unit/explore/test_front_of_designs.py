"""The study of an edge chip: the page says what its points say, and the points are runs."""

from __future__ import annotations

import csv
import gzip
import re

import pytest

from accelsim.account.area import designed
from accelsim.explore.sweep.point import outcome
from accelsim.explore.sweep.space import size_of
from accelsim.explore.sweep.study import read_sweep
from accelsim.spec.yaml.chips import load_chip
from tests.helpers.doc_blocks import ROOT, script
from tests.validation.dies import area, designed_mm2, rows

pytestmark = pytest.mark.shipped_search  # the points were found with whole searches
PAGE = (ROOT / "docs" / "front-of-designs.md").read_text(encoding="utf-8")
FOLDER = ROOT / "examples" / "edge-front"
PICTURE = script(ROOT / "docs" / "pictures" / "front_of_designs.py")


def test_the_page_says_what_the_points_say() -> None:
    told = PICTURE.answer().facts["sentences"]
    assert " ".join(told[2:]) in " ".join(PAGE.split())
    costs = [row["chip_cost_USD"] for row in PICTURE.answer(("latency", "chip cost")).facts["front"]]
    assert f"from {min(costs):.2f} to {max(costs):.2f} USD" in PAGE
    for row in PICTURE.answer().facts["front"]:
        assert "int8" in row["matrix.formats"] and int(row["matrix.rows,matrix.cols,vector.lanes"]) <= 64


def test_the_file_has_as_many_designs_as_the_page_says() -> None:
    assert f"{size_of(read_sweep(FOLDER / 'front.yaml')):,} designs" in PAGE


def test_a_pe_for_bf16_takes_eight_times_the_area() -> None:
    formats = ("{int8: {}}", "{bf16: {accumulate: fp32}}")
    found = [designed(load_chip(FOLDER / "edge.yaml", [f"matrix.formats={each}"])) for each in formats]
    assert found[0] and found[1] and found[1].arrays_m2 / found[0].arrays_m2 == pytest.approx(8, abs=0.5)


def test_errors_of_areas_are_those_of_the_check() -> None:
    check, pages = area(), (PAGE, (ROOT / "accelsim/lessons/course/front/text.md").read_text(encoding="utf-8"))
    assert check.rows == check.equal
    for page in pages:
        assert re.search(rf"{100 * check.median:.0f} %.*{100 * check.max:.0f} %", page)
    for row in rows():
        found = designed_mm2(row)
        assert f"| {found:,.{2 if found < 100 else 0}f} mm²" in PAGE, row["name"]


def test_points_are_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    with gzip.open("points.csv.gz", "rt", newline="", encoding="utf-8") as file:
        found = {int(row["number"]): row for row in csv.DictReader(file)}
    row = found[0]
    facts = outcome(PICTURE.point(row)).facts
    for name in PICTURE.FIGURES:
        assert facts[name] == pytest.approx(float(row[name]), rel=1e-6)
