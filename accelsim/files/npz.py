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
          OverflowError, RuntimeError, struct.error, MemoryError, TypeError, SyntaxError)  # fmt: skip
"""What the readers of archives and of headers raise for bytes that are none."""


HEADERS = {(1, 0): "read_array_header_1_0", (2, 0): "read_array_header_2_0"}
"""Version of a header -> its reader in numpy.lib.format; 3.0 is for names of fields, which numbers do not have."""


def read_npz(path: Path, expected: str, error: type[AccelsimError], kinds: str = NUMBERS) -> dict[str, Array]:
    """Arrays of an npz file by name. ``expected`` is what it should be, in words; ``kinds`` the kinds of types.

    Raises ``error`` with every member that is wrong: another kind of type, more or fewer bytes than its header says,
    broken, encrypted or unpacked larger than 2 GiB.
    """
    try:
        with path.open("rb") as file:
            if not path.is_file():
                raise error(Problem("is no regular file", str(path), expected))
            return _read(file, path, expected, error, kinds)
    except OSError as reason:
        what = f"cannot be read: {reason.strerror or reason}"
        raise error(Problem(what, str(path), expected)) from reason
    except ValueError as reason:  # a name with a null byte
        raise error(Problem(f"cannot be read: {reason}", str(path), expected)) from reason


def _read(
    file: IO[bytes], path: Path, expected: str, error: type[AccelsimError], kinds: str
) -> dict[str, Array]:
    if file.read(6) == b"\x93NUMPY":
        raise error(Problem("holds a single array without a name", str(path), expected))
    file.seek(0)
    try:
        archive = zipfile.ZipFile(file)
        members = {info.filename: info for info in archive.infolist()}
    except BROKEN as reason:
        raise error(
            Problem("cannot be read: truncated, or not an npz file of numbers", str(path), expected)
        ) from reason
    problems = [problem for info in members.values() for problem in _problems(archive, info, path, kinds)]
    if sum(info.file_size for info in members.values()) > MOST_B:
        problems = [
            Problem(f"its arrays take {_total_GiB(members)} GiB", str(path), f"at most {MOST_B >> 30} GiB")
        ]
    if problems:
        raise error(problems)
    return {name.removesuffix(".npy"): _array(archive, info, path, error) for name, info in members.items()}


def _total_GiB(members: dict[str, zipfile.ZipInfo]) -> str:
    return f"{sum(info.file_size for info in members.values()) / 2**30:,.0f}"


def _problems(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path, kinds: str) -> Iterator[Problem]:
    """What is wrong with one member, by its header alone."""
    name = info.filename.removesuffix(".npy")
    if info.flag_bits & 1:
        yield Problem(f"array {name!r} is encrypted", str(path), "an array that can be read")
        return
    try:
        with archive.open(info) as member:
            shape, dtype = _header(member)
            header_B = member.tell()
    except BROKEN as reason:
        text = " ".join(str(reason).split())[:80]
        yield Problem(f"{name!r} is no array that can be read ({text})", str(path), "arrays of numbers")
        return
    if dtype.hasobject or dtype.kind not in kinds:
        yield Problem(f"array {name!r} holds {dtype} values", str(path), "numbers")
        return
    needed_B = math.prod(shape) * dtype.itemsize
    if needed_B != info.file_size - header_B:
        what = f"array {name!r} has {info.file_size - header_B:,} B of data; its header says {needed_B:,}"
        yield Problem(what, str(path), "as many as its shape needs")


def _header(member: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    read: Any = np.lib.format
    version = read.read_magic(member)
    if version not in HEADERS:
        raise ValueError(f"version {version}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of headers written by Python 2
        shape, _, dtype = getattr(read, HEADERS[version])(member)
    if any(extent < 0 for extent in shape):
        raise ValueError(f"shape {shape}")
    return shape, dtype


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path, error: type[AccelsimError]) -> Array:
    try:
        with archive.open(info) as member:
            found: Array = np.lib.format.read_array(member, allow_pickle=False)
        return found
    except BROKEN as reason:
        text = " ".join(str(reason).split())[:80]
        what = f"array {info.filename.removesuffix('.npy')!r} is damaged ({text})"
        raise error(Problem(what, str(path), "an archive that is whole")) from reason
