"""Spec file -> chip, with every error of it at once; what chips there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import yaml

from accelsim.digits import whole
from accelsim.errors import Problem, SpecError
from accelsim.spec.base import Model
from accelsim.spec.chip import Chip
from accelsim.spec.dram import Dram
from accelsim.spec.energy import EnergyTable
from accelsim.spec.engine import EngineSpec
from accelsim.spec.laws import chip as laws
from accelsim.spec.laws import dram as dram_laws
from accelsim.spec.laws import link as link_laws
from accelsim.spec.laws.finding import Finding
from accelsim.spec.link import Link
from accelsim.spec.memory import Memory
from accelsim.spec.multiplying import sharing
from accelsim.spec.silicon import SIZED, resized
from accelsim.spec.status import mark_set_by_hand
from accelsim.spec.yaml import overrides as set_by_user
from accelsim.spec.yaml import where
from accelsim.spec.yaml.kinds import KINDS as KINDS
from accelsim.spec.yaml.kinds import ONE, kind_by_keys, kind_by_place, kind_of_model
from accelsim.spec.yaml.marks import of_another_kind, parse, read
from accelsim.spec.yaml.overrides import find
from accelsim.spec.yaml.shape import annotation_of, families_of, item
from accelsim.spec.yaml.tree import BROKEN, PathTo, Tree, about
from accelsim.spec.yaml.validate import validate
from accelsim.spec.yaml.where import resolve

M = TypeVar("M", bound=Model)


@dataclass(frozen=True)
class ChipSummary:
    """One chip of the list; ``peak``: stated op/s by format; ``memory_B``: capacity of its own off-chip memories;
    ``problem``: why it cannot be loaded, or ''."""

    name: str
    title: str
    kind: str
    path: Path
    peak: dict[str, float] = field(default_factory=dict)
    problem: str = ""
    year: int | None = None
    memory_B: int = 0


def load_chip(name_or_path: str | Path, overrides: Sequence[str] = ()) -> Chip:
    """The chip of a name ('tpu-v1') or YAML file, with ``path.to.field=value`` overrides applied.

    Overrides reach into what the chip takes from other files: 'memories.ddr3.memory.bandwidth=68 GB/s'.
    Raises SpecError with all problems at once, each with file:line:column.
    """
    file = resolve(name_or_path)
    try:
        return _with(_tree(file), overrides)
    except SpecError:
        refuse_other_kind(file, Chip)
        raise


TREES: dict[tuple[Path, tuple[tuple[str, int, int], ...]], Tree] = {}
"""Trees of the last chips that were read without a problem, by file and by the states of all spec files."""
MOST_TREES = 8


def _tree(file: Path) -> Tree:
    """Return the tree of a chip's file, read once as long as no spec file changes."""
    key = file, where.states()
    if key not in TREES:
        tree = read(file, Chip)
        if tree.problems or not where.are_below_roots(key[1]):
            return tree
        if len(TREES) >= MOST_TREES:
            del TREES[next(iter(TREES))]
        TREES[key] = tree
    return TREES[key].copy()


def refuse_other_kind(file: Path, model: type[Model]) -> None:
    """Raise SpecError where files of ``model`` are of another kind: one problem in place of all that the file lacks."""
    if found := of_another_kind(file, model):
        told = f"{ONE[kind_of_model(model)]}; 'accelsim spec show' shows files of any kind"
        raise SpecError(f"is {ONE[found]}", str(file), told)


def override(chip: Chip, overrides: Sequence[str]) -> Chip:
    """The chip with ``path.to.field=value`` overrides, as ``load_chip`` applies them to its file. Raises SpecError."""
    return _with(parse(_text(resolved(chip)), Path(f"{chip.name}.yaml"), Chip), overrides, lambda file: chip)


def _with(tree: Tree, overrides: Sequence[str], stating: Callable[[Path], Chip] = load_chip) -> Chip:
    """The chip of a tree; ``stating``: that of the file which states its power or die."""
    if tree.value == BROKEN:
        raise SpecError(tree.problems)
    touched = set_by_user.apply(tree, Chip, overrides)
    mark_set_by_hand(tree.value, touched)
    chip, problems, claims = _chip(tree, touched)
    if claims and not problems:
        for claim in dict.fromkeys(claims):
            _keep_figures(tree, chip, claim)
            _delete(tree, claim)
        chip, problems, _ = _chip(tree, touched)
    SpecError.raise_for(problems)
    for claim in (("power", "idle"), ("die_area",)):
        stated_for = _stated_for(tree, claim)
        chip = chip if stated_for is None else resized(chip, stating(stated_for), claim[0])
    return chip


def _stated_for(tree: Tree, claim: PathTo) -> Path | None:
    """The file that states the chip's power or die, where sizes that it rests on were changed elsewhere; or None.

    Sizes that the file itself changes or takes over are its own; what an override states holds for what the user has
    made.
    """
    file = tree.keys[claim].file if claim in tree.keys else ""
    sizes = {mark.file for path, mark in tree.keys.items() if path[-1] in SIZED and path[0] in ("cores", "memories")}
    if file == tree.at(()).file:
        sizes = {other for other in sizes if not other.endswith(where.SUFFIXES)}
    return Path(file) if file.endswith(where.SUFFIXES) and sizes - {file} else None


