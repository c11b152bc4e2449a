"""The mapping of a step of a program: the one that is pinned, else the best that leaves room for what follows."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import fields, replace
from typing import NamedTuple

from accelsim.engines.alone import Writer, decided
from accelsim.engines.base import Lowering
from accelsim.engines.row_stationary.choice import choose
from accelsim.engines.row_stationary.laws import ifmap_banks, psum_banks, require
from accelsim.engines.row_stationary.mapper import Least
from accelsim.engines.row_stationary.shape import Conv, Geometry, Mapping
from accelsim.errors import Infeasible
from accelsim.workload.graph import Tensor

FIELDS = tuple(field.name for field in fields(Mapping))


class Chosen(NamedTuple):
    """The mapping of a step, and how many were compared."""

    mapping: Mapping
    compared: int


def mapping_of(step: Lowering, conv: Conv, array: Geometry, write: Writer[Mapping]) -> Chosen:
    """The mapping of a step, whose commands ``write`` writes. Raises UsageError for a pinned one that breaks a law,
    Infeasible where none fits."""
    if step.pinned.keys() == set(FIELDS):
        mapping = Mapping(**step.pinned)
        require(conv, array, mapping)
        return Chosen(mapping, 1)
    tensors = step.layout.graph.tensors
    sides = [tensors[name] for name in step.layout.epilogue_reads(step.node).sides]
    return _chosen(step, conv, array, sides, write)


def side_B(conv: Conv, mapping: Mapping, sides: list[Tensor]) -> int:
    """Bytes of the tiles of operands that follow a product: those that meet the psums of one pass."""
    words = mapping.n * min(mapping.p * mapping.t, mapping.m) * mapping.e * conv.F
    return sum(side.size_B(min(words, side.elements)) for side in sides)


def _chosen(
    step: Lowering, conv: Conv, array: Geometry, sides: list[Tensor], write: Writer[Mapping]
) -> Chosen:
    """The best mapping whose psums and ifmaps leave room for a tile of each side; alike steps choose once."""
    pins = tuple(sorted(step.pinned.items()))
    key: Hashable = (
        type(step.unit.spec).__name__, conv, array, tuple(side.size_B(1) for side in sides), pins,
    )  # fmt: skip
    known: list[Chosen] = step.memo.setdefault(key, [])
    if not known:
        best = _best(step, conv, array, sides)
        known.append(Chosen(decided(step, key, best.mappings, write), best.compared))
    return known[0]


def _best(step: Lowering, conv: Conv, array: Geometry, sides: list[Tensor]) -> Least:
    """The best mappings, of all banks of the global buffer or of as many as leave room for the sides."""
    roles, spec = step.layout.roles, step.unit.spec
    rates = [roles.memory(name).rate_Bps for name in (roles.weights_home, roles.activations_home)]
    clocks_per_word = float(spec.clock or roles.chip.clock) * array.word_B / min(rates)
    leaders = step.tuner.leaders if step.tuner else 1
    for banks in range(array.glb_banks, 0, -1):
        smaller = replace(array, glb_banks=banks)
        try:
            found = choose(conv, smaller, clocks_per_word, step.search, step.pinned, leaders)
        except Infeasible:
            break
        if beside := [each for each in found.mappings if _leaves_room(conv, array, each, sides)]:
            return Least(beside, found.compared)
    smallest = Mapping(**dict.fromkeys(FIELDS, 1) | dict(step.pinned))
    require(conv, array, smallest)
    needed_B, capacity_B = side_B(conv, smallest, sides), array.glb_banks * array.glb_bank_B
    raise Infeasible(step.node.name, roles.activations, needed_B, capacity_B, f"of {smallest}")


def _leaves_room(conv: Conv, array: Geometry, mapping: Mapping, sides: list[Tensor]) -> bool:
    maps = mapping.many()
    taken = int((ifmap_banks(conv, array, maps) + psum_banks(conv, array, maps))[0])
    return side_B(conv, mapping, sides) <= (array.glb_banks - taken) * array.glb_bank_B
