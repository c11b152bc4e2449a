"""The data of pages in run folders, read as what anybody may have put there: whole, of this version, not too large."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from accelsim.errors import Problem, UsageError, nearest
from accelsim.files.reading import is_file
from accelsim.report.page import PAGE
from accelsim.report.page.data import FORMAT, VERSION
from accelsim.report.page.document import Entry
from accelsim.report.saved_summary import read_summaries
from accelsim.report.write import SUMMARY

MOST_B = 2**28
"""Bytes of the data of a page, unpacked: 256 MiB, a hundred times what the largest runs have."""
AGAIN = "data of this version: 'accelsim rerun {folder} --out DIR' makes them in DIR"
Finite = Annotated[float, Field(allow_inf_nan=False)]


class _Strict(BaseModel):
    """Types are those of JSON; what only the script of the page reads may be there too."""

    model_config = ConfigDict(strict=True, extra="allow", protected_namespaces=())


class _Section(_Strict):
    title: str
    headers: list[str]
    rows: list[list[str]]
    numbers: list[int]
    before: list[str]
    behind: list[str]


class _Layers(_Strict):
    columns: list[tuple[str, int, bool]]
    cells: list[list[str]]
    values: list[list[Finite | None]]
    keys: list[str]
    names: list[str]
    titles: list[str]
    bound: list[str]
    time_fs: list[int]
    energy_J: list[Finite]
    blocks: list[tuple[int, int, int]] = []


class _Picture(_Strict):
    name: str
    title: str
    caption: str


class _Page(_Strict):
    """Fields of the data from which HTML is made."""

    tool_version: str
    title: str
    sentences: list[str]
    first: list[_Section]
    layers: _Layers
    lines: dict[str, Any]
    pictures: Annotated[list[_Picture], Field(min_length=1)]
    array: dict[str, Any] | None
    last: list[_Section]
    notes: list[str]
    plots: list[str]


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
    return Entry(_checked(content, text, file, again), packed)


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


def _checked(content: Any, text: str, file: Path, again: str) -> dict[str, Any]:
    """The data, where all that is read of them is there. Raises UsageError."""
    if not isinstance(content, dict) or content.get("format") != FORMAT or type(content.get("version")) is not int:
        raise UsageError(f"is no {FORMAT}", str(file), again)
    if content["version"] != VERSION:
        what = f"is of version {content['version']} of the data of pages, this accelsim reads version {VERSION}"
        raise UsageError(what, str(file), again)
    try:
        _Page.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(f"is damaged: {where}: {first['msg']}", str(file), again) from None
    layers = content["layers"]
    columns = ("cells", "values", "keys", "names", "titles", "bound", "time_fs", "energy_J")
    rows = [*layers["cells"], *layers["values"]]
    ragged = any(len(row) != len(layers["columns"]) for row in rows)
    if ragged or len({len(layers[name]) for name in columns}) > 1:
        raise UsageError("is damaged: the columns of its layers are not of one length", str(file), again)
    found: dict[str, Any] = content
    return found


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
