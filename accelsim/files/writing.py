"""Write beside, flush to the disk, rename.

Whoever writes into a directory holds its lock. What a killed process left there is removed by the next one that writes
to the same place.
"""

from __future__ import annotations

import csv
import errno
import io
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

from accelsim.files import targets

Make = Callable[[IO[bytes]], object]
"""Writes the content of one file to a binary file that is open."""


def content(make: Make) -> bytes:
    """Return the bytes that ``make`` would write to a file."""
    made = io.BytesIO()
    make(made)
    return made.getvalue()


def as_bytes(whole: bytes) -> Make:
    """Return a maker of a file with these bytes."""
    return lambda file: file.write(whole)


def text(pieces: str | Iterable[str]) -> Make:
    """Makes a file of UTF-8 text, in one piece or in many; line ends stay as they are."""
    chunks = (pieces,) if isinstance(pieces, str) else pieces
    return lambda file: file.writelines(chunk.encode("utf-8", "surrogateescape") for chunk in chunks)


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> Make:
    """Return a maker of a CSV file: a line of column names, then the rows."""

    def make(file: IO[bytes]) -> None:
        stream = io.TextIOWrapper(file, encoding="utf-8", errors="surrogateescape", newline="")
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
        stream.detach()

    return make


def records(rows: Sequence[Mapping[str, object]]) -> Make:
    """Makes a CSV file of records: columns in the order of first appearance; None and what is missing are empty."""
    header = list(dict.fromkeys(name for row in rows for name in row))
    return table(header, ([row.get(name) for name in header] for row in rows))


if sys.platform != "win32":
    import fcntl

PREFIX = ".accelsim-"
BEGUN = f"{PREFIX}files"
"""Name of the folder in which the files of a directory are made."""
NOT_REPLACED = (errno.EBUSY, errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS)
"""Why a file that can be written cannot be replaced: it is a mount point, or its directory is closed to us."""

_written: dict[Path | None, None] = {}


def forget() -> None:
    """Forget the files that this process wrote."""
    _written.clear()


def written() -> list[Path]:
    """Return the files written since :func:`forget`, as their callers named them."""
    return [told for told in _written if told is not None]


def is_empty(folder: Path) -> bool:
    """Return whether there is nothing in a directory but what a killed process left; it may have begun to put files
    there."""
    names = [each.name for each in folder.iterdir()]
    return BEGUN in names or all(name.startswith(PREFIX) for name in names)


