"""Rows of tables that are kernels of a serving stack: linear layers, attention of prompts and single queries, mixtures
of experts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from accelsim.errors import nearest
from accelsim.formats.table import ALIASES, FORMATS, get
from accelsim.kernels.cells import Cells, Wrong, number
from accelsim.spec.serving import LIBRARIES

SCALES: Mapping[str, float] = {"": 1, "dynamic": 1, "static": 0}
"""Scales of the inputs of a layer -> whether a kernel of its own quantises them; static ones are applied by the kernel
before."""
YES_NO: Mapping[str, float] = {"1": 1, "0": 0, "true": 1, "false": 0, "yes": 1, "no": 0}
LOADS: Mapping[str, float] = {"": 0.0, "uniform": 0.0, "balanced": -1.0}
"""Loads of experts by name; else the exponent of a power law."""


def _of(row: Cells, column: str, known: Mapping[str, float], default: str = "") -> float:
    """The number of a word in a column."""
    text = row.get(column, "").strip().lower() or default
    if text not in known:
        expected = [word for word in known if word]
        raise Wrong(f"{column} is {text!r}", ", ".join(expected), nearest(text, expected))
    return known[text]


def _layer(row: Cells, op: str, name: str) -> Mapping[str, float]:
    sizes = {key: number(row, key, key.lower()) for key in ("M", "K", "N")}
    return {**sizes, "layers": number(row, "layers", default=0), "quantiser": _of(row, "scales", SCALES)}


def _library(row: Cells) -> float:
    return _of(row, "library", {name: float(index) for index, name in enumerate(LIBRARIES)})


def _attention(row: Cells, tokens: float, kv: float, name: str) -> Mapping[str, float]:
    """Columns of an attention."""
    heads = number(row, "heads")
    kv_heads = number(row, "kv_heads", default=heads)
    if heads % kv_heads:
        raise Wrong(f"{heads:g} heads share {kv_heads:g} of keys", "a divisor of the heads")
    if kv < tokens:
        raise Wrong(f"{kv:g} keys of {tokens:g} new tokens", "as many keys as new tokens, or more")
    return {
        "batch": number(row, "batch", "B", default=1), "tokens": tokens, "kv": kv, "heads": heads,
        "kv_heads": kv_heads, "head_dim": number(row, "head_dim"), "causal": _of(row, "causal", YES_NO, "1"),
        "window": number(row, "window", default=0), "kv_B": key_bytes(row) or get(name).storage_bits / 8,
        "cache_write": _of(row, "cache_write", YES_NO, "1"), "layers": number(row, "layers", default=0),
        "library": _library(row),
    }  # fmt: skip


def key_bytes(row: Cells) -> float:
    """Return the bytes of an element of keys and values; 0 where no column says other than the format."""
    text = row.get("kv_dtype", "").strip()
    if not text:
        return 0.0
    form = FORMATS.get(ALIASES.get(text, text))
    if form is None or form.storage_bits not in (8, 16):
        raise Wrong(f"kv_dtype is {text!r}", "fp8_e4m3fn, int8, fp16, bf16", nearest(text, FORMATS))
    return form.storage_bits / 8


def _prefill(row: Cells, op: str, name: str) -> Mapping[str, float]:
    tokens = number(row, "tokens")
    return _attention(row, tokens, number(row, "kv", default=tokens), name)


def _decode(row: Cells, op: str, name: str) -> Mapping[str, float]:
    tokens = number(row, "tokens", default=1)
    if tokens != 1:
        raise Wrong(f"tokens is {tokens:g}", "1, or op serving_prefill")
    return _attention(row, 1.0, number(row, "kv"), name)


def _experts(row: Cells, op: str, name: str) -> Mapping[str, float]:
    sizes = {key: number(row, key) for key in ("tokens", "hidden", "inter", "topk", "experts")}
    shared = {key: number(row, key, default=1) for key in ("tp", "ep")}
    if sizes["topk"] > sizes["experts"]:
        raise Wrong(f"topk is {sizes['topk']:g} of {sizes['experts']:g} experts", "no more than there are")
    if sizes["experts"] % shared["ep"] or sizes["inter"] % shared["tp"]:
        raise Wrong(
            f"{sizes['experts']:g} experts on {shared['ep']:g} devices, {sizes['inter']:g} on {shared['tp']:g}",
            "a divisor each",
        )
    skew = row.get("skew", "").strip()
    load = LOADS[skew] if skew in LOADS else number(row, "skew", default=0)
    return {
        **sizes,
        **shared,
        "skew": load,
        "gated": _of(row, "gated", YES_NO, "1"),
        "library": _library(row),
    }


SERVING_READERS: Mapping[str, Callable[[Cells, str, str], Mapping[str, float]]] = {
    "layer": _layer, "prefill": _prefill, "decode": _decode, "experts": _experts,
}  # fmt: skip
"""Family -> its columns, from the cells of a row; raises Wrong."""
