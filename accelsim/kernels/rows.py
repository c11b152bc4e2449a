"""Rows of tables of kernels as the columns of their families: cells read as numbers, checked, with what ops add."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite

from accelsim.errors import nearest
from accelsim.formats.table import ALIASES, FORMATS, get
from accelsim.kernels.ops import DIRECTIONS, FUNCTIONS, PRODUCTS
from accelsim.spec.serving import LIBRARIES
from accelsim.units import parse

Cells = Mapping[str, str]
"""Name of a column -> what a row has there."""
ColumnValues = Mapping[str, float]
"""Name of a column -> its number in a row."""
MOST = 2.0**48
"""Largest number of anything in a row."""
PASSES: ColumnValues = {"": 0, "fwd": 0, "forward": 0, "bwd": 1, "backward": 1}
"""Directions of an attention -> whether it is the backward pass."""
SCALES: ColumnValues = {"": 1, "dynamic": 1, "static": 0}
"""Scales of the inputs of a layer -> whether a kernel of its own quantises them; static ones are applied by the kernel
before."""
YES_NO: ColumnValues = {"1": 1, "0": 0, "true": 1, "false": 0, "yes": 1, "no": 0}
LOADS: ColumnValues = {"": 0.0, "uniform": 0.0, "balanced": -1.0}
"""Loads of experts by name; else the exponent of a power law."""
LIBRARY: ColumnValues = {name: float(index) for index, name in enumerate(LIBRARIES)}


class Wrong(Exception):
    """Problem of one row of a table."""

    def __init__(self, what: str, expected: str = "", near: str = "") -> None:
        self.what, self.expected, self.near = what, expected, near
        super().__init__(what)


def number(row: Cells, *names: str, default: float | None = None) -> float:
    """Return the first of these columns that the row has, a number above 0 (from 0 where the default is 0)."""
    for name in names:
        text = row.get(name, "").strip()
        if not text:
            continue
        try:
            value = float(text)
        except ValueError:
            raise Wrong(f"{name} is {text!r}", "a number") from None
        if not isfinite(value) or value > MOST or value < 0 or (value == 0 and default != 0):
            least = "0 or more" if default == 0 else "a number above 0"
            raise Wrong(f"{name} is {text}", f"{least}, no more than 2^48")
        return value
    if default is None:
        raise Wrong(f"no {names[0]}", f"a value of {' or '.join(names)}")
    return default


def _word(row: Cells, column: str, known: ColumnValues, default: str = "") -> float:
    """The number of a word in a column."""
    text = row.get(column, "").strip().lower() or default
    if text not in known:
        expected = [word for word in known if word]
        raise Wrong(f"{column} is {text!r}", ", ".join(expected), nearest(text, expected))
    return known[text]


def _direction(row: Cells, known: Mapping[str, float]) -> float:
    way = row.get("direction", "").strip()
    if way not in known:
        raise Wrong(f"direction {way!r}", ", ".join(filter(None, known)), nearest(way, known))
    return float(known[way])


def _bytes(row: Cells) -> float:
    """The column ``bytes``: a number, or one with a unit."""
    text = row["bytes"].strip()
    if not text[-1].isalpha():
        return number(row, "bytes")
    try:
        return number({"bytes": str(parse(text, "B"))}, "bytes")
    except ValueError:
        raise Wrong(f"bytes is {text!r}", "a number, or one with a unit, such as 64 MiB") from None


def _sides(row: Cells) -> ColumnValues:
    return {key: number(row, key, key.lower()) for key in ("M", "K", "N")}


def _product(row: Cells, op: str, name: str) -> ColumnValues:
    transposed = float(row.get("a_t", "").strip().upper() == "T")
    return {
        **_sides(row),
        "B": number(row, "B", "batch", default=1),
        "transposed": transposed,
        **PRODUCTS[op]._asdict(),
    }


def _function(row: Cells, op: str, name: str) -> ColumnValues:
    if row.get("bytes", "").strip() and op == "copy":
        shape = {"rows": _bytes(row), "cols": 1.0, "element_B": 1.0}
    else:
        elements = row.get("elements", "").strip() and not row.get("rows", row.get("M", "")).strip()
        count = number(row, "elements") if elements else number(row, "rows", "M")
        cols = 1.0 if elements else number(row, "cols", "N")
        shape = {"rows": count, "cols": cols, "element_B": get(name).storage_bits / 8}
    return {**shape, **FUNCTIONS[op]._asdict()}


def _convolution(row: Cells, op: str, name: str) -> ColumnValues:
    if row.get("C_in", "").strip():
        side, kernel = number(row, "H_W"), number(row, "kernel")
        stride, padding = number(row, "stride", default=1), number(row, "padding", default=0)
        out = (side + 2 * padding - kernel) // stride + 1
        if out < 1:
            raise Wrong(f"a kernel of {kernel:g} on {side:g}", "one that fits the padded image")
        return {"n": number(row, "B"), "c": number(row, "C_in"), "h": side, "w": side, "k": number(row, "C_out"),
                "r": kernel, "s": kernel, "p": out, "q": out, "stride": stride, "backward": 0.0}  # fmt: skip
    backward = _direction(row, DIRECTIONS)
    names = {"n": "n", "c": "c", "h": "h", "w": "w", "k": "k", "r": "filter_h", "s": "filter_w", "p": "out_h",
             "q": "out_w", "stride": "stride_w"}  # fmt: skip
    return {**{key: number(row, column) for key, column in names.items()}, "backward": backward}


def _heads(row: Cells) -> ColumnValues:
    """Heads of queries, and of the keys that they share."""
    heads = number(row, "heads")
    kv_heads = number(row, "kv_heads", default=heads)
    if heads % kv_heads:
        raise Wrong(f"{heads:g} heads share {kv_heads:g} of keys", "a divisor of the heads")
    return {"heads": heads, "kv_heads": kv_heads}


def _attention(row: Cells, op: str, name: str) -> ColumnValues:
    tokens, heads = number(row, "tokens"), _heads(row)
    kv = number(row, "kv", default=tokens)
    causal = number(row, "causal", default=0) if "causal" in row else 1.0
    if causal and kv < tokens:
        raise Wrong(f"{kv:g} keys of {tokens:g} tokens", "as many keys as tokens or more, or causal=0")
    window, backward = number(row, "window", default=0), _direction(row, PASSES)
    if window and backward:
        raise Wrong(f"window is {window:g} in a backward pass", "none, or the forward pass")
    return {**heads, "batch": number(row, "batch", "B", default=1), "tokens": tokens, "window": window, "kv": kv,
            "kv_B": _key_bytes(row), "head_dim": number(row, "head_dim"), "causal": causal, "backward": backward,
            }  # fmt: skip


def _key_bytes(row: Cells) -> float:
    """Bytes of an element of keys and values; 0 where no column says other than the format."""
    text = row.get("kv_dtype", "").strip()
    if not text:
        return 0.0
    form = FORMATS.get(ALIASES.get(text, text))
    if form is None or form.storage_bits not in (8, 16):
        raise Wrong(f"kv_dtype is {text!r}", "fp8_e4m3fn, int8, fp16, bf16", nearest(text, FORMATS))
    return form.storage_bits / 8


def _layer(row: Cells, op: str, name: str) -> ColumnValues:
    return {**_sides(row), "layers": number(row, "layers", default=0), "quantiser": _word(row, "scales", SCALES)}


def _prefill(row: Cells, op: str, name: str) -> ColumnValues:
    tokens = number(row, "tokens")
    return _served_attention(row, tokens, number(row, "kv", default=tokens), name)


def _decode(row: Cells, op: str, name: str) -> ColumnValues:
    tokens = number(row, "tokens", default=1)
    if tokens != 1:
        raise Wrong(f"tokens is {tokens:g}", "1, or op serving_prefill")
    return _served_attention(row, 1.0, number(row, "kv"), name)


def _served_attention(row: Cells, tokens: float, kv: float, name: str) -> ColumnValues:
    heads = _heads(row)
    if kv < tokens:
        raise Wrong(f"{kv:g} keys of {tokens:g} new tokens", "as many keys as new tokens, or more")
    return {
        **heads,
        "batch": number(row, "batch", "B", default=1),
        "tokens": tokens,
        "kv": kv,
        "head_dim": number(row, "head_dim"),
        "causal": _word(row, "causal", YES_NO, "1"),
        "window": number(row, "window", default=0),
        "kv_B": _key_bytes(row) or get(name).storage_bits / 8,
        "cache_write": _word(row, "cache_write", YES_NO, "1"),
        "layers": number(row, "layers", default=0),
        "library": _word(row, "library", LIBRARY),
    }


def _experts(row: Cells, op: str, name: str) -> ColumnValues:
    sizes = {key: number(row, key) for key in ("tokens", "hidden", "inter", "topk", "experts")}
    sizes |= {key: number(row, key, default=1) for key in ("tp", "ep")}
    _, _, inner, topk, experts, tp, ep = sizes.values()
    if topk > experts:
        raise Wrong(f"topk is {topk:g} of {experts:g} experts", "no more than there are")
    if experts % ep or inner % tp:
        raise Wrong(f"{experts:g} experts on {ep:g} devices, {inner:g} on {tp:g}", "a divisor each")
    skew = row.get("skew", "").strip()
    load = LOADS[skew] if skew in LOADS else number(row, "skew", default=0)
    return {**sizes, "skew": load, "gated": _word(row, "gated", YES_NO, "1"), "library": _word(row, "library", LIBRARY)}


READERS: Mapping[str, Callable[[Cells, str, str], ColumnValues]] = {
    "product": _product,
    "function": _function,
    "convolution": _convolution,
    "attention": _attention,
    "layer": _layer,
    "prefill": _prefill,
    "decode": _decode,
    "experts": _experts,
}
"""Family -> its columns, from the cells of a row, its op and its format; raises Wrong."""
