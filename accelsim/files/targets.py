"""Places to write to: checks before anything runs, and streams, which are written to as they are."""

from __future__ import annotations

import errno
import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

from accelsim.errors import Problem, UsageError
from accelsim.files.reading import is_file, kind_of

KINDS = {
    0: "a link to nothing",
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a directory",
    stat.S_IFBLK: "a block device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFIFO: "a pipe",
}
"""Type bits of a mode -> what it is."""


def check_file(target: Path) -> None:
    """Raise UsageError when ``target`` could not be written as a file. It is not touched."""
    kind = _kind(target)
    if is_stream(target):
        return
    if kind not in (0, stat.S_IFREG):
        raise UsageError(f"is {KINDS[kind]}", str(target), "a file")
    real = followed(target)
    if not real.parent.is_dir():
        raise UsageError("its directory does not exist", str(target), "a file in a directory that exists")
    if kind and not os.access(real, os.W_OK):
        raise UsageError("cannot be written: Permission denied", str(target), "a file of your own")
    if not kind or not is_closed(real.parent):
        _check_place(target, (real if target.is_symlink() else target).parent)


def check_folder(target: Path, names: Iterable[str] = ()) -> None:
    """Raise UsageError when files called ``names`` could not be written into the directory ``target``, which may be
    new."""
    kind = _kind(target)
    if kind not in (0, stat.S_IFDIR):
        raise UsageError(f"is {KINDS[kind]}", str(target), "a directory")
    problems = dict.fromkeys(problem for name in names if kind for problem in _obstacles(target, name))
    UsageError.raise_for(problems)
    _check_place(target, followed(target) if target.is_symlink() else target)


def scratch_folder() -> tempfile.TemporaryDirectory[str]:
    """Make a folder away from the user's, and remove it with all in it; what cannot be removed stays."""
    return tempfile.TemporaryDirectory(prefix="accelsim-scratch-", ignore_cleanup_errors=True)


def is_stream(target: Path) -> bool:
    """Return whether it is written to as it is and never replaced: a pipe, a character device, one of /dev/fd, or the
    file that our own stdout or stderr goes to."""
    kind = kind_of(target)
    if kind in (0, stat.S_IFIFO, stat.S_IFCHR) or own_output(target):
        return kind != 0
    return os.path.realpath(target.parent).startswith("/proc/")  # it only looks like a file


def own_output(target: Path) -> int | None:
    """Return 1 or 2 when ``target`` is the regular file that stdout or stderr goes to."""
    for number in (1, 2) if is_file(target) else ():
        with suppress(OSError):
            if os.path.samestat(os.fstat(number), target.stat()):
                return number
    return None


def opened(target: Path) -> IO[bytes]:
    """Open a stream to write to. UsageError for a pipe that nobody reads."""
    own = own_output(target)
    if own is not None:
        (sys.stdout if own == 1 else sys.stderr).flush()
        return os.fdopen(os.dup(own), "wb")
    pipe = stat.S_ISFIFO(target.stat().st_mode)
    try:  # without a reader a pipe would be waited for without end
        handle = os.open(target, os.O_WRONLY | os.O_APPEND | (os.O_NONBLOCK if pipe else 0))
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        raise UsageError("nobody reads from this pipe", str(target), "a pipe with a reader") from error
    os.set_blocking(handle, True)
    return os.fdopen(handle, "wb")


def is_closed(folder: Path) -> bool:
    """Return whether nothing can be made in a directory; a file in it may still be written."""
    return not os.access(folder, os.W_OK | os.X_OK)


def followed(path: Path) -> Path:
    """Return where links lead; a link to nothing leads to the file that would be made."""
    return Path(os.path.realpath(path))


def unwritable(target: Path, error: Exception, expected: str = "a file in a directory that exists") -> UsageError:
    """Return the UsageError for a target that the system refuses to write."""
    why = getattr(error, "strerror", None) or str(error)
    return UsageError(f"cannot be written: {why}", str(target), expected)


def _kind(path: Path) -> int:
    """The type bits of what ``path`` leads to, 0 where there is nothing. UsageError when no file has such a name."""
    try:
        return stat.S_IFMT(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except (OSError, ValueError) as error:
        raise unwritable(path, error) from error


def _obstacles(folder: Path, name: str) -> Iterator[Problem]:
    """Return what stands where a file, or the directory that it is in, is to go."""
    above = [(parent, stat.S_IFDIR, "a directory, or nothing") for parent in reversed(Path(name).parents[:-1])]
    for place, wanted, expected in (*above, (Path(name), stat.S_IFREG, "a file, or nothing")):
        kind = _kind(folder / place)
        if kind != wanted and os.path.lexists(folder / place):
            yield Problem(f"is {KINDS[kind]}", str(folder / place), expected)
            return


def _check_place(target: Path, folder: Path) -> None:
    """Raise UsageError when nothing can be made in ``folder``, or in what lies above it where it does not exist."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        why = "takes no files" if error.errno == errno.ENOENT else error.strerror or error
        what = f"cannot be written: {folder}: {why}"
        raise UsageError(what, str(target), "a place where files can be made") from error
