"""Sizes of a decoder of the zoo for parallel training and serving, and the numbers that follow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from accelsim.errors import Problem, UsageError, nearest
from accelsim.workload.sources.load import split_parameters
from accelsim.workload.zoo import ZOO
from accelsim.workload.zoo.build import Builder
from accelsim.workload.zoo.decoder import Decoder
from accelsim.workload.zoo.style import PLAIN, Layer, Style

TOKENS = 2048
"""Default tokens of a sequence of a large model in training: those of GPT-3 (Brown et al., 2020)."""
LARGE = 10**9
"""Parameters from which on a model is large."""


PLAIN_FIELDS = ("gated", "rope", "context", "tied", "epsilon", "dropout", "quantised")
"""Fields of a style in which plain decoders differ."""
EXPERT_INPUTS: Mapping[str, tuple[int, ...]] = {"ExpertMatMul": (1,), "Gather": (0,)}
"""Operator of a layer -> inputs that are weights of experts, of which a token meets some."""
FACTORS = ("MatMul", "ExpertMatMul")


class Counts(NamedTuple):
    """Learnt numbers: all, those that one token meets, and of these the weights of products (at least so many)."""

    learnt: int
    active: int
    products: int


@dataclass(frozen=True)
class Transformer:
    """Sizes of a decoder. ``gated``: SwiGLU and RMSNorm, otherwise GELU and LayerNorm; ``bias`` of its projections;
    ``tied``: the embedding is the output projection too; ``positions``: learnt ones (0: none);
    ``dropout``: after the embedding, the shares of attention and both parts of a block. ``style``: all that its family
    does differently; ``params``: all parameters of the model.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    seq: int
    gated: bool = False
    bias: bool = True
    tied: bool = True
    positions: int = 2048
    dropout: bool = False
    style: Style = PLAIN
    params: tuple[tuple[str, int], ...] = ()

    @property
    def head_dim(self) -> int:
        """Elements of a head."""
        return dict(self.params).get("head_dim") or self.hidden // self.heads

    @cached_property
    def kinds(self) -> tuple[Layer, ...]:
        """Kind of each layer."""
        return tuple(self.style.layer(index) for index in range(self.layers))

    def cached(self, layer: Layer, tokens: int, tp: int = 1) -> int:
        """Return the elements that a layer keeps of a sequence of so many tokens, on one of ``tp`` devices: of latent
        attention a row that all heads share; with a window no more tokens than it has."""
        latent = self.style.latent
        row = latent.keys + latent.turned if latent else 2 * max(1, self.kv_heads // tp) * self.head_dim
        return row * (min(tokens, layer.window) if layer.window else tokens)

    def decoder(self, b: Builder, batch: int, seq: int, past: int, tp: int) -> Decoder:
        """Return what writes one call on one of ``tp`` devices."""
        return Decoder(b, batch, {**dict(self.params), "seq": seq, "past": past}, self.style, tp)

    @property
    def plain(self) -> bool:
        """Return whether it is made like Llama 2 or GPT-3, as the closed forms below and trainings on clusters are."""
        known = replace(PLAIN, **{name: getattr(self.style, name) for name in PLAIN_FIELDS})
        return self.style == known and self.head_dim * self.heads == self.hidden

    @cached_property
    def counts(self) -> Counts:
        """Learnt numbers of all layers together."""
        if self.plain:
            learnt = self.layers * self.layer_parameters
            return Counts(learnt, learnt, learnt - self.layers * 13 * self.hidden)
        each = Counter(self.kinds).items()
        parts = [[times * count for count in self._counts(layer)] for layer, times in each]
        return Counts(*map(sum, zip(*parts, strict=True)))

    def _counts(self, layer: Layer) -> Counts:
        """Learnt numbers of a layer, from the graph of a call of one token."""
        b = Builder("layer")
        decoder = self.decoder(b, 1, 1, 0, 1)
        decoder.attention.constants()
        decoder.block(b.input("x", (1, 1, self.hidden)), "l", layer)
        graph, share = b.graph, Fraction(dict(self.params).get("top_k", 1), dict(self.params).get("experts", 1))
        experts = {node.inputs[at] for node in graph.nodes for at in (EXPERT_INPUTS.get(node.op, ()))}
        factors = {name for node in graph.nodes if node.op in FACTORS for name in node.inputs[1:2]}
        learnt = active = products = Fraction(0)
        for each in graph.constants():
            if each.shape and not each.fixed:
                used = each.elements * (share if each.name in experts else 1)
                learnt, active = learnt + each.elements, active + used
                products += used if each.name in factors else 0
        return Counts(int(learnt), int(active), int(products))

    @property
    def active_parameters(self) -> int:
        """Learnt numbers that one token meets: of the experts those chosen, of the embedding none unless it is the
        output projection too."""
        return self.counts.active + self.hidden + self.vocab * self.hidden

    @property
    def layer_parameters(self) -> int:
        """Learnt numbers of a block: projections, norms, biases (12 h^2 + 13 h for GPT)."""
        kv, h = self.kv_heads * self.head_dim, self.hidden
        matrices = h * (h + 2 * kv) + h * h + (3 if self.gated else 2) * h * self.ffn
        biases = (2 * h + 2 * kv + self.ffn + h) if self.bias else 0
        return matrices + biases + 2 * h * (1 if self.gated else 2)

    @property
    def embedding_parameters(self) -> int:
        """Learnt numbers of the embedding, with positions."""
        return (self.vocab + self.positions) * self.hidden

    @property
    def head_parameters(self) -> int:
        """Learnt numbers after the last block: a norm, and the output projection unless it is the embedding."""
        norm = self.hidden * (1 if self.gated else 2)
        return norm + (0 if self.tied else self.vocab * self.hidden)

    @property
    def parameters(self) -> int:
        """All learnt numbers."""
        return self.counts.learnt + self.embedding_parameters + self.head_parameters

    @property
    def sequence_flops(self) -> int:
        """Floating-point operations of a forward and a backward pass of one sequence, 2 for each multiply-accumulate:
        6 per token and weight of a product, and attention over all tokens (Narayanan et al., SC21, appendix; for GPT
        72 s l h^2 (1 + s/6h + V/12lh)). Nothing that is computed again."""
        kv, h, s = self.kv_heads * self.head_dim, self.hidden, self.seq
        matrices = h * (h + 2 * kv) + h * h + (3 if self.gated else 2) * h * self.ffn
        block = s * matrices + 2 * s * s * h
        return 6 * (self.layers * block + s * h * self.vocab)


def transformer_of(model: str, params: Mapping[str, int] | None = None) -> Transformer | None:
    """Return the decoder that a text such as 'gpt3?layers=96' names, None for another model.

    Without ``seq`` large ones have sequences of ``TOKENS``, small ones the default of the zoo. Raises UsageError, all
    problems at once, for parameters that it does not have, and a cache.
    """
    name, inline = split_parameters(model)
    if name not in ZOO or not ZOO[name].generates:
        return None
    entry, given = ZOO[name], {**inline, **(params or {})}
    problems = list(_problems(name, given))
    UsageError.raise_for(problems)
    sizes = entry.sizes(given)
    style = entry.style or PLAIN
    layers, hidden, heads, kv_heads, ffn, vocab, seq = (
        sizes[key] for key in ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "seq")
    )
    kinds = (style.gated, bool(sizes["bias"]), style.tied, style.context, style.dropout)
    made = Transformer(
        name, layers, hidden, heads, kv_heads, ffn, vocab, seq, *kinds, style=style, params=tuple(sizes.items())
    )  # fmt: skip
    return made if "seq" in given or made.parameters < LARGE else replace(made, seq=TOKENS)


