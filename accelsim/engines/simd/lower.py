"""Lowering of nodes that run at once where they fit in the buffer of the activations, else in chunks."""

from __future__ import annotations

from dataclasses import dataclass, field

from accelsim.engines.simd.clocks import vector_clocks
from accelsim.errors import Infeasible
from accelsim.program.actions import READ, WRITE, Action, op
from accelsim.program.commands import Effect
from accelsim.program.roles import Unit
from accelsim.program.work import Cycles
from accelsim.program.writing.builder import PIECE
from accelsim.program.writing.layout import Layout, Place
from accelsim.workload.graph import Node, Tensor
from accelsim.workload.limits import check_commands
from accelsim.workload.nodes import node_work


def lower_vector(layout: Layout, op: int, node: Node, unit: Unit) -> None:
    """One command when operands and results fit in the activation buffer, otherwise chunks that stream through it."""
    graph, roles = layout.graph, layout.roles
    buffer = roles.activations
    names = layout.facts.activations(node)
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
    """Return whether all operands and results fit in the activation buffer as they are."""
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
    constants = layout.facts.constants(node)
    if not constants:
        return []
    tensors = layout.graph.tensors
    used = sum(tensor.elements for tensor in layout.graph.outs(node))  # of a table, only the rows that are gathered
    size = sum(min(tensors[name].nbytes, tensors[name].size_B(used)) for name in constants)
    homes = [home for name in constants if (home := layout.place(name).home) is not None]
    memory = layout.builder.regions[homes[0]].memory
    target = layout.off_chip(layout.roles.engine(unit.name), f"{node.name} parameters", size)
    layout.transfers.load_parameters(op, homes, target, memory, size)
    return [(target, "src")]


def _at_once(
    layout: Layout, op: int, node: Node, names: list[str], parameters: list[tuple[int, str]], unit: Unit
) -> None:
    roles, buffer = layout.roles, layout.roles.activations
    operands = []
    for name in names:
        if not layout.load_whole(op, name):
            tensor = layout.graph.tensors[name]
            raise Infeasible(node.name, buffer, tensor.nbytes, layout.spaces[buffer].free_B(), f"all of {name}")
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


ADVICE = "a larger buffer for the activations, a smaller batch or model"


