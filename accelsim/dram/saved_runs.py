"""Saved accesses of a run (``accelsim run --save-trace``): NumPy archives of one trace per memory."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelsim.dram.traces import Trace
from accelsim.errors import ModelError, Problem, nearest


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
        return _chosen(self.path, list(self.traces), name)

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
    with _opened(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
        meta = json.loads(str(arrays.pop("meta"))) if "meta" in arrays else {}
    memories = _memories(arrays)
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


def check_memory(path: str | Path, memory: str) -> None:
    """ModelError when ``read_trace`` would not know which memory is meant; no access is read."""
    path = Path(path)
    if is_saved(path):
        path = _archive(path)
        with _opened(path) as archive:
            names = _memories(archive.files)
        if names:
            _chosen(path, names, memory)
    elif memory:
        raise ModelError(
            Problem(f"has no memory {memory!r}, only accesses", str(path), "no name of a memory")
        )


def is_saved(path: Path) -> bool:
    """Whether a path means NumPy archives, and not text."""
    return path.is_dir() or path.suffix == ".npz"


def _memories(arrays: Iterable[str]) -> list[str]:
    return sorted({name.rpartition(".")[0] for name in arrays if name != "meta"})


def _chosen(path: Path, names: Sequence[str], name: str) -> str:
    """``name`` when it is one of ``names``, or the only one of them when it is ''. ModelError otherwise."""
    if not name and len(names) == 1:
        return names[0]
    if name not in names:
        what = f"no memory {name!r}" if name else f"has {len(names)} memories: choose one with --memory"
        expected = "one of " + ", ".join(names) if any(names) else "no name of a memory"
        raise ModelError(Problem(what, str(path), expected, nearest(name, names)))
    return name


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The archive; ModelError when it cannot be read."""
    try:
        if path.exists() and not zipfile.is_zipfile(path):
            raise ValueError("not an npz file")
        with np.load(path, allow_pickle=False) as archive:
            yield archive
    except (OSError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise unreadable(path, error) from error


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


def unreadable(path: Path, error: Exception) -> ModelError:
    """The error of a file of accesses that cannot be read, with the nearest name beside it."""
    beside = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
    near = "" if path.exists() else nearest(path.name, beside)
    reason = getattr(error, "strerror", None) or str(error)
    return ModelError(Problem(f"cannot be read: {reason}", str(path), "a file of accesses", near))
