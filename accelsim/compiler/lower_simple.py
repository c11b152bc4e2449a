"""Lowering of steps that run at once: vector nodes (in chunks when they do not fit) and host nodes."""

from __future__ import annotations

from accelsim.compiler.actions import nbytes
from accelsim.compiler.layout import Layout, Place
from accelsim.compiler.program import Action, Cycles, Duration, Effect
from accelsim.compiler.roles import HOST
from accelsim.compiler.timing import host_fs, node_work, vector_clocks
from accelsim.errors import Infeasible
from accelsim.workload.graph import Node


def _activations(layout: Layout, node: Node) -> list[str]:
    return [name for name in node.reads if not layout.graph.tensors[name].is_constant]


def _constants(layout: Layout, node: Node) -> list[str]:
    return [name for name in node.reads if layout.graph.tensors[name].is_constant]


def lower_host(layout: Layout, op: int, node: Node) -> None:
    """Operands to the memory of the host, the node, its results there. Raises ModelError on a chip without a host."""
    roles, graph = layout.roles, layout.graph
    home = roles.host_home
    sources = [(name, layout.store_whole(op, name, home)) for name in _activations(layout, node)]
    outs = graph.outs(node)
    read_B = sum(tensor.nbytes for tensor in graph.ins(node))
    write_B = sum(tensor.nbytes for tensor in outs)
    targets = []
    for tensor in outs:
        region = layout.off_chip(home, tensor.name, tensor.nbytes)
        layout.places[tensor.name] = Place(home=region)
        targets.append((region, "whole"))
    work = node_work(graph, node)
    actions = [
        Action(HOST, "op", "", 2 * work.macs + work.ops),
        Action(f"{HOST}.memory", "read", "", read_B),
        Action(f"{HOST}.memory", "write", "", write_B),
    ]
    effect = Effect("node", operands=tuple(sources), last=True)
    duration = Duration(host_fs(roles.chip.host, graph, node, read_B + write_B))
    layout.builder.emit("Host", HOST, op, node.name, duration, effect, [(r, "src") for _, r in sources], targets,
                        [action for action in actions if action.count])  # fmt: skip


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
            raise Infeasible(node.name, buffer, needed_B, room, "1 byte of each operand")
    if whole:
        _at_once(layout, op, node, names, parameters)
    else:
        _in_chunks(layout, op, node, names, parameters)


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
    size = sum(min(tensors[name].nbytes, nbytes(tensors[name].dtype, used)) for name in constants)
    homes = [home for name in constants if (home := layout.place(name).home) is not None]
    memory = layout.builder.regions[homes[0]].memory
    target = layout.off_chip(layout.roles.engine("vector"), f"{node.name} parameters", size)
    layout.load_parameters(op, homes, target, memory, size)
    return [(target, "src")]


def _actions(layout: Layout, node: Node, names: list[str], share: float) -> list[Action]:
    graph, roles = layout.graph, layout.roles
    buffer = roles.engine(roles.activations)
    entries = [Action(buffer, "read", name, round(graph.tensors[name].nbytes * share)) for name in names]
    entries += [Action(buffer, "write", out.name, round(out.nbytes * share)) for out in graph.outs(node)]
    entries.append(Action(roles.engine("vector"), "op.fp32", "", round(node_work(graph, node).ops * share)))
    return [entry for entry in entries if entry.count]


def _clocks(layout: Layout, node: Node, names: list[str], chunks: int) -> Cycles:
    graph, roles = layout.graph, layout.roles
    functions = [(part.op, -(-part_elements(layout, part) // chunks)) for part in (node, *node.epilogue)]
    read_B = -(-sum(graph.tensors[name].nbytes for name in names) // chunks)
    write_B = -(-sum(out.nbytes for out in graph.outs(node)) // chunks)
    return Cycles(vector_clocks(roles.chip, functions, read_B, write_B, roles.activations, roles.activations))


def part_elements(layout: Layout, part: Node) -> int:
    """Lane operations of one function: its arithmetic, at least one per result element."""
    graph = layout.graph
    outs = sum(graph.tensors[name].elements for name in part.outputs if name)
    bare = Node(part.name, part.op, part.inputs, part.outputs, part.attrs)
    return max(outs, node_work(graph, bare).ops)


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
        "Vector", roles.engine("vector"), op, node.name, _clocks(layout, node, names, 1),
        Effect("node", operands=tuple(operands), last=True), reads, targets, _actions(layout, node, names, 1.0),
    )  # fmt: skip


def _in_chunks(
    layout: Layout, op: int, node: Node, names: list[str], parameters: list[tuple[int, str]]
) -> None:
    """Everything that is not on the chip streams through double-buffered chunks.

    The chunks time and account the node; its values are computed with the last chunk, from the homes of its operands.
    """
    graph, roles, buffer = layout.graph, layout.roles, layout.roles.activations
    outs = graph.outs(node)
    streamed = [name for name in names if layout.place(name).chip is None]
    chunks = _chunks(layout, node, names)
    taken: list[int] = []

    def ring(name: str) -> list[int]:
        size = -(-graph.tensors[name].nbytes // chunks)
        regions = [layout.on_chip(buffer, f"chunk {name} {i}", size) for i in range(2)]
        taken.extend(region for region in regions if region is not None)
        return [region for region in regions if region is not None]

    rings = {name: ring(name) for name in [*streamed, *(tensor.name for tensor in outs)]}
    homes = {}
    for name in names:
        place = layout.place(name)
        home = place.chip if place.chip is not None else place.home
        assert home is not None
        homes[name] = home
    targets = {
        tensor.name: layout.off_chip(roles.activations_home, tensor.name, tensor.nbytes) for tensor in outs
    }
    for chunk in range(chunks):
        last = chunk == chunks - 1
        role = {(True, True): "whole", (True, False): "begin", (False, True): "end"}.get(
            (chunk == 0, last), "part"
        )
        slots = {name: regions[chunk % 2] for name, regions in rings.items()}
        for name in streamed:
            layout.load(
                op,
                homes[name],
                slots[name],
                name,
                _chunk_B(graph.tensors[name].nbytes, chunk, chunks),
                Effect("none"),
            )
        effect = Effect("node" if last else "none", operands=tuple(homes.items()), last=last)
        reads = [
            *((slots[name], "src") for name in streamed),
            *((region, "src") for region in homes.values()),
            *parameters,
        ]
        layout.builder.emit(
            "Vector", roles.engine("vector"), op, node.name, _clocks(layout, node, names, chunks), effect, reads,
            [(slots[tensor.name], "whole") for tensor in outs], _actions(layout, node, names, 1 / chunks),
        )  # fmt: skip
        for tensor in outs:
            size = _chunk_B(tensor.nbytes, chunk, chunks)
            moved = Effect(
                "copy" if last else "none", operands=((tensor.name, slots[tensor.name]),), tensor=tensor.name
            )
            layout.store(op, slots[tensor.name], targets[tensor.name], tensor.name, size, moved, role)
    for tensor in outs:
        layout.places[tensor.name] = Place(home=targets[tensor.name])
    layout.release(buffer, taken)


def _chunk_B(size: int, chunk: int, chunks: int) -> int:
    """Bytes of one chunk; all chunks together are the whole."""
    return max(1, size * (chunk + 1) // chunks - size * chunk // chunks)
