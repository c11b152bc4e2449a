"""Reading NumPy archives that others made: every member is looked at before anything is unpacked."""

from __future__ import annotations

import lzma
import math
import struct
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from accelsim.errors import AccelsimError, Problem
from accelsim.types import Array

MOST_B = 2**31
"""Bytes of all arrays of one archive, unpacked: 2 GiB."""

NUMBERS = "fiub"
"""Kinds of NumPy types that are real numbers."""

BROKEN = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, ValueError, KeyError, NotImplementedError,
          OverflowError, RuntimeError, struct.error, MemoryError, TypeError, SyntaxError, AttributeError)  # fmt: skip
"""Errors that readers of archives and of headers raise for other bytes."""


def read_npz(path: Path, expected: str, error: type[AccelsimError], kinds: str = NUMBERS) -> dict[str, Array]:
    """Arrays of an npz file by name. ``expected`` is what it should be, in words; ``kinds`` the kinds of types.

    Raises ``error`` with every member that is wrong: another kind of type, more or fewer bytes than its header says,
    broken, encrypted or unpacked larger than 2 GiB.
    """
    try:
        with path.open("rb") as file:
            if not path.is_file():
                raise error(Problem("is no regular file", str(path), expected))
            if file.read(6) == b"\x93NUMPY":
                raise error(Problem("holds a single array without a name", str(path), expected))
            try:
                archive = zipfile.ZipFile(file)
            except BROKEN as reason:
                what = "cannot be read: truncated, or not an npz file of numbers"
                raise error(Problem(what, str(path), expected)) from reason
            return _arrays(archive, str(path), error, kinds)
    except (OSError, ValueError) as reason:  # ValueError: a name with a null byte
        what = f"cannot be read: {getattr(reason, 'strerror', None) or reason}"
        raise error(Problem(what, str(path), expected)) from reason


def _arrays(archive: zipfile.ZipFile, where: str, error: type[AccelsimError], kinds: str) -> dict[str, Array]:
    members = {info.filename: info for info in archive.infolist()}
    total_B = sum(info.file_size for info in members.values())
    if total_B > MOST_B:
        what = f"its arrays take {total_B / 2**30:,.0f} GiB"
        raise error(Problem(what, where, f"at most {MOST_B >> 30} GiB"))
    problems = [problem for info in members.values() for problem in _problems(archive, info, where, kinds)]
    error.raise_for(problems)
    found = {}
    for info in members.values():
        name = info.filename.removesuffix(".npy")
        try:
            with archive.open(info) as member:
                found[name] = np.lib.format.read_array(member, allow_pickle=False)
        except BROKEN as reason:
            what = f"array {name!r} is damaged ({_said(reason)})"
            raise error(Problem(what, where, "an archive that is whole")) from reason
    return found


def _problems(archive: zipfile.ZipFile, info: zipfile.ZipInfo, where: str, kinds: str) -> Iterator[Problem]:
    """Return what is wrong with one member, by its header alone."""
    name = info.filename.removesuffix(".npy")
    if info.flag_bits & 1:
        yield Problem(f"array {name!r} is encrypted", where, "an array that can be read")
        return
    try:
        with archive.open(info) as member:
            shape, dtype = _header(member)
            header_B = member.tell()
    except BROKEN as reason:
        yield Problem(f"{name!r} is no array that can be read ({_said(reason)})", where, "arrays of numbers")
        return
    needed_B = math.prod(shape) * dtype.itemsize
    if dtype.hasobject or dtype.kind not in kinds:
        yield Problem(f"array {name!r} holds {dtype} values", where, "numbers")
    elif needed_B != info.file_size - header_B:
        what = f"array {name!r} has {info.file_size - header_B:,} B of data; its header says {needed_B:,}"
        yield Problem(what, where, "as many as its shape needs")


def _header(member: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type; version 3.0 of a header has no reader here, it is for names of fields."""
    version, _ = np.lib.format.read_magic(member)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of headers written by Python 2
        shape, _, dtype = getattr(np.lib.format, f"read_array_header_{version}_0")(member)
    if any(extent < 0 for extent in shape):
        raise ValueError(f"shape {shape}")
    return shape, dtype


def _said(reason: BaseException) -> str:
    return " ".join(str(reason).split())[:80]
