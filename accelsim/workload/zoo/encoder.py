"""Encoders by name: BERT (Devlin et al., arXiv 1810.04805), from token numbers to the pooled first token, and vision
transformers (Dosovitskiy et al., arXiv 2010.11929), whose tokens are patches of an image.
"""

from __future__ import annotations

from functools import partial

from accelsim.errors import ModelError
from accelsim.workload.graph import Graph
from accelsim.workload.zoo.build import Builder
from accelsim.workload.zoo.entry import Entry, Params, register
from accelsim.workload.zoo.transformer import check_heads, encoder_layer, pre_norm_block, project_qkv

SEGMENTS = 2


def bert_model(batch: int, params: Params, name: str) -> Graph:
    """BERT as it is published: embeddings of token, segment and position, encoder layers, pooler.

    Inputs: ``tokens`` and ``segment_ids`` [batch, seq]. Outputs: the pooled first token [batch, hidden] and the hidden
    states [batch, seq, hidden]. Raises ModelError for heads that do not divide hidden, or more tokens than positions.
    """
    check_heads(params)
    if params["seq"] > params["context"]:
        what = f"seq={params['seq']}"
        raise ModelError(what, expected=f"at most context={params['context']}, the learnt positions")
    b = Builder(name)
    x = b.layer_norm(_embedded(b, batch, params), "embeddings.norm")
    for layer in range(params["layers"]):
        x = encoder_layer(b, x, params, f"l{layer}")
    pooled = b.dense(_first(b, x), params["hidden"], "pooler")
    return b.finish(b.op("Tanh", [pooled], "pooled"), x)


def _first(b: Builder, x: str) -> str:
    """The first token of x [batch, tokens, hidden]: [batch, hidden]."""
    batch, _, hidden = b.shape(x)
    first = b.op("Slice", [x], "first", starts=[0], ends=[1], axes=[1], steps=[1])
    return b.reshaped(first, (batch, hidden), "first.flat")


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
    description = f"{what} (Devlin et al., arXiv 1810.04805) with embeddings and pooler, as the uncased release"
    register(Entry(name, "encoder", description, partial(bert_model, name=name), params))


_register("bert-base", "BERT base", layers=12, hidden=768, heads=12)
_register("bert-large", "BERT large", layers=24, hidden=1024, heads=16)


def vit(batch: int, params: Params) -> Graph:
    """Vision transformer on x [batch, 3, resolution, resolution]: the classifier reads the class token, as logits.

    A convolution whose stride is its kernel makes one token of each patch; the class token goes before them, learnt
    positions are added. Raises ModelError for heads that do not divide hidden, or patches that do not fill the image.
    """
    check_heads(params)
    size, patch, hidden = params["resolution"], params["patch"], params["hidden"]
    if size % patch:
        expected = "a patch that divides the resolution"
        raise ModelError(f"resolution={size}, patch={patch}", "vit-b16", expected)
    b = Builder("vit-b16")
    x = _tokens(b, b.input("x", (batch, 3, size, size)), hidden, patch)
    for layer in range(params["layers"]):
        name = f"l{layer}"
        x = pre_norm_block(b, x, project_qkv(b, x, params, name), params, name)
    return b.finish(b.dense(_first(b, b.layer_norm(x, "norm")), params["classes"], "classes"))


def _tokens(b: Builder, x: str, hidden: int, patch: int) -> str:
    """[batch, patches + 1, hidden]: the class token, then the patches row by row, each with its position added."""
    x = b.conv(x, hidden, patch, "patches", stride=patch)
    batch, _, height, width = b.shape(x)
    flat = b.reshaped(x, (batch, hidden, height * width), "patches.flat")
    patches = b.op("Transpose", [flat], "patches.tokens", perm=[0, 2, 1])
    token = b.op("Expand", [b.weight("class.weight", (1, 1, hidden))], "class", shape=[batch, 1, hidden])
    x = b.op("Concat", [token, patches], "tokens", axis=1)
    return b.op("Add", [x, b.weight("positions.weight", (1, *b.shape(x)[1:]))], "embeddings")


_VIT = {"layers": 12, "hidden": 768, "heads": 12, "patch": 16, "resolution": 224, "classes": 1000}
_VIT_TEXT = "ViT-B/16, a vision transformer (Dosovitskiy et al., arXiv 2010.11929)"
register(Entry("vit-b16", "builder", _VIT_TEXT, vit, _VIT))
