"""A folder of no lasting worth, for a process that writes there."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a folder away from the user's, and remove it with all in it; what cannot be removed stays."""
    folder = Path(tempfile.mkdtemp(prefix="accelsim-scratch-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
