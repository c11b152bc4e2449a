"""Spec file -> chip, with every error of it at once; what chips there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

import yaml

from accelsim.errors import Problem, SpecError
from accelsim.spec import laws, where
from accelsim.spec import overrides as set_by_user
from accelsim.spec.marks import BROKEN, PathTo, Tree, about, dotted, read
from accelsim.spec.models import Chip, EnergyTable, Link, Memory, Model, Processor
from accelsim.spec.validate import validate
from accelsim.spec.where import resolve

KINDS: dict[str, type[Model]] = {
    "chips": Chip,
    "memories": Memory,
    "links": Link,
    "energy": EnergyTable,
    "processors": Processor,
}
"""Kinds of spec files: the folder that they are in and what they hold."""


@dataclass(frozen=True)
class ChipSummary:
    """One chip of the list; ``peak``: stated op/s by format; ``problem``: why it cannot be loaded, or ''."""

    name: str
    title: str
    kind: str
    path: Path
    peak: dict[str, float] = field(default_factory=dict)
    problem: str = ""


def load_chip(name_or_path: str | Path, overrides: Sequence[str] = ()) -> Chip:
    """The chip of a name ('tpu-v1') or YAML file, with ``path.to.field=value`` overrides applied.

    Overrides reach into what the chip takes from other files: 'memories.ddr3.memory.bandwidth=68 GB/s'.
    Raises SpecError with all problems at once, each with file:line:column.
    """
    path = resolve(name_or_path)
    tree = read(path, Chip)
    if tree.value == BROKEN:
        raise SpecError(tree.problems)
    touched = set_by_user.apply(tree, Chip, overrides)
    chip, problems, claims = _chip(tree, touched)
    if claims and not problems:
        for claim in claims:
            _delete(tree.value, claim)
        chip, problems, _ = _chip(tree, touched)
    if problems:
        raise SpecError(problems)
    return chip


def _chip(tree: Tree, touched: list[PathTo]) -> tuple[Chip, list[Problem], list[PathTo]]:
    """The chip, its problems, and the claims of its file that overriding ``touched`` has made untrue."""
    chip, problems, complete = validate(tree, Chip)
    claims: list[PathTo] = []
    for finding in laws.broken(chip, complete and not tree.problems):
        if finding.claim and touched and finding.path not in touched:
            claims.append(finding.path)
            continue
        text = about(finding.path, finding.what)
        problems.append(Problem(text, str(tree.at(finding.path)), finding.expected, finding.near))
    return chip, _sorted([*tree.problems, *problems, *_sources(tree)]), claims


def _delete(value: Any, path: PathTo) -> None:
    for part in path[:-1]:
        value = value[part]
    del value[path[-1]]


def _sources(tree: Tree) -> list[Problem]:
    """Every file says where its figures come from and when they were read."""
    problems = []
    for head in tree.heads:
        block = reduce(lambda inner, part: inner[part], head, tree.value)
        for key in ("source", "as_of"):
            if isinstance(block, dict) and block.get(key) in (None, ""):
                name = dotted((*head, key))
                problems.append(
                    Problem(f"{name}: missing", str(tree.at(head)), "where the figures come from, and when")
                )
    return problems


def _sorted(problems: list[Problem]) -> list[Problem]:
    """Each once, by file, line and column."""
    return sorted(dict.fromkeys(problems), key=lambda problem: _place(problem.where))


def _place(where_text: str) -> tuple[str, int, int]:
    parts = where_text.rsplit(":", 2)
    if len(parts) == 3 and parts[1].isdigit() and parts[2].isdigit():
        return parts[0], int(parts[1]), int(parts[2])
    return where_text, 0, 0


def check(path: str | Path) -> list[Problem]:
    """All that is wrong with a spec file of any kind, [] when nothing is; SpecError when there is no file.

    The kind is that of ``kind_of``.
    """
    file = resolve(path)
    kind = kind_of(file)
    tree = read(file, KINDS[kind])
    if tree.value == BROKEN:
        return tree.problems
    if kind == "chips":
        return _chip(tree, [])[1]
    return _sorted([*tree.problems, *validate(tree, KINDS[kind])[1], *_sources(tree)])


def kind_of(file: Path) -> str:
    """Which of ``KINDS`` a spec file is.

    By the folder below hwspecs that it is in, else by the name of its own folder, else the one whose keys
    fit best.
    """
    path = file.resolve()
    folders = [root.resolve() / kind for root in where.roots() for kind in KINDS]
    inside = next((folder.name for folder in folders if path.is_relative_to(folder)), path.parent.name)
    if inside in KINDS:
        return inside
    tree = read(file, Model)
    keys = set(tree.value) if isinstance(tree.value, dict) else set()
    return max(KINDS, key=lambda kind: len(keys & set(KINDS[kind].model_fields)))


def list_chips() -> list[ChipSummary]:
    """Every chip that can be loaded by name, sorted; a broken file is listed with its problem."""
    return [_summary(name, path) for name, path in where.names("chips").items()]


def _summary(name: str, path: Path) -> ChipSummary:
    try:
        chip = load_chip(path)
    except SpecError as error:
        return ChipSummary(name, "", "", path, problem=str(error))
    return ChipSummary(name, chip.title, chip.kind, path, dict(chip.peak))


def show(chip: Chip) -> str:
    """The chip as one resolved YAML file with units: every default and composed file written out.

    ``load_chip`` on it gives the same chip.
    """
    content = chip.model_dump(mode="json", exclude_none=True)
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=110)
