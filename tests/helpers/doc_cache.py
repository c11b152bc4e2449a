"""What the outputs of each page depend on, by hash, so that pages are run again only where something changed.

``tests/doc_outputs.txt`` has a line for each page: its name, the hash of its blocks, the hash of the sources that its commands
loaded, and the folders of these. ``python -m tests.helpers.doc_blocks`` writes it together with the pages.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Collection, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LIST = ROOT / "tests" / "doc_outputs.txt"
SOURCES = ("accelsim/", "hwspecs/", "reports/studies/")


@dataclass(frozen=True)
class Shown:
    """What a page was when its outputs were last found to be right: hashes of blocks and of sources, their folders."""

    blocks: str
    sources: str
    folders: tuple[str, ...]

    @classmethod
    def of(cls, blocks: Iterable[str], folders: Collection[str]) -> Shown:
        """Take the hashes of a page's blocks and of all files in folders of the repository, as they are now."""
        return cls(_hash(blocks), _sources(tuple(sorted(folders))), tuple(sorted(folders)))

    def is_of(self, blocks: Iterable[str]) -> bool:
        """Return whether the blocks are the same: commands and the outputs that the page shows."""
        return self.blocks == _hash(blocks)

    @property
    def stale(self) -> bool:
        """Return whether a source changed since."""
        return self.sources != _sources(self.folders)


def read() -> dict[str, Shown]:
    """Return the line of each page, by name."""
    rows = (line.split() for line in LIST.read_text(encoding="utf-8").splitlines()) if LIST.exists() else ()
    return {name: Shown(blocks, sources, tuple(folders)) for name, blocks, sources, *folders in rows}


def write(pages: dict[str, Shown]) -> None:
    """Write the lines of all pages."""
    rows = (" ".join((name, one.blocks, one.sources, *one.folders)) for name, one in sorted(pages.items()))
    LIST.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")


@contextmanager
def loaded() -> Any:
    """Yield a set that fills with the folders of sources that this process imports or opens, to the end of the block."""
    found: set[str] = set()
    active = [True]

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if active and event == "open" and isinstance(arguments[0], str):
            _note(found, arguments[0])

    sys.addaudithook(watch)  # stays for the life of the process
    try:
        yield found
    finally:
        active.clear()
        for module in list(sys.modules.values()):
            _note(found, getattr(module, "__file__", None) or "")


def _note(found: set[str], file: str) -> None:
    if file.startswith(str(ROOT)):
        relative = file[len(str(ROOT)) + 1 :].replace("__pycache__/", "")
        if relative.startswith(SOURCES):
            found.add(relative.rpartition("/")[0])


def _hash(texts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


@cache
def _sources(folders: tuple[str, ...]) -> str:
    """Hash all files of folders, without those of their own folders."""
    return _hash(text for folder in folders for text in _texts(folder))


@cache
def _texts(folder: str) -> tuple[str, ...]:
    files = sorted((ROOT / folder).glob("*.*"))
    return tuple(f"{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()}" for file in files if file.is_file())
