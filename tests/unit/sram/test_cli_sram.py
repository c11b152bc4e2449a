"""The command ``accelsim sram``, its plot, and the check of the fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from accelsim.cli.sram import PATTERNS, sram
from accelsim.errors import UsageError
from accelsim.report.sram import PANELS, by_capacity
from accelsim.sram import model
from accelsim.sram.banks import Banking
from accelsim.sram.banks import conflicts as count
from accelsim.sram.patterns import feed
from accelsim.sram.terms import CACTI, read_points
from tests.validation.sram import BOUNDS, sram_fit

HUGE = "9" * 400


def run(*arguments: str) -> str:
    result = CliRunner(env={"COLUMNS": "100"}).invoke(sram, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_json_is_what_the_model_says() -> None:
    found = json.loads(run("--capacity", "1MiB", "--banks", "4", "--node", "28", "--json"))
    expected = model.sram(2**20, banks=4, node_nm=28)
    assert {name: found[name] for name in model.FIGURES} == {name: getattr(expected, name) for name in model.FIGURES}
    assert (found["status"], found["inside"], found["note"]) == (expected.status, expected.inside, expected.note)
    assert set(found["residual"]) == set(model.FIGURES)


def test_the_table_has_units_and_the_note() -> None:
    text = run("--capacity", "64KiB", "--ports", "2")
    assert "pJ" in text and "mW" in text and "mm²" in text
    assert "rule of thumb" in text and "Status" in text


def test_the_plot_is_written_and_has_the_points(tmp_path: Path) -> None:
    run("--capacity", "64KiB", "--out", str(tmp_path / "new" / "sram"))
    first = {path.name: path.read_bytes() for path in (tmp_path / "new" / "sram").iterdir()}
    assert set(first) == {"sram.png", "sram.svg"}
    run("--capacity", "64KiB", "--out", str(tmp_path / "new" / "sram"))
    assert {path.name: path.read_bytes() for path in (tmp_path / "new" / "sram").iterdir()} == first


@pytest.mark.parametrize(("banks", "marks"), [(1, 17), (4, 0)])
def test_curves_points_and_star(banks: int, marks: int) -> None:
    points = read_points(CACTI)
    asked = {"capacity_B": 2**16, "word_bits": 64, "ports": 1, "banks": banks, "node_nm": 45, "cell": "itrs-lop"}
    fig = by_capacity(asked, points).figure()
    star = model.sram(2**16, banks=banks)
    assert len(fig.axes) == len(PANELS)
    curve, mark, cacti = fig.axes[0].lines[:3]
    assert len(curve.get_xdata()) == 60
    assert mark.get_ydata()[0] == pytest.approx(star.read_J * 1e12, rel=1e-9, abs=0)
    assert len(cacti.get_xdata()) == marks


def test_conflicts_are_those_of_the_model() -> None:
    arguments = ("conflicts", "--pattern", "os", "--rows", "16", "--length", "40", "--stride", "64", "--banks", "8")
    found = json.loads(run(*arguments, "--delay-registers", "--json"))
    expected = count(feed("os", 16, 40, 64, skewed=False), Banking(8, 1))
    assert found["low"]["stalls"] == expected.stalls
    assert found["low"]["slowdown"] == float(expected.slowdown) == 16
    assert set(found) == {"low", "row", "xor"}
    assert set(json.loads(run(*arguments[:-1], "12", "--json"))) == {"low", "row"}


@pytest.mark.parametrize("pattern", PATTERNS.choices)
def test_every_pattern_is_printed(pattern: str) -> None:
    text = run("conflicts", "--pattern", pattern, "--word-bytes", "4")
    assert "low" in text and "slowdown" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "no --capacity"),
        (["--capacity", "5"], "no unit"),
        (["--capacity", "0.5B"], "no whole number"),
        (["--capacity", "1MiB", "--node", "7"], "7 nm"),
        (["--capacity", "1MiB", "--cell", "lop"], "no cell 'lop'"),
        (["--capacity", "1e400 B"], "beyond what a number can be"),
        (["--capacity", "1e999999999 B"], "beyond what a number can be"),
        (["--capacity", "1e30 B"], "too large; expected 1 to 1,099,511,627,776"),
        (["--capacity", "nan B"], "not a number with a unit"),
        (["--capacity", "-1 MiB"], "is negative"),
        (["--capacity", "1MiB", "--ports", HUGE], "ports: .* is too large; expected 1 to 64"),
        (["--capacity", "1MiB", "--word", HUGE], "word_bits: .* is too large"),
        (["--capacity", "1MiB", "--banks", HUGE], "banks: .* is too large"),
        (["--capacity", "1MiB", "--banks", "-1"], "banks: -1 is too small"),
        (["--capacity", "1MiB", "--node", "nan"], "no SRAM model at nan nm"),
        (["--capacity", "1MiB", "--node", "inf"], "no SRAM model at inf nm"),
        (["conflicts", "--rows", HUGE], "rows: .* is too large"),
        (["conflicts", "--length", HUGE], "length: .* is too large"),
        (["conflicts", "--stride", HUGE], "a stride of .* at most"),
        (["conflicts", "--element", HUGE], "element_B: .* is too large"),
        (["conflicts", "--banks", HUGE], "banks: .* is too large"),
        (["conflicts", "--word-bytes", HUGE], "word_B: .* is too large"),
        (["conflicts", "--ports", HUGE], "ports: .* is too large"),
        (["conflicts", "--pattern", "im2col", "--image", HUGE], "height: .* is too large"),
        (["conflicts", "--pattern", "im2col", "--channels", HUGE], "channels: .* is too large"),
        (["conflicts", "--pattern", "im2col", "--conv-stride", HUGE], "stride: .* is too large"),
        (["conflicts", "--pattern", "im2col", "--image", "16777216"], "clocks of 32 lanes.*at most"),
        (["conflicts", "--pattern", "im2col", "--image", "16777216", "--channels", "16777216"], "an input of"),
        (["conflicts", "--rows", "0"], "too small"),
        (["conflicts", "--banks", "0"], "too small"),
        (["conflicts", "--element", "4"], "no whole number of elements"),
    ],
)
def test_bad_input_is_told(arguments: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        CliRunner().invoke(sram, arguments, catch_exceptions=False)


def test_a_file_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="is a file"):
        run("--capacity", "1MiB", "--out", str(tmp_path / "file"))


def test_the_check_compares_every_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    found = sram_fit()
    assert found.rows == found.equal == 36 and len(found.errors) == 204 * 6
    assert len(found.details) == 36 and all("median" in line for line in found.details)
    monkeypatch.setitem(BOUNDS, "cycle_s", 0.2)
    worse = sram_fit()
    assert worse.rows - worse.equal == 5
    assert sum("FAILS" in line for line in worse.details) == 5
