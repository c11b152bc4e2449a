"""Transformers: an encoder and both phases of a decoder without embeddings; BERT and vision transformers by name.

BERT (Devlin et al., arXiv 1810.04805) goes from token numbers to the pooled first token; the tokens of vision
transformers (Dosovitskiy et al., arXiv 2010.11929) are patches of an image.
"""

from __future__ import annotations

from functools import partial
from math import sqrt

from accelsim.errors import ModelError
from accelsim.workload.graph import Graph, Tensor
from accelsim.workload.masks import CausalMask
from accelsim.workload.zoo.build import Builder
from accelsim.workload.zoo.entry import Entry, Params, register


def bert(batch: int, params: Params) -> Graph:
    """Encoder with post-normalisation (Devlin et al. 2018) on hidden states [batch, seq, hidden]."""
    b = Builder("bert")
    x = b.input("x", (batch, params["seq"], params["hidden"]))
    check_heads(params)
    for layer in range(params["layers"]):
        x = encoder_layer(b, x, params, f"l{layer}")
    return b.finish(x)


def encoder_layer(b: Builder, x: str, params: Params, name: str) -> str:
    """Attention of all tokens to all, feed-forward part, each added to what it read and normalised."""
    q, k, v = (_heads(b, b.project(x, params["hidden"], f"{name}.{part}"), params) for part in "qkv")
    attended = _attention(b, (q, k, v), params, f"{name}.attention")
    x = b.layer_norm(b.op("Add", [attended, x], f"{name}.sum1"), f"{name}.norm1")
    return b.layer_norm(b.op("Add", [_feed_forward(b, x, params, name), x], f"{name}.sum2"), f"{name}.norm2")


def gpt_prefill(batch: int, params: Params) -> Graph:
    """Decoder blocks with pre-normalisation (Radford et al. 2019) on a whole prompt [batch, seq, hidden], causal.

    The keys and values of every layer, [batch, heads, seq, hidden / heads], are outputs that stay in the memory of the
    chip: the cache that decoding needs.
    """
    b = Builder("gpt-prefill")
    x = b.input("x", (batch, params["seq"], params["hidden"]))
    check_heads(params)
    mask = CausalMask(params["seq"], before=2)
    b.graph.tensors["mask"] = Tensor("mask", mask.shape, source=mask)
    cache: list[str] = []
    for layer in range(params["layers"]):
        q, k, v = project_qkv(b, x, params, f"l{layer}")
        cache += [k, v]
        x = pre_norm_block(b, x, (q, k, v), params, f"l{layer}", mask="mask")
    b.graph.kept += cache
    return b.finish(x, *cache)


def gpt_decode(batch: int, params: Params) -> Graph:
    """Decoder blocks on one new token [batch, 1, hidden] with a cache of ``seq`` earlier keys and values per layer."""
    b = Builder("gpt-decode")
    x = b.input("x", (batch, 1, params["hidden"]))
    check_heads(params)
    past = (batch, params["heads"], params["seq"], params["hidden"] // params["heads"])
    cache: list[str] = []
    for layer in range(params["layers"]):
        name = f"l{layer}"
        q, k, v = project_qkv(b, x, params, name)
        k, v = (b.appended(f"{name}.{part}", past, rows, axis=2) for part, rows in (("k", k), ("v", v)))
        cache += [k, v]
        x = pre_norm_block(b, x, (q, k, v), params, name)
    return b.finish(x, *cache)


def check_heads(params: Params) -> None:
    """Raise ModelError for heads that do not divide hidden."""
    if params["hidden"] % params["heads"]:
        raise ModelError(f"hidden={params['hidden']}, heads={params['heads']}", expected="heads that divide hidden")


def project_qkv(b: Builder, x: str, params: Params, name: str) -> tuple[str, str, str]:
    """Queries, keys and values [batch, heads, seq, d] of the normalised x."""
    normal = b.layer_norm(x, f"{name}.norm1")
    q, k, v = (_heads(b, b.project(normal, params["hidden"], f"{name}.{part}"), params) for part in "qkv")
    return q, k, v


def pre_norm_block(b: Builder, x: str, qkv: tuple[str, str, str], params: Params, name: str, mask: str = "") -> str:
    """Attention, then the feed-forward part of what was normalised, each added to x [batch, seq, hidden].

    ``qkv``: queries, keys and values as ``project_qkv`` makes them, perhaps with earlier keys and values.
    """
    attended = _attention(b, qkv, params, f"{name}.attention", mask)
    x = b.op("Add", [attended, x], f"{name}.sum1")
    fed = _feed_forward(b, b.layer_norm(x, f"{name}.norm2"), params, name)
    return b.op("Add", [fed, x], f"{name}.sum2")


def _heads(b: Builder, x: str, params: Params) -> str:
    """[batch, seq, hidden] -> [batch, heads, seq, hidden / heads]."""
    batch, seq, hidden = b.shape(x)
    split = b.op("Reshape", [x], f"{x}.split", shape=[batch, seq, params["heads"], hidden // params["heads"]])
    return b.op("Transpose", [split], f"{x}.heads", perm=[0, 2, 1, 3])


def _attention(b: Builder, qkv: tuple[str, str, str], params: Params, name: str, mask: str = "") -> str:
    """Scaled dot-product attention (Vaswani et al. 2017, eq. 1) and the output projection: [batch, seq, hidden]."""
    q, k, v = qkv
    batch, heads, seq, depth = b.shape(q)
    scores = b.matmul(q, b.op("Transpose", [k], f"{name}.kT", perm=[0, 1, 3, 2]), f"{name}.scores")
    scores = b.op("Mul", [scores, b.constant(f"{name}.scale", 1.0 / sqrt(depth))], f"{name}.scaled")
    if mask:
        scores = b.op("Add", [scores, mask], f"{name}.masked")
    mixed = b.matmul(b.op("Softmax", [scores], f"{name}.softmax", axis=3), v, f"{name}.mixed")
    rows = b.op("Transpose", [mixed], f"{name}.rows", perm=[0, 2, 1, 3])
    joined = b.op("Reshape", [rows], f"{name}.joined", shape=[batch, seq, heads * depth])
    return b.project(joined, params["hidden"], f"{name}.out")


def _feed_forward(b: Builder, x: str, params: Params, name: str) -> str:
    inner = b.project(x, params.get("ffn", 4 * params["hidden"]), f"{name}.ff1")
    return b.project(b.op("Gelu", [inner], f"{name}.gelu", approximate="none"), params["hidden"], f"{name}.ff2")


for _name, _text, _build, _layers, _seq in (
    ("bert", "transformer encoder; the defaults are BERT base without embeddings", bert, 12, 128),
    ("gpt-prefill", "decoder on a whole prompt (GPT-3: hidden=12288,heads=96,seq=2048)", gpt_prefill, 1, 1024),
    ("gpt-decode", "decoder on one token with a key-value cache of seq tokens", gpt_decode, 1, 1024),
):
    _sizes = {"layers": _layers, "hidden": 768, "heads": 12, "seq": _seq}
    register(Entry(_name, "builder", _text, _build, _sizes))


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
