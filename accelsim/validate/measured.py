"""Where measurements of other people lie: they are not part of this project, and read where they are."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "ACCELSIM_MEASURED"
"""Environment variable that names the folder; ``accelsim validate --data`` sets it."""
BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data" / "measured"
"""Beside a checkout."""
ABSENT = (
    "no measured rows here: name their folder with --data DIR (or the environment variable ACCELSIM_MEASURED)"
)


def folder() -> Path | None:
    """The folder, None where there is none."""
    named = Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else BESIDE
    return named if named.is_dir() else None
