"""The base of all blocks of a spec file: frozen records that pydantic validates, writes and describes when asked to."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from copy import deepcopy
from datetime import date
from inspect import get_annotations
from sys import modules
from types import new_class
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

from accelsim.spec.declaring import DAY, AfterValidator, Call, Field, called, remembered

if TYPE_CHECKING:
    from typing import Self

    from pydantic import BaseModel, TypeAdapter
    from pydantic.fields import FieldInfo


def _in_the_calendar(text: str) -> str:
    """YYYY, YYYY-MM or YYYY-MM-DD that there is; ValueError otherwise."""
    year, month, day = (*map(int, text.split("-")), 1, 1)[:3]
    try:
        date(year, month, day)
    except ValueError as error:
        raise ValueError(f"{text!r} is no date: {error}; expected YYYY, YYYY-MM or YYYY-MM-DD") from None
    return text


Day = Annotated[str, Field(pattern=DAY), AfterValidator(_in_the_calendar)]
"""A year, a month or a day."""


class _Fields:
    """The fields of a model by name as pydantic describes them, an attribute of its class."""

    def __get__(self, model: object, owner: type[Model]) -> dict[str, FieldInfo]:
        return described(owner).model_fields


class _Serializer:
    """Serializer that pydantic asks the class of a value for, an attribute of this class."""

    def __get__(self, model: object, owner: type[Model]) -> object:
        return adapter(owner).serializer


class Model:
    """Base: frozen, strict about keys, with the provenance that every block may carry.

    Its methods have the names and meanings of those of pydantic's ``BaseModel``, which it is not: neither reading a
    chip from the user's cache nor running it imports pydantic.
    """

    __slots__ = ("__dict__", "__pydantic_extra__", "__pydantic_fields_set__", "__pydantic_private__")

    model_config: ClassVar[Mapping[str, object]] = {"frozen": True, "extra": "forbid"}
    """Pydantic's configuration; that of a subclass is added to it."""
    model_fields: ClassVar[_Fields] = _Fields()
    __pydantic_serializer__: ClassVar[_Serializer] = _Serializer()
    declared: ClassVar[Mapping[str, object]] = {}
    """Default of each field that this class declares, most often a ``Field``; ``...`` for none."""
    later: ClassVar[Mapping[str, Callable[[], object]]] = {}
    """Names in annotations that are looked up only to validate or write a spec -> what finds their type."""
    former: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """Key of older files -> the field that it became, and how that is written."""

    source: str | None = Field(None, description="where the figures come from")
    as_of: Day | None = Field(None, description="when they were published or read: YYYY, YYYY-MM or YYYY-MM-DD")
    note: str | None = Field(None, description="what a reader must know")

    def __init_subclass__(cls) -> None:
        """Take the defaults of fields off the class: an instance has all its fields, or fails when asked."""
        _collect(cls)
        parent: type[Model] = cls.__mro__[1]
        cls.model_config = {**parent.model_config, **cls.model_config}

    def __init__(self, **values: object) -> None:
        """Validate ``values``; pydantic.ValidationError with everything that is wrong."""
        adapter(type(self)).validator.validate_python(values, self_instance=self)

    @classmethod
    def followed(cls, block: dict[str, object], stated: Callable[[tuple[str | int, ...]], bool]) -> dict[str, object]:
        """A block of a spec file with what follows from it; ``stated``: whether a file says what is at a path."""
        return block

    @classmethod
    def model_validate(cls, content: object) -> Self:
        """Return the model of a block; pydantic.ValidationError with everything that is wrong."""
        made: Self = adapter(cls).validate_python(content)
        return made

    @classmethod
    def model_validate_json(cls, content: str) -> Self:
        """Return the model of a block in JSON."""
        made: Self = adapter(cls).validate_json(content)
        return made

    @classmethod
    def model_construct(cls, given: set[str] | None = None, **values: object) -> Self:
        """Return a model with these values, not validated, and defaults for the others that have one."""
        content = {}
        for name, default in defaults(cls).items():
            if name in values:
                content[name] = values[name]
            elif isinstance(default, Call) and "default_factory" in default.options:
                content[name] = default.options["default_factory"]()
            elif (value := default.default if isinstance(default, Call) else default) is not ...:
                content[name] = deepcopy(value)
        made = cls.__new__(cls)
        made.__setstate__((content, set(values) if given is None else given))
        return made

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        """Return the JSON schema of this model."""
        return adapter(cls).json_schema()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> object:
        return _core_schema(cls, handler)

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """Return all fields as plain values; ``options`` are those of pydantic."""
        content: dict[str, Any] = adapter(type(self)).dump_python(self, **options)
        return content

    def model_dump_json(self) -> str:
        """Return all fields as JSON."""
        return adapter(type(self)).dump_json(self).decode()

    def model_copy(self, *, update: Mapping[str, object] | None = None) -> Self:
        """Return a copy with other values of some fields, which are not validated."""
        content, given = self.__getstate__()
        made = type(self).__new__(type(self))
        made.__setstate__(({**content, **(update or {})}, {*given, *(update or ())}))
        return made

    @property
    def model_fields_set(self) -> set[str]:
        """Fields that were stated, rather than left to their defaults."""
        return self.__getstate__()[1]

    def __getstate__(self) -> tuple[dict[str, object], set[str]]:
        return self.__dict__, object.__getattribute__(self, "__pydantic_fields_set__")

    def __setstate__(self, state: tuple[dict[str, object], set[str]]) -> None:
        content, given = state
        object.__setattr__(self, "__dict__", content)
        object.__setattr__(self, "__pydantic_fields_set__", given)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen; {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen; {name} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *map(self.__dict__.get, defaults(type(self)))))

    def __repr__(self) -> str:
        shown = (f"{name}={value!r}" for name, value in self.__dict__.items() if not name.startswith("_"))
        return f"{type(self).__name__}({', '.join(shown)})"


