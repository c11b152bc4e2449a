"""Check ``tensor-cores``: the accumulation rules of V100, A100 and H100 against outputs of these GPUs.

600 random dot products per GPU, input format and output format (Khattak, Mikaitis, arXiv:2512.07004; BSD-2). The data
is not part of this project: it is read where it lies next to the sources, and without it the check compares nothing.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from accelsim.formats.dot import product
from accelsim.types import Array
from accelsim.validate.base import Check, check

GPU_DOTS = (
    Path(__file__).resolve().parents[3] / "shared" / "data" / "measured" / "tensorcore" / "gpu_dots.npz"
)
FORMATS = {"E4M3": "fp8_e4m3fn", "E5M2": "fp8_e5m2"}
WHAT = "dot products of real Tensor Cores, bit for bit"


@check("tensor-cores")
def tensor_cores() -> Check:
    """Every set of outputs by the rule of its GPU; how many rows sequential FP32 would miss stands beside."""
    if not GPU_DOTS.exists():
        missing = "nothing compared: the measured data (data/measured/tensorcore/gpu_dots.npz) is not here"
        return Check("tensor-cores", WHAT, 0, 0, np.array([]), [missing])
    rows = equal = 0
    details = []
    for key in sets():
        count, wrong = compared(key), difference(key)
        rows, equal = rows + count, equal + count - wrong
        plain = difference(key, "fp32-sequential")
        details.append(f"{key}: {count - wrong} of {count} rows equal (sequential FP32: {count - plain})")
    return Check("tensor-cores", WHAT, rows, equal, np.array([]), details)


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
        a[:, None, :],
        b[:, :, None],
        rule or f"tensor-core-{gpu.lower()}",
        FORMATS.get(fmt, fmt),
        out,
        c[:, None, None],
    )
    return int(np.count_nonzero(result[:, 0, 0].view(np.uint32) != measured.view(np.uint32)))


@cache
def _data() -> dict[str, Array]:
    with np.load(GPU_DOTS) as found:
        return dict(found)
