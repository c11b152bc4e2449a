"""Writing to whatever a path leads to: a file, a directory, a pipe, a device, our own stdout."""

from __future__ import annotations

import errno
import io
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from accelsim.errors import Problem, UsageError
from accelsim.files.makers import Make, as_bytes, table
from accelsim.files.staging import note, overwrite, put, put_folder, put_into
from accelsim.files.targets import (
    check_file,
    check_folder,
    closed,
    followed,
    is_stream,
    own_output,
    unwritable,
)


def write_file(path: str | Path, make: Make) -> Path:
    """Write one file: made beside its place, then renamed, so there never is half of it. Returns ``path``.

    A link is followed. A pipe or character device is written to when everything is made. A file that can be written
    but not replaced (a mount point) is overwritten. UsageError when it cannot be written; what ``make`` raises leaves
    no file.
    """
    target = Path(path)
    try:
        check_file(target)
        real = followed(target)
        if is_stream(target):
            made = _made(make)
            with _opened(target) as file:
                file.write(made)
            note(target, target, target)
        elif real.exists() and closed(real.parent):
            overwrite(real, as_bytes(_made(make)), target)
        else:
            put({real: make}, target)
    except OSError as error:
        raise unwritable(target, error) from error
    return target


def write_folder(folder: str | Path, makers: Mapping[str, Make], stale: Iterable[str] = ()) -> list[Path]:
    """Write files (name, which may hold a subdirectory -> maker) into ``folder``; returns their paths.

    A new directory appears with all of them. In one that exists they take the places of their predecessors when the
    last of them is made, and all other files stay untouched; a kill in that moment leaves each file whole, old or new.
    ``stale``: files of an earlier time that are removed then. UsageError when ``folder`` cannot be written.
    """
    target = Path(folder)
    try:
        check_folder(target, makers)
        real = followed(target)
        (put_into if real.is_dir() else put_folder)(real, makers, target)
        for name in stale:
            (real / name).unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(target, error, "a directory where files can be made") from error
    return [target / name for name in makers]


@contextmanager
def write_rows(path: str | Path, header: Sequence[str]) -> Iterator[Callable[[Sequence[Any]], None]]:
    """Write a CSV file row by row: what is called with a row has written it when it returns, so a command that is
    killed loses none. What was in the file before is gone at once. UsageError when it cannot be written."""
    target = Path(path)
    check_file(target)
    try:
        with _opened(target, 0) if is_stream(target) else followed(target).open("wb", 0) as file:
            note(target, target, target)

            def add(row: Sequence[Any]) -> None:
                left = memoryview(_made(table(row, ())))
                while left:
                    left = left[file.write(left) :]

            add(header)
            yield add
    except OSError as error:
        raise unwritable(target, error) from error


def made_folder(folder: Path) -> Path:
    """Make a folder, with those above it, where it is not there yet. Raises UsageError when that is not possible."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error, "a folder") from None
    return folder


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a folder away from the user's, and remove it with all in it; what cannot be removed stays."""
    folder = Path(tempfile.mkdtemp(prefix="accelsim-scratch-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _made(make: Make) -> bytes:
    made = io.BytesIO()
    make(made)
    return made.getvalue()


def _opened(target: Path, buffering: int = -1) -> IO[bytes]:
    """Open a stream to write to. UsageError for a pipe that nobody reads."""
    own = own_output(target)
    if own is not None:
        (sys.stdout if own == 1 else sys.stderr).flush()
        return os.fdopen(os.dup(own), "wb", buffering)
    pipe = stat.S_ISFIFO(target.stat().st_mode)
    try:  # without a reader a pipe would be waited for without end
        handle = os.open(target, os.O_WRONLY | os.O_APPEND | (os.O_NONBLOCK if pipe else 0))
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        raise UsageError(
            Problem("nobody reads from this pipe", str(target), "a pipe with a reader")
        ) from error
    os.set_blocking(handle, True)
    return os.fdopen(handle, "wb", buffering)
