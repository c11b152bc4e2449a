"""Check ``tensor-cores``: the rules of accumulation of V100, A100, H100 and H200 against outputs of these GPUs.

Whole products of cuBLAS on an H200 and an H100 come with the package; both gave the same bits. 600 random dot products
per GPU, input format and output format (Khattak, Mikaitis, arXiv:2512.07004; BSD-2) are not part of this project: they
are read where they lie next to the sources, and without them the check says so.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from accelsim.formats import codec
from accelsim.formats.dot import product
from accelsim.types import Array
from tests.validation.base import Check, check
from tests.validation.golden import golden

GPU_DOTS = Path(__file__).resolve().parents[3] / "shared" / "data" / "measured" / "tensorcore" / "gpu_dots.npz"
PRODUCTS = "tensor_cores/products.npz"
FORMATS = {"E4M3": "fp8_e4m3fn", "E5M2": "fp8_e5m2"}
WHAT = "dot products of real Tensor Cores, bit for bit"
RULE = "tensor-core-h100"
PROMOTED = "tensor-core-h100-promoted"
SLOW = "slow"
"""The way of an FP8 product without fast accumulation."""
STORED = {"tf32": "fp32"}
"""Format of operands that are rounded only as they are multiplied."""
PARTS = {"tf32_16_mm": 4, "tf32_64_mm": 32, "tf32_256_mm": 32}
"""Products of a partial sum where cuBLAS cuts K into parts and adds their sums in FP32."""


@check("tensor-cores")
def tensor_cores() -> Check:
    """Every set of outputs by the rule of its GPU; how many rows sequential FP32 would miss stands beside."""
    rows = equal = 0
    details = []
    for key in products():
        count, wrong = results(key), product_difference(key)
        rows, equal = rows + count, equal + count - wrong
        plain = count - product_difference(key, "fp32-sequential")
        details.append(f"{_title(key)}: {count - wrong:,} of {count:,} equal (sequential FP32: {plain:,})")
    if not GPU_DOTS.exists():
        missing = "not compared: other people's data (data/measured/tensorcore/gpu_dots.npz) is not here"
        details.append(missing)
        return Check("tensor-cores", WHAT, rows, equal, np.array([]), details, other_rows=missing)
    for key in sets():
        count, wrong = compared(key), difference(key)
        rows, equal = rows + count, equal + count - wrong
        plain = difference(key, "fp32-sequential")
        details.append(f"{key}: {count - wrong} of {count} rows equal (sequential FP32: {count - plain})")
    return Check("tensor-cores", WHAT, rows, equal, np.array([]), details)


def products() -> list[str]:
    """Names of the products of cuBLAS, as 'fp16_64_mm': input format, K, way ('fast', 'slow' of FP8)."""
    return [key for key in _products() if not key.endswith(("_a", "_b"))]


def results(key: str) -> int:
    """Elements of a product."""
    return int(_products()[key].size)


def product_difference(key: str, rule: str = "", every: int | None = None, rounding: str = "rne") -> int:
    """Elements of a product whose bits ``rule`` does not give; by default that of the GPU, with the parts that cuBLAS
    cuts K into (``every`` products of each). ``rounding``: of fp32 operands to tf32.
    """
    pair, way = key.rsplit("_", 1)
    fmt = pair.rsplit("_", 1)[0]
    a, b = (codec.decode(_products()[f"{pair}_{side}"], STORED.get(fmt, fmt)) for side in "ab")
    if fmt in STORED:
        a, b = codec.cast(a, fmt, rounding), codec.cast(b, fmt, rounding)
    name = rule or (PROMOTED if way == SLOW else RULE)
    parts = every if every is not None else 0 if rule else PARTS.get(key, 0)
    result = product(a, np.ascontiguousarray(b.T), name, fmt, every=parts)
    return int(np.count_nonzero(result.view(np.uint32) != _products()[key].view(np.uint32)))


def _title(key: str) -> str:
    """Return what was multiplied, in words."""
    fmt, K, way = key.rsplit("_", 2)
    added = {"fast": ", fast accumulation", SLOW: ", sums of 128 added in FP32"}.get(way, "")
    parts = f", cut into {int(K) // PARTS[key]} parts" if key in PARTS else ""
    return f"H200 and H100, {fmt}, K = {K}{added}{parts}"


def sets() -> list[str]:
    """Names of the sets, as 'A100_bf16_fp32': GPU, input format, output format."""
    return sorted(key.removesuffix("_d_gpu") for key in _data() if key.endswith("_d_gpu"))


def compared(key: str) -> int:
    """Dot products of a set."""
    return len(_data()[f"{key}_d_gpu"])


def difference(key: str, rule: str = "") -> int:
    """Rows of a set whose bits ``rule``, by default that of the GPU, does not give."""
    gpu, fmt, out = key.split("_")
    a, b, c, measured = (_data()[f"{key}_{name}"] for name in ("a", "b", "c", "d_gpu"))
    result = product(
        a[:, None, :], b[:, :, None], rule or f"tensor-core-{gpu.lower()}", FORMATS.get(fmt, fmt), out, c[:, None, None]
    )
    return int(np.count_nonzero(result[:, 0, 0].view(np.uint32) != measured.view(np.uint32)))


@cache
def _products() -> dict[str, Array]:
    with np.load(golden(PRODUCTS)) as found:
        return dict(found)


@cache
def _data() -> dict[str, Array]:
    with np.load(GPU_DOTS) as found:
        return dict(found)
