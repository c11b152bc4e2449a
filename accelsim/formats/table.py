"""The table of number formats: one row per format, everything else about it is derived.

A float format is exponent bits, mantissa bits, a bias and one of four encodings of what is not finite:

* ``ieee``: the highest exponent holds infinities and NaNs (IEEE 754-2019, section 3.4);
* ``fn``: finite, only the code of all ones is NaN (OCP 8-bit Floating Point Specification 1.0, 2023, E4M3);
* ``fnuz``: finite, the code of negative zero is the one NaN, zero is unsigned (Noune et al., arXiv:2206.02915);
* ``finite``: neither infinity nor NaN (OCP Microscaling Formats Specification 1.0, 2023, FP6 and FP4).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from math import ldexp
from typing import Any

import numpy as np

from accelsim.digits import whole
from accelsim.errors import UsageError, nearest

OVERFLOWS: dict[str, tuple[str, ...]] = {
    "ieee": ("inf", "nan", "saturate"),
    "fn": ("saturate", "nan"),
    "fnuz": ("nan", "saturate"),
    "finite": ("saturate",),
}
"""Encoding -> the overflow policies it can express, the default first."""

CONFIGURABLE = re.compile(r"fp([0-9]+)_e([0-9]+)m([0-9]+)(?:b(-?[0-9]+))?(fnuz|fn)?")
"""Names of floats that need no row: ``fp8_e5m2b20`` is 5 exponent bits, 2 mantissa bits, bias 20."""


@dataclass(frozen=True)
class Format:
    """One number format.

    ``kind`` is 'float', 'int', 'binary', 'scale' (a power of two) or 'block' (elements that share a scale);
    ``bits`` are those of a code, ``stored`` those it takes in memory. ``element``, ``block`` and ``scale``
    are set for blocks only, whose ``emax`` is the exponent of the largest element (OCP MX 1.0, section 6.3).
    Values of a block format (``max`` ...) are those of its elements, in units of the block's scale.
    """

    name: str
    kind: str
    bits: int
    exponent: int = 0
    mantissa: int = 0
    bias: int = 0
    signed: bool = True
    encoding: str = ""
    title: str = ""
    used: str = ""
    source: str = ""
    stored: int = 0
    element: str = ""
    block: int = 0
    scale: str = ""
    unit: float = 1.0

    @property
    def codes(self) -> int:
        """Number of codes of one value (of one element of a block)."""
        return 1 << (get(self.element).bits if self.element else self.bits)

    @property
    def storage_bits(self) -> float:
        """Bits per value in memory: packed, with the share of a block's scale; tf32 takes 32."""
        if self.element:
            return get(self.element).bits + get(self.scale).bits / self.block
        return self.stored or self.bits

    @property
    def container(self) -> type[np.generic]:
        """NumPy type of arrays that hold values of this format."""
        if self.kind == "float" and self.bits == 64:
            return np.float64
        if self.kind not in ("int", "binary"):
            return np.float32
        size = next(size for size in (8, 16, 32, 64) if self.bits <= size)
        found: type[np.generic] = np.dtype(f"{'' if self.signed else 'u'}int{size}").type
        return found

    @property
    def code_type(self) -> type[np.unsignedinteger[Any]]:
        """NumPy type of arrays that hold codes: the smallest unsigned one; uint32 for tf32."""
        bits = self.stored or (get(self.element).bits if self.element else self.bits)
        size = next(size for size in (8, 16, 32, 64) if bits <= size)
        found: type[np.unsignedinteger[Any]] = np.dtype(f"uint{size}").type
        return found

    @property
    def overflows(self) -> tuple[str, ...]:
        """Return what may become of a value beyond the largest: 'inf', 'nan', 'saturate'; the default first."""
        if self.element:
            return ("saturate",)
        return OVERFLOWS.get(self.encoding, ("nan", "saturate") if self.kind == "scale" else ("saturate",))

    @property
    def overflow(self) -> str:
        """The default overflow policy."""
        return self.overflows[0]

    @property
    def low(self) -> int:
        """Lowest value of an integer or binary format."""
        return 0 if not self.signed else -1 if self.kind == "binary" else -(1 << (self.bits - 1))

    @property
    def high(self) -> int:
        """Highest value of an integer or binary format."""
        return 1 if self.kind == "binary" else (1 << (self.bits - self.signed)) - 1

    @property
    def has_inf(self) -> bool:
        """Return whether there are codes for the infinities."""
        return self.encoding == "ieee"

    @property
    def has_nan(self) -> bool:
        """Return whether there is a code for NaN."""
        return self.encoding in ("ieee", "fn", "fnuz") or self.kind == "scale"

    @property
    def has_negative_zero(self) -> bool:
        """Return whether zero has a sign."""
        return self.kind == "float" and self.encoding != "fnuz"

    @property
    def sign_code(self) -> int:
        """Weight of the sign bit in a code."""
        return 1 << (self.bits - 1)

    @property
    def max_code(self) -> int:
        """Code of the largest finite value."""
        if self.kind == "float":
            last = self.sign_code - 1
            missing = {"ieee": 1 << self.mantissa, "fn": 1}.get(self.encoding, 0)
            return last - missing
        return 254 if self.kind == "scale" else 1 if self.kind == "binary" else self.high

    @property
    def inf_code(self) -> int | None:
        """Code of +infinity, None where there is none."""
        return self.max_code + 1 if self.has_inf else None

    @property
    def nan_codes(self) -> tuple[int, int] | None:
        """Codes of the quiet NaN with sign 0 and sign 1 (equal where there is one NaN); None without NaN."""
        if not self.has_nan:
            return None
        if self.kind == "scale":
            return 255, 255
        if self.encoding == "fnuz":
            return self.sign_code, self.sign_code
        code = self.sign_code - 1 if self.encoding == "fn" else self.max_code + 1 + (1 << self.mantissa - 1)
        return code, code + self.sign_code

    @property
    def emax(self) -> int:
        """Exponent of the largest finite value: max = m * 2^emax with 1 <= m < 2."""
        if self.element:
            return get(self.element).emax + int(np.log2(self.unit))
        if self.kind == "float":
            return (self.max_code >> self.mantissa) - self.bias
        return 127 if self.kind == "scale" else self.high.bit_length() - 1

    @property
    def max(self) -> float:
        """Largest finite value."""
        if self.element:
            return get(self.element).max * self.unit
        if self.kind == "float":
            fraction = self.max_code & ((1 << self.mantissa) - 1)
            return ldexp((1 << self.mantissa) + fraction, self.emax - self.mantissa)
        return ldexp(1.0, 127) if self.kind == "scale" else float(self.high)

    @property
    def min(self) -> float:
        """Lowest finite value (for e8m0, which has neither sign nor zero, the smallest)."""
        if self.element:
            return get(self.element).min * self.unit
        return {"float": -self.max, "scale": ldexp(1.0, -127)}.get(self.kind, float(self.low))

    @property
    def min_normal(self) -> float:
        """Smallest positive value with the full precision; 1 for integers."""
        if self.element:
            return get(self.element).min_normal * self.unit
        return {"float": ldexp(1.0, 1 - self.bias), "scale": ldexp(1.0, -127)}.get(self.kind, 1.0)

    @property
    def min_subnormal(self) -> float:
        """Smallest positive value; 1 for integers."""
        if self.element:
            return get(self.element).min_subnormal * self.unit
        return ldexp(self.min_normal, -self.mantissa)

    @property
    def epsilon(self) -> float:
        """Gap between 1 and the next larger value."""
        return get(self.element).epsilon * self.unit if self.element else ldexp(1.0, -self.mantissa)


