"""No output may take the place of an input: what a command line reads, as far as it names it or the named files do."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click

from accelsim.errors import UsageError

READ_IN_FOLDERS = ("summary.json", "page.json.gz", "*.npz")
"""Files that commands read in a directory."""

FOLDERS = frozenset({"runs", "report", "source"})
"""Parameters that may name a directory to read. Others do not, whatever lies there: a built-in model is no report."""

REFERENCE = re.compile(r"[\w./+-]+")
"""Pattern for the name of another file in a spec file."""

MOST_SPEC_B = 2**20
"""Spec files are smaller."""


def refuse_inputs(target: Path, option: str, outputs: type[click.Path]) -> None:
    """Raise UsageError where the existing file ``target`` is one that the current command reads, or writes twice.

    ``option`` is what the target is told as, ``outputs`` the type of parameters that name no inputs.
    """
    context = click.get_current_context(silent=True)
    if context is None:
        return
    if _twice(target, context, outputs):
        raise UsageError("is named by two options", str(target), "a file for each")
    found = _same(target, _inputs(context, outputs)) if target.exists() else None
    if found is not None:
        shown = "" if str(found) == str(target) else f" ({found})"
        raise UsageError(f"{option} is an input of this command{shown}", str(target), "another file")


def _twice(target: Path, context: click.Context, outputs: type[click.Path]) -> bool:
    places = [
        os.path.realpath(context.params[param.name])
        for param in context.command.params
        if isinstance(param.type, outputs) and context.params.get(param.name or "") is not None
    ]
    regular = target.is_file() or not target.exists()
    return regular and places.count(os.path.realpath(target)) > 1


def _same(target: Path, inputs: Iterator[Path]) -> Path | None:
    """The input that ``target`` is."""
    for path in inputs:
        with suppress(OSError, ValueError):
            if path.is_file() and path.samefile(target):
                return path
    return None


def _inputs(context: click.Context, outputs: type[click.Path]) -> Iterator[Path]:
    """Files that the parameters name, those that are read of named directories, and those that such files name."""
    seen: set[Path] = set()
    for param in context.command.params:
        if not isinstance(param.type, outputs):
            for path in _named(context.params.get(param.name or "")):
                if param.name in FOLDERS:
                    yield from _in_folder(path, seen)
                yield from _with_references(path, seen)
    if context.info_name:  # 'accelsim dram FILE' is a command of that name
        yield from _with_references(Path(context.info_name), seen)
    from accelsim.spec.yaml import where

    for root in where.roots():
        yield from root.rglob("*.yaml")


def _named(value: object) -> Iterator[Path]:
    """Return what may be paths in the value of a parameter: the text, the parts of a list, what follows '='."""
    if isinstance(value, tuple | list):
        for each in value:
            yield from _named(each)
    elif isinstance(value, str | Path) and str(value):
        text = str(value)
        yield from (Path(part) for part in dict.fromkeys([text, *text.split(","), text.partition("=")[2]]) if part)


def _in_folder(folder: Path, seen: set[Path]) -> Iterator[Path]:
    """Return what is read of a directory; nothing where ``folder`` is none."""
    with suppress(OSError, ValueError):
        for pattern in READ_IN_FOLDERS:
            for path in sorted(folder.glob(pattern)):
                yield from _with_references(path, seen)


def _with_references(path: Path, seen: set[Path]) -> Iterator[Path]:
    """A file, and what it names in turn; nothing where ``path`` is none."""
    with suppress(OSError, ValueError):
        if path.is_file() and path not in seen:
            seen.add(path)
            yield path
            for other in _references(path):
                yield from _with_references(other, seen)


def _references(path: Path) -> Iterator[Path]:
    from accelsim.spec.yaml import where

    if path.suffix in where.SUFFIXES and path.stat().st_size <= MOST_SPEC_B:
        words = set(REFERENCE.findall(path.read_text(encoding="utf-8", errors="replace")))
        for word in sorted(words):
            found = where.find(word, path.parent)
            if found is not None:
                yield found
    elif path.suffix == ".onnx":
        from accelsim.workload.onnx.importing.external_files import external_files

        yield from external_files(path)
