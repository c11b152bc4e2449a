"""``accelsim lesson start``, ``notebook``, ``solution`` and ``reset``: files of a lesson."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from accelsim.cli.answers import answers
from accelsim.cli.common import FILE, OUT, check_file_target, option
from accelsim.errors import Gather
from accelsim.report.answer import Answer, Lines

if TYPE_CHECKING:
    from accelsim.lessons.base import Lesson


def _find(ctx: click.Context, param: click.Parameter, value: str) -> Lesson:
    from accelsim.lessons.registry import find

    return find(value)


lesson_argument = click.argument("lesson", metavar="LESSON", callback=_find)
place_argument = click.argument("place", metavar="[DIR]", type=FILE, default=Path())
student_option = option("--student", "Draw the numbers of the lesson for this name.", "", metavar="NAME")


@answers("accelsim lesson start 3", "accelsim lesson start 3 homework --student 'Ada Lovelace'", outputs="")
@lesson_argument
@place_argument
@student_option
def start(gather: Gather, lesson: Lesson, place: Path, student: str) -> Answer:
    """Make the folder of LESSON in DIR (default: here): its text, and the one file to edit."""
    from accelsim.lessons.work import README, start

    folder, where = start(lesson, place, student), "" if place == Path() else f" {place}"
    text, edit = f"{folder / README}: the lesson, {lesson.minutes} minutes", f"{folder / lesson.file}: the file to edit"
    return Answer(None, [Lines(f"{text}\n{edit}\nThen: accelsim lesson check {lesson.number}{where}")])


@answers("accelsim lesson notebook 3", "accelsim lesson notebook 3 three.ipynb", outputs="")
@lesson_argument
@click.argument("target", metavar="[FILE.ipynb]", type=OUT, required=False)
@student_option
def notebook(gather: Gather, lesson: Lesson, target: Path | None, student: str) -> Answer:
    """Write LESSON as a notebook (default: lesson-03.ipynb here): its text, a cell to edit, the check."""
    from accelsim.files import text, write_file
    from accelsim.lessons.notebook import notebook

    path = target or Path(f"{lesson.folder}.ipynb")
    gather.refuse(path.exists(), "exists, and may hold your work", str(path), "another FILE.ipynb")
    gather.done()
    check_file_target(path, (".ipynb",))
    write_file(path, text(notebook(lesson, student)))
    return Answer(None, [Lines(f"{path}: the lesson, {lesson.minutes} minutes")])


@answers("accelsim lesson solution 3", "accelsim lesson solution 3 --student 'Ada Lovelace'", outputs="")
@lesson_argument
@option("--student", "With the numbers of this name.", "", metavar="NAME")
def solution(gather: Gather, lesson: Lesson, student: str) -> Answer:
    """Print a solution of LESSON."""
    from accelsim.lessons.work import filled

    return Answer(None, [Lines(filled(lesson, "solution.py.in", student).removesuffix("\n"))])


@answers("accelsim lesson reset 3", "accelsim lesson reset 3 homework", outputs="")
@lesson_argument
@place_argument
def reset(gather: Gather, lesson: Lesson, place: Path) -> Answer:
    """Put the start of the file of LESSON back; what was there is kept beside it."""
    from accelsim.lessons.work import reset

    file, kept = reset(lesson, place)
    return Answer(None, [Lines(f"{file}: as at the start" + (f"; your work is in {kept}" if kept else ""))])
