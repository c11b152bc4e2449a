"""Spec files that are no chips, one at a time: energy tables, memories, links, ..."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from accelsim.errors import Problem, SpecError, UsageError, brief, nearest
from accelsim.files.reading import is_file
from accelsim.spec.base import Model
from accelsim.spec.chip import Chip
from accelsim.spec.derived_energy import Arithmetic
from accelsim.spec.dram import Dram
from accelsim.spec.energy import EnergyTable
from accelsim.spec.laws.chip import energies_are_there
from accelsim.spec.link import Link
from accelsim.spec.memory import Memory
from accelsim.spec.yaml import where
from accelsim.spec.yaml.load import read_part, refuse_other_kind
from accelsim.spec.yaml.tree import dotted

M = TypeVar("M", bound=Model)


def load_energy(name_or_path: str | Path) -> EnergyTable:
    """The energy table of a name ('horowitz-45nm') or YAML file. SpecError with all problems at once."""
    return load_part(name_or_path, "energy", EnergyTable)


def load_arithmetic(name_or_path: str | Path) -> Arithmetic:
    """Return what a source states of arithmetic, by name ('horowitz-45nm') or YAML file. SpecError, all problems at
    once."""
    return load_part(name_or_path, "arithmetic", Arithmetic)


def load_memory(name_or_path: str | Path) -> Memory:
    """The memory of a name ('hbm2') or YAML file. SpecError with all problems at once."""
    return load_part(name_or_path, "memories", Memory)


def memory_of(dram: Dram, reference: str = "") -> Memory:
    """The memory that is nothing but a DRAM, as a chip gets it from ``memory: dram/NAME``; the DRAM breaks no law."""
    return Memory(dram=dram, source=f"every figure follows from {reference or dram.title}")


def memory_names() -> list[str]:
    """Return every memory that a chip may name, without reading a file: 'memories/NAME' as stated, 'dram/NAME' as it
    follows from a DRAM."""
    return [*(f"memories/{name}" for name in where.names("memories")), *(f"dram/{name}" for name in list_drams())]


def memory_named(name: str) -> Memory:
    """Load the memory ``name``, one of ``memory_names``: 'memories/NAME' or 'dram/NAME'."""
    folder, _, rest = name.partition("/")
    return load_memory(rest) if folder == "memories" else memory_of(load_dram(rest), name)


def load_link(name_or_path: str | Path) -> Link:
    """The link of a name ('pcie-gen3-x16') or YAML file. SpecError with all problems at once."""
    return load_part(name_or_path, "links", Link)


def load_part(name_or_path: str | Path, folder: str, model: type[M], overrides: Sequence[str] = ()) -> M:
    """A spec of ``folder`` (a key of ``accelsim.spec.yaml.load.KINDS``) with overrides; the name may begin with it.

    Raises SpecError with all problems of the file at once, or when there is no such file.
    """
    made, problems = read_part(file := part_file(name_or_path, folder), model, overrides)
    if problems or made is None:
        refuse_other_kind(file, model)
        raise SpecError(problems)
    return made


def part_file(name_or_path: str | Path, folder: str) -> Path:
    """The file of ``load_part``; SpecError with the nearest name when there is none."""
    text = str(name_or_path)
    known = where.names(folder)
    name = text.removeprefix(f"{folder}/")
    if name in known:
        return known[name]
    if Path(text).suffix in where.SUFFIXES and is_file(Path(text)):
        return Path(text)
    expected = f"the path of a YAML file, or one of {', '.join(known)}"
    raise SpecError(f"no file {brief(text)} in {folder}", "", expected, nearest(name, known))


def energy_override(energy: str | Path | EnergyTable | None) -> list[str]:
    """Return what gives a chip's file the named energy table, as ``load_chip`` takes it; [] where no file is named.

    Overrides of single values go behind it. Raises SpecError when there is no such file.
    """
    if energy is None or isinstance(energy, EnergyTable):
        return []
    return [f"energy={json.dumps(str(part_file(energy, 'energy').resolve()))}"]


def with_table(chip: Chip, energy: str | Path | EnergyTable | None) -> Chip:
    """``chip`` with that energy table; UsageError when the table lacks a format of the chip."""
    if energy is None:
        return chip
    table = energy if isinstance(energy, EnergyTable) else load_energy(energy)
    changed = chip.model_copy(update={"energy": table})
    UsageError.raise_for([Problem(found.what, dotted(found.path)) for found in energies_are_there(changed)])
    return changed


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
