"""Devices that serve: each piece is simulated once on each kind of chip, and messages go over their network."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import NamedTuple

from accelsim.account.interval import parts
from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.serving.checkpoint import CHECKPOINT, Mixed, mixed_of
from accelsim.cluster.serving.exchange import sent
from accelsim.cluster.serving.pieces import Call, Piece
from accelsim.cluster.step.costs import PLAIN, Cost, Setting, cost_of, format_of
from accelsim.cluster.step.fleet import Comm, Fleet
from accelsim.cluster.step.transformer import Transformer
from accelsim.compiler.numbers.formats import memory_format, pair, serves_narrow, short_float
from accelsim.compiler.state import SERVING
from accelsim.formats.table import FP4_BLOCKS, get
from accelsim.machine.run import Run
from accelsim.request import Request
from accelsim.request.job import execute, prepare
from accelsim.spec.chip import Chip
from accelsim.spec.cluster import ClusterSpec
from accelsim.spec.yaml.stacks import with_stack, without_host
from accelsim.time import FS
from accelsim.workload.graph import FORMAT_BYTES
from accelsim.workload.nodes import ELSEWHERE


class PieceCost(NamedTuple):
    """A piece on one device: its ``cost`` (the design power of a board limits joules of a call, not of a piece; kernels
    are those that a host asks for); ``products_s``: time of its products with weights (of attention not);
    ``working_B``: bytes that it needs beside weights and caches; ``timed``: whether the chip has kernels, whose
    intervals are known."""

    cost: Cost
    products_s: float
    working_B: int
    timed: bool


VLLM = "vllm"
"""The library of a cluster whose all-reduce is that of a serving stack, in a graph of kernels."""


def serving_library(cluster: ClusterSpec, library: str, setting: Setting) -> str:
    """Return the library that runs the collectives of a generation: ``library``, else vLLM's where kernels are those of
    vLLM and the cluster has it; '': the cluster's own."""
    served = (setting.fusion or SERVING) == SERVING and setting.stack in ("", VLLM)
    return library or (VLLM if served and VLLM in cluster.libraries else "")


class Widths(NamedTuple):
    """Bytes of an element: of a weight, of an activation between kernels, of a key or value, of an input of a
    product."""

    weight: Fraction
    activation: Fraction
    cache: Fraction
    input: Fraction


def widths(chip: Chip, setting: Setting) -> Widths:
    """Return the bytes of a decoder's elements on a chip. Beside narrow layers of a serving stack, activations have 16
    bits. Scales of groups are left out: 1/128 of 16 bits per weight of 4."""
    dtype = setting.dtype or format_of(chip)
    dtype = short_float(chip) or dtype if dtype == CHECKPOINT else dtype
    weights, inputs = (dtype, dtype) if dtype in FP4_BLOCKS else pair(dtype)
    activations = inputs
    if serves_narrow(chip, setting.fusion or SERVING, dtype):
        activations = short_float(chip)
    kept = get(setting.kv_dtype).name if setting.kv_dtype else activations
    return Widths(*(Fraction(FORMAT_BYTES[memory_format(name)]) for name in (weights, activations, kept, inputs)))


