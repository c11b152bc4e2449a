"""The pieces of a decoder that one device of a tensor-parallel group computes between two collectives.

Megatron's splits (Shoeybi et al., arXiv 1909.08053): projections into heads and the first of the feed-forward part by
columns, those back by rows, the embedding and the output projection by the vocabulary. With sequence parallelism
(Korthikanti et al., arXiv 2205.05198) what lies between the products works at a part of the tokens. Scores are written
to memory, as in frameworks before FlashAttention; their scale and their mask are part of the kernel of the softmax.
Dropout multiplies by a mask that is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil

from accelsim.cluster.step.transformer import Transformer
from accelsim.workload.graph import Graph
from accelsim.workload.zoo.build import Builder


@dataclass(frozen=True)
class Segment:
    """A graph of one result between collectives. ``of``: its activations among the inputs, whose gradients go on.

    ``core``: attention itself, which selective recomputation computes again. ``residual``: its input goes past it as
    well, so that its gradient is a sum. ``times``: so often in a block.
    """

    name: str
    graph: Graph = field(compare=False)
    of: tuple[str, ...]
    core: bool = False
    residual: bool = False
    times: int = 1


@dataclass(frozen=True)
class Split:
    """How one device sees a decoder: ``batch`` sequences of a microbatch, ``tp`` devices that share each layer, ``sp``:
    what lies between the products is shared as well."""

    model: Transformer
    batch: int
    tp: int = 1
    sp: bool = False

    @property
    def rows(self) -> int:
        """Tokens of a sequence that what lies between the products works at."""
        return ceil(self.model.seq / self.tp) if self.sp else self.model.seq


Maker = Callable[[Split], Segment]


def _builder(split: Split, name: str, width: int, full: bool = True) -> tuple[Builder, str]:
    b = Builder(name)
    return b, b.input("x", (split.batch, split.model.seq if full else split.rows, width))


def _norm(split: Split) -> Segment:
    b, x = _builder(split, "norm", split.model.hidden, full=False)
    y = b.rms_norm(x, "norm_y", 1e-5) if split.model.gated else b.layer_norm(x, "norm_y")
    return Segment("norm", b.finish(y), ("x",), residual=True, times=2)


def _projection(split: Split) -> Segment:
    """Queries, keys and values by one product."""
    model, b, x = split.model, *_builder(split, "qkv", split.model.hidden)
    features = (model.heads + 2 * max(split.tp, model.kv_heads)) // split.tp * model.head_dim
    return Segment("qkv", b.finish(b.project(x, features, "qkv_y", bias=model.bias)), ("x",))


def _attention(split: Split) -> Segment:
    """From the projections to what the heads have gathered, transpositions and all."""
    model = split.model
    heads, kv = model.heads // split.tp, max(split.tp, model.kv_heads) // split.tp
    b, x = _builder(split, "attention", (heads + 2 * kv) * model.head_dim)
    return Segment("attention", b.finish(_attended(b, split, x, heads, kv)), ("x",), core=True)


def _attended(b: Builder, split: Split, x: str, heads: int, kv: int) -> str:
    s, d, group = split.model.seq, split.model.head_dim, heads // kv
    parts = [heads * d, kv * d, kv * d]
    q, k, v = b.ops("Split", [x], ["q", "k", "v"], "split", axis=2, split=parts)
    rows = b.reshaped(q, (split.batch, s, kv, group, d), "q.heads")
    q = b.op("Transpose", [rows], "q.rows", perm=[0, 2, 3, 1, 4])
    q = b.reshaped(q, (split.batch, kv, group * s, d), "q.grouped")
    k = b.op("Transpose", [b.reshaped(k, (split.batch, s, kv, d), "k.heads")], "k.rows", perm=[0, 2, 3, 1])
    v = b.op("Transpose", [b.reshaped(v, (split.batch, s, kv, d), "v.heads")], "v.rows", perm=[0, 2, 1, 3])
    scores = b.matmul(q, k, "scores")
    shares = b.op("Softmax", [scores], "shares", axis=3)
    kept = b.op("Mul", [shares, b.input("dropout", b.shape(shares))], "kept")
    mixed = b.matmul(kept, v, "mixed")
    mixed = b.reshaped(mixed, (split.batch, kv, group, s, d), "mixed.heads")
    mixed = b.op("Transpose", [mixed], "joined", perm=[0, 3, 1, 2, 4])
    return b.reshaped(mixed, (split.batch, s, heads * d), "attended")


def _out(split: Split) -> Segment:
    model, b, x = split.model, *_builder(split, "out", split.model.hidden // split.tp)
    return Segment("out", b.finish(b.project(x, model.hidden, "out_y", bias=False)), ("x",))


def _sum(split: Split) -> Segment:
    """Bias, dropout, and the sum with what went past."""
    model, b, x = split.model, *_builder(split, "sum", split.model.hidden, full=False)
    if model.bias:
        x = b.op("Add", [x, b.weight("bias", (model.hidden,))], "biased")
    x = b.op("Mul", [x, b.input("dropout", b.shape(x))], "kept")
    past = b.input("past", b.shape(x))
    return Segment("sum", b.finish(b.op("Add", [x, past], "sum_y")), ("x",), times=2)


def _feed_forward(split: Split) -> Segment:
    model, b, x = split.model, *_builder(split, "feed-forward", split.model.hidden)
    ffn = ceil(model.ffn / split.tp)
    if model.gated:
        gate = b.op("Silu", [b.project(x, ffn, "gate", bias=model.bias)], "silu")
        inner = b.op("Mul", [b.project(x, ffn, "up", bias=model.bias), gate], "gated")
    else:
        inner = b.op("Gelu", [b.project(x, ffn, "up", bias=model.bias)], "gelu", approximate="tanh")
    return Segment("feed-forward", b.finish(b.project(inner, model.hidden, "down", bias=False)), ("x",))


def _embedding(split: Split) -> Segment:
    """Rows of the own part of the vocabulary, positions and dropout."""
    model, b = split.model, Builder("embedding")
    tokens = b.input("tokens", (split.batch, model.seq), "int64")
    table = b.weight("table", (ceil(model.vocab / split.tp), model.hidden))
    x = b.op("Gather", [table, tokens], "embedded", axis=0)
    if model.positions:
        x = b.op("Add", [x, b.weight("positions", (model.seq, model.hidden))], "placed")
    x = b.op("Mul", [x, b.input("dropout", b.shape(x))], "kept")
    return Segment("embedding", b.finish(x), ())


def _head(split: Split) -> Segment:
    """Scores of the own part of the vocabulary, and their logarithms for the cross-entropy."""
    model, b, x = split.model, *_builder(split, "head", split.model.hidden)
    scores = b.project(x, ceil(model.vocab / split.tp), "logits", bias=False)
    return Segment("head", b.finish(b.op("LogSoftmax", [scores], "log_shares", axis=2)), ("x",))


BLOCK: tuple[Maker, ...] = (_norm, _projection, _attention, _out, _sum, _feed_forward)
"""What a block is made of, in no particular order where a piece comes twice."""
EDGES: Mapping[str, tuple[Maker, ...]] = {"embedding": (_embedding,), "head": (_norm, _head)}
"""What the first and the last stage have beside blocks."""


def block(split: Split) -> tuple[Segment, ...]:
    """The pieces of a block."""
    return tuple(make(split) for make in BLOCK)


def edge(split: Split, name: str) -> tuple[Segment, ...]:
    """The pieces of 'embedding' or 'head', each once."""
    from dataclasses import replace

    return tuple(replace(make(split), times=1) for make in EDGES[name])
