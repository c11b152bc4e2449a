"""Language models by name: shapes of published decoders, and small ones of the same make for chips that fit a page."""

from __future__ import annotations

from functools import partial

from accelsim.workload.graph import Graph
from accelsim.workload.zoo.decoder import decoder
from accelsim.workload.zoo.entry import Entry, Params, register
from accelsim.workload.zoo.style import PLAIN, Experts, Rope, Style

LLAMA_2 = PLAIN
LLAMA_3 = Style(rope=Rope(500000.0))
GPT_2 = Style(gated=False, tied=True, context=1024, dropout=True)
GPT = Style(gated=False, tied=True, context=2048)
MIXTRAL = Style(rope=Rope(1e6), experts=Experts())
LEAST = {"past": 0, "bias": 0, "train": 0}
"""Parameters that may be 0: no earlier tokens, no biases, no training."""


def _register(name: str, description: str, style: Style, **sizes: int) -> None:
    """Register a decoder: ``seq`` tokens after ``past`` earlier ones, or all to ``train`` on. Where all heads have keys
    of their own (no grouped queries), a model with other ``heads`` has so too."""
    register(entry_of(name, description, style, sizes))


def entry_of(name: str, description: str, style: Style, sizes: Params) -> Entry:
    """Return a decoder of these sizes as a model."""
    params = {**sizes, "seq": sizes.get("seq", 512), "past": 0, "bias": sizes.get("bias", 0), "train": 0}
    build = partial(_build, style=style, name=name)
    follows = {"kv_heads": "heads"} if sizes["kv_heads"] == sizes["heads"] else {}
    return Entry(name, "decoder", description, build, params, least=LEAST, generates=True, follows=follows, style=style)


def _build(batch: int, params: Params, style: Style, name: str) -> Graph:
    return decoder(batch, params, style, name)


_register("llama", "small decoder as Llama 2 is made: grouped queries, rotary positions, RMSNorm, SwiGLU", LLAMA_2,
          layers=2, hidden=64, heads=4, kv_heads=2, ffn=176, vocab=256, seq=16)  # fmt: skip
_register("moe", "small decoder as Mixtral is made: each token to top_k of the experts", MIXTRAL,
          layers=2, hidden=64, heads=4, kv_heads=2, ffn=96, vocab=256, seq=16, experts=4, top_k=2)  # fmt: skip
_register("gpt", "small decoder as GPT-3 is made: learnt positions, LayerNorm, GELU, biases, tied embedding", GPT,
          layers=2, hidden=64, heads=4, kv_heads=4, ffn=256, vocab=256, seq=16, bias=1)  # fmt: skip
_register("llama2-7b", "Llama 2 7B (Touvron et al., arXiv 2307.09288)", LLAMA_2,
          layers=32, hidden=4096, heads=32, kv_heads=32, ffn=11008, vocab=32000)  # fmt: skip
_register("llama2-13b", "Llama 2 13B (Touvron et al., arXiv 2307.09288)", LLAMA_2,
          layers=40, hidden=5120, heads=40, kv_heads=40, ffn=13824, vocab=32000)  # fmt: skip
_register("llama2-70b", "Llama 2 70B (Touvron et al., arXiv 2307.09288)", LLAMA_2,
          layers=80, hidden=8192, heads=64, kv_heads=8, ffn=28672, vocab=32000)  # fmt: skip
_register("llama3-8b", "Llama 3 8B (Grattafiori et al., arXiv 2407.21783, table 3)", LLAMA_3,
          layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, vocab=128256)  # fmt: skip
_register("llama3-70b", "Llama 3 70B (Grattafiori et al., arXiv 2407.21783, table 3)", LLAMA_3,
          layers=80, hidden=8192, heads=64, kv_heads=8, ffn=28672, vocab=128256)  # fmt: skip
_register("mixtral-8x7b", "Mixtral 8x7B, a mixture of experts (Jiang et al., arXiv 2401.04088, table 1)", MIXTRAL,
          layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, vocab=32000, experts=8, top_k=2)  # fmt: skip
for _name, _layers, _hidden, _heads in (
    ("gpt2", 12, 768, 12),
    ("gpt2-medium", 24, 1024, 16),
    ("gpt2-large", 36, 1280, 20),
    ("gpt2-xl", 48, 1600, 25),
):
    _register(_name, "GPT-2 (Radford et al. 2019, table 2)", GPT_2, layers=_layers, hidden=_hidden, heads=_heads,
              kv_heads=_heads, ffn=4 * _hidden, vocab=50257, bias=1)  # fmt: skip
_register("gpt3", "GPT-3 175B (Brown et al., arXiv 2005.14165, table 2.1)", GPT,
          layers=96, hidden=12288, heads=96, kv_heads=96, ffn=49152, vocab=50257, bias=1)  # fmt: skip
