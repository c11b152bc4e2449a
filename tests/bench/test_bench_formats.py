"""How fast values are rounded to each format, as ratios to ml_dtypes (fp16: NumPy) measured in one run."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from accelsim.formats import codec, mx
from accelsim.formats.table import FORMATS, get

COUNT, RATIO, REPEATS = 1 << 20, 2.0, 9
"""Values per cast, largest allowed ratio of CPU time, rounds of which the best counts (the two take turns)."""
SPREADS = (4.0, 1e-3)
"""Standard deviations of the values: mostly normal, and mostly subnormal in the small formats."""
THEIRS = {"bf16": "bfloat16", "fp16": "float16", "e8m0": "float8_e8m0fnu"} | {
    name: name.replace("fp", "float") for name in FORMATS if name.startswith(("fp8_", "fp6_", "fp4_"))
}


def best(*calls: Callable[[], Any]) -> list[float]:
    """Least CPU seconds of each call."""
    found = [float("inf")] * len(calls)
    for _ in range(REPEATS):
        for index, call in enumerate(calls):
            start = process_time()
            call()
            found[index] = min(found[index], process_time() - start)
    return found


def ratios(x: NDArray[np.float32], name: str, dtype: np.dtype[Any]) -> dict[str, tuple[float, float]]:
    """CPU seconds of both, for values to values and for values to codes."""
    with np.errstate(all="ignore"):
        ours, theirs, ours_codes, their_codes = best(
            lambda: codec.cast(x, name),
            lambda: x.astype(dtype).astype(np.float32),
            lambda: codec.encode(x, name),
            lambda: x.astype(dtype),
        )
    return {"cast": (ours, theirs), "encode": (ours_codes, their_codes)}


@pytest.mark.parametrize("name", THEIRS)
def test_cast_and_encode(benchmark: Any, figure: Any, name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, THEIRS[name], THEIRS[name]))

    def measure() -> dict[float, dict[str, tuple[float, float]]]:
        normal = np.random.default_rng(0).standard_normal(COUNT)
        return {spread: ratios((normal * spread).astype(np.float32), name, dtype) for spread in SPREADS}

    held = []
    for spread, found in benchmark.pedantic(measure, rounds=1, iterations=1).items():
        for what, (ours, theirs) in found.items():
            note = f"{COUNT / ours / 1e6:.0f} against {COUNT / theirs / 1e6:.0f} million values per second"
            held.append(figure(f"{name}, sigma {spread:g}: {what}", ours / theirs, " x", RATIO, note).holds)
    assert all(held)


@pytest.mark.parametrize("name", [row.name for row in FORMATS.values() if row.kind == "block" and row.name != "mxint8"])
def test_blocks(benchmark: Any, figure: Any, name: str) -> None:
    """An MX cast against the cast of its elements alone: what scales cost."""
    x = np.random.default_rng(0).standard_normal((COUNT // 1024, 1024)).astype(np.float32)
    found = benchmark.pedantic(
        lambda: best(lambda: mx.cast(x, name), lambda: codec.cast(x, get(name).element)), rounds=1, iterations=1
    )
    figure(
        f"{name} / {get(name).element}",
        found[0] / found[1],
        " x",
        None,
        f"{COUNT / found[0] / 1e6:.0f} million values per second",
    )
