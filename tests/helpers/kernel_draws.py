"""Random kernels of every op of ``accelsim kernel``, of sizes from one to thousands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from accelsim.seeds import generator

Rows = Sequence[Mapping[str, str]]
Sizes = Mapping[str, int | str]


class Draw:
    """A source of sizes."""

    def __init__(self, seed: int) -> None:
        self.random = generator(seed)

    def size(self, most: int) -> int:
        """Return a size up to ``most``, small ones as often as large ones."""
        return int(2 ** self.random.uniform(0, np.log2(most)))

    def one_of(self, *values: int) -> int:
        """Return one of some values."""
        return int(self.random.choice(values))


def _product(draw: Draw) -> Sizes:
    return {"M": draw.size(30_000), "K": draw.size(60_000), "N": draw.size(60_000)}


def _products(draw: Draw) -> Sizes:
    return {"B": draw.size(500), "M": draw.size(3000), "K": draw.size(3000), "N": draw.size(3000)}


def _function(draw: Draw) -> Sizes:
    return {"rows": draw.size(100_000), "cols": draw.size(30_000)}


def _copy(draw: Draw) -> Sizes:
    return {"bytes": draw.size(1 << 32)}


def _convolution(draw: Draw) -> Sizes:
    taps = draw.one_of(1, 3, 5, 7, 11)
    return {
        "B": draw.size(512), "C_in": draw.size(1024), "C_out": draw.size(1024), "kernel": taps,
        "H_W": taps + draw.size(224), "stride": draw.one_of(1, 1, 2), "padding": draw.one_of(0, taps // 2),
    }  # fmt: skip


def _gradient(draw: Draw) -> Sizes:
    taps, stride, side = draw.one_of(1, 3, 5, 7), draw.one_of(1, 1, 2), draw.size(112)
    return {
        "n": draw.size(512), "c": draw.size(1024), "k": draw.size(1024), "filter_w": taps, "filter_h": taps,
        "w": stride * side, "h": stride * side, "out_w": side, "out_h": side, "stride_w": stride, "stride_h": stride,
        "pad_w": taps // 2, "pad_h": taps // 2, "direction": ("bwd_inputs", "bwd_params")[draw.one_of(0, 1)],
    }  # fmt: skip


def _heads(draw: Draw) -> dict[str, int | str]:
    kv_heads = draw.size(16)
    return {"kv_heads": kv_heads, "heads": kv_heads * draw.one_of(1, 2, 4, 8), "head_dim": draw.one_of(64, 128, 256)}


def _attention(draw: Draw) -> Sizes:
    tokens = draw.size(8000)
    return {
        "batch": draw.size(128), "tokens": tokens, "kv": tokens + draw.size(8000), **_heads(draw),
        "causal": draw.one_of(0, 1), "window": draw.one_of(0, 0, 512),
    }  # fmt: skip


def _backward(draw: Draw) -> Sizes:
    tokens = draw.size(8000)
    return {"batch": draw.size(128), "tokens": tokens, "kv": tokens, **_heads(draw), "direction": "bwd"}


def _cached(draw: Draw) -> dict[str, int | str]:
    return {
        **_heads(draw), "window": draw.one_of(0, 128, 1024), "kv_dtype": ("", "int8")[draw.one_of(0, 1)],
        "layers": draw.one_of(0, 1),
    }  # fmt: skip


def _prompt(draw: Draw) -> Sizes:
    tokens = draw.size(16_000)
    return {"batch": draw.size(64), "tokens": tokens, "kv": tokens + draw.size(4000), **_cached(draw)}


def _query(draw: Draw) -> Sizes:
    return {"batch": draw.size(2000), "kv": draw.size(130_000), **_cached(draw)}


def _layer(draw: Draw) -> Sizes:
    return {"M": draw.size(20_000), "K": draw.size(60_000), "N": draw.size(60_000), "layers": draw.one_of(0, 1, 6)}


def _experts(draw: Draw) -> Sizes:
    return {
        "tokens": draw.size(16_000), "hidden": 64 * draw.size(100), "inter": 16 * draw.size(600),
        "topk": draw.size(8), "experts": 16 * draw.size(16), "ep": draw.one_of(1, 4, 16),
        "skew": ("0", "1.2", "balanced")[draw.one_of(0, 1, 2)],
    }  # fmt: skip


class Kind(NamedTuple):
    """An op: what draws its sizes, and the column of which a smaller batch has less."""

    op: str
    draw: Callable[[Draw], Sizes]
    batch: str


KINDS: Mapping[str, Kind] = {
    "gemm": Kind("gemm", _product, "M"),
    "bmm": Kind("bmm", _products, "B"),
    "linear": Kind("linear", _product, "M"),
    **{op: Kind(op, _function, "rows") for op in ("add", "gelu", "relu", "softmax", "layernorm", "rmsnorm")},
    "copy": Kind("copy", _copy, "bytes"),
    "conv2d": Kind("conv2d", _convolution, "B"),
    "gradient": Kind("conv", _gradient, "n"),
    "attention": Kind("attention", _attention, "batch"),
    "attention, backward": Kind("attention", _backward, "batch"),
    "serving_linear": Kind("serving_linear", _layer, "M"),
    "serving_prefill": Kind("serving_prefill", _prompt, "batch"),
    "serving_decode": Kind("serving_decode", _query, "batch"),
    "moe": Kind("moe", _experts, "tokens"),
}
"""Name -> kind of kernels."""


def drawn(name: str, seed: int, count: int) -> Rows:
    """Return so many random kernels of a kind."""
    draw = Draw(seed)
    return [{key: str(value) for key, value in KINDS[name].draw(draw).items()} for _ in range(count)]
