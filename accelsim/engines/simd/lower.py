"""Lowering of nodes that run at once where they fit in the buffer of the activations, else in chunks."""

from __future__ import annotations

from accelsim.engines.simd.chunks import ChunkedStep, node_actions, node_clocks
from accelsim.errors import Infeasible
from accelsim.program.commands import Effect
from accelsim.program.roles import Unit
from accelsim.program.writing.layout import Layout, Place
from accelsim.workload.graph import Node


def lower_vector(layout: Layout, op: int, node: Node, unit: Unit) -> None:
    """One command when operands and results fit in the activation buffer, otherwise chunks that stream through it."""
    graph, roles = layout.graph, layout.roles
    buffer = roles.activations
    names = layout.activations(node)
    parameters = _load_parameters(layout, op, node, unit)
    while not (whole := _fits(layout, node, names)) and not _chunks(layout, node, names):
        if not (layout.spill(op, names) or layout.spill(op, ())):
            streamed = sum(layout.place(name).chip is None for name in names)
            needed_B, room = 2 * (streamed + len(graph.outs(node))), layout.spaces[buffer].free_B()
            path = f"{roles.chip.called(buffer)}.capacity"
            tile = f"1 byte of each operand, twice; raise {path} by {needed_B - room:,} B or more"
            raise Infeasible(node.name, buffer, needed_B, room, tile)
    if whole:
        _at_once(layout, op, node, names, parameters, unit)
    else:
        ChunkedStep(layout, op, node, names, parameters, unit).lower(_chunks(layout, node, names))


def _fits(layout: Layout, node: Node, names: list[str]) -> bool:
    """Whether all operands and results fit in the activation buffer as they are."""
    tensors = layout.graph.tensors
    missing = [tensors[name].nbytes for name in names if layout.place(name).chip is None]
    outs = [tensor.nbytes for tensor in layout.graph.outs(node)]
    return layout.spaces[layout.roles.activations].fits([*missing, *outs])


def _chunks(layout: Layout, node: Node, names: list[str]) -> int:
    """In how many chunks (a power of two) a node must stream to fit, 0 when not even single bytes do."""
    tensors = layout.graph.tensors
    sizes = [tensors[name].nbytes for name in names if layout.place(name).chip is None]
    sizes += [tensor.nbytes for tensor in layout.graph.outs(node)]
    chunks, room = 1, layout.spaces[layout.roles.activations].free_B()
    while 2 * sum(-(-size // chunks) for size in sizes) > room:
        chunks *= 2
        if chunks > max(1, sum(sizes)):
            return 0
    return chunks


def _load_parameters(layout: Layout, op: int, node: Node, unit: Unit) -> list[tuple[int, str]]:
    constants = layout.constants(node)
    if not constants:
        return []
    tensors = layout.graph.tensors
    used = sum(
        tensor.elements for tensor in layout.graph.outs(node)
    )  # of a table, only the rows that are gathered
    size = sum(min(tensors[name].nbytes, tensors[name].size_B(used)) for name in constants)
    homes = [home for name in constants if (home := layout.place(name).home) is not None]
    memory = layout.builder.regions[homes[0]].memory
    target = layout.off_chip(layout.roles.engine(unit.name), f"{node.name} parameters", size)
    layout.load_parameters(op, homes, target, memory, size)
    return [(target, "src")]


def _at_once(
    layout: Layout, op: int, node: Node, names: list[str], parameters: list[tuple[int, str]], unit: Unit
) -> None:
    roles, buffer = layout.roles, layout.roles.activations
    operands = []
    for name in names:
        if not layout.load_whole(op, name):
            tensor = layout.graph.tensors[name]
            raise Infeasible(
                node.name, buffer, tensor.nbytes, layout.spaces[buffer].free_B(), f"all of {name}"
            )
        chip = layout.place(name).chip
        assert chip is not None
        operands.append((name, chip))
    targets = []
    for tensor in layout.graph.outs(node):
        region = layout.on_chip(buffer, tensor.name, tensor.nbytes)
        assert region is not None
        layout.places[tensor.name] = Place(chip=region)
        targets.append((region, "whole"))
    reads = [*((region, "src") for _, region in operands), *parameters]
    layout.builder.emit(
        "Vector", roles.engine(unit.name), op, node.name, node_clocks(layout, node, names, unit, 1),
        Effect("node", operands=tuple(operands), last=True), reads, targets, node_actions(layout, node, names, unit, 1),
    )  # fmt: skip
