"""docs/spec-reference.md, made from the models of specs: ``python -m tests.helpers.spec_reference``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Set
from inspect import cleandoc
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from accelsim import units
from accelsim.spec.base import Model
from accelsim.spec.constants import Fitted
from accelsim.spec.dram_quantity import DELAY, REFRESH
from accelsim.spec.names import FUNCTIONS, NONE
from accelsim.spec.status import Status
from accelsim.spec.yaml.load import KINDS
from accelsim.spec.yaml.shape import annotation_of, choices, core, families_of, model_of

FITTED = {KINDS[kind]: kind for kind in ("serving", "intervals", "power")}
"""Kinds of files that programs fit and write -> their folder; 'accelsim spec schema' explains them."""


def reference_markdown(left_out: Container[type[Model]] = FITTED) -> str:
    """docs/spec-reference.md: every block and field with type, unit, default and description."""
    blocks: dict[str, type[Model]] = {}
    for model in KINDS.values():
        _collect(model, blocks, left_out)
    provenance = ", ".join(f"`{name}` ({info.description})" for name, info in Model.model_fields.items())
    common = _common(blocks.values())
    parts = [_HEAD.format(provenance=provenance), _ranges(), *(_block(blocks[name], common) for name in blocks)]
    shared = "## Shared fields\n\nFields that mean the same in several blocks.\n\n" + "\n".join(sorted(common)) + "\n"
    return "\n".join([*parts, shared, _families()])


_HEAD = """# Spec reference

Made from the models in `accelsim/spec` and the engine types (`accelsim/engines/*/spec.py`); do not edit. `accelsim spec schema KIND` prints the same as a JSON schema, also of the kinds that programs fit and write: `serving`, `intervals`, `power`.