IEEE = "IEEE 754-2019, table 3.5"
OCP8 = "OCP 8-bit Floating Point Specification 1.0 (2023)"
MX = "OCP Microscaling Formats (MX) Specification 1.0 (2023)"
FNUZ = "Noune et al., arXiv:2206.02915"
TWOS = "two's complement"


def _float(
    name: str, exponent: int, mantissa: int, encoding: str, title: str, used: str, source: str, stored: int = 0
) -> Format:
    bias = (1 << exponent - 1) - (encoding != "fnuz")
    bits = 1 + exponent + mantissa
    return Format(name, "float", bits, exponent, mantissa, bias, True, encoding, title, used, source, stored)


def _int(bits: int, signed: bool, used: str) -> Format:
    title = f"{bits}-bit {'signed' if signed else 'unsigned'} integer"
    name, source = f"{'' if signed else 'u'}int{bits}", TWOS if signed else "plain binary"
    return Format(name, "int", bits, signed=signed, title=title, used=used, source=source)


def _block(name: str, element: str, title: str, unit: float = 1.0) -> Format:
    used = "weights and activations of inference and training, hardware since 2024"
    return Format(
        name, "block", 0, title=title, used=used, source=f"{MX}, table 1", element=element, block=32,
        scale="e8m0", unit=unit,
    )  # fmt: skip


