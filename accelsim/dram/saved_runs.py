"""Saved accesses of a run (``accelsim run --save-trace``): NumPy archives of one trace per memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from accelsim.dram.traces import Trace
from accelsim.errors import ModelError, Problem, nearest
from accelsim.files.npz import NUMBERS, read_npz
from accelsim.files.reading import exists, is_folder
from accelsim.types import Array


@dataclass(frozen=True)
class Saved:
    """Traces of a run: per memory its trace and the step of each burst. ``meta``: what the run was.

    ``meta`` may hold ``chip``, ``model``, ``memory`` (memory -> name of its DRAM), ``dram`` (its spec), ``clock_fs``.
    """

    path: Path
    traces: dict[str, Trace]
    ops: dict[str, NDArray[np.int32]]
    meta: Mapping[str, object]

    def memory(self, name: str = "") -> str:
        """``name`` when the file has it, or the only memory. ModelError otherwise."""
        return _chosen(self.path, list(self.traces), name)

    def dram(self, memory: str) -> str:
        """Name of the DRAM of a memory, '' when the file does not say."""
        names = self.meta.get("memory", {})
        return str(names.get(memory, "")) if isinstance(names, Mapping) else ""

    def spec(self, memory: str) -> Mapping[str, object] | None:
        """Spec of the DRAM of a memory as the fields of its file, None when the file does not say."""
        specs = self.meta.get("dram", {})
        return specs.get(memory) if isinstance(specs, Mapping) else None


LARGEST, CLOCKS = 2**63 - 1, 1 << 50
"""The largest address; clocks are below this."""

KINDS = {"address": "iu", "write": "b", "at": "iu", "op": "iu"}
"""Array of a saved trace -> kinds of NumPy types that it may have."""


def read_saved(path: str | Path) -> Saved:
    """Return what ``accelsim run --save-trace`` wrote: a file, or a directory that holds one. Or arrays without a
    memory.

    Raises ModelError naming every array that is missing or has a wrong type or length.
    """
    path = _archive(Path(path))
    arrays = _arrays(path)
    meta = _meta(path, arrays.pop("meta", None))
    memories = _memories(arrays)
    problems = [problem for memory in memories for problem in _array_problems(path, memory, arrays)]
    if not problems:
        problems = [problem for memory in memories for problem in _access_problems(path, memory, arrays)]
    if not memories:
        problems = [Problem("holds no array", str(path), "MEMORY.address, MEMORY.write and perhaps MEMORY.at")]
    ModelError.raise_for(problems)
    traces = {memory: _saved_trace(memory, arrays) for memory in memories}
    ops = {memory: arrays[_key(memory, "op")] for memory in memories if _key(memory, "op") in arrays}
    return Saved(path, traces, ops, meta)


def check_memory(path: str | Path, memory: str) -> None:
    """Raise ModelError when ``read_trace`` would not know which memory is meant; no access is read."""
    path = Path(path)
    if is_saved(path):
        path = _archive(path)
        names = _memories(_arrays(path))
        if names:
            _chosen(path, names, memory)
    elif memory:
        raise ModelError(f"has no memory {memory!r}, only accesses", str(path), "no name of a memory")


def is_saved(path: Path) -> bool:
    """Return whether a path means NumPy archives, and not text."""
    return is_folder(path) or path.suffix == ".npz"


def _memories(arrays: Iterable[str]) -> list[str]:
    return sorted({name.rpartition(".")[0] for name in arrays if name != "meta"})


def _chosen(path: Path, names: Sequence[str], name: str) -> str:
    """``name`` when it is one of ``names``, or the only one of them when it is ''. ModelError otherwise."""
    if not name and len(names) == 1:
        return names[0]
    if name not in names:
        what = f"no memory {name!r}" if name else f"has {len(names)} memories: choose one with --memory"
        expected = "one of " + ", ".join(names) if any(names) else "no name of a memory"
        raise ModelError(what, str(path), expected, nearest(name, names))
    return name


def _arrays(path: Path) -> dict[str, Array]:
    if not exists(path):
        raise unreadable(path, FileNotFoundError(2, "No such file or directory"))
    return read_npz(path, "a file of accesses, as accelsim run --save-trace writes it", ModelError, NUMBERS + "U")


def _meta(path: Path, text: Array | None) -> Mapping[str, object]:
    """Return what the run was. ModelError where it is no JSON of an object."""
    if text is None:
        return {}
    try:
        found = json.loads(str(text))
    except (ValueError, RecursionError) as error:
        raise ModelError("its 'meta' is no JSON", str(path), "a JSON object") from error
    if not isinstance(found, dict):
        raise ModelError("its 'meta' is no JSON object", str(path), "a JSON object")
    return found


def _archive(path: Path) -> Path:
    """The file itself, or the only archive of a directory."""
    if not is_folder(path):
        return path
    found = sorted(path.glob("*.npz"))
    if len(found) != 1:
        what = f"holds {len(found)} .npz files"
        raise ModelError(what, str(path), "one, written by accelsim run --save-trace")
    return found[0]


def _key(memory: str, array: str) -> str:
    return f"{memory}.{array}" if memory else array


def _array_problems(path: Path, memory: str, arrays: Mapping[str, Array]) -> Iterator[Problem]:
    needed = _key(memory, "address")
    length = arrays[needed].shape[:1] if needed in arrays else None
    for array, kinds in KINDS.items():
        name = _key(memory, array)
        if name not in arrays:
            if array in ("address", "write"):
                yield Problem(f"array {name!r} is missing", str(path), "", nearest(name, arrays))
        elif arrays[name].dtype.kind not in kinds or arrays[name].ndim != 1:
            yield Problem(
                f"array {name!r} is {arrays[name].dtype} of {arrays[name].ndim} dimensions",
                str(path),
                "whole numbers in one dimension" if kinds == "iu" else "bool in one dimension",
            )
        elif length is not None and arrays[name].shape != length:
            yield Problem(f"array {name!r} has {len(arrays[name]):,} elements", str(path), f"{length[0]:,}")


def _access_problems(path: Path, memory: str, arrays: Mapping[str, Array]) -> Iterator[Problem]:
    """Check addresses and clocks as for a text file: in their ranges, clocks that never fall, at least one
    access."""
    name, at_name = _key(memory, "address"), _key(memory, "at")
    addresses, at = arrays[name], arrays.get(at_name)
    if not addresses.size:
        yield Problem(f"array {name!r} holds no access", str(path), "at least one")
        return
    if addresses.min() < 0 or addresses.max() > LARGEST:
        what = f"array {name!r} holds addresses from {addresses.min():,} to {addresses.max():,}"
        yield Problem(what, str(path), "0 to 2^63 - 1")
    if at is None:
        return
    if at.min() < 0 or at.max() >= CLOCKS:
        what = f"array {at_name!r} holds clocks from {at.min():,} to {at.max():,}"
        yield Problem(what, str(path), "0 to below 2^50")
    falls = np.flatnonzero(at[1:] < at[:-1])
    if falls.size:
        first = int(falls[0])
        what = f"the clock falls from {at[first]:,} to {at[first + 1]:,} at access {first + 2:,} of {at_name!r}"
        yield Problem(what, str(path), "clocks that never fall")


def _saved_trace(memory: str, arrays: Mapping[str, Array]) -> Trace:
    at = arrays.get(_key(memory, "at"))
    addresses = arrays[_key(memory, "address")].astype(np.int64)
    return Trace(addresses, arrays[_key(memory, "write")], None if at is None else at.astype(np.int64))


def unreadable(path: Path, error: Exception) -> ModelError:
    """The error of a file of accesses that cannot be read, with the nearest name beside it."""
    beside = [each.name for each in path.parent.iterdir()] if is_folder(path.parent) else []
    near = "" if exists(path) else nearest(path.name, beside)
    reason = getattr(error, "strerror", None) or str(error)
    return ModelError(f"cannot be read: {reason}", str(path), "a file of accesses", near)
