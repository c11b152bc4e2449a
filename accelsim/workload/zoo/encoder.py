"""Encoders by name, from token numbers to the pooled first token: BERT (Devlin et al., arXiv 1810.04805)."""

from __future__ import annotations

from functools import partial

from accelsim.errors import ModelError, Problem
from accelsim.workload.graph import Graph
from accelsim.workload.zoo.build import Builder
from accelsim.workload.zoo.entry import Entry, Params, register
from accelsim.workload.zoo.transformer import check_heads, encoder_layer

SEGMENTS = 2


def bert_model(batch: int, params: Params, name: str) -> Graph:
    """BERT as it is published: embeddings of token, segment and position, encoder layers, pooler.

    Inputs: ``tokens`` and ``segment_ids`` [batch, seq]. Outputs: the pooled first token [batch, hidden] and the hidden
    states [batch, seq, hidden]. Raises ModelError for heads that do not divide hidden, or more tokens than positions.
    """
    check_heads(params)
    if params["seq"] > params["context"]:
        what = f"seq={params['seq']}"
        raise ModelError(Problem(what, expected=f"at most context={params['context']}, the learnt positions"))
    b, hidden = Builder(name), params["hidden"]
    x = b.layer_norm(_embedded(b, batch, params), "embeddings.norm")
    for layer in range(params["layers"]):
        x = encoder_layer(b, x, params, f"l{layer}")
    first = b.op("Slice", [x], "first", starts=[0], ends=[1], axes=[1], steps=[1])
    pooled = b.dense(b.reshaped(first, (batch, hidden), "first.flat"), hidden, "pooler")
    return b.finish(b.op("Tanh", [pooled], "pooled"), x)


def _embedded(b: Builder, batch: int, params: Params) -> str:
    shape, hidden = (batch, params["seq"]), params["hidden"]
    tables = (
        ("words", params["vocab"], b.input("tokens", shape, "int64")),
        ("segments", SEGMENTS, b.input("segment_ids", shape, "int64")),
        ("positions", params["context"], b.numbers("here", 0, params["seq"])),
    )
    words, segments, positions = (
        b.op("Gather", [b.weight(f"{name}.weight", (rows, hidden)), index], name, axis=0)
        for name, rows, index in tables
    )
    return b.op("Add", [b.op("Add", [words, segments], "embeddings.sum"), positions], "embeddings")


def _register(name: str, what: str, **sizes: int) -> None:
    params = {**sizes, "ffn": 4 * sizes["hidden"], "vocab": 30522, "context": 512, "seq": 128}
    description = (
        f"{what} (Devlin et al., arXiv 1810.04805) with embeddings and pooler, as the uncased release"
    )
    register(Entry(name, "encoder", description, partial(bert_model, name=name), params))


_register("bert-base", "BERT base", layers=12, hidden=768, heads=12)
_register("bert-large", "BERT large", layers=24, hidden=1024, heads=16)
