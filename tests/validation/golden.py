"""Where the data is that checks compare with."""

from __future__ import annotations

from pathlib import Path

from accelsim.errors import Problem, UsageError

FOLDER = Path(__file__).parent / "data"


def golden(name: str) -> Path:
    """The file or folder ``name`` ('systolic/scalesim2_check.csv') of the data that comes with the package.

    Raises UsageError when it is missing.
    """
    path = FOLDER / name
    if not path.exists():
        raise UsageError(Problem(f"there is no golden file {name!r}", str(path.parent)))
    return path
