"""How libraries convert float32: for each source and format the overflow, the NaN and the quirks, bit for bit.

Sources: ml_dtypes 0.6.0 (fp16: NumPy 2.4.6), PyTorch 2.13.0 (CPU, vector path), ONNX Runtime 1.31.1 (Cast with
attribute saturate 1 or 0), observed on seeded values with every edge among them; TF32 by its definition, because
no library stores it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from accelsim.errors import Problem, UsageError, nearest
from accelsim.formats import codec
from accelsim.formats.table import Format, get
from accelsim.types import Array


def _top_bits(x: Array, row: Format) -> tuple[Array, Array]:
    """Sign and highest mantissa bits of NaNs, as codes: (signed infinity, payload)."""
    patterns = x.view(np.uint32)
    sign = (patterns >> 31 << (row.bits - 1)).astype(np.int64)
    return sign + (row.inf_code or 0), (patterns & 0x7FFFFF).astype(np.int64) >> (23 - row.mantissa)


def _kept(x: Array, row: Format) -> Array:
    """The payload as far as it fits; 1 when nothing of it does, so that it stays NaN."""
    inf, payload = _top_bits(x, row)
    return inf | np.maximum(payload, 1)


def _quieted(x: Array, row: Format) -> Array:
    """The payload as far as it fits, made quiet."""
    inf, payload = _top_bits(x, row)
    return inf | payload | 1 << (row.mantissa - 1)


def _ones(x: Array, row: Format) -> Array:
    """All ones behind the sign."""
    return np.where(np.signbit(x), 2 * row.sign_code - 1, row.sign_code - 1)


def _all_ones(x: Array, row: Format) -> Array:
    return np.full(x.shape, 2 * row.sign_code - 1)


def _unchanged(x: Array, row: Format) -> Array:
    return x.view(np.uint32)


NANS: dict[str, Callable[[Array, Format], Array]] = {
    "payload": _kept, "quiet payload": _quieted, "ones": _ones, "all ones": _all_ones, "unchanged": _unchanged,
}  # fmt: skip
"""Rule for NaN -> codes of NaN inputs; the rule '' is the codec's: the quiet NaN of the same sign."""


@dataclass(frozen=True)
class Rule:
    """How one source converts to one format; ``quirks``: (from, below, code) of magnitudes with codes of their own."""

    overflow: str | None = None
    nan: str = ""
    rounding: str = "rne"
    quirks: tuple[tuple[float, float, int], ...] = ()


PLAIN = Rule()
OVER_448 = ((480.0, 496.0, 0x7E),)
"""ONNX Runtime without saturation: 480 <= |x| < 496 becomes 448, all else beyond 464 NaN."""
OVER_57344 = ((61440.0, 65536.0, 0x7F),)
"""ONNX Runtime without saturation: 61440 <= |x| < 65536 becomes NaN, all else beyond infinity."""

_ML_DTYPES = {
    "fp16": Rule(nan="payload"), "bf16": PLAIN, "fp8_e4m3fn": Rule("nan"), "fp8_e5m2": PLAIN,
    "fp8_e4m3fnuz": PLAIN, "fp8_e5m2fnuz": PLAIN, "fp8_e4m3": PLAIN, "fp8_e3m4": PLAIN, "fp6_e2m3fn": PLAIN,
    "fp6_e3m2fn": PLAIN, "fp4_e2m1fn": PLAIN, "e8m0": PLAIN,
}  # fmt: skip
_TORCH = {
    "fp16": Rule(nan="quiet payload"), "bf16": Rule(nan="all ones"), "fp8_e4m3fn": Rule("saturate"),
    "fp8_e5m2": Rule(nan="ones"), "fp8_e4m3fnuz": PLAIN, "fp8_e5m2fnuz": PLAIN,
}  # fmt: skip
_ORT = {"fp16": Rule(nan="quiet payload"), "bf16": PLAIN}
_SATURATE_1 = {
    "fp8_e4m3fn": Rule("saturate"), "fp8_e5m2": Rule("saturate", nan="ones"),
    "fp8_e4m3fnuz": Rule("saturate"), "fp8_e5m2fnuz": Rule("saturate"),
}  # fmt: skip
_SATURATE_0 = {
    "fp8_e4m3fn": Rule("nan", quirks=OVER_448), "fp8_e5m2": Rule(nan="ones", quirks=OVER_57344),
    "fp8_e4m3fnuz": PLAIN, "fp8_e5m2fnuz": PLAIN,
}  # fmt: skip

POLICIES: dict[str, dict[str, Rule]] = {
    "ml_dtypes": _ML_DTYPES,
    "torch": _TORCH,
    "ort-saturate1": _ORT | _SATURATE_1,
    "ort-saturate0": _ORT | _SATURATE_0,
    **{f"tf32 {name}": {"tf32": Rule(nan="unchanged", rounding=name)} for name in ("rne", "rna", "rz")},
}
"""Source -> format -> rule."""


def rule(name: str, policy: str) -> Rule:
    """The rule of a source for a format. Raises UsageError for an unknown one, or one that has no such format."""
    row = get(name)
    if policy not in POLICIES:
        near = nearest(policy, POLICIES)
        raise UsageError(Problem(f"no conversion policy {policy!r}", "", "one of " + ", ".join(POLICIES), near))
    found = POLICIES[policy].get(row.name)
    if found is None:
        having = [each for each, rules in POLICIES.items() if row.name in rules]
        expected = f"one of {', '.join(having)}" if having else "accelsim.formats.codec"
        raise UsageError(Problem(f"policy {policy!r} has no {row.name}", "", expected))
    return found


def encode(x: ArrayLike, name: str, policy: str) -> Array:
    """Codes of float32 ``x`` as the source ``policy`` makes them, NaN payloads included; the shape of ``x``.

    Raises UsageError as ``rule`` does.
    """
    row, how = get(name), rule(name, policy)
    values = np.ascontiguousarray(x, np.float32)
    codes = codec.encode(values, name, how.rounding, how.overflow)
    for low, high, code in how.quirks:
        inside = (np.abs(values) >= low) & (np.abs(values) < high)
        codes = np.where(inside, code + row.sign_code * np.signbit(values), codes).astype(codes.dtype)
    unknown = np.isnan(values)
    if how.nan and unknown.any():
        codes[unknown] = NANS[how.nan](values[unknown], row)
    return codes.reshape(np.shape(x))


def cast(x: ArrayLike, name: str, policy: str) -> Array:
    """Values (float32) of ``encode``; raises UsageError as it does."""
    return codec.decode(encode(x, name, policy), name)