_ROWS = (
    _float("fp64", 11, 52, "ieee", "double precision", "reference results, scientific computing", IEEE),
    _float("fp32", 8, 23, "ieee", "single precision", "training, accumulators, master weights", IEEE),
    _float("tf32", 8, 10, "ieee", "TensorFloat-32: range of fp32, precision of fp16",
           "inputs of Tensor Cores since A100", "NVIDIA A100 architecture whitepaper (2020)", 32),
    _float("fp16", 5, 10, "ieee", "half precision", "mixed-precision training, inference", IEEE),
    _float("bf16", 8, 7, "ieee", "brain float: the upper half of fp32", "TPU since v2, training everywhere",
           "Google Cloud, 'BFloat16: the secret to high performance on Cloud TPUs' (2019)"),
    _float("fp8_e4m3fn", 4, 3, "fn", "8-bit float, more precision", "weights and activations (forward pass)",
           f"{OCP8}, table 1; Micikevicius et al., arXiv:2209.05433"),
    _float("fp8_e5m2", 5, 2, "ieee", "8-bit float, more range: the upper half of fp16",
           "gradients (backward pass)", f"{OCP8}, table 1; Micikevicius et al., arXiv:2209.05433"),
    _float("fp8_e4m3fnuz", 4, 3, "fnuz", "8-bit float with one NaN and unsigned zero", "AMD MI300, Graphcore",
           FNUZ),
    _float("fp8_e5m2fnuz", 5, 2, "fnuz", "8-bit float with one NaN and unsigned zero", "AMD MI300, Graphcore",
           FNUZ),
    _float("fp8_e4m3", 4, 3, "ieee", "8-bit float with infinities", "one choice of cFP8 (recalled)",
           "ml_dtypes float8_e4m3"),
    _float("fp8_e3m4", 3, 4, "ieee", "8-bit float, most precision", "one choice of cFP8 (recalled)",
           "ml_dtypes float8_e3m4"),
    _float("fp6_e2m3fn", 2, 3, "finite", "6-bit float, more precision", "elements of MX blocks", MX),
    _float("fp6_e3m2fn", 3, 2, "finite", "6-bit float, more range", "elements of MX blocks", MX),
    _float("fp4_e2m1fn", 2, 1, "finite", "4-bit float: 0, 0.5, 1, 1.5, 2, 3, 4, 6", "elements of MX blocks", MX),
    Format("e8m0", "scale", 8, 8, 0, 127, False, "", "a power of two, 2^-127 to 2^127", "scales of MX blocks", MX),
    _int(64, True, "indices, sizes"),
    _int(32, True, "accumulators of integer products, biases"),
    _int(16, True, "activations where 8 bits are too few"),
    _int(8, True, "quantised weights and activations"),
    _int(4, True, "quantised weights"),
    _int(2, True, "quantised weights"),
    _int(16, False, "sensor data"),
    _int(8, False, "quantised activations, pixels"),
    _int(4, False, "quantised weights with a zero point"),
    _int(2, False, "quantised weights with a zero point"),
    Format("int1", "binary", 1, title="binary: -1 or +1", used="binary networks",
           source="Rastegari et al., XNOR-Net, arXiv:1603.05279"),
    _block("mxfp8_e4m3", "fp8_e4m3fn", "blocks of 32 fp8_e4m3fn with one scale"),
    _block("mxfp8_e5m2", "fp8_e5m2", "blocks of 32 fp8_e5m2 with one scale"),
    _block("mxfp6_e2m3", "fp6_e2m3fn", "blocks of 32 fp6_e2m3fn with one scale"),
    _block("mxfp6_e3m2", "fp6_e3m2fn", "blocks of 32 fp6_e3m2fn with one scale"),
    _block("mxfp4", "fp4_e2m1fn", "blocks of 32 fp4_e2m1fn with one scale"),
    _block("mxint8", "int8", "blocks of 32 int8 / 64 with one scale", 1 / 64),
)  # fmt: skip