@dataclass
class Devices:
    """Devices of a fleet for serving; each piece is simulated once and remembered."""

    fleet: Fleet
    setting: Setting = PLAIN
    known: dict[Hashable, PieceCost] = field(default_factory=dict)
    _mixed: dict[Transformer, Mixed] = field(default_factory=dict)

    @property
    def dtype(self) -> str:
        """Format of weights, activations and caches: that of the first chip, or ``CHECKPOINT``."""
        return self.setting.dtype or format_of(self.fleet.chips[0])

    def mixed(self, model: Transformer) -> Mixed | None:
        """Return the formats of a model's own checkpoint, None where all weights have one. Raises UsageError."""
        if self.dtype == CHECKPOINT and model not in self._mixed:
            self._mixed[model] = mixed_of(model, self.fleet.chips[0])
        return self._mixed.get(model)

    def weights_B(self, model: Transformer, piece: Piece) -> Fraction:
        """Return the bytes of the weights of a piece."""
        total = piece.learnt * self.widths.weight
        if mixed := self.mixed(model):
            narrow = sum(piece.graph.tensors[name].elements for name in mixed.narrow_weights(piece.graph))
            total += narrow * (Fraction(FORMAT_BYTES[mixed.weights]) - self.widths.weight)
        return total

    @cached_property
    def widths(self) -> Widths:
        """Bytes of elements on the first chip."""
        return widths(self.fleet.chips[0], self.setting)

    @cached_property
    def _kernels(self) -> dict[int, tuple[Chip, float]]:
        """Each chip with the kernels of the stack and a host that takes no time; the time of that for each kernel."""
        chips, stack = {id(chip): chip for chip in self.fleet.chips}, self.setting.stack
        return {key: without_host(with_stack(each, stack)) if stack else (each, 0.0) for key, each in chips.items()}

    @cached_property
    def chips(self) -> tuple[Chip, ...]:
        """The chips of all ranks with the kernels of the stack, and a host that takes no time."""
        return tuple(self._kernels[id(chip)][0] for chip in self.fleet.chips)

    @property
    def host_s(self) -> float:
        """Time of a host for each kernel that it asks for: no call takes less than all of these, s."""
        return self._kernels[id(self.fleet.chips[0])][1]

    def message_B(self, elements: int, narrow: bool = False) -> int:
        """Return the bytes of so many activations; ``narrow``: of inputs of products."""
        return ceil(elements * (self.widths.input if narrow else self.widths.activation))

    def sent(self, plan: Plan, stage: int, piece: Piece) -> list[Comm]:
        """Return the collectives after a piece of a stage."""
        return [sent(self.fleet, plan, stage, each, self.message_B(each.elements, each.narrow)) for each in piece.sent]

    def piece(self, call: Call, piece: Piece, rank: int, fullest: bool = True) -> PieceCost:
        """Return the cost of a piece on the chip of a rank, at the pace of the chip. ``fullest``: of the devices that
        share experts, the one with the most tokens for its own."""
        chip = self.chips[rank]
        graph = piece.graph if fullest else piece.other or piece.graph
        shapes = tuple((name, tensor.shape) for name, tensor in graph.tensors.items())
        loads = tuple(node.attrs["reached"] for node in graph.nodes if "reached" in node.attrs)
        mixed = self.mixed(call.model)
        dtype, layers = mixed.request(graph) if mixed else (self.dtype, {})
        key = (chip.name, id(chip), piece.name, shapes, loads, dtype, *layers.items())
        if key not in self.known:
            setting = self.setting
            request = Request(
                graph, chip, dtype=dtype, layer_dtype=layers or None, values="off", edges="outside",
                ignore_capacity=True, fusion=setting.fusion or SERVING, site=setting.site, quantiser=setting.quantiser,
                kv_dtype=setting.kv_dtype,
            )  # fmt: skip
            run = execute(prepare(request, recorded=False))
            self.known[key] = _cost(run, ceil(self.weights_B(call.model, piece)), self.widths)
        return self.known[key]


def _cost(run: Run, weights_B: int, widths: Widths) -> PieceCost:
    launched = sum(step.node.engine not in (*ELSEWHERE, "dma") for step in run.program.steps)
    cost = cost_of(run, limited=False)._replace(kernels=launched)
    needs = [need for need in run.program.needs.values() if need.weights_B or need.states_B]
    held = sum(need.weights_B + need.states_B + need.activations_B for need in needs)
    graph = run.program.graph
    caches = sum(graph.tensors[name].elements for name in graph.states.values() if "cache" in name)
    kept = ceil(caches * widths.cache)
    return PieceCost(cost, products_s(run), max(0, held - weights_B - kept), parts(run) is not None)


def products_s(run: Run) -> float:
    """Return the time that products with weights add to a run, s."""
    from accelsim.account import critical_path

    steps, tensors = run.program.steps, run.program.graph.tensors
    weights = {name for name, each in tensors.items() if each.is_constant and len(each.shape) > 1}
    return FS * sum(
        sum(spent.values())
        for index, spent in critical_path.by_step(run).items()
        if 0 <= index < len(steps) and steps[index].macs and weights.intersection(steps[index].node.inputs)
    )
