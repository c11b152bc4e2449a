"""Inner loops that numba compiles (extra ``fast``): which of them there are, and whether they are wanted."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from types import ModuleType


def compiled(name: str) -> ModuleType | None:
    """The module ``name`` of this package, None where numba is not installed or kept out (ACCELSIM_KERNEL=python,
    NUMBA_DISABLE_JIT=1)."""
    return None if os.environ.get("ACCELSIM_KERNEL", "") == "python" else _imported(name)


@cache
def _imported(name: str) -> ModuleType | None:
    try:
        return import_module(f"accelsim.formats.{name}")
    except ImportError:  # not installed, or one that does not fit the NumPy of the day
        return None
