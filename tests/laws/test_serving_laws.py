"""Laws of the kernels of serving stacks, on every GPU with constants of its own and on one with the defaults: bounds, and
that more of anything never makes them slower."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import pytest

from accelsim.kernels.predict import Kernels
from accelsim.kernels.table import several
from accelsim.seeds import generator
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.load import load_chip
from accelsim.types import Floats

CHIPS = ("a100-80-sxm", "h100-sxm", "h200-sxm", "b200-sxm", "l40s", "rtx-pro-6000-server", "a30")
EACH = 300
"""Random kernels of each kind on each chip."""
EQUAL = 1 + 1e-9
"""More than this is slower."""
Rows = Sequence[Mapping[str, str]]


@cache
def chip_of(name: str, *overrides: str) -> Chip:
    return load_chip(name, list(overrides))


def drawn(op: str) -> Rows:
    """Random kernels, of sizes from one to thousands."""
    random = generator(11)

    def size(most: int) -> int:
        return int(2 ** random.uniform(0, np.log2(most)))

    def one() -> dict[str, int | float | str]:
        group, dim = int(random.choice([1, 2, 4, 8])), int(random.choice([64, 128, 256]))
        heads = {"kv_heads": size(16), "head_dim": dim, "window": int(random.choice([0, 128, 1024])),
                 "kv_dtype": str(random.choice(["bf16", "int8"])), "layers": int(random.choice([0, 1]))}  # fmt: skip
        heads["heads"] = int(heads["kv_heads"]) * group
        if op == "serving_linear":
            return {
                "M": size(20_000),
                "K": size(60_000),
                "N": size(60_000),
                "layers": int(random.choice([0, 1, 6])),
            }
        if op == "serving_prefill":
            tokens = size(16_000)
            return {"batch": size(64), "tokens": tokens, "kv": tokens + size(4000), **heads}
        if op == "serving_decode":
            return {"batch": size(2000), "kv": size(130_000), **heads}
        ep = int(random.choice([1, 4, 16]))
        return {"tokens": size(16_000), "hidden": 64 * size(100), "inter": 16 * size(600), "topk": size(8),
                "experts": 16 * size(16), "ep": ep, "skew": str(random.choice(["0", "1.2", "balanced"]))}  # fmt: skip

    return [{name: str(value) for name, value in one().items()} for _ in range(EACH)]


BATCH = {"serving_linear": "M", "serving_prefill": "batch", "serving_decode": "batch", "moe": "tokens"}
"""Op -> what a smaller batch has less of."""
OPS = tuple(BATCH)


def seconds(name: str, op: str, rows: Rows, *overrides: str, dtype: str = "bf16") -> tuple[Floats, Floats]:
    """Times and the bounds of the stated peaks."""
    chip = chip_of(name, *overrides)
    times = Kernels(several(op, dtype, rows), chip).predicted(chip).times
    return times.seconds, times.bound


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("name", CHIPS)
def test_no_kernel_is_faster_than_the_stated_peaks_allow(name: str, op: str) -> None:
    found, bound = seconds(name, op, drawn(op))
    assert (found >= bound).all(), np.flatnonzero(found < bound)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("name", CHIPS)
def test_more_of_anything_is_never_slower(name: str, op: str) -> None:
    rows, chip = drawn(op), chip_of(name)
    memory = next(key for key, each in chip.memories.items() if "activations" in each.holds)
    sm, Bps = chip.engines["sm"], chip.memories[memory].memory.peak_Bps
    more = (
        *(f"sm.multiprocessors={sm.multiprocessors + extra}" for extra in (1, 7, 64)),  # type: ignore[attr-defined]
        f"{memory}.memory.bandwidth={float(Bps) * 1.3 / 1e9:.6g} GB/s",
        f"clock={float(chip.clock) * 1.2 / 1e6:.6g} MHz",
    )
    before, _ = seconds(name, op, rows)
    for override in more:
        after, _ = seconds(name, op, rows, override)
        assert (after <= before * EQUAL).all(), (override, np.flatnonzero(after > before * EQUAL))


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("name", CHIPS)
def test_a_smaller_batch_is_never_slower(name: str, op: str) -> None:
    rows, key = drawn(op), BATCH[op]
    less = [{**row, key: str(max(1, int(int(row[key]) * 0.9)))} for row in rows]
    (before, _), (after, _) = seconds(name, op, rows), seconds(name, op, less)
    assert (after <= before * EQUAL).all(), [
        (rows[i], less[i]) for i in np.flatnonzero(after > before * EQUAL)[:3]
    ]


def test_narrower_weights_keys_and_windows_are_never_slower_where_memory_binds() -> None:
    layer = [{"M": "1", "K": "8192", "N": "8192"}]
    times = [float(seconds("h100-sxm", "serving_linear", layer, dtype=dtype)[0][0]) for dtype in ("bf16", "int8xbf16", "int4xbf16")]  # fmt: skip
    assert times[0] > times[1] > times[2]
    decode = {"batch": "64", "kv": "32768", "heads": "32", "kv_heads": "8", "head_dim": "128"}
    plain, narrow, window = (
        float(seconds("h100-sxm", "serving_decode", [{**decode, **more}])[0][0])
        for more in ({}, {"kv_dtype": "fp8"}, {"window": "128"})
    )
    assert plain > 1.5 * narrow and narrow > window
