"""``path.to.field=value``: change a field of a spec without editing its file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from accelsim.errors import Problem, brief, nearest
from accelsim.spec.yaml.marks import compose, on_top, replace
from accelsim.spec.yaml.shape import annotation_at, annotation_of, chosen, families_of, is_made, item, model_of
from accelsim.spec.yaml.tree import PathTo, Tree, dotted

COUNTED = ("cores", "nodes")
"""Tables of the blocks that have tables of their own, and a number: cores of a chip, nodes of a cluster."""


def apply(tree: Tree, model: type[object], overrides: Sequence[str]) -> list[PathTo]:
    """Set each override in ``tree`` (a spec of ``model``), also inside what it took from other files.

    List items are named by their index, a new key of a table by its name. A path may start with the name of a block in
    a table (an engine, a memory) without the table: ``matrix.rows``; ``little.matrix.rows`` of one of several kinds of
    cores. ``cores`` or ``nodes`` alone is their number. Returns the paths that were set, in full; what is wrong is
    noted in the tree.
    """
    return [path for text in overrides if (path := _apply(tree, model, text)) is not None]


def _apply(tree: Tree, model: type[object], text: str) -> PathTo | None:
    name, equals, value = text.partition("=")
    where = f"override {brief(text)}"
    if not equals or not name.strip():
        tree.problems.append(Problem("not an override", where, "path.to.field=value"))
        return None
    try:
        node = compose(value, yaml.SafeLoader)
    except yaml.YAMLError as error:
        tree.problems.append(Problem(f"not valid YAML: {getattr(error, 'problem', error)}", where))
        return None
    path, annotation, problem = find(tree.value, model, name.strip(), isinstance(node, yaml.MappingNode))
    if problem is not None:
        tree.problems.append(Problem(problem[0], where, "", problem[1]))
        return None
    around = annotation_at(model, tree.value, path[:-1])
    if families_of(around) is not None:
        _set(tree.value, path[:-1], on_top(tree, path[:-1], str(path[-1]), node, around, where))
    else:
        _set(tree.value, path, replace(tree, path, node, annotation, where))
    return path


def _set(value: Any, path: PathTo, new: Any) -> None:
    for part in path[:-1]:
        value = value.setdefault(part, {}) if isinstance(value, dict) else value[part]
    if isinstance(value, list) and path[-1] == len(value):
        value.append(new)
    else:
        value[path[-1]] = new


def find(
    value: object, annotation: object, name: str, block: bool = False
) -> tuple[PathTo, object, tuple[str, str] | None]:
    """The path that ``name`` means, its declared type, and (what is wrong, nearest name) or None; ``block``: a block is
    to stand there, so ``cores`` is the table of them."""
    path: PathTo = ()
    tree, model, short = value, annotation, _short(value, annotation)
    first = (key for key in short if (_starts(name, key) if key not in COUNTED else name == key and not block))
    longest = max(first, key=len, default="")
    meant = [full + name[len(longest) :] for full in short.get(longest, ())]
    if len(meant) > 1:
        return path, annotation, (f"{name!r} may mean {' or '.join(meant)}", "")
    rest = meant[0] if meant else name
    while rest:
        annotation = chosen(annotation, value)
        known = _choices(value, annotation)
        key = next((each for each in known if _starts(rest, each)), None)
        if key is None:
            key = rest.split(".")[0]
            table = model_of(annotation) is None and isinstance(value, dict)
            if not (table and key == rest):
                near = _near(path, key, known) if path else _meant(tree, model, name, [*known, *short])
                return path, annotation, (f"no field {dotted((*path, key))!r}", near)
        annotation = annotation_of(annotation, key)
        path, rest = (*path, int(key) if isinstance(value, list) else key), rest[len(key) + 1 :]
        value = item(value, key)
        value = {} if value is None and is_made(annotation) else value
        if rest and not isinstance(value, dict | list):
            missing = "is not given in this spec" if value is None else "has no fields"
            return path, annotation, (f"{dotted(path)!r} {missing}", "")
    return path, annotation, None


def _starts(name: str, key: str) -> bool:
    return name == key or name.startswith(key + ".")


def _short(value: object, annotation: object) -> dict[str, list[str]]:
    """Return what may stand first in a path without being a field -> the paths that it may mean: names of blocks in
    tables, and of those in tables of these, alone or behind the outer name; ``cores`` and ``nodes`` for their
    number."""
    model, found = model_of(annotation), defaultdict[str, list[str]](list)
    fields = model.model_fields if model is not None and isinstance(value, dict) else ()
    for table, name, inner in _blocks(value, annotation):
        found[name].append(f"{table}.{name}")
        if table in COUNTED:
            found[table].append(f"{table}.{name}.count")
            for field, block, _ in _blocks(item(item(value, table), name), inner):
                for key in (block, f"{name}.{block}"):
                    found[key].append(f"{table}.{name}.{field}.{block}")
    return {key: paths for key, paths in found.items() if key not in fields or key in COUNTED}


def _blocks(value: object, annotation: object) -> Iterator[tuple[str, str, object]]:
    """(table, name, declared type) of each block in a table of a block."""
    model = model_of(annotation)
    for field in model.model_fields if model is not None and isinstance(value, dict) else ():
        table, declared = item(value, field), annotation_of(annotation, field)
        inner = annotation_of(declared, "")
        if isinstance(table, dict) and model_of(declared) is None and model_of(inner):
            yield from ((field, name, inner) for name in table)


def _choices(value: object, annotation: object) -> list[str]:
    """Names that may follow, the longest first (a table's keys may have dots in them)."""
    if isinstance(value, list):
        return [str(index) for index in range(len(value) + 1)]
    model = model_of(annotation)
    if model is not None:
        return list(model.model_fields)
    return sorted(value, key=lambda key: (-len(key), key)) if isinstance(value, dict) else []


def _meant(value: object, annotation: object, name: str, known: list[str]) -> str:
    """Return what a path of no field was to be: without its first part, as in older specs, or with the nearest one; or
    ''."""
    first, _, rest = name.partition(".")
    return rest if rest and find(value, annotation, rest)[2] is None else _near((), first, known)


def _near(path: PathTo, key: str, known: list[str]) -> str:
    match = "" if key.isdigit() else nearest(key, known)
    return dotted((*path, match)) if match else ""