@dataclass
class ChunkedStep:
    """One vector node while its chunks are written.

    The chunks time and account the node; its values are computed with the last chunk, from the homes of its operands.
    """

    layout: Layout
    op: int
    node: Node
    names: list[str]
    parameters: list[tuple[int, str]]
    unit: Unit
    rings: dict[str, list[int]] = field(default_factory=dict)

    def lower(self, chunks: int) -> None:
        """Emit the loads, vector commands and stores of all chunks. Raises TooLarge before, where they are too many."""
        layout, outs = self.layout, self.layout.graph.outs(self.node)
        streamed = [name for name in self.names if layout.place(name).chip is None]
        before, each = layout.builder.written, len(streamed) + 1 + len(outs)
        check_commands(f"{self.node.name} in {chunks:,} chunks", chunks * each, before, ADVICE)
        self.rings = {name: self._ring(name, chunks) for name in [*streamed, *(out.name for out in outs)]}
        sources = {name: self._source(name) for name in self.names}
        targets = {out.name: layout.result(out.name) for out in outs}
        for chunk in range(chunks):
            self._load(chunk, chunks, streamed, sources)
            self._compute(chunk, chunks, streamed, sources, outs)
            for out in outs:
                self._store(chunk, chunks, out, targets[out.name])
        for out in outs:
            layout.places[out.name] = Place(home=targets[out.name])
        layout.release(layout.roles.activations, [slot for ring in self.rings.values() for slot in ring])

    def _ring(self, name: str, chunks: int) -> list[int]:
        size, buffer = -(-self.layout.graph.tensors[name].nbytes // chunks), self.layout.roles.activations
        slots = [self.layout.on_chip(buffer, f"chunk {name} {i}", size) for i in range(2)]
        return [slot for slot in slots if slot is not None]

    def _source(self, name: str) -> int:
        place = self.layout.place(name)
        source = place.chip if place.chip is not None else place.home
        assert source is not None
        return source

    def _load(self, chunk: int, chunks: int, streamed: list[str], sources: dict[str, int]) -> None:
        for name in streamed:
            whole = self.layout.graph.tensors[name].nbytes
            size, slot = _chunk_B(whole, chunk, chunks), self.rings[name][chunk % 2]
            self.layout.transfers.load(
                self.op, sources[name], slot, name, size, Effect("none"), _chunk_from(whole, chunk, chunks)
            )

    def _compute(
        self, chunk: int, chunks: int, streamed: list[str], sources: dict[str, int], outs: list[Tensor]
    ) -> None:
        layout, last = self.layout, chunk == chunks - 1
        reads = [(self.rings[name][chunk % 2], "src") for name in streamed]
        reads += [(region, "src") for region in sources.values()]
        layout.builder.emit(
            "Vector",
            layout.roles.engine(self.unit.name),
            self.op,
            self.node.name,
            node_clocks(layout, self.node, self.names, self.unit, chunks),
            Effect("node" if last else "none", operands=tuple(sources.items()), last=last),
            [*reads, *self.parameters],
            [(self.rings[out.name][chunk % 2], "whole") for out in outs],
            node_actions(layout, self.node, self.names, self.unit, chunks),
        )

    def _store(self, chunk: int, chunks: int, out: Tensor, target: int) -> None:
        slot, last = self.rings[out.name][chunk % 2], chunk == chunks - 1
        effect = Effect("copy" if last else "none", operands=((out.name, slot),), tensor=out.name)
        size, offset = _chunk_B(out.nbytes, chunk, chunks), _chunk_from(out.nbytes, chunk, chunks)
        self.layout.transfers.store(self.op, slot, target, out.name, size, effect, PIECE[chunk == 0, last], offset)


def node_actions(layout: Layout, node: Node, names: list[str], unit: Unit, chunks: int) -> list[Action]:
    """Ledger entries of one of so many chunks of a vector node."""
    graph, roles = layout.graph, layout.roles
    buffer = roles.engine(roles.activations)
    entries = [Action(buffer, READ, name, round(graph.tensors[name].nbytes / chunks)) for name in names]
    entries += [Action(buffer, WRITE, out.name, round(out.nbytes / chunks)) for out in graph.outs(node)]
    entries.append(Action(roles.engine(unit.name), op("fp32"), "", round(node_work(graph, node).ops / chunks)))
    return [entry for entry in entries if entry.count]


def node_clocks(layout: Layout, node: Node, names: list[str], unit: Unit, chunks: int) -> Cycles:
    """Work of one of so many chunks of a vector node."""
    graph, roles = layout.graph, layout.roles
    functions = [(part.op, -(-part_elements(layout, part) // chunks)) for part in (node, *node.epilogue)]
    read_B = -(-sum(graph.tensors[name].nbytes for name in names) // chunks)
    write_B = -(-sum(out.nbytes for out in graph.outs(node)) // chunks)
    return Cycles(
        vector_clocks(roles.chip, unit.spec, functions, read_B, write_B, roles.activations, roles.activations)
    )


def part_elements(layout: Layout, part: Node) -> int:
    """Lane operations of one function: its arithmetic, at least one per result element."""
    graph = layout.graph
    outs = sum(graph.tensors[name].elements for name in part.outputs if name)
    bare = Node(part.name, part.op, part.inputs, part.outputs, part.attrs)
    return max(outs, node_work(graph, bare).ops)


def _chunk_from(size: int, chunk: int, chunks: int) -> int:
    return size * chunk // chunks


def _chunk_B(size: int, chunk: int, chunks: int) -> int:
    return max(1, _chunk_from(size, chunk + 1, chunks) - _chunk_from(size, chunk, chunks))
