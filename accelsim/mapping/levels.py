"""A mapping of a loop nest onto memory levels, the levels themselves, and the laws between them.

Level 0 is the outermost (DRAM), the last the innermost (registers); the multiply-accumulate units stand behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as Fields
from dataclasses import dataclass, field
from math import ceil, prod
from typing import Any

from accelsim.errors import Problem, UsageError, brief, nearest
from accelsim.workload.nest import LoopNest


@dataclass(frozen=True)
class Store:
    """One memory level of an engine. ``capacity_B``: bytes of one instance, None where anything fits.

    ``units``: engine dimension -> instances of the next level inwards (or of the multiply-accumulate units, behind
    the innermost level) that one instance of this level feeds. ``may_keep``: operands that it can hold, None for
    all; ``must_keep``: those that cannot go past it.
    """

    name: str
    capacity_B: int | None = None
    units: Fields[str, int] = field(default_factory=dict)
    may_keep: tuple[str, ...] | None = None
    must_keep: tuple[str, ...] = ()


@dataclass(frozen=True)
class Hierarchy:
    """The levels of an engine, outermost first, and bytes of one element of each operand (a fraction below 8 bits)."""

    stores: tuple[Store, ...]
    word_B: Fields[str, float]

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Names of the engine dimensions, each once."""
        return tuple(dict.fromkeys(name for store in self.stores for name in store.units))


@dataclass(frozen=True)
class LevelMap:
    """What happens at one level.

    ``temporal``: loops (axis, iterations), outermost first, each axis once. ``spatial``: axis -> (engine dimension,
    lanes) of the fan-out beneath this level, inside its loops. ``keep``: operand -> slots (tiles in flight: 1, or 2
    where the next is loaded meanwhile); an operand that is absent goes past the level (bypass).
    """

    level: str
    temporal: tuple[tuple[str, int], ...] = ()
    spatial: Fields[str, tuple[str, int]] = field(default_factory=dict)
    keep: Fields[str, int] = field(default_factory=dict)

    def trimmed(self) -> LevelMap:
        """Without what happens once: loops of one iteration, one lane."""
        temporal = tuple(loop for loop in self.temporal if loop[1] > 1)
        spatial = {axis: lanes for axis, lanes in self.spatial.items() if lanes[1] > 1}
        return LevelMap(self.level, temporal, spatial, dict(self.keep))


@dataclass(frozen=True)
class Mapping:
    """One ``LevelMap`` per level, outermost first.

    A loop steps over tiles of equal extent; where they do not divide the axis, the last is smaller.
    """

    levels: tuple[LevelMap, ...]

    def tile(self, nest: LoopNest, level: int) -> dict[str, int]:
        """Extent of each axis in the tile that one instance of that level holds; 1 each behind the innermost."""
        return {axis: min(extent, self.inside(axis, level)) for axis, extent in nest.axes.items()}

    def inside(self, axis: str, level: int) -> int:
        """What loops and lanes from a level on cover of an axis, not cut at its extent."""
        loops = (dict(part.temporal).get(axis, 1) for part in self.levels[level:])
        lanes = (part.spatial.get(axis, ("", 1))[1] for part in self.levels[level:])
        return prod(loops) * prod(lanes)

    def trimmed(self) -> Mapping:
        """Without loops of one iteration."""
        return Mapping(tuple(part.trimmed() for part in self.levels))

    def as_dict(self) -> list[dict[str, Any]]:
        """For YAML or JSON: per level its loops as 'm 4' texts, its lanes as {axis: 'rows 16'}, its slots."""
        return [
            {
                "level": part.level,
                "temporal": [f"{axis} {count}" for axis, count in part.temporal],
                "spatial": {
                    axis: f"{dimension} {lanes}" for axis, (dimension, lanes) in part.spatial.items()
                },
                "keep": dict(part.keep),
            }
            for part in self.levels
        ]

    @classmethod
    def from_dict(cls, data: Any) -> Mapping:
        """The inverse of ``as_dict``; absent parts are empty. Raises UsageError with all that is wrong."""
        problems: list[Problem] = []
        levels = data if isinstance(data, list) else []
        if not levels:
            problems.append(Problem(f"a mapping {brief(data)}", expected="a list of levels, outermost first"))
        parts = tuple(_level(entry, f"level {index}", problems) for index, entry in enumerate(levels))
        if problems:
            raise UsageError(problems)
        return cls(parts)


_KINDS: dict[str, type] = {"temporal": list, "spatial": dict, "keep": dict}
_KEYS = ("level", *_KINDS)


