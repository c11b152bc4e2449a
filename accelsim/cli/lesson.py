"""``accelsim lesson``: a course of lessons that check themselves."""

from __future__ import annotations

from pathlib import Path

import click

from accelsim.cli.answers import answers
from accelsim.cli.lesson_check import check, grade, hint
from accelsim.cli.lesson_folder import notebook, reset, solution, start
from accelsim.errors import Gather
from accelsim.report.answer import Answer


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
def lesson(gather: Gather) -> Answer:
    """Learn how AI accelerators work. Each lesson has a text, one file to edit, and a check that says what is wrong.

    Without a command: list all lessons, what each teaches, and which are done in this directory.
    """
    from accelsim.lessons.answers import course

    gather.done()
    return course(Path())


for command in (start, check, hint, notebook, solution, reset, grade):
    lesson.add_command(command)
