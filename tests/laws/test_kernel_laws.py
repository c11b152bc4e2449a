"""Laws of single kernels, on every chip that runs them: bounds, order, agreement with the blocks one by one."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.engines.simt.kernels import Kernels as ProductKernels
from accelsim.engines.simt.kernels import columns
from accelsim.engines.simt.products import cut
from accelsim.kernels.predict import Kernels, model_of
from accelsim.kernels.table import one
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.load import list_chips, load_chip
from tests.helpers.simt_cases import AROUND, GPU, product

GPUS = [row.name for row in list_chips() if load_chip(row.name).kind == "gpu"]
QUICK = settings(max_examples=40)
side = st.integers(1, 20_000) | st.sampled_from([1, 7, 64, 128, 129, 4096])
small = st.integers(1, 300)


@cache
def chip_of(name: str, *overrides: str) -> Chip:
    return load_chip(name, list(overrides))


@st.composite
def kernels(draw: Any) -> tuple[str, dict[str, str]]:
    """An op and its sizes."""
    kind = draw(
        st.sampled_from(["gemm", "bmm", "softmax", "layernorm", "add", "gelu", "conv2d", "attention", "copy"])
    )
    if kind in ("gemm", "bmm"):
        sizes = {key: draw(side) for key in "MKN"} | ({"B": draw(small)} if kind == "bmm" else {})
    elif kind == "conv2d":
        taps = draw(st.sampled_from([1, 3, 5, 7]))
        sizes = {"B": draw(small), "C_in": draw(small), "C_out": draw(small), "kernel": taps, "H_W": draw(st.integers(7, 60)),
                 "stride": draw(st.sampled_from([1, 2])), "padding": taps // 2}  # fmt: skip
    elif kind == "attention":
        heads = draw(st.sampled_from([1, 8, 32]))
        sizes = {"tokens": draw(st.sampled_from([1, 5, 128, 2048])), "kv": draw(st.integers(1, 8192)), "heads": heads,
                 "kv_heads": draw(st.sampled_from([1, heads])), "head_dim": draw(st.sampled_from([64, 128]))}  # fmt: skip
    elif kind == "copy":
        sizes = {"bytes": draw(st.integers(1, 1 << 32))}
    else:
        sizes = {"rows": draw(side), "cols": draw(side)}
    return kind, {key: str(value) for key, value in sizes.items()}


def seconds(chip: Chip, kernel: tuple[str, dict[str, str]], name: str) -> tuple[float, float]:
    """Time and the bound of the stated peaks."""
    times = Kernels(one(kernel[0], name, kernel[1]), chip).predicted(chip).times
    return float(times.seconds[0]), float(times.bound[0])


@pytest.mark.parametrize("name", GPUS)
@QUICK
@given(data=st.data(), kernel=kernels())
def test_no_kernel_beats_the_stated_peaks(
    name: str, data: st.DataObject, kernel: tuple[str, dict[str, str]]
) -> None:
    chip = chip_of(name)
    form = data.draw(st.sampled_from(list(model_of(chip).formats("product"))))
    time, bound = seconds(chip, kernel, form)
    assert np.isfinite(time) and 0 <= bound <= time


@pytest.mark.parametrize("change", ["clock", "memory", "launch"])
@QUICK
@given(kernel=kernels())
def test_more_of_anything_is_never_slower(change: str, kernel: tuple[str, dict[str, str]]) -> None:
    slow = chip_of("a100-80-sxm", "peak={}")
    fast = chip_of(
        "a100-80-sxm", "peak={}",
        {"clock": "clock=1.6 GHz", "memory": "hbm.memory.bandwidth=3 TB/s", "launch": "sm.launch=1 us"}[change],
    )  # fmt: skip
    assert seconds(fast, kernel, "fp16")[0] <= seconds(slow, kernel, "fp16")[0] * (1 + 1e-12)


@QUICK
@given(st.integers(1, 64), small, small, st.integers(1, 40))
def test_a_larger_batch_is_never_faster(batch: int, rows: int, cols: int, more: int) -> None:
    chip = chip_of("t4")
    few, many = (
        seconds(chip, ("bmm", {"B": str(count), "M": str(rows), "K": "256", "N": str(cols)}), "fp16")[0]
        for count in (batch + 1, batch + 1 + more)
    )
    assert few <= many * (1 + 1e-12)


@QUICK
@given(
    st.integers(1, 900),
    st.integers(1, 900),
    st.integers(1, 900),
    st.sampled_from([1, 2, 3]),
    st.integers(0, 2),
)
def test_the_closed_form_for_tables_is_that_of_the_blocks(
    m: int, n: int, k: int, splits: int, tile: int
) -> None:
    """Columns of floats against whole clocks of blocks: a clock for each of a multiprocessor's blocks, at the most."""
    p = product(m, n, k, "fp32")
    found = next(
        iter(ProductKernels(GPU, AROUND, p, cut(GPU, "fp32", columns(GPU, p), [GPU.tiles[tile]], splits))),
        None,
    )
    if found is None:
        return
    from accelsim.engines.simt.products import shapes, timed

    shape = shapes(
        GPU, AROUND, "fp32", columns(GPU, p), cut(GPU, "fp32", columns(GPU, p), [GPU.tiles[tile]], splits)
    )
    cost = timed(GPU, AROUND, "fp32", shape)
    blocks = -(-found.grid.blocks // GPU.multiprocessors)
    assert found.clocks - found.adds == pytest.approx(
        float(cost.computing[0]) * AROUND.clock_Hz, abs=blocks + 2
    )
