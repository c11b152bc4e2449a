"""One value in one format, as data: its code bit by bit, its neighbours, what rounding loses."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from accelsim.formats import codec
from accelsim.formats.table import Format, get


@dataclass(frozen=True)
class Field:
    """Bits of a code and their meaning."""

    name: str
    bits: str
    meaning: str


@dataclass(frozen=True)
class Description:
    """A value rounded to a format; ``below`` and ``above`` are the neighbours of what it is ``rounded`` to.

    ``kind`` says what it became: 'normal', 'subnormal', 'zero', 'infinity', 'NaN', 'integer', 'sign', 'power of
    two'. Errors are None where they are not finite, ``relative_error`` also for the value 0.
    """

    format: str
    value: float
    rounding: str
    overflow: str
    rounded: float
    code: int
    fields: tuple[Field, ...]
    kind: str
    saturated: bool
    below: float | None
    above: float | None
    absolute_error: float | None
    relative_error: float | None

    @property
    def bits(self) -> str:
        """The code in bits, fields apart."""
        return " ".join(each.bits for each in self.fields)


def describe(value: float, name: str, rounding: str = "rne", overflow: str | None = None, seed: int = 0) -> Description:
    """Return what becomes of ``value`` in the format ``name``; parameters and errors are those of ``codec.cast``."""
    code = int(codec.encode(np.float64(value), name, rounding, overflow, seed))
    row = get(name)
    rounded = value_of(code, row)
    error = abs(rounded - value) if math.isfinite(rounded) and math.isfinite(value) else None
    fields, kind = _fields(_short(code, row), row)
    return Description(
        row.name, value, rounding, overflow or row.overflow, rounded, code, fields, kind,
        saturated=abs(value) > abs(rounded) and rounded in _limits(row),
        below=neighbour(rounded, row, -1), above=neighbour(rounded, row, 1), absolute_error=error,
        relative_error=error / abs(value) if error is not None and value else None,
    )  # fmt: skip


def _limits(row: Format) -> tuple[float, float]:
    return (row.low, row.high) if row.kind in ("int", "binary") else (row.min, row.max)


def value_of(code: int, row: Format) -> float:
    """Value of a code, as a Python number: exact, also for int64."""
    found: float = codec.decode(np.array(code, row.code_type), row.name).item()
    return found


def neighbour(value: float, row: Format, step: int) -> float | None:
    """The value ``step`` places above (or below) a value of the format; infinities count, None where nothing is."""
    if math.isnan(value):
        return None
    if row.kind in ("int", "binary"):
        moved = value + step * (2 if row.kind == "binary" else 1)
        return moved if row.low <= moved <= row.high else None
    code = _short(int(codec.encode(np.float64(value), row.name)), row)
    if row.kind == "scale":
        return value_of(code + step, row) if 0 <= code + step <= row.max_code else None
    size = code & (row.sign_code - 1)
    place = (-size if code & row.sign_code else size) + step
    if abs(place) > row.max_code + row.has_inf:
        return None
    moved_code = abs(place) | (row.sign_code if place < 0 else 0)
    return value_of(moved_code << (_spare(row)), row)


def _spare(row: Format) -> int:
    """Bits of a stored code that are always 0 (tf32: 13)."""
    return row.stored - row.bits if row.stored else 0


def _short(code: int, row: Format) -> int:
    return code >> _spare(row)


def _fields(code: int, row: Format) -> tuple[tuple[Field, ...], str]:
    """The fields of a code of ``row.bits`` bits, and the kind of its value."""
    if row.kind == "float":
        return _float_fields(code, row)
    if row.kind == "scale":
        text = "NaN: all ones" if code == 255 else f"{code} - {row.bias} = {code - row.bias}: 2^{code - row.bias}"
        return (Field("exponent", f"{code:08b}", text),), "NaN" if code == 255 else "power of two"
    if row.kind == "binary":
        return (Field("bit", str(code), "+1" if code else "-1"),), "sign"
    meaning = "two's complement" if row.signed else "plain binary"
    return (Field("integer", f"{code:0{row.bits}b}", meaning),), "integer"


def _float_fields(code: int, row: Format) -> tuple[tuple[Field, ...], str]:
    sign, size = code >> (row.bits - 1), code & (row.sign_code - 1)
    field, digits = size >> row.mantissa, size & ((1 << row.mantissa) - 1)
    kind = _kind(code, size, field, row)
    power = max(field, 1) - row.bias
    if kind in ("infinity", "NaN"):
        about = {"ieee": "all ones: not finite", "fn": "all ones", "fnuz": "the code of -0 is NaN"}[row.encoding]
        share = {"ieee": "0: infinity" if kind == "infinity" else "not 0: NaN", "fn": "all ones: NaN"}
        meaning = share.get(row.encoding, "")
    elif field:
        about = f"{field} - bias {row.bias} = {power}: factor 2^{power}"
        meaning = f"1 + {digits}/{1 << row.mantissa} = {1 + digits / (1 << row.mantissa):.10g}"
    else:
        about = f"0: subnormal, factor 2^{power} (1 - bias {row.bias})"
        meaning = f"{digits}/{1 << row.mantissa} = {digits / (1 << row.mantissa):.10g}, no leading 1"
    fields = (
        Field("sign", str(sign), "-" if sign else "+"),
        Field("exponent", f"{field:0{row.exponent}b}", about),
        Field("mantissa", f"{digits:0{row.mantissa}b}", meaning),
    )
    return fields, kind


def _kind(code: int, size: int, field: int, row: Format) -> str:
    if row.encoding == "fnuz" and code == row.sign_code:
        return "NaN"
    if size > row.max_code:
        return "infinity" if size == row.inf_code else "NaN"
    return "normal" if field else "subnormal" if size else "zero"
