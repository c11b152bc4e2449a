"""A student's folders: made once, never overwritten, found again, put back to their start."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from accelsim.errors import UsageError
from accelsim.files import Make, as_bytes, text, write_file, write_folder
from accelsim.lessons.base import Lesson
from accelsim.lessons.registry import lessons
from accelsim.lessons.running import Outcome, named

README, RESULT, PICTURE = "README.md", "result.json", "result.png"
"""The text; what the last check found; its picture."""
_MARK = re.compile(r"<<(\w+)>>")


def filled(lesson: Lesson, name: str, student: str) -> str:
    """A file of the lesson (``text.md``, ``start.py.in``, ``solution.py.in``) with the numbers of a student."""
    words: Mapping[str, object] = {"student": _name(student), **lesson.words(lesson.numbers(student))}
    return _MARK.sub(lambda match: str(words[match[1]]), lesson.read(name))


def _name(student: str) -> str:
    """A name as a Python text between double quotes takes it."""
    return json.dumps(student, ensure_ascii=False)[1:-1]


def start(lesson: Lesson, parent: Path, student: str) -> Path:
    """Make the folder of a lesson: its text and the file to edit, nothing else. Raises UsageError where it exists."""
    folder = parent / lesson.folder
    if folder.exists() or folder.is_symlink():
        expected = f"another DIR; to begin this one again, '{_again(lesson, 'reset', parent)}'"
        raise UsageError("exists, and may hold your work", str(folder), expected)
    write_folder(folder, _files(lesson, student))
    return folder


def _files(lesson: Lesson, student: str) -> dict[str, Make]:
    return {README: text(filled(lesson, "text.md", student)), lesson.file: text(filled(lesson, "start.py.in", student))}


def located(lesson: Lesson, place: Path) -> Path:
    """The student's file of a lesson: in ``place``, or in its folder there. Raises UsageError where there is none."""
    for folder in (place / lesson.folder, place):
        file = folder / lesson.file
        if file.is_file():
            return file
    folder = place / lesson.folder if (place / lesson.folder).is_dir() else place
    what = f"there is no {lesson.file} in it" if folder.is_dir() else "no such directory"
    make = "reset" if _is_of(lesson, folder) else "start"
    expected = f"the folder of lesson {lesson.number}; '{_again(lesson, make, place)}' makes it"
    raise UsageError(what, str(folder), expected)


def _is_of(lesson: Lesson, folder: Path) -> bool:
    """Return whether a folder is that of this lesson, by its text."""
    text = folder / README
    return text.is_file() and text.read_text("utf-8", "replace").startswith(f"# Lesson {lesson.number}:")


def _again(lesson: Lesson, what: str, place: Path) -> str:
    """The command that makes a lesson's folder, or its file, at a place."""
    return f"accelsim lesson {what} {lesson.number}" + (f" {shlex.quote(str(place))}" if place != Path() else "")


def reset(lesson: Lesson, place: Path) -> tuple[Path, Path | None]:
    """Put the start of the file back; what was there is kept beside it. Returns both files."""
    folder = place / lesson.folder if (place / lesson.folder).is_dir() else place
    if not _is_of(lesson, folder):
        expected = f"a folder that '{_again(lesson, 'start', place)}' made"
        raise UsageError(f"no {README} of a lesson in it", str(folder), expected)
    file, kept = folder / lesson.file, None
    student = named(file) if file.is_file() else _student_of(folder)
    if file.is_file():
        kept = _free(file)
        write_file(kept, as_bytes(file.read_bytes()))
    for name, make in _files(lesson, student).items():
        write_file(folder / name, make)
    return file, kept


def _free(file: Path) -> Path:
    """A name beside a file that nothing has yet."""
    number = 1
    while (found := file.with_suffix(f".old{number}.py")).exists():
        number += 1
    return found


def _student_of(folder: Path) -> str:
    found = saved(folder)
    return str(found.get("student", "")) if found else ""


def save(outcome: Outcome, file: Path) -> Path:
    """Write what a check found beside the file, and its picture; returns the path of the picture."""
    wrong = outcome.wrong
    facts = {
        "lesson": outcome.lesson.number,
        "student": outcome.student,
        "passed": outcome.passed,
        "steps": f"{len(outcome.done)} of {len(outcome.lesson.steps)}",
        "wrong": None if wrong is None else vars(wrong),
        "sha256": sha256(file.read_bytes()).hexdigest(),
    }
    from accelsim.report.style import save as save_picture

    write_file(file.parent / RESULT, text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n"))
    picture = file.parent / PICTURE
    save_picture(outcome.picture(), picture)
    return picture


def saved(folder: Path) -> dict[str, object] | None:
    """Return what the last check in a folder found, None where there was none that can be read."""
    try:
        found = json.loads((folder / RESULT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def state(lesson: Lesson, place: Path) -> str:
    """'done', 'changed' since it passed, 'begun', or '' where there is no folder of the lesson."""
    folder = place / lesson.folder
    file = folder / lesson.file
    if not file.is_file():
        return ""
    found = saved(folder)
    if not found or not found.get("passed"):
        return "begun"
    return "done" if found.get("sha256") == sha256(file.read_bytes()).hexdigest() else "changed"


def lesson_in(folder: Path) -> list[tuple[Lesson, Path]]:
    """Return the lessons of which something with the name of their file is in a folder, or in folders of lessons in
    it."""
    places = [folder, *(folder / lesson.folder for lesson in lessons())]
    return [
        (lesson, place / lesson.file)
        for place in places
        for lesson in lessons()
        if os.path.lexists(place / lesson.file)
    ]
