"""Tables of a spec in which one key may stand for many: the name of a family for all that belong to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from accelsim.errors import nearest

NONE = "none"
"""The value of a key that a family brings, or the file underneath, and that is not to be there."""


@dataclass(frozen=True, eq=False)
class Families:
    """Mark of a table, beside its declared type: what its keys name, ``members`` of each family, ``others`` of none.

    The loader puts the members in the place of a family, so that models never see one.
    """

    what: str
    members: Mapping[str, tuple[str, ...]]
    others: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """Every name that may stand as a key."""
        return [*self.members, *(key for keys in self.members.values() for key in keys), *self.others]

    def unknown(self, key: str) -> tuple[str, str]:
        """Return what is wrong with a key that no name is, and the name that was meant."""
        what = self.what if key[:1].isupper() else f"{self.what} or family"
        return f"no {what} of this name", nearest(key, self.names)

    def in_vain(self, key: str) -> tuple[str, str, str]:
        """Return what is wrong with a key that leaves out nothing, what was expected, and the name that was meant."""
        if key in self.names:
            return (
                "leaves out what is not there",
                f"{self.what}s of a family of this table or the file beneath",
                "",
            )
        what, near = self.unknown(key)
        return what, "", near

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        """For editors: a family is a key like any other, and ``none`` a value."""
        schema: dict[str, Any] = handler(core)
        value = {"anyOf": [schema["additionalProperties"], {"const": NONE}]}
        return {**schema, "additionalProperties": value, "propertyNames": {"enum": self.names}}

    def shortened(self, table: Mapping[str, int]) -> dict[str, int | str]:
        """Return the same table with families where these make it shorter, with ``none`` for members that it lacks."""
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
        return families | {
            key: named[key] for key in sorted(named, key=lambda key: order.get(key, len(order)))
        }
