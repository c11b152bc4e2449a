"""A lesson as a notebook: its text, the file to edit as a cell that writes it, the check. For Jupyter and its kind."""

from __future__ import annotations

import json
import re

from accelsim.lessons.base import Lesson
from accelsim.lessons.work import filled

CHECK = """from accelsim.lessons import check

check({number}, "{file}")"""
"""The last cell: its value shows itself, with the picture."""


def notebook(lesson: Lesson, student: str) -> str:
    """The notebook as JSON (format 4.5), the same bytes each time."""
    text, start = filled(lesson, "text.md", student), filled(lesson, "start.py.in", student)
    sections = re.split(r"\n(?=## )", text.rstrip("\n"))
    before = [part for part in sections if not part.startswith("## More to try")]
    cells = [_cell("markdown", part) for part in before]
    edit = next(place for place, part in enumerate(before) if part.startswith("## What to do")) + 1
    work = [_cell("code", f"%%writefile {lesson.file}\n{start}"), _cell("code", _check(lesson))]
    cells[edit:edit] = work
    cells += [_cell("markdown", part) for part in sections[len(before) :]]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    body = {
        "cells": cells,
        "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(body, indent=1, ensure_ascii=False) + "\n"


def _check(lesson: Lesson) -> str:
    return CHECK.format(number=lesson.number, file=lesson.file)


def _cell(kind: str, source: str) -> dict[str, object]:
    cell: dict[str, object] = {
        "cell_type": kind,
        "metadata": {},
        "source": source.strip("\n").splitlines(keepends=True),
    }
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})
