"""Every lesson holds: its claim as a number, from runs of today."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from accelsim.explore.dram_replay import replay
from tests.validation import dram_lessons as lessons
from tests.validation.dram_lesson_plots import draw, page, write_lessons
from tests.validation.dram_lessons import LESSONS, Point, value

pytestmark = pytest.mark.xdist_group("compiled")  # one process compiles the loops over bursts

ACCESSES = 12_000


@cache
def points(key: str) -> list[Point]:
    return LESSONS[key].measure(ACCESSES)


def at(key: str, category: str, series: str) -> float:
    return value(points(key), category, series)


def ratio(key: str, one: tuple[str, str], other: tuple[str, str]) -> float:
    return at(key, *one) / at(key, *other)


@pytest.mark.parametrize("trace", ["seq_read", "stream3"])
def test_bank_group_lowest_lifts_streams(trace: str) -> None:
    assert ratio("mapping", (trace, lessons.GROUP_LOWEST), (trace, lessons.COLUMN_LOWEST)) >= 1.4
    assert ratio("mapping", (trace, lessons.MOP4), (trace, lessons.COLUMN_LOWEST)) >= 1.4


def test_mop4_hurts_tiles_on_one_rank() -> None:
    assert 0.6 < ratio("mapping", ("tile3", lessons.MOP4), ("tile3", lessons.COLUMN_LOWEST)) < 0.75
    hits = {
        mapping: replay(lessons.DDR4, "tile3", limit=ACCESSES, mapping=mapping).served.counts["hits"]
        for mapping in lessons.MAPPINGS.values()
    }
    assert hits["MOP4CLXOR"] < 0.1 * hits["rochrababgco"]
    two = replay(lessons.DDR4, "tile3", limit=ACCESSES, overrides=["organisation.ranks=2"], mapping="MOP4CLXOR")
    assert two.bandwidth_Bps * 1e-9 == pytest.approx(21, abs=1)


def test_ddr5_writes_fall_to_a_third() -> None:
    assert 0.3 < ratio("ddr5-writes", (lessons.COLUMN_LOWEST, "seq_write"), (lessons.COLUMN_LOWEST, "seq_read")) < 0.38
    assert ratio("ddr5-writes", (lessons.GROUP_LOWEST, "seq_write"), (lessons.GROUP_LOWEST, "seq_read")) > 0.95


def test_closed_page_on_a_stream() -> None:
    assert 8 < ratio("closed-page", ("seq_read", "open"), ("seq_read", "closed")) < 12
    assert 8 < ratio("closed-page", ("seq_write", "open"), ("seq_write", "closed")) < 12
    assert 1 <= ratio("closed-page", ("rand_read", "closed"), ("rand_read", "open")) < 1.05


def test_random_reads_on_one_rank_are_bound_by_tFAW() -> None:
    for clocks in ("20", "26", "32", "40"):
        assert 0.93 < ratio("tFAW", (clocks, "1 rank"), (clocks, lessons.FOUR)) <= 1
    assert 1.4 < ratio("tFAW", ("26", "2 ranks"), ("26", "1 rank")) < 1.6
    assert 0.97 < ratio("tFAW", ("40", "4 ranks"), ("16", "4 ranks")) <= 1.001


def test_energy_of_a_word() -> None:
    ddr3, hbm2 = at("energy", "ddr3-1600", "seq_read"), at("energy", "hbm2, DRAMsim3", "seq_read")
    assert ddr3 == pytest.approx(632, rel=0.02)
    assert hbm2 / ddr3 == pytest.approx(0.1, abs=0.01)
    for name in {point.category for point in points("energy")}:
        assert at("energy", name, "rand_read") > at("energy", name, "seq_read")


def test_background_dominates_where_little_moves() -> None:
    conflict = [point.value for point in points("background") if point.category == "conflict"]
    assert at("background", "conflict", "background") > 0.7 * sum(conflict)
    assert sum(conflict) > 6 * sum(p.value for p in points("background") if p.category == "seq_read")
    assert at("background", "seq_read", "read") == pytest.approx(at("background", "conflict", "read"))


@pytest.mark.parametrize("name", lessons.CONFLICT_OF)
def test_conflict_takes_a_row_cycle(name: str) -> None:
    assert ratio("conflict", (name, lessons.PER_ACCESS), (name, lessons.EXPECTED)) == pytest.approx(1, abs=0.02)


def test_gddr_needs_the_window_of_32() -> None:
    assert 1.25 < ratio("t32AW", ("gddr6-14000", lessons.WITHOUT), ("gddr6-14000", lessons.WITH)) < 1.45
    assert 1.05 < ratio("t32AW", ("gddr5", lessons.WITHOUT), ("gddr5", lessons.WITH)) < 1.25


@pytest.mark.parametrize("key", LESSONS)
def test_every_lesson_has_its_sentence_and_picture(key: str) -> None:
    lesson = LESSONS[key]
    told = lesson.told(points(key))
    assert told.endswith(".") and any(letter.isdigit() for letter in told)
    assert len(told.split(". ")[0]) < 120, "too long for a line below the title"
    fig = draw(lesson, points(key))
    (axes,) = fig.axes
    assert axes.get_title(loc="left") == lesson.claim
    assert axes.get_ylabel() == lesson.unit
    labels = {text.get_text() for text in fig.legends[0].get_texts()}
    assert {point.series for point in points(key)} <= labels


def test_the_page_has_every_number() -> None:
    found = {key: points(key) for key in LESSONS}
    text = page(found, "accelsim dram lessons --out here")
    assert text.splitlines()[0] == "`accelsim dram lessons --out here`"
    for key, lesson in LESSONS.items():
        assert f"## {lesson.claim}" in text and f"({key}.png)" in text
        assert all(f"{point.value:.4g}" in text for point in found[key])


def test_files_are_written_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"mapping": points("mapping")}
    made = write_lessons(found, tmp_path / "lessons", "command")
    assert [path.name for path in made] == ["summary.md", "mapping.png"]
    before = {path.name: path.read_bytes() for path in made}
    monkeypatch.setattr("tests.validation.dram_lesson_plots.picture", _broken)
    with pytest.raises(RuntimeError):
        write_lessons({"mapping": points("mapping")}, tmp_path / "lessons", "other")
    assert {path.name: path.read_bytes() for path in (tmp_path / "lessons").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["lessons"]


def _broken(*arguments: Iterable[object]) -> None:
    raise RuntimeError("no disk")
