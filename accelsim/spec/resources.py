"""Blocks of an FPGA: those that multiply, those of memory, and which part of a design takes which kind.

A part uses whole blocks. An array needs one block for as many PEs as fit into it (``Multipliers.per_block``); a memory
needs blocks for its bytes, and for its width, as each port of a block is only so wide.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import ceil
from typing import TYPE_CHECKING, Annotated, NamedTuple

from accelsim.spec.base import Model
from accelsim.spec.counts import Name, Parts
from accelsim.spec.declaring import Field
from accelsim.spec.quantity import Bytes, Hertz, Seconds, Width

if TYPE_CHECKING:
    from accelsim.spec.chip import Chip, Core


class Multipliers(Model):
    """Blocks that multiply: DSP slices, AI Engines."""

    count: Parts = Field(description="how many the device has")
    macs: dict[str, Parts] = Field(min_length=1, description="format -> products per block and clock")
    pump: Annotated[int, Field(ge=1, le=8)] = Field(1, description="block clocks per array clock")
    clock: Hertz | None = Field(None, description="highest clock; absent: not checked")

    def per_block(self, number_format: str) -> int | None:
        """Return the products of a block in one clock of the array, None for a format that it does not have."""
        found = self.macs.get(number_format)
        return None if found is None else found * self.pump


class MemoryBlocks(Model):
    """Blocks of memory: block RAM, UltraRAM."""

    count: Parts = Field(description="how many the device has")
    capacity: Bytes = Field(description="bytes per block")
    width: Width = Field(description="bytes per port and clock")


class Resources(Model):
    """Blocks of an FPGA; a design that uses more is refused."""

    multipliers: dict[Name, Multipliers] = Field({}, description="blocks that multiply, by kind")
    memories: dict[Name, MemoryBlocks] = Field({}, description="memory blocks, by kind")
    uses: dict[Name, Name] = Field({}, description="engine or memory -> kind of block that it takes")
    configuration: Seconds | None = Field(None, description="time to load the design, once; no part of a run")


class Use(NamedTuple):
    """A part of a core, the kind of its blocks, how many all copies need, and why: the format, or what is short."""

    part: str
    kind: str
    blocks: int
    why: str


def uses(chip: Chip) -> Iterator[Use]:
    """Yield what each part of the design uses; parts and formats without blocks are left out."""
    resources = chip.resources
    if resources is None:
        return
    for (part, kind), core in product(resources.uses.items(), chip.cores.values()):
        found = _use(core, resources, part, kind)
        if found is not None:
            yield found


def _use(core: Core, resources: Resources, part: str, kind: str) -> Use | None:
    if part in core.engines and kind in resources.multipliers:
        block = resources.multipliers[kind]
        needs = {
            name: ceil(Fraction(rate) / each)
            for name, rate in core.engines[part].rates().items()
            if (each := block.per_block(name)) is not None
        }
        most = max(needs, key=lambda name: needs[name], default="")
        return Use(part, kind, core.count * needs.get(most, 0), most)
    if part in core.memories and kind in resources.memories:
        held, cell = core.memories[part], resources.memories[kind]
        needs = {
            "capacity": -(-held.capacity // cell.capacity),
            "width": -(-max(held.read_width, held.write_width) // cell.width),
        }
        most = max(needs, key=lambda name: needs[name])
        return Use(part, kind, core.count * needs[most], most)
    return None


class Taken(NamedTuple):
    """A kind of block: how many the device has, how many the design takes, and for what."""

    kind: str
    there: int
    used: int
    by: list[Use]


def taken(chip: Chip) -> list[Taken]:
    """Return what the design takes of each kind of block that it uses."""
    found, resources = list(uses(chip)), chip.resources
    kinds = resources.multipliers | resources.memories if resources is not None else {}
    own = ((kind, each.count, [use for use in found if use.kind == kind]) for kind, each in kinds.items())
    return [Taken(kind, there, sum(use.blocks for use in by), by) for kind, there, by in own if by]
