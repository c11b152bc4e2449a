"""Build the functions of a loop from modules: as they are, or compiled (``compiled``), to call each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType, ModuleType
from typing import Any
from zlib import crc32


def linked(
    parts: Sequence[ModuleType],
    around: dict[str, Any],
    compile: Callable[[Callable[..., Any]], Any] = lambda function: function,
) -> dict[str, Callable[..., Any]]:
    """Return name -> function, of each function that a module defines, callees first.

    Where two modules have a function of one name, the later one takes the place of the earlier one, for all callers.
    ``around``: further names that the functions see. The name of each holds a checksum of the constants and of all
    functions, so that machine code kept under that name belongs to exactly these.
    """
    names = {name: value for part in parts for name, value in vars(part).items() if name.isupper()} | around
    constants = sorted((name, value) for name, value in names.items() if isinstance(value, int))
    loop = {name: each for part in parts for name, each in vars(part).items() if _of(part, each)}
    codes = [(c.co_code, repr(c.co_consts), c.co_names) for c in (each.__code__ for each in loop.values())]
    mark = f"{crc32(repr((constants, codes)).encode()):08x}"
    for name, each in loop.items():
        here = FunctionType(each.__code__, names, name)
        here.__qualname__ = f"{name}_{mark}"
        names[name] = compile(here)
    return {name: names[name] for name in loop}


def _of(part: ModuleType, value: object) -> bool:
    return isinstance(value, FunctionType) and value.__module__ == part.__name__
