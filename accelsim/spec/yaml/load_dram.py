"""DRAM presets by name: ``load_dram("ddr4-3200")``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from accelsim.errors import SpecError, brief, nearest
from accelsim.spec.dram import Dram
from accelsim.spec.yaml import where
from accelsim.spec.yaml.load import read_part


def list_drams() -> list[str]:
    """Return the names of all presets, sorted."""
    return list(where.names("dram"))


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
    begun = [name for name in known if name.startswith(text)]
    if len(begun) == 1:
        return known[begun[0]]
    if begun:
        raise SpecError(f"more than one DRAM begins with {brief(text)}", "", " or ".join(begun))
    raise SpecError(f"no DRAM {brief(text)}", "", "one of " + ", ".join(known), nearest(text, known))
