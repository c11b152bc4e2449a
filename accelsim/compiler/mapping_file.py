"""Mappings as a file that people read and edit: what was chosen, layer by layer, and the way back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import yaml

from accelsim.compiler.mapping import ORDERS, Mapping
from accelsim.compiler.program import Program
from accelsim.errors import Problem, UsageError, nearest
from accelsim.files import text, write_file
from accelsim.spec.nodes import compose

TYPES: dict[str, type[str] | type[bool] | type[int]] = {"order": str} | {
    field.name: bool if field.default is True or field.default is False else int
    for field in fields(Mapping)
    if field.name != "order"
}

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
        body = yaml.safe_dump(asdict(step.mapping), sort_keys=False, default_flow_style=None, width=10_000)
        name = yaml.safe_dump(step.name, width=10_000).removesuffix("...\n").strip()
        title = f"# {step.label}, {gemm.groups} x {gemm.M} x {gemm.N} x {gemm.K}, bound by {step.binds}"
        blocks.append(f"{title}\n{name}:\n" + "".join(f"  {line}\n" for line in body.splitlines()))
    return "\n".join(blocks)


def save_mappings(program: Program, path: Path) -> None:
    """Write the mappings of a program. Raises UsageError when that is not possible."""
    write_file(path, text(mapping_text(program)))


def load_mappings(path: Path) -> dict[str, dict[str, Any]]:
    """Layer name -> the fields that are pinned. Raises UsageError with file and line of all that is wrong."""
    try:
        tree = compose(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(Problem(f"cannot read the mapping: {error.strerror}", str(path))) from None
    except yaml.YAMLError as error:
        raise UsageError(Problem(f"not YAML: {' '.join(str(error).split())}", str(path))) from None
    except UnicodeDecodeError as error:
        raise UsageError(Problem(f"cannot read the mapping: {error}", str(path))) from None
    problems: list[Problem] = []
    pinned = {
        layer.value: dict(_field(path, key, value, problems) for key, value in block.value)
        for layer, block in (_pairs(path, tree, problems) if tree else ())
        if isinstance(block, yaml.MappingNode) or _refuse(path, block, problems)
    }
    if not pinned and not problems:
        problems.append(Problem("no layer in it", str(path), LAYERS))
    if problems:
        raise UsageError(problems)
    return pinned


def _at(path: Path, node: yaml.Node) -> str:
    return f"{path}:{node.start_mark.line + 1}:{node.start_mark.column + 1}"


def _pairs(path: Path, tree: yaml.Node, problems: list[Problem]) -> list[tuple[yaml.Node, yaml.Node]]:
    if isinstance(tree, yaml.MappingNode):
        return list(tree.value)
    problems.append(Problem("not a mapping file", _at(path, tree), LAYERS))
    return []


def _refuse(path: Path, block: yaml.Node, problems: list[Problem]) -> bool:
    problems.append(Problem("a layer without fields", _at(path, block), ", ".join(TYPES)))
    return False


def _field(path: Path, key: yaml.Node, value: yaml.Node, problems: list[Problem]) -> tuple[str, Any]:
    name, text = str(key.value), str(value.value)
    if name not in TYPES:
        problems.append(
            Problem(f"unknown field {name!r}", _at(path, key), ", ".join(TYPES), nearest(name, TYPES))
        )
        return name, None
    result = READERS[TYPES[name]](text)
    if result is None:
        expected = {str: ", ".join(ORDERS), bool: "true or false", int: "a whole number from 1"}[TYPES[name]]
        problems.append(Problem(f"{name} is {text!r}", _at(path, value), expected))
    return name, result


def _order(text: str) -> str | None:
    return text if text in ORDERS else None


def _positive(text: str) -> int | None:
    return int(text) if text.isdecimal() and int(text) > 0 else None


READERS: dict[type, Callable[[str], Any]] = {
    str: _order,
    bool: {"true": True, "false": False}.get,
    int: _positive,
}
"""Type of a field -> its value, None when the text is not one."""
