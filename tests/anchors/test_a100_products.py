"""Measured fp16 products of two A100s against the closed form of kernels: as far off as the spec and the page say.

The measurements (Vidur's compute profiles, LLMCompass) are not part of the project: they are read where they lie beside it.
"""

from __future__ import annotations

import csv
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accelsim.engines.simt.kernels import Around, choose
from accelsim.engines.simt.panels import Product
from accelsim.spec.yaml.load import load_chip
from accelsim.types import Floats
from accelsim.workload.graph import Tensor
from accelsim.workload.ops.base import Gemm

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "measured"
VIDUR, LLMCOMPASS = FOLDER / "vidur_llm_gemm_fp16.csv", FOLDER / "llmcompass" / "matmul_A100.csv"
pytestmark = pytest.mark.skipif(not VIDUR.exists(), reason="no ../shared/data/measured")
Shape = tuple[int, int, int]


@cache
def a100() -> tuple[Any, Around]:
    """Its multiprocessors, and what is around them."""
    chip = load_chip("a100-80-sxm")
    l2, memory = chip.buffers["l2"], chip.memories["hbm"]
    return chip.engines["sm"], Around(chip.clock, l2.capacity, Fraction(l2.read_width), memory.rate_Bps)


def seconds(M: int, N: int, K: int) -> float:
    """Of the kernel by its closed form."""
    sm, around = a100()
    a, b, y = (Tensor(name, shape, "fp16") for name, shape in (("a", (M, K)), ("b", (K, N)), ("y", (M, N))))
    return choose(sm, around, Product(Gemm(1, M, N, K, "a", "b"), "fp16", a, b, y), "y", "l2").best.seconds


@cache
def vidur() -> list[tuple[Shape, float]]:
    """Shapes in the order of the file, each with the median of its times, s."""
    found: dict[Shape, list[float]] = {}
    with VIDUR.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if "A100" in row["device"]:
                shape = int(row["M"]), int(row["N"]), int(row["K"])
                found.setdefault(shape, []).append(float(row["time_us"]) * 1e-6)
    return [(shape, float(np.median(times))) for shape, times in found.items()]


def ratios(rows: list[tuple[Shape, float]]) -> Floats:
    """Estimated over measured time."""
    return np.array([seconds(*shape) / measured for shape, measured in rows])


def test_shapes_that_were_not_fitted_are_as_far_off_as_the_spec_says() -> None:
    rows = vidur()
    order = np.random.default_rng(0).permutation(len(rows))  # the first 300 were fitted
    errors = np.abs(ratios([rows[index] for index in order[400:1000:3]]) - 1)
    assert len(rows) == 2574
    assert errors.mean() == pytest.approx(0.061, abs=0.006)
    assert np.median(errors) == pytest.approx(0.047, abs=0.006)
    assert np.percentile(errors, 90) == pytest.approx(0.132, abs=0.012)


def test_another_a100_runs_large_products_faster_than_the_one_of_the_fit() -> None:
    with LLMCOMPASS.open(encoding="utf-8") as file:
        read = [{key: float(row[key]) for key in ("M", "N", "K", "time_us")} for row in csv.DictReader(file)]
    rows = [((int(row["M"]), int(row["N"]), int(row["K"])), row["time_us"] * 1e-6) for row in read]
    large = ratios([row for row in rows if row[1] > 500e-6])
    assert large.min() > 1.10 and large.max() < 1.22
    small = ratios([row for row in rows if row[1] < 50e-6])
    assert small.max() < 0.7
