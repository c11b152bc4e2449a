"""Return the type that a spec model declares at a key, inside Optional, Annotated, dict and list."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from accelsim.spec.base import Model
from accelsim.spec.engine import EngineSpec, type_of
from accelsim.spec.names import Families

R = TypeVar("R")


def _remembered(function: Callable[[Any], R]) -> Callable[[Any], R]:
    """``function``, which says one thing of an annotation for ever: worked out once.

    By identity, since the metadata of annotations have no hash. What is remembered keeps its annotation alive, so that
    no other takes the identity.
    """
    known: dict[int, tuple[Any, R]] = {}

    @wraps(function)
    def asked(annotation: object) -> R:
        if id(annotation) not in known:
            known[id(annotation)] = annotation, function(annotation)
        return known[id(annotation)][1]

    return asked


@_remembered
def core(annotation: object) -> object:
    """Return a type without ``| None`` and ``Annotated``."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return core(get_args(annotation)[0])
    if origin in (Union, UnionType):
        inner = [arg for arg in get_args(annotation) if arg is not NoneType]
        return core(inner[0]) if len(inner) == 1 else annotation
    return annotation


@_remembered
def choices(annotation: object) -> dict[str, type[EngineSpec]]:
    """Return each model of a union by the name that ``type`` of a block gives it; {} of anything else."""
    inner = core(annotation)
    args = get_args(inner) if get_origin(inner) in (Union, UnionType) else ()
    models = [arg for arg in args if isinstance(arg, type) and issubclass(arg, EngineSpec)]
    return {type_of(model): model for model in models}


def chosen(annotation: Any, value: Any) -> Any:
    """The model of the union ``annotation`` that the block ``value`` is; any other annotation as it is.

    Of a block without a type that there is, the union itself.
    """
    known = choices(annotation) if isinstance(value, dict) else {}
    return known.get(str(value["type"]), annotation) if known and "type" in value else annotation


@_remembered
def model_of(annotation: object) -> type[Model] | None:
    """Return the model of ``annotation``, the common parent of a union of models, or None."""
    if choices(annotation):
        return EngineSpec
    inner = core(annotation)
    return inner if isinstance(inner, type) and issubclass(inner, Model) else None


def file_of(annotation: object) -> object:
    """Return the model, or the union of models, that a file in the place of ``annotation`` describes."""
    return annotation if choices(annotation) else model_of(annotation)


def annotation_at(annotation: object, value: object, path: tuple[str | int, ...]) -> object:
    """Declared type of what ``value``, which is declared as ``annotation``, has at ``path``: see ``annotation_of``."""
    for key in path:
        annotation = annotation_of(chosen(annotation, value), key)
        value = item(value, key)
    return chosen(annotation, value)


def item(value: Any, key: str | int) -> Any:
    """Return what a mapping or a list holds at ``key``, or None."""
    if isinstance(value, list):
        return value[int(key)] if str(key).isdigit() and int(key) < len(value) else None
    return value.get(key) if isinstance(value, dict) else None


def annotation_of(annotation: object, key: str | int) -> object:
    """Declared type of what ``annotation`` holds at ``key``; None when it has no such key.

    Of a union only what all of its models have; ``chosen`` knows more.
    """
    model = model_of(annotation)
    if model is not None:
        return _fields(model).get(str(key))
    inner = core(annotation)
    if get_origin(inner) is dict:
        return get_args(inner)[1]
    if get_origin(inner) is list:
        return get_args(inner)[0]
    return None


@_remembered
def _fields(model: type[Model]) -> dict[str, object]:
    """Declared type of each field of a model."""
    return {name: Annotated[info.annotation, info, *info.metadata] for name, info in model.model_fields.items()}


@_remembered
def is_made(annotation: object) -> bool:
    """Return whether a block that no file has is there with its defaults."""
    marks = getattr(annotation, "__metadata__", ())
    made = any(getattr(mark, "default_factory", None) is not None for mark in marks)
    return made and model_of(annotation) is not None


@_remembered
def families_of(annotation: object) -> Families | None:
    """The families of keys of a table, None of one that has none."""
    marks = getattr(annotation, "__metadata__", ())
    return next((mark for mark in marks if isinstance(mark, Families)), None)
