"""Lessons as notebooks: the same text and start, and cells that run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from accelsim.errors import UsageError
from accelsim.lessons import check
from accelsim.lessons.base import Lesson
from accelsim.lessons.notebook import notebook
from accelsim.lessons.registry import lessons
from accelsim.lessons.running import Outcome
from accelsim.lessons.work import filled

ALL = pytest.mark.parametrize("lesson", lessons(), ids=lambda lesson: lesson.folder)


def sources(made: str, kind: str) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(made)["cells"] if cell["cell_type"] == kind]


def executed(made: str, folder: Path) -> Any:
    """Runs the code cells as a kernel does: ``%%writefile`` writes the rest of its cell; gives the value of the last."""
    known: dict[str, Any] = {}
    value = None
    for source in sources(made, "code"):
        first, _, rest = source.partition("\n")
        if first.startswith("%%writefile "):
            (folder / first.split()[1]).write_text(rest, encoding="utf-8")
            continue
        *body, last = source.split("\n")
        exec("\n".join(body), known)
        value = eval(last, known)
    return value


@ALL
def test_cells_are_the_text_and_the_start(lesson: Lesson) -> None:
    made = notebook(lesson, "Ada")
    text = filled(lesson, "text.md", "Ada")
    assert "\n".join(sources(made, "markdown")).split() == text.split()
    write, _ = sources(made, "code")
    assert write.split("\n", 1)[1].strip() == filled(lesson, "start.py.in", "Ada").strip()
    assert made == notebook(lesson, "Ada")
    cells = json.loads(made)["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells)


@pytest.mark.parametrize("lesson", lessons()[::3], ids=lambda lesson: lesson.folder)
def test_a_notebook_runs_and_says_what_is_wrong(
    lesson: Lesson, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = notebook(lesson, "")
    found = executed(made, tmp_path)
    assert isinstance(found, Outcome) and not found.passed and found.student == ""
    assert "Stuck?" in repr(found) and "<img src=" in found._repr_html_()


def test_a_solution_in_a_notebook_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lesson = lessons()[0]
    executed(notebook(lesson, ""), tmp_path)
    (tmp_path / lesson.file).write_text(filled(lesson, "solution.py.in", ""), encoding="utf-8")
    assert check(1, lesson.file).passed and repr(check(1, lesson.file)).endswith("Passed.")


def test_a_file_that_is_not_there_is_told() -> None:
    with pytest.raises(UsageError, match=r"nothing.py.*energy.py"):
        check(1, "nothing.py")
