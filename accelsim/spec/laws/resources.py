"""Laws of an FPGA: each part is made of blocks that there are, no kind is used up, no block is clocked too fast."""

from __future__ import annotations

from collections.abc import Iterator

from accelsim.errors import brief, nearest
from accelsim.spec.chip import Chip
from accelsim.spec.laws.finding import Finding
from accelsim.spec.names import nearest_format, operand_formats
from accelsim.spec.resources import Multipliers, taken
from accelsim.units import show


def resources_are_named(chip: Chip) -> Iterator[Finding]:
    """Yield parts that no core has, and kinds of blocks that the device lacks or that are of the other sort."""
    resources = chip.resources
    if resources is None:
        return
    for part, kind in resources.uses.items():
        path = ("resources", "uses", part)
        if part in chip.buffers:
            there, sort = list(resources.memories), "memory"
        elif part in chip.engines:
            there, sort = list(resources.multipliers), "multipliers"
        else:
            parts = [*chip.engines, *chip.buffers]
            yield Finding(path, f"no engine or memory {part!r}", ", ".join(parts), nearest(part, parts))
            continue
        if kind not in there:
            yield Finding(path, f"no {sort} {kind!r}", ", ".join(there) or "none", nearest(kind, there))


def formats_are_multiplied(chip: Chip) -> Iterator[Finding]:
    """Yield formats of an engine in which its blocks do not multiply."""
    for engine, kind, block in _engines(chip):
        for name in chip.engines[engine].rates():
            if block.per_block(name) is None:
                there = ", ".join(block.macs)
                yield Finding(chip.path_to("engines", engine, "formats", name), f"{kind} do not multiply it", there)


def blocks_multiply_formats(chip: Chip) -> Iterator[Finding]:
    """Yield products of blocks in what is no number format."""
    for kind, block in (chip.resources.multipliers if chip.resources is not None else {}).items():
        for name in block.macs:
            if operand_formats(name) is None:
                path = ("resources", "multipliers", kind, "macs", name)
                yield Finding(
                    path, f"{brief(name)} is no number format", "int8, fp16, int4xint8, ...", nearest_format(name)
                )


def blocks_are_enough(chip: Chip) -> Iterator[Finding]:
    """Yield kinds of blocks of which the design uses more than the device has."""
    for kind, there, used, by in taken(chip):
        if used > there:
            parts = ", ".join(f"{use.part} {use.blocks:,} by its {use.why}" for use in by)
            what = f"the design needs {used:,} {kind} ({parts})"
            yield Finding(("resources", "uses"), what, f"{there:,} at the most, as the device has")


def blocks_are_clocked_no_faster_than_they_can_be(chip: Chip) -> Iterator[Finding]:
    """Yield engines whose clock is too high for their blocks."""
    for engine, kind, block in _engines(chip):
        own = chip.engines[engine].clock or chip.clock
        if block.clock is not None and own * block.pump > block.clock:
            own_Hz, most_Hz = show(own * block.pump, "Hz"), show(block.clock, "Hz")
            what = f"{engine} at {show(own, 'Hz')} clocks {kind} at {own_Hz}, which reach {most_Hz}"
            expected = f"{show(block.clock / block.pump, 'Hz')} at the most"
            yield Finding(chip.path_to("engines", engine, "clock"), what, expected)


def _engines(chip: Chip) -> Iterator[tuple[str, str, Multipliers]]:
    resources = chip.resources
    if resources is None:
        return
    for part, kind in resources.uses.items():
        if part in chip.engines and kind in resources.multipliers:
            yield part, kind, resources.multipliers[kind]


RESOURCE_LAWS = (
    resources_are_named,
    formats_are_multiplied,
    blocks_multiply_formats,
    blocks_are_enough,
    blocks_are_clocked_no_faster_than_they_can_be,
)
"""Every law of an FPGA; a new one is a function and a line here."""
