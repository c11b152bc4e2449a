"""What one device of a tensor-parallel group computes of a call of a decoder, between two collectives.

Megatron's splits (Shoeybi et al., arXiv 1909.08053), as runtimes for inference have them: queries, keys and values by
one product, both halves of a gated feed-forward part by one, the sum with what goes past a block after its collective.
Keys and values are kept by head, each device those of its heads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil, sqrt

from accelsim.cluster.step.transformer import Transformer
from accelsim.workload.graph import Graph, Tensor
from accelsim.workload.masks import CausalMask
from accelsim.workload.zoo.build import Builder
from accelsim.workload.zoo.decoder import Rotation

ATTENTION, FEED_FORWARD, EMBEDDING, HEAD = "attention", "feed-forward", "embedding", "head"
EPSILON = 1e-5


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


def _entry(call: Call, b: Builder) -> str:
    """The sum of the collective before with what went past it."""
    shape = (call.batch, call.seq, call.model.hidden)
    return b.op("Add", [b.input("sum", shape), b.input("past_by", shape)], "entry")


def _norm(call: Call, b: Builder, x: str) -> str:
    return b.rms_norm(x, "norm", EPSILON) if call.model.gated else b.layer_norm(x, "norm")


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
    b, model, d = Builder(ATTENTION), call.model, call.model.head_dim
    x = _norm(call, b, _entry(call, b))
    turned = (call.heads + call.kv_heads) * d
    y = b.project(x, turned + call.kv_heads * d, "qkv", bias=model.bias)
    qk, v = b.ops("Split", [y], ["qk", "v"], "split", axis=2, split=[turned, call.kv_heads * d])
    qk = _turned(call, b, b.reshaped(qk, (call.batch, call.seq, call.heads + call.kv_heads, d), "qk.heads"))
    q, k = b.ops("Split", [qk], ["q", "k"], "split.qk", axis=2, split=[call.heads, call.kv_heads])
    v = b.reshaped(v, (call.batch, call.seq, call.kv_heads, d), "v.heads")
    mixed, caches = _attended(call, b, q, k, v)
    y = b.project(mixed, model.hidden, "out", bias=False)
    return Piece(ATTENTION, _resident(b.finish(y, *caches)), "all_reduce", call.rows * model.hidden)


def _turned(call: Call, b: Builder, x: str) -> str:
    """Rotary positions of queries and keys [batch, seq, heads, depth] at once."""
    if not call.model.gated:
        return x
    depth = call.model.head_dim
    for name, sine in (("cos", False), ("sin", True)):
        made = Rotation(call.seq, call.past, depth, 10000.0, sine)
        b.graph.tensors[name] = Tensor(name, (call.seq, 1, depth), source=made, fixed=True)
    halves = b.ops("Split", [x], ["first", "second"], "halves", axis=3, split=[depth // 2] * 2)
    across = b.op("Mul", [b.op("Concat", halves[::-1], "swapped", axis=3), "sin"], "across")
    return b.op("Add", [b.op("Mul", [x, "cos"], "along"), across], "turned")


def _attended(call: Call, b: Builder, q: str, k: str, v: str) -> tuple[str, list[str]]:
    """Scaled dot-product attention over all tokens so far, as the decoders of the zoo have it; and the new caches."""
    batch, seq, kv, d = call.batch, call.seq, call.kv_heads, call.model.head_dim
    group, total = call.heads // kv, call.past + seq
    rows = [b.op("Transpose", [each], f"{each}.rows", perm=[0, 2, 1, 3]) for each in (k, v)]
    if call.past:
        past = (batch, kv, call.past, d)
        rows = [
            b.appended(name, past, each, axis=2) for name, each in zip(("keys", "values"), rows, strict=True)
        ]
    q = b.reshaped(q, (batch, seq, kv, group, d), "q.groups")
    if seq > 1:
        q = b.op("Transpose", [q], "q.rows", perm=[0, 2, 3, 1, 4])
    q = b.reshaped(q, (batch, kv, group * seq, d), "q.grouped")
    turned = b.op("Transpose", [rows[0]], "kT", perm=[0, 1, 3, 2])
    scores = b.op("Mul", [b.matmul(q, turned, "scores"), b.constant("scale", 1.0 / sqrt(d))], "scaled")
    if seq > 1:
        mask = CausalMask(seq, call.past)
        b.graph.tensors["mask"] = Tensor("mask", mask.shape, source=mask, fixed=True)
        scores = b.reshaped(scores, (batch, kv, group, seq, total), "by_token")
        scores = b.op("Add", [scores, "mask"], "masked")
    shares = b.op("Softmax", [scores], "softmax", axis=len(b.shape(scores)) - 1)
    shares = b.reshaped(shares, (batch, kv, group * seq, total), "by_group")
    mixed = b.matmul(shares, rows[1], "mixed")
    if seq > 1:
        mixed = b.reshaped(mixed, (batch, kv, group, seq, d), "mixed.heads")
        mixed = b.op("Transpose", [mixed], "joined", perm=[0, 3, 1, 2, 4])
    return b.reshaped(mixed, (batch, seq, call.heads * d), "attended"), rows


def feed_forward(call: Call) -> Piece:
    """Build the graph from the norm to the product that leads back, for the own part of the inner width."""
    b, model = Builder(FEED_FORWARD), call.model
    x, ffn = _norm(call, b, _entry(call, b)), ceil(model.ffn / call.tp)
    if model.gated:
        both = b.project(x, 2 * ffn, "gate_up", bias=model.bias)
        gate, up = b.ops("Split", [both], ["gate", "up"], "split", axis=2, split=[ffn, ffn])
        inner = b.op("Mul", [b.op("Silu", [gate], "silu"), up], "gated")
    else:
        inner = b.op("Gelu", [b.project(x, ffn, "up", bias=model.bias)], "gelu", approximate="tanh")
    y = b.project(inner, model.hidden, "down", bias=False)
    return Piece(FEED_FORWARD, _resident(b.finish(y)), "all_reduce", call.rows * model.hidden)


def head(call: Call) -> Piece:
    """Logits of the last token by the own part of the vocabulary, gathered on all devices."""
    b, model = Builder(HEAD), call.model
    x = _entry(call, b)
    if call.seq > 1:
        x = b.op("Slice", [x], "last", starts=[call.seq - 1], ends=[call.seq], axes=[1], steps=[1])
    y = b.project(_norm(call, b, x), ceil(model.vocab / call.tp), "logits", bias=False)
    return Piece(
        HEAD, _resident(b.finish(y)), "all_gather", call.batch * ceil(model.vocab / call.tp) * call.tp
    )


def pieces(call: Call, layers: int, first: bool, last: bool) -> Iterator[tuple[Piece, int]]:
    """(piece, how often) of a stage of so many layers; ``first`` and ``last`` stages have the ends of the model."""
    if first:
        yield embedding(call), 1
    if layers:
        yield attention(call), layers
        yield feed_forward(call), layers
    if last:
        yield head(call), 1
