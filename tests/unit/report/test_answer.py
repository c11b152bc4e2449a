"""Answers: what of them is written and printed, and how a command ends."""

from __future__ import annotations

import json
import sys
from math import inf, nan
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner

from accelsim.cli.answers import answers
from accelsim.errors import AccelsimError, Gather, UsageError
from accelsim.files import text
from accelsim.report.answer import Answer, Field, Lines, Table, block, column, records
from accelsim.report.picture import Panel, Picture, line
from accelsim.report.table import render


def asked(answer: Answer, *words: str) -> tuple[int, str]:
    """Exit code and output of a command that gives the answer."""

    @answers("accelsim it")
    def command(gather: Gather) -> Answer:
        gather.done()
        return answer

    result = CliRunner().invoke(command, words)
    return result.exit_code, result.stdout


def test_what_is_no_number_is_null_and_an_empty_cell() -> None:
    answer = Answer({"a": nan, "b": [1.5, inf], "c": {"d": (nan,)}}, rows=[{"a": nan, "c": {"d": 2.0}}])
    assert json.loads(answer.json()) == {"a": None, "b": [1.5, None], "c": {"d": [None]}}
    assert answer.table() == [{"a": None, "c.d": 2.0}]


def test_other_files_are_written_and_named(tmp_path: Path) -> None:
    one, folder = tmp_path / "one.txt", tmp_path / "all"
    answer = Answer({}, [Lines("told")], other_files={one: text("1"), folder: {"two.txt": text("2")}})
    assert asked(answer) == (0, f"told\n\nWritten: {one}, {folder}\n")
    assert (one.read_text(), (folder / "two.txt").read_text()) == ("1", "2")
    assert asked(answer, "--json") == (0, "{}\n")
    assert asked(Answer({}, other_files={one: text("1")})) == (0, f"Written: {one}\n")


def test_a_check_that_does_not_hold_and_an_error_end_the_command_when_all_is_told() -> None:
    assert asked(Answer({}, [Lines("told")], fails=True)) == (1, "told\n")
    assert asked(Answer({}, [Lines("told")], fails=True), "--json") == (1, "{}\n")

    @answers("accelsim it")
    def command(gather: Gather) -> Answer:
        return Answer({}, [Lines("told")], fails=UsageError("wrong"))

    with pytest.raises(AccelsimError, match="wrong"):
        CliRunner().invoke(command, standalone_mode=False, catch_exceptions=False)
    assert isinstance(command, click.Command)


def test_an_answer_without_picture_is_told_all_the_same(tmp_path: Path) -> None:
    @answers("accelsim it", outputs="csv plot")
    def command(gather: Gather) -> Answer:
        return Answer({}, ["No price."], [{"a": 1}], pictures={"none": lambda: None})

    asked = ["--csv", str(tmp_path / "x.csv"), "--plot", str(tmp_path / "x.png")]
    result = CliRunner().invoke(command, asked)
    assert isinstance(result.exception, UsageError) and "no picture to draw" in str(result.exception)
    assert result.stdout.startswith("No price.\n\nWritten: ") and [each.name for each in tmp_path.iterdir()] == [
        "x.csv"
    ]


def test_a_block_has_what_and_its_value() -> None:
    lines = render(block("run", [("chip", "t4"), ("layers", 3)]).shown(80), 80).splitlines()
    assert [line.split() for line in lines[2:]] == [["chip", "t4"], ["layers", "3"]] and "run" in lines[0]


def test_fields_read_records_of_things_and_columns_take_things_whole() -> None:
    fields = (Field("n", "number"), Field("twice", read=lambda thing: 2 * thing.n))
    things = [SimpleNamespace(n=1), SimpleNamespace(n=2)]
    assert records(fields, things) == [{"n": 1, "twice": 2}, {"n": 2, "twice": 4}]
    shown = Table([column("number", lambda thing: thing.n), column("square", lambda thing: thing.n**2)], things)
    assert render(shown.shown(40)).split() == ["number", "square", *["─" * 14], "1", "1", "2", "4"]


def test_what_is_aside_goes_to_stderr() -> None:
    @answers("accelsim it")
    def command(gather: Gather) -> Answer:
        return Answer({}, [Lines("told")], aside=[Lines("left out: x"), "a note"])

    result = CliRunner().invoke(command, ["--json"])
    assert (result.stdout, result.stderr) == ("{}\n", "left out: x\n\na note\n")


def test_python_has_the_same_answer() -> None:
    picture = Picture(2.0, [Panel("Lengths", [line([1, 2], [3, 4])])])
    shown = ["A <sentence>.", block("what", [("length", "3 m")]), Lines("kept")]
    answer = Answer({"length_m": nan}, shown, [{"a": {"b": 1}}], {"none": lambda: None, "lengths": lambda: picture})
    assert answer.to_dict() == {"length_m": None}
    assert answer.plot().axes[0].get_title(loc="left") == "Lengths"
    html = answer._repr_html_()
    assert "<p>A &lt;sentence&gt;.</p>" in html and "<td>3 m</td>" in html and "data:image/png" in html
    with pytest.raises(UsageError, match="no picture 'widths'"):
        answer.plot("widths")
    with pytest.raises(UsageError, match="no picture to draw"):
        Answer({}).plot()


def test_a_frame_needs_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"a": {"b": 1}}]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="pandas is not installed"):
        Answer({}, rows=rows).frame()
    fake = SimpleNamespace(DataFrame=SimpleNamespace(from_records=lambda records: records))
    monkeypatch.setitem(sys.modules, "pandas", fake)
    assert Answer({}, rows=rows).frame() == [{"a.b": 1}]