- Fields in **bold** are required; `count: 1` is a field with its default. Every block may also have {provenance}; every file states `source` and `as_of`.
- A unit as type (`B/s`) means a number with its unit (`34 GB/s`, `24 MiB`); a bare number is an error. `1..64` is a whole number with both ends; a field without a type is one from 1 to 65,536.
- Instead of a block you may name a file (`memory: memories/ddr3-1600`), or start from one and change some keys (`use: memories/ddr3-1600`).
- An engine's fields depend on its `type`. A *constant* is fitted within its range ([constants.md](constants.md)).
"""


_CLOCKED = "tCK or s"
"""Unit of clocks, or a time."""
_DELAYS = {str(DELAY).removeprefix("0 to "): "delay", str(REFRESH).removeprefix("0 to "): "refresh time"}
"""Upper limit of clocks, or a time -> its type in words."""
WIDTH, WIDTHS = "width", ["1 B", "1 MiB"]
"""Name of a type with this range: bytes that move at once."""
USUAL = "1..65,536"
"""Range of most whole numbers."""
LONG = 6
"""Words of a row from which on it stands in one place only."""
_STATUS = "[status](energy-tables.md#how-far-to-trust-a-figure)"


def _ranges() -> str:
    """Least and most of each dimension, where a field states no range of its own."""
    rows = [
        f"| {row.what} | {units.show(row.least, row.unit, binary=row.binary)} | "
        f"{units.show(row.most, row.unit, binary=row.binary)} |"
        for row in units.DIMENSIONS.values()
    ]
    rows += [f"| a {name} of DRAM | 0 tCK | {most} |" for most, name in _DELAYS.items()]
    rows.append(f"| a {WIDTH} (bytes) | {WIDTHS[0]} | {WIDTHS[1]} |")
    head = (
        "Numbers outside these ranges are refused, unless a field states its own; times, energies and powers may also "
        "be 0.\n\n| a field that is | least | most |\n|---|---|---|\n"
    )
    return head + "\n".join(rows) + "\n"


def _families() -> str:
    """Families of functions and their operators."""
    rows = [f"| `{family}` | {', '.join(ops)} |" for family, ops in FUNCTIONS.members.items()]
    head = (
        "## Families\n\nIn `functions` of a vector unit the name of a family stands for all of its operators: "
        f"`{{activations: 1, Gelu: 2, Clip: {NONE}}}` is one clock for each activation, two for Gelu, and no Clip.\n\n"
        "| family | operators |\n|---|---|\n"
    )
    return head + "\n".join(rows) + f"\n\nIn none: {', '.join(FUNCTIONS.others)}.\n"


def _collect(model: type[Model], blocks: dict[str, type[Model]], left_out: Container[type[Model]]) -> None:
    """``model`` and every block inside it, in order of first use."""
    if model.__name__ in blocks or model in left_out:
        return
    if _base(model) is not Model:
        _collect(_base(model), blocks, left_out)
    blocks[model.__name__] = model
    for name in model.model_fields:
        annotation: Any = annotation_of(model, name)
        while get_origin(core(annotation)) in (dict, list):
            annotation = annotation_of(annotation, 0)
        inner = model_of(annotation)
        for each in choices(annotation).values() or ([inner] if inner is not None else []):
            if issubclass(each, Model):
                _collect(each, blocks, left_out)


def _common(models: Iterable[type[Model]]) -> set[str]:
    """Long rows that stand in several blocks."""
    rows = Counter(row for model in models for row in _rows(model))
    return {row for row, count in rows.items() if count > 1 and len(row.split()) > LONG}


def _rows(model: type[Model]) -> list[str]:
    """One line for each field that ``model`` does not have from another block; engines say their type in the title."""
    own = {name: info for name, info in model.model_fields.items() if not _inherited(name, info, _base(model))}
    return [_row(name, info, model) for name, info in own.items() if name != "type"]


def _block(model: type[Model], common: Set[str]) -> str:
    folder = next((f"Files: `hwspecs/{name}/`." for name, each in KINDS.items() if each is model), "")
    base = _base(model)
    kind = model.model_fields.get("type")
    engine = "" if kind is None else f"`type: {get_args(core(kind.annotation))[0]}`."
    inherited = "" if base is Model else f"Also has the fields of [{base.__name__}](#{base.__name__.lower()})."
    rows = _rows(model)
    names = ", ".join(re.split(r" \(|: (?!\S+`)", row)[0].removeprefix("- ") for row in rows if row in common)
    shared = f"[Shared](#shared-fields): {names}." if names else ""
    where = " ".join(filter(None, (engine, folder, inherited, shared)))
    table = "\n".join(row for row in rows if row not in common)
    return "\n\n".join(filter(None, (f"## {model.__name__}", cleandoc(model.__doc__ or ""), where, table))) + "\n"


def _base(model: type[Model]) -> type[Model]:
    """Return the nearest parent that gives ``model`` several fields."""
    parents = (each for each in model.__mro__[1:] if issubclass(each, Model))
    return next((each for each in parents if _shared(model, each) > 1), Model)


def _shared(model: type[Model], base: type[Model]) -> int:
    """Number of fields that ``model`` has from ``base`` as they are."""
    own = {name: info for name, info in model.model_fields.items() if name not in Model.model_fields}
    return sum(_inherited(name, info, base) for name, info in own.items())


def _inherited(name: str, info: FieldInfo, base: type[Model]) -> bool:
    """Return whether ``base`` has the same field."""
    return name in base.model_fields and base.model_fields[name].annotation == info.annotation


def _row(name: str, info: FieldInfo, model: type[Model]) -> str:
    left_out = info.is_required() or info.default in (None, [], {}) or info.default_factory is not None
    shown = f"`{name}`" if left_out else f"`{name}: {_written(info.default)}`"
    shown = f"**{shown}**" if info.is_required() else shown
    mark = next((each for each in info.metadata if isinstance(each, Fitted)), None)
    kind = _type(annotation_of(model, name)) if mark is None else f"constant {_range(mark)}"
    kind = "" if kind == USUAL else f" ({kind})"
    return f"- {shown}{kind}: {info.description or ''}"


def _range(mark: Fitted) -> str:
    """Return the range in which a constant is fitted."""
    low, high = (units.show(end, mark.unit) if mark.unit else f"{end:,g}" for end in mark[:2])
    return f"{low}..{high}"


def _written(default: Any) -> str:
    """A default as one writes it in YAML."""
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, Model):
        default = default.model_dump(exclude_defaults=True)
    elif isinstance(default, dict):
        default = {name: each.model_dump(exclude_defaults=True) for name, each in default.items()}
    return str(default).replace("'", "") if isinstance(default, list | dict) else str(default)


def _type(annotation: Any) -> str:
    """A declared type in words, with its unit."""
    if models := choices(annotation):
        return " or ".join(f"[{model.__name__}](#{model.__name__.lower()})" for model in models.values())
    model = model_of(annotation)
    if model in FITTED:
        return f"`accelsim spec schema {FITTED[model]}`"
    if model is not None:
        return f"[{model.__name__}](#{model.__name__.lower()})"
    inner = core(annotation)
    if words := _words(annotation):
        return words
    unit = _unit(annotation)
    if unit == _CLOCKED:
        return _DELAYS[_own_range(annotation)[1]]
    if unit:
        own = _own_range(annotation)
        return WIDTH if own == WIDTHS else unit + (f", {own[0]}..{own[1]}" if own else "")
    if get_origin(inner) is dict:
        or_none = f", or `{NONE}`" if families_of(annotation) else ""
        return f"table: {_type(get_args(inner)[1])}{or_none}"
    if get_origin(inner) is list:
        return f"list: {_type(get_args(inner)[0])}"
    if get_origin(inner) is not None:
        words = get_args(inner)
        return _STATUS if words == get_args(Status) else ", ".join(f"`{choice}`" for choice in words)
    named = {str: "text", int: "integer", float: "number", bool: "boolean"}[inner]
    least, most = _limits(annotation)
    if least is None or most is None:
        return named
    return f"{least:,}..{most:,}" if inner is int else f"{named} {least:,}..{most:,}"


def _words(annotation: Any) -> str:
    """Return how a type calls itself, '' for one that does not: it stands in its JSON schema."""
    schemas = (getattr(part, "json_schema", None) for part in _parts(annotation))
    return next((str(each["words"]) for each in schemas if isinstance(each, dict) and "words" in each), "")


def _limits(annotation: Any) -> tuple[float | None, float | None]:
    """(least, most) of a number, as its type or its field states them; None where nothing is stated."""
    least = most = None
    for part in _parts(annotation):
        below, above = getattr(part, "ge", None), getattr(part, "le", None)
        below = 1 if getattr(part, "gt", None) == 0 and core(annotation) is int else below
        least = below if least is None or (below is not None and below > least) else least
        most = above if most is None or (above is not None and above < most) else most
    return least, most


def _parts(annotation: Any) -> Iterator[Any]:
    """Everything that is annotated to a type, inside ``| None`` and Annotated too."""
    for part in (*getattr(annotation, "__metadata__", ()), *getattr(annotation, "metadata", ())):
        yield part
        yield from _parts(part)
    if get_origin(annotation) in (Annotated, Union, UnionType):
        for inner in get_args(annotation)[: 1 if get_origin(annotation) is Annotated else None]:
            yield from _parts(inner)


def _own_range(annotation: Any) -> list[str]:
    """['1 ps', '1 us'] of a quantity with a range of its own, [] of one with that of its dimension."""
    schemas = (getattr(part, "json_schema", None) for part in _parts(annotation))
    return next((each["range"] for each in schemas if isinstance(each, dict) and "range" in each), [])


def _unit(annotation: Any) -> str:
    """Unit of a quantity, '' of anything else: it stands in the JSON schema of the type."""
    json_schema = getattr(annotation, "json_schema", None)
    if isinstance(json_schema, dict):
        return str(json_schema.get("unit", ""))
    if get_origin(core(annotation)) in (dict, list):
        return ""
    parts = (*get_args(annotation), *getattr(annotation, "__metadata__", ()))
    return next((unit for part in parts if not isinstance(part, str) and (unit := _unit(part))), "")


if __name__ == "__main__":
    print(reference_markdown(), end="")
