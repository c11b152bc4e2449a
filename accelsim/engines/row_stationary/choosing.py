"""The mapping of a step of a program: the one that is pinned, else the best that leaves room for what follows."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import fields, replace
from typing import Any

from accelsim.engines.base import Lowering
from accelsim.engines.row_stationary.choice import choose
from accelsim.engines.row_stationary.laws import ifmap_banks, psum_banks, require
from accelsim.engines.row_stationary.shape import Conv, Geometry, Mapping
from accelsim.errors import Infeasible, Problem, UsageError, nearest
from accelsim.workload.graph import Tensor

FIELDS = tuple(field.name for field in fields(Mapping))


def mapping_of(step: Lowering, conv: Conv, array: Geometry) -> Mapping:
    """The mapping of a step. Raises UsageError for a pinned one that breaks a law, Infeasible where none fits."""
    tensors = step.layout.graph.tensors
    sides = [tensors[name] for name in step.layout.epilogue_reads(step.node).sides]
    return _pinned(step, conv, array) if step.pinned else _chosen(step, conv, array, sides)


def side_B(conv: Conv, mapping: Mapping, sides: list[Tensor]) -> int:
    """Bytes of the tiles of operands that follow a product: those that meet the psums of one pass."""
    words = mapping.n * min(mapping.p * mapping.t, mapping.m) * mapping.e * conv.F
    return sum(side.size_B(min(words, side.elements)) for side in sides)


def _pinned(step: Lowering, conv: Conv, array: Geometry) -> Mapping:
    where = f"mapping of {step.node.name}"
    problems = [
        Problem(f"unknown field {name!r}", where, ", ".join(FIELDS), nearest(name, FIELDS))
        for name in step.pinned
        if name not in FIELDS
    ]
    missing = [name for name in FIELDS if name not in step.pinned]
    if missing and not problems:
        problems.append(Problem(f"no {', '.join(missing)}", where, f"all of {', '.join(FIELDS)}"))
    if problems:
        raise UsageError(problems)
    mapping = Mapping(**step.pinned)
    require(conv, array, mapping)
    return mapping


def _chosen(step: Lowering, conv: Conv, array: Geometry, sides: list[Tensor]) -> Mapping:
    """The best mapping whose psums and ifmaps leave room for a tile of each side; alike steps choose once."""
    roles, spec = step.layout.roles, step.unit.spec
    rates = [roles.memory(name).rate_Bps for name in (roles.weights_home, roles.activations_home)]
    clocks_per_word = float(spec.clock or roles.chip.clock) * array.word_B / min(rates)
    key: Hashable = (type(spec).__name__, conv, array, tuple(side.size_B(1) for side in sides))
    known: list[Any] = step.memo.setdefault(key, [])
    for banks in range(array.glb_banks, 0, -1) if not known else ():
        try:
            mapping = choose(conv, replace(array, glb_banks=banks), clocks_per_word)
        except Infeasible:
            break
        maps = mapping.many()
        taken = int((ifmap_banks(conv, array, maps) + psum_banks(conv, array, maps))[0])
        if side_B(conv, mapping, sides) <= (array.glb_banks - taken) * array.glb_bank_B:
            known.append(mapping)
            break
    if not known:
        smallest = Mapping(1, 1, 1, 1, 1, 1, 1)
        needed_B, capacity_B = side_B(conv, smallest, sides), array.glb_banks * array.glb_bank_B
        raise Infeasible(step.node.name, roles.activations, needed_B, capacity_B, f"of {smallest}")
    found: Mapping = known[0]
    return found
