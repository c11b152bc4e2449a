"""``accelsim lesson``: folders that are made and never overwritten, checks, marks of a class."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from accelsim.lessons.registry import find, lessons
from accelsim.lessons.work import filled, start

Cli = Callable[..., Result]
FIRST = find("1")


def solution(student: str = "") -> str:
    return filled(FIRST, "solution.py.in", student)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_course_is_listed_with_what_is_done(cli: Cli, here: Path) -> None:
    assert f"0 of {len(lessons())} done" in cli("lesson").stdout
    cli("lesson", "start", "1")
    assert "begun" in cli("lesson").stdout
    (here / "lesson-01" / FIRST.file).write_text(solution(), encoding="utf-8")
    assert cli("lesson", "check", "1").exit_code == 0
    shown = cli("lesson").stdout
    assert f"1 of {len(lessons())} done" in shown
    with (here / "lesson-01" / FIRST.file).open("a", encoding="utf-8") as file:
        file.write("\n# later\n")
    assert "changed since it passed" in cli("lesson").stdout
    rows = json.loads(cli("lesson", "--json").stdout)
    assert [row["lesson"] for row in rows] == [lesson.number for lesson in lessons()]


def test_a_start_makes_the_text_and_one_file(cli: Cli, here: Path) -> None:
    found = cli("lesson", "start", "1", "homework", "--student", "Ada")
    assert found.exit_code == 0 and "accelsim lesson check 1 homework" in found.stdout
    assert sorted(path.name for path in (here / "homework" / "lesson-01").iterdir()) == [
        "README.md",
        FIRST.file,
    ]
    assert 'STUDENT = "Ada"' in (here / "homework" / "lesson-01" / FIRST.file).read_text(encoding="utf-8")


def test_a_folder_that_exists_is_never_overwritten(cli: Cli, here: Path) -> None:
    cli("lesson", "start", "1")
    (here / "lesson-01" / FIRST.file).write_text("my work", encoding="utf-8")
    found = cli("lesson", "start", "1")
    assert found.exit_code == 2 and "lesson-01: exists, and may hold your work" in found.stderr
    assert (here / "lesson-01" / FIRST.file).read_text(encoding="utf-8") == "my work"


def test_a_reset_keeps_what_was_there(cli: Cli, here: Path) -> None:
    cli("lesson", "start", "1", "--student", "Ada")
    file = here / "lesson-01" / FIRST.file
    for number in (1, 2):
        file.write_text(f'STUDENT = "Ada"\n# try {number}\n', encoding="utf-8")
        assert f"old{number}" in cli("lesson", "reset", "1").stdout
        assert file.read_text(encoding="utf-8") == filled(FIRST, "start.py.in", "Ada")
        assert f"try {number}" in file.with_suffix(f".old{number}.py").read_text(encoding="utf-8")
    file.unlink()
    assert cli("lesson", "reset", "1").exit_code == 0 and file.is_file()


def test_a_check_says_the_first_thing_that_is_wrong_and_draws(cli: Cli, here: Path) -> None:
    cli("lesson", "start", "1")
    found = cli("lesson", "check", "1")
    assert (
        found.exit_code == 1 and "where:    MAC" in found.stdout and "accelsim lesson hint 1" in found.stdout
    )
    assert (here / "lesson-01" / "result.png").read_bytes().startswith(b"\x89PNG")
    facts = json.loads(cli("lesson", "check", "1", "--json").stdout)
    assert not facts["passed"] and facts["where"] == "MAC" and facts["steps_done"] == 0


def test_a_check_finds_the_folder_from_inside_and_outside(
    cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("lesson", "start", "1", "homework")
    (here / "homework" / "lesson-01" / FIRST.file).write_text(solution(), encoding="utf-8")
    for place in ("homework", "homework/lesson-01"):
        assert cli("lesson", "check", "1", place).exit_code == 0
    monkeypatch.chdir(here / "homework" / "lesson-01")
    assert cli("lesson", "check", "1").exit_code == 0


def test_what_a_file_prints_is_shown(cli: Cli, here: Path) -> None:
    cli("lesson", "start", "1")
    with (here / "lesson-01" / FIRST.file).open("a", encoding="utf-8") as file:
        file.write("\nprint('I was here')\n")
    assert "I was here" in cli("lesson", "check", "1").stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("check", "99"), "no lesson '99'; expected a number from 1 to"),
        (("start", "What a bite costs"), "did you mean 'What a byte costs'?"),
        (("check", "1", "nowhere"), "nowhere: no such directory"),
        (
            ("check", "1"),
            "there is no energy.py in it; expected the folder of lesson 1; 'accelsim lesson start 1'",
        ),
        (("reset", "1"), "no README.md of a lesson in it"),
        (("hint", "1", "9"), "no hint 9; expected 1 to"),
    ],
)
def test_bad_input_is_told(cli: Cli, here: Path, words: tuple[str, ...], told: str) -> None:
    found = cli("lesson", *words)
    assert found.exit_code == 2 and told in found.stderr, found.stderr
    assert not list(here.iterdir())


def test_a_file_that_was_deleted_is_told(cli: Cli, here: Path) -> None:
    cli("lesson", "start", "1")
    (here / "lesson-01" / FIRST.file).unlink()
    found = cli("lesson", "check", "1")
    assert found.exit_code == 2 and "'accelsim lesson reset 1' makes it" in found.stderr


def test_an_error_of_syntax_shows_its_line(cli: Cli, here: Path) -> None:
    cli("lesson", "start", "1")
    (here / "lesson-01" / FIRST.file).write_text(
        "STUDENT = 'x'\ndef counts(M, N K):\n    pass\n", encoding="utf-8"
    )
    found = cli("lesson", "check", "1")
    assert found.exit_code == 1 and "energy.py:2" in found.stdout and "def counts(M, N K):" in found.stdout


PRANKS = {
    "endless": "\ndef counts(M, N, K):\n    while True: pass\n",
    "hog": "\nhoard = [bytearray(1 << 28) for _ in range(100)]\n",
    "vandal": "\nimport shutil, os\nshutil.rmtree(os.environ.get('TARGET', '{target}'))\n",
    "liar": "\nprint('Passed.')\nprint('{{\"passed\": true}}')\ndef counts(M, N, K):\n    return (0, 0, 0)\n",
    "quitter": "\nimport os\nos._exit(0)\n",
}


def test_a_class_gets_its_marks_and_nothing_else_is_touched(cli: Cli, here: Path) -> None:
    """Sixty folders: fifty right ones, five starts, an endless loop, a memory hog, one that deletes, one that prints
    a pass, one that ends Python."""
    target = here / "precious"
    target.mkdir()
    (target / "kept.txt").write_text("kept", encoding="utf-8")
    expected = {}
    for number in range(60):
        name = f"student{number:02d}"
        folder = start(FIRST, here / name, name)
        expected[name] = number < 50
        if number < 55:
            text = solution(name) if number < 50 else filled(FIRST, "start.py.in", name)
        else:
            text = solution(name) + list(PRANKS.values())[number - 55].format(target=target)
        (folder / FIRST.file).write_text(text, encoding="utf-8")
    before = {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}
    found = cli("lesson", "grade", *expected, "--seconds", "2", "--csv", "marks.csv")
    assert found.exit_code == 0 and "50 of 60 passed" in found.stdout
    with (here / "marks.csv").open(encoding="utf-8") as file:
        marks = {row["student"]: row["passed"] == "True" for row in csv.DictReader(file)}
    assert marks == expected
    (here / "marks.csv").unlink()
    assert {path: path.read_bytes() for path in here.rglob("*") if path.is_file()} == before


def test_a_folder_without_a_lesson_has_a_mark_that_says_so(cli: Cli, here: Path) -> None:
    (here / "empty").mkdir()
    rows = json.loads(cli("lesson", "grade", "empty", "gone", "--json").stdout)
    assert [row["where"] for row in rows] == ["no file of a lesson", "no such directory"]


def test_a_solution_is_printed_for_a_name(cli: Cli, here: Path) -> None:
    assert cli("lesson", "solution", "1", "--student", "Ada").stdout == solution("Ada")


def test_a_notebook_is_written_once(cli: Cli, here: Path) -> None:
    assert cli("lesson", "notebook", "1", "--student", "Ada").exit_code == 0
    made = (here / "lesson-01.ipynb").read_text(encoding="utf-8")
    assert json.loads(made)["nbformat"] == 4 and 'STUDENT = \\"Ada\\"' in made
    again = cli("lesson", "notebook", "1")
    assert again.exit_code == 2 and "exists, and may hold your work" in again.stderr
    assert (here / "lesson-01.ipynb").read_text(encoding="utf-8") == made
    wrong = cli("lesson", "notebook", "1", "one.txt")
    assert wrong.exit_code == 2 and "a file that ends in .ipynb" in wrong.stderr