class Declared(NamedTuple):
    """Declaration of a field in the source: its type, other marks, its default (``...`` for none), its meaning."""

    annotation: object
    marks: tuple[object, ...]
    default: Any
    description: str


@remembered
def defaults(model: type[Model]) -> dict[str, object]:
    """Return field -> its declared default (``...`` for none), fields of the bases first."""
    bases = [each for each in reversed(model.__mro__) if issubclass(each, Model)]
    return {name: default for each in bases for name, default in each.declared.items()}


@remembered
def declared(model: type[Model], name: str) -> Declared:
    """Return the declaration of the field ``name`` of a model, from the class that declares it."""
    owner = next(each for each in model.__mro__ if issubclass(each, Model) and name in each.declared)
    annotation = owner.__annotations__[name]
    if isinstance(annotation, str):
        later = {name: find() for name, find in owner.later.items() if name in annotation}
        annotation = eval(annotation, {**vars(modules[owner.__module__]), **later})
    marks = getattr(annotation, "__metadata__", ())
    default = owner.declared[name]
    if not isinstance(default, Call):
        return Declared(annotation, marks, default, "")
    return Declared(annotation, marks, default.default, default.options.get("description", ""))


def _collect(model: type[Model]) -> None:
    """Move the defaults of the fields that a class declares to ``declared``."""
    own = get_annotations(model)
    names = [name for name, annotation in own.items() if "ClassVar" not in str(annotation)]
    model.declared = {name: model.__dict__.get(name, ...) for name in names}
    for name in model.__dict__.keys() & model.declared.keys():
        delattr(model, name)


_collect(Model)


@remembered
def adapter(model: type[Model]) -> TypeAdapter[Any]:
    """Return the pydantic adapter that validates and writes a model."""
    from pydantic import TypeAdapter

    return TypeAdapter(model)


@remembered
def described(model: type[Model]) -> type[BaseModel]:
    """Return the model of pydantic with the fields and validators of a model. There is no instance of it."""
    from pydantic import BaseModel

    bases = tuple(described(base) for base in model.__bases__ if issubclass(base, Model)) or (BaseModel,)
    content = {
        "__module__": model.__module__,
        "__doc__": model.__doc__,
        "__annotations__": {name: called(declared(model, name).annotation) for name in model.declared},
        "model_config": {"defer_build": True, **model.model_config},
    }
    validators = {name: value for name, value in vars(model).items() if isinstance(value, Call)}
    stated = {name: default for name, default in model.declared.items() if default is not ...}
    content |= {name: called(value) for name, value in {**validators, **stated}.items()}
    with warnings.catch_warnings():
        # A field named 'register' hides ABCMeta.register, which no spec needs.
        warnings.filterwarnings("ignore", message='Field name "register"')
        return new_class(model.__name__, bases, exec_body=lambda made: made.update(content))


def _core_schema(model: type[Model], handler: Any) -> Any:
    """Return the schema of a model for pydantic: that of ``described``, of which instances of ``model`` are made."""
    schema = handler(described(model))
    inner = handler.resolve_ref_schema(schema)
    while inner["type"] != "model":
        inner = inner["schema"]
    inner["cls"] = model
    return schema
