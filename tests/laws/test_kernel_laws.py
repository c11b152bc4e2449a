"""Laws of single kernels, of every op on every GPU: bounds, order, agreement with the blocks one by one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.engines.simt.kernels import columns, fitting_kernels
from accelsim.engines.simt.products import cut, shapes, timed
from accelsim.kernels.predict import Kernels, model_of
from accelsim.kernels.table import several
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.load import list_chips, load_chip
from accelsim.types import Floats
from tests.helpers.kernel_draws import KINDS, Rows, drawn
from tests.helpers.simt_cases import AROUND, GPU, product

GPUS = [row.name for row in list_chips() if load_chip(row.name).kind == "gpu"]
DRAWS, EACH = 20, 100
"""Draws of a kind, and kernels of each: 2,000 together, a fifth of them in the core."""
EQUAL = 1 + 1e-9
"""Times more than this apart differ."""
QUICK = settings(max_examples=DRAWS)
seeds = st.integers(0, 2**32 - 1)


@cache
def chip_of(name: str, *overrides: str) -> Chip:
    return load_chip(name, list(overrides))


def times(name: str, kind: str, form: str, rows: Rows, *overrides: str) -> tuple[Floats, Floats]:
    """Seconds of kernels, and the bounds of the stated peaks."""
    chip = chip_of(name, *overrides)
    found = Kernels(several(KINDS[kind].op, form, rows), chip).predicted(chip).times
    return found.seconds, found.bound


def formats(name: str, kind: str) -> list[str]:
    """Formats of a kind of kernels on a chip."""
    family = {"serving_linear": "layer", "moe": "experts"}.get(kind, "product")
    return list(model_of(chip_of(name)).formats(family))


def more_of(name: str, kind: str) -> Iterator[str]:
    """A chip with more of something each time.

    Norms of long rows read these again where the rows of all multiprocessors do not stay in the L2 cache, so that more
    multiprocessors with the same cache may be slower.
    """
    chip = chip_of(name)
    memory = next(key for key, each in chip.memories.items() if "activations" in each.holds)
    unit, Bps = chip.engines["sm"], float(chip.memories[memory].memory.peak_Bps)
    if kind not in ("layernorm", "rmsnorm"):
        yield from (f"sm.multiprocessors={unit.multiprocessors + extra}" for extra in (1, 7, 64))  # type: ignore[attr-defined]
    yield f"{memory}.memory.bandwidth={Bps * 1.3 / 1e9:.6g} GB/s"
    yield f"clock={float(chip.clock) * 1.2 / 1e6:.6g} MHz"


@pytest.mark.parametrize("kind", KINDS)
@QUICK
@given(seed=seeds, name=st.sampled_from(GPUS), data=st.data())
def test_no_kernel_is_faster_than_the_stated_peaks_allow(kind: str, seed: int, name: str, data: st.DataObject) -> None:
    form = data.draw(st.sampled_from(formats(name, kind)))
    seconds, bound = times(name, kind, form, drawn(kind, seed, EACH))
    assert np.isfinite(seconds).all() and (bound >= 0).all()
    assert (seconds * EQUAL >= bound).all(), (form, drawn(kind, seed, EACH)[int(np.argmin(seconds / bound))])


@pytest.mark.parametrize("kind", KINDS)
@QUICK
@given(seed=seeds, name=st.sampled_from(GPUS), data=st.data())
def test_more_of_anything_is_never_slower(kind: str, seed: int, name: str, data: st.DataObject) -> None:
    form, rows = data.draw(st.sampled_from(formats(name, kind))), drawn(kind, seed, EACH)
    before, _ = times(name, kind, form, rows, "peak={}")
    for override in more_of(name, kind):
        after, _ = times(name, kind, form, rows, "peak={}", override)
        worst = int(np.argmax(after / before))
        assert after[worst] <= before[worst] * EQUAL, (override, form, rows[worst], after[worst] / before[worst])


@pytest.mark.parametrize("kind", KINDS)
@QUICK
@given(seed=seeds, name=st.sampled_from(GPUS), share=st.sampled_from([0.5, 0.9, 0.99]), data=st.data())
def test_a_smaller_batch_is_never_dearer(kind: str, seed: int, name: str, share: float, data: st.DataObject) -> None:
    form, rows, key = (data.draw(st.sampled_from(formats(name, kind))), drawn(kind, seed, EACH), KINDS[kind].batch)
    less = [{**row, key: str(max(1, int(int(row[key]) * share)))} for row in rows]
    (before, _), (after, _) = times(name, kind, form, rows), times(name, kind, form, less)
    worst = int(np.argmax(after / before))
    assert after[worst] <= before[worst] * EQUAL, (form, rows[worst], less[worst], after[worst] / before[worst])


@settings(max_examples=40)
@given(st.integers(1, 900), st.integers(1, 900), st.integers(1, 900), st.sampled_from([1, 2, 3]), st.integers(0, 2))
def test_the_closed_form_for_tables_is_that_of_the_blocks(m: int, n: int, k: int, splits: int, tile: int) -> None:
    """Columns of floats against whole clocks of blocks: a clock for each of a multiprocessor's blocks, at the most."""
    p = product(m, n, k, "fp32")
    found = next(fitting_kernels(GPU, AROUND, p, cut(GPU, "fp32", columns(GPU, p), [GPU.tiles[tile]], splits)), None)
    if found is None:
        return
    shape = shapes(GPU, AROUND, "fp32", columns(GPU, p), cut(GPU, "fp32", columns(GPU, p), [GPU.tiles[tile]], splits))
    cost = timed(GPU, AROUND, "fp32", shape)
    blocks = -(-found.grid.blocks // GPU.multiprocessors)
    assert found.clocks - found.adds == pytest.approx(float(cost.computing[0]) * AROUND.clock_Hz, abs=blocks + 2)
