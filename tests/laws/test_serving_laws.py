"""Laws of the kernels of serving stacks on one GPU: fewer bytes never make them slower where memory binds."""

from __future__ import annotations

from accelsim.kernels.predict import Kernels
from accelsim.kernels.table import one
from accelsim.spec.yaml.load import load_chip


def seconds(op: str, sizes: dict[str, str], dtype: str = "bf16") -> float:
    """Return the time of a kernel on an H100."""
    chip = load_chip("h100-sxm")
    return float(Kernels(one(op, dtype, sizes), chip).predicted(chip).seconds[0])


def test_narrower_weights_keys_and_windows_are_never_slower_where_memory_binds() -> None:
    layer = {"M": "1", "K": "8192", "N": "8192"}
    times = [seconds("serving_linear", layer, dtype) for dtype in ("bf16", "int8xbf16", "int4xbf16")]
    assert times[0] > times[1] > times[2]
    decode = {"batch": "64", "kv": "32768", "heads": "32", "kv_heads": "8", "head_dim": "128"}
    plain, narrow, window = (
        seconds("serving_decode", {**decode, **more}) for more in ({}, {"kv_dtype": "fp8"}, {"window": "128"})
    )
    assert plain > 1.5 * narrow and narrow > window