def _chip(tree: Tree, touched: list[PathTo]) -> tuple[Chip, list[Problem], list[PathTo]]:
    """The chip, its problems, and the claims of its file that overriding ``touched`` has made untrue."""
    put(tree, Chip)
    chip, problems, complete = validate(tree, Chip)
    claims: list[PathTo] = []
    meant = {problem.nearest for problem in problems}
    for finding in laws.broken(chip, complete and not tree.problems):
        if finding.path and finding.path[-1] in meant:
            continue
        if _yields(tree, finding, touched):
            claims.append(finding.path)
            continue
        text = about(finding.path, finding.what)
        problems.append(Problem(text, str(tree.at(finding.path)), finding.expected, finding.near))
    return chip, sorted_problems([*tree.problems, *problems, *tree.unsourced()]), claims


def _yields(tree: Tree, finding: Finding, touched: list[PathTo]) -> bool:
    """Return whether a finding is a claim that goes, because its user has changed what it rests on (see
    ``Finding``)."""
    if not finding.claim or finding.path in touched:
        return False
    around = finding.path[:-1]
    stated = tree.at(finding.path, key=True).file
    files = {tree.keys[path].file for key in finding.beside if (path := (*around, key)) in tree.keys}
    return bool(touched) or (stated != tree.at(around).file and files != {stated})


def _keep_figures(tree: Tree, model: Model, claim: PathTo) -> None:
    """Before the DRAM of a memory goes, write into the tree what followed from it."""
    around = reduce(lambda inner, part: inner[part], claim[:-1], tree.value)
    block: Any = model
    for part in claim[:-1]:
        block = getattr(block, str(part)) if isinstance(block, Model) else block[part]
    if isinstance(block, Memory) and claim[-1] == "dram":
        content = block.model_dump(mode="json", exclude_none=True, exclude={"dram"})
        around.update({name: value for name, value in content.items() if name not in around})


def _delete(tree: Tree, path: PathTo) -> None:
    value = tree.value
    for part in path[:-1]:
        value = value[part]
    del value[path[-1]]
    tree.forget(path)


def sorted_problems(problems: list[Problem]) -> list[Problem]:
    """Return each problem once, by file, line and column."""
    return sorted(dict.fromkeys(problems), key=lambda problem: _place(problem.where))


def _place(where_text: str) -> tuple[str, int, int]:
    parts = where_text.rsplit(":", 2)
    if len(parts) == 3:
        line, column = whole(parts[1]), whole(parts[2])
        if line is not None and column is not None:
            return parts[0], line, column
    return where_text, 0, 0


def check(path: str | Path) -> list[Problem]:
    """All that is wrong with a spec file of any kind, [] when nothing is; SpecError when there is no file.

    The kind is that of ``kind_of``.
    """
    file = file_of(path)
    kind = kind_of(file)
    if kind == "chips":
        tree = read(file, Chip)
        return tree.problems if tree.value == BROKEN else _chip(tree, [])[1]
    return read_part(file, KINDS[kind])[1]


def file_of(path: str | Path) -> Path:
    """The file of a chip or a cluster by name, or of anything by its path. SpecError with the nearest name."""
    cluster = where.names("clusters").get(str(path))
    return resolve(path) if cluster is None else cluster


def read_part(file: Path, model: type[M], overrides: Sequence[str] = ()) -> tuple[M | None, list[Problem]]:
    """A spec file that is no chip and its problems; with problems the model may lack fields, or be None."""
    tree = read(file, model)
    if tree.value == BROKEN:
        return None, tree.problems
    touched = set_by_user.apply(tree, model, overrides)
    made, problems, complete = validate(tree, model)
    findings = _broken(made, complete and not tree.problems)
    claims = [each for each in findings if _yields(tree, each, touched)]
    findings = [each for each in findings if each not in claims]
    if claims and not problems and not findings:
        for path in dict.fromkeys(each.path for each in claims):
            _keep_figures(tree, made, path)
            _delete(tree, path)
        made = validate(tree, model)[0]
    meant = {problem.nearest for problem in problems}
    laws_broken = [
        Problem(about(each.path, each.what), str(tree.at(each.path)), each.expected, each.near)
        for each in findings
        if not each.path or each.path[-1] not in meant
    ]
    return made, sorted_problems(
        [*tree.problems, *problems, *laws_broken, *_strays(tree, made, complete), *tree.unsourced()]
    )


LATE = {
    "clusters": ("accelsim.spec.laws.cluster", "cluster_findings"),
    "instances": ("accelsim.spec.instance", "provider_findings"),
}
"""Kind of spec files -> module and function of its laws, imported when a file of the kind is read."""


