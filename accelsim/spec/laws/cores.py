"""Laws of a kind of core: its memories, and that kinds differ in numbers alone, as a graph is placed once for all."""

from __future__ import annotations

import re
from collections.abc import Iterator

from accelsim.errors import brief
from accelsim.spec.chip import Chip
from accelsim.spec.laws.finding import Finding
from accelsim.spec.yaml.tree import PathTo
from accelsim.units import show

EXACT = ("sparse",)
"""Fields whose numbers decide what is computed."""


def kinds_differ_in_numbers(chip: Chip) -> Iterator[Finding]:
    """Cores of all kinds have engines and memories of the same names, types, formats, functions and operands. Only
    sizes, widths and clocks differ."""
    first, model = next(iter(chip.cores.items()), ("", None))
    for kind, core in list(chip.cores.items())[1:]:
        for table in ("engines", "memories"):
            path, mine, theirs = ("cores", kind, table), getattr(core, table), getattr(model, table)
            if list(mine) != list(theirs):
                told, wanted = (", ".join(each) or "none" for each in (mine, theirs))
                yield Finding(path, f"{told}, where {first!r} has {wanted}", "the same names in the same order")
                continue
            for name in mine:
                yield from _unlike(mine[name].model_dump(), theirs[name].model_dump(), (*path, name), first)


def _unlike(mine: object, theirs: object, path: PathTo, first: str) -> Iterator[Finding]:
    """Yield the places where two blocks differ in more than numbers."""
    if isinstance(mine, dict) and isinstance(theirs, dict) and mine.keys() == theirs.keys():
        for key in mine:
            if path[-1] in EXACT and mine[key] != theirs[key]:
                yield _finding((*path, key), mine[key], theirs[key], first)
            else:
                yield from _unlike(mine[key], theirs[key], (*path, key), first)
    elif mine != theirs and not (_is_size(mine) and _is_size(theirs)) and path[-1] not in SAID:
        yield _finding(path, mine, theirs, first)


SAID = ("source", "as_of", "note")
"""Fields of every block that nothing is computed from."""


def _is_size(value: object) -> bool:
    """Return whether a value is a number, or none where one may stand."""
    return not isinstance(value, bool | str | dict | list)


def _finding(path: PathTo, mine: object, theirs: object, first: str) -> Finding:
    shown, wanted = (
        brief(", ".join(map(str, each)) if isinstance(each, dict | list) else str(each)) for each in (mine, theirs)
    )
    return Finding(path, f"{shown}, where {first!r} has {wanted}", "kinds of cores that differ in numbers alone")


def kinds_are_no_numbers(chip: Chip) -> Iterator[Finding]:
    """A kind has not the name that a core has in a program, nor that of anything else that a path may start with."""
    for kind, core in chip.cores.items():
        if re.fullmatch(r"core\d+", kind):
            yield Finding(("cores", kind), f"{kind!r} is what a program calls a core", "another name")
        taken = {**chip.memories, **core.engines, **core.memories}
        if kind in taken:
            yield Finding(("cores", kind), f"{kind!r} is the name of an engine or a memory", "another name")


ROLES = ("activations", "weights", "partial_sums")


def one_buffer_per_role(chip: Chip) -> Iterator[Finding]:
    """Each role has exactly one buffer; without a matrix unit, the activations that a vector unit works on."""
    for role in ROLES if chip.matrix else ROLES[:1] if chip.vector else ():
        holders = [name for name, buffer in chip.buffers.items() if role in buffer.holds]
        if len(holders) != 1:
            what = f"{role} live in {' and '.join(holders)}" if holders else f"no buffer holds {role}"
            place = (holders[1], "holds") if holders else ()
            yield Finding(chip.path_to("memories", *place), what, "exactly one buffer")


def slots_hold_one_role(chip: Chip) -> Iterator[Finding]:
    """Fixed ``slots`` are those of a buffer of one role; where several share it, tiles come and go as needed."""
    for name, buffer in chip.buffers.items():
        if buffer.slots is not None and len(buffer.holds) > 1:
            what = f"fixed slots for {' and '.join(buffer.holds)} together"
            yield Finding(chip.path_to("memories", name, "slots"), what, "no slots, or a buffer per role")


def slots_fit(chip: Chip) -> Iterator[Finding]:
    """``slots`` x ``slot_capacity`` is within the capacity."""
    for name, buffer in chip.buffers.items():
        needed = (buffer.slots or 1) * (buffer.slot_capacity or 0)
        if needed > buffer.capacity:
            size = show(buffer.capacity, "B", binary=True)
            slot = show(buffer.slot_capacity or 0, "B", binary=True)
            what = f"{buffer.slots or 1} slots of {slot} exceed {size}"
            yield Finding(chip.path_to("memories", name, "slot_capacity"), what)


def ports_are_no_wider_than_the_buffer(chip: Chip) -> Iterator[Finding]:
    """An access moves no more than the buffer holds."""
    for name, buffer in chip.buffers.items():
        for key in ("read_width", "write_width"):
            if getattr(buffer, key) > buffer.capacity:
                wide = show(getattr(buffer, key), "B", binary=True)
                expected = f"at most its capacity, {show(buffer.capacity, 'B', binary=True)}"
                yield Finding(chip.path_to("memories", name, key), f"{wide} are more than the buffer holds", expected)


def banks_make_the_buffer(chip: Chip) -> Iterator[Finding]:
    """Banks together are as wide as the ports, and share the capacity in whole words."""
    for name, buffer in chip.buffers.items():
        path, banks, word = chip.path_to("memories", name), buffer.banks, buffer.word
        if banks is None:
            if word is not None:
                yield Finding((*path, "word"), "a word of a bank, and no banks", "banks:")
            continue
        if word is None and buffer.read_width % banks:
            read = show(buffer.read_width, "B", binary=True)
            yield Finding((*path, "banks"), f"{banks} banks do not share the read width, {read}", "word:")
            continue
        widest = max(buffer.read_width, buffer.write_width)
        if banks * buffer.word_B < widest:
            what = f"{banks} banks of {show(buffer.word_B, 'B', binary=True)} are narrower than the ports"
            yield Finding((*path, "banks"), what, f"{show(widest, 'B', binary=True)} together, or more")
        if buffer.capacity % (banks * buffer.word_B):
            size = show(buffer.capacity, "B", binary=True)
            what = f"{size} are no whole words of {show(buffer.word_B, 'B', binary=True)} in {banks} banks"
            yield Finding((*path, "banks"), what)


def parts_share_the_buffer(chip: Chip) -> Iterator[Finding]:
    """The parts of a buffer share its capacity in whole bytes."""
    for name, buffer in chip.buffers.items():
        if buffer.parts is not None and buffer.capacity % buffer.parts:
            what = f"{buffer.parts} parts do not share {show(buffer.capacity, 'B', binary=True)}"
            yield Finding(chip.path_to("memories", name, "parts"), what, "a divisor of the capacity in bytes")


BUFFER_LAWS = (
    one_buffer_per_role,
    slots_hold_one_role,
    slots_fit,
    ports_are_no_wider_than_the_buffer,
    banks_make_the_buffer,
    parts_share_the_buffer,
)
"""Every law of buffers; a new one is a function and a line here."""
