"""Specs that were read before, from the user's cache: neither files nor laws are read again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from accelsim import usercache
from accelsim.spec.yaml import where

if TYPE_CHECKING:
    from accelsim.spec.base import Model

KNOWN = usercache.Table("chips", 512)
"""Chips, clusters, sites and others by ``_key``, each a pickle as text."""
T = TypeVar("T")
M = TypeVar("M", bound="Model")


def kept_part(name_or_path: str | Path, folder: str, kind: type[M], overrides: Sequence[str] = ()) -> M:
    """Load a spec as ``accelsim.spec.yaml.parts.load_part``, through the cache that chips use."""

    def read() -> M:
        from accelsim.spec.yaml.parts import load_part

        return load_part(name_or_path, folder, kind, overrides)

    return kept(kind, [str(name_or_path), *overrides], read)


def kept(kind: type[T], asked: Sequence[str], read: Callable[[], T]) -> T:
    """Return the ``kind`` that ``read`` makes of what is ``asked`` for.

    It is kept as long as no source of accelsim and no spec file below the roots changes; one that takes anything from
    elsewhere is read each time.
    """
    states = where.states() if usercache.folder() else ()
    key = _key(kind, asked, states) if states else None
    if key and (found := usercache.unpacked(KNOWN.get(key), kind)) is not None:
        return found
    made = read()
    if key and where.are_below_roots(states):
        KNOWN.put(key, usercache.packed(made))
    return made


def _key(kind: type, asked: Sequence[str], states: tuple[tuple[str, int, int], ...]) -> str | None:
    """Return a hash of what was asked for and of all spec files, as they were when it was asked."""
    files = _contents(states)
    return files and usercache.digest([files, kind.__name__, *asked])


@lru_cache(maxsize=4)
def _contents(states: tuple[tuple[str, int, int], ...]) -> str | None:
    """Return a hash of the contents of files, whose sizes and times say when they must be read again."""
    return usercache.key_of(Path(path) for path, *_ in states)
