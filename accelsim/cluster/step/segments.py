"""Pieces of a decoder that one device of a tensor-parallel group computes between two collectives.

Megatron's splits (Shoeybi et al., arXiv 1909.08053): projections into heads and the first of the feed-forward part by
columns, those back by rows, the embedding and the output projection by the vocabulary. With sequence parallelism
(Korthikanti et al., arXiv 2205.05198) what lies between the products works at a part of the tokens. Attention is one
kernel that computes its scores again in the backward pass (FlashAttention: Dao et al., NeurIPS 2022); it reads queries,
keys and values where the projection left them. Plain attention writes scores to memory, as frameworks did before; their
scale and their mask are part of the kernel of the softmax. Dropout, in models that have it, multiplies by a mask that
is read; in FlashAttention the mask is drawn again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import ceil

from accelsim.cluster.step.passes import local
from accelsim.cluster.step.transformer import Transformer
from accelsim.workload.graph import Graph, Tensor
from accelsim.workload.masks import CausalMask
from accelsim.workload.zoo.build import Builder


@dataclass(frozen=True)
class Segment:
    """A graph of one result between collectives. ``activations``: the inputs whose gradients go on.

    ``wide``: what it makes is of FP32, and only what ``SHORT`` says of the format of products.
    ``back``: its backward pass, where no rules of differentiation make it. ``core``: attention whose scores are kept,
    which selective recomputation computes again. ``residual``: its input goes past it as
    well, so that its gradient is a sum. ``times``: so often in a block.
    """

    name: str
    graph: Graph = field(compare=False)
    activations: tuple[str, ...]
    core: bool = False
    residual: bool = False
    times: int = 1
    back: Graph | None = field(default=None, compare=False)
    wide: bool = False


@dataclass(frozen=True)
class Split:
    """A decoder as one device sees it: ``batch`` sequences of a microbatch, ``tp`` devices that share each layer.
    ``sp``: they also share the work between products; ``flash``: attention is one kernel; ``part``: products work on
    that part of the tokens, where they overlap with their collectives in chunks."""

    model: Transformer
    batch: int
    tp: int = 1
    sp: bool = False
    flash: bool = False
    part: int = 1

    @property
    def heads(self) -> int:
        """Heads of queries of one device."""
        return self.model.heads // self.tp

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values of one device."""
        return max(self.tp, self.model.kv_heads) // self.tp

    @property
    def rows(self) -> int:
        """Tokens of a sequence that operators between products work on."""
        return ceil(self.model.seq / self.tp) if self.sp else self.model.seq


SHORT = "bf16"
"""Format in a graph that is ``wide`` which stands for that of products."""
Maker = Callable[[Split], Segment]


def _builder(split: Split, name: str, width: int, full: bool = True) -> tuple[Builder, str]:
    b = Builder(name)
    return b, b.input("x", (split.batch, split.model.seq if full else split.rows, width))


def _norm(split: Split) -> Segment:
    b, x = _builder(split, "norm", split.model.hidden, full=False)
    y = b.rms_norm(x, "norm_y", 1e-5) if split.model.gated else b.layer_norm(x, "norm_y")
    return Segment("norm", b.finish(y), ("x",), residual=True, times=2)


def _projection(split: Split) -> Segment:
    model, b, x = split.model, *_builder(split, "qkv", split.model.hidden)
    features = (split.heads + 2 * split.kv_heads) * model.head_dim
    return Segment("qkv", b.finish(b.project(x, features, "qkv_y", bias=model.bias)), ("x",))


def _attention(split: Split) -> Segment:
    """From the projections to what the heads have gathered, transpositions and all."""
    if split.flash:
        return Segment(FLASH, _flash(split), ("q", "k", "v"), back=_flash_back(split))
    model, heads, kv = split.model, split.heads, split.kv_heads
    b, x = _builder(split, "attention", (heads + 2 * kv) * model.head_dim)
    return Segment("attention", b.finish(_attended(b, split, x, heads, kv)), ("x",), core=True)


FLASH = "flash"
"""Beginning of the names of graphs of attention in one kernel, which every framework calls as one."""


