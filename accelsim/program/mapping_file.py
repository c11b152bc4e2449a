"""Mappings as a file that people read and edit: what was chosen, layer by layer, and the way back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import yaml

from accelsim.digits import whole
from accelsim.errors import Problem, UsageError, nearest
from accelsim.files import text, write_file
from accelsim.files.reading import read_text
from accelsim.program.commands import Program
from accelsim.program.mapping import ORDERS, SHARES, SPLITS, Mapping
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.nodes import compose

WORDS: dict[str, tuple[str, ...]] = {"order": ORDERS, "split": SPLITS, "share": SHARES}
"""Field -> the words that it may be."""

TYPES: dict[str, type[str] | type[bool] | type[int]] = {
    field.name: str if field.name in WORDS else bool if isinstance(field.default, bool) else int
    for field in fields(Mapping)
}

MOST = 2**31
"""No tile is larger: nor is any dimension of a tensor."""

MOST_FILE_B = 2**24
"""Bytes of a mapping file; one layer takes about 200."""

HEADER = """\
# Mappings of {model} on {chip} ({dtype}), one block per layer; GEMM is groups x M x N x K.
# Delete a layer, or some of its fields, and the search chooses again; keep them and they are pinned.
"""

LAYERS = "layer names, each with its fields"
"""What a mapping file holds."""


def mapping_text(program: Program) -> str:
    """The mappings of a program as YAML, with the GEMM and what binds each as comments."""
    blocks = [HEADER.format(model=program.graph.name, chip=program.chip.name, dtype=program.dtype)]
    for step in program.steps:
        if step.mapping is None or step.gemm is None:
            continue
        gemm = step.gemm
        body = yaml.safe_dump(
            _written(step.mapping, program.chip), sort_keys=False, default_flow_style=None, width=10_000
        )
        name = yaml.safe_dump(step.name, width=10_000).removesuffix("...\n").strip()
        title = f"# {step.label}, {gemm.groups} x {gemm.M} x {gemm.N} x {gemm.K}, bound by {step.binds}"
        blocks.append(f"{title}\n{name}:\n" + "".join(f"  {line}\n" for line in body.splitlines()))
    return "\n".join(blocks)


def _written(mapping: Mapping, chip: Chip) -> dict[str, Any]:
    """The fields of a mapping, without what a chip with one array or one core has no choice of."""
    found = asdict(mapping)
    if chip.cores == 1:
        del found["share"]
    if chip.matrix is None or chip.matrix.count == 1:
        del found["split"]
    return found


def save_mappings(program: Program, path: Path) -> None:
    """Write the mappings of a program. Raises UsageError when that is not possible."""
    write_file(path, text(mapping_text(program)))


def load_mappings(path: Path) -> dict[str, dict[str, Any]]:
    """Layer name -> the fields that are pinned. Raises UsageError with file and line of all that is wrong."""
    try:
        tree = compose(read_text(path, MOST_FILE_B))
    except OSError as error:
        raise UsageError(Problem(f"cannot read the mapping: {error.strerror}", str(path))) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise UsageError(Problem(f"not YAML: {' '.join(str(error).split())}", str(path))) from None
    except ValueError as error:
        raise UsageError(Problem(f"cannot read the mapping: {error}", str(path))) from None
    problems: list[Problem] = []
    pinned: dict[str, dict[str, Any]] = {}
    for layer, block in _pairs(path, tree, problems) if tree else ():
        name = _key(path, layer, pinned, problems)
        if isinstance(block, yaml.MappingNode):
            fields: dict[str, Any] = {}
            for key, value in block.value:
                field_name = _key(path, key, fields, problems)
                fields[field_name] = _field(path, field_name, key, value, problems)
            pinned[name] = fields
        else:
            problems.append(Problem("a layer without fields", _at(path, block), ", ".join(TYPES)))
    if not pinned and not problems:
        problems.append(Problem("no layer in it", str(path), LAYERS))
    if problems:
        raise UsageError(problems)
    return pinned


def _key(path: Path, node: yaml.Node, before: dict[str, Any], problems: list[Problem]) -> str:
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


def _field(path: Path, name: str, key: yaml.Node, value: yaml.Node, problems: list[Problem]) -> Any:
    if name not in TYPES:
        if name:
            what = f"unknown field {name!r}"
            problems.append(Problem(what, _at(path, key), ", ".join(TYPES), nearest(name, TYPES)))
        return None
    text = value.value if isinstance(value, yaml.ScalarNode) else None
    result = None if text is None else _read(name, text)
    if result is None:
        whole_number = f"a whole number from 1 to {MOST:,}"
        expected = {str: ", ".join(WORDS.get(name, ())), bool: "true or false", int: whole_number}[
            TYPES[name]
        ]
        shown = "a list or block" if text is None else repr(text)
        problems.append(Problem(f"{name} is {shown}", _at(path, value), expected))
    return result


def _read(name: str, text: str) -> Any:
    """The value of a field, None when the text is not one."""
    if name in WORDS:
        return text if text in WORDS[name] else None
    return READERS[TYPES[name]](text)


def _positive(text: str) -> int | None:
    number = whole(text)
    return number if number and number <= MOST else None


READERS: dict[type, Callable[[str], Any]] = {
    bool: {"true": True, "false": False}.get,
    int: _positive,
}
"""Type of a field that is no word -> its value, None when the text is not one."""
