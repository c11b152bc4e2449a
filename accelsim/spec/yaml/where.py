"""Locations of spec files: the user's directories first, then those of the package."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from accelsim import usercache
from accelsim.errors import Problem, SpecError, brief, nearest
from accelsim.files.reading import is_file, is_folder

SUFFIXES = (".yaml", ".yml")


READ: set[Path] = set()
"""Spec files that this process has read."""
NAMED = 4
"""Chips that are named of those that have something."""


def roots() -> list[Path]:
    """Directories that hold ``chips/``, ``memories/``, ...; the first that has a file wins.

    In order: those of the environment variable ``ACCELSIM_HWSPECS`` (separated as in PATH), the user's own
    ``$XDG_CONFIG_HOME/accelsim/hwspecs`` (``~/.config`` when unset), and the package's.
    """
    named = [Path(part) for part in os.environ.get("ACCELSIM_HWSPECS", "").split(os.pathsep) if part]
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return [root for root in (*named, config / "accelsim" / "hwspecs", shipped()) if root.is_dir()]


@cache
def shipped() -> Path:
    """The package's own specs: inside the wheel, or beside the sources in an editable install."""
    package = Path(__file__).resolve().parents[2]
    wheel = package / "_hwspecs"
    return wheel if wheel.is_dir() else package.parent / "hwspecs"


def names(folder: str) -> dict[str, Path]:
    """Name -> file of every spec in ``folder`` of the roots, sorted; subfolders are part of the name."""
    found: dict[str, Path] = {}
    for root in roots():
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES:
                found.setdefault(path.relative_to(root / folder).with_suffix("").as_posix(), path)
    return dict(sorted(found.items()))


def every_file() -> list[Path]:
    """Return all spec files below the roots, of every kind, in a fixed order."""
    return [Path(path) for path, *_ in states()]


def states() -> tuple[tuple[str, int, int], ...]:
    """Return path, bytes and time of the last change (ns) of every spec file below the roots, in a fixed order."""
    return tuple(state for root in roots() for state in sorted(_states(str(root))))


def are_below_roots(files: Iterable[tuple[str, int, int]]) -> bool:
    """Return whether the spec files that were read are all among ``files`` of ``states``, which tell when they
    change."""
    return {path for path, *_ in files} >= {str(path) for path in READ}


def _states(inside: str) -> Iterator[tuple[str, int, int]]:
    with suppress(OSError), os.scandir(inside) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _states(entry.path)
            elif entry.name.endswith(SUFFIXES):
                state = entry.stat()
                yield entry.path, state.st_size, state.st_mtime_ns


def listing(name: str, make: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the rows that ``make`` gives, kept in the user's cache as long as no spec file below the roots changes.

    Rows with a ``problem`` are made anew each time, and so are all rows when a spec names files outside the roots.
    """

    def complete(rows: list[dict[str, Any]]) -> bool:
        return not any(row.get("problem") for row in rows) and are_below_roots(states())

    rows: list[dict[str, Any]] = usercache.remembered(name, every_file, make, complete)
    return rows


def find(reference: str, beside: Path | None = None) -> Path | None:
    """The file that ``reference`` ('memories/ddr3-1600', './mine') means, seen from ``beside``; or None."""
    if reference.startswith(("./", "../")) and beside is not None:
        return _file(beside / reference)
    if Path(reference).is_absolute():
        return _file(Path(reference))
    return next((path for root in roots() if (path := _file(root / reference)) is not None), None)


def no_file(reference: str) -> str:
    """Return the words for a reference that leads to no spec file."""
    if is_folder(Path(reference)):
        return f"{brief(reference)} is a directory"
    return f"no spec file {brief(reference)}"


def _file(path: Path) -> Path | None:
    """``path``, or it with a YAML suffix, when that is a file."""
    candidates = (path, *(Path(f"{path}{suffix}") for suffix in SUFFIXES))
    return next((each for each in candidates if each.suffix in SUFFIXES and is_file(each)), None)


def chips_with(number_format: str) -> str:
    """The first chips whose engines list a number format, in words; '' for none."""
    line = re.compile(rf"^\s+{re.escape(number_format)}: *\{{", re.MULTILINE)
    found = [name for name, path in names("chips").items() if line.search(path.read_text(encoding="utf-8"))]
    rest = len(found) - NAMED
    more = f" and {rest} other{'s' if rest > 1 else ''}" if rest > 0 else ""
    return ", ".join(found[:NAMED]) + more


def _also(name: str, known: Mapping[str, Path]) -> Path | None:
    """The chip that lists a name in its line ``also:``."""
    quoted = f'"{name}"'
    for path in known.values():
        lines = path.read_text(encoding="utf-8").splitlines()
        if any(line.startswith("also:") and quoted in line for line in lines):
            return path
    return None


def resolve(name: str | Path) -> Path:
    """The file of a chip: its name, another that it is called by (``also:``), or the path of a YAML file; SpecError
    with the nearest name otherwise."""
    text = str(name)
    if Path(text).suffix in SUFFIXES or os.sep in text:
        path = _file(Path(text)) or find(text)
        if path is None:
            raise SpecError(no_file(text), expected="a chip's name or the path of a YAML file")
        return path
    if (path := find(f"chips/{text}")) is not None:
        return path
    known = names("chips")
    if text not in known and (other := _also(text, known)) is not None:
        return other
    if text not in known:
        raise SpecError(_no_chip(text, known))
    return known[text]


def _no_chip(text: str, known: Mapping[str, Path]) -> Problem:
    if Path(text).suffix:
        expected = "a chip's name (see 'accelsim chips') or a spec, which is a YAML file (see docs/add-a-chip.md)"
        return Problem(f"{brief(text)} is no spec file", "", expected)
    if (chip := text.partition("?")[0]) in known:
        return Problem(f"{brief(text)}: a chip takes nothing after '?'", "", f"{chip!r}, with fields changed by --set")
    return Problem(f"no chip {brief(text)}", "", "one of " + ", ".join(known), nearest(text, known))
