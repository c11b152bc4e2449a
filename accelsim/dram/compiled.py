"""Inner loops compiled by numba (extra ``fast``): the functions as they are, made again to call each other compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType, ModuleType
from typing import Any
from zlib import crc32

import numba

if getattr(numba.config, "DISABLE_JIT", False):
    raise ImportError("NUMBA_DISABLE_JIT is set")


def compiled(parts: Sequence[ModuleType], around: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    """Name -> compiled function, of each function in the LOOP of each module, callees first.

    ``around``: further names that they see. The machine code is kept beside the sources, under a name that holds the
    constants and all functions, which are part of it; numba itself would notice a change of the function's own file
    only.
    """
    names = {name: value for part in parts for name, value in vars(part).items() if name.isupper()} | around
    constants = sorted((name, value) for name, value in names.items() if isinstance(value, int))
    loop = [each for part in parts for each in part.LOOP]
    codes = [(each.__code__.co_code, repr(each.__code__.co_consts)) for each in loop]
    mark = f"{crc32(repr((constants, codes)).encode()):08x}"
    for each in loop:
        here = FunctionType(each.__code__, names, each.__name__)
        here.__qualname__ = f"{each.__name__}_{mark}"
        # a third of the time would go into calls; no divisor is ever 0, so none is looked at
        names[each.__name__] = numba.njit(cache=True, forceinline=True, error_model="numpy")(here)
    return {each.__name__: names[each.__name__] for each in loop}
