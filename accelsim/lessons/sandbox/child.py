"""The process that a student's file runs in: ``python child.py SETTINGS`` (JSON), and the values that go in and out.

The process needs Python's library only, so it starts fast and no other file of accelsim has to be visible to it. It
reads one question a line from its standard input and answers each with one line of JSON on what was its standard
output. What the student's code prints goes to standard error. The process knows no expected answer.
"""

from __future__ import annotations

import base64
import json
import math
import os
import sys
import traceback
from contextlib import suppress
from typing import Any, TextIO

MOST_B = 1 << 20
"""Length of an answer, bytes."""
MOST_BITS = 128
"""Length of a whole number in an answer."""
MOST_KEYS = 10_000
"""Entries of one dictionary in an answer."""
MOST_NAMES = 200
"""Names of the student's file that are listed where one is missing."""


class Unsendable(TypeError):
    """A value of a type or size that no lesson asks for."""


def encode(value: Any) -> str:
    """Return a value as one line of JSON, at most ``MOST_B`` long. Raises Unsendable."""
    try:
        line = json.dumps(_plain(value), separators=(",", ":"))
    except RecursionError:
        raise Unsendable("a list in a list in a list, too deep to be sent") from None
    if len(line) > MOST_B:
        raise Unsendable(f"a {type(value).__name__} that takes more than {MOST_B >> 20} MiB as text")
    return line


def decode(line: bytes) -> Any:
    """Return the value of a line. Raises ValueError for a line that ``encode`` cannot have made."""
    if len(line) > MOST_B + 1:
        raise ValueError(f"more than {MOST_B} B")
    try:
        return _value(json.loads(line))
    except (ArithmeticError, AttributeError, KeyError, RecursionError, TypeError) as error:
        raise ValueError(f"not a value: {error}") from None


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        if len(value) > MOST_B:
            raise Unsendable(f"a text of {len(value):,} characters")
        return str(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic) and value.dtype.kind in "biuf":
        value = value.item() if value.dtype.kind != "f" else float(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        if value.bit_length() > MOST_BITS:
            raise Unsendable(
                f"a whole number of {value.bit_length():,} bits; at most {MOST_BITS} can be right"
            )
        return int(value)
    if isinstance(value, float):
        return {"float": float(value).hex()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, tuple):
        return {"tuple": [_plain(each) for each in value]}
    if isinstance(value, dict):
        if len(value) > MOST_KEYS:
            raise Unsendable(f"a dict of {len(value):,} entries")
        return {"dict": [[_plain(key), _plain(each)] for key, each in value.items()]}
    if numpy is not None and isinstance(value, numpy.ndarray) and value.dtype.kind in "biuf":
        data = base64.b64encode(numpy.ascontiguousarray(value).tobytes()).decode()
        return {"array": [value.dtype.str, list(value.shape), data]}
    kind = "an array of objects" if type(value).__name__ == "ndarray" else type(value).__name__
    raise Unsendable(f"{kind} is neither a number, a text, a list, a tuple, a dict nor an array of numbers")


def _value(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_value(each) for each in plain]
    if isinstance(plain, int) and plain.bit_length() > MOST_BITS:
        raise ValueError("a whole number that is too long")
    if isinstance(plain, float):
        raise ValueError("a number that encode writes in another way")
    if not isinstance(plain, dict):
        return plain
    ((kind, inner),) = plain.items()
    return _KINDS[kind](inner)


def _array(inner: Any) -> Any:
    import numpy as np

    dtype, shape, data = inner
    kind = np.dtype(dtype)
    if kind.kind not in "biuf" or not all(type(extent) is int and extent >= 0 for extent in shape):
        raise ValueError(f"an array of {kind}")
    content = base64.b64decode(data)
    if len(content) != math.prod(shape) * kind.itemsize:
        raise ValueError(f"an array of {len(content)} B")
    return np.frombuffer(content, kind).reshape(shape).copy()


def _dict(inner: Any) -> dict[Any, Any]:
    if len(inner) > MOST_KEYS:  # keys can be chosen so that each is compared with all others
        raise ValueError(f"a dictionary of {len(inner)} entries")
    return {_value(key): _value(each) for key, each in inner}


_KINDS: dict[str, Any] = {
    "float": float.fromhex,
    "tuple": lambda inner: tuple(_value(each) for each in inner),
    "dict": _dict,
    "array": _array,
}


def main(settings: dict[str, Any]) -> None:
    """Say that the process is ready, load the file that comes first, answer until the questions end."""
    questions, answers = _streams()
    sys.path[:] = [place for place in sys.path if place] + settings["site"]
    _restrict(settings["limits"])
    sys.modules["accelsim"] = None  # type: ignore[assignment]  # so that the import fails wherever it is checked
    _send(answers, encode({"ok": None}))
    name, source = decode(questions.readline().encode())
    known: dict[str, Any] = {"__name__": "lesson", "__file__": name}
    try:
        exec(compile(source, name, "exec"), known)
    except BaseException as error:
        _send(answers, encode({"error": _raised(error, name)}))
        return
    _send(answers, encode({"ok": None}))
    for line in questions:
        _send(answers, _answer(decode(line.encode()), known, name))


def _streams() -> tuple[TextIO, TextIO]:
    """Return questions and answers on streams of their own; the student's code reads nothing and prints to stderr."""
    questions, answers = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    return os.fdopen(questions, encoding="ascii"), os.fdopen(answers, "w", encoding="ascii")


def _restrict(limits: dict[str, int]) -> None:
    """Set limits (the end of their names in ``resource`` -> value) that this process cannot raise again."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    for name, value in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(kind)[1]
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (most, most))


def _send(answers: TextIO, line: str) -> None:
    with suppress(Exception):  # the student's code may have closed it, or put anything in its place
        sys.stdout.flush()
    answers.write(line + "\n")
    answers.flush()


def _answer(question: dict[str, Any], known: dict[str, Any], name: str) -> str:
    wanted = question["name"]
    try:
        if wanted not in known:
            return encode({"missing": [each for each in known if not each.startswith("_")][:MOST_NAMES]})
        value = known[wanted]
        if "args" in question:
            if not callable(value):
                return encode({"no function": type(value).__name__})
            value = value(*question["args"])
        return encode({"ok": value})
    except Unsendable as error:
        return encode({"unsendable": str(error)})
    except BaseException as error:
        return encode({"error": _raised(error, name)})


def _raised(error: BaseException, name: str) -> dict[str, Any]:
    """Return what happened, and at which line of the student's file."""
    if isinstance(error, SyntaxError):
        text = f"{type(error).__name__}: {error.msg}"
        return {"line": error.lineno or 0, "source": (error.text or "")[:200], "text": text[:500]}
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == name]
    try:
        said = str(error)
    except BaseException:
        said = ""
    text = f"{type(error).__name__}: {said[:500]}" if said else type(error).__name__
    return {"line": own[-1].lineno or 0 if own else 0, "source": "", "text": text}


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
