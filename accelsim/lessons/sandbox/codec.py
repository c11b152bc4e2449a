"""Values as one line of JSON, and back: numbers, texts, lists, tables, arrays. Nothing that could run."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np


class Unsendable(TypeError):
    """A value of a type that has no line of JSON."""


def encode(value: Any) -> str:
    """One line. Raises Unsendable."""
    return json.dumps(_plain(value), separators=(",", ":"))


def decode(line: str) -> Any:
    """The value of a line. Raises ValueError for a line that ``encode`` cannot have made."""
    try:
        return _value(json.loads(line))
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"no value: {error}") from None


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, float | np.floating):
        return {"float": float(value).hex()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, tuple):
        return {"tuple": [_plain(each) for each in value]}
    if isinstance(value, dict):
        return {"dict": [[_plain(key), _plain(each)] for key, each in value.items()]}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {"array": [value.dtype.str, list(value.shape), data]}
    kind = "an array of objects" if isinstance(value, np.ndarray) else type(value).__name__
    raise Unsendable(f"{kind} is neither a number, a text, a list, a tuple, a dict nor an array of numbers")


def _value(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_value(each) for each in plain]
    if not isinstance(plain, dict):
        return plain
    ((kind, inner),) = plain.items()
    return _KINDS[kind](inner)


def _array(inner: Any) -> Any:
    dtype, shape, data = inner
    kind = np.dtype(dtype)
    if kind.kind not in "biuf":
        raise ValueError(f"an array of {kind}")
    return np.frombuffer(base64.b64decode(data), kind).reshape(shape).copy()


_KINDS: dict[str, Any] = {
    "float": float.fromhex,
    "tuple": lambda inner: tuple(_value(each) for each in inner),
    "dict": lambda inner: {_key(_value(key)): _value(each) for key, each in inner},
    "array": _array,
}


def _key(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
