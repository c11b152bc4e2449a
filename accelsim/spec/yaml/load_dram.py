"""DRAM presets by name: ``load_dram("ddr4-3200")``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from accelsim.errors import Problem, SpecError, brief, nearest
from accelsim.spec.dram import Dram
from accelsim.spec.yaml import where
from accelsim.spec.yaml.load import read_part

ANCHORS = "anchors/"
"""Presets whose names begin so are the configurations of other simulators' runs, for comparison."""


def list_drams(anchors: bool = False) -> list[str]:
    """Names of all presets, sorted; those of ``ANCHORS`` only when asked for."""
    return [name for name in where.names("dram") if anchors or not name.startswith(ANCHORS)]


def load_dram(name_or_path: str | Path, overrides: Sequence[str] = ()) -> Dram:
    """The DRAM of a name, the beginning of one ('hbm3'), or a YAML file, with 'path.to.field=value' overrides.

    Raises SpecError with all problems at once, each with file:line:column.
    """
    made, problems = read_part(resolve_dram(name_or_path), Dram, overrides)
    if problems or made is None:
        raise SpecError(problems)
    return made


def resolve_dram(name_or_path: str | Path) -> Path:
    """The file of a DRAM; SpecError with the nearest name, or with all that begin so, otherwise."""
    text = str(name_or_path)
    known = where.names("dram")
    if text in known:
        return known[text]
    if Path(text).suffix in where.SUFFIXES or text.startswith(("." + os.sep, ".." + os.sep, os.sep)):
        return where.resolve(text)
    names = list_drams(anchors=text.startswith(ANCHORS))
    begun = [name for name in names if name.startswith(text)]
    if len(begun) == 1:
        return known[begun[0]]
    if begun:
        raise SpecError(Problem(f"more than one DRAM begins with {brief(text)}", "", " or ".join(begun)))
    near = nearest(text, list_drams(anchors=True))
    raise SpecError(Problem(f"no DRAM {brief(text)}", "", "one of " + ", ".join(names), near))
