"""Declare the fields of specs in pydantic's words, without importing pydantic.

A run of a chip from the user's cache validates nothing, and importing pydantic takes longer than a short run does. So
each name here records a call of pydantic's function of that name, and ``called`` makes those that are recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

F = TypeVar("F", bound=Callable[..., object])


class Call:
    """A call of a function of pydantic; of a decorator with the ``method`` that it decorates. Equal to no other."""

    def __init__(self, function: str, args: tuple[Any, ...], options: dict[str, Any], method: Any = None) -> None:
        self.function, self.args, self.options, self.method = function, args, options, method

    @property
    def default(self) -> object:
        """Default value of a field; ``...`` where a spec must state it or a function makes it."""
        return self.args[0] if self.args else ...


def Field(*default: Any, **options: Any) -> Any:
    """Declare a field, or bounds of a type: its default if it has one, and what pydantic's ``Field`` takes."""
    return Call("Field", default, options)


def remembered(function: F) -> F:
    """Return ``functools.cache`` of a function of classes: to mypy classes have no hash whose instances have one."""
    return cast(F, cache(function))


def _call(function: str) -> Callable[..., object]:
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


NAME, DAY = r"^[a-z0-9][a-z0-9_.-]*$", r"^[0-9]{4}(-[0-9][0-9]){0,2}$"
"""Patterns of texts in specs: what something is called, a year or month or day."""
WANTED = {
    "model_type": "a block of fields", "model_attributes_type": "a block of fields",
    "dict_type": "a block of names and values", "list_type": "a list", "tuple_type": "a list",
    "bool_type": "true or false", "bool_parsing": "true or false", "string_type": "a text",
    "float_type": "a number", "float_parsing": "a number", "finite_number": "a finite number",
    "int_type": "a whole number", "int_parsing": "a whole number", "int_from_float": "a whole number",
    "greater_than_equal": "{ge} or more", "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}", "less_than": "less than {lt}",
    "too_short": "{min_length} or more", "too_long": "at most {max_length}",
    "string_too_short": "{min_length} characters or more", "string_too_long": "at most {max_length} characters",
    "literal_error": "{expected}",
}  # fmt: skip
"""Pydantic's error -> what it expected, in plain words."""
PATTERNS = {NAME: "a-z 0-9 _ . -, a letter or digit first", DAY: "YYYY, YYYY-MM or YYYY-MM-DD"}
"""Pattern of a text -> what it allows, in plain words."""


def wanted(error: Mapping[str, Any]) -> str:
    """Return what an error of pydantic expected, in plain words."""
    facts = {
        name: f"{int(value) if float(value).is_integer() and abs(value) < 2**53 else value:,}"
        if isinstance(value, int | float)
        else value
        for name, value in error.get("ctx", {}).items()
    }
    if error["type"] == "string_pattern_mismatch":
        return PATTERNS.get(facts["pattern"], f"a text like {facts['pattern']}")
    return WANTED[error["type"]].format(**facts) if error["type"] in WANTED else str(error["msg"])
