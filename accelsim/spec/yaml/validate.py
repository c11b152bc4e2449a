"""Tree -> model: pydantic's errors as problems with places, and then a partial model for the laws."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar, cast, get_origin

from pydantic import TypeAdapter, ValidationError

from accelsim.errors import Problem, brief, given, nearest
from accelsim.spec.base import Model
from accelsim.spec.declaring import wanted
from accelsim.spec.engine import EngineSpec
from accelsim.spec.names import NONE
from accelsim.spec.status import FORMER
from accelsim.spec.yaml.shape import annotation_at, annotation_of, choices, chosen, core, families_of, item, model_of
from accelsim.spec.yaml.tree import BROKEN, PathTo, Tree, about

M = TypeVar("M", bound=Model)


def validate(tree: Tree, model: type[M]) -> tuple[M, list[Problem], bool]:
    """The model of ``tree``, every problem of its fields, and whether the model is complete.

    With problems the model lacks the fields that are wrong (reading them raises AttributeError).
    """
    try:
        return model.model_validate(tree.value), [], True
    except ValidationError as error:
        problems = _problems(tree, model, [cast(dict[str, object], each) for each in error.errors(include_url=False)])
        return cast(M, _partial(tree.value, model)), problems, False


def _problems(tree: Tree, model: type[Model], errors: list[dict[str, Any]]) -> list[Problem]:
    """One problem per error; a missing key whose misspelling is reported is left out."""
    meant: set[PathTo] = set()
    missing: set[PathTo] = set()
    found: list[tuple[PathTo, Problem]] = []
    for error in errors:
        path = tree.written(_untagged(tree.value, model, error["loc"]))
        if error["type"] == "extra_forbidden":
            near, problem = _unknown(tree, model, path)
            meant.add((*path[:-1], near))
            found.append((path, problem))
        elif error["type"] in ("union_tag_invalid", "union_tag_not_found"):
            found.append((path, _no_type(tree, model, path, error)))
        elif error["input"] != BROKEN:
            found.append((path, _problem(tree, model, path, error)))
        if error["type"] == "missing":
            missing.add(path)
    return [problem for path, problem in found if not (path in missing and path in meant)]


def _untagged(value: object, annotation: object, loc: PathTo) -> PathTo:
    """The path of a pydantic error: without the names of types, which it puts where it has chosen a model by one."""
    path: list[str | int] = []
    for part in loc:
        if part in choices(annotation):
            annotation = chosen(annotation, value)
            continue
        path.append(part)
        annotation, value = annotation_of(annotation, part), item(value, part)
    return tuple(path)


def _unknown(tree: Tree, model: type[Model], path: PathTo) -> tuple[str, Problem]:
    """The key that an unknown one was to be ('' when none is close), and the problem."""
    near, form = _meant(model_of(annotation_at(model, tree.value, path[:-1])), str(path[-1]))
    place = str(tree.at(path, key=True))
    if form:
        what = f"no key of today: it stands in the table {near!r}"
        return near, Problem(about(path, what), place, form)
    return near, Problem(about(path, "unknown key"), place, "", near)


def _meant(model: type[Model] | None, key: str) -> tuple[str, str]:
    """The field that an unknown key means, '' when none is close, and how it is written where it has moved."""
    if model is None:
        return "", ""
    former: Mapping[str, tuple[str, str]] = getattr(model, "former", {})
    return former.get(key) or (nearest(key, model.model_fields), "")


def _no_type(tree: Tree, model: type[Model], path: PathTo, error: dict[str, Any]) -> Problem:
    """A block of a union whose ``type`` is missing, misspelt or none that there is."""
    known = list(choices(annotation_at(model, tree.value, path)))
    block = error["input"]
    expected = "one of " + ", ".join(known)
    if block.get("type") is not None:
        what, near = f"no type {brief(block['type'])}", nearest(str(block["type"]), known)
        return Problem(about((*path, "type"), what), str(tree.at((*path, "type"))), expected, near)
    key = nearest("type", block)
    if key and key not in EngineSpec.model_fields:
        what, place = about((*path, key), "unknown key"), str(tree.at((*path, key), key=True))
        return Problem(what, place, "", "type")
    return Problem(about((*path, "type"), "missing"), str(tree.at(path)), expected)


def _problem(tree: Tree, model: type[Model], path: PathTo, error: dict[str, Any]) -> Problem:
    """One pydantic error in our words."""
    if error["type"] == "missing":
        return Problem(about(path, "missing"), str(tree.at(path[:-1])), _description(tree, model, path))
    if path and path[-1] == "[key]":
        path = path[:-1]
        return Problem(about(path, "not a valid name"), str(tree.at(path, key=True)), "a-z 0-9 _ . -")
    value, expected = error["input"], wanted(error)
    if error["type"] == "value_error":
        what, _, expected = str(error["ctx"]["error"]).partition("; expected ")
    elif error["type"] == "literal_error":
        what = f"{brief(value)} is not one of the choices"
    elif error["type"] in ("too_short", "too_long"):
        what = "1 entry" if len(value) == 1 else f"{len(value)} entries"
    else:
        what = f"{given(value)} is not accepted"
    if families_of(annotation_at(model, tree.value, path[:-1])) is not None:
        expected += f", or {NONE!r} to leave it out"
    offered = [choice.strip(" '") for choice in expected.replace(" or ", ",").split(",")]
    near = ""
    if error["type"] == "literal_error":
        renamed = FORMER.get(str(value), "")
        near = renamed if renamed in offered else nearest(str(value), offered)
    return Problem(about(path, what), str(tree.at(path)), expected, near)


def _description(tree: Tree, model: type[Model], path: PathTo) -> str:
    """Return what the field at ``path`` is, for a message that it is missing."""
    inner = model_of(annotation_at(model, tree.value, path[:-1]))
    info = None if inner is None else inner.model_fields.get(str(path[-1]))
    return "" if info is None else (info.description or "")


def _partial(value: object, annotation: object) -> object:
    """The model of ``value`` without the fields that are wrong, or that an unknown key was to be."""
    annotation = chosen(annotation, value)
    model = model_of(annotation)
    if model is None:
        return _leaf(value, annotation)
    if choices(annotation):
        raise ValueError("a block of no type")
    given = value if isinstance(value, dict) else {}
    fields = {}
    for name in model.model_fields:
        if name in given:
            try:
                fields[name] = _partial(given[name], annotation_of(annotation, name))
            except (ValidationError, ValueError):
                continue
    made = model.model_construct(set(fields), **fields)
    meant = {_meant(model, str(key))[0] for key in given if key not in model.model_fields}
    for name, info in model.model_fields.items():
        stated = info.is_required() or not isinstance(value, dict) or name in given or name in meant
        if stated and name not in fields and name in made.__dict__:
            del made.__dict__[name]
    return made


def _leaf(value: object, annotation: object) -> object:
    """A value that is no model: dicts and lists of models element by element, anything else by its type."""
    origin = get_origin(core(annotation))
    if value is not None and origin is dict and model_of(annotation_of(annotation, "")) is not None:
        inner = annotation_of(annotation, "")
        union = bool(choices(inner))  # of such a table a block may be ``null``: not there
        return {key: _partial(block, inner) for key, block in _items(value) if not (union and block is None)}
    return _adapter(annotation).validate_python(value)


def _items(value: object) -> list[tuple[str, object]]:
    if not isinstance(value, dict):
        raise ValueError("not a mapping")
    return list(value.items())


@lru_cache(maxsize=256)
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation)
