"""Decoders of language models: token numbers in, logits of the last token out, keys and values kept on the chip.

One graph is one call: ``seq`` new tokens after ``past`` earlier ones. ``past`` = 0 is the prefill of a prompt, ``seq``
= 1 after a cache is a step of decoding.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np

from accelsim.errors import ModelError, Problem
from accelsim.types import Array
from accelsim.workload.graph import Graph, Tensor
from accelsim.workload.masks import CausalMask
from accelsim.workload.zoo.build import Builder
from accelsim.workload.zoo.entry import Params


@dataclass(frozen=True)
class Style:
    """Differences between families of decoders.

    ``gated``: SwiGLU (Shazeer, arXiv 2002.05202), RMSNorm (Zhang and Sennrich, arXiv 1910.07467) and rotary positions
    (Su et al., arXiv 2104.09864) of base ``theta``; otherwise GELU, LayerNorm and learnt positions, ``context`` of
    them. ``tied``: the embedding is the output projection too. ``epsilon`` of the normalisation. ``dropout``: it was
    trained with it (inference has none).
    """

    gated: bool = True
    theta: float = 10000.0
    context: int = 0
    tied: bool = False
    epsilon: float = 1e-5
    dropout: bool = False


@dataclass(frozen=True)
class Rotation:
    """Cosines or signed sines of rotary positions ``past`` to ``past + seq``: float32 [seq, 1, depth].

    Element i turns with element i + depth / 2 by position / theta^(2 i / depth); the sines of the first half are
    negative, so that x rotates to x cos + swapped(x) sin, ``swapped`` the two halves changed.
    """

    seq: int
    past: int
    depth: int
    theta: float
    sine: bool

    def __call__(self) -> Array:
        """The values."""
        half = self.depth // 2
        rates = self.theta ** (-np.arange(half, dtype=np.float64) / half)
        angles = np.arange(self.past, self.past + self.seq)[:, np.newaxis] * rates
        halves = [-np.sin(angles), np.sin(angles)] if self.sine else [np.cos(angles)] * 2
        return np.concatenate(halves, 1, dtype=np.float64)[:, np.newaxis].astype(np.float32)


def decoder(batch: int, params: Params, style: Style, name: str) -> Graph:
    """One call of a decoder on token numbers [batch, seq]: logits [batch, 1, vocab] of the last token, and the keys and
    values of each layer [batch, kv_heads, past + seq, depth], which stay in the memory of the chip. With ``train`` = 1,
    what a training needs: the logits of all tokens [batch * seq, vocab], and no keys and values are kept.

    Raises ModelError, all problems at once, for sizes that do not fit each other.
    """
    ModelError.raise_for(_problems(params, style))
    return Decoder(Builder(name), batch, params, style).build()


def _problems(params: Params, style: Style) -> list[Problem]:
    hidden, heads, kv_heads = params["hidden"], params["heads"], params["kv_heads"]
    found = []
    if hidden % heads:
        found.append(Problem(f"hidden={hidden}, heads={heads}", expected="heads that divide hidden"))
    elif style.gated and hidden // heads % 2:
        what = f"hidden={hidden}, heads={heads}: {hidden // heads} elements per head"
        found.append(Problem(what, expected="an even number, whose halves are turned"))
    if params.get("train", 0) > 1:
        found.append(Problem(f"train={params['train']}", expected="1 or 0: all tokens to train on, or a call"))
    elif params.get("train") and params["past"]:
        found.append(Problem(f"train=1, past={params['past']}", expected="past=0: a training keeps no tokens"))
    if params["bias"] > 1:
        found.append(Problem(f"bias={params['bias']}", expected="1 or 0: biases or none"))
    if heads % kv_heads:
        found.append(Problem(f"heads={heads}, kv_heads={kv_heads}", expected="kv_heads that divide heads"))
    if params.get("top_k", 1) > params.get("experts", 1):
        what = f"top_k={params['top_k']}, experts={params['experts']}"
        found.append(Problem(what, expected="not more experts per token than there are"))
    if not style.gated and params["past"] + params["seq"] > style.context:
        what = f"past={params['past']}, seq={params['seq']}"
        found.append(Problem(what, expected=f"at most {style.context:,} tokens, which have a learnt position"))
    return found


class Decoder:
    """One graph while it is written. ``share``: devices that split heads and inner width (Megatron-LM: Shoeybi
    et al., arXiv 1909.08053); what is written is the part of one, before results are added up."""

    def __init__(self, b: Builder, batch: int, params: Params, style: Style, share: int = 1) -> None:
        self.b, self.batch, self.params, self.style = b, batch, params, style
        self.seq, self.past, self.bias = params["seq"], params["past"], bool(params["bias"])
        self.heads, self.kv_heads = params["heads"] // share, max(1, params["kv_heads"] // share)
        self.depth, self.ffn = params["hidden"] // params["heads"], ceil(params["ffn"] / share)
        self.together = self.heads // self.kv_heads
        """Heads of queries that share one of keys and values (grouped queries, Ainslie et al., arXiv 2305.13245)."""

    def build(self) -> Graph:
        """Write all layers and the logits; return the graph."""
        b, caches = self.b, []
        x = self._embedded()
        self.shared_constants()
        for layer in range(self.params["layers"]):
            x, *new = self.block(x, f"l{layer}")
            caches += new
        if self.params.get("train"):
            scores, vocab = self._logits(self.norm(x, "norm")), self.params["vocab"]
            return b.finish(b.reshaped(scores, (self.batch * self.seq, vocab), "scores"))
        if self.seq > 1:
            x = b.op("Slice", [x], "last", starts=[self.seq - 1], ends=[self.seq], axes=[1], steps=[1])
        b.graph.kept += [] if self.past else caches
        return b.finish(self._logits(self.norm(x, "norm")), *caches)

    def block(self, x: str, name: str) -> tuple[str, str, str]:
        """One layer on x [batch, seq, hidden]; its results, keys and values."""
        attended, k, v = self.attention(self.norm(x, f"{name}.norm1"), name)
        x = self.b.op("Add", [attended, x], f"{name}.sum1")
        x = self.b.op("Add", [self.fed(self.norm(x, f"{name}.norm2"), name), x], f"{name}.sum2")
        return x, k, v

    def _embedded(self) -> str:
        b, hidden = self.b, self.params["hidden"]
        tokens = b.input("tokens", (self.batch, self.seq), "int64")
        x = b.op("Gather", [b.weight("embedding.weight", (self.params["vocab"], hidden)), tokens], "embedding", axis=0)
        if self.style.gated:
            return x
        table = b.weight("positions.weight", (self.style.context, hidden))
        here = b.numbers("here", self.past, self.past + self.seq)
        place = b.op("Gather", [table, here], "positions", axis=0)
        return b.op("Add", [x, place], "embedded")

    def shared_constants(self) -> None:
        """Rotations and the mask, the same for all layers."""
        tensors = self.b.graph.tensors
        if self.style.gated:
            for name, sine in (("cos", False), ("sin", True)):
                made = Rotation(self.seq, self.past, self.depth, self.style.theta, sine)
                tensors[name] = Tensor(name, (self.seq, 1, self.depth), source=made, fixed=True)
        if self.seq > 1:
            mask = CausalMask(self.seq, self.past)
            tensors["mask"] = Tensor("mask", mask.shape, source=mask, fixed=True)

    def norm(self, x: str, name: str) -> str:
        """Normalise rows: RMSNorm in gated decoders, else LayerNorm."""
        return self.b.rms_norm(x, name, self.style.epsilon) if self.style.gated else self.b.layer_norm(x, name)

    def _project(self, x: str, features: int, name: str) -> str:
        return self.b.project(x, features, name, bias=self.bias)

    def attention(self, x: str, name: str) -> tuple[str, str, str]:
        """Scaled dot-product attention (Vaswani et al. 2017, eq. 1) over all tokens so far; and the new caches."""
        b, total = self.b, self.past + self.seq
        q, k, v = self._projected(x, name)
        if self.past:
            past = (self.batch, self.kv_heads, self.past, self.depth)
            k, v = b.appended(f"{name}.k", past, k, axis=2), b.appended(f"{name}.v", past, v, axis=2)
        turned = b.op("Transpose", [k], f"{name}.kT", perm=[0, 1, 3, 2])
        scores = b.matmul(self._grouped(q), turned, f"{name}.scores")
        scores = b.op("Mul", [scores, b.constant(f"{name}.scale", 1.0 / sqrt(self.depth))], f"{name}.scaled")
        grouped = (self.batch, self.kv_heads, self.together, self.seq)
        if self.seq > 1:
            scores = b.reshaped(scores, (*grouped, total), f"{name}.by_token")
            scores = b.op("Add", [scores, "mask"], f"{name}.masked")
        shares = b.op("Softmax", [scores], f"{name}.softmax", axis=len(b.shape(scores)) - 1)
        shares = b.reshaped(shares, (*grouped[:2], self.together * self.seq, total), f"{name}.by_group")
        mixed = b.matmul(shares, v, f"{name}.mixed")
        if self.seq > 1:
            mixed = b.reshaped(mixed, (*grouped, self.depth), f"{name}.heads")
            mixed = b.op("Transpose", [mixed], f"{name}.joined", perm=[0, 3, 1, 2, 4])
        joined = b.reshaped(mixed, (self.batch, self.seq, self.heads * self.depth), f"{name}.attended")
        return self._project(joined, self.params["hidden"], f"{name}.out"), k, v

    def projections(self, x: str, attended: str, name: str) -> tuple[str, str, str, str]:
        """Write attention without its scores: the projection of what is ``attended``, then queries, keys, values."""
        return self._project(attended, self.params["hidden"], f"{name}.out"), *self._projected(x, name)

    def _projected(self, x: str, name: str) -> tuple[str, str, str]:
        """Queries [batch, seq, heads, depth], keys and values [batch, kv_heads, seq, depth]."""
        q = self._turned(self._split(x, self.heads, f"{name}.q"))
        k = self._rows(self._turned(self._split(x, self.kv_heads, f"{name}.k")))
        return q, k, self._rows(self._split(x, self.kv_heads, f"{name}.v"))

    def _split(self, x: str, heads: int, name: str) -> str:
        """A projection as [batch, seq, heads, depth]."""
        y = self._project(x, heads * self.depth, name)
        return self.b.reshaped(y, (self.batch, self.seq, heads, self.depth), f"{name}.split")

    def _turned(self, x: str) -> str:
        """Rotary positions of x [batch, seq, heads, depth]."""
        if not self.style.gated:
            return x
        b, half, stem = self.b, self.depth // 2, x.removesuffix(".split")
        halves = b.ops("Split", [x], [f"{stem}.first", f"{stem}.second"], f"{stem}.halves", axis=3, split=[half] * 2)
        swapped = b.op("Concat", halves[::-1], f"{stem}.swapped", axis=3)
        across = b.op("Mul", [swapped, "sin"], f"{stem}.sin")
        return b.op("Add", [b.op("Mul", [x, "cos"], f"{stem}.cos"), across], f"{stem}.turned")

    def _rows(self, x: str) -> str:
        """[batch, seq, heads, depth] -> [batch, heads, seq, depth]; one token's rows lie that way already."""
        batch, seq, heads, depth = self.b.shape(x)
        if seq == 1:
            return self.b.reshaped(x, (batch, heads, seq, depth), f"{x}.rows")
        return self.b.op("Transpose", [x], f"{x}.rows", perm=[0, 2, 1, 3])

    def _grouped(self, q: str) -> str:
        """Queries [batch, seq, heads, depth] by the keys that they share: [batch, kv_heads, together * seq, depth]."""
        b, shape = self.b, (self.batch, self.kv_heads, self.together * self.seq, self.depth)
        if self.seq > 1:
            q = b.reshaped(q, (self.batch, self.seq, self.kv_heads, self.together, self.depth), f"{q}.groups")
            q = b.op("Transpose", [q], f"{q}.rows", perm=[0, 2, 3, 1, 4])
        return b.reshaped(q, shape, f"{q}.grouped")

    def fed(self, x: str, name: str) -> str:
        """The feed-forward part: SwiGLU, its experts, or a plain one with GELU."""
        b, hidden, ffn = self.b, self.params["hidden"], self.ffn
        if self.params.get("experts", 1) > 1:
            return self._mixture(x, name)
        if not self.style.gated:
            inner = b.op("Gelu", [self._project(x, ffn, f"{name}.ff1")], f"{name}.gelu", approximate="none")
            return self._project(inner, hidden, f"{name}.ff2")
        gate = b.op("Silu", [self._project(x, ffn, f"{name}.gate")], f"{name}.silu")
        inner = b.op("Mul", [self._project(x, ffn, f"{name}.up"), gate], f"{name}.gated")
        return self._project(inner, hidden, f"{name}.down")

    def _mixture(self, x: str, name: str) -> str:
        """SwiGLU by the ``top_k`` experts that a router chooses for each token (Shazeer et al., arXiv 1701.06538)."""
        b, k, hidden = self.b, self.params["top_k"], self.params["hidden"]
        tokens = self.batch * self.seq
        rows = b.reshaped(x, (tokens, hidden), f"{name}.tokens")
        scores = b.project(rows, self.params["experts"], f"{name}.router", bias=False)
        gates, chosen = b.ops("TopKGating", [scores], [f"{name}.gates", f"{name}.experts"], f"{name}.gating", k=k)
        gate = b.op("Silu", [self._by_expert(rows, chosen, f"{name}.gate", self.params["ffn"])], f"{name}.silu")
        up = self._by_expert(rows, chosen, f"{name}.up", self.params["ffn"])
        y = self._by_expert(b.op("Mul", [up, gate], f"{name}.gated"), chosen, f"{name}.down", hidden)
        if b.shape(y)[0] > tokens * k:
            y = b.op("Slice", [y], f"{name}.chosen", starts=[0], ends=[tokens * k], axes=[0], steps=[1])
        y = b.reshaped(y, (tokens, k, hidden), f"{name}.by_choice")
        weighed = b.op("Mul", [y, b.reshaped(gates, (tokens, k, 1), f"{name}.shares")], f"{name}.weighed")
        total = b.op("ReduceSum", [weighed], f"{name}.mixture", axes=[1], keepdims=0)
        return b.reshaped(total, b.shape(x), f"{name}.fed")

    def _by_expert(self, x: str, chosen: str, name: str, features: int) -> str:
        weight = self.b.weight(f"{name}.weight", (self.params["experts"], self.b.shape(x)[1], features))
        return self.b.op("ExpertMatMul", [x, weight, chosen], name, a_zero_point=0, b_zero_point=0)

    def _logits(self, x: str) -> str:
        b = self.b
        if not self.style.tied:
            return b.project(x, self.params["vocab"], "logits", bias=False)
        turned = b.op("Transpose", ["embedding.weight"], "embedding.turned", perm=[1, 0])
        return b.matmul(x, turned, "logits")
