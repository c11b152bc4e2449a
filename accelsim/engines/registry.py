"""The engine types, by name: each folder of this package that has an ``engine`` module with an ``ENGINE``.

A folder is named as its type. A type is imported when it is first asked for, so a run loads the types of its chip.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache, cached_property
from importlib import import_module
from pkgutil import iter_modules
from typing import Generic, TypeVar

from accelsim import engines
from accelsim.engines.base import EngineType

T = TypeVar("T")
Types = tuple[EngineType, ...]


class _EngineTypes(Mapping[str, EngineType]):
    """Engine types in the order of their ``rank``: arithmetic first, then functions, hosts, transfers, messages."""

    def __init__(self) -> None:
        self._loaded: dict[str, EngineType] = {}
        self.loaded: Types = ()
        """Types that were asked for so far, in order."""

    @cached_property
    def _names(self) -> frozenset[str]:
        packages = [(at, entry.name) for at in engines.__path__ for entry in iter_modules([at]) if entry.ispkg]
        return frozenset(
            name for at, name in packages if any(each.name == "engine" for each in iter_modules([f"{at}/{name}"]))
        )

    def __getitem__(self, name: str) -> EngineType:
        if name not in self._loaded:
            if name not in self._names:
                raise KeyError(name)
            self._loaded[name] = import_module(f"{engines.__name__}.{name}.engine").ENGINE
            self.loaded = tuple(sorted(self._loaded.values(), key=lambda entry: (entry.rank, entry.type)))
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        for name in sorted(self._names):
            self[name]
        return iter([entry.type for entry in self.loaded])

    def __len__(self) -> int:
        return len(self._names)


ENGINES = _EngineTypes()
"""Name of the type, as in specs and in ``Program.engines`` -> the type."""


def sequential(types: Iterable[str]) -> frozenset[str]:
    """Return which of these types complete a command before their next one begins to touch memory."""
    return frozenset(name for name in types if not ENGINES[name].moves)


class TypeTable(Mapping[str, T], Generic[T]):
    """Entries that engine types bring, by key: a lookup tries the types loaded so far, then all; a listing loads all.

    ``make`` returns the entries of some types, in order.
    """

    def __init__(self, make: Callable[[Types], Mapping[str, T]]) -> None:
        self._made = cache(make)

    @property
    def loaded(self) -> Mapping[str, T]:
        """Entries of the types loaded so far: those that a run on them can have."""
        return self._made(ENGINES.loaded)

    def ordered(self, keys: Collection[str]) -> list[str]:
        """Return ``keys`` in the order of the table."""
        table = self.loaded if all(key in self.loaded for key in keys) else self._all
        return [key for key in table if key in keys]

    @property
    def _all(self) -> Mapping[str, T]:
        return self._made(tuple(ENGINES.values()))

    def __getitem__(self, key: str) -> T:
        loaded = self.loaded
        return loaded[key] if key in loaded else self._all[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)
