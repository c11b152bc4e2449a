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
    parts: Sequence[ModuleType], around: dict[str, Any], called: Sequence[str] = ("run",), counted: bool = True
) -> dict[str, Callable[..., Any]]:
    """Return the functions of ``linked``, compiled; numba keeps the machine code beside the sources.

    ``called``: those that plain Python calls. ``counted``: whether they make objects whose references numba has to
    count.
    """
    # a third of the time would go into calls; no divisor is ever 0, so none is looked at
    options: dict[str, Any] = {"forceinline": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    if not counted:
        options["_nrt"] = False

    def compile(function: Callable[..., Any]) -> Any:
        own: dict[str, Any] = {"cache": True} if function.__name__ in called else {"no_cpython_wrapper": True}
        return numba.njit(**options, **own)(function)

    return linked(parts, around | {"COUNTED": counted}, compile)
