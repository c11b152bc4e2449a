"""The memories of a chip as one tree, from those beside the engines to those where operands live: who feeds whom.

What a core's memory (a buffer) holds lives in a memory of the chip, its home; on the way there may lie levels. A level
that the compiler manages keeps results, so it is on the way of activations alone; a cache is on that of all.
"""

from __future__ import annotations

from collections.abc import Container

from accelsim.spec.chip import Chip, Core
from accelsim.spec.energy import sram_J_per_B
from accelsim.spec.memory import Memory


def holder(chip: Chip, role: str) -> str:
    """The memory of a core in which a kind of operand lies, '' where there is none."""
    return next((name for name, buffer in chip.buffers.items() if role in buffer.holds), "")


def home(chip: Chip, role: str) -> str:
    """The memory of the chip in which a kind of operand lives, '' where there is none."""
    found = (name for name, each in chip.memories.items() if role in each.holds and each.fed_by is None)
    return next(found, "")


def way(chip: Chip, role: str) -> list[str]:
    """Return the way from the levels that a kind of operand may lie in, the nearest to the core first, to its home;
    [] without one."""
    found = home(chip, role)
    levels = levels_before(chip, found) if role == "activations" else []
    return [*levels, found] if found else []


def feeders(chip: Chip, name: str) -> list[str]:
    """Return what fills a memory: of a level what it states; of a core's memory the nearest on the way of each operand
    that it holds, or the cache before that."""
    if name in chip.memories:
        return [feeder] if (feeder := chip.memories[name].fed_by) else []
    nearest = [found[0] for role in chip.buffers[name].holds if (found := way(chip, role))]
    return list(dict.fromkeys(cache_of(chip, each) or each for each in nearest))


def managed(chip: Chip) -> list[str]:
    """Return the levels whose contents the compiler decides."""
    return [name for name, each in chip.memories.items() if each.fed_by is not None and each.cache is None]


def caches(chip: Chip) -> list[str]:
    """Return the levels that are caches."""
    return [name for name, each in chip.memories.items() if each.cache is not None]


def cache_of(chip: Chip, memory: str) -> str:
    """The cache through which transfers of a memory pass, '' where there is none."""
    return next((name for name in caches(chip) if chip.memories[name].fed_by == memory), "")


def levels_before(chip: Chip, memory: str) -> list[str]:
    """Levels that the compiler manages on the way from a memory to the buffers, the nearest to these first."""
    before = {chip.memories[name].fed_by: name for name in managed(chip)}
    found: list[str] = []
    while (level := before.get(memory)) is not None and level not in found:
        found.insert(0, level)
        memory = level
    return found


def home_behind(chip: Chip, memory: str) -> str:
    """The memory that feeds a level in the end, of a memory that no other feeds itself; where the way leads in a circle
    or to no memory at all, the last level on it."""
    passed = {memory}
    while (feeder := chip.memories[memory].fed_by) in chip.memories and feeder not in passed:
        assert feeder is not None
        memory = feeder
        passed.add(memory)
    return memory


def byte_J(chip: Chip, memory: Memory, write: bool) -> float:
    """Energy of a byte read from a memory or written to it: as stated, or of an SRAM that states none as in the energy
    table of the chip."""
    stated = memory.write_energy if write else memory.read_energy
    return sram_J_per_B(chip.energy.sram, float(memory.capacity), write) if stated is None else float(stated)


def without_memories(chip: Chip) -> Chip:
    """Return a chip without attached memories; whoever asks it for them gets an AttributeError."""
    made = chip.model_copy()
    del made.__dict__["memories"]
    return made


def without_capacities(core: Core, names: Container[str]) -> Core:
    """Return a core whose memories of these ``names`` have capacity 0, but for those that slots divide."""
    sized = {name: each for name, each in core.memories.items() if name in names and each.slots is None}
    changed = {name: each.model_copy(update={"capacity": 0}) for name, each in sized.items()}
    return core.model_copy(update={"memories": core.memories | changed})