def trained_of(model: str, params: Mapping[str, int] | None = None) -> Transformer | None:
    """Return what ``transformer_of`` does, for a training on a cluster. Raises UsageError for decoders that no training
    knows."""
    found = transformer_of(model, params)
    if found is not None and not found.plain:
        what = "a training step on a cluster, or of a model made like this"
        raise UsageError(what, found.name, "a decoder made like Llama 2, Llama 3 or GPT-3, such as llama3-8b")
    return found


def _problems(name: str, given: Mapping[str, int]) -> Iterator[Problem]:
    known, sizes = ZOO[name].params, ZOO[name].sizes(given)
    for key in given:
        if key not in known:
            yield Problem(f"no parameter {key!r}", name, ", ".join(known), nearest(key, known))
    for key, value in given.items():
        if key in known and value < ZOO[name].least.get(key, 1):
            yield Problem(f"{key}={value}", name, "at least 1")
    if given.get("past", 0):
        yield Problem(f"past={given['past']}", name, "no earlier tokens: training has no cache")
    for whole, part in (("hidden", "heads"), ("heads", "kv_heads")):
        if sizes[part] and sizes[whole] % sizes[part] and not (part == "heads" and "head_dim" in sizes):
            what = f"{whole}={sizes[whole]}, {part}={sizes[part]}"
            yield Problem(what, name, f"{part} that divide {whole}")
