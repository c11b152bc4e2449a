"""Chips that were read before, from the user's cache: neither files nor laws are looked at again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from accelsim import usercache
from accelsim.spec.yaml import where

if TYPE_CHECKING:
    from accelsim.spec.chip import Chip

_KNOWN = usercache.Table("chips", 512)
"""Chips by ``_key``, each a pickle as text."""


def load_chip(name_or_path: str | Path, overrides: Sequence[str] = ()) -> Chip:
    """Return the chip of ``accelsim.spec.yaml.load.load_chip``, which raises SpecError with all problems at once.

    It is kept as long as no source of accelsim and no spec file below the roots changes; one that takes anything from
    elsewhere is read each time.
    """
    key = _key(str(name_or_path), overrides) if usercache.folder() else None
    if key and (kept := _KNOWN.get(key)):
        from accelsim.spec.chip import Chip

        if (chip := usercache.unpacked(kept, Chip)) is not None:
            return chip
    from accelsim.spec.yaml import load

    made = load.load_chip(name_or_path, overrides)
    if key and set(where.every_file()) >= where.READ:
        _KNOWN.put(key, usercache.packed(made))
    return made


def _key(name: str, overrides: Sequence[str]) -> str | None:
    """Return a hash of what was asked for and of all spec files."""
    files = _contents(where.states())
    return files and usercache.digest([files, name, *overrides])


@lru_cache(maxsize=4)
def _contents(states: tuple[tuple[str, int, int], ...]) -> str | None:
    """Return a hash of the contents of files, whose sizes and times say when they must be read again."""
    return usercache.key_of(Path(path) for path, *_ in states)
