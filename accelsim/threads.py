"""One thread for linear algebra: a BLAS that splits a sum over threads rounds it otherwise for each number of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import ContextVar
from functools import lru_cache, wraps
from importlib import import_module
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

P = ParamSpec("P")
T = TypeVar("T")

_ALONE: ContextVar[bool] = ContextVar("one thread", default=False)


def one_blas_thread(function: Callable[P, T]) -> Callable[P, T]:
    """The function with every BLAS of this process on one thread while it runs, and as before when it ends.

    Its results are then the same bytes on machines with any number of cores, whatever OPENBLAS_NUM_THREADS says.
    """

    @wraps(function)
    def alone(*args: P.args, **kwargs: P.kwargs) -> T:
        if _ALONE.get():
            return function(*args, **kwargs)
        import_module("numpy")  # only a library that is loaded can be limited
        controller = _libraries(len(sys.modules))
        token = _ALONE.set(True)
        try:
            with controller.limit(limits=1, user_api="blas"):
                return function(*args, **kwargs)
        finally:
            _ALONE.reset(token)

    return alone


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """The libraries of this process, looked for again once more ``modules`` are imported: each may bring one along."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
