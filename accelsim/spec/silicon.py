"""Idle power and die of a chip whose arrays or buffers are changed. Every figure here is a guess.

The area of a whole die by its design: ``accelsim/account/area.py``.

One chip that published die, idle power and floor plan carries it: TPU v1 (Jouppi et al., ISCA 2017: at most 331 mm2 of
28 nm, 28 W idle; the shares of the die of the matrix unit, 24 %, and of the unified buffer, 29 %, are recalled). Area
per PE and per byte are theirs; idle power goes by area. Other nodes: the area of logic of Stillmaker and Baas (2017),
idle power per area taken to be the same. PEs count alike in every number format: wide ones are larger than this says.

Where a chip states its idle power, that figure holds at the size that it was stated for. A chip whose array, cores or
buffers are changed, by an override or by a spec that starts from the chip's, gets the difference.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from accelsim.engines.systolic.spec import MatrixUnit
from accelsim.spec.chip import Chip
from accelsim.spec.scaling import relative_area
from accelsim.spec.status import ESTIMATE

DIE_m2, IDLE_W, NODE_nm = 331e-6, 28.0, 28.0
"""Die, idle power and node of TPU v1 (read)."""
ARRAY_SHARE, BUFFER_SHARE = 0.24, 0.29
"""Shares of the die of TPU v1 that its matrix unit and its unified buffer take (recalled)."""
ARRAY_PES, BUFFER_B = 256 * 256, 24 * 2**20
PE_m2, BYTE_m2 = ARRAY_SHARE * DIE_m2 / ARRAY_PES, BUFFER_SHARE * DIE_m2 / BUFFER_B
"""Area of a PE and of a byte of a buffer at 28 nm."""
LEAST_LEFT = 0.1
"""Share of a stated figure that stays, however much smaller a chip is made."""
SIZED = ("rows", "cols", "capacity", "count")
"""Fields that the size of a chip rests on."""


class Silicon(NamedTuple):
    """PEs of all arrays and bytes of all buffers and levels, their area in m2 and their idle power in W."""

    pes: int
    buffers_B: int
    area_m2: float
    idle_W: float


def silicon(chip: Chip) -> Silicon:
    """Return PEs, bytes, area and idle power of the arrays and buffers of a chip, by the rules of this module."""
    pes = held_B = 0
    for core in chip.cores.values():
        arrays = (unit for unit in core.engines.values() if isinstance(unit, MatrixUnit))
        pes += core.count * sum(array.count * array.rows * array.cols for array in arrays)
        held_B += core.count * sum(buffer.capacity for buffer in core.memories.values())
    held_B += sum(each.memory.capacity for each in chip.memories.values() if each.fed_by is not None)
    area_m2 = (pes * PE_m2 + held_B * BYTE_m2) * relative_area(node_nm(chip)) / relative_area(NODE_nm)
    return Silicon(pes, held_B, area_m2, area_m2 * IDLE_W / DIE_m2)


def node_nm(chip: Chip) -> float:
    """Return the node of a chip, or of its energy table; 28 nm where neither states one."""
    found = (re.match(r"\s*([\d.]+)\s*nm", text or "") for text in (chip.process, chip.energy.node))
    return next((float(each[1]) for each in found if each and float(each[1]) > 0), NODE_nm)


def resized(chip: Chip, stated_for: Chip, field: str) -> Chip:
    """Return ``chip`` with its power or die area (``field``) moved by the differences from ``stated_for``."""
    now, before = silicon(chip), silicon(stated_for)
    if now == before:
        return chip
    if field == "die_area":
        assert chip.die_area is not None
        return chip.model_copy(update={"die_area": _moved(chip.die_area, now.area_m2 - before.area_m2)})
    assert chip.power is not None
    more_W = now.idle_W - before.idle_W
    stated = {name: getattr(chip.power, name) for name in ("idle", "busy", "tdp")}
    powers = {name: _moved(value, more_W) for name, value in stated.items() if value is not None}
    return chip.model_copy(
        update={"power": chip.power.model_copy(update={**powers, "note": _note(now, before, more_W)})}
    )


def _moved(stated: float, more: float) -> float:
    return max(float(stated) + more, LEAST_LEFT * float(stated))


def _note(now: Silicon, before: Silicon, more_W: float) -> str:
    """Return what was done to the stated power, for the spec and the report."""
    return (
        f"{ESTIMATE}: what is stated for {before.pes:,} PEs and {before.buffers_B / 1024:,.0f} KiB of buffers, "
        f"{'plus' if more_W >= 0 else 'minus'} {abs(more_W):.3g} W for {now.pes:,} PEs and "
        f"{now.buffers_B / 1024:,.0f} KiB, a guess by area and idle power of TPU v1"
    )
