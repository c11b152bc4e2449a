"""Results kept in the user's cache folder under a hash of everything that they depend on.

A cache only saves time. What cannot be read, written or trusted is computed again and nothing is reported.
"""

from __future__ import annotations

import atexit
import base64
import hashlib
import json
import os
import pickle
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, TypeVar

from accelsim.files import text
from accelsim.files.writing import put

T = TypeVar("T")
MOST_B = 2**24
"""Bytes of a file of the cache that are read at most."""
SWITCH = "ACCELSIM_CACHE"
"""Environment variable: with ``off`` nothing is read from the cache, nor written to it."""


def folder() -> Path | None:
    """Return ``$XDG_CACHE_HOME/accelsim`` (``~/.cache/accelsim``); None where the user has no such place."""
    if os.environ.get(SWITCH) == "off":
        return None
    return _folder(os.environ.get("XDG_CACHE_HOME", ""), os.environ.get("HOME"))


@lru_cache(maxsize=1)
def _folder(cache_home: str, _home: str | None) -> Path | None:
    home = Path(cache_home)
    try:
        return (home if home.is_absolute() else Path.home() / ".cache") / "accelsim"
    except RuntimeError:  # the user has no home
        return None


def remembered(
    name: str, files: Callable[[], Iterable[Path]], make: Callable[[], Any], complete: Callable[[Any], bool] = bool
) -> Any:
    """Return the JSON value that ``make`` gives, computed once for the same sources and the same contents of ``files``.

    ``name``: the file of the cache. ``complete``: whether a result may be kept. The result is equal to what ``make``
    gives after it was written to JSON and read again, whether it comes from the cache or not.
    """
    place = folder()
    key = key_of(files()) if place else None
    kept = _read(place / f"{name}.json", key) if place and key else None
    if kept is not None:
        return kept
    made = json.loads(json.dumps(make()))
    if place and key and complete(made) and key == key_of(files()):
        _write(place / f"{name}.json", json.dumps({"key": key, "result": made}))
    return made


class Table:
    """JSON values by key, kept in one file of the cache until a source of accelsim changes.

    ``name``: the file. ``most``: values that it holds; the oldest go first. The file is read when the first value is
    asked for, and written when the process ends.
    """

    def __init__(self, name: str, most: int) -> None:
        self._name, self._most = name, most
        self._new: dict[str, object] = {}

    def get(self, key: str) -> object:
        """Return the value of ``key``, None where there is none."""
        return self._new.get(key, self._kept.get(key))

    def put(self, key: str, value: object) -> None:
        """Keep a value under ``key`` from now on, for later processes too."""
        if not self._new:
            atexit.register(self.save)
        self._new.pop(key, None)
        self._new[key] = value
        if len(self._new) > self._most:
            del self._new[next(iter(self._new))]

    def save(self) -> None:
        """Write all values of the file and of this process, as far as there is room."""
        place, key = folder(), key_of(())
        if place and key and self._new:
            path = place / f"{self._name}.json"
            every = {**self._read(path, key), **self._new}
            last = dict(list(every.items())[-self._most :])
            _write(path, json.dumps({"key": key, "result": last}, separators=(",", ":")))

    @cached_property
    def _kept(self) -> dict[str, object]:
        place, key = folder(), key_of(())
        return self._read(place / f"{self._name}.json", key) if place and key else {}

    @staticmethod
    def _read(path: Path, key: str) -> dict[str, object]:
        found = _read(path, key)
        return found if isinstance(found, dict) else {}


def packed(value: object) -> str:
    """Return a pickle as text, for a ``Table``."""
    return base64.b64encode(zlib.compress(pickle.dumps(value), 1)).decode()


def unpacked(kept: object, kind: type[T]) -> T | None:
    """Return the ``kind`` in a text of ``packed``, None where there is none in it."""
    try:
        value = pickle.loads(zlib.decompress(base64.b64decode(str(kept), validate=True))) if kept else None
    except Exception:  # whatever a damaged pickle raises
        return None
    return value if isinstance(value, kind) else None


def key_of(files: Iterable[Path]) -> str | None:
    """Return a hash of the sources of accelsim, of the interpreter and of the names and contents of ``files``.

    None where the sources are no files, as in an archive.
    """
    try:
        found = hashlib.sha256(f"{sys.version} {_sources()}".encode())
    except OSError:
        return None
    for path in files:
        with suppress(OSError):
            content = path.read_bytes()
            found.update(f"\0{path}\0{len(content)}\0".encode(errors="surrogateescape") + content)
    return found.hexdigest()


def digest(texts: Iterable[str]) -> str:
    """Return a hash of texts, which differs where any of them does."""
    return hashlib.sha256("".join(f"{len(text)} {text}" for text in texts).encode(errors="surrogateescape")).hexdigest()


@cache
def _sources() -> str:
    """Return a hash of name, size and time of every source file of the package."""
    found = hashlib.sha256()
    for path, state in sorted(_modules(Path(__file__).parent)):
        found.update(f"{path}\0{state.st_size}\0{state.st_mtime_ns}\n".encode(errors="surrogateescape"))
    return found.hexdigest()


def _modules(inside: str | Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield path and state of each Python file below a folder."""
    with os.scandir(inside) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _modules(entry.path)
            elif entry.name.endswith(".py"):
                yield entry.path, entry.stat()


def _read(path: Path, key: str) -> object:
    """Return the result in a file of the cache; None where it has another key, or is not what we have written.

    Results may be pickles, so a file that others own or may write is not read. Nor is a pipe, which could block.
    """
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode) or state.st_mode & stat.S_IWOTH:
                return None
            if state.st_uid not in (getattr(os, "geteuid", int)(), 0):
                return None
            kept = json.loads(file.read(MOST_B))
        return kept["result"] if kept["key"] == key else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _without_waiting(name: str, flags: int) -> int:
    """Open a file; a pipe without a writer does not block."""
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))


def _write(path: Path, content: str) -> None:
    """Write a file of the cache, or leave the cache as it is."""
    with suppress(OSError):
        put(path, text(content))
