"""All lessons: every folder of ``course`` is one."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from accelsim.errors import UsageError, nearest
from accelsim.lessons import course
from accelsim.lessons.base import Lesson


@cache
def lessons() -> tuple[Lesson, ...]:
    """Return the lessons in the order of their numbers."""
    names = [module.name for module in iter_modules(course.__path__) if module.ispkg]
    found: list[Lesson] = [import_module(f"{course.__name__}.{name}.lesson").LESSON for name in names]
    return tuple(sorted(found, key=lambda lesson: lesson.number))


def find(name: str) -> Lesson:
    """The lesson of a number ('3'), a folder ('lesson-03'), a file ('array.py') or a title. Raises UsageError with the
    nearest for any other."""
    names = {
        alias.casefold(): lesson
        for lesson in lessons()
        for alias in (str(lesson.number), f"{lesson.number:02d}", lesson.folder, lesson.file, lesson.title)
    }
    found = names.get(name.strip().casefold())
    if found is None:
        expected = f"a number from 1 to {lessons()[-1].number}, or a title of 'accelsim lesson'"
        near = nearest(name, [str(lesson.number) for lesson in lessons()] + [lesson.title for lesson in lessons()])
        raise UsageError(f"no lesson {name!r}", expected=expected, nearest=near)
    return found
