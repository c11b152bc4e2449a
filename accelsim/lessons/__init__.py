"""A course that checks itself. In a notebook: ``accelsim.lessons.check(1, "energy.py")``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accelsim.lessons.running import Outcome

__all__ = ["check"]


def check(lesson: int | str, file: str | Path) -> Outcome:
    """Check a file for a lesson (its number or title). The outcome prints as a text; notebooks show its picture too.

    Raises UsageError for an unknown lesson, or where there is no such file.
    """
    from accelsim.errors import UsageError
    from accelsim.lessons.registry import find
    from accelsim.lessons.running import check as run_check

    found, path = find(str(lesson)), Path(file)
    if not path.is_file():
        raise UsageError("no such file", str(path), f"the file of lesson {found.number}, {found.file}")
    return run_check(found, path)
