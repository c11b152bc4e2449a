"""The histogram that is collected is NumPy's, whatever the batches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from accelsim.errors import UsageError
from accelsim.formats.collect import GROWTH
from accelsim.formats.ranges.methods import Collector
from accelsim.workload.graph import Array

GOLDEN = Path(__file__).parents[2] / "golden" / "numerics" / "range_histograms.npz"
NAMES = sorted(name.removeprefix("x_") for name in np.load(GOLDEN).files if name.startswith("x_"))

FLOATS = st.floats(-(2.0**100), 2.0**100, width=32)
GRID = st.integers(-40, 40).map(lambda k: k / 8)
"""Values that lie on the edges of many histograms."""
ARRAYS = hnp.arrays(np.float32, st.integers(1, 60), elements=st.one_of(FLOATS, GRID))


def collected(*batches: Array, bins: int = 2048, signed: bool = False) -> Collector:
    collector = Collector(bins, signed)
    for batch in batches:
        collector.add(batch)
    return collector


@pytest.fixture(scope="module")
def golden() -> dict[str, Array]:
    return dict(np.load(GOLDEN))


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_golden_histograms(golden: dict[str, Array], name: str, signed: bool) -> None:
    collector = collected(golden[f"x_{name}"], signed=signed)
    np.testing.assert_array_equal(collector.counts, golden[f"h2048_{name}"])
    np.testing.assert_array_equal(collector.edges, golden[f"e2048_{name}"])
    assert collector.edges.dtype == np.float32


@given(ARRAYS, st.sampled_from([16, 128, 2048]))
def test_counts_are_those_of_numpy(x: Array, bins: int) -> None:
    peak = np.abs(x).max()
    collector = collected(x, bins=bins)
    if peak / bins < np.finfo(np.float32).tiny:
        assert collector.counts[0] == x.size
        assert not collector.edges.any()
        return
    counts, edges = np.histogram(np.abs(x), bins, (0, peak))
    np.testing.assert_array_equal(collector.edges, edges)
    np.testing.assert_array_equal(collector.counts, counts)


def test_values_on_and_beside_edges() -> None:
    peak = np.float32(0.7)
    edges = np.histogram_bin_edges(np.zeros(1, np.float32), 2048, (0, peak))
    beside = [np.nextafter(edges, np.float32(way)) for way in (0, 1)]
    x = np.concatenate([edges, *beside, -edges])
    x = x[np.abs(x) <= peak]
    np.testing.assert_array_equal(collected(x).counts, np.histogram(np.abs(x), 2048, (0, peak))[0])


@given(st.lists(ARRAYS, min_size=1, max_size=4), st.booleans())
def test_nothing_is_lost_when_the_range_grows(batches: list[Array], signed: bool) -> None:
    collector, everything = collected(*batches, bins=8, signed=signed), np.concatenate(batches)
    sizes = np.abs(everything)
    assert collector.counts.sum() == collector.count == everything.size
    assert collector.absmax == sizes.max()
    assert (collector.low, collector.high) == (everything.min(), everything.max())
    assert collector.mean_abs == pytest.approx(sizes.mean(dtype=np.float64), rel=1e-12, abs=0)
    edges = collector.edges
    assert len(edges) == len(collector.counts) + 1 <= GROWTH * 8 + 2
    if edges[-1]:
        assert edges[-1] >= sizes.max()
        # a value on what was the last edge stays in the bin below it
        below = np.array([(sizes < edge).sum() for edge in edges[1:]])
        through = np.array([(sizes <= edge).sum() for edge in edges[1:]])
        reached = np.cumsum(collector.counts)
        assert np.all((below <= reached) & (reached <= through))


def test_grows_by_bins_of_the_same_width() -> None:
    rng = np.random.default_rng(3)
    first, second = (rng.standard_normal(5000).astype(np.float32) * scale for scale in (1, 2))
    collector, alone = collected(first, second), collected(first)
    assert len(collector.counts) > 2048
    np.testing.assert_array_equal(collector.edges[:2049], alone.edges)
    want = np.histogram(np.abs(second), collector.edges)[0]
    want[:2048] += alone.counts
    np.testing.assert_array_equal(collector.counts, want)


def test_a_tiny_first_batch_does_not_cost_memory() -> None:
    collector = collected(np.full(10, 1e-6), np.linspace(0, 1000, 1001), bins=64)
    assert 64 * GROWTH / 2 <= len(collector.counts) <= 64 * GROWTH + 1
    assert collector.counts.sum() == 1011
    assert collector.counts[0] >= 11


def test_zeros_wait_for_a_range() -> None:
    x = np.arange(5, dtype=np.float32)
    collector = collected(np.zeros(7, np.float32))
    assert (collector.counts[0], collector.edges.any(), collector.absmax) == (7, False, 0.0)
    collector.add(x)
    np.testing.assert_array_equal(collector.counts, collected(np.append(np.zeros(7, np.float32), x)).counts)


@given(ARRAYS)
def test_halves_of_a_signed_histogram_make_the_other(x: Array) -> None:
    counts, edges = collected(x, signed=True, bins=32).signed_histogram()
    plain = collected(x, bins=32)
    np.testing.assert_array_equal(counts[32:] + counts[:32][::-1], plain.counts)
    np.testing.assert_array_equal(edges[32:], plain.edges)
    np.testing.assert_array_equal(edges, -edges[::-1])
    if edges[-1]:
        assert counts[:32].sum() == np.count_nonzero(x < 0)


@settings(max_examples=20)
@given(st.integers(1, 4))
def test_chunks_do_not_show(parts: int) -> None:
    x = np.random.default_rng(parts).laplace(size=(parts, 33_333)).astype(np.float32)
    peak = np.abs(x).max()
    np.testing.assert_array_equal(collected(x).counts, np.histogram(np.abs(x), 2048, (0, peak))[0])


def test_empty_arrays_and_other_types() -> None:
    collector = collected(np.zeros((0, 3), np.float32), np.array([-3, 2], np.int8), np.array(0.5))
    assert (collector.low, collector.high, collector.count) == (-3.0, 2.0, 3)
    assert Collector().mean_abs == 0.0


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        ([1, np.nan], "conv1, batch 3: 1 NaN among 2 values; expected finite"),
        ([np.inf, -np.inf, 0], "2 infinite among 3"),
        ([np.nan, np.inf], "1 NaN and 1 infinite among 2"),
        ([1e300], "1 infinite among 1"),
    ],
)
def test_nan_and_infinity_are_named(bad: list[float], text: str) -> None:
    collector = collected(np.ones(3))
    with pytest.raises(UsageError, match=text):
        collector.add(np.array(bad), "conv1, batch 3")
    assert (collector.count, collector.counts.sum()) == (3, 3)


def test_what_cannot_be_asked() -> None:
    with pytest.raises(UsageError, match="at least 1"):
        Collector(0)
    with pytest.raises(UsageError, match=r"expected Collector\(signed=True\)"):
        collected(np.ones(2)).signed_histogram()
