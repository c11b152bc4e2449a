"""Lowering of steps that run at once: vector nodes (in chunks when they do not fit) and host nodes."""

from __future__ import annotations

from accelsim.compiler.lower.chunks import ChunkedStep, node_actions, node_clocks
from accelsim.compiler.lower.layout import Layout, Place
from accelsim.compiler.lower.timing import host_fs, node_work
from accelsim.errors import Infeasible, ModelError, Problem
from accelsim.program.commands import OUTSIDE, Action, Duration, Effect
from accelsim.program.roles import HOST, HOST_OWN_MEMORY
from accelsim.spec.models import Chip
from accelsim.workload.graph import Graph, Node


def _activations(layout: Layout, node: Node) -> list[str]:
    return [name for name in node.reads if not layout.graph.tensors[name].is_constant]


def _constants(layout: Layout, node: Node) -> list[str]:
    return [name for name in node.reads if layout.graph.tensors[name].is_constant]


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
    if problems:
        raise ModelError(problems)


def lower_host(layout: Layout, op: int, node: Node) -> None:
    """Operands to the memory of the host, the node, its results there. Raises ModelError on a chip without a host."""
    roles, graph = layout.roles, layout.graph
    home = roles.host_home
    if node.attrs.get(OUTSIDE) and (state := _state_of(layout, node)):
        home = layout.state_home(state)
    sources = [(name, _at_home(layout, op, node, name, home)) for name in _activations(layout, node)]
    outs = graph.outs(node)
    read_B = sum(tensor.nbytes for tensor in graph.ins(node))
    write_B = sum(tensor.nbytes for tensor in outs)
    targets = []
    for tensor in outs:
        region = layout.off_chip(home, tensor.name, layout.room_B(tensor))
        layout.places[tensor.name] = Place(home=region)
        targets.append((region, "whole"))
    work = node_work(graph, node)
    actions = [
        Action(HOST, "op", "", 2 * work.macs + work.ops),
        Action(HOST_OWN_MEMORY, "read", "", read_B),
        Action(HOST_OWN_MEMORY, "write", "", write_B),
    ]
    effect = Effect("node", operands=tuple(sources), last=True)
    if node.attrs.get(OUTSIDE):
        layout.builder.engines.setdefault(HOST, "cpu")  # of a chip without one, somebody else's
        duration, actions = Duration(0), []
    else:
        duration = Duration(host_fs(roles.chip.host, graph, node, read_B + write_B))
    layout.builder.emit("Host", HOST, op, node.name, duration, effect, [(r, "src") for _, r in sources], targets,
                        [action for action in actions if action.count])  # fmt: skip


def _state_of(layout: Layout, node: Node) -> str:
    """The next value of the state that a conversion before or after the run makes codes or numbers, '' for no state."""
    graph = layout.graph
    return graph.states.get(node.outputs[0]) or (node.inputs[0] if node.inputs[0] in layout.staying else "")


def _at_home(layout: Layout, op: int, node: Node, tensor: str, home: str) -> int:
    """Where a node of the host reads a tensor. Before and after the run a state is where it is, and nothing moves."""
    place = layout.place(tensor)
    if node.attrs.get(OUTSIDE):
        if place.home is not None and _state_of(layout, node):
            return place.home
        op = layout.makers.get(tensor, op)  # who made a result also stores it
    return layout.store_whole(op, tensor, home)


def lower_append(layout: Layout, op: int, node: Node) -> None:
    """New rows go into the memory of their state, behind those that are there, and nothing else moves.

    On a chip whose state lies in the memory of a plain host the host copies them.
    """
    graph, builder = layout.graph, layout.builder
    (past, name), out = node.inputs, node.writes[0]
    home, new = layout.place(past).home, graph.tensors[name]
    assert home is not None
    memory = builder.regions[home].memory
    if memory in layout.roles.chip.memories:
        source = layout.source(op, name)
        effect = Effect("append", operands=((name, source),), tensor=out, last=True)
        layout.store(op, source, home, out, new.nbytes, effect)
    else:
        source = layout.store_whole(op, name, memory)
        effect = Effect("append", operands=((name, source),), tensor=out, last=True)
        fs = host_fs(layout.roles.chip.host, graph, node, 2 * new.nbytes)
        actions = [Action(HOST_OWN_MEMORY, way, out, new.nbytes) for way in ("read", "write")]
        builder.emit(
            "Host", HOST, op, node.name, Duration(fs), effect, [(source, "src")], [(home, "whole")], actions
        )
    layout.places[out] = Place(home=home)


def lower_vector(layout: Layout, op: int, node: Node) -> None:
    """One command when operands and results fit in the activation buffer, otherwise chunks that stream through it."""
    graph, roles = layout.graph, layout.roles
    buffer = roles.activations
    names = _activations(layout, node)
    parameters = _load_parameters(layout, op, node)
    while not (whole := _fits(layout, node, names)) and not _chunks(layout, node, names):
        if not (layout.spill(op, names) or layout.spill(op, ())):
            streamed = sum(layout.place(name).chip is None for name in names)
            needed_B, room = 2 * (streamed + len(graph.outs(node))), layout.spaces[buffer].free_B()
            tile = f"1 byte of each operand, twice; raise buffers.{buffer}.capacity by {needed_B - room:,} B or more"
            raise Infeasible(node.name, buffer, needed_B, room, tile)
    if whole:
        _at_once(layout, op, node, names, parameters)
    else:
        ChunkedStep(layout, op, node, names, parameters).lower(_chunks(layout, node, names))


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


def _load_parameters(layout: Layout, op: int, node: Node) -> list[tuple[int, str]]:
    constants = _constants(layout, node)
    if not constants:
        return []
    tensors = layout.graph.tensors
    used = sum(
        tensor.elements for tensor in layout.graph.outs(node)
    )  # of a table, only the rows that are gathered
    size = sum(min(tensors[name].nbytes, tensors[name].size_B(used)) for name in constants)
    homes = [home for name in constants if (home := layout.place(name).home) is not None]
    memory = layout.builder.regions[homes[0]].memory
    target = layout.off_chip(layout.roles.engine("vector"), f"{node.name} parameters", size)
    layout.load_parameters(op, homes, target, memory, size)
    return [(target, "src")]


def _at_once(
    layout: Layout, op: int, node: Node, names: list[str], parameters: list[tuple[int, str]]
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
        "Vector", roles.engine("vector"), op, node.name, node_clocks(layout, node, names, 1),
        Effect("node", operands=tuple(operands), last=True), reads, targets, node_actions(layout, node, names, 1),
    )  # fmt: skip
