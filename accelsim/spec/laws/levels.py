"""Laws of the tree of memories: what feeds which, what levels hold, and that they are worth having."""

from __future__ import annotations

from collections.abc import Iterator

from accelsim.errors import nearest
from accelsim.spec.chip import Chip
from accelsim.spec.laws.finding import Finding
from accelsim.spec.levels import cache_of, home_behind, way
from accelsim.spec.memory import SRAM, Attachment
from accelsim.units import show

RESULTS = ["activations"]
"""Contents of a level that the compiler manages."""


def _levels(chip: Chip) -> list[tuple[str, Attachment, str]]:
    """Levels, and what feeds each; those that some memory feeds in the end."""
    found = [(name, each, each.fed_by) for name, each in chip.memories.items() if each.fed_by is not None]
    return [entry for entry in found if chip.memories[home_behind(chip, entry[0])].fed_by is None]


def levels_are_fed(chip: Chip) -> Iterator[Finding]:
    """Yield what feeds a level exists and is no level that it feeds itself; a cache is of a memory, and feeds
    nothing."""
    for name, level in chip.memories.items():
        path, feeder = ("memories", name, "fed_by"), level.fed_by
        if feeder is None:
            continue
        if feeder not in chip.memories:
            others = [other for other in chip.memories if other != name]
            yield Finding(path, f"no memory {feeder!r}", ", ".join(others), nearest(feeder, others))
            continue
        behind, home = chip.memories[feeder], home_behind(chip, name)
        if chip.memories[home].fed_by in chip.memories:
            yield Finding(path, f"{name!r} feeds itself", "a memory that no other feeds, in the end")
        elif behind.cache is not None:
            yield Finding(path, f"{feeder!r} is a cache", f"fed_by: {behind.fed_by}")
        elif level.cache is not None and behind.fed_by is not None:
            yield Finding(path, f"{feeder!r} is a level itself", f"fed_by: {home}")


def buffers_are_fed_from_where_operands_live(chip: Chip) -> Iterator[Finding]:
    """Yield what a memory of a core says to be fed by is the nearest memory on the way to where lives what it holds."""
    for name, buffer in chip.buffers.items():
        path, feeder = chip.path_to("memories", name, "fed_by"), buffer.fed_by
        if feeder is None:
            continue
        if feeder not in chip.memories:
            yield Finding(path, f"no memory {feeder!r}", ", ".join(chip.memories), nearest(feeder, chip.memories))
            continue
        ways = [found for role in buffer.holds if (found := way(chip, role))]
        longest = max(ways, key=len, default=[""])
        right = {each[-1] for each in ways} <= {feeder, home_behind(chip, feeder)}
        if ways and right and feeder in (longest[0], cache_of(chip, longest[0])):
            continue
        told = " and ".join(buffer.holds)
        what = f"{longest[0]!r} lies before {feeder!r}" if feeder in longest[1:] else f"{told} do not pass {feeder!r}"
        homes = {each[-1] for each in ways}
        yield Finding(path, what, f"fed_by: {longest[0]}" if len(homes) == 1 else "no fed_by")


def names_are_distinct(chip: Chip) -> Iterator[Finding]:
    """No memory of a core has the name of one of the chip."""
    for name in chip.buffers:
        if name in chip.memories:
            what = f"{name!r} is the name of a memory of the chip"
            yield Finding(chip.path_to("memories", name), what, "another name")


def levels_are_alone(chip: Chip) -> Iterator[Finding]:
    """A memory feeds one cache and one level that the compiler manages at the most."""
    taken: dict[tuple[str, bool], str] = {}
    for name, level, feeder in _levels(chip):
        other = taken.setdefault((feeder, level.cache is None), name)
        if other != name:
            what = "caches" if level.cache else "levels without a cache"
            yield Finding(("memories", name, "fed_by"), f"{feeder!r} feeds two {what}, {other!r} too", "one")


