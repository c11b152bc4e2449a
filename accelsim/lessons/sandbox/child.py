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
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TextIO

MOST_B = 1 << 20
"""Length of an answer, bytes."""
MOST_BITS = 128
"""Length of a whole number in an answer."""
MOST_KEYS = 10_000
"""Entries of one dictionary in an answer."""
MEMORY_B = 1 << 30
"""Memory that a student's file may take beside what Python has."""
MEMORY = f"arrays that fit into {MEMORY_B >> 20} MiB"


class Unsendable(TypeError):
    """A value of a type or size that no lesson asks for."""


def encode(value: object) -> str:
    """Return a value as one line of JSON, at most ``MOST_B`` long. Raises Unsendable."""
    try:
        line = json.dumps(_plain(value), separators=(",", ":"))
    except RecursionError:
        raise Unsendable("a list in a list in a list, too deep to be sent") from None
    _at_most(MOST_B, len(line), f"a {type(value).__name__} that takes more than {MOST_B >> 20} MiB as text")
    return line


def decode(line: bytes) -> Any:
    """Return the value of a line. Raises ValueError for a line that ``encode`` cannot have made."""
    if len(line) > MOST_B + 1:
        raise ValueError(f"more than {MOST_B} B")
    try:
        return _value(json.loads(line))
    except (ArithmeticError, AttributeError, KeyError, RecursionError, TypeError) as error:
        raise ValueError(f"not a value: {error}") from None


def _plain(value: object) -> object:
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic) and value.dtype.kind in "biuf":
        value = float(value) if value.dtype.kind == "f" else value.item()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        _at_most(MOST_B, len(value), f"a text of {len(value):,} characters")
        return str(value)
    if isinstance(value, int):
        bits = value.bit_length()
        _at_most(MOST_BITS, bits, f"a whole number of {bits:,} bits; at most {MOST_BITS} can be right")
        return int(value)
    if isinstance(value, float):
        return {"float": float(value).hex()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, tuple):
        return {"tuple": [_plain(each) for each in value]}
    if isinstance(value, dict):
        _at_most(MOST_KEYS, len(value), f"a dict of {len(value):,} entries")
        return {"dict": [[_plain(key), _plain(each)] for key, each in value.items()]}
    if numpy is not None and isinstance(value, numpy.ndarray) and value.dtype.kind in "biuf":
        data = base64.b64encode(numpy.ascontiguousarray(value).tobytes()).decode()
        return {"array": [value.dtype.str, list(value.shape), data]}
    kind = "an array of objects" if type(value).__name__ == "ndarray" else type(value).__name__
    raise Unsendable(f"{kind} is neither a number, a text, a list, a tuple, a dict nor an array of numbers")


def _at_most(most: int, size: int, what: str) -> None:
    if size > most:
        raise Unsendable(what)


def _value(plain: object) -> object:
    if isinstance(plain, list):
        return [_value(each) for each in plain]
    if isinstance(plain, float) or (isinstance(plain, int) and plain.bit_length() > MOST_BITS):
        raise ValueError("a number that encode writes in another way, or not at all")
    if not isinstance(plain, dict):
        return plain
    ((kind, inner),) = plain.items()
    return _KINDS[kind](inner)


def _array(inner: Any) -> object:
    import numpy as np

    dtype, shape, data = inner
    kind = np.dtype(dtype)
    content = base64.b64decode(data)
    sound = kind.kind in "biuf" and all(type(extent) is int and extent >= 0 for extent in shape)
    if not sound or len(content) != math.prod(shape) * kind.itemsize:
        raise ValueError(f"an array of {kind} with {len(content)} B")
    return np.frombuffer(content, kind).reshape(shape).copy()


def _dict(inner: Any) -> dict[object, object]:
    if len(inner) > MOST_KEYS:  # keys can be chosen so that each is compared with all others
        raise ValueError(f"a dictionary of {len(inner)} entries")
    return {_value(key): _value(each) for key, each in inner}


_KINDS: dict[str, Callable[[Any], object]] = {
    "float": float.fromhex,
    "tuple": lambda inner: tuple(map(_value, inner)),
    "dict": _dict,
    "array": _array,
}


def main(settings: dict[str, Any]) -> None:
    """Say that the process is ready, load the file that comes first, answer until the questions end."""
    questions, answers = os.fdopen(os.dup(0), encoding="ascii"), os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # the student's code reads nothing, and prints to stderr
    os.dup2(2, 1)
    sys.path[:] = [place for place in sys.path if place] + settings["site"]
    _restrict(settings["limits"])
    sys.modules["accelsim"] = None  # type: ignore[assignment]  # so that the import fails wherever it is checked
    _send(answers, encode({"ok": None}))
    name, source = decode(questions.readline().encode())
    known: dict[str, object] = {"__name__": "lesson", "__file__": name}
    try:
        exec(compile(source, name, "exec"), known)
    except BaseException as error:
        _send(answers, _raised(error, name, "reading the file"))
        return
    _send(answers, encode({"ok": None}))
    for line in questions:
        _send(answers, _answer(decode(line.encode()), known, name))


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


def _answer(question: dict[str, Any], known: dict[str, object], name: str) -> str:
    wanted = question["name"]
    try:
        if wanted not in known:
            return _missing(wanted, known)
        value = known[wanted]
        if "args" in question:
            if not callable(value):
                what = f"{wanted} is of type {type(value).__name__}"
                return _wrong(f", {wanted}", "a function", what, "keep 'def' in front of it")
            value = value(*question["args"])
        return encode({"ok": value})
    except Unsendable as error:
        kinds = "numbers, texts, lists, tuples, dicts or arrays"
        return _wrong(f", {wanted}", kinds, str(error), "return such a value")
    except BaseException as error:
        return _raised(error, name, wanted)


def _wrong(where: str, expected: str, got: str, rule: str) -> str:
    """Return the answer that something is wrong; ``where``: what follows the name of the file."""
    return encode({"wrong": [where, expected, got, rule]})


def _missing(wanted: str, known: dict[str, object]) -> str:
    import difflib

    names = [name[:100] for name in known if not name.startswith("_")][:200]
    near = difflib.get_close_matches(wanted, names, n=1, cutoff=0.5)
    got = ", but ".join([f"no {wanted}", *near])
    return _wrong("", f"a definition of {wanted}", got, "names of the start file stay as they are")


def _raised(error: BaseException, name: str, wanted: str) -> str:
    """Return the answer that something was raised, and at which line of the student's file."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == name]
    line = own[-1].lineno if own else 0
    try:
        said = error.msg if isinstance(error, SyntaxError) else str(error)
    except BaseException:
        said = ""
    got = f"{type(error).__name__}: {said[:500]}" if said else type(error).__name__
    if isinstance(error, SyntaxError):
        line, source = error.lineno, (error.text or "")[:200].strip()
        got += f" in: {source}" if source else ""
    where = f":{line}" if line else f", {wanted}"
    if isinstance(error, MemoryError):
        return _wrong(where, MEMORY, got, "what is too large to keep is computed piece by piece")
    return _wrong(where, "no error", got, f"{wanted} has to run to its end")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
