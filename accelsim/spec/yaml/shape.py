"""What a spec model expects at a key: its declared type, seen through Optional, Annotated, dict and list."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from accelsim.spec.families import Families


def core(annotation: Any) -> Any:
    """``annotation`` without ``| None`` and Annotated."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return core(get_args(annotation)[0])
    if origin in (Union, UnionType):
        inner = [arg for arg in get_args(annotation) if arg is not NoneType]
        return core(inner[0]) if len(inner) == 1 else annotation
    return annotation


def model_of(annotation: Any) -> type[BaseModel] | None:
    """The model that ``annotation`` is, or None."""
    inner = core(annotation)
    return inner if isinstance(inner, type) and issubclass(inner, BaseModel) else None


def annotation_of(annotation: Any, key: str | int) -> Any:
    """Declared type of what ``annotation`` holds at ``key``; None when it has no such key."""
    model = model_of(annotation)
    if model is not None:
        info = model.model_fields.get(str(key))
        return None if info is None else Annotated[info.annotation, info, *info.metadata]
    inner = core(annotation)
    if get_origin(inner) is dict:
        return get_args(inner)[1]
    if get_origin(inner) is list:
        return get_args(inner)[0]
    return None


def families_of(annotation: Any) -> Families | None:
    """The families of keys of a table, None of one that has none."""
    marks = getattr(annotation, "__metadata__", ())
    return next((mark for mark in marks if isinstance(mark, Families)), None)
