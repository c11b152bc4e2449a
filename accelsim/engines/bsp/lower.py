"""Commands of a step: what the tiles lack is loaded, then there is one command for each superstep."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod

import numpy as np

from accelsim.engines.base import Lowering, Mapped
from accelsim.engines.bsp.partition import results_of_tiles
from accelsim.engines.bsp.plan import Plan, Planned, TileMemory, plan
from accelsim.engines.bsp.spec import BspUnit, TileFormat
from accelsim.engines.bsp.supersteps import Figures, in_turn, phase
from accelsim.engines.bsp.supersteps import ceil as over
from accelsim.engines.bsp.vectors import Job, Operand, dealt, functions, lanes, needed
from accelsim.engines.streaming import lane_operations
from accelsim.errors import Infeasible
from accelsim.program.actions import PADDING, READ, WRITE, Action, ActionName, mac, op
from accelsim.program.commands import CommandKind, Effect
from accelsim.program.work import Stages
from accelsim.program.writing.layout import Place
from accelsim.types import Ints
from accelsim.workload.graph import Node, Tensor
from accelsim.workload.nodes import node_work
from accelsim.workload.ops.base import find

SEND = ActionName("exchange", "send")
"""Ledger action: bytes that tiles send into the exchange."""
STAGES = ("sync", "exchange", "tiles")
"""Stages of a superstep; its first figures."""
WHOLE = ("pool", "reduce")
"""Kinds of operators that read all of an operand which is larger than their results; others read a part of it."""


class StepWriter:
    """A step of an engine while its commands are written."""

    def __init__(self, lowering: Lowering) -> None:
        self.lowering, self.layout, self.node = lowering, lowering.layout, lowering.node
        self.graph, roles = self.layout.graph, self.layout.roles
        self.unit: BspUnit = lowering.unit.spec
        self.buffer, self.engine = roles.activations, roles.engine(lowering.unit.name)
        self.memory, self.plan = lowering.once((lowering.unit.name, self.layout.core), self._plan)
        self.memory.keep(region for region in self.memory.live if self.layout.spaces[self.buffer].holds(region))

    def _plan(self) -> tuple[TileMemory, Plan]:
        """The tiles of the core and the plan for them; with the first step all constants get their places, so that no
        load of one waits.
        """
        lowering, layout, name = self.lowering, self.layout, self.lowering.unit.name
        room_B = self.unit.room_B(layout.roles.buffer(self.buffer))
        self.memory = TileMemory(self.unit.tiles, room_B, self.graph.name, lowering.notes)
        found = plan(self.graph, self.memory, self.unit, name, lowering.dtype, lowering.pins)
        mine = [node for node in self.graph.nodes if node.engine == name]
        for constant in dict.fromkeys(each for node in mine for each in layout.facts.constants(node)):
            region = found.rooms[constant] = self._region(self.graph.tensors[constant])
            if self.unit.weights == "resident":
                layout.presets[region] = (constant, layout.core)
        return self.memory, found

    def _region(self, tensor: Tensor) -> int:
        """Bytes in the memory of all tiles. Raises OverCapacity where these have no room, Infeasible where what is left
        is in pieces.
        """
        region = self.layout.on_chip(self.buffer, tensor.name, tensor.nbytes)
        if region is None:
            self.memory.check(self.node.name, np.arange(self.unit.tiles), -(-tensor.nbytes // self.unit.tiles))
            free = self.layout.spaces[self.buffer].free_B()
            raise Infeasible(self.node.name, self.buffer, tensor.nbytes, free, f"all of {tensor.name}")
        return region

    def lower(self) -> Mapped | None:
        """Write the commands. Raises OverCapacity for a tile that would hold too much."""
        operands = {name: self._bring(name) for name in self.node.reads}
        planned = self.plan.products.get(self.node.name)
        if planned is None:
            self._function(operands)
            return None
        self._product(planned, operands)
        return Mapped(planned.gemm, planned.mapping, "", planned.choice.compared)

    def _bring(self, name: str) -> int:
        """The region of an operand on the tiles, loaded now unless it is there."""
        place, tensor = self.layout.place(name), self.graph.tensors[name]
        if place.chip is None:
            place.chip = self.plan.rooms.get(name)
            if place.chip is None:
                place.chip = self._region(tensor)
                self.memory.put_spread(place.chip, tensor.nbytes)
            if place.chip not in self.layout.presets:
                self.layout.fetch(self.lowering.index, name)
        return place.chip

    def _jobs(self, parts: Sequence[Node]) -> list[Job]:
        """Functions with their operations."""
        return [Job(self.unit.functions.get(part.op, 1), lane_operations(self.graph, part)) for part in parts]

    def _operand(self, name: str, results: int, whole: bool = False, spread: bool = False) -> Operand:
        tensor = self.graph.tensors[name]
        elements = tensor.elements if whole else min(tensor.elements, results)
        return Operand(elements, ceil(tensor.element_B), spread)

    def _function(self, operands: dict[str, int]) -> None:
        """One superstep over vectors of results, or two over rows; operands of equal shape that lie like the results
        need not move.
        """
        node, outs, kind = self.node, self.graph.outs(self.node), _kind(self.node)
        results, element_B = sum(out.elements for out in outs), max(ceil(out.element_B) for out in outs)
        reads = {}
        for name, region in operands.items():
            alike = kind == "elementwise" and self.graph.tensors[name].elements == results
            spread = alike and region in self.memory.spread
            reads[name] = self._operand(name, results, kind in WHOLE, spread)
        row, jobs = row_length(node, outs[0].shape), self._jobs((node, *node.epilogue))
        steps, shares = supersteps(self.unit, results, row, element_B, jobs, list(reads.values()))
        self.memory.check(node.name, np.arange(self.unit.tiles), max(step.held for step in steps))
        targets = self._results()
        even = int(np.ptp(shares)) <= lanes(self.unit, element_B)
        for out, region in zip(outs, targets, strict=True):
            if even:
                self.memory.put_spread(region, out.nbytes)
            else:  # rows of the only result
                self.memory.put_parts(region, np.arange(self.unit.tiles), shares * element_B)
        own = targets if len(steps) == 1 else []
        self._emit("Vector", steps[0], _needed(reads, shares), operands, own, self._operations())
        for step in steps[1:]:
            self._emit("Vector", step, [("", step.read)], operands, targets, [])

    def _product(self, planned: Planned, operands: dict[str, int]) -> None:
        """Multiply, and reduce where the reduction is cut, turn by turn; what is fused behind belongs to the last."""
        choice, product, node = planned.choice, planned.product, self.node
        row = self.unit.formats[planned.number_format]
        shares = results_of_tiles(row, product, choice.partition) * planned.turns
        sides = [name for name in operands if name not in (planned.gemm.a, planned.gemm.b)]
        reads = {name: self._operand(name, int(shares.sum())) for name in sides}
        tail = Figures()
        if node.epilogue:
            tail = functions(self.unit, shares, product.out_B, self._jobs(node.epilogue), list(reads.values()))
        most_B = int(shares.max()) * product.out_B
        copies_B = max(0, tail.held - most_B)  # of what the tail reads; its results take the place of sums
        last = choice.reduce if choice.partition.k > 1 else choice.multiply
        held = max(choice.multiply.held, choice.reduce.held, last.held + copies_B)
        held += most_B // planned.turns * (planned.turns - 1)
        self.memory.check(node.name, planned.tiles, held - planned.weights_B)
        targets = self._results()
        self.memory.put_parts(targets[0], planned.tiles, shares * product.out_B)
        steps = [(choice.multiply, _reads(planned, row.k), self._macs(planned, row))]
        if last is choice.reduce:
            steps.append((choice.reduce, [(node.writes[0], choice.reduce.read)], []))
        steps *= planned.turns
        for figures, by_tensor, actions in steps[:-1]:
            self._emit("MatMul", figures, by_tensor, operands, [], actions)
        figures, by_tensor, actions = steps[-1]
        by_tensor, actions = [*by_tensor, *_needed(reads, shares)], [*actions, *self._operations()]
        self._emit("MatMul", figures.and_then(tail), by_tensor, operands, targets, actions)

    def _macs(self, planned: Planned, row: TileFormat) -> list[Action]:
        """Multiplications of one turn, and those with the zeros that fill blocks."""
        product = planned.product
        blocks = int(over(product.N, row.n)) * int(over(product.K, row.k))
        padded = product.groups * product.M * blocks * row.n * row.k - product.macs
        name = mac(planned.number_format)
        return [Action(self.engine, name, "", product.macs), Action(self.engine, PADDING, "", padded)]

    def _results(self) -> list[int]:
        """Regions for what the node writes."""
        regions = []
        for tensor in self.graph.outs(self.node):
            region = self._region(tensor)
            self.layout.places[tensor.name] = Place(chip=region)
            regions.append(region)
        return regions

    def _operations(self) -> list[Action]:
        out = self.graph.outs(self.node)[0].memory_format
        known = out if out in self.layout.roles.chip.energy.vector else "fp32"
        return [Action(self.engine, op(known), "", node_work(self.graph, self.node).ops)]

    def _emit(
        self,
        kind: CommandKind,
        figures: Figures,
        reads: Sequence[tuple[str, int]],
        operands: dict[str, int],
        targets: Sequence[int],
        actions: Sequence[Action],
    ) -> None:
        """One superstep; the one that writes the results computes the values of the node."""
        layout, node, memory = self.layout, self.node, self.layout.roles.engine(self.buffer)
        activations = tuple((name, operands[name]) for name in layout.facts.activations(node))
        effect = Effect("node", operands=activations, last=True) if targets else Effect("none")
        out = node.writes[0]
        entries = [
            *actions,
            Action(self.engine, SEND, "", figures.sent),
            *(Action(memory, READ, name, size_B) for name, size_B in reads),
            Action(memory, READ, "", figures.sent),
            Action(memory, WRITE, "", figures.received),
            Action(memory, WRITE, out, figures.written),
        ]
        work = Stages(tuple(zip(STAGES, figures, strict=False)))
        sources, results = [(region, "src") for region in operands.values()], [(region, "whole") for region in targets]
        counted = [entry for entry in entries if entry.count]
        step = self.lowering.index
        layout.builder.emit(kind, self.engine, step, node.name, work, effect, sources, results, counted)


def _kind(node: Node) -> str:
    op = find(node.op)
    return op.kind if op is not None else ""


def _needed(reads: dict[str, Operand], shares: Ints) -> list[tuple[str, int]]:
    return [(name, int(needed(each, shares).sum())) for name, each in reads.items()]


def _reads(planned: Planned, block: int) -> list[tuple[str, int]]:
    """Return what the multiplication reads of each tensor, B; sums that it adds to belong to none."""
    product, parts, read = planned.product, planned.choice.partition, planned.choice.multiply.read
    weights = product.groups * product.K * product.N * parts.m * product.b_B
    again = int(over(product.K, block)) - parts.k
    sums = product.groups * product.M * product.N * product.sum_B * again
    return [(planned.gemm.b, weights), (planned.gemm.a, read - weights - sums), ("", sums)]


STATISTICS_B = 8
"""Two numbers in FP32 that tiles which share a row tell each other of it (largest and sum, or sum and squares)."""


def row_length(node: Node, shape: tuple[int, ...]) -> int:
    """Return the elements of a row, on which a result depends; 1 for functions of elements, channels and windows."""
    axis = node.attrs.get("axis", -1)
    if node.op in ("Softmax", "LogSoftmax"):
        return prod(shape[node.attrs["flatten_from"] :]) if "flatten_from" in node.attrs else shape[axis]
    if node.op in ("LayerNormalization", "RMSNormalization"):
        return prod(shape[axis:])
    if node.op == "InstanceNormalization":
        return prod(shape[2:])
    if node.op == "GroupNormalization":
        return prod(shape[1:]) // int(node.attrs["num_groups"])
    return 1


def supersteps(
    unit: BspUnit, results: int, row: int, element_B: int, jobs: Sequence[Job], operands: Sequence[Operand]
) -> tuple[list[Figures], Ints]:
    """Return the supersteps of functions of rows, and the results of each tile, int64 [tiles].

    Rows are dealt whole in one superstep, or results evenly with a second superstep, in which tiles that share a row
    exchange its statistics; whichever takes fewer clocks.
    """
    even = dealt(unit, results, lanes(unit, element_B))
    parted = functions(unit, even, element_B, jobs, operands)._replace(sync=unit.sync)
    meet = _statistics(unit, even, row)
    if not meet.clocks:
        return [parted], even
    whole = dealt(unit, results, row)
    together = functions(unit, whole, element_B, jobs, operands)._replace(sync=unit.sync)
    if together.clocks <= parted.clocks + meet.clocks:
        return [together], whole
    return [parted, meet], even


def _statistics(unit: BspUnit, shares: Ints, row: int) -> Figures:
    """Every tile sends what it knows of each row that it shares, and adds what the others of that row send."""
    working = shares[shares > 0]
    ends = np.cumsum(working)
    first, last = (ends - working) // row, (ends - 1) // row
    rows = int(last[-1]) + 1
    touching = np.cumsum(np.bincount(first, minlength=rows + 1) - np.bincount(last + 1, minlength=rows + 1))
    shared = np.concatenate(([0], np.cumsum(touching > 1)))
    others = np.concatenate(([0], np.cumsum(touching - 1)))
    sent = (shared[last + 1] - shared[first]) * STATISTICS_B
    received = (others[last + 1] - others[first]) * STATISTICS_B
    if not received.any():
        return Figures()
    vectors = over(received.max(), unit.vector_width)
    return Figures(
        unit.sync,
        int(phase(unit, sent.max(), received.max())),
        int(in_turn(unit, vectors, 1)),
        int(sent.sum()),
        int(received.sum()),
        int((sent + received).sum()),
        int(sent.sum()),
        int((sent + received).max()),
    )
