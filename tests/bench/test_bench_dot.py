"""How fast the rules of accumulation are: time per product, on one thread."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
import pytest

from accelsim.formats.dot import RULES, product

SIZE, REPEATS = 256, 3
SLOWEST_NS = 200.0
"""5 million products per second."""
FORMATS = ("fp16", "fp8_e4m3fn", "int8")
"""Of operands: the first that a rule takes."""
ALIGNED = [name for name, row in RULES.items() if row.blocks]


def seconds(call: Callable[[], Any]) -> float:
    """CPU seconds, the best of a few."""
    found = []
    for _ in range(REPEATS):
        start = process_time()
        call()
        found.append(process_time() - start)
    return min(found)


def operands(fmt: str) -> list[np.ndarray]:
    """Small whole numbers, which every format holds."""
    rng, kind = np.random.default_rng(0), np.int8 if fmt == "int8" else np.float32
    return [rng.integers(-4, 5, (SIZE, SIZE)).astype(kind) for _ in range(2)]


@pytest.mark.parametrize("rule", [*ALIGNED, "fp16-accumulate", "fp32-sequential", "int32"])
def test_time_per_product(benchmark: Any, figure: Any, rule: str) -> None:
    fmt = next(name for name in FORMATS if RULES[rule].accepts(name))
    a, b = operands(fmt)
    spent = benchmark.pedantic(lambda: seconds(lambda: product(a, b, rule, fmt)), rounds=1, iterations=1)
    note = f"{SIZE**3 / spent / 1e6:,.0f} million products/s"
    assert figure(f"{rule}: time per product", 1e9 * spent / SIZE**3, " ns", SLOWEST_NS, note).holds


def test_plain_fp32_costs_what_blas_costs(benchmark: Any, figure: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((1024, 1024)).astype(np.float32) for _ in range(2))

    def measure() -> float:
        return seconds(lambda: product(a, b, "fp32", "fp32")) / seconds(lambda: a @ b)

    ratio = benchmark.pedantic(measure, rounds=1, iterations=1)
    assert figure("fp32 / NumPy matmul", ratio, " x", 1.5).holds