def _flash(split: Split) -> Graph:
    """The forward pass, which the compiler joins into one kernel; heads of queries by the keys that they share."""
    b, s, d, kv = Builder(f"{FLASH}-forward"), split.model.seq, split.model.head_dim, split.kv_heads
    rows, batch = split.heads // kv * s, split.batch
    shapes = {"q": (batch, kv, rows, d), "k": (batch, kv, d, s), "v": (batch, kv, s, d)}
    q, k, v = (b.input(name, shape) for name, shape in shapes.items())
    mask = CausalMask(s, 0)
    b.graph.tensors["mask"] = Tensor("mask", mask.shape, source=mask, fixed=True)
    scores = b.reshaped(b.matmul(q, k, "scores"), (batch, kv, split.heads // kv, s, s), "by_token")
    shares = b.op("Softmax", [b.op("Add", [scores, "mask"], "masked")], "shares", axis=4)
    return local(b.finish(b.matmul(b.reshaped(shares, (batch, kv, rows, s), "by_group"), v, "attended")))


def _flash_back(split: Split) -> Graph:
    """The backward pass."""
    b, s, d = Builder(f"{FLASH}-backward"), split.model.seq, split.model.head_dim
    queries, keys = (split.batch, split.heads, s, d), (split.batch, split.kv_heads, s, d)
    shapes = {"q": queries, "k": keys, "v": keys, "attended": queries, "grad": queries}
    names = [b.input(name, shape) for name, shape in shapes.items()]
    made = b.ops("AttentionGrad", names, ["dq", "dk", "dv"], "back", causal=1, scale=d**-0.5)
    return local(b.finish(*made))


def _dropped(b: Builder, split: Split, x: str, name: str) -> str:
    return b.op("Mul", [x, b.input("dropout", b.shape(x))], name) if split.model.dropout else x


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
    mixed = b.matmul(_dropped(b, split, shares, "kept"), v, "mixed")
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
    x = _dropped(b, split, x, "kept")
    past = b.input("past", b.shape(x))
    return Segment("sum", b.finish(b.op("Add", [x, past], "sum_y")), ("x",), times=2)


def products(split: Split) -> Mapping[str, Segment]:
    """Return the four products of a block that a collective of the tensor-parallel group precedes or follows, each
    alone: 'qkv', 'out', 'up' (gated: both factors at once) and 'down'."""
    model, ffn = split.model, ceil(split.model.ffn / split.tp)
    sizes = {
        "qkv": (model.hidden, (split.heads + 2 * split.kv_heads) * model.head_dim),
        "out": (model.hidden // split.tp, model.hidden),
        "up": (model.hidden, (2 if model.gated else 1) * ffn),
        "down": (ffn, model.hidden),
    }
    rows, found = ceil(split.batch * split.model.seq / split.part), {}
    for name, (width, features) in sizes.items():
        b = Builder(f"{name}-product")
        graph = b.finish(b.project(b.input("x", (1, rows, width)), features, "y", bias=False))
        found[name] = Segment(f"{name}-product", graph, ("x",))
    return found


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
    return Segment("embedding", b.finish(_dropped(b, split, x, "kept")), ())


def _head(split: Split) -> Segment:
    model, b, x = split.model, *_builder(split, "head", split.model.hidden)
    return Segment("head", b.finish(b.project(x, ceil(model.vocab / split.tp), "logits", bias=False)), ("x",))


def _loss(split: Split) -> Segment:
    """Logarithms of the shares for the cross-entropy, in FP32 whatever products compute in."""
    b = Builder("loss")
    x = b.input("x", (split.batch, split.model.seq, ceil(split.model.vocab / split.tp)), SHORT)
    wide = b.op("Cast", [x], "logits", to="fp32")
    return Segment("loss", b.finish(b.op("LogSoftmax", [wide], "log_shares", axis=2)), ("x",), wide=True)


BLOCK: tuple[Maker, ...] = (_norm, _projection, _attention, _out, _sum, _feed_forward)
"""Makers of the pieces of a block; the order of pieces that come twice does not matter."""
EDGES: Mapping[str, tuple[Maker, ...]] = {"embedding": (_embedding,), "head": (_norm, _head, _loss)}
"""Makers of the pieces that the first and the last stage have beside blocks."""


def block(split: Split) -> tuple[Segment, ...]:
    """Return the pieces of a block."""
    return tuple(make(split) for make in BLOCK)


def edge(split: Split, name: str) -> tuple[Segment, ...]:
    """Return the pieces of the 'embedding' or the 'head', each once."""
    return tuple(replace(make(split), times=1) for make in EDGES[name])
