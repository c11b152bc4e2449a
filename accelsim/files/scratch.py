"""A folder of no lasting worth, for a process that may write there and nowhere else."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path


class Scratch:
    """A new folder with copies of files, away from the user's; ``remove`` takes it and all in it away."""

    def __init__(self, *copies: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="accelsim-scratch-"))
        for file in copies:
            shutil.copyfile(file, self.folder / file.name)

    def remove(self) -> None:
        """What cannot be removed stays."""
        shutil.rmtree(self.folder, ignore_errors=True)
