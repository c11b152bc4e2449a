"""Runs of ZigZag as nests, mappings and accesses of ports, operand by operand.

ZigZag gives every operand levels of its own, so each has a mapping of its own here. It counts accesses of a port:
transfers x bits of a transfer, these rounded up to the narrowest access, divided by the widest, rounded down.
"""

from __future__ import annotations

import json
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from accelsim.mapping.columns import Frame, Mappings
from accelsim.mapping.counts import Counts, counts
from accelsim.mapping.levels import Hierarchy, LevelMap, Mapping, Store
from accelsim.mapping.rules import ZIGZAG
from accelsim.workload.nest import Form, LoopNest, Operand

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "mapping"
MEMORY_OPERAND = {"O": "O", "W": "I2", "I": "I1"}
OUTPUT_BITS = {"eyeriss_like": 16}


class Row(NamedTuple):
    """Accesses of one operand at one level (0 innermost) in one direction."""

    operand: str
    level: int
    direction: str
    theirs: int
    ours: int


def layers() -> list[dict[str, Any]]:
    data: list[dict[str, Any]] = json.loads((GOLDEN / "zigzag_layers.json").read_text(encoding="utf-8"))
    return data


def ports() -> dict[str, Any]:
    data: dict[str, Any] = json.loads((GOLDEN / "zigzag_ports.json").read_text(encoding="utf-8"))
    return data


def spatial(layer: dict[str, Any]) -> dict[str, list[list[tuple[str, float]]]]:
    """Operand -> per level (innermost first, the units before it) lanes (axis, how many)."""
    found: dict[str, list[list[tuple[str, float]]]] = layer["spatial"]
    return found


def fractional(layer: dict[str, Any]) -> bool:
    """Whether lanes are a mean over steps, such as 12.8: then ZigZag's counts are of lanes that do not exist."""
    return any(count % 1 for parts in spatial(layer).values() for part in parts for _, count in part)


def nest(layer: dict[str, Any]) -> LoopNest:
    dims = {"B": 1, "K": 1, "G": 1, "C": 1, "OX": 1, "OY": 1, "FX": 1, "FY": 1, **layer["dims"]}
    dims.pop("D", None)
    one = {axis: Form(((axis, 1),)) for axis in dims}
    stride = layer["stride"]
    sides = {
        "X": Form((("OX", stride), ("FX", 1)), 0, layer["input"]),
        "Y": Form((("OY", stride), ("FY", 1)), 0, layer["input"]),
    }
    return LoopNest(dims, (
        Operand("I", {**{axis: one[axis] for axis in ("B", "G", "C")}, **sides}),
        Operand("W", {axis: one[axis] for axis in ("G", "K", "C", "FX", "FY")}),
        Operand("O", {axis: one[axis] for axis in ("B", "G", "K", "OX", "OY")}, "writes"),
    ))  # fmt: skip


def mapping(layer: dict[str, Any], operand: str) -> tuple[Mapping, list[int]]:
    """The mapping with only this operand kept inside, and where each of its levels is, innermost first."""
    loops = layer["temporal_inner_to_outer_per_operand_per_level"][operand]
    lanes = spatial(layer)[operand]
    parts: list[LevelMap] = []
    places: list[int] = []
    for level in range(len(loops) - 1, -1, -1):
        places.insert(0, len(parts))
        keep = [operand] if level < len(loops) - 1 else ["I", "W", "O"]
        current: dict[str, int] = {}
        for text in reversed(loops[level]):
            axis, count = text.split(":")
            if axis in current:
                parts.append(LevelMap(f"{len(parts)}", tuple(current.items()), {}, dict.fromkeys(keep, 1)))
                current, keep = {}, []
            current[axis] = int(count)
        across = {axis: ("rows", ceil(count)) for axis, count in lanes[level]}
        parts.append(LevelMap(f"{len(parts)}", tuple(current.items()), across, dict.fromkeys(keep, 1)))
    return Mapping(tuple(parts)), places


