"""Lowering of everything that is no product: a kernel whose operands stream through the L2 cache."""

from __future__ import annotations

from functools import cached_property
from math import ceil, prod

from accelsim.engines.base import Lowering
from accelsim.engines.kernel_times import ROW_CLOCKS
from accelsim.engines.simt.actions import function_actions, is_simple
from accelsim.engines.simt.kernels import lanes_clocks
from accelsim.engines.simt.lower import ADVICE
from accelsim.engines.simt.panels import PIECES
from accelsim.engines.simt.spec import Simt
from accelsim.engines.simt.writing import Shares, device_home, launch, load_parameters, rates_of, units
from accelsim.engines.streaming import FLIGHT, Stream, Streamed, lane_operations, operations, part_of
from accelsim.errors import Infeasible
from accelsim.program.actions import Action
from accelsim.program.work import Cycles
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.limits import check_commands

EACH_THREAD = 8
"""Elements of a thread: 16 B of FP16 in one load."""


class Streaming(Streamed):
    """One node while its commands are written: pieces of every operand and result, ``FLIGHT`` of each in flight."""

    def __init__(self, step: Lowering) -> None:
        super().__init__(step)
        names, tensors = self.layout.facts.activations(self.node), self.graph.tensors
        self.ins = {name: tensors[name] for name in dict.fromkeys(names)}
        self.read_B = {name: _read_B(self.graph, self.node, tensor) for name, tensor in self.ins.items()}
        self.units, self.spec = units(step), step.unit.spec

    def lower(self) -> None:
        """Emit the launch, then loads, work and stores of all pieces. Raises Infeasible where the cache has no room for
        a byte of each tensor, twice."""
        layout, pieces, each = self.layout, self._pieces(), len(self.ins) + 1 + len(self.outs)
        check_commands(f"{self.node.name} in {pieces:,} pieces", pieces * each, len(layout.builder.commands), ADVICE)
        homes = {name: device_home(layout, self.op, name) for name in self.ins}
        targets = [layout.result(out.name) for out in self.outs]
        launched = launch(self.step, homes.values(), self._width(), begin=self._begin())
        parameters = self._parameters(launched)
        share_B = self._share_B()
        rings = {
            tensor.name: self.slots(tensor.name, min(-(-tensor.nbytes // pieces), share_B), streams=True)
            for tensor in (*self.ins.values(), *self.outs)
        }
        self.shares = Shares(self._clocks(), pieces, pieces)
        self.stream(Stream(pieces, self.read_B, rings, homes, targets, parameters, launched))

    def _begin(self) -> float | None:
        """Seconds of its launch in a graph of kernels; None for those of any kernel."""
        return None

    def _pieces(self) -> int:
        """Pieces (a power of two), so that what moves and what is computed overlap."""
        sizes = [tensor.nbytes for tensor in (*self.ins.values(), *self.outs)]
        return min(PIECES, 1 << max(0, max(sizes).bit_length() - 1))

    def _share_B(self) -> int:
        """Return what each slot may take of the cache; pieces that are larger stream through."""
        slots, room = FLIGHT * (len(self.ins) + len(self.outs)), self.layout.spaces[self.buffer].free_B()
        if room < slots:
            raise Infeasible(self.node.name, self.buffer, slots, room, "1 byte of each tensor, twice")
        return room // slots

    def _clocks(self) -> int:
        """Clocks of the kernel without its launch."""
        functions = [(part.op, lane_operations(self.graph, part)) for part in (self.node, *self.node.epilogue)]
        moved = sum(self.read_B.values()) + sum(out.nbytes for out in self.outs)
        rows = ROW_CLOCKS.get(self.node.op, 0) * prod(self.outs[0].shape[: self.node.attrs.get("axis", -1)])
        return lanes_clocks(self.spec, rates_of(self.step), functions, moved, rows)

    def _width(self) -> int:
        """Multiprocessors that have blocks of the kernel."""
        spec: Simt = self.spec
        threads = max(out.elements for out in self.outs) / EACH_THREAD
        return min(spec.multiprocessors, ceil(threads / spec.threads))

    def _parameters(self, launched: list[int]) -> list[int]:
        """Constants; of a table only the rows that are gathered."""
        used = sum(out.elements for out in self.outs)
        names = self._parameter_names()
        tensors = [self.graph.tensors[name] for name in names]
        size = sum(min(tensor.nbytes, tensor.size_B(used)) for tensor in tensors)
        return load_parameters(self.step, names, size, launched)

    def _parameter_names(self) -> list[str]:
        return list(dict.fromkeys(self.layout.facts.constants(self.node)))

    def work(self, piece: int, pieces: int) -> Cycles:
        """Return the share of a piece of the clocks."""
        return self.shares.take(1, self._width())

    def actions(self, piece: int, pieces: int) -> list[Action]:
        """Return the ledger entries of a piece."""
        done, fused = (work * (piece + 1) // pieces - work * piece // pieces for work in self._operations)
        reads = {name: part_of(size_B, piece, pieces)[1] for name, size_B in self.read_B.items()}
        writes = {out.name: part_of(out.nbytes, piece, pieces)[1] for out in self.outs}
        return function_actions(self.units, reads, writes, done, fused)

    @cached_property
    def _operations(self) -> tuple[int, int]:
        """Operations of functions, and those on what is in registers already: the first on each element brings it
        there."""
        ops = [(part, operations(self.graph, part)) for part in (self.node, *self.node.epilogue)]
        every, simple = sum(work for _, work in ops), sum(work for part, work in ops if is_simple(part))
        functions = min(every, max(every - simple, *(out.elements for out in self.outs)))
        return functions, every - functions


def _read_B(graph: Graph, node: Node, tensor: Tensor) -> int:
    """Bytes that a kernel reads of an operand: where it only slices it, those of the slices."""
    readers = [part for part in (node, *node.epilogue) if tensor.name in part.inputs]
    if any(part.op != "Slice" for part in readers):
        return tensor.nbytes
    return min(tensor.nbytes, sum(graph.tensors[part.outputs[0]].nbytes for part in readers))
