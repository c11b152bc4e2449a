"""A node whose operands and results stream through the buffer of the activations, piece by piece."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from accelsim.engines.base import Lowering
from accelsim.program.actions import Action
from accelsim.program.commands import Effect
from accelsim.program.work import Cycles
from accelsim.program.writing.builder import PIECE
from accelsim.program.writing.layout import Place
from accelsim.workload.graph import Graph, Node
from accelsim.workload.nodes import node_work

NOTHING = Effect("none")
"""Effect of a command that changes no values."""
FLIGHT = 2
"""Pieces of a tensor in flight."""


def operations(graph: Graph, part: Node) -> int:
    """Return the operations of one function, without those that are fused to it."""
    return node_work(graph, Node(part.name, part.op, part.inputs, part.outputs, part.attrs)).ops


def results_of(graph: Graph, part: Node) -> int:
    """Return the elements of all results of one function."""
    return sum(graph.tensors[name].elements for name in part.outputs if name)


def lane_operations(graph: Graph, part: Node) -> int:
    """Return the operations of lanes for one function: its own, at least one for each element of its results."""
    return max(results_of(graph, part), operations(graph, part))


def part_of(size: int, piece: int, pieces: int) -> tuple[int, int]:
    """Return where a piece begins, and its size. All pieces together are the whole, unless there are more of them than
    bytes."""
    first, end = size * piece // pieces, size * (piece + 1) // pieces
    return first, max(1, end - first)


class Stream(NamedTuple):
    """A node in ``pieces``: bytes ``read_B`` of each operand that streams, slots of everything that streams
    (``rings``), regions of all operands (``sources``) and of the results (``targets``), of what stays (``parameters``)
    and of what loads wait for (``needs``)."""

    pieces: int
    read_B: dict[str, int]
    rings: dict[str, list[int]]
    sources: dict[str, int]
    targets: Sequence[int]
    parameters: Sequence[int]
    needs: Sequence[int] = ()


class Streamed(ABC):
    """One node while its commands are written, ``FLIGHT`` pieces of each tensor in flight.

    Pieces time and account the node; its values are computed with the last one, from the homes of the operands.
    """

    word: ClassVar[str] = "piece"
    """Name of the slots."""

    def __init__(self, step: Lowering) -> None:
        self.step, self.layout, self.op, self.node = step, step.layout, step.index, step.node
        self.graph, roles = self.layout.graph, self.layout.roles
        self.outs, self.buffer = self.graph.outs(self.node), roles.activations
        self.queue = roles.queue(step.unit.name)

    @abstractmethod
    def work(self, piece: int, pieces: int) -> Cycles:
        """Return the work of a piece."""

    @abstractmethod
    def actions(self, piece: int, pieces: int) -> Sequence[Action]:
        """Return the ledger entries of a piece."""

    def slots(self, name: str, size_B: int, streams: bool = False) -> list[int]:
        """Take slots for the pieces of a tensor; with ``streams`` larger pieces may pass through them."""
        names = (f"{self.word} {name} {index}" for index in range(FLIGHT))
        found = [self.layout.on_chip(self.buffer, slot, size_B, streams) for slot in names]
        return [slot for slot in found if slot is not None]

    def stream(self, flow: Stream) -> None:
        """Emit loads, work and stores of all pieces; the results end in their regions."""
        for piece in range(flow.pieces):
            self._piece(flow, piece)
        for out, target in zip(self.outs, flow.targets, strict=True):
            self.layout.places[out.name] = Place(home=target)
        self.layout.release(self.buffer, [slot for ring in flow.rings.values() for slot in ring])

    def _piece(self, flow: Stream, piece: int) -> None:
        pieces, last, transfers = flow.pieces, piece == flow.pieces - 1, self.layout.transfers
        slot = {name: ring[piece % FLIGHT] for name, ring in flow.rings.items()}
        for name, size_B in flow.read_B.items():
            first, part_B = part_of(size_B, piece, pieces)
            source = flow.sources[name]
            transfers.load(self.op, source, slot[name], name, part_B, NOTHING, first, needs=flow.needs)
        effect = Effect("node" if last else "none", operands=tuple(flow.sources.items()), last=last)
        reads = [*(slot[name] for name in flow.read_B), *flow.sources.values(), *flow.parameters]
        sources, results = [(region, "src") for region in reads], [(slot[out.name], "whole") for out in self.outs]
        work, actions, name = self.work(piece, pieces), self.actions(piece, pieces), self.node.name
        self.layout.builder.emit("Vector", self.queue, self.op, name, work, effect, sources, results, actions)
        for out, target in zip(self.outs, flow.targets, strict=True):
            effect = Effect("copy" if last else "none", operands=((out.name, slot[out.name]),), tensor=out.name)
            first, part_B = part_of(out.nbytes, piece, pieces)
            role = PIECE[piece == 0, last]
            transfers.store(self.op, slot[out.name], target, out.name, part_B, effect, role, first)