def _level(entry: Any, where: str, problems: list[Problem]) -> LevelMap:
    if not isinstance(entry, dict) or not isinstance(entry.get("level"), str):
        problems.append(Problem(brief(entry), where, "a level with its name"))
        return LevelMap("")
    for key in entry:
        if key not in _KEYS:
            problems.append(Problem(f"key {brief(key)}", where, " ".join(_KEYS), nearest(str(key), _KEYS)))
    given: dict[str, Any] = {key: entry.get(key) or kind() for key, kind in _KINDS.items()}
    for key, kind in _KINDS.items():
        if not isinstance(given[key], kind):
            problems.append(Problem(f"{key} {brief(given[key])}", where, f"a {kind.__name__}"))
            return LevelMap(entry["level"])
    temporal = tuple(_counted(text, where, problems) for text in given["temporal"])
    spatial = {str(axis): _counted(text, where, problems) for axis, text in given["spatial"].items()}
    keep = {str(name): _whole(slots, where, problems) for name, slots in given["keep"].items()}
    return LevelMap(entry["level"], temporal, spatial, keep)


def _counted(text: Any, where: str, problems: list[Problem]) -> tuple[str, int]:
    name, _, count = str(text).partition(" ")
    if not count.isdecimal() or not 1 <= int(count[:19]) < 1 << 62:
        problems.append(Problem(brief(text), where, "a name and a whole number, such as 'm 4'"))
        return name, 1
    return name, int(count)


def _whole(value: Any, where: str, problems: list[Problem]) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 1 << 20:
        problems.append(Problem(f"slots {brief(value)}", where, "a whole number from 1"))
        return 1
    return value


@dataclass(frozen=True)
class Refusal:
    """Why a mapping is not legal: the level, in words, and where it is a size what is needed and available."""

    level: str
    what: str
    needed: int = 0
    available: int = 0

    def __str__(self) -> str:
        return f"{self.level}: {self.what}"


def refusals(nest: LoopNest, hierarchy: Hierarchy, mapping: Mapping) -> list[Refusal]:
    """Everything that makes a mapping illegal; an empty list where it is legal."""
    names = [store.name for store in hierarchy.stores]
    given = [part.level for part in mapping.levels]
    if names != given:
        return [
            Refusal(given[0] if given else "mapping", f"levels {', '.join(given)}, not {', '.join(names)}")
        ]
    return [
        *_coverage(nest, mapping),
        *(refusal for index, store in enumerate(hierarchy.stores)
          for refusal in _at(nest, hierarchy, mapping, index, store)),
    ]  # fmt: skip


def _coverage(nest: LoopNest, mapping: Mapping) -> Iterator[Refusal]:
    for part in mapping.levels:
        axes = [axis for axis, _ in part.temporal]
        for axis in dict.fromkeys([*axes, *part.spatial]):
            if axis not in nest.axes:
                yield Refusal(part.level, f"axis {axis!r} is none of {', '.join(nest.axes)}")
            elif axes.count(axis) > 1:
                yield Refusal(
                    part.level, f"axis {axis!r} has two loops; a level without anything kept can take one"
                )
    for axis, extent in nest.axes.items():
        covered = mapping.inside(axis, 0)
        if covered < extent:
            what = f"loops and lanes of axis {axis!r} cover {covered} of {extent}"
            yield Refusal(mapping.levels[0].level, what, extent, covered)


def _at(
    nest: LoopNest, hierarchy: Hierarchy, mapping: Mapping, index: int, store: Store
) -> Iterator[Refusal]:
    part = mapping.levels[index]
    yield from _lanes(part, store)
    names = [operand.name for operand in nest.operands]
    for name in part.keep:
        if name not in names:
            yield Refusal(store.name, f"keeps {name!r}, which is none of {', '.join(names)}")
        elif store.may_keep is not None and name not in store.may_keep:
            yield Refusal(store.name, f"cannot keep {name}")
    for name in names if index == 0 else store.must_keep:
        if name not in part.keep:
            why = "the outermost level, where every operand lies" if index == 0 else "it cannot go past"
            yield Refusal(store.name, f"does not keep {name}: {why}")
    needed = footprint_B(nest, hierarchy, mapping, index)
    if store.capacity_B is not None and needed > store.capacity_B:
        what = f"{needed:,} B of tiles in {store.capacity_B:,} B"
        yield Refusal(store.name, what, needed, store.capacity_B)


def _lanes(part: LevelMap, store: Store) -> Iterator[Refusal]:
    used = {dimension: 1 for dimension, _ in part.spatial.values()}
    for dimension, lanes in part.spatial.values():
        used[dimension] *= lanes
    for dimension, lanes in used.items():
        units = store.units.get(dimension, 1)
        if lanes > units:
            yield Refusal(store.name, f"{lanes} lanes along {dimension!r}, which has {units}", lanes, units)


def footprint_B(nest: LoopNest, hierarchy: Hierarchy, mapping: Mapping, level: int) -> int:
    """Bytes that the kept tiles take in one instance of a level: slots x tile, each rounded up to whole bytes."""
    box = {axis: (0, extent) for axis, extent in mapping.tile(nest, level).items()}
    known = {operand.name for operand in nest.operands}
    return sum(
        slots * ceil(nest.distinct(name, box) * hierarchy.word_B[name])
        for name, slots in mapping.levels[level].keep.items()
        if name in known
    )
