"""Files of DRAM accesses: text in the forms that simulators use, and CSV with a header; archives by ``saved_runs``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from accelsim.digits import whole
from accelsim.dram.saved_runs import CLOCKS, LARGEST, check_memory, is_saved, read_saved, unreadable
from accelsim.dram.traces import Trace
from accelsim.errors import ModelError, Problem, nearest
from accelsim.files.reading import read_text

OPERATIONS = {
    **dict.fromkeys(("r", "rd", "read", "ld", "load"), False),
    **dict.fromkeys(("w", "wr", "write", "st", "store"), True),
}
"""Word for an access, in any case -> whether it writes."""

FLAGS = OPERATIONS | {"0": False, "false": False, "1": True, "true": True}
"""Word for an access in a column of a CSV file -> whether it writes."""

COLUMNS = {
    **dict.fromkeys(("address", "addr"), "address"),
    **dict.fromkeys(("op", "operation", "type", "rw", "write"), "op"),
    **dict.fromkeys(("clock", "at", "cycle"), "clock"),
}
"""Column of a header line, in any case -> what it holds."""

MOST_PROBLEMS = 20
"""Problems of one file that are listed; the rest are counted."""

FORM = "ADDRESS R|W [CLOCK], R|W ADDRESS [CLOCK] (address 0x... or decimal), or a header with address, op, clock"
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


def read_trace(path: str | Path, memory: str = "") -> Trace:
    """The accesses that a file holds, in its order; those of ``memory`` where it holds several.

    Text: one access per line as :data:`FORM` says, fields parted by blanks, commas or bars, ``#`` begins a comment;
    so traces of DRAMsim3 (``0x1000 READ 12``) and Ramulator 2 (``LD 0x1000``) are read as they are. ``.npz``: arrays
    ``address``, ``write`` and perhaps ``at``, or what ``accelsim run --save-trace`` wrote. Clocks are given for all
    accesses or for none, and never fall. Raises ModelError with file and line of what is wrong.
    """
    path = Path(path)
    if is_saved(path):
        saved = read_saved(path)
        return saved.traces[saved.memory(memory)]
    check_memory(path, memory)
    try:
        text = read_text(path)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    problems = _Problems(path)
    rows = list(_rows(text, problems))
    problems.raise_any()
    if not rows:
        raise ModelError("holds no access", str(path), FORM)
    return _trace(rows)


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
        raise _Wrong(f"has {len(cells)} field{'s' * (len(cells) > 1)}", FORM)
    first, second, *clock = cells
    if first in OPERATIONS:
        first, second = second, first
    if second not in OPERATIONS:
        word = first if _number(second) is not None else second
        raise _Wrong(f"{word!r} is no access", "R, W, RD, WR, READ, WRITE, LD or ST", nearest(word, OPERATIONS))
    return _Row(_address(first), OPERATIONS[second], _clock(clock[0]) if clock else -1)


def _header(cells: list[str]) -> Callable[[list[str]], _Row] | None:
    """Return how to read the lines below a header; None when the line is no header but an access."""
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
        return _Row(_address(cell["address"]), FLAGS[cell["op"]], _clock(cell["clock"]) if "clock" in cell else -1)

    return parse


def _number(text: str) -> int | None:
    """A whole number from 0 to 2^63 - 1, hexadecimal after 0x; None for anything else."""
    try:
        number = int(text, 16) if text.startswith("0x") and "_" not in text else whole(text)
    except ValueError:
        return None
    return number if number is not None and number <= LARGEST else None


def _address(text: str) -> int:
    number = _number(text)
    if number is None:
        raise _Wrong(f"{text!r} is no address", "0x and hexadecimal digits, or a decimal number, below 2^63")
    return number


def _clock(text: str) -> int:
    number = _number(text)
    if number is None or text.startswith("0x") or number >= CLOCKS:
        raise _Wrong(f"{text!r} is no clock", "a decimal number below 2^50")
    return number
