"""``accelsim lesson``: folders that are made and never overwritten, checks, marks of a class."""

from __future__ import annotations

import csv
import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from accelsim.lessons import grading
from accelsim.lessons.registry import find, lessons
from accelsim.lessons.running import Outcome
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
    assert sorted(path.name for path in (here / "homework" / "lesson-01").iterdir()) == ["README.md", FIRST.file]
    assert 'STUDENT = "Ada"' in (here / "homework" / "lesson-01" / FIRST.file).read_text(encoding="utf-8")


def test_a_folder_that_exists_is_never_overwritten(cli: Cli, here: Path) -> None:
    cli("lesson", "start", "1")
    (here / "lesson-01" / FIRST.file).write_text("my work", encoding="utf-8")
    found = cli("lesson", "start", "1")
    assert found.exit_code == 2 and "lesson-01: exists, and may hold your work" in found.stderr
    cli("lesson", "start", "2", "a sub")
    assert "'accelsim lesson reset 2 'a sub''" in cli("lesson", "start", "2", "a sub").stderr
    assert cli("lesson", "reset", "1", "a sub/lesson-02").exit_code == 2  # the folder of another lesson
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
    assert found.exit_code == 1 and "where:    MAC" in found.stdout and "accelsim lesson hint 1" in found.stdout
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
        (("check", "1"), "there is no energy.py in it; expected the folder of lesson 1; 'accelsim lesson start 1'"),
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
    (here / "lesson-01" / FIRST.file).write_text("STUDENT = 'x'\ndef counts(M, N K):\n    pass\n", encoding="utf-8")
    found = cli("lesson", "check", "1")
    assert found.exit_code == 1 and "energy.py:2" in found.stdout and "def counts(M, N K):" in found.stdout


@pytest.fixture
def class_of_two(here: Path) -> list[Path]:
    """Ada's folder with a solution, Bob's with a file that changes what is outside."""
    for name, more in (("Ada", ""), ("Bob", f"\nopen({str(here / 'mine.txt')!r}, 'w').close()\n")):
        file = start(FIRST, here / name, name) / FIRST.file
        file.write_text(solution(name) + more, encoding="utf-8")
    return [here / "Ada", here / "Bob"]


def test_without_bwrap_no_file_is_run_unless_students_are_trusted(
    cli: Cli, here: Path, class_of_two: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    (here / "marks.csv").write_text("of last week")
    found = cli("lesson", "grade", *class_of_two, "--csv", "marks.csv")
    assert found.exit_code == 2 and not found.stdout
    assert "bwrap is not installed; expected bubblewrap" in found.stderr and "apt install bubblewrap" in found.stderr
    assert (here / "marks.csv").read_text() == "of last week" and not (here / "mine.txt").exists()
    found = cli("lesson", "grade", *class_of_two, "--trust-students", "--csv", "marks.csv")
    assert found.exit_code == 0 and found.stdout.startswith("Not isolated") and "2 of 2 passed" in found.stdout
    assert (here / "mine.txt").exists()
    with (here / "marks.csv").open(encoding="utf-8") as file:
        assert [(row["student"], row["passed"]) for row in csv.DictReader(file)] == [("Ada", "True"), ("Bob", "True")]


def test_a_row_is_written_when_it_is_known_and_no_file_stops_the_others(
    cli: Cli, here: Path, class_of_two: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(lesson: object, file: Path, **_: object) -> Outcome:
        if "Ada" in str(file):
            raise MemoryError("of the grader")
        lines.extend((here / "marks.csv").read_text(encoding="utf-8").splitlines())
        signal.raise_signal(signal.SIGINT)
        raise AssertionError

    lines: list[str] = []
    monkeypatch.setattr("accelsim.lessons.grading.check", broken)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        found = cli("lesson", "grade", *class_of_two, "--trust-students", "--csv", "marks.csv")
    finally:
        signal.signal(signal.SIGINT, before)
    assert found.exit_code == 130 and found.stderr == "interrupted; marks.csv was written\n"
    assert lines == [
        "folder,student,lesson,passed,steps,where,expected,got",
        f"{class_of_two[0]},,1,False,0 of 4,could not be graded: MemoryError: of the grader,,",
    ]


def test_why_a_file_has_no_mark_is_printed_whole(cli: Cli, here: Path, class_of_two: list[Path]) -> None:
    file = class_of_two[1] / FIRST.folder / FIRST.file
    file.unlink()
    file.symlink_to(class_of_two[0] / FIRST.folder / FIRST.file)
    found = cli("lesson", "grade", "Ada", "Bob", "--trust-students")
    assert found.stdout.endswith("1 of 2 passed, 1 could not be graded:\n  Bob: energy.py is a link\n")


def test_the_grader_itself_has_a_time_limit(
    here: Path, class_of_two: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(lesson: object, file: Path, **_: object) -> Outcome:
        while True:
            pass

    monkeypatch.setattr(grading, "check", slow)
    monkeypatch.setattr(grading, "OWN_S", 0.1)
    rows = list(grading.marks(class_of_two, 0.0, isolated=False))
    assert [row["where"] for row in rows] == ["could not be graded: TooLong: more than 0.1 s"] * 2


def test_a_folder_without_a_lesson_has_a_mark_that_says_so(cli: Cli, here: Path) -> None:
    (here / "empty").mkdir()
    rows = json.loads(cli("lesson", "grade", "empty", "gone", "--trust-students", "--json").stdout)
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
