"""Inner loops compiled by numba (extra ``fast``): the functions as they are, made again to call each other compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numba

from accelsim.dram.link import linked

if getattr(numba.config, "DISABLE_JIT", False):
    raise ImportError("NUMBA_DISABLE_JIT is set")


def compiled(
    parts: Sequence[ModuleType], around: dict[str, Any], counted: bool = True
) -> dict[str, Callable[..., Any]]:
    """Return the functions of ``linked``, compiled; numba keeps the machine code beside the sources.

    ``counted``: whether they make objects whose references numba has to count.
    """
    options: dict[str, Any] = {} if counted else {"_nrt": False}
    # a third of the time would go into calls; no divisor is ever 0, so none is looked at
    compile = numba.njit(cache=True, forceinline=True, error_model="numpy", **options)
    return linked(parts, around | {"COUNTED": counted}, compile)
