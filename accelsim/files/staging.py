"""Files and directories that are not in their place yet: ``.accelsim-xxxxxxxx``, locked while their process lives."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

if sys.platform != "win32":
    import fcntl

PREFIX = ".accelsim-"
LEFTOVER = re.compile(r"\.accelsim-[a-z0-9_]{8}")
"""Names of what a killed process may have left."""

MAKING, COMPLETE = "making", "complete"
"""Inside a directory that is being made: its files, before and after the last of them is there."""


def identity(path: Path) -> tuple[int, int] | None:
    """Device and inode of what ``path`` leads to; None where there is nothing."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def lock(handle: int, wait: bool = True) -> bool:
    """Whether the lock of an open file is ours now. Where there are no locks, nothing counts as a leftover."""
    if sys.platform == "win32":
        return wait
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def flush(file: IO[bytes]) -> None:
    """Content reaches the disk before its name does: after a power cut there would be an empty file under it."""
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def staged_file(folder: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """A locked new file in ``folder``, gone afterwards unless it was renamed."""
    while True:
        handle, name = tempfile.mkstemp(prefix=PREFIX, dir=folder)
        lock(handle)
        if identity(Path(name)) is not None:  # else another process swept it before it had its lock
            break
        os.close(handle)
    try:
        with os.fdopen(handle, "wb") as file:
            yield Path(name), file
    finally:
        with suppress(FileNotFoundError):
            Path(name).unlink()


@contextmanager
def staged_folder(folder: Path) -> Iterator[Path]:
    """A locked new directory in ``folder``, gone afterwards unless complete files are left in it."""
    while True:
        stage = Path(tempfile.mkdtemp(prefix=PREFIX, dir=folder))
        try:
            handle = os.open(stage, os.O_RDONLY)
        except FileNotFoundError:  # another process swept it before it had its lock
            continue
        lock(handle)
        if stage.is_dir():
            break
        os.close(handle)
    try:
        yield stage
    finally:
        if not any(each.is_file() for each in (stage / COMPLETE).rglob("*")):
            shutil.rmtree(stage, ignore_errors=True)
        os.close(handle)


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Alone in putting files into ``folder``: of two processes the later one's files stand there, all of them."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        lock(handle)
        yield
    finally:
        os.close(handle)
