"""Pieces of a decoder call: the work of one device of a tensor-parallel group between two collectives.

The layers of the zoo by Megatron's splits (Shoeybi et al., arXiv 1909.08053), the sum with what goes past a block after
its collective. Keys and values are kept by head, each device those of its heads. One device alone has whole layers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import NamedTuple

from accelsim.account.interval import parts
from accelsim.cluster.step.costs import PLAIN, Cost, Setting, cost_of, format_of
from accelsim.cluster.step.fleet import Fleet
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
from accelsim.workload.graph import FORMAT_BYTES, Graph
from accelsim.workload.nodes import ELSEWHERE
from accelsim.workload.zoo.build import Builder
from accelsim.workload.zoo.decoder import Decoder
from accelsim.workload.zoo.style import ALIKE, Layer

ATTENTION, FEED_FORWARD, BLOCK = "attention", "feed-forward", "block"
EMBEDDING, HEAD, PROJECTIONS = "embedding", "head", "projections"


@dataclass(frozen=True)
class Call:
    """One call on ``tp`` devices: ``seq`` new tokens of each of ``batch`` sequences, after ``past`` earlier ones."""

    model: Transformer
    batch: int
    seq: int
    past: int
    tp: int = 1

    @property
    def rows(self) -> int:
        """Tokens that the call computes."""
        return self.batch * self.seq

    @property
    def heads(self) -> int:
        """Heads of one device."""
        return self.model.heads // self.tp

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values of one device: at least one, where there are more devices than heads."""
        return max(1, self.model.kv_heads // self.tp)


@dataclass(frozen=True)
class Piece:
    """A graph of one result. ``kind``, ``elements``: the collective after it ('': none), and the elements of its
    message."""

    name: str
    graph: Graph = field(compare=False)
    kind: str
    elements: int

    @property
    def learnt(self) -> int:
        """Elements of its weights: constants except masks, rotations and factors."""
        return sum(tensor.elements for tensor in self.graph.constants() if not tensor.fixed and tensor.shape)


def _resident(graph: Graph) -> Graph:
    graph.states = {name: name for name in graph.inputs} | graph.states
    graph.kept = [name for name in graph.outputs if name not in graph.states.values()]
    return graph


def _builder(call: Call, name: str) -> tuple[Builder, Decoder]:
    """Return what writes the share of one device."""
    b = Builder(name)
    return b, call.model.decoder(b, call.batch, call.seq, call.past, call.tp)


def _entry(call: Call, b: Builder) -> str:
    """Return the input; after a collective its sum with the residual."""
    shape = (call.batch, call.seq, call.model.hidden)
    if call.tp == 1:
        return b.input("x", shape)
    return b.op("Add", [b.input("sum", shape), b.input("past_by", shape)], "entry")


def embedding(call: Call) -> Piece:
    """Build the embedding for one device's part of the vocabulary, with learnt positions where the model has them."""
    b, model = Builder(EMBEDDING), call.model
    table = b.weight("table", (ceil(model.vocab / call.tp), model.hidden))
    x = b.op("Gather", [table, b.input("tokens", (call.batch, call.seq), "int64")], "embedded", axis=0)
    if model.positions:
        x = b.op("Add", [x, b.weight("positions", (call.seq, model.hidden))], "placed")
    return Piece(EMBEDDING, _resident(b.finish(x)), "all_reduce", call.rows * model.hidden)


def attention(call: Call, layer: Layer = ALIKE) -> Piece:
    """Build attention for one device's heads, from the norm to the output projection."""
    b, decoder = _builder(call, ATTENTION)
    decoder.attention.constants()
    made, caches = decoder.attention.whole(decoder.norm(_entry(call, b), "norm"), "own", layer.window)
    made = decoder.posted(made, "post")
    return Piece(ATTENTION, _resident(b.finish(made, *caches)), "all_reduce", call.rows * call.model.hidden)


def projections(call: Call, layer: Layer = ALIKE) -> Piece:
    """Build attention without scores and mixing: the products with weights before and behind them."""
    b, decoder = _builder(call, PROJECTIONS)
    decoder.attention.constants()
    shape = (call.batch, call.seq, decoder.attention.width)
    entry = _entry(call, b)
    normed, attended = decoder.norm(entry, "norm"), b.input("attended", shape)
    made = decoder.attention.out(attended, "own")
    others = decoder.attention.projected(normed, "own", layer.window)
    if call.tp > 1:
        made = decoder.posted(made, "post")
        return Piece(PROJECTIONS, _resident(b.finish(made, *others)), "all_reduce", call.rows * call.model.hidden)
    return Piece(PROJECTIONS, _resident(b.finish(decoder.after(made, entry, "own", layer), *others)), "", 0)


def feed_forward(call: Call, layer: Layer = ALIKE) -> Piece:
    """Build the feed-forward part, from the norm to the down projection, for one device's part of the inner width."""
    b, decoder = _builder(call, FEED_FORWARD)
    y = decoder.posted(decoder.fed(decoder.norm(_entry(call, b), "norm"), "own", layer), "post")
    return Piece(FEED_FORWARD, _resident(b.finish(y)), "all_reduce", call.rows * call.model.hidden)


def block(call: Call, layer: Layer = ALIKE) -> Piece:
    """Build a whole layer for one device alone; it has no collective."""
    b, decoder = _builder(call, BLOCK)
    decoder.attention.constants()
    x, caches = decoder.block(_entry(call, b), "own", layer)
    return Piece(BLOCK, _resident(b.finish(x, *caches)), "", 0)


def head(call: Call) -> Piece:
    """Build the logits of the last token for one device's part of the vocabulary, gathered on all devices."""
    (b, decoder), model = _builder(call, HEAD), call.model
    x = _entry(call, b)
    if call.seq > 1:
        x = b.op("Slice", [x], "last", starts=[call.seq - 1], ends=[call.seq], axes=[1], steps=[1])
    y = decoder.logits(decoder.norm(x, "norm"), ceil(model.vocab / call.tp))
    elements = call.batch * ceil(model.vocab / call.tp) * call.tp
    return Piece(HEAD, _resident(b.finish(y)), "all_gather", elements)


def pieces(call: Call, layers: Sequence[Layer], first: bool, last: bool) -> Iterator[tuple[Piece, int]]:
    """Yield each piece of a pipeline stage of ``layers``, with its count. The ``first`` stage has the embedding, the
    ``last`` the head."""
    if first:
        yield embedding(call), 1
    for make in (block,) if call.tp == 1 else (attention, feed_forward):
        for layer, times in Counter(layers).items():
            yield make(call, layer), times
    if last:
        yield head(call), 1


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
    """Bytes of an element: of a weight, of an activation between kernels, of a key or value."""

    weight: Fraction
    activation: Fraction
    cache: Fraction


def widths(chip: Chip, setting: Setting) -> Widths:
    """Return the bytes of a decoder's elements on a chip. Beside narrow layers of a serving stack, activations have 16
    bits. Scales of groups are left out: 1/128 of 16 bits per weight of 4."""
    dtype = setting.dtype or format_of(chip)
    weights, activations = (dtype, dtype) if dtype in FP4_BLOCKS else pair(dtype)
    if serves_narrow(chip, setting.fusion or SERVING, dtype):
        activations = short_float(chip)
    kept = get(setting.kv_dtype).name if setting.kv_dtype else activations
    return Widths(*(Fraction(FORMAT_BYTES[memory_format(name)]) for name in (weights, activations, kept)))


@dataclass
class Devices:
    """Devices of a fleet for serving; each piece is simulated once and remembered."""

    fleet: Fleet
    setting: Setting = PLAIN
    known: dict[Hashable, PieceCost] = field(default_factory=dict)

    @property
    def dtype(self) -> str:
        """Format of weights, activations and caches: that of the first chip."""
        return self.setting.dtype or format_of(self.fleet.chips[0])

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

    def message_B(self, elements: int) -> int:
        """Return the bytes of so many activations."""
        return ceil(elements * self.widths.activation)

    def piece(self, call: Call, piece: Piece, rank: int) -> PieceCost:
        """Return the cost of a piece on the chip of a rank, at the pace of the chip."""
        chip = self.chips[rank]
        shapes = tuple((name, tensor.shape) for name, tensor in piece.graph.tensors.items())
        key = (chip.name, id(chip), piece.name, shapes)
        if key not in self.known:
            setting = self.setting
            request = Request(
                piece.graph, chip, dtype=self.dtype, values="off", edges="outside", ignore_capacity=True,
                fusion=setting.fusion or SERVING, site=setting.site, quantiser=setting.quantiser,
                kv_dtype=setting.kv_dtype,
            )  # fmt: skip
            self.known[key] = _cost(execute(prepare(request)), call, piece, self.widths)
        return self.known[key]


def _cost(run: Run, call: Call, piece: Piece, widths: Widths) -> PieceCost:
    launched = sum(step.node.engine not in (*ELSEWHERE, "dma") for step in run.program.steps)
    cost = cost_of(run, limited=False)._replace(kernels=launched)
    weights = ceil(piece.learnt * widths.weight)
    needs = [need for need in run.program.needs.values() if need.weights_B or need.states_B]
    held = sum(need.weights_B + need.states_B + need.activations_B for need in needs)
    graph = run.program.graph
    caches = sum(graph.tensors[name].elements for name in graph.states.values() if "cache" in name)
    kept = ceil(caches * widths.cache)
    return PieceCost(cost, products_s(run), max(0, held - weights - kept), parts(run) is not None)


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
