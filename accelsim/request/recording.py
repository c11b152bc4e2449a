"""The record of a run: what was asked, from which a saved run can be told apart and repeated."""

from __future__ import annotations

import hashlib
import platform
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelsim.errors import Problem, UsageError
from accelsim.files.reading import is_file
from accelsim.request.fields import DEFAULTS, OPTIONS, Request
from accelsim.request.option import BY_NAME

if TYPE_CHECKING:
    from accelsim.spec.chip import Chip
    from accelsim.workload.graph import Graph

PACKAGES = ("accelsim", "numpy", "simpy", "onnx", "ml_dtypes")
"""Packages on whose versions a result can depend."""
IN_MEMORY = "given in memory"
"""Text in the record for an argument that is no text, number or file."""


def record(request: Request, chip: Chip, graph: Graph) -> dict[str, object]:
    """Return the record of a request as JSON values.

    'command': the line that asks for it again ('' where an argument was given in memory or has no option); 'asked':
    every field that is not the default; 'files': SHA-256 of each file named; 'chip_sha256' and 'model_sha256': of what
    was simulated (the chip with its overrides, the graph with its shapes); 'versions': of Python and the packages.
    """
    from accelsim.spec.digest import digest

    asked = dict(_asked(request))
    lost = sorted(name for name, value in asked.items() if value == IN_MEMORY)
    return {
        "command": command_of(request),
        "asked": asked,
        "in_memory": lost,
        "files": _files(request),
        "chip_sha256": digest(chip),
        "model_sha256": _digest("\n".join(_lines(graph))),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
    }


def _asked(request: Request) -> Iterator[tuple[str, object]]:
    for name, default in DEFAULTS.items():
        value = getattr(request, name)
        if not _same(value, default):
            yield name, _plain(value)


def _same(value: object, default: object) -> bool:
    if isinstance(value, Mapping | Sequence) and not isinstance(value, str):
        return not value
    return bool(value == default)


def _plain(value: object) -> object:
    """The value as JSON can hold it, or ``IN_MEMORY``."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        parts = {str(name): _plain(part) for name, part in value.items()}
        return IN_MEMORY if IN_MEMORY in parts.values() else parts
    if isinstance(value, list | tuple):
        parts_of = [_plain(part) for part in value]
        return IN_MEMORY if IN_MEMORY in parts_of else parts_of
    import numpy as np

    return value.item() if isinstance(value, np.generic) else IN_MEMORY


def _no_option(asked: Mapping[str, object]) -> list[str]:
    """Fields of a record that no option of the command line can give."""
    kinds = {name: OPTIONS[name].kind for name in asked}
    return [
        name
        for name, value in asked.items()
        if kinds[name] == "none" or (isinstance(value, Mapping) and kinds[name] not in BY_NAME)
    ]


def how_to_repeat(record: Mapping[str, Any]) -> str:
    """Return the command line of a record, or why none repeats it."""
    if record["command"]:
        return str(record["command"])
    lost = record["in_memory"]
    why = f"{', '.join(lost)} {IN_MEMORY}" if lost else f"no option gives {', '.join(_no_option(record['asked']))}"
    return f"(no command line: {why})"


def command(asked: Mapping[str, object]) -> str:
    """The command line of a record; '' where a field of it has no option."""
    if _no_option(asked):
        return ""
    given = (word for name, value in asked.items() for word in words(name, value))
    return shlex.join(["accelsim", "run", *given])


def command_of(request: Request) -> str:
    """Return the command line of a request; '' where an argument was given in memory or has no option."""
    asked = dict(_asked(request))
    return "" if IN_MEMORY in asked.values() else command(asked)


def words(name: str, value: Any) -> list[str]:
    """Return the words of a command line that give a field its value."""
    row = OPTIONS[name]
    if row.kind == "argument":
        return [str(value)]
    value = _last_settings(value) if name == "set" else value
    return _option(flag(name), f"{value} {row.unit}" if row.unit else value)


def flag(name: str) -> str:
    """Return the command-line option of a field, such as '--batch'."""
    return f"--{name.replace('_', '-')}"


def _last_settings(texts: Iterable[str]) -> list[str]:
    """Return the last setting of each field: on a command line several of one field would be several runs."""
    found: dict[str, str] = {}
    for text in texts:
        field = text.partition("=")[0].strip()
        found.pop(field, None)
        found[field] = text
    return list(found.values())


def _option(flag: str, value: object) -> list[str]:
    if value is True:
        return [flag]
    if isinstance(value, Mapping):
        return [word for key, part in value.items() for word in (flag, f"{key}={_joined(part)}")]
    if isinstance(value, list | tuple):
        return [word for part in value for word in (flag, str(part))]
    return [flag, str(value)]


def _joined(value: object) -> str:
    return (",".join(map(str, value)) or "()") if isinstance(value, list | tuple) else str(value)


def _files(request: Request) -> dict[str, str]:
    """Every file that the request names, and those that hold the tensors of an ONNX model -> SHA-256."""
    given = [getattr(request, name) for name, row in OPTIONS.items() if row.file]
    named = [Path(value) for value in given if isinstance(value, str | Path) and is_file(Path(value))]
    beside = [data for path in named if path.suffix == ".onnx" for data in _beside(path)]
    return {str(path): _digest_of_file(path) for path in sorted({*named, *beside})}


def _beside(path: Path) -> list[Path]:
    """Return the files that hold the tensors of an ONNX model."""
    from accelsim.workload.onnx.importing.external_files import external_files

    return external_files(path)


def _digest_of_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


def _lines(graph: Graph) -> Iterator[str]:
    """The graph as text: what is computed from what, in which shapes; not the values of the weights."""
    yield f"{graph.inputs} {graph.outputs} {graph.values_from}"
    for tensor in graph.tensors.values():
        yield f"{tensor.name} {tensor.shape} {tensor.dtype} {tensor.is_constant}"
    for node in graph.nodes:
        attrs = sorted((name, repr(value)) for name, value in node.attrs.items())
        yield f"{node.op} {node.inputs} {node.outputs} {attrs}"


@cache
def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def repeated(saved: Mapping[str, Any], where: str) -> Request:
    """The request of a record. Raises UsageError when part of it was given in memory or a field is unknown."""
    problems = [
        Problem(f"{name} was {IN_MEMORY}", where, "a run whose arguments are names, numbers and files")
        for name in saved.get("in_memory", [])
    ]
    asked = dict(saved.get("asked", {}))
    problems += [
        Problem(f"no option {name!r}", where, "a report of this version") for name in asked if name not in OPTIONS
    ]
    if not {"model", "on"} <= asked.keys():
        problems.append(Problem("does not say what was run", where, "a report of this version"))
    UsageError.raise_for(problems)
    return Request(**{name: _given(name, value) for name, value in asked.items()})


def _given(name: str, value: Any) -> Any:
    """A value of a field as it was before JSON held it, which knows no tuples."""
    if OPTIONS[name].kind != "extents":
        return value
    return {key: tuple(sizes) for key, sizes in value.items()}


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return what is no longer as it was recorded, in words: files, chip, model, versions."""
    found = []
    for key, what in (("chip_sha256", "the chip"), ("model_sha256", "the model")):
        if before.get(key) != now.get(key):
            found.append(f"{what} is not what it was")
    for key, what in (("files", "file"), ("versions", "version of")):
        old, new = before.get(key, {}), now.get(key, {})
        for name in sorted({*old, *new}):
            if old.get(name) != new.get(name):
                told = f": {old.get(name)} then, {new.get(name)} now" if key == "versions" else " has changed"
                found.append(f"{what} {name}{told}")
    return found
