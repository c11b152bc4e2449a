"""The one writer of files: whole or not at all, links followed, nothing replaced but regular files.

Every file that the tool writes goes through :func:`write_file` or :func:`write_folder`. Content is made beside its
place, in something named ``.accelsim-xxxxxxxx`` that the process holds a lock on, and takes its place when it is
complete. What a killed process left has no lock any more: the next write to that directory finishes or removes it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from accelsim.files.makers import Make, as_bytes, records, table, text
from accelsim.files.places import create, fill, forget, note, put, recover, written
from accelsim.files.scratch import scratch_folder
from accelsim.files.streams import is_stream, opened, write_stream
from accelsim.files.targets import check_file, check_folder, followed, unwritable

__all__ = [
    "Make", "as_bytes", "check_file", "check_folder", "forget", "made_folder", "records", "recover", "scratch_folder",
    "table", "text", "write_file", "write_folder", "write_rows", "written",
]  # fmt: skip


def write_file(path: str | Path, make: Make) -> Path:
    """Write one file: made beside its place, then renamed, so there never is half of it. Returns ``path``.

    A link is followed. A pipe or character device is written to when everything is made. A file that can be written
    but not replaced (a mount point) is overwritten. UsageError when it cannot be written; what ``make`` raises leaves
    no file.
    """
    target = Path(path)
    try:
        check_file(target)
        if is_stream(target):
            write_stream(target, make)
        else:
            put(followed(target), make, target)
    except OSError as error:
        raise unwritable(target, error) from error
    return target


@contextmanager
def write_rows(path: str | Path, header: Sequence[str]) -> Iterator[Callable[[Sequence[Any]], None]]:
    """Write a CSV file row by row: what is called with a row has written it when it returns, so a command that is
    killed loses none. What was in the file before is gone at once. UsageError when it cannot be written."""
    target = Path(path)
    check_file(target)
    try:
        raw = opened(target) if is_stream(target) else followed(target).open("wb")
    except OSError as error:
        raise unwritable(target, error) from error
    with raw, io.TextIOWrapper(raw, "utf-8", "surrogateescape", newline="") as stream:
        note(target, target, target)
        writer = csv.writer(stream, lineterminator="\n")

        def add(row: Sequence[Any]) -> None:
            try:
                writer.writerow(row)
                stream.flush()
            except OSError as error:
                raise unwritable(target, error) from error

        add(header)
        yield add


def made_folder(folder: Path) -> Path:
    """A folder that is there from now on, with those above it. Raises UsageError when that is not possible."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error, "a folder") from None
    return folder


def write_folder(folder: str | Path, makers: Mapping[str, Make], stale: Iterable[str] = ()) -> list[Path]:
    """Write files (name, which may hold a subdirectory -> maker) into ``folder``; returns their paths.

    A new directory appears with all of them. In one that exists they take the places of their predecessors when the
    last of them is made, and all other files stay untouched; a kill in that moment leaves ``.accelsim-...`` in it,
    from which :func:`recover` goes on. ``stale``: files of an earlier time that are removed then. UsageError when
    ``folder`` cannot be written.
    """
    target = Path(folder)
    try:
        check_folder(target, makers)
        real = followed(target)
        if real.is_dir():
            fill(real, makers, target)
        else:
            create(real, makers, target)
        for name in stale:
            (real / name).unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(target, error, "a directory where files can be made") from error
    return [target / name for name in makers]
