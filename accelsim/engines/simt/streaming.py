"""Lowering of everything that is no product: a kernel whose operands stream through the L2 cache."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import ceil, prod

from accelsim.engines.base import Lowering
from accelsim.engines.kernel_times import ROW_CLOCKS
from accelsim.engines.simt.actions import function_actions, is_simple
from accelsim.engines.simt.kernels import lanes_clocks
from accelsim.engines.simt.lower import ADVICE
from accelsim.engines.simt.panels import PIECES
from accelsim.engines.simt.spec import Simt
from accelsim.engines.simt.writing import Shares, chip_rates, device_home, launch, load_parameters, units
from accelsim.errors import Infeasible
from accelsim.program.actions import Action
from accelsim.program.commands import Effect
from accelsim.program.writing.builder import PIECE
from accelsim.program.writing.layout import Place
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.limits import check_commands
from accelsim.workload.nodes import node_work

EACH_THREAD = 8
"""Elements of a thread: 16 B of FP16 in one load."""
FLIGHT = 2
"""Pieces of a tensor in flight."""


def lower_stream(step: Lowering) -> None:
    """The commands of a node. Raises Infeasible where the cache has no room for a byte of each tensor, twice."""
    Streaming(step).lower()


@dataclass
class Streaming:
    """One node while its commands are written: pieces of every operand and result, ``FLIGHT`` of each in flight.

    Pieces time and account the node; its values are computed with the last one, from the homes of the operands.
    """

    step: Lowering
    rings: dict[str, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.layout, self.op, self.node = self.step.layout, self.step.index, self.step.node
        graph = self.layout.graph
        self.names, self.outs = self.layout.facts.activations(self.node), graph.outs(self.node)
        self.ins = {name: graph.tensors[name] for name in dict.fromkeys(self.names)}
        self.read_B = {name: _read_B(graph, self.node, tensor) for name, tensor in self.ins.items()}
        self.units, self.queue = units(self.step), self.layout.roles.queue(self.step.unit.name)

    def lower(self) -> None:
        """Emit the launch, then loads, work and stores of all pieces."""
        pieces = self._pieces()
        each = len(self.ins) + 1 + len(self.outs)
        check_commands(
            f"{self.node.name} in {pieces:,} pieces", pieces * each, len(self.layout.builder.commands), ADVICE
        )
        homes = {name: device_home(self.layout, self.op, name) for name in self.ins}
        targets = [self.layout.result(out.name) for out in self.outs]
        launched = launch(self.step, homes.values(), self._width(), begin=self._begin())
        parameters = self._parameters(launched)
        tensors, share_B = [*self.ins.values(), *self.outs], self._share_B()
        self.rings = {tensor.name: self._ring(tensor, pieces, share_B) for tensor in tensors}
        shares = Shares(self._clocks(), pieces, pieces)
        for piece in range(pieces):
            self._load(piece, pieces, homes, launched)
            self._compute(piece, pieces, homes, parameters, shares)
            for out, target in zip(self.outs, targets, strict=True):
                self._store(piece, pieces, out, target)
        for out, target in zip(self.outs, targets, strict=True):
            self.layout.places[out.name] = Place(home=target)
        self.layout.release(self.layout.roles.activations, [slot for ring in self.rings.values() for slot in ring])

    def _begin(self) -> float | None:
        """Seconds of its launch in a graph of kernels; None for those of any kernel."""
        return None

    def _pieces(self) -> int:
        """Pieces (a power of two), so that what moves and what is computed overlap."""
        sizes = [tensor.nbytes for tensor in (*self.ins.values(), *self.outs)]
        return min(PIECES, 1 << max(0, max(sizes).bit_length() - 1))

    def _share_B(self) -> int:
        """Return what each slot may take of the cache; pieces that are larger stream through."""
        cache, tensors = self.layout.roles.activations, len(self.ins) + len(self.outs)
        room = self.layout.spaces[cache].free_B()
        if room < FLIGHT * tensors:
            raise Infeasible(self.node.name, cache, FLIGHT * tensors, room, "1 byte of each tensor, twice")
        return room // (FLIGHT * tensors)

    def _clocks(self) -> int:
        """Clocks of the kernel without its launch."""
        functions = [(part.op, self._elements(part)) for part in (self.node, *self.node.epilogue)]
        moved = sum(self.read_B.values()) + sum(out.nbytes for out in self.outs)
        spec, shape = self.step.unit.spec, self.outs[0].shape
        rows = ROW_CLOCKS.get(self.node.op, 0) * prod(shape[: self.node.attrs.get("axis", -1)])
        return lanes_clocks(spec, chip_rates(self.layout.roles, spec), functions, moved, rows)

    def _width(self) -> int:
        """Multiprocessors that have blocks of the kernel."""
        spec: Simt = self.step.unit.spec
        threads = max(out.elements for out in self.outs) / EACH_THREAD
        return min(spec.multiprocessors, ceil(threads / spec.threads))

    def _elements(self, part: Node) -> int:
        """Lane operations of one function: its arithmetic, at least one per element of the result."""
        graph = self.layout.graph
        outs = sum(graph.tensors[name].elements for name in part.outputs if name)
        return max(outs, self._ops(part))

    def _parameters(self, launched: list[int]) -> list[int]:
        """Constants; of a table only the rows that are gathered."""
        used = sum(out.elements for out in self.outs)
        names = self._parameter_names()
        tensors = [self.layout.graph.tensors[name] for name in names]
        size = sum(min(tensor.nbytes, tensor.size_B(used)) for tensor in tensors)
        return load_parameters(self.step, names, size, launched)

    def _parameter_names(self) -> list[str]:
        return list(dict.fromkeys(self.layout.facts.constants(self.node)))

    def _ring(self, tensor: Tensor, pieces: int, share_B: int) -> list[int]:
        cache, size = self.layout.roles.activations, min(-(-tensor.nbytes // pieces), share_B)
        slots = [self.layout.on_chip(cache, f"piece {tensor.name} {i}", size, streams=True) for i in range(FLIGHT)]
        return [slot for slot in slots if slot is not None]

    def _load(self, piece: int, pieces: int, homes: dict[str, int], launched: list[int]) -> None:
        for name, tensor in self.ins.items():
            first, size = _part(self.read_B[tensor.name], piece, pieces)
            slot = self.rings[name][piece % FLIGHT]
            self.layout.transfers.load(self.op, homes[name], slot, name, size, Effect("none"), first, needs=launched)

    def _compute(self, piece: int, pieces: int, homes: dict[str, int], parameters: list[int], shares: Shares) -> None:
        last = piece == pieces - 1
        reads = [*(self.rings[name][piece % FLIGHT] for name in self.ins), *homes.values(), *parameters]
        sizes = self.read_B | {out.name: out.nbytes for out in self.outs}
        moved = {name: _part(size, piece, pieces)[1] for name, size in sizes.items()}
        self.layout.builder.emit(
            "Vector",
            self.queue,
            self.op,
            self.node.name,
            shares.take(1, self._width()),
            Effect("node" if last else "none", operands=tuple(homes.items()), last=last),
            [(region, "src") for region in reads],
            [(self.rings[out.name][piece % FLIGHT], "whole") for out in self.outs],
            self._actions(piece, pieces, moved),
        )

    def _actions(self, piece: int, pieces: int, moved: dict[str, int]) -> list[Action]:
        """Entries of a piece that moves so many bytes of each tensor."""
        operations, fused = (work * (piece + 1) // pieces - work * piece // pieces for work in self.work)
        reads = {name: moved[name] for name in self.ins}
        return function_actions(self.units, reads, {out.name: moved[out.name] for out in self.outs}, operations, fused)

    @cached_property
    def work(self) -> tuple[int, int]:
        """Operations of functions, and those on what is in registers already: the first on each element brings it
        there."""
        ops = [(part, self._ops(part)) for part in (self.node, *self.node.epilogue)]
        every, simple = sum(work for _, work in ops), sum(work for part, work in ops if is_simple(part))
        functions = min(every, max(every - simple, *(out.elements for out in self.outs)))
        return functions, every - functions

    def _ops(self, part: Node) -> int:
        alone = Node(part.name, part.op, part.inputs, part.outputs, part.attrs)
        return node_work(self.layout.graph, alone).ops

    def _store(self, piece: int, pieces: int, out: Tensor, target: int) -> None:
        slot, last = self.rings[out.name][piece % FLIGHT], piece == pieces - 1
        effect = Effect("copy" if last else "none", operands=((out.name, slot),), tensor=out.name)
        first, size = _part(out.nbytes, piece, pieces)
        self.layout.transfers.store(self.op, slot, target, out.name, size, effect, PIECE[piece == 0, last], first)


def _read_B(graph: Graph, node: Node, tensor: Tensor) -> int:
    """Bytes that a kernel reads of an operand: where it only slices it, those of the slices."""
    readers = [part for part in (node, *node.epilogue) if tensor.name in part.inputs]
    if any(part.op != "Slice" for part in readers):
        return tensor.nbytes
    return min(tensor.nbytes, sum(graph.tensors[part.outputs[0]].nbytes for part in readers))


def _part(size: int, piece: int, pieces: int) -> tuple[int, int]:
    """Where a piece begins and its bytes; all pieces together are the whole, unless there are more than bytes."""
    first, end = size * piece // pieces, size * (piece + 1) // pieces
    return first, max(1, end - first)
