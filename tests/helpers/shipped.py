"""Chips that come with accelsim are read once in a process: that takes 20 ms, and tests ask for one thousands of times.

What a test changes is another chip: models of the spec are frozen.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache, wraps
from pathlib import Path

from accelsim.spec.chip import Chip
from accelsim.spec.yaml import load
from accelsim.spec.yaml.where import SUFFIXES, roots, shipped

Summary = load.ChipSummary
Load = Callable[[str | Path, Sequence[str]], Chip]


def remembered(loader: Load) -> Load:
    """The loader, with a memory for names of shipped specs; where a file may be read, it is read each time."""
    kept = cache(loader)

    @wraps(loader)
    def load_chip(name_or_path: str | Path, overrides: Sequence[str] = ()) -> Chip:
        texts = [str(name_or_path), *overrides]
        if roots() != [shipped()] or any(os.sep in text or text.endswith(SUFFIXES) for text in texts):
            return loader(name_or_path, overrides)
        return kept(texts[0], tuple(overrides))

    return load_chip


def listed(lister: Callable[[], list[Summary]]) -> Callable[[], list[Summary]]:
    """The list of shipped chips, made once; where other folders may be read, it is made each time."""
    kept = cache(lister)

    @wraps(lister)
    def list_chips() -> list[Summary]:
        return list(kept()) if roots() == [shipped()] else lister()

    return list_chips


def remember() -> None:
    """For whoever imports ``load_chip`` and ``list_chips`` from now on."""
    load.load_chip = remembered(load.load_chip)
    load.list_chips = listed(load.list_chips)
