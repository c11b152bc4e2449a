"""Transformers in canonical ops: an encoder (bert) and both phases of a decoder (gpt-prefill, gpt-decode)."""

from __future__ import annotations

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
    """ModelError for heads that do not divide hidden."""
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
