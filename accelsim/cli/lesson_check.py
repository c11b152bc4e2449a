"""``accelsim lesson check``, ``hint`` and ``grade``: what is wrong with a student's file, and with many."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from accelsim.cli.answers import HELP, answers
from accelsim.cli.common import FILE, OUT, check_file_target, counted, flag, option
from accelsim.cli.lesson_folder import lesson_argument, place_argument
from accelsim.errors import Gather
from accelsim.report.answer import Answer

if TYPE_CHECKING:
    from accelsim.lessons.base import Lesson

TRUSTED = "Not isolated (--trust-students): a student's file could read and change what you may.\n"
"""Line above marks that were made without isolation."""


@answers("accelsim lesson check 3", "accelsim lesson check 3 homework --json", outputs="json")
@lesson_argument
@place_argument
def check(gather: Gather, lesson: Lesson, place: Path) -> Answer:
    """Check the student's file of LESSON: passed, or the first thing that is wrong. Draws the student's own result.

    The file runs in a process of its own, with limits of time and memory. Exit code 1 where something is wrong.
    """
    from accelsim.lessons.answers import checked

    return checked(lesson, place)


@answers("accelsim lesson hint 3", "accelsim lesson hint 3 2", outputs="")
@lesson_argument
@click.argument("which", metavar="[N]", type=click.IntRange(1), default=1)
def hint(gather: Gather, lesson: Lesson, which: int) -> Answer:
    """Print the first hint of LESSON, or hint N: each says more than the one before."""
    from accelsim.lessons.answers import hint

    return hint(lesson, which)


@answers("accelsim lesson grade homework/*", "accelsim lesson grade ada grace --csv marks.csv", outputs="json")
@click.argument("places", metavar="DIR...", nargs=-1, required=True, type=FILE)
@option("--seconds", "Time that the answers of one file may take.", 20.0, type=click.FloatRange(1))
@flag("--trust-students trusted", "Run their files as plain processes, without bwrap and with all your rights.")
@option("--csv table", HELP["csv"], type=OUT)
def grade(gather: Gather, places: tuple[Path, ...], seconds: float, trusted: bool, table: Path | None) -> Answer:
    """Check many folders: each a lesson's folder, or a student's with lessons in it.

    bwrap (bubblewrap) isolates each file: no network, no files of yours, limits of time, memory and disk. A file that
    cannot be graded gets a row that says why. Rows of --csv are written as soon as they are known.
    """
    from accelsim.lessons.answers import graded
    from accelsim.lessons.grading import check_isolation

    gather.check(table, check_file_target)
    gather.done()
    if trusted:
        click.echo(TRUSTED, err=click.get_current_context().params["json"])
    else:
        check_isolation()
    return graded(counted(places, str), seconds, not trusted, table)
