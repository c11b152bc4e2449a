"""The data of pages in run folders, read as what anybody may have put there: whole, of this version, not too large."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from math import isfinite
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

from accelsim.errors import Problem, UsageError, nearest
from accelsim.files.reading import is_file
from accelsim.report.page import PAGE
from accelsim.report.page.data import FORMAT, VERSION
from accelsim.report.page.document import Entry
from accelsim.report.page.form import Page
from accelsim.report.saved_summary import read_summaries
from accelsim.report.write import SUMMARY

MOST_B = 2**28
"""Bytes of the data of a page, unpacked: 256 MiB, a hundred times what the largest runs have."""
AGAIN = "data of this version: 'accelsim rerun {folder} --out DIR' makes them in DIR"


def read_pages(folders: list[Path]) -> list[Entry]:
    """The page of each folder. UsageError with all problems of all: no run, another version, damaged, given twice."""
    problems, found, seen = [], [], dict[Path, Path]()
    for folder in folders:
        real = folder.resolve()
        if real in seen:
            problems.append(Problem("is given twice", str(folder), "another run"))
            continue
        seen[real] = folder
        try:
            found.append(_read(folder))
        except UsageError as error:
            problems += error.problems
    UsageError.raise_for(problems)
    return found


def _read(folder: Path) -> Entry:
    if is_file(folder):
        raise UsageError("is a file", str(folder), "the folder of a run", _beside(folder))
    try:
        read_summaries([folder])
    except UsageError as error:
        raise UsageError(
            [Problem(each.what, each.where, each.expected, _beside(folder)) for each in error.problems]
        ) from None
    file, again = folder / PAGE, AGAIN.format(folder=folder)
    if not is_file(file):
        raise UsageError(f"has no {PAGE}: an earlier version wrote this run", str(folder), again)
    try:
        packed = file.read_bytes() if file.stat().st_size <= MOST_B else b""
        text = _unpacked(packed)
        content = json.loads(text, parse_constant=_refuse)
        json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogateescape")
    except (OSError, ValueError, RecursionError, zlib.error) as error:
        raise UsageError(f"is damaged: {error}", str(file), again) from error
    return Entry(_checked(content, file, again), packed)


def _unpacked(packed: bytes) -> str:
    """The text of gzipped data, whole and no more than ``MOST_B``; raises ValueError and zlib.error."""
    stream = zlib.decompressobj(zlib.MAX_WBITS | 16)
    text = stream.decompress(packed, MOST_B)
    if stream.unconsumed_tail:
        raise ValueError(f"it unpacks to more than {MOST_B:,} B")
    if not stream.eof:
        raise ValueError("its end is missing")
    return text.decode()


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _checked(content: object, file: Path, again: str) -> Page:
    """The data, where all that is read of them is there. Raises UsageError."""
    if not isinstance(content, dict) or content.get("format") != FORMAT or type(content.get("version")) is not int:
        raise UsageError(f"is no {FORMAT}", str(file), again)
    if content["version"] != VERSION:
        what = f"is of version {content['version']} of the data of pages, this accelsim reads version {VERSION}"
        raise UsageError(what, str(file), again)
    if fault := next(_faults(content, Page), "") or ("pictures: none" if not content["pictures"] else ""):
        raise UsageError(f"is damaged: {fault}", str(file), again)
    page: Page = content  # type: ignore[assignment]  # its form is what was checked
    layers = page["layers"]
    widths = {*map(len, layers["cells"]), *map(len, layers["values"]), len(layers["columns"])}
    names = [layers["keys"], layers["names"], layers["titles"], layers["bound"]]
    lengths = {*map(len, names), len(layers["time_fs"]), len(layers["energy_J"])}
    lengths |= {len(layers["cells"]), len(layers["values"])}
    if len(widths) > 1 or len(lengths) > 1:
        raise UsageError("is damaged: the columns of its layers are not of one length", str(file), again)
    return page


def _faults(value: object, kind: Any, where: str = "") -> Iterator[str]:
    """Yield where a value of JSON is not of the type that a form declares, and what is wrong."""
    origin, inner = get_origin(kind), get_args(kind)
    if is_typeddict(kind):
        if not isinstance(value, dict):
            yield f"{where}: no object"
            return
        for name, each in get_type_hints(kind).items():
            path = f"{where}.{name}".lstrip(".")
            if name in value:
                yield from _faults(value[name], each, path)
            elif name in kind.__required_keys__:
                yield f"{path}: is missing"
    elif origin in (list, tuple, Sequence):
        if not isinstance(value, list) or (origin is tuple and len(value) != len(inner)):
            yield f"{where}: no list of its length"
            return
        for number, each in enumerate(value):
            yield from _faults(each, inner[number if origin is tuple else 0], f"{where}.{number}")
    elif origin is UnionType:
        if all(next(_faults(value, each), "") for each in inner):
            yield f"{where}: {value!r:.40}"
    elif kind is float:
        if type(value) not in (int, float) or not isfinite(value):  # type: ignore[arg-type]
            yield f"{where}: no finite number"
    elif kind is not object and type(value) is not (origin or kind):
        yield f"{where}: {value!r:.40}"


def _beside(folder: Path) -> str:
    """A run near what was named: the folder that a file lies in, or one beside it of a similar name."""
    if is_file(folder):
        return str(folder.parent) if is_file(folder.parent / SUMMARY) else ""
    try:
        names = [each.name for each in folder.parent.iterdir() if each.name != folder.name and is_file(each / SUMMARY)]
    except OSError:
        return ""
    found = nearest(folder.name, names)
    return str(folder.parent / found) if found else ""
