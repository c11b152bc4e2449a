"""A small GPU for tests, what is around it, and products for it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from accelsim.engines.simt.panels import Product
from accelsim.engines.simt.products import ChipRates
from accelsim.engines.simt.spec import Simt
from accelsim.workload.graph import Tensor
from accelsim.workload.ops.base import Conv, Gemm

SMALL: dict[str, Any] = {
    "type": "simt",
    "multiprocessors": 4,
    "threads": 512,
    "blocks": 8,
    "registers": "64 KiB",
    "shared": "32 KiB",
    "lanes": 16,
    "special": 4,
    "functions": {"Add": 1, "Exp": 2, "Softmax": 3, "Relu": 1},
    "formats": {
        "fp16": {"macs": 64, "accumulate": "fp32", "dot": "tensor-core-a100", "sustained": 0.5, "feed": 8, "step": 8},
        "fp32": {"macs": 16, "step": 4},
        "fp64": {"macs": 1, "clocks": 2, "accumulate": "fp64", "step": 1},
        "int8": {"macs": 64, "accumulate": "int32", "step": 4},
    },
    "tiles": [
        {"m": 64, "n": 32, "threads": 128},
        {"m": 32, "n": 32, "threads": 64},
        {"m": 32, "n": 8, "threads": 32, "step": 1},
    ],
    "stages": 2,
    "thread_registers": "128 B",
    "prologue": 20,
    "epilogue": 30,
    "launch": "1 us",
}  # fmt: skip
GPU = Simt.model_validate(SMALL)
AROUND = ChipRates(clock_Hz=1e9, l2_B=1 << 16, l2_width_B=Fraction(256), dram_Bps=64e9)


def product(
    M: int,
    N: int,
    K: int,
    name: str = "fp16",
    groups: int = 1,
    lane_clocks: int = 0,
    special: int = 0,
    channels: int = 0,
    sparse: tuple[int, int] = (1, 1),
) -> Product:
    """A product whose operands lie in memory in its format; with ``channels`` a convolution of 3 x 3, M a square."""
    conv = None
    activations: tuple[int, ...] = (groups, M, K)
    if channels:
        side = round(M**0.5)
        conv = Conv(1, channels, side, side, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), (side, side))
        activations = (1, groups * channels, side, side)
    gemm = Gemm(groups, M, N, K, "a", "b", conv)
    a, b = Tensor("a", activations, name), Tensor("b", (groups, K, N), name)
    return Product(gemm, name, a, b, Tensor("y", (groups, M, N), name), (), lane_clocks, special, sparse)
