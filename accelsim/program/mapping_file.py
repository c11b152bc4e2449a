"""Mappings as a file that people read and edit: what was chosen, layer by layer, and the way back."""

from __future__ import annotations

from collections.abc import Container, Sequence
from math import inf
from pathlib import Path

import yaml

from accelsim.digits import whole
from accelsim.errors import Problem, UsageError, nearest
from accelsim.files import text, write_file
from accelsim.files.reading import read_text
from accelsim.program.mapping import MOST, Mapping, Pin, ProductMapping, expected, least
from accelsim.program.program import Program
from accelsim.spec.yaml.marks import compose

MOST_FILE_B = 2**24
"""Bytes of a mapping file; one layer takes about 200."""

HEADER = """\
# Mappings of {model} on {chip} ({dtype}), one block per layer; GEMM is groups x M x N x K.
# Delete a layer, or some of its fields, and the search chooses again; keep them and they are pinned.
"""

OF_ONE_KIND = "# Its cores are of several kinds, each with mappings of its own: these are of the kind {kind}.\n"
LAYERS = "layer names, each with its fields"
"""Contents of a mapping file."""


def mapping_text(program: Program) -> str:
    """The mappings of a program as YAML, with the GEMM and what binds each as comments."""
    blocks = [HEADER.format(model=program.graph.name, chip=program.chip.name, dtype=program.dtype)]
    if len(program.chip.cores) > 1:  # each maps a step for itself, and the last is noted
        blocks.append(OF_ONE_KIND.format(kind=program.chip.kind_of(program.cores - 1)))
    for step in program.steps:
        if step.mapping is None or step.gemm is None:
            continue
        gemm = step.gemm
        fields = step.mapping.written(program.chip)
        body = yaml.safe_dump(fields, sort_keys=False, default_flow_style=None, width=inf)
        name = yaml.safe_dump(step.name, width=inf).removesuffix("...\n").strip()
        title = f"# {step.label}, {gemm.groups} x {gemm.M} x {gemm.N} x {gemm.K}"
        title += f", bound by {step.binds}" if step.binds else ""
        blocks.append(f"{title}\n{name}:\n" + "".join(f"  {line}\n" for line in body.splitlines()))
    return "\n".join(blocks)


def save_mappings(program: Program, path: Path) -> None:
    """Write the mappings of a program. Raises UsageError when that is not possible."""
    write_file(path, text(mapping_text(program)))


def load_mappings(path: Path, kinds: Sequence[type[ProductMapping]] = (Mapping,)) -> dict[str, dict[str, Pin | None]]:
    """Layer name -> the fields that are pinned; a field is one of any of ``kinds``.

    Raises UsageError with file and line of all that is wrong.
    """
    owners = {name: kind for kind in reversed(kinds) for name in kind.types()}
    try:
        tree = compose(read_text(path, MOST_FILE_B))
    except OSError as error:
        raise UsageError(f"cannot read the mapping: {error.strerror}", str(path)) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise UsageError(f"not YAML: {' '.join(str(error).split())}", str(path)) from None
    except ValueError as error:
        raise UsageError(f"cannot read the mapping: {error}", str(path)) from None
    problems: list[Problem] = []
    pinned: dict[str, dict[str, Pin | None]] = {}
    for layer, block in _pairs(path, tree, problems) if tree else ():
        name = _key(path, layer, pinned, problems)
        if isinstance(block, yaml.MappingNode):
            fields: dict[str, Pin | None] = {}
            for key, value in block.value:
                field_name = _key(path, key, fields, problems)
                fields[field_name] = _field(path, owners, field_name, key, value, problems)
            pinned[name] = fields
        else:
            problems.append(Problem("a layer without fields", _at(path, block), ", ".join(owners)))
    if not pinned and not problems:
        problems.append(Problem("no layer in it", str(path), LAYERS))
    UsageError.raise_for(problems)
    return pinned


def _key(path: Path, node: yaml.Node, before: Container[str], problems: list[Problem]) -> str:
    """The text of a key; a problem where it is none, or stands there twice."""
    if not isinstance(node, yaml.ScalarNode):
        problems.append(Problem("a list or block as a name", _at(path, node), "a text"))
        return ""
    if node.value in before:
        problems.append(Problem(f"{node.value!r} is there twice", _at(path, node), "each name once"))
    return str(node.value)


def _at(path: Path, node: yaml.Node) -> str:
    return f"{path}:{node.start_mark.line + 1}:{node.start_mark.column + 1}"


def _pairs(path: Path, tree: yaml.Node, problems: list[Problem]) -> list[tuple[yaml.Node, yaml.Node]]:
    if isinstance(tree, yaml.MappingNode):
        return list(tree.value)
    problems.append(Problem("not a mapping file", _at(path, tree), LAYERS))
    return []


def _field(
    path: Path,
    owners: dict[str, type[ProductMapping]],
    name: str,
    key: yaml.Node,
    value: yaml.Node,
    problems: list[Problem],
) -> Pin | None:
    if name not in owners:
        if name:
            what = f"unknown field {name!r}"
            problems.append(Problem(what, _at(path, key), ", ".join(owners), nearest(name, owners)))
        return None
    text = value.value if isinstance(value, yaml.ScalarNode) else None
    result = None if text is None else _read(owners[name], name, text)
    if result is None:
        shown = "a list or block" if text is None else repr(text)
        problems.append(Problem(f"{name} is {shown}", _at(path, value), expected(owners[name], name)))
    return result


def _read(kind: type[ProductMapping], name: str, text: str) -> Pin | None:
    """The value of a field, None when the text is not one."""
    if name in kind.words:
        return text if text in kind.words[name] else None
    if kind.types()[name] is bool:
        return {"true": True, "false": False}.get(text)
    number = whole(text)
    return number if number is not None and least(kind, name) <= number <= MOST else None
