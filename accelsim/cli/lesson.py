"""``accelsim lesson``: a course of lessons that check themselves."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from accelsim.cli.answers import HELP, answers
from accelsim.cli.common import FILE, OUT, check_file_target, counted, example, flag, option, paragraphs
from accelsim.errors import Gather
from accelsim.report.answer import Answer, Field, Lines, Part, Table

if TYPE_CHECKING:
    from accelsim.lessons.base import Lesson
    from accelsim.lessons.running import Outcome

HERE = Path()
TRUSTED = "Not isolated (--trust-students): a student's file could read and change what you may.\n"
"""Line above marks that were made without isolation."""
MARKS = {"done": "done", "changed": "changed since it passed", "begun": "begun", "": ""}
BAR = 24
"""Characters of the bar."""

place_argument = click.argument("place", metavar="[DIR]", type=FILE, default=HERE)


def _find(ctx: click.Context, param: click.Parameter, value: str) -> Lesson:
    from accelsim.lessons.registry import find

    return find(value)


lesson_argument = click.argument("lesson", metavar="LESSON", callback=_find)


@answers(
    "accelsim lesson",
    "accelsim lesson start 1",
    "accelsim lesson check 1",
    outputs="json csv",
    make=click.group,
    name="lesson",
    invoke_without_command=True,
    subcommand_metavar="[COMMAND] [ARGS]...",
)
def course(gather: Gather) -> Answer:
    """Learn how AI accelerators work. Each lesson has a text, one file to edit, and a check that says what is wrong.

    Without a command: list all lessons, what each teaches, and which are done in this directory.
    """
    from accelsim.lessons.registry import lessons
    from accelsim.lessons.work import state

    gather.done()
    rows = [
        {
            "lesson": each.number,
            "title": each.title,
            "idea": each.idea,
            "minutes": each.minutes,
            "file": each.file,
            "state": state(each, HERE),
        }
        for each in lessons()
    ]
    fields = [
        Field("lesson", " "),
        Field("title", "lesson"),
        Field("minutes", "minutes"),
        Field("state", "here", MARKS.get),
    ]
    left = [row for row in rows if row["state"] != "done"]
    done = len(rows) - len(left)
    filled = BAR * done // len(rows)
    bar = f"\n[{'#' * filled}{'.' * (BAR - filled)}] {done} of {len(rows)} done in this directory"
    shown: list[Part] = [Table(fields, rows), Lines(bar)]
    if left:
        verb = "check" if left[0]["state"] else "start"
        shown += [Lines(f"\nNext: accelsim lesson {verb} {left[0]['lesson']}"), str(left[0]["idea"])]
    return Answer(rows, shown, rows)


lesson: click.Group = course


@lesson.command(epilog=example("accelsim lesson start 3", "accelsim lesson start 3 homework --student 'Ada Lovelace'"))
@lesson_argument
@place_argument
@option("--student", "Draw the numbers of the lesson for this name.", "", metavar="NAME")
def start(lesson: Lesson, place: Path, student: str) -> None:
    """Make the folder of LESSON in DIR (default: here): its text, and the one file to edit."""
    from accelsim.lessons.work import README, start

    folder = start(lesson, place, student)
    click.echo(f"{folder / README}: the lesson, {lesson.minutes} minutes")
    click.echo(f"{folder / lesson.file}: the file to edit")
    where = "" if place == HERE else f" {place}"
    click.echo(f"Then: accelsim lesson check {lesson.number}{where}")


@answers("accelsim lesson check 3", "accelsim lesson check 3 homework --json", outputs="json", make=lesson.command)
@lesson_argument
@place_argument
def check(gather: Gather, lesson: Lesson, place: Path) -> Answer:
    """Check the student's file of LESSON: passed, or the first thing that is wrong. Draws the student's own result.

    The file runs in a process of its own, with limits of time and memory. Exit code 1 where something is wrong.
    """
    from accelsim.lessons.running import check
    from accelsim.lessons.work import located, save

    file = located(lesson, place)
    outcome = check(lesson, file)
    picture = str(save(outcome, file))
    told = Lines("\n".join([*outcome.lines(), f"\nPicture of your result: {picture}"]))
    return Answer(facts(outcome) | {"picture": picture}, [told], fails=not outcome.passed)


def facts(outcome: Outcome) -> dict[str, Any]:
    """The outcome in one dictionary that JSON can hold."""
    lesson, wrong = outcome.lesson, outcome.wrong
    return {
        "lesson": lesson.number,
        "title": lesson.title,
        "student": outcome.student,
        "passed": outcome.passed,
        "steps": list(lesson.steps),
        "steps_done": len(outcome.done),
        **{key: getattr(wrong, key) if wrong else None for key in ("where", "expected", "got", "rule")},
        "printed": outcome.printed,
    }


@lesson.command(epilog=example("accelsim lesson hint 3", "accelsim lesson hint 3 2"))
@lesson_argument
@click.argument("which", metavar="[N]", type=click.IntRange(1), default=1)
def hint(lesson: Lesson, which: int) -> None:
    """Print the first hint of LESSON, or hint N: each says more than the one before."""
    from accelsim.errors import UsageError

    hints = lesson.hints
    if which > len(hints):
        raise UsageError(f"no hint {which}", expected=f"1 to {len(hints)}")
    click.echo(paragraphs(hints[which - 1].split("\n")))
    if which < len(hints):
        click.echo(f"\nMore: accelsim lesson hint {lesson.number} {which + 1}")


@lesson.command(epilog=example("accelsim lesson notebook 3", "accelsim lesson notebook 3 three.ipynb"))
@lesson_argument
@click.argument("target", metavar="[FILE.ipynb]", type=OUT, required=False)
@option("--student", "Draw the numbers of the lesson for this name.", "", metavar="NAME")
def notebook(lesson: Lesson, target: Path | None, student: str) -> None:
    """Write LESSON as a notebook (default: lesson-03.ipynb here): its text, a cell to edit, the check."""
    from accelsim.errors import UsageError
    from accelsim.files import text, write_file
    from accelsim.lessons.notebook import notebook

    path = target or Path(f"{lesson.folder}.ipynb")
    if path.exists():
        raise UsageError("exists, and may hold your work", str(path), "another FILE.ipynb")
    check_file_target(path, (".ipynb",))
    write_file(path, text(notebook(lesson, student)))
    click.echo(f"{path}: the lesson, {lesson.minutes} minutes")


@lesson.command(epilog=example("accelsim lesson solution 3", "accelsim lesson solution 3 --student 'Ada Lovelace'"))
@lesson_argument
@option("--student", "With the numbers of this name.", "", metavar="NAME")
def solution(lesson: Lesson, student: str) -> None:
    """Print a solution of LESSON."""
    from accelsim.lessons.work import filled

    click.echo(filled(lesson, "solution.py.in", student), nl=False)


@lesson.command(epilog=example("accelsim lesson reset 3", "accelsim lesson reset 3 homework"))
@lesson_argument
@place_argument
def reset(lesson: Lesson, place: Path) -> None:
    """Put the start of the file of LESSON back; what was there is kept beside it."""
    from accelsim.lessons.work import reset

    file, kept = reset(lesson, place)
    click.echo(f"{file}: as at the start" + (f"; your work is in {kept}" if kept else ""))


@answers(
    "accelsim lesson grade homework/*",
    "accelsim lesson grade ada grace --csv marks.csv",
    outputs="json",
    make=lesson.command,
)
@click.argument("places", metavar="DIR...", nargs=-1, required=True, type=FILE)
@option("--seconds", "Time that the answers of one file may take.", 20.0, type=click.FloatRange(1))
@flag("--trust-students trusted", "Run their files as plain processes, without bwrap and with all your rights.")
@option("--csv table", HELP["csv"], type=OUT)
def grade(gather: Gather, places: tuple[Path, ...], seconds: float, trusted: bool, table: Path | None) -> Answer:
    """Check many folders: each a lesson's folder, or a student's with lessons in it.

    bwrap (bubblewrap) isolates each file: no network, no files of yours, limits of time, memory and disk. A file that
    cannot be graded gets a row that says why. Rows of --csv are written as soon as they are known.
    """
    from accelsim.files import write_rows
    from accelsim.lessons.grading import COLUMNS, NOT_GRADED, cells, check_isolation, marks
    from accelsim.report.table import text_table

    gather.check(table, check_file_target)
    gather.done()
    if trusted:
        click.echo(TRUSTED, err=click.get_current_context().params["json"])
    else:
        check_isolation()
    rows = []
    with write_rows(table, COLUMNS) if table else nullcontext() as add:
        for place in counted(places, str):
            for row in marks([place], seconds, not trusted):
                rows.append(row)
                if add is not None:
                    add(cells(row))
    missed = [row for row in rows if row["where"].startswith(NOT_GRADED)]
    passed = sum(bool(row["passed"]) for row in rows)
    told = [f"{passed} of {len(rows)} passed" + (f", {len(missed)} {NOT_GRADED}:" if missed else "")]
    told += [f"  {row['folder']}: {row['where'].removeprefix(NOT_GRADED + ': ')}" for row in missed]
    cell_rows = [[str(row[name]) for name in COLUMNS] for row in rows]
    shown: list[Part] = [partial(text_table, COLUMNS, cell_rows), "", Lines("\n".join(told))]
    return Answer(rows, shown)
