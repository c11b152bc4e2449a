"""Where the golden data is."""

from __future__ import annotations

from pathlib import Path

from accelsim.errors import Problem, UsageError


def golden(name: str) -> Path:
    """The golden file or folder ``name`` ('systolic/scalesim2_check.csv').

    Inside the wheel, or in the tests of the sources in an editable install. Raises UsageError when it is
    missing.
    """
    package = Path(__file__).resolve().parents[1]
    wheel = package / "_golden"
    path = (wheel if wheel.is_dir() else package.parent / "tests" / "golden") / name
    if not path.exists():
        raise UsageError(Problem(f"there is no golden file {name!r}", str(path.parent)))
    return path
