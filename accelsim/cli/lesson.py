"""``accelsim lesson``: a course of lessons that check themselves."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from accelsim.cli.common import (
    FILE,
    OUT,
    check_file_target,
    counted,
    csv_option,
    example,
    json_option,
    paragraphs,
    save_csv,
    show,
    width,
)

if TYPE_CHECKING:
    from accelsim.lessons.base import Lesson
    from accelsim.lessons.running import Outcome

EXAMPLES = example(
    "accelsim lesson",
    "accelsim lesson start 1",
    "accelsim lesson check 1",
)
HERE = Path()
TRUSTED = "Not isolated (--trust-students): a student's file could read and change what you may.\n"
"""Line above marks that were made without isolation."""
MARKS = {"done": "done", "changed": "changed since it passed", "begun": "begun", "": ""}
BAR = 24
"""Characters of the bar."""
WRONG = 1
"""Exit code of a check that does not hold."""

place_argument = click.argument("place", metavar="[DIR]", type=FILE, default=HERE)


def _find(ctx: click.Context, param: click.Parameter, value: str) -> Lesson:
    from accelsim.lessons.registry import find

    return find(value)


lesson_argument = click.argument("lesson", metavar="LESSON", callback=_find)


@click.group(invoke_without_command=True, subcommand_metavar="[COMMAND] [ARGS]...", epilog=EXAMPLES)
@click.pass_context
@json_option
@csv_option
def lesson(ctx: click.Context, as_json: bool, table: Path | None) -> None:
    """Learn how AI accelerators work. Each lesson has a text, one file to edit, and a check that says what is wrong.

    Without a command: list all lessons, what each teaches, and which are done in this directory.
    """
    if ctx.invoked_subcommand is None:
        _list(as_json, table)


def _list(as_json: bool, table: Path | None) -> None:
    from accelsim.lessons.registry import lessons
    from accelsim.lessons.work import state
    from accelsim.report.table import text_table

    if table is not None:
        check_file_target(table)
    rows = [
        {"lesson": each.number, "title": each.title, "idea": each.idea, "minutes": each.minutes, "file": each.file,
         "state": state(each, HERE)}
        for each in lessons()
    ]  # fmt: skip
    save_csv(table, rows)
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    shown = [(row["lesson"], row["title"], row["minutes"], MARKS[str(row["state"])]) for row in rows]
    show(text_table(["", "lesson", "minutes", "here"], shown, width()))
    done = sum(row["state"] == "done" for row in rows)
    filled = BAR * done // len(rows)
    click.echo(f"\n[{'#' * filled}{'.' * (BAR - filled)}] {done} of {len(rows)} done in this directory")
    left = [each for each, row in zip(lessons(), rows, strict=True) if row["state"] != "done"]
    if left:
        verb = "check" if state(left[0], HERE) else "start"
        click.echo(f"\nNext: accelsim lesson {verb} {left[0].number}\n" + paragraphs([left[0].idea]))


@lesson.command(
    epilog=example("accelsim lesson start 3", "accelsim lesson start 3 homework --student 'Ada Lovelace'")
)
@lesson_argument
@place_argument
@click.option("--student", default="", metavar="NAME", help="Draw the numbers of the lesson for this name.")
def start(lesson: Lesson, place: Path, student: str) -> None:
    """Make the folder of LESSON in DIR (default: here): its text, and the one file to edit."""
    from accelsim.lessons.work import README, start

    folder = start(lesson, place, student)
    click.echo(f"{folder / README}: the lesson, {lesson.minutes} minutes")
    click.echo(f"{folder / lesson.file}: the file to edit")
    where = "" if place == HERE else f" {place}"
    click.echo(f"Then: accelsim lesson check {lesson.number}{where}")


@lesson.command(epilog=example("accelsim lesson check 3", "accelsim lesson check 3 homework --json"))
@lesson_argument
@place_argument
@json_option
def check(lesson: Lesson, place: Path, as_json: bool) -> None:
    """Check the student's file of LESSON: passed, or the first thing that is wrong. Draws the student's own result.

    The file runs in a process of its own, with limits of time and memory. Exit code 1 where something is wrong.
    """
    from accelsim.lessons.running import check
    from accelsim.lessons.work import located, save

    file = located(lesson, place)
    outcome = check(lesson, file)
    picture = save(outcome, file)
    if as_json:
        click.echo(json.dumps(facts(outcome) | {"picture": str(picture)}, indent=2))
    else:
        click.echo("\n".join(outcome.told()))
        click.echo(f"\nPicture of your result: {picture}")
    if not outcome.passed:
        raise click.exceptions.Exit(WRONG)


def facts(outcome: Outcome) -> dict[str, Any]:
    """The outcome in one dictionary that JSON can hold."""
    wrong = outcome.wrong
    return {
        "lesson": outcome.lesson.number,
        "title": outcome.lesson.title,
        "student": outcome.student,
        "passed": outcome.passed,
        "steps": list(outcome.lesson.steps),
        "steps_done": len(outcome.done),
        "where": wrong.where if wrong else None,
        "expected": wrong.expected if wrong else None,
        "got": wrong.got if wrong else None,
        "rule": wrong.rule if wrong else None,
        "printed": outcome.printed,
    }


@lesson.command(epilog=example("accelsim lesson hint 3", "accelsim lesson hint 3 2"))
@lesson_argument
@click.argument("which", metavar="[N]", type=click.IntRange(1), default=1)
def hint(lesson: Lesson, which: int) -> None:
    """Print the first hint of LESSON, or hint N: each says more than the one before."""
    from accelsim.errors import Problem, UsageError

    hints = lesson.hints
    if which > len(hints):
        raise UsageError(Problem(f"no hint {which}", expected=f"1 to {len(hints)}"))
    click.echo(paragraphs(hints[which - 1].split("\n")))
    if which < len(hints):
        click.echo(f"\nMore: accelsim lesson hint {lesson.number} {which + 1}")


@lesson.command(epilog=example("accelsim lesson notebook 3", "accelsim lesson notebook 3 three.ipynb"))
@lesson_argument
@click.argument("target", metavar="[FILE.ipynb]", type=OUT, required=False)
@click.option("--student", default="", metavar="NAME", help="Draw the numbers of the lesson for this name.")
def notebook(lesson: Lesson, target: Path | None, student: str) -> None:
    """Write LESSON as a notebook (default: lesson-03.ipynb here): its text, a cell to edit, the check."""
    from accelsim.errors import Problem, UsageError
    from accelsim.files import text, write_file
    from accelsim.lessons.notebook import notebook

    path = target or Path(f"{lesson.folder}.ipynb")
    if path.exists():
        raise UsageError(Problem("exists, and may hold your work", str(path), "another FILE.ipynb"))
    check_file_target(path, (".ipynb",))
    write_file(path, text(notebook(lesson, student)))
    click.echo(f"{path}: the lesson, {lesson.minutes} minutes")


@lesson.command(
    epilog=example("accelsim lesson solution 3", "accelsim lesson solution 3 --student 'Ada Lovelace'")
)
@lesson_argument
@click.option("--student", default="", metavar="NAME", help="With the numbers of this name.")
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


@lesson.command(epilog=example(
    "accelsim lesson grade homework/*", "accelsim lesson grade ada grace --csv marks.csv",
))  # fmt: skip
@click.argument("places", metavar="DIR...", nargs=-1, required=True, type=FILE)
@click.option("--seconds", type=click.FloatRange(1), default=20.0, show_default=True,
              help="Time that the answers of one file may take.")  # fmt: skip
@click.option("--trust-students", "trusted", is_flag=True,
              help="Run their files as plain processes, without bwrap and with all your rights.")  # fmt: skip
@json_option
@csv_option
def grade(places: tuple[Path, ...], seconds: float, trusted: bool, as_json: bool, table: Path | None) -> None:
    """Check many folders: each a lesson's folder, or a student's with lessons in it.

    bwrap (bubblewrap) isolates each file: no network, no files of yours, limits of time, memory and disk. A file that
    cannot be graded gets a row that says why. Rows of --csv are written as soon as they are known.
    """
    from accelsim.files import write_rows
    from accelsim.lessons.grading import COLUMNS, NOT_GRADED, cells, check_isolation, marks
    from accelsim.report.table import text_table

    if table is not None:
        check_file_target(table)
    if trusted:
        click.echo(TRUSTED, err=as_json)
    else:
        check_isolation()
    rows = []
    with write_rows(table, COLUMNS) if table else nullcontext() as add:
        for place in counted(places, str):
            for row in marks([place], seconds, not trusted):
                rows.append(row)
                if add is not None:
                    add(cells(row))
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    show(text_table(list(COLUMNS), [[str(row[name]) for name in COLUMNS] for row in rows], width()))
    missed = [row for row in rows if row["where"].startswith(NOT_GRADED)]
    passed = sum(bool(row["passed"]) for row in rows)
    click.echo(f"\n{passed} of {len(rows)} passed" + (f", {len(missed)} {NOT_GRADED}:" if missed else ""))
    for row in missed:
        click.echo(f"  {row['folder']}: {row['where'].removeprefix(NOT_GRADED + ': ')}")