FORMATS: dict[str, Format] = {row.name: row for row in _ROWS}
"""Every format with a name of its own."""

FP4 = "fp4_e2m1fn"
FP4_BLOCKS: dict[str, int] = {"nvfp4": 16, "mxfp4": 32}
"""Format of blocks of ``FP4`` -> elements that share a scale of one byte."""
ALIASES: dict[str, str] = {
    "double": "fp64", "float64": "fp64", "single": "fp32", "float": "fp32", "float32": "fp32",
    "tensorfloat32": "tf32", "half": "fp16", "float16": "fp16", "bfloat16": "bf16",
    "fp8": "fp8_e4m3fn", "fp6": "fp6_e3m2fn", "fp4": "fp4_e2m1fn", "mxfp8": "mxfp8_e4m3", "mxfp6": "mxfp6_e3m2",
    "mxfp4_e2m1": "mxfp4", "binary": "int1", "cfp8_e4m3": "fp8_e4m3", "cfp8_e5m2": "fp8_e5m2",
    "cfp8_e3m4": "fp8_e3m4", "float8_e8m0fnu": "e8m0",
    **{f"float{name[2:]}": name for name in FORMATS if re.match(r"fp\d_", name)},
}  # fmt: skip
"""Other names; those of ml_dtypes and PyTorch among them. That Trainium's cFP8 is a choice of these three
formats, with infinities, is recalled."""


@lru_cache(maxsize=1024)
def get(name: str) -> Format:
    """The format of a name, an alias, or a configurable float ``fp{bits}_e{E}m{M}[b{bias}][fn|fnuz]``.

    Without a suffix a configurable float is encoded as IEEE does; ``fn`` below 8 bits has no NaN at all. The
    bias is that of IEEE (2^(E-1) - 1; fnuz: 2^(E-1)) unless given. Raises UsageError for an unknown name
    (with the nearest one) and for a float whose values float32 cannot hold.
    """
    row = FORMATS.get(ALIASES.get(name, name))
    if row is not None:
        return row
    match = CONFIGURABLE.fullmatch(name)
    if match is not None:
        return _configured(name, match)
    expected = "one of " + ", ".join(FORMATS) + ", or a float such as fp8_e5m2b20"
    near = nearest(name, [*FORMATS, *ALIASES])
    raise UsageError(f"{name!r} is not a number format", "", expected, near)


def _configured(name: str, match: re.Match[str]) -> Format:
    """A float of any exponent, mantissa and bias that fits float32."""
    bits, exponent, mantissa = (whole(text) or 0 for text in match.groups()[:3])
    encoding = match[5] or "ieee"
    if encoding == "fn" and bits < 8:
        encoding = "finite"
    least = 2 if encoding == "ieee" else 1
    sign, digits = (-1, match[4][1:]) if (match[4] or "").startswith("-") else (1, match[4])
    size = whole(digits) if digits else 0
    stated = None if size is None else sign * size
    if stated is None or bits != 1 + exponent + mantissa or not (least <= exponent <= 8 and 1 <= mantissa <= 23):
        expected = f"bits = 1 + E + M, {least} <= E <= 8, 1 <= M <= 23"
        raise UsageError(f"{name!r} is no possible float", "", expected)
    bias = stated if match[4] else (1 << exponent - 1) - (encoding != "fnuz")
    title = f"float with {exponent} exponent bits, {mantissa} mantissa bits and bias {bias}"
    found = Format(
        name, "float", bits, exponent, mantissa, bias, True, encoding, title, "configured by its name",
        "as IEEE 754-2019, section 3.4",
    )  # fmt: skip
    if found.emax > 127 or 1 - bias - mantissa < -149:
        expected = "values from 2^-149 to below 2^128, which float32 holds"
        raise UsageError(f"{name!r} reaches beyond float32", "", expected)
    return found


def bytes_of(name: str) -> float:
    """Bytes per value in memory: 0.5 for int4, 4 for tf32, 0.125 for int1; blocks include their scale.

    Raises UsageError as ``get`` does.
    """
    return get(name).storage_bits / 8
