"""Time of a product on a chip with its operands in the chip's memory, which several lessons measure."""

from __future__ import annotations

from functools import cache

from accelsim import run
from accelsim.time import FS_PER_S

LINKS = ("host_in", "host_out")
"""Engines that move data to and from the host."""


@cache
def product_s(chip: str, M: int, K: int, N: int, dtype: str, sparsity: str = "") -> float:
    """Seconds of A [M, K] times B [K, N], simulated, from the first load of an operand (or the launch of a kernel) to
    the last result in the memory of the chip: without conversions and the way to the host and back."""
    done = run(f"gemm?M={M},N={N},K={K}", chip, dtype=dtype, values="off", edges="outside", sparsity=sparsity)
    own = [piece for piece in done.slices if piece.engine not in LINKS and "quantize" not in piece.label]
    begun = min(piece.start for piece in own if not piece.label.startswith("store"))
    ended = max(piece.end for piece in own if not piece.label.startswith("load"))
    return (ended - begun) / FS_PER_S
