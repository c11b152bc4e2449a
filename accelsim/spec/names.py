"""Names that a spec may use: operators of the vector unit, number formats."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any

from accelsim.errors import UsageError, nearest
from accelsim.formats import table
from accelsim.formats.table import Format
from accelsim.workload import ops

NONE = "none"
"""The value of a key that a family brings, or the file underneath, and that is not to be there."""


class Families:
    """Mark of a table, beside its declared type: its keys name operators, or families of these.

    The loader puts the members in the place of a family, so that models never see one. All operators are loaded when
    one of these tables is read from a file.
    """

    @cached_property
    def members(self) -> dict[str, tuple[str, ...]]:
        """Family -> its operators: every chip that lists the family can do them. The row of an operator names its
        family."""
        rows = ops.REGISTRY.values()
        return {family: tuple(op.name for op in rows if op.family == family) for family in ops.FAMILIES}

    @cached_property
    def others(self) -> tuple[str, ...]:
        """Operators that a chip has only where it names them."""
        rows = ops.REGISTRY.values()
        return tuple(op.name for op in rows if not op.family and op.kind not in ("matrix", "alias"))

    @property
    def operators(self) -> tuple[str, ...]:
        """Canonical names of the operators that a vector unit may know."""
        return (*itertools.chain.from_iterable(self.members.values()), *self.others)

    @property
    def names(self) -> list[str]:
        """Every name that may stand as a key."""
        return [*self.members, *self.operators]

    def unknown(self, key: str) -> tuple[str, str]:
        """Return what is wrong with a key that is no operator or family, and the nearest name."""
        what = "operator" if key[:1].isupper() else "operator or family"
        return f"no {what} of this name", nearest(key, self.names)

    def in_vain(self, key: str) -> tuple[str, str, str]:
        """Return what is wrong with a ``KEY: none`` that leaves out nothing, what to expect, and the nearest name."""
        if key in self.names:
            return ("leaves out what is not there", "operators of a family of this table or the file beneath", "")
        what, near = self.unknown(key)
        return what, "", near

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        """For editors: a family is a key like any other, and ``none`` a value."""
        schema: dict[str, Any] = handler(core)
        value = {"anyOf": [schema["additionalProperties"], {"const": NONE}]}
        return {**schema, "additionalProperties": value, "propertyNames": {"enum": self.names}}

    def shortened(self, table: Mapping[str, int]) -> dict[str, int | str]:
        """Return a table of operators with families where these make it shorter, and ``none`` for missing members."""
        families: dict[str, int | str] = {}
        named: dict[str, int | str] = dict(table)
        for family, keys in self.members.items():
            there = [table[key] for key in keys if key in table]
            usual = Counter(there).most_common(1)[0][0] if there else 0
            different = {key: table.get(key, NONE) for key in keys if table.get(key) != usual}
            if there and 1 + len(different) < len(there):
                families[family] = usual
                named = {key: value for key, value in named.items() if key not in keys} | different
        order = {name: index for index, name in enumerate(self.names)}
        return families | {key: named[key] for key in sorted(named, key=lambda key: order.get(key, len(order)))}


FUNCTIONS = Families()
"""Allowed keys in the table of functions of a vector unit."""
LONGEST = 64
"""Characters of the longest name of a format or a pair: beyond, nothing is compared with it."""


@lru_cache(maxsize=1024)
def operand_formats(name: str) -> tuple[Format, ...] | None:
    """Formats of the operands: one, or those of a pair ``weights x activations``; None for what is no format.

    Any format of ``accelsim.formats.table`` and any configurable float (``fp8_e5m2b20``); a format has one name
    here, so an alias such as ``fp8`` is None.
    """
    if len(name) > LONGEST:
        return None
    for at in (index for index, letter in enumerate(name) if letter == "x"):
        both = _format(name[:at]), _format(name[at + 1 :])
        if both[0] is not None and both[1] is not None:
            return both[0], both[1]
    found = _format(name)
    return None if found is None else (found,)


def format_bits(name: str) -> tuple[int, ...] | None:
    """Bits of each operand: ``int8`` -> (8,), ``int4xint8`` -> (4, 8), ``mxfp4`` -> (4,); None for no format."""
    formats = operand_formats(name)
    return None if formats is None else tuple(table.get(each.element or each.name).bits for each in formats)


def nearest_format(name: str) -> str:
    """The name that was meant: that of an alias, of the halves of a pair, else the closest; '' when none is close."""
    if name in table.ALIASES:
        return table.ALIASES[name]
    if len(name) > LONGEST:
        return ""
    for at in (index for index, letter in enumerate(name) if letter == "x"):
        halves = [_meant(half) for half in (name[:at], name[at + 1 :])]
        if all(halves):
            return "x".join(halves)
    return nearest(name, table.FORMATS)


def _format(name: str) -> Format | None:
    try:
        return None if name in table.ALIASES else table.get(name)
    except UsageError:
        return None


def _meant(name: str) -> str:
    """A name of a format for ``name``, its own if it is one; '' when none is close."""
    if _format(name) is not None:
        return name
    return table.ALIASES.get(name) or nearest(name, table.FORMATS)
