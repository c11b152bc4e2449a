"""A small GPU for tests, and what is around it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from accelsim.engines.simt.kernels import Around
from accelsim.engines.simt.spec import Simt

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
AROUND = Around(clock_Hz=1e9, l2_B=1 << 16, l2_width_B=Fraction(256), dram_Bps=64e9)


def changed(**fields: Any) -> Simt:
    """The same with other fields."""
    return Simt.model_validate(SMALL | fields)