def make_folder(folder: Path) -> Path:
    """Make a folder, and those above it, where there is none; return it."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_file(path: str | Path, make: Make) -> Path:
    """Write one file: made beside its place, then renamed, so there never is half of it. Returns ``path``.

    A link is followed. A pipe or character device is written to when everything is made. A file that can be written
    but not replaced (a mount point) is overwritten. UsageError when it cannot be written; what ``make`` raises leaves
    no file.
    """
    target = Path(path)
    try:
        targets.check_file(target)
        real = targets.followed(target)
        if targets.is_stream(target):
            whole = content(make)
            with targets.opened(target) as file:
                file.write(whole)
            _written[target] = None
        elif real.exists() and targets.is_closed(real.parent):
            _overwrite(real, content(make), target)
        else:
            put(real, make, target)
    except OSError as error:
        raise targets.unwritable(target, error) from error
    return target


def create(path: Path, whole: bytes) -> None:
    """Make a file where there is none; one that is there stays as it is. Raises OSError."""
    with suppress(FileExistsError), path.open("xb") as file:
        file.write(whole)


def write_folder(folder: str | Path, makers: Mapping[str, Make | None]) -> list[Path]:
    """Write files (name, which may hold a subdirectory -> maker) into ``folder``; returns their paths.

    They take the places of their predecessors when the last of them is made; then files whose maker is None are
    removed, and all others stay untouched. A kill in that moment leaves each file whole, old or new. UsageError when
    ``folder`` cannot be written.
    """
    target, made = Path(folder), {name: make for name, make in makers.items() if make is not None}
    try:
        targets.check_folder(target, made)
        real = targets.followed(target)
        new = not real.exists()
        real.mkdir(parents=True, exist_ok=True)
        try:
            _put(real, made, real / BEGUN, target)
        finally:
            if new:
                with suppress(OSError):
                    real.rmdir()  # where nothing could be made
        for name in makers.keys() - made.keys():
            (real / name).unlink(missing_ok=True)
    except OSError as error:
        raise targets.unwritable(target, error, "a directory where files can be made") from error
    return [target / name for name in made]


@contextmanager
def write_rows(path: str | Path, header: Sequence[str]) -> Iterator[Callable[[Sequence[object]], None]]:
    """Write a CSV file row by row: what is called with a row has written it when it returns, so a command that is
    killed loses none. What was in the file before is gone at once. UsageError when it cannot be written."""
    target = Path(path)
    targets.check_file(target)
    try:
        with targets.opened(target) if targets.is_stream(target) else targets.followed(target).open("wb") as file:
            _written[target] = None

            def add(row: Sequence[Any]) -> None:
                table(row, ())(file)
                file.flush()

            add(header)
            yield add
    except OSError as error:
        raise targets.unwritable(target, error) from error


def beside(place: Path) -> Path:
    """Return the directory in which a file is made before it takes its place."""
    return place.parent / f"{PREFIX}{sha256(os.fsencode(place.name)).hexdigest()[:8]}"


def put(place: Path, make: Make, told: Path | None = None) -> None:
    """Make a regular file at a place that is no link, and the directories above it. Raises OSError.

    :func:`written` names it ``told``.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    _put(place.parent, {place.name: make}, beside(place), told)


def _put(folder: Path, makers: Mapping[str, Make], stage: Path, told: Path | None) -> None:
    """Make files in the new directory ``stage``, and when the last is made put each at its place in ``folder``."""
    with _locked(folder):
        _remove(stage)
        try:
            stage.mkdir()
            for name, make in makers.items():
                _make(stage / name, make, folder / name)
            try:
                _move(stage, folder, makers, told)
            except BaseException:  # an interrupt when some of the files are in place: the others must follow
                _move(stage, folder, makers, told)
                raise
        finally:
            _remove(stage)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other processes waiting that write into a directory, where directories have locks."""
    with ExitStack() as stack:
        with suppress(OSError):
            handle = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _remove(stage: Path) -> None:
    shutil.rmtree(stage) if stage.is_dir() else stage.unlink(missing_ok=True)


def _make(temporary: Path, make: Make, place: Path) -> None:
    """Make a file with the mode of its predecessor."""
    temporary.parent.mkdir(parents=True, exist_ok=True)
    temporary.touch(0o600)
    with temporary.open("wb") as file:
        _write(file, make)
    mask = os.umask(0)
    os.umask(mask)
    temporary.chmod(stat.S_IMODE(place.stat().st_mode) if place.exists() else 0o666 & ~mask)


def _write(file: IO[bytes], make: Make) -> None:
    """Write content to the disk, before its name: after a power cut there would be an empty file under it."""
    make(file)
    file.truncate()
    file.flush()
    os.fsync(file.fileno())


def _move(stage: Path, folder: Path, names: Iterable[str], told: Path | None) -> None:
    """Put files at their places, links followed; what is not in ``stage`` is there already."""
    for name in names:
        place = targets.followed(folder / name)
        try:
            if (stage / name).exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                (stage / name).replace(place)
            _written[told] = None
        except OSError as error:
            if error.errno not in NOT_REPLACED or not place.exists():
                raise
            _overwrite(place, (stage / name).read_bytes(), told)


def _overwrite(place: Path, whole: bytes, told: Path | None) -> None:
    """Write a file in its place, where nothing can be put into its directory."""
    _written[told] = None
    with place.open("r+b") as file:
        _write(file, as_bytes(whole))
