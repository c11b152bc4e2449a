"""Decoders of language models: token numbers in, logits of the last token out, keys and values kept on the chip.

One graph is one call: ``seq`` new tokens after ``past`` earlier ones. ``past`` = 0 is the prefill of a prompt, ``seq``
= 1 after a cache is a step of decoding.
"""

from __future__ import annotations

from math import sqrt

from accelsim.errors import ModelError, Problem
from accelsim.workload.graph import Graph
from accelsim.workload.zoo.attention import Attention
from accelsim.workload.zoo.build import Builder
from accelsim.workload.zoo.entry import Params
from accelsim.workload.zoo.feed import Feed
from accelsim.workload.zoo.latent import LatentAttention
from accelsim.workload.zoo.sizes import Sizes
from accelsim.workload.zoo.style import Layer, Style


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
    depth = params.get("head_dim") or hidden // heads
    if "head_dim" not in params and hidden % heads:
        found.append(Problem(f"hidden={hidden}, heads={heads}", expected="heads that divide hidden"))
    elif style.gated and depth % 2:
        what = f"hidden={hidden}, heads={heads}: {depth} elements per head"
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
        self.b, self.params, self.style = b, params, style
        self.sizes = Sizes.of(batch, params, style, share)
        self.attention = (LatentAttention if style.latent else Attention)(b, self.sizes, style)
        self.feed = Feed(b, self.sizes, style)

    def build(self) -> Graph:
        """Write all layers and the logits; return the graph."""
        b, caches, seq = self.b, list[str](), self.sizes.seq
        x = self._embedded()
        self.attention.constants()
        for layer in range(self.params["layers"]):
            x, new = self.block(x, f"l{layer}", self.style.layer(layer))
            caches += new
        if self.params.get("train"):
            scores, vocab = self.logits(self.norm(x, "norm")), self.params["vocab"]
            return b.finish(b.reshaped(scores, (self.sizes.batch * seq, vocab), "scores"))
        if seq > 1:
            x = b.op("Slice", [x], "last", starts=[seq - 1], ends=[seq], axes=[1], steps=[1])
        b.graph.kept += [] if self.sizes.past else caches
        return b.finish(self.logits(self.norm(x, "norm")), *caches)

    def block(self, x: str, name: str, layer: Layer) -> tuple[str, list[str]]:
        """Write one layer on x [batch, seq, hidden]; return its results and its caches."""
        attended, caches = self.attention.whole(self.norm(x, f"{name}.norm1"), name, layer.window)
        return self.after(attended, x, name, layer), caches

    def after(self, attended: str, x: str, name: str, layer: Layer) -> str:
        """Write what follows the attention of a block on x: the sum, the feed-forward part, the sum with that."""
        x = self.b.op("Add", [self.posted(attended, f"{name}.post1"), x], f"{name}.sum1")
        fed = self.fed(self.norm(x, f"{name}.norm2"), name, layer)
        return self.b.op("Add", [self.posted(fed, f"{name}.post2"), x], f"{name}.sum2")

    def _embedded(self) -> str:
        b, hidden = self.b, self.params["hidden"]
        tokens = b.input("tokens", (self.sizes.batch, self.sizes.seq), "int64")
        x = b.op("Gather", [b.weight("embedding.weight", (self.params["vocab"], hidden)), tokens], "embedding", axis=0)
        if self.style.scaled:
            x = b.op("Mul", [x, b.constant("embedding.scale", sqrt(hidden))], "embedding.scaled")
        if self.style.gated:
            return x
        table = b.weight("positions.weight", (self.style.context, hidden))
        here = b.numbers("here", self.sizes.past, self.sizes.past + self.sizes.seq)
        place = b.op("Gather", [table, here], "positions", axis=0)
        return b.op("Add", [x, place], "embedded")

    def norm(self, x: str, name: str) -> str:
        """Normalise rows: RMSNorm in gated decoders, else LayerNorm."""
        return self.b.rms_norm(x, name, self.style.epsilon) if self.style.gated else self.b.layer_norm(x, name)

    def posted(self, x: str, name: str) -> str:
        """Normalise the result of a part of a block, in models that do."""
        return self.norm(x, name) if self.style.post_norms else x

    def fed(self, x: str, name: str, layer: Layer) -> str:
        """Write the feed-forward part: a dense one or its experts."""
        sparse = layer.sparse and self.sizes.experts > 1
        return self.feed.mixture(x, name) if sparse else self.feed.dense(x, name)

    def logits(self, x: str, vocab: int = 0) -> str:
        """Write the scores of all tokens of the vocabulary, or of a part of it with weights of its own."""
        b, cap = self.b, self.style.logit_cap
        name = "capless" if cap else "logits"
        if vocab or not self.style.tied:
            y = b.project(x, vocab or self.params["vocab"], name, bias=False)
        else:
            turned = b.op("Transpose", ["embedding.weight"], "embedding.turned", perm=[1, 0])
            y = b.matmul(x, turned, name)
        if not cap:
            return y
        return b.capped(b.op("Mul", [y, b.constant("logits.scale", 1 / cap)], "logits.scaled"), cap, "logits")
