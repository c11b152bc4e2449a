"""Reading text files that may be anything: endless devices, other encodings."""

from __future__ import annotations

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
