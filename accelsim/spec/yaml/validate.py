"""Tree -> model: pydantic's errors as problems with places, and then a partial model for the laws."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar, cast, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError

from accelsim.errors import Problem, brief, nearest
from accelsim.spec.status import FORMER
from accelsim.spec.yaml.marks import BROKEN, PathTo, Tree, about
from accelsim.spec.yaml.shape import annotation_of, core, model_of

M = TypeVar("M", bound=BaseModel)


SHOWN = {type(None): "an empty value", dict: "a block"}
"""Type of what was given -> what it is called; others by their Python name, such as a list."""
BLOCKS = {"model_type": "a block of fields", "dict_type": "a block of names and values"}
"""Pydantic's error -> what it expected, in the words of YAML."""


def validate(tree: Tree, model: type[M]) -> tuple[M, list[Problem], bool]:
    """The model of ``tree``, every problem of its fields, and whether the model is complete.

    With problems the model lacks the fields that are wrong (reading them raises AttributeError).
    """
    try:
        return model.model_validate(tree.value), [], True
    except ValidationError as error:
        problems = _problems(
            tree, model, [cast(dict[str, Any], each) for each in error.errors(include_url=False)]
        )
        return cast(M, _partial(tree.value, model)), problems, False


def _problems(tree: Tree, model: type[BaseModel], errors: list[dict[str, Any]]) -> list[Problem]:
    """One problem per error; a missing key whose misspelling is reported is left out."""
    meant: set[PathTo] = set()
    found: list[tuple[PathTo, Problem]] = []
    for error in errors:
        path = tree.written(tuple(error["loc"]))
        if error["type"] == "extra_forbidden":
            near = nearest(str(path[-1]), _keys(model, path[:-1]))
            meant.add((*path[:-1], near))
            found.append((path, Problem(about(path, "unknown key"), str(tree.at(path, key=True)), "", near)))
        elif error["input"] != BROKEN:
            found.append((path, _problem(tree, model, path, error)))
    missing = {tuple(error["loc"]) for error in errors if error["type"] == "missing"}
    return [problem for path, problem in found if not (path in missing and path in meant)]


FEW_OR_MANY = {"too_short": "{min_length} or more", "too_long": "{max_length} at the most"}
"""Kinds of errors in the length of a list or mapping -> what was expected."""


def _problem(tree: Tree, model: type[BaseModel], path: PathTo, error: dict[str, Any]) -> Problem:
    """One pydantic error in our words."""
    if error["type"] == "missing":
        return Problem(about(path, "missing"), str(tree.at(path[:-1])), _description(model, path))
    if path and path[-1] == "[key]":
        path = path[:-1]
        return Problem(about(path, "not a valid name"), str(tree.at(path, key=True)), "a-z 0-9 _ . -")
    given = error["input"]
    if error["type"] == "value_error":
        what, _, expected = str(error["ctx"]["error"]).partition("; expected ")
    elif error["type"] == "literal_error":
        what, expected = f"{brief(given)} is not one of the choices", error["ctx"]["expected"]
    elif error["type"] in FEW_OR_MANY:
        what, expected = f"{len(given)} entries", FEW_OR_MANY[error["type"]].format(**error["ctx"])
    else:
        shown = (
            brief(given) if isinstance(given, str) else SHOWN.get(type(given), f"a {type(given).__name__}")
        )
        expected = BLOCKS.get(error["type"], error["msg"].removeprefix("Input should be "))
        what = f"{shown} is not accepted"
    choices = [choice.strip(" '") for choice in expected.replace(" or ", ",").split(",")]
    near = ""
    if error["type"] == "literal_error":
        renamed = FORMER.get(str(given), "")
        near = renamed if renamed in choices else nearest(str(given), choices)
    return Problem(about(path, what), str(tree.at(path)), expected, near)


def _keys(model: type[BaseModel], path: PathTo) -> list[str]:
    """Valid keys of the block at ``path``."""
    annotation: Any = model
    for part in path:
        annotation = annotation_of(annotation, part)
    inner = model_of(annotation)
    return [] if inner is None else list(inner.model_fields)


def _description(model: type[BaseModel], path: PathTo) -> str:
    """What the field at ``path`` is, for a message that it is missing."""
    annotation: Any = model
    for part in path[:-1]:
        annotation = annotation_of(annotation, part)
    inner = model_of(annotation)
    info = None if inner is None else inner.model_fields.get(str(path[-1]))
    return "" if info is None else (info.description or "")


def _partial(value: Any, annotation: Any) -> Any:
    """The model of ``value`` without the fields that are wrong."""
    model = model_of(annotation)
    if model is None:
        return _leaf(value, annotation)
    fields = {}
    for name in model.model_fields if isinstance(value, dict) else ():
        if name in value:
            try:
                fields[name] = _partial(value[name], annotation_of(annotation, name))
            except (ValidationError, ValueError):
                continue
    made = model.model_construct(set(fields), **fields)
    for name, info in model.model_fields.items():
        wrong = name not in fields and (info.is_required() or not isinstance(value, dict) or name in value)
        if wrong and name in made.__dict__:
            del made.__dict__[name]
    return made


def _leaf(value: Any, annotation: Any) -> Any:
    """A value that is no model: dicts and lists of models element by element, anything else by its type."""
    origin = get_origin(core(annotation))
    if value is not None and origin is dict and model_of(annotation_of(annotation, "")) is not None:
        return {key: _partial(inner, annotation_of(annotation, key)) for key, inner in _items(value)}
    return _adapter(annotation).validate_python(value)


def _items(value: Any) -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise ValueError("not a mapping")
    return list(value.items())


@lru_cache(maxsize=256)
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation)