def levels_hold_what_passes(chip: Chip) -> Iterator[Finding]:
    """A memory holds something; a level the results of the chip, where these leave it, and a cache what comes by."""
    for name, each in chip.memories.items():
        if each.fed_by is None and not each.holds:
            yield Finding(("memories", name), f"nothing lives in {name!r}", "holds:")
        if each.fed_by is None and each.cache is not None:
            yield Finding(("memories", name, "cache"), "a cache of no memory", "fed_by:")
    for name, level, _ in _levels(chip):
        path, home = ("memories", name, "holds"), home_behind(chip, name)
        if level.cache is not None:
            if level.holds:
                yield Finding(path, "a cache holds whatever passes it", "no holds")
        elif level.holds != RESULTS:
            told = ", ".join(level.holds) or "nothing"
            yield Finding(path, f"it holds {told}", "[activations]: a level is for results, others stay at home")
        elif "activations" not in chip.memories[home].holds:
            others = (n for n, each in chip.memories.items() if not each.fed_by and "activations" in each.holds)
            expected = next((f"fed_by: {other}" for other in others), "")
            yield Finding(("memories", name, "fed_by"), f"no activations live in {home!r}", expected)


def levels_are_srams(chip: Chip) -> Iterator[Finding]:
    """A level is an SRAM on the chip."""
    for name, each, _ in _levels(chip):
        if each.memory.kind != SRAM or each.memory.dram is not None:
            what = f"a level of kind {each.memory.kind!r}"
            yield Finding(("memories", name, "memory", "kind"), what, "kind: sram, on the chip")
        if each.link is not None:
            yield Finding(("memories", name, "link"), "a link before a level on the chip", "no link")


def levels_are_small_and_fast(chip: Chip) -> Iterator[Finding]:
    """A level is smaller than what feeds it, and not slower."""
    for name, level, feeder in _levels(chip):
        behind, path = chip.memories[feeder], ("memories", name, "memory")
        mine, theirs = level.memory.capacity, behind.memory.capacity
        if mine >= theirs:
            what = f"{show(mine, 'B', binary=True)} are no fewer than {feeder!r} has"
            yield Finding((*path, "capacity"), what, f"less than {show(theirs, 'B', binary=True)}")
        if level.rate_Bps < behind.rate_Bps:
            what = f"{show(level.rate_Bps, 'B/s', 4)} are less than {feeder!r} gives"
            yield Finding((*path, "bandwidth"), what, f"{show(behind.rate_Bps, 'B/s', 4)} or more")


def caches_have_whole_sets(chip: Chip) -> Iterator[Finding]:
    """Lines share the capacity in whole sets and are whole pieces of the memory behind, which has one port."""
    for name, level, feeder in _levels(chip):
        if level.cache is None:
            continue
        size_B, set_B = level.memory.capacity, level.cache.line * level.cache.ways
        path = ("memories", name, "cache")
        if size_B % set_B:
            what = f"{show(size_B, 'B', binary=True)} are no whole sets of {show(set_B, 'B', binary=True)}"
            yield Finding((*path, "ways"), what, "line x ways that divides the capacity")
        behind = chip.memories[feeder]
        if behind.memory.capacity % level.cache.line:
            what = f"{feeder!r} has no whole lines of {show(level.cache.line, 'B', binary=True)}"
            yield Finding((*path, "line"), what, "a divisor of its capacity")
        if behind.full_duplex:
            what = f"loads and stores of {feeder!r} do not wait for each other, and the cache has one port"
            yield Finding(("memories", name, "fed_by"), what, "a memory without a link of duplex: full")


FED_LAWS = (buffers_are_fed_from_where_operands_live, names_are_distinct)
"""Laws of what feeds the memories of a core."""
LEVEL_LAWS = (
    levels_are_fed,
    levels_are_alone,
    levels_hold_what_passes,
    levels_are_srams,
    levels_are_small_and_fast,
    caches_have_whole_sets,
)
"""Every law of levels; a new one is a function and a line here."""