def _broken(model: Model, complete: bool) -> list[Finding]:
    """Laws of a part alone: rates of a link that disagree, a DRAM that contradicts itself or its memory, a cluster."""
    if isinstance(model, Dram):
        return dram_laws.broken(model, complete)
    if not complete:
        return []
    if isinstance(model, Memory):
        return list(dram_laws.memory_findings(model))
    if isinstance(model, Link):
        return list(link_laws.link_findings(model))
    home = LATE.get(kind_of_model(type(model)))
    return [] if home is None else list(getattr(import_module(home[0]), home[1])(model))


def _strays(tree: Tree, model: Model, complete: bool) -> list[Problem]:
    """Rows of an energy table that are no formats, statuses that speak of nothing."""
    if not complete or not isinstance(model, EnergyTable):
        return []
    return [
        Problem(about(each.path, each.what), str(tree.at(each.path, key=True)), each.expected, each.near)
        for each in (*laws.table_findings(model), *laws.status_findings(model))
    ]


def kind_of(file: Path) -> str:
    """Return which of ``KINDS`` a spec file is.

    By the folder below hwspecs that it is in, else by the name of its own folder, else the one whose keys
    fit best.
    """
    placed = kind_by_place(file)
    if placed:
        return placed
    tree = read(file, Model)
    return kind_by_keys(set(tree.value) if isinstance(tree.value, dict) else set())


def list_chips() -> list[ChipSummary]:
    """Every chip that can be loaded by name, sorted; a broken file is listed with its problem."""
    return [_summary(name, path) for name, path in where.names("chips").items()]


def _summary(name: str, path: Path) -> ChipSummary:
    try:
        chip = load_chip(path)
    except SpecError as error:
        return ChipSummary(name, "", "", path, problem=str(error))
    memory_B = sum(int(each.memory.capacity) for each in chip.memories.values() if each.link is None)
    return ChipSummary(name, chip.title, chip.kind, path, dict(chip.peak), "", chip.year, memory_B)


def show(spec: Model) -> str:
    """The spec as one resolved YAML file with units: each default that means something, each composed file.

    Functions that are (almost) a family stand as one. Loading it gives the same.
    """
    content = resolved(spec)
    for unit, block in _engines(spec, content):
        block |= {
            table: families.shortened(getattr(unit, table))
            for table in type(unit).model_fields
            if (families := families_of(annotation_of(type(unit), table))) is not None
        }
    return _text(content)


def resolved(spec: Model) -> dict[str, object]:
    """Return the spec as plain values with units, without idle defaults; functions by name, not by family."""
    content = spec.model_dump(mode="json", exclude_none=True)
    for unit, block in _engines(spec, content):
        for idle in unit.idle_fields():
            del block[idle]
    return content


def _engines(spec: Model, content: dict[str, Any]) -> Iterator[tuple[EngineSpec, dict[str, Any]]]:
    """Each engine of a chip with its block in the chip's content; none of a cluster, which names its chips."""
    for kind, core in spec.cores.items() if isinstance(spec, Chip) else ():
        for name, unit in core.engines.items():
            yield unit, content["cores"][kind]["engines"][name]


def _text(content: dict[str, object]) -> str:
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=110)


def put(tree: Tree, model: type[object]) -> None:
    """Give each field that the calibration of a chip's ``tree`` names its value, in place of a default or of what a
    file of a part states (the memory of any board). What a file of the chip or its user states stays.

    A name of no field is left to the law that knows the constants.
    """
    values = reduce(item, ("calibration", "values"), tree.value)
    named: dict[PathTo, tuple[str, object]] = {}
    for name, text in values.items() if isinstance(values, dict) else ():
        path, _, problem = find(tree.value, model, name)
        if problem is None and path[1:]:
            named[path] = name, text
    alike = {other: each for path, each in named.items() for other in _sharing(tree, path)}
    for path, (name, text) in {**alike, **named}.items():
        _put(tree, path, name, text)


def _sharing(tree: Tree, path: PathTo) -> list[PathTo]:
    """Return the place of a constant of a format in the formats that it stands for."""
    if "formats" not in path[:-1]:
        return []
    place = path.index("formats") + 1
    blocks = reduce(item, path[:place], tree.value)
    return [
        (*path[:place], name, *path[place + 1 :])
        for name in (sharing(blocks, str(path[place])) if isinstance(blocks, dict) else ())
        if isinstance(reduce(item, path[place + 1 : -1], blocks[name]), dict)
    ]


def _put(tree: Tree, path: PathTo, name: str, text: object) -> None:
    above, block = (reduce(item, path[:end], tree.value) for end in (-2, -1))
    if block is None and isinstance(above, dict):
        block = above[path[-2]] = {}
        tree.keys[path[:-1]] = tree.values[path[:-1]] = tree.at(("calibration", "values", name))
    if isinstance(block, dict) and not _stated(tree, path):
        block[path[-1]] = text
        tree.keys[path] = tree.values[path] = tree.at(("calibration", "values", name))


def _stated(tree: Tree, path: PathTo) -> bool:
    """Return whether a file of the chip, or an override, says what stands at ``path``."""
    mark = tree.values.get(path)
    if mark is None:
        return False
    own = {key.file for at, key in tree.keys.items() if len(at) == 1}
    return mark.file in own or not mark.file.endswith(where.SUFFIXES)
