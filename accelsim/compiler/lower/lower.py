"""Lower: the graph becomes commands, step by step; tensors move only when they must, and go with their last use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from accelsim.compiler.lower.blocks import alike_blocks
from accelsim.compiler.lower.capacity import check_permanent
from accelsim.compiler.lower.streams import Streams, Uses
from accelsim.compiler.state import EAGER, QUANTISERS, SERVING, State
from accelsim.engines.base import Lowering
from accelsim.engines.registry import ENGINES, sequential
from accelsim.errors import ModelError, Problem, count_of
from accelsim.program.commands import OUTSIDE, Step
from accelsim.program.mapping import Mapping
from accelsim.program.program import Program, Spans
from accelsim.program.roles import HOST, Roles, Unit, units
from accelsim.program.tiles import kept, sparsity
from accelsim.program.verify import check_length
from accelsim.program.writing.builder import Builder
from accelsim.program.writing.layout import Layout
from accelsim.spec.chip import Chip
from accelsim.spec.levels import managed
from accelsim.time import FS_PER_S
from accelsim.workload.graph import Graph, Node
from accelsim.workload.limits import check_commands
from accelsim.workload.nodes import node_work

if TYPE_CHECKING:
    from accelsim.compiler.lower.repeating import Repeating

OFF_CHIP = {HOST: "cpu"}
"""Name of an engine that is no engine of the chip -> its type."""


def lower(state: State) -> Program:
    """Commands for a placed graph, on all cores of the chip.

    Raises Infeasible when something does not fit, OverCapacity when weights and states alone are too much for a
    memory, TooLarge for more commands than the limits allow, ModelError without a host.

    The cores run the same steps side by side; their commands alternate step by step, so that the host, which they
    share, serves them in turn. Where they share each layer, the first core does what the engine types do not share.
    """
    check_host(state.graph, state.chip)
    count = state.chip.core_count
    steps_each = sum(node.engine != "alias" for node in state.graph.nodes)
    check_commands(f"{state.graph.name} on {count_of(count, 'core')}", state.copies * steps_each)
    seen = [state.chip.seen_from(state.chip.kind_of(i)) for i in range(count)]
    cores = [Roles(chip, f"core{i}." if count > 1 else "") for i, chip in enumerate(seen)]
    kinds = {engine: kind for roles in cores for engine, kind in roles.engines().items()}
    builder = Builder(kinds, sequential(kinds.values()))
    copy = range(count) if state.copies == count else (0,) * count
    all_ = [Layout(state.graph, roles, builder, core) for core, roles in zip(copy, cores, strict=True)]
    layouts, sharing = all_[: state.copies], tuple(all_) if state.copies < count else ()
    check_permanent(state.graph, state.chip, layouts[0], state.copies)
    check_length(state.graph, state.chip, _least_fs(state))
    uses = [Uses(state.graph) for _ in layouts]
    steps, kept = list[Step](), frozenset(state.graph.kept)
    streams = {layout.core: Streams(layout) for layout in layouts}
    repeating = _repeating(state, layouts, uses, steps)
    nodes, index = state.graph.nodes, 0
    while (index := repeating.behind(index) if repeating else index) < len(nodes):
        node, index = nodes[index], index + 1
        step = None if node.engine == "alias" else _step(state.graph, node)
        steps += [step] if step else []
        for layout, left in zip(layouts, uses, strict=True):
            builder.core = layout.core
            if step is None:
                layout.places[node.writes[0]] = layout.place(node.reads[0])
                layout.made(node, layout.makers.get(node.reads[0]))
            else:
                _lower_node(state, streams[layout.core].layout_for(node), len(steps) - 1, step, sharing)
                layout.made(node, len(steps) - 1)
            _keep(layout, len(steps) - 1, node, kept)
            for place in left.finished(node):
                _free(layout, place)
            for name in left.resting(node):
                _leave_chip(layout, name)
    if layouts[0].roles.streams > 1:
        used = max(each.used for each in streams.values())
        state.notes.append(f"lower: {count_of(len(steps), 'step')} in {count_of(used, 'stream')} of kernels")
    if sharing:
        products = [step.mapping.share for step in steps if isinstance(step.mapping, Mapping)]
        shared = len(products) - products.count("none")
        state.notes.append(f"{count_of(shared, 'product', 'is', len(products))} shared by cores of the chip")
    repeat = repeating.repeat if repeating else None
    return replace(_program(state, layouts, steps), repeat=repeat, spans={} if repeat or sharing else _spans(layouts))


def _spans(layouts: Sequence[Layout]) -> Spans:
    """Return which capacities of buffers make no difference; none for buffers that slots or streams divide."""
    roles, found = layouts[0].roles, Spans()
    types = {ENGINES[kind] for kind in layouts[0].builder.engines.values()}
    if len(roles.chip.cores) > 1 or roles.streams > 1 or not all(each.asks_spaces for each in types):
        return {}
    for name, buffer in roles.chip.buffers.items():
        if buffer.slots is None:
            spans = [layout.spaces[name].span for layout in layouts]
            found[name] = max(least for least, _ in spans), min(beyond for _, beyond in spans)
    return found


def _least_fs(state: State) -> int:
    """Return what the products of the graph take at the least, fs: those of the busiest engine at the peak of its
    fastest format, on all cores; of several kinds the slowest."""
    spent: Counter[str] = Counter()
    for node in state.graph.nodes:
        spent[node.engine] += kept(sparsity(node), node_work(state.graph, node).macs)
    least = [
        spent[name] * FS_PER_S / (max(rates.values()) * Fraction(unit.spec.clock or state.chip.clock))
        for view in state.chip.views()
        for name, unit in units(view).items()
        if (rates := unit.spec.rates())
    ]
    return int(max(least, default=0) * state.copies / state.chip.core_count)


def _repeating(state: State, layouts: list[Layout], uses: list[Uses], steps: list[Step]) -> Repeating | None:
    """Return what finds blocks of the model that repeat; None where there are none, values are asked for, or several
    cores share a level."""
    asked = state.options
    alone = state.copies == state.chip.core_count
    may = asked.repeat and asked.values == "off" and alone
    blocks = state.graph.once("blocks", lambda: alike_blocks(state.graph, asked.pinned)) if may else None
    kinds, levels = list(state.chip.cores), managed(state.chip) if len(layouts) > 1 else []
    why = f"{' and '.join(levels)} is shared by cores" if levels else ""
    if layouts[0].roles.streams > 1:
        why = "kernels of several streams share the engine"
    if len(kinds) > 1:
        why = f"the cores are of several kinds ({', '.join(kinds)})"
    if blocks is not None and why:
        state.notes.append(f"repeat: alike blocks are simulated one by one, for {why}")
        return None
    if blocks is None:
        return None
    from accelsim.compiler.lower.repeating import Repeating

    return Repeating(state.graph, blocks, layouts, uses, steps)


def _keep(layout: Layout, index: int, node: Node, kept: frozenset[str]) -> None:
    """Return what begins to stay in the memory of the chip goes there as soon as it is there."""
    for name in node.writes:
        if name in kept:
            layout.store_whole(index, name, layout.facts.state_home(name))


def _step(graph: Graph, node: Node) -> Step:
    work = node_work(graph, node)
    shape = graph.outs(node)[0].shape
    return Step(node.name, node.label(), node.engine, shape, node, work.macs, work.ops, note=node.note)


def _lower_node(state: State, layout: Layout, index: int, step: Step, cores: tuple[Layout, ...] = ()) -> None:
    """The engine that the node was placed on writes its commands; ``cores`` may share it."""
    node, chip = step.node, layout.roles.chip
    unit = units(chip).get(step.engine) or Unit(step.engine, OFF_CHIP.get(step.engine, step.engine), None)
    pinned = dict(state.options.pinned.get(node.name, {}))
    asked, searched = state.options, state.choices[chip.core_kind]
    lowering = Lowering(
        layout, index, node, unit, state.dtype, pinned, searched, state.notes, cores, search=asked.search,
        tuner=asked.tuner, pins=asked.pinned, eager=asked.fusion in EAGER,
        serving=(asked.quantiser or QUANTISERS[0]) if asked.fusion == SERVING else "",
    )  # fmt: skip
    mapped = ENGINES[unit.type].lower(lowering)
    if mapped is not None:
        step.gemm, step.mapping, step.binds, step.scored = mapped


def _free(layout: Layout, tensor: str) -> None:
    place = layout.places.get(tensor)
    if place is not None:
        layout.leave(place)


def _leave_chip(layout: Layout, tensor: str) -> None:
    """Free the buffer of an output that has been stored in its memory, so that later steps have its room."""
    place = layout.places.get(tensor)
    if place is None or place.home is None or place.chip is None or tensor not in layout.facts.staying:
        return
    if layout.builder.regions[place.home].memory == layout.facts.state_home(tensor):
        layout.release(layout.roles.activations, [place.chip])
        place.chip = None


def _program(state: State, layouts: list[Layout], steps: list[Step]) -> Program:
    results: dict[str, list[int]] = {name: [] for name in state.graph.outputs}
    presets: dict[int, tuple[str, int]] = {}
    makers = {name: index for index, step in enumerate(steps) for name in step.node.writes}
    root = Uses(state.graph).root
    codes = {step.node.writes[0]: step.node.reads[0] for step in steps if step.outside}
    for layout in layouts:
        layout.builder.core, roles = layout.core, layout.roles
        for name, regions in results.items():
            made_by = makers.get(root(name), len(steps) - 1)  # it is charged for the store of what it made
            kept = codes.get(name, name)
            home = layout.facts.state_home(kept) if kept in layout.facts.staying else roles.host_home
            regions.append(layout.store_whole(made_by, name, home))
        presets |= layout.presets
    builder = layouts[0].builder
    return Program(
        graph=state.graph, chip=state.chip, dtype=state.dtype, commands=builder.commands, regions=builder.regions,
        steps=steps, presets=presets, results=results, engines=builder.engines, cores=len(layouts), notes=state.notes,
    )  # fmt: skip


def check_host(graph: Graph, chip: Chip) -> None:
    """ModelError on a chip without a host that names every node which needs one, and what would do instead."""
    if chip.host is not None:
        return
    problems = []
    for node in graph.nodes:
        if node.engine == HOST and not node.attrs.get(OUTSIDE):
            what = f"{node.op} must run on a host processor and {chip.name} has none"
            instead = "'host:' in the spec of the chip"
            if node.attrs.get("edge"):
                instead = f"--edges outside (somebody else converts inputs and outputs), or {instead}"
            problems.append(Problem(what, node.name, instead))
    ModelError.raise_for(problems)
