"""Declare the fields of specs in pydantic's words, without importing pydantic.

A run of a chip from the user's cache validates nothing, and importing pydantic takes longer than a short run does. So
each name here records a call of pydantic's function of that name, and ``called`` makes those that are recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

F = TypeVar("F", bound=Callable[..., Any])


class Call:
    """A call of a function of pydantic; of a decorator with the ``method`` that it decorates. Equal to no other."""

    def __init__(
        self, function: str, args: tuple[Any, ...], options: dict[str, Any], method: Any = None
    ) -> None:
        self.function, self.args, self.options, self.method = function, args, options, method

    @property
    def default(self) -> Any:
        """Default value of a field; ``...`` where a spec must state it or a function makes it."""
        return self.args[0] if self.args else ...


def Field(*default: Any, **options: Any) -> Any:
    """Declare a field, or bounds of a type: its default if it has one, and what pydantic's ``Field`` takes."""
    return Call("Field", default, options)


def remembered(function: F) -> F:
    """Return ``functools.cache`` of a function of classes: to mypy classes have no hash whose instances have one."""
    return cast(F, cache(function))


def _call(function: str) -> Callable[..., Any]:
    return lambda *args, **options: Call(function, args, options)


def _decorator(function: str) -> Callable[..., Callable[[Any], Any]]:
    return lambda *args, **options: lambda method: Call(function, args, options, method)


AfterValidator, BeforeValidator = _call("AfterValidator"), _call("BeforeValidator")
PlainValidator, PlainSerializer = _call("PlainValidator"), _call("PlainSerializer")
WithJsonSchema = _call("WithJsonSchema")
field_validator, model_validator = _decorator("field_validator"), _decorator("model_validator")


def called(declaration: Any) -> Any:
    """Return a type, a default or a decorated method with the calls of pydantic made that are recorded in it."""
    if isinstance(declaration, Call):
        import pydantic

        made = getattr(pydantic, declaration.function)(*declaration.args, **declaration.options)
        return made if declaration.method is None else made(declaration.method)
    origin, inner = get_origin(declaration), get_args(declaration)
    if not inner or origin is Literal:
        return declaration
    parts = tuple(map(called, inner))
    if origin in (Union, UnionType):
        return reduce(or_, parts)
    return (Annotated if origin is Annotated else origin)[parts]
