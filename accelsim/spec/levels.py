"""Levels between the buffers of a chip and its memories: which there are, on the way to which memory."""

from __future__ import annotations

from accelsim.spec.chip import Chip
from accelsim.spec.memory import Memory
from accelsim.spec.sram_energy import sram_J_per_B


def managed(chip: Chip) -> list[str]:
    """Levels whose contents the compiler decides about."""
    return [name for name, each in chip.memories.items() if each.fed_by is not None and each.cache is None]


def caches(chip: Chip) -> list[str]:
    """Levels that are caches."""
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
