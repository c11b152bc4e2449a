"""Write beside, flush to the disk, rename.

The name of what is made beside a place follows from the name of the place, and the process that makes it holds its
lock. What a killed process left has no lock, so the next one that writes to the same place removes it.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import IO

from accelsim.files.makers import Make, copied

if sys.platform != "win32":
    import fcntl

PREFIX = ".accelsim-"
NOT_REPLACED = (errno.EBUSY, errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS)
"""Why a file that can be written cannot be replaced: it is a mount point, or its directory is closed to us."""

_begun: list[tuple[Path, Path, tuple[int, int] | None]] = []
"""As the user knows it, where it will be, which inode it will then be."""


def forget() -> None:
    """Begin to count anew what this process wrote."""
    _begun.clear()


def written() -> list[Path]:
    """Return what took its place since :func:`forget`: true at any moment, also amid an interrupt."""
    return list(dict.fromkeys(told for told, place, made in _begun if identity(place) == made))


def note(told: Path | None, place: Path, made: Path) -> None:
    """Count ``told``, unless it is None, as written from now on when ``made`` stands at ``place``."""
    if told is not None:
        _begun.append((told, place, identity(made)))


def identity(path: Path | int) -> tuple[int, int] | None:
    """Return device and inode of what a path leads to, or of an open file; None where there is nothing."""
    try:
        found = os.stat(path)  # noqa: PTH116  # of handles too
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def beside(real: Path) -> Path:
    """Return where a file or directory is made before it takes its place."""
    return real.parent / f"{PREFIX}{sha256(os.fsencode(real.name)).hexdigest()[:8]}"


def is_empty(folder: Path) -> bool:
    """Whether there is nothing in a directory but what a killed process may have left."""
    return all(each.name.startswith(PREFIX) for each in folder.iterdir())


@contextmanager
def staged(path: Path, create: Callable[[Path], int]) -> Iterator[int]:
    """Hold something new at ``path`` that ``create`` makes and opens; it is gone afterwards unless it was renamed.

    A process that makes the same is waited for; what a killed one left is removed.
    """
    handle = -1
    try:
        while handle < 0:
            try:
                handle = create(path)
            except FileExistsError:
                _sweep(path, wait=True)
                continue
            except FileNotFoundError:  # swept by another process before it was open
                if path.parent.is_dir():
                    continue
                raise
            _lock(handle)
            if identity(path) != identity(handle):  # swept by another process before it had its lock
                os.close(handle)
                handle = -1
        yield handle
    finally:
        if handle >= 0:
            os.close(handle)
        with suppress(OSError):
            _sweep(path, wait=False)


def new_file(path: Path) -> int:
    """Make and open a file for ``staged``."""
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)


def new_folder(path: Path) -> int:
    """Make and open a directory for ``staged``."""
    path.mkdir()
    return os.open(path, os.O_RDONLY)


def _sweep(path: Path, wait: bool) -> None:
    """Remove what a killed process left; what a living one holds is waited for, or stays."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        return
    try:
        if _lock(handle, wait) and identity(path) == identity(handle):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    finally:
        os.close(handle)


def _lock(handle: int, wait: bool = True) -> bool:
    """Return whether the lock of an open file is ours now; where there are no locks, nothing is waited for."""
    if sys.platform == "win32":
        return wait
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return wait
    return True


def put(makers: Mapping[Path, Make], told: Path | None) -> None:
    """Make regular files, and when the last of them is made put each at its place, which is no link.

    A file keeps the mode of its predecessor. Of two processes that write the same files the later one's stand there.
    """
    made: dict[Path, Path] = {}
    with ExitStack() as stack:
        for place, make in sorted(makers.items()):  # so that no two processes wait for each other
            temporary = beside(place)
            handle = stack.enter_context(staged(temporary, new_file))
            with os.fdopen(handle, "wb", closefd=False) as file:
                _write(file, make)
            temporary.chmod(stat.S_IMODE(place.stat().st_mode) if place.exists() else 0o666 & ~_umask())
            note(told, place, temporary)
            made[place] = temporary
        try:
            _rename(made, told)
        except BaseException:  # an interrupt when some of the files are in place: the others must follow
            _rename(made, told)
            raise


def _write(file: IO[bytes], make: Make) -> None:
    """Write content to the disk, before its name: after a power cut there would be an empty file under it."""
    make(file)
    file.truncate()
    file.flush()
    os.fsync(file.fileno())


def _rename(made: Mapping[Path, Path], told: Path | None) -> None:
    for place, temporary in made.items():
        try:
            if temporary.exists():
                temporary.replace(place)
        except OSError as error:
            if error.errno not in NOT_REPLACED or not place.exists():
                raise
            overwrite(place, copied(temporary), told)


def overwrite(place: Path, make: Make, told: Path | None) -> None:
    """Write a file in its place, where nothing can be put into its directory."""
    note(told, place, place)
    with place.open("r+b") as file:
        _write(file, make)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def put_folder(real: Path, makers: Mapping[str, Make], told: Path) -> None:
    """Make a directory that does not exist yet: it appears with all of its files."""
    real.parent.mkdir(parents=True, exist_ok=True)
    stage = beside(real)
    with staged(stage, new_folder):
        for name, make in makers.items():
            (stage / name).parent.mkdir(parents=True, exist_ok=True)
            with (stage / name).open("wb") as file:
                _write(file, make)
            note(told, real / name, stage / name)
        try:
            stage.rename(real)
        except OSError:
            if not real.is_dir():
                raise
            # another process was faster
            put_into(real, {name: copied(stage / name) for name in makers}, told)


def put_into(real: Path, makers: Mapping[str, Make], told: Path) -> None:
    """Make files in a directory that exists; links in it are followed."""
    for name in makers:
        (real / name).parent.mkdir(parents=True, exist_ok=True)
    put({Path(os.path.realpath(real / name)): make for name, make in makers.items()}, told)
