"""Putting complete files into their places, and finishing what killed processes could not."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from accelsim.files.makers import Make, copied
from accelsim.files.staging import (
    COMPLETE,
    LEFTOVER,
    MAKING,
    flush,
    held,
    identity,
    lock,
    staged_file,
    staged_folder,
)

NOT_REPLACED = (errno.EBUSY, errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS)
"""Why a file that can be written cannot be replaced: it is a mount point, or its directory is closed to us."""

_begun: list[tuple[Path, Path, tuple[int, int] | None]] = []
"""As it is told, where it will be, which inode it will then be."""


def forget() -> None:
    """Begin to count anew what this process wrote."""
    _begun.clear()


def written() -> list[Path]:
    """What took its place since :func:`forget`: true at any moment, also amid an interrupt."""
    return list(dict.fromkeys(told for told, place, made in _begun if identity(place) == made))


def note(told: Path, place: Path, made: Path) -> None:
    """From now on ``told`` counts as written when ``made`` stands at ``place``."""
    _begun.append((told, place, identity(made)))


# ---- one file


def put(real: Path, make: Make, told: Path) -> None:
    """Make a regular file and put it at ``real``, which is no link; it keeps the mode of its predecessor."""
    exists = real.exists()
    mode = stat.S_IMODE(real.stat().st_mode) if exists else 0o666 & ~_umask()
    folder = Path(tempfile.gettempdir()) if exists and closed(real.parent) else real.parent
    recover(folder)
    with staged_file(folder) as (beside, file):
        make(file)
        flush(file)
        beside.chmod(mode)
        _replace(beside, real, told)


def _replace(beside: Path, real: Path, told: Path) -> None:
    """Put a complete file into its place: renamed, or its content copied where nothing can be renamed."""
    note(told, real, beside)
    try:
        beside.replace(real)
    except OSError as error:
        if error.errno not in NOT_REPLACED or not real.exists():
            raise
        note(told, real, real)
        with beside.open("rb") as made, real.open("r+b") as file:
            shutil.copyfileobj(made, file)
            file.truncate()
            flush(file)


def closed(folder: Path) -> bool:
    """Whether nothing can be made in a directory; a file in it may still be written."""
    return not os.access(folder, os.W_OK | os.X_OK)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# ---- the files of a directory


def create(real: Path, makers: Mapping[str, Make], told: Path) -> None:
    """Make a directory that does not exist yet: beside its place, then renamed."""
    real.parent.mkdir(parents=True, exist_ok=True)
    recover(real.parent)
    with staged_folder(real.parent) as stage:
        making = stage / MAKING
        making.mkdir()
        _make_all(making, makers)
        note(told, real, making)
        try:
            making.rename(real)
        except OSError:
            if not real.is_dir():
                raise
            fill(real, {name: copied(making / name) for name in makers}, told)  # another process was faster


def fill(real: Path, makers: Mapping[str, Make], told: Path) -> None:
    """Make files inside a directory that exists, then put one after the other into its place."""
    recover(real)
    with staged_folder(real) as stage:
        making, complete = stage / MAKING, stage / COMPLETE
        making.mkdir()
        _make_all(making, makers)
        for name in makers:
            note(told, real / name, making / name)
        making.rename(complete)
        try:
            _move_all(complete, real)
        except BaseException:  # an interrupt when some of the files are in place: the others must follow
            _move_all(complete, real)
            raise


def _make_all(folder: Path, makers: Mapping[str, Make]) -> None:
    for name, make in makers.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with (folder / name).open("wb") as file:
            make(file)
            flush(file)


def _move_all(made: Path, real: Path) -> None:
    """Every file of ``made`` to its place; may be done again after it was broken off."""
    with held(real):
        for path in sorted(each for each in made.rglob("*") if each.is_file()):
            place = real / path.relative_to(made)
            place.parent.mkdir(parents=True, exist_ok=True)
            if place.is_symlink():
                put(Path(os.path.realpath(place)), copied(path), place)
                path.unlink()
            else:
                path.replace(place)


# ---- what killed processes left


def recover(folder: Path) -> None:
    """Finish what a killed process had complete for ``folder``, and remove what it had not, as far as we may."""
    with suppress(OSError, ValueError):
        for left in [each for each in folder.iterdir() if LEFTOVER.fullmatch(each.name)]:
            with suppress(OSError):
                _settle(left, folder)


def _settle(left: Path, folder: Path) -> None:
    """Finish or remove one leftover, unless a process that lives still holds it."""
    handle = os.open(left, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    try:
        if not lock(handle, wait=False):
            return
        kind = stat.S_IFMT(os.fstat(handle).st_mode)
        if kind == stat.S_IFDIR:
            if (left / COMPLETE).is_dir():
                _move_all(left / COMPLETE, folder)
            shutil.rmtree(left)
        elif kind == stat.S_IFREG:
            left.unlink()
    finally:
        os.close(handle)
