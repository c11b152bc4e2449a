"""The choice among mappings of a step by simulating each: the step as a program of its own, its operands in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from accelsim.engines.base import Lowering, M, Mapped
from accelsim.program.commands import Step
from accelsim.program.program import Program
from accelsim.program.writing.builder import Builder
from accelsim.program.writing.layout import Layout, Place

Writer = Callable[[Lowering, M], Mapped]
"""Writes the commands of a step with a mapping, into the layout of the lowering."""


def choose_mapping(step: Lowering, depends: object, mappings: Sequence[M], write: Writer[M]) -> M:
    """Return the mapping that the tuner takes from the best ones of a product; the first where there is no tuner.

    ``depends``: what the decision depends on beside chip, formats and effort; where that is equal, so is the decision.
    """
    if step.tuner is None:
        return mappings[0]
    chip = step.layout.roles.chip
    whole = f"{chip.core_kind}\n{chip.model_dump_json()}\n{depends}\n{step.dtype}\n{step.search}"
    return step.tuner.fastest(step.node.name, whole, mappings, lambda mapping: step_program(step, mapping, write))


def step_program(step: Lowering, mapping: M, write: Writer[M]) -> Program:
    """Return the commands of a step with this mapping, and of nothing else. Raises Infeasible where it does not fit."""
    node, builder = step.node, Builder(step.layout.roles.engines(), step.layout.builder.sequential)
    alone = without_others(step, builder)
    layout, gemm = alone.layout, write(alone, mapping).gemm
    out = layout.graph.tensors[node.writes[0]]
    row = Step(node.name, node.label(), node.engine, out.shape, node, gemm.macs, gemm=gemm, mapping=mapping)
    return Program(
        graph=layout.graph, chip=layout.roles.chip, dtype=step.dtype, commands=builder.commands,
        regions=builder.regions, steps=[row], presets=layout.presets, results={}, engines=builder.engines,
    )  # fmt: skip


def without_others(step: Lowering, builder: Builder) -> Lowering:
    """Return the step as if it were the only one of a program that ``builder`` writes: its operands are where they are,
    and others take as much room."""
    return replace(step, layout=_with_operands(step, builder), index=0, tuner=None, notes=[])


def _with_operands(step: Lowering, builder: Builder) -> Layout:
    was = step.layout
    layout = was.anew(builder)
    buffer = was.roles.activations
    for name in dict.fromkeys(step.node.reads):
        place, tensor = was.place(name), was.graph.tensors[name]
        new = layout.places.setdefault(name, Place())
        if place.chip is not None:
            new.chip = layout.on_chip(buffer, name, tensor.nbytes)
            assert new.chip is not None
            layout.presets[new.chip] = (name, 0)
        if place.home is not None or place.chip is None:  # another core's result will be in its memory by then
            home = place.home
            memory = layout.result_home(name) if home is None else was.builder.regions[home].memory
            new.home = layout.off_chip(memory, name, was.facts.room_B(tensor))
            layout.presets[new.home] = (name, 0)
    now_B, then_B = (each.spaces[buffer].room_after([]) or 0 for each in (layout, was))
    if (taken_B := now_B - then_B) > 0:
        layout.on_chip(buffer, "other steps", taken_B)
    return layout
