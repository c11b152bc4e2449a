"""What is written to as it is and never replaced: pipes, character devices, our own stdout."""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO

from accelsim.errors import Problem, UsageError
from accelsim.files.makers import Make
from accelsim.files.places import note
from accelsim.files.staging import identity


def is_stream(target: Path) -> bool:
    """Whether it is a pipe, a character device, one of /dev/fd, or the file that our own stdout or stderr goes to."""
    try:
        mode = target.stat().st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or _own_output(target) is not None or _of_proc(target)


def write_stream(target: Path, make: Make) -> None:
    """Make everything, then write it. UsageError for a pipe that nobody reads; OSError as it comes."""
    made = io.BytesIO()
    make(made)
    with opened(target) as file:
        file.write(made.getbuffer())
    note(target, target, target)


def opened(target: Path) -> IO[bytes]:
    """Open a stream to write to. UsageError for a pipe that nobody reads; OSError as it comes."""
    return os.fdopen(_opened(target), "wb")


def _opened(target: Path) -> int:
    own = _own_output(target)
    if own is not None:
        (sys.stdout if own == 1 else sys.stderr).flush()
        return os.dup(own)
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
    return handle


def _own_output(target: Path) -> int | None:
    """1 or 2 when ``target`` is the regular file that stdout or stderr goes to."""
    for number in (1, 2):
        with suppress(OSError):
            found = os.fstat(number)
            if stat.S_ISREG(found.st_mode) and identity(target) == (found.st_dev, found.st_ino):
                return number
    return None


def _of_proc(target: Path) -> bool:
    """Whether it only looks like a file: /dev/fd/N, /proc/..."""
    return os.path.realpath(target.parent).startswith("/proc/")
