"""Pieces of a call of a decoder: work of one device of a tensor-parallel group between two collectives.

The layers of the zoo by Megatron's splits (Shoeybi et al., arXiv 1909.08053), the sum with what goes past a block after
its collective. Keys and values are kept by head, each device those of its heads. One device alone has whole layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil

from accelsim.cluster.step.transformer import Transformer
from accelsim.workload.graph import Graph
from accelsim.workload.zoo.build import Builder
from accelsim.workload.zoo.decoder import Decoder, Style

ATTENTION, FEED_FORWARD, BLOCK = "attention", "feed-forward", "block"
EMBEDDING, HEAD = "embedding", "head"


@dataclass(frozen=True)
class Call:
    """One call: ``seq`` new tokens of each of ``batch`` sequences behind ``past`` earlier ones, on ``tp`` devices."""

    model: Transformer
    batch: int
    seq: int
    past: int
    tp: int = 1

    @property
    def rows(self) -> int:
        """Tokens that it computes."""
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
    """A graph of one result. ``kind``, ``elements``: the collective behind it and the elements of its message ('': no
    collective)."""

    name: str
    graph: Graph = field(compare=False)
    kind: str
    elements: int

    @property
    def learnt(self) -> int:
        """Elements of its weights: constants that are no mask, no rotation and no factor."""
        return sum(tensor.elements for tensor in self.graph.constants() if not tensor.fixed and tensor.shape)


def _resident(graph: Graph) -> Graph:
    """The graph with all that it reads and makes in the memory of the chip."""
    graph.states = {name: name for name in graph.inputs} | graph.states
    graph.kept = [name for name in graph.outputs if name not in graph.states.values()]
    return graph


def _builder(call: Call, name: str) -> tuple[Builder, Decoder]:
    """Return what writes the share of one device."""
    model, b = call.model, Builder(name)
    params = {
        "hidden": model.hidden, "heads": model.heads, "kv_heads": model.kv_heads, "ffn": model.ffn,
        "vocab": model.vocab, "bias": int(model.bias), "seq": call.seq, "past": call.past,
    }  # fmt: skip
    style = Style(model.gated, context=model.positions, tied=model.tied)
    return b, Decoder(b, call.batch, params, style, call.tp)


def _entry(call: Call, b: Builder) -> str:
    """Return the input; behind a collective its sum with what went past it."""
    shape = (call.batch, call.seq, call.model.hidden)
    if call.tp == 1:
        return b.input("x", shape)
    return b.op("Add", [b.input("sum", shape), b.input("past_by", shape)], "entry")


def embedding(call: Call) -> Piece:
    """Rows of the own part of the vocabulary, with learnt positions where the model has them."""
    b, model = Builder(EMBEDDING), call.model
    table = b.weight("table", (ceil(model.vocab / call.tp), model.hidden))
    x = b.op("Gather", [table, b.input("tokens", (call.batch, call.seq), "int64")], "embedded", axis=0)
    if model.positions:
        x = b.op("Add", [x, b.weight("positions", (call.seq, model.hidden))], "placed")
    return Piece(EMBEDDING, _resident(b.finish(x)), "all_reduce", call.rows * model.hidden)


def attention(call: Call) -> Piece:
    """Build the graph from the norm to the product that leads back, for the own heads."""
    b, decoder = _builder(call, ATTENTION)
    decoder.shared_constants()
    results = decoder.attention(decoder.norm(_entry(call, b), "norm"), "own")
    return Piece(ATTENTION, _resident(b.finish(*results)), "all_reduce", call.rows * call.model.hidden)


def feed_forward(call: Call) -> Piece:
    """Build the graph from the norm to the product that leads back, for the own part of the inner width."""
    b, decoder = _builder(call, FEED_FORWARD)
    y = decoder.fed(decoder.norm(_entry(call, b), "norm"), "own")
    return Piece(FEED_FORWARD, _resident(b.finish(y)), "all_reduce", call.rows * call.model.hidden)


def block(call: Call) -> Piece:
    """Build the graph of a whole layer, where one device has it: no collective is in it."""
    b, decoder = _builder(call, BLOCK)
    decoder.shared_constants()
    return Piece(BLOCK, _resident(b.finish(*decoder.block(_entry(call, b), "own"))), "", 0)


def head(call: Call) -> Piece:
    """Logits of the last token by the own part of the vocabulary, gathered on all devices."""
    (b, decoder), model = _builder(call, HEAD), call.model
    x = _entry(call, b)
    if call.seq > 1:
        x = b.op("Slice", [x], "last", starts=[call.seq - 1], ends=[call.seq], axes=[1], steps=[1])
    y = b.project(decoder.norm(x, "norm"), ceil(model.vocab / call.tp), "logits", bias=False)
    return Piece(
        HEAD, _resident(b.finish(y)), "all_gather", call.batch * ceil(model.vocab / call.tp) * call.tp
    )


def pieces(call: Call, layers: int, first: bool, last: bool) -> Iterator[tuple[Piece, int]]:
    """(piece, how often) of a stage of so many layers; ``first`` and ``last`` stages have the ends of the model."""
    if first:
        yield embedding(call), 1
    for piece in (block,) if call.tp == 1 else (attention, feed_forward):
        if layers:
            yield piece(call), layers
    if last:
        yield head(call), 1
