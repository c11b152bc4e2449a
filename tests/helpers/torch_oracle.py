"""What PyTorch computes, recorded in ``tests/golden/numerics/torch.npz`` so that no test needs it.

Where PyTorch is installed, it computes the same again and the record must be what it says now.
``ACCELSIM_RECORD=1 pytest tests/unit/formats tests/unit/workload`` writes the record.
"""

from __future__ import annotations

import importlib
import os
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from accelsim.types import Array

FILE = Path(__file__).parents[1] / "golden" / "numerics" / "torch.npz"
CLOSE = 1e-5
"""What two versions of PyTorch may differ by, relative to the largest number of a result."""


def torch_says(key: str, inputs: Sequence[Array], compute: Callable[[Any], Sequence[Any]]) -> list[Array]:
    """Return the arrays that ``compute(torch)`` returns, by a key; ``inputs`` are what it reads besides constants."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return _recorded(key, inputs)
    torch.set_num_threads(1)  # beside other tests its threads wait for each other
    found = [np.asarray(each.detach().numpy() if hasattr(each, "detach") else each) for each in compute(torch)]
    if os.environ.get("ACCELSIM_RECORD"):
        _record(key, inputs, found)
    for now, then in zip(found, _recorded(key, inputs), strict=True):
        np.testing.assert_allclose(now, then, rtol=CLOSE, atol=CLOSE * np.abs(then).max(initial=0))
    return found


def _recorded(key: str, inputs: Sequence[Array]) -> list[Array]:
    record = _record_of(FILE)
    assert record[f"{key}|inputs"] == _print(inputs), f"{key}: other inputs than those of the record"
    names = [name for name in record if name.startswith(f"{key}|") and not name.endswith("|inputs")]
    return [record[f"{key}|{at}"] for at in range(len(names))]


@cache
def _record_of(file: Path) -> dict[str, Array]:
    with np.load(file) as archive:
        return dict(archive)


def _record(key: str, inputs: Sequence[Array], found: Sequence[Array]) -> None:
    record = _record_of(FILE) if FILE.exists() else {}
    kept = {name: value for name, value in record.items() if not name.startswith(f"{key}|")}
    new = {f"{key}|{at}": value for at, value in enumerate(found)} | {f"{key}|inputs": np.asarray(_print(inputs))}
    np.savez_compressed(FILE, **dict(sorted((kept | new).items())))
    _record_of.cache_clear()


def _print(inputs: Sequence[Array]) -> int:
    """A number that tells inputs from others."""
    return zlib.crc32(b"".join(np.ascontiguousarray(each).tobytes() for each in inputs))
