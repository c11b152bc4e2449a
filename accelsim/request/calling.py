"""Functions whose arguments are the fields of a record."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import cleandoc, signature
from typing import ParamSpec, TypeVar

from accelsim.request.fields import Request, arguments

P = ParamSpec("P")
R = TypeVar("R")
Asked = TypeVar("Asked", bound=Request)


def takes(record: Callable[P, Asked]) -> Callable[[Callable[[Asked], R]], Callable[P, R]]:
    """Make a function of one record a function of the fields of ``record``, a class.

    Names, types and defaults of its arguments are those of the fields, for readers, editors and type checkers; its
    docstring gets a list of them.
    """

    def made(function: Callable[[Asked], R]) -> Callable[P, R]:
        own, fields = signature(function), signature(record)

        @wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                asked = record(*args, **kwargs)
            except TypeError as error:  # arguments that are missing or unknown
                text = str(error).replace(f"{record.__qualname__}.__init__", function.__name__)
                raise TypeError(text) from None
            return function(asked)

        shown = fields.replace(return_annotation=own.return_annotation)
        called.__dict__.pop("__wrapped__")
        called.__dict__["__signature__"] = shown
        named = {name: each.annotation for name, each in shown.parameters.items()}
        called.__annotations__ = {**named, "return": own.return_annotation}
        if isinstance(record, type):
            called.__doc__ = f"{cleandoc(function.__doc__ or '')}\n\n{arguments(record)}"
        return called

    return made