def counted(problem: LoopNest, pinned: Mapping) -> Counts:
    stores = tuple(Store(part.level, None, {"rows": 1 << 20}) for part in pinned.levels)
    frame = Frame.of(problem, Hierarchy(stores, dict.fromkeys("IWO", 1)))
    return counts(problem, Mappings.of(frame, [pinned]), ZIGZAG)


class Side(NamedTuple):
    """Words that pass a port in all, and in one transfer."""

    words: int
    together: int


def accesses(side: Side, bits: int, port: list[int]) -> int:
    """Accesses of a port of (narrowest, widest) bits."""
    if not side.words:
        return 0
    narrow, wide = port
    return int(side.words / side.together * ceil(side.together * bits / narrow) * narrow / wide)


def rows(layer: dict[str, Any]) -> list[Row]:
    """Every count of the layer: their accesses and ours."""
    return [row for operand in "OWI" for row in _operand(layer, operand)]


def _operand(layer: dict[str, Any], operand: str) -> list[Row]:
    problem = nest(layer)
    pinned, places = mapping(layer, operand)
    found, index = counted(problem, pinned), "IWO".index(operand)
    machine = ports()[layer["run"].split("/")[0]]
    names = layer["levels_per_memory_operand"][MEMORY_OPERAND[operand]]
    word = {direction: [int(column[0, place, index]) for place in places] for direction, column in (
        ("RD_OUT_TO_LOW", found.to_inner), ("WR_IN_BY_LOW", found.from_inner),
        ("RD_OUT_TO_HIGH", found.to_outer), ("WR_IN_BY_HIGH", found.from_outer))}  # fmt: skip
    tiles = [_words(problem, operand, pinned.tile(problem, place)) for place in places]
    lower = [_words(problem, operand, pinned.tile(problem, len(pinned.levels)))]
    result = []
    for level, name in enumerate(names):
        inside = _below(problem, operand, pinned, places, level)
        final = operand != "O" or not word["RD_OUT_TO_LOW"][level]
        upper_final = operand != "O" or not word["WR_IN_BY_HIGH"][level]
        for direction in word:
            low = direction.endswith("LOW")
            whole = final if low else upper_final
            bits = 8 if whole else OUTPUT_BITS.get(layer["run"].split("/")[0], 16)
            if low and level == 0 and operand == "O":
                bits = OUTPUT_BITS.get(layer["run"].split("/")[0], 16)
            side = Side(word[direction][level], inside if low else tiles[level])
            port = machine[name][f"{MEMORY_OPERAND[operand]}, {_PORTS[direction]}"] if side.words else [1, 1]
            theirs = layer["word_access"][operand][level][direction]
            result.append(Row(operand, level, direction, theirs, accesses(side, bits, port)))
    assert lower == [1]
    return result


_PORTS = {"RD_OUT_TO_LOW": "tl", "WR_IN_BY_LOW": "fl", "RD_OUT_TO_HIGH": "th", "WR_IN_BY_HIGH": "fh"}


def _words(problem: LoopNest, operand: str, tile: dict[str, int]) -> int:
    box = {axis: (0, extent) for axis, extent in tile.items()}
    whole = 1
    for form in problem.operand(operand).dims.values():
        one = LoopNest(problem.axes, (Operand("x", {"d": form}), problem.result))
        words = one.distinct("x", box)
        whole *= min(words, form.size) if form.size is not None else words
    return whole


def _below(problem: LoopNest, operand: str, pinned: Mapping, places: list[int], level: int) -> int:
    """Words that go to or come from all lanes beneath a level at once: its child's tile with the lanes between."""
    bottom = places[level - 1] if level else len(pinned.levels)
    tile = {axis: pinned.inside(axis, bottom) for axis in problem.axes}
    for part in pinned.levels[places[level] : bottom]:
        for axis, (_, lanes) in part.spatial.items():
            tile[axis] *= lanes
    return _words(problem, operand, {axis: min(extent, problem.axes[axis]) for axis, extent in tile.items()})
