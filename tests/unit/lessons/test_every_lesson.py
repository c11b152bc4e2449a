"""Every lesson of the course: its files, its numbers, its solution, its start, wrong answers."""

from __future__ import annotations

import re
import shlex
from importlib import import_module
from pathlib import Path

import click
import pytest

from accelsim.cli import main
from accelsim.lessons.base import Lesson
from accelsim.lessons.registry import find, lessons
from accelsim.lessons.running import Outcome, check, named
from accelsim.lessons.work import filled

pytestmark = pytest.mark.xdist_group("lessons")  # one process measures the chips that lessons are about

DOCS = Path(__file__).parents[3] / "docs"
STUDENTS = ("", "Ada Lovelace", 'quo"te \\ 日本')
ALL = pytest.mark.parametrize("lesson", lessons(), ids=lambda lesson: lesson.folder)
WRONG = {
    lesson.number: import_module(f"tests.unit.lessons.wrong.{type(lesson).__module__.split('.')[-2]}").WRONG
    for lesson in lessons()
}
DRAWN: set[tuple[int, int]] = set()
"""Lessons and numbers of steps that hold whose picture was drawn: those of other answers look alike."""
CASES = [(lesson, name) for lesson in lessons() for name in WRONG[lesson.number]]


def solved(lesson: Lesson, folder: Path, student: str = "", old: str = "", new: str = "") -> Outcome:
    """The check of the solution, with one text replaced by another."""
    text = filled(lesson, "solution.py.in", student)
    assert old in text, f"{old!r} is not in the solution"
    file = folder / lesson.file
    file.write_text(text.replace(old, new) if old else text, encoding="utf-8")
    return check(lesson, file)


def test_numbers_of_lessons_follow_each_other_and_files_are_their_own() -> None:
    assert [lesson.number for lesson in lessons()] == list(range(1, len(lessons()) + 1))
    for names in ([lesson.file for lesson in lessons()], [lesson.title for lesson in lessons()]):
        assert len(set(names)) == len(names)


@ALL
@pytest.mark.parametrize("student", STUDENTS)
def test_a_solution_passes(lesson: Lesson, student: str, tmp_path: Path) -> None:
    found = solved(lesson, tmp_path, student)
    assert found.passed, vars(found.wrong) if found.wrong else ""
    assert found.student == student and found.done == lesson.steps
    assert found.seconds < 20
    assert found.picture().axes


@ALL
def test_a_start_fails_with_a_helpful_message(lesson: Lesson, tmp_path: Path) -> None:
    file = tmp_path / lesson.file
    file.write_text(filled(lesson, "start.py.in", "Ada"), encoding="utf-8")
    found = check(lesson, file)
    assert found.wrong is not None and not found.done
    assert found.wrong.where and found.wrong.expected and found.wrong.got and len(found.wrong.rule) > 15
    assert "Error" not in found.wrong.got
    found.picture()


@pytest.mark.parametrize(("lesson", "name"), CASES, ids=lambda each: each.folder if isinstance(each, Lesson) else each)
@pytest.mark.no_cover
def test_a_plausible_wrong_answer_fails_at_its_place(lesson: Lesson, name: str, tmp_path: Path) -> None:
    old, new, where = WRONG[lesson.number][name]
    found = solved(lesson, tmp_path, "", old, new)
    assert found.wrong is not None, f"{name!r} passes"
    assert re.search(where, found.wrong.where), vars(found.wrong)
    if (lesson.number, len(found.done)) not in DRAWN:
        DRAWN.add((lesson.number, len(found.done)))
        found.picture()


@ALL
def test_a_file_that_cannot_be_read_has_a_picture_too(lesson: Lesson, tmp_path: Path) -> None:
    file = tmp_path / lesson.file
    file.write_text("def f(:\n", encoding="utf-8")
    found = check(lesson, file)
    assert found.wrong is not None and found.wrong.where == f"{lesson.file}:1"
    assert found.picture().axes


@ALL
def test_there_are_ten_wrong_answers(lesson: Lesson) -> None:
    assert len(WRONG[lesson.number]) >= 10


@ALL
def test_the_text_is_a_lesson(lesson: Lesson) -> None:
    text = filled(lesson, "text.md", "Ada")
    assert text.startswith(f"# Lesson {lesson.number}: {lesson.title}\n") and "<<" not in text
    for said in (lesson.file, f"accelsim lesson check {lesson.number}", "ANSWER", "```text"):
        assert said in text, said
    assert 500 < len(text.split()) < 2000
    assert max(map(len, text.splitlines())) <= 170


@ALL
def test_commands_and_pages_that_a_text_names_are_there(lesson: Lesson) -> None:
    text = filled(lesson, "text.md", "")
    for block in re.findall(r"```bash\n(.*?)```", text, re.DOTALL):
        for line in block.splitlines():
            words = shlex.split(line)
            assert words[0] == "accelsim", line
            current: click.Command = main
            context, rest = click.Context(main), words[1:]
            while isinstance(current, click.Group) and rest and not rest[0].startswith("-"):
                found = current.get_command(context, rest[0])
                assert found is not None, line
                current, rest = found, rest[1:]
            current.make_context(current.name, list(rest), parent=context)
    for page in re.findall(r"`docs/([\w-]+\.md)`", text):
        assert (DOCS / page).is_file(), page
    assert "](" not in text.replace("](http", "")


@ALL
def test_a_start_holds_what_its_solution_fills_in(lesson: Lesson) -> None:
    start, solution = (filled(lesson, f"{name}.py.in", "") for name in ("start", "solution"))
    written = [line for line in solution.splitlines() if line not in start.splitlines()]
    assert 3 <= len(written) <= 40
    names = re.findall(r"^(?:def )?(\w+)(?= =|\()", start, re.MULTILINE)
    assert set(names) <= set(re.findall(r"^(?:def )?(\w+)(?= =|\()", solution, re.MULTILINE)) and "ANSWER" in names


@ALL
def test_hints_say_more_each_time(lesson: Lesson) -> None:
    assert len(lesson.hints) >= 3 and all(len(hint) > 40 for hint in lesson.hints)


@ALL
def test_numbers_are_those_of_the_student(lesson: Lesson, tmp_path: Path) -> None:
    drawn = {str(lesson.numbers(name)) for name in ("ada", "grace", "alan", "edsger", "barbara", "donald")}
    assert len(drawn) > 2
    assert lesson.numbers(" ADA ") == lesson.numbers("ada")
    file = tmp_path / "file.py"
    file.write_text(filled(lesson, "start.py.in", STUDENTS[2]), encoding="utf-8")
    assert named(file) == STUDENTS[2]


@ALL
def test_a_lesson_is_found_by_number_folder_file_and_title(lesson: Lesson) -> None:
    for name in (str(lesson.number), lesson.folder, lesson.file, lesson.title.upper()):
        assert find(name) is lesson
