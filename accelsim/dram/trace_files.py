"""Files of DRAM accesses: text in the forms that simulators use, CSV with a header, and NumPy archives."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accelsim.dram.traces import Trace
from accelsim.errors import ModelError, Problem, nearest

OPERATIONS = {
    **dict.fromkeys(("r", "rd", "read", "ld", "load"), False),
    **dict.fromkeys(("w", "wr", "write", "st", "store"), True),
}
"""Word for an access, in any case -> whether it writes."""

FLAGS = OPERATIONS | {"0": False, "false": False, "1": True, "true": True}
"""What a CSV column may say about an access."""

COLUMNS = {
    **dict.fromkeys(("address", "addr"), "address"),
    **dict.fromkeys(("op", "operation", "type", "rw", "write"), "op"),
    **dict.fromkeys(("clock", "at", "cycle"), "clock"),
}
"""Column of a header line, in any case -> what it holds."""

MOST_PROBLEMS = 20
"""Problems of one file that are listed; the rest are counted."""

LARGEST = 2**63 - 1
FORM = (
    "ADDRESS R|W [CLOCK], R|W ADDRESS [CLOCK] (address 0x... or decimal), or a header with address, op, clock"
)
GAPS = re.compile(r"[\s,|]+")


class _Row(NamedTuple):
    address: int
    write: bool
    clock: int  # -1 without one


@dataclass
class _Problems:
    """The problems of one file, the first of them in full."""

    path: Path
    found: list[Problem] = field(default_factory=list)
    count: int = 0

    def add(self, line: int, what: str, expected: str = "", near: str = "") -> None:
        self.count += 1
        if self.count <= MOST_PROBLEMS:
            self.found.append(Problem(what, f"{self.path}:{line}", expected, near))

    def raise_any(self) -> None:
        if self.count > MOST_PROBLEMS:
            self.found.append(Problem(f"and {self.count - MOST_PROBLEMS:,} more lines", str(self.path)))
        if self.found:
            raise ModelError(self.found)


def read_trace(path: str | Path) -> Trace:
    """The accesses that a file holds, in its order.

    Text: one access per line as :data:`FORM` says, fields parted by blanks, commas or bars, ``#`` begins a comment;
    so traces of DRAMsim3 (``0x1000 READ 12``) and Ramulator 2 (``LD 0x1000``) are read as they are. ``.npz``: arrays
    ``address``, ``write`` and perhaps ``at``, or what ``accelsim run --save-trace`` wrote, of one memory. Clocks are
    given for all accesses or for none, and never fall. Raises ModelError with file and line of what is wrong.
    """
    path = Path(path)
    if path.suffix == ".npz":
        return read_saved(path).only()
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error
    problems = _Problems(path)
    rows = list(_rows(text, problems))
    problems.raise_any()
    if not rows:
        raise ModelError(Problem("holds no access", str(path), FORM))
    return _trace(rows)


def _unreadable(path: Path, error: Exception) -> ModelError:
    beside = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
    near = "" if path.exists() else nearest(path.name, beside)
    reason = getattr(error, "strerror", None) or str(error)
    return ModelError(Problem(f"cannot be read: {reason}", str(path), "a file of accesses", near))


def _trace(rows: list[_Row]) -> Trace:
    addresses = np.array([row.address for row in rows], np.int64)
    writes = np.array([row.write for row in rows], bool)
    at = np.array([row.clock for row in rows], np.int64) if rows[0].clock >= 0 else None
    return Trace(addresses, writes, at)


def _rows(text: str, problems: _Problems) -> Iterator[_Row]:
    """The good lines; the others become problems."""
    parse: Callable[[list[str]], _Row] | None = None
    before: _Row | None = None
    for number, line in enumerate(text.splitlines(), 1):
        cells = [cell for cell in GAPS.split(line.partition("#")[0].lower()) if cell]
        if not cells:
            continue
        try:
            if parse is None:
                header = _header(cells)
                parse = header or _plain
                if header:
                    continue
            row = parse(cells)
            if before is not None:
                _check_order(before, row)
        except _Wrong as wrong:
            problems.add(number, *wrong.args)
            continue
        before = row
        yield row


class _Wrong(Exception):
    """A line that is wrong: what, expected, nearest."""


def _check_order(before: _Row, row: _Row) -> None:
    if (before.clock < 0) != (row.clock < 0):
        raise _Wrong("only some of the lines have a clock", "a clock in every line, or in none")
    if row.clock < before.clock:
        raise _Wrong(f"the clock falls from {before.clock:,} to {row.clock:,}", "clocks that never fall")


def _plain(cells: list[str]) -> _Row:
    """A line without header: the operation is the first or the second field."""
    if len(cells) not in (2, 3):
        raise _Wrong(f"has {len(cells)} fields", FORM)
    first, second, *clock = cells
    if first in OPERATIONS:
        first, second = second, first
    if second not in OPERATIONS:
        word = first if _number(second) is not None else second
        raise _Wrong(
            f"{word!r} is no access", "R, W, RD, WR, READ, WRITE, LD or ST", nearest(word, OPERATIONS)
        )
    return _Row(_address(first), OPERATIONS[second], _clock(clock[0]) if clock else -1)


def _header(cells: list[str]) -> Callable[[list[str]], _Row] | None:
    """How to read the lines below a header; None when the line is no header but an access."""
    if not any(cell in COLUMNS for cell in cells) or any(_number(cell) is not None for cell in cells):
        return None
    names = [COLUMNS.get(cell, cell) for cell in cells]
    for needed in ("address", "op"):
        if names.count(needed) != 1:
            spare = [cell for cell in cells if cell not in COLUMNS]
            raise _Wrong(f"{names.count(needed)} columns hold the {needed}", "one", nearest(needed, spare))

    def parse(row: list[str]) -> _Row:
        if len(row) != len(names):
            raise _Wrong(f"has {len(row)} fields", f"{len(names)}, as the header")
        cell = dict(zip(names, row, strict=True))
        if cell["op"] not in FLAGS:
            raise _Wrong(f"{cell['op']!r} is no access", "R, W, 0 or 1", nearest(cell["op"], FLAGS))
        return _Row(
            _address(cell["address"]), FLAGS[cell["op"]], _clock(cell["clock"]) if "clock" in cell else -1
        )

    return parse


def _number(text: str) -> int | None:
    """A whole number from 0 to 2^63 - 1, hexadecimal after 0x; None for anything else."""
    try:
        number = int(text, 16) if text.startswith("0x") else int(text)
    except ValueError:
        return None
    return number if 0 <= number <= LARGEST and "_" not in text else None


def _address(text: str) -> int:
    number = _number(text)
    if number is None:
        raise _Wrong(f"{text!r} is no address", "0x and hexadecimal digits, or a decimal number, below 2^63")
    return number


def _clock(text: str) -> int:
    number = _number(text)
    if number is None or text.startswith("0x") or number >= 1 << 50:
        raise _Wrong(f"{text!r} is no clock", "a decimal number below 2^50")
    return number


@dataclass(frozen=True)
class Saved:
    """Traces of a run: per memory its trace and the step of each burst. ``meta``: what the run was.

    ``meta`` may hold ``chip``, ``model``, ``memory`` (memory -> name of its DRAM), ``dram`` (its spec), ``clock_fs``.
    """

    path: Path
    traces: dict[str, Trace]
    ops: dict[str, NDArray[np.int32]]
    meta: Mapping[str, Any]

    def memory(self, name: str = "") -> str:
        """``name`` when the file has it, or the only memory. ModelError otherwise."""
        if not name and len(self.traces) == 1:
            return next(iter(self.traces))
        if name not in self.traces:
            what = f"no memory {name!r}" if name else f"has {len(self.traces)} memories: choose one"
            expected = "one of " + ", ".join(self.traces)
            raise ModelError(Problem(what, str(self.path), expected, nearest(name, self.traces)))
        return name

    def only(self) -> Trace:
        """The trace of the only memory. ModelError when there are several."""
        return self.traces[self.memory()]

    def dram(self, memory: str) -> str:
        """Name of the DRAM of a memory, '' when the file does not say."""
        names = self.meta.get("memory", {})
        return str(names.get(memory, "")) if isinstance(names, Mapping) else ""

    def spec(self, memory: str) -> Mapping[str, Any] | None:
        """Spec of the DRAM of a memory as the fields of its file, None when the file does not say."""
        specs = self.meta.get("dram", {})
        return specs.get(memory) if isinstance(specs, Mapping) else None


KINDS = {"address": "iu", "write": "b", "at": "iu", "op": "iu"}
"""Array of a saved trace -> kinds of NumPy types that it may have."""


def read_saved(path: str | Path) -> Saved:
    """What ``accelsim run --save-trace`` wrote: a file, or a directory that holds one. Or arrays without a memory.

    Raises ModelError naming every array that is missing or has a wrong type or length.
    """
    path = _archive(Path(path))
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        meta = json.loads(str(arrays.pop("meta"))) if "meta" in arrays else {}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise _unreadable(path, error) from error
    memories = sorted({name.rpartition(".")[0] for name in arrays})
    problems = [problem for memory in memories for problem in _array_problems(path, memory, arrays)]
    if not memories:
        problems = [
            Problem("holds no array", str(path), "MEMORY.address, MEMORY.write and perhaps MEMORY.at")
        ]
    if problems:
        raise ModelError(problems)
    traces = {memory: _saved_trace(memory, arrays) for memory in memories}
    ops = {memory: arrays[_key(memory, "op")] for memory in memories if _key(memory, "op") in arrays}
    return Saved(path, traces, ops, meta if isinstance(meta, dict) else {})


def _archive(path: Path) -> Path:
    """The file itself, or the only archive of a directory."""
    if not path.is_dir():
        return path
    found = sorted(path.glob("*.npz"))
    if len(found) != 1:
        what = f"holds {len(found)} .npz files"
        raise ModelError(Problem(what, str(path), "one, written by accelsim run --save-trace"))
    return found[0]


def _key(memory: str, array: str) -> str:
    return f"{memory}.{array}" if memory else array


def _array_problems(path: Path, memory: str, arrays: Mapping[str, NDArray[Any]]) -> Iterator[Problem]:
    needed = _key(memory, "address")
    length = arrays[needed].shape[:1] if needed in arrays else None
    for array, kinds in KINDS.items():
        name = _key(memory, array)
        if name not in arrays:
            if array in ("address", "write"):
                yield Problem(f"array {name!r} is missing", str(path), "", nearest(name, arrays))
        elif arrays[name].dtype.kind not in kinds or arrays[name].ndim != 1:
            yield Problem(f"array {name!r} is {arrays[name].dtype} of {arrays[name].ndim} dimensions", str(path),
                          "whole numbers in one dimension" if kinds == "iu" else "bool in one dimension")  # fmt: skip
        elif length is not None and arrays[name].shape != length:
            yield Problem(f"array {name!r} has {len(arrays[name]):,} elements", str(path), f"{length[0]:,}")


def _saved_trace(memory: str, arrays: Mapping[str, NDArray[Any]]) -> Trace:
    at = arrays.get(_key(memory, "at"))
    addresses = arrays[_key(memory, "address")].astype(np.int64)
    return Trace(addresses, arrays[_key(memory, "write")], None if at is None else at.astype(np.int64))
