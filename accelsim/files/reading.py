"""Reading text files that may be anything: endless devices, other encodings."""

from __future__ import annotations

import stat
from pathlib import Path

MOST_B = 2**30
"""Bytes of a text file that is read, unless its reader says less: 1 GiB."""


def read_text(path: Path, most_B: int = MOST_B, encoding: str = "utf-8-sig") -> str:
    """The text of a file. OSError as it comes; ValueError for more than ``most_B`` bytes and for another encoding."""
    with path.open("rb") as file:
        content = file.read(most_B + 1)
    if len(content) > most_B:
        raise ValueError(f"more than {most_B:,} B")
    return content.decode(encoding)


def kind_of(path: Path) -> int:
    """The type bits of what a path leads to (``stat.S_IFREG``...); 0 for nothing and for what no file can be called."""
    try:
        return stat.S_IFMT(path.stat().st_mode)
    except (OSError, ValueError):
        return 0


def exists(path: Path) -> bool:
    """Return whether there is anything of that name; False where ``Path.exists`` raises, as for a name that is too
    long."""
    return kind_of(path) != 0


def is_folder(path: Path) -> bool:
    """Return whether a path is a directory; False where the system does not tell."""
    return kind_of(path) == stat.S_IFDIR


def is_file(path: Path) -> bool:
    """Return whether a path is a regular file; False where the system does not tell."""
    return kind_of(path) == stat.S_IFREG
