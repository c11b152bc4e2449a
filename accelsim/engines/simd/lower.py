"""Lowering of nodes that run at once where they fit in the buffer of the activations, else in chunks."""

from __future__ import annotations

from fractions import Fraction

from accelsim.engines.base import Lowering
from accelsim.engines.streaming import FLIGHT, Stream, Streamed, lane_operations, results_of
from accelsim.errors import Infeasible
from accelsim.program.actions import READ, WRITE, Action, op
from accelsim.program.commands import Effect
from accelsim.program.work import Cycles
from accelsim.program.writing.layout import Place
from accelsim.workload.graph import Node
from accelsim.workload.limits import check_commands
from accelsim.workload.nodes import node_work

ADVICE = "a larger buffer for the activations, a smaller batch or model"


class VectorStep(Streamed):
    """One vector node while its commands are written."""

    word = "chunk"

    def __init__(self, step: Lowering) -> None:
        super().__init__(step)
        self.names, self.tensors = self.layout.facts.activations(self.node), self.graph.tensors
        self.space, self.sources = self.layout.spaces[self.buffer], dict[str, int]()
        self._alike: tuple[int, Cycles, tuple[Action, ...]] | None = None

    def lower(self) -> None:
        """Emit one command when operands and results fit in the activation buffer, otherwise chunks that stream through
        it. Raises Infeasible where not even single bytes fit, TooLarge where the chunks are too many."""
        layout, roles = self.layout, self.layout.roles
        parameters = self._load_parameters()
        while not (whole := self.space.fits(self._missing_B())) and not self._chunks():
            if not (layout.spill(self.op, self.names) or layout.spill(self.op, ())):
                streamed = sum(layout.place(name).chip is None for name in self.names)
                needed_B, room = 2 * (streamed + len(self.outs)), self.space.free_B()
                path = f"{roles.chip.called(self.buffer)}.capacity"
                tile = f"1 byte of each operand, twice; raise {path} by {needed_B - room:,} B or more"
                raise Infeasible(self.node.name, self.buffer, needed_B, room, tile)
        if whole:
            self._at_once(parameters)
        else:
            self._in_chunks(parameters)

    def _missing_B(self) -> list[int]:
        """Sizes of the operands that are not on the chip, and of the results."""
        sizes = [self.tensors[name].nbytes for name in self.names if self.layout.place(name).chip is None]
        return sizes + [tensor.nbytes for tensor in self.outs]

    def _chunks(self) -> int:
        """Number of chunks (a power of two) in which a node must stream to fit; 0 if not even single bytes fit."""
        sizes, chunks, room = self._missing_B(), 1, self.space.free_B()
        while FLIGHT * sum(-(-size // chunks) for size in sizes) > room:
            chunks *= 2
            if chunks > max(1, sum(sizes)):
                return 0
        return chunks

    def _load_parameters(self) -> list[int]:
        layout, constants = self.layout, self.layout.facts.constants(self.node)
        if not constants:
            return []
        used = sum(tensor.elements for tensor in self.outs)  # of a table, only the rows that are gathered
        size = sum(min(self.tensors[name].nbytes, self.tensors[name].size_B(used)) for name in constants)
        homes = [home for name in constants if (home := layout.place(name).home) is not None]
        memory = layout.builder.regions[homes[0]].memory
        target = layout.off_chip(layout.roles.engine(self.step.unit.name), f"{self.node.name} parameters", size)
        layout.transfers.load_parameters(self.op, homes, target, memory, size)
        return [target]

    def _at_once(self, parameters: list[int]) -> None:
        layout = self.layout
        for name in self.names:
            if not layout.load_whole(self.op, name):
                needed_B, free_B = self.tensors[name].nbytes, self.space.free_B()
                raise Infeasible(self.node.name, self.buffer, needed_B, free_B, f"all of {name}")
            self.sources[name] = self._source(name)
        targets = []
        for tensor in self.outs:
            region = layout.on_chip(self.buffer, tensor.name, tensor.nbytes)
            assert region is not None
            layout.places[tensor.name] = Place(chip=region)
            targets.append((region, "whole"))
        effect = Effect("node", operands=tuple(self.sources.items()), last=True)
        reads = [(region, "src") for region in (*self.sources.values(), *parameters)]
        work, actions = self.work(0, 1), self.actions(0, 1)
        layout.builder.emit("Vector", self.queue, self.op, self.node.name, work, effect, reads, targets, actions)

    def _in_chunks(self, parameters: list[int]) -> None:
        layout, chunks = self.layout, self._chunks()
        streamed = {name: self.tensors[name].nbytes for name in self.names if layout.place(name).chip is None}
        before, each = layout.builder.written, len(streamed) + 1 + len(self.outs)
        check_commands(f"{self.node.name} in {chunks:,} chunks", chunks * each, before, ADVICE)
        sizes = streamed | {out.name: out.nbytes for out in self.outs}
        rings = {name: self.slots(name, -(-size_B // chunks)) for name, size_B in sizes.items()}
        sources = {name: self._source(name) for name in self.names}
        targets = [layout.result(out.name) for out in self.outs]
        self.stream(Stream(chunks, streamed, rings, sources, targets, parameters))

    def _source(self, name: str) -> int:
        place = self.layout.place(name)
        source = place.chip if place.chip is not None else place.home
        assert source is not None
        return source

    def work(self, piece: int, pieces: int) -> Cycles:
        """Return the work of one of so many chunks: all take the same."""
        return self._each(pieces)[1]

    def actions(self, piece: int, pieces: int) -> tuple[Action, ...]:
        """Return the ledger entries of one of so many chunks: all have the same."""
        return self._each(pieces)[2]

    def _each(self, pieces: int) -> tuple[int, Cycles, tuple[Action, ...]]:
        """Return a number of chunks with what each of them takes."""
        if self._alike is None or self._alike[0] != pieces:
            self._alike = pieces, self._work(pieces), tuple(self._actions(pieces))
        return self._alike

    def _work(self, pieces: int) -> Cycles:
        parts = (self.node, *self.node.epilogue)
        count = results_of if self.step.unit.spec.whole else lane_operations
        functions = [(part.op, -(-count(self.graph, part) // pieces)) for part in parts]
        read_B = -(-sum(self.tensors[name].nbytes for name in self.names) // pieces)
        write_B = -(-sum(out.nbytes for out in self.outs) // pieces)
        chip, unit = self.layout.roles.chip, self.step.unit.spec
        paces = [self._pace(part) for part in parts]
        return Cycles(unit.command_clocks(chip, functions, read_B, write_B, self.buffer, self.buffer, paces))

    def _pace(self, part: Node) -> int | Fraction:
        """Return the clocks per element and lane of one function: operands that are no constants decide."""
        tensors = [self.tensors[name] for name in part.inputs if name and not self.tensors[name].is_constant]
        formats = {tensor.dtype for tensor in (*tensors, *self.graph.outs(part))}
        pace: int | Fraction = self.step.unit.spec.pace(part.op, formats, len(tensors))
        return pace

    def _actions(self, pieces: int) -> list[Action]:
        roles, ops = self.layout.roles, node_work(self.graph, self.node).ops
        buffer, engine = roles.engine(self.buffer), roles.engine(self.step.unit.name)
        entries = [Action(buffer, READ, name, round(self.tensors[name].nbytes / pieces)) for name in self.names]
        entries += [Action(buffer, WRITE, out.name, round(out.nbytes / pieces)) for out in self.outs]
        entries.append(Action(engine, op("fp32"), "", round(ops / pieces)))
        return [entry for entry in entries if entry.count]
