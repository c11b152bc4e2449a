"""Thresholds equal those of NVIDIA's pytorch_quantization and of ONNX Runtime; a slow oracle agrees anywhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.errors import UsageError
from accelsim.formats.ranges import ort
from accelsim.formats.ranges.entropy import START, _divergences, divergence, entropy_bins
from accelsim.formats.ranges.methods import METHODS, Collector, affine_range, parameters, peak_of, threshold
from accelsim.workload.graph import Array

GOLDEN = Path(__file__).parents[2] / "golden" / "numerics"
ENTRIES: list[dict[str, Any]] = json.loads((GOLDEN / "range_thresholds.json").read_text())
entries = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["name"])
methods = pytest.mark.parametrize("method", METHODS)


@pytest.fixture(scope="module")
def golden() -> dict[str, Array]:
    return dict(np.load(GOLDEN / "range_histograms.npz"))


def collector_of(*batches: Any, signed: bool = True) -> Collector:
    collector = Collector(signed=signed)
    for batch in batches:
        collector.add(np.asarray(batch, np.float32))
    return collector


def clipped(low: float, high: float, x: Array) -> list[float]:
    return [max(low, float(x.min())), min(high, float(x.max()))]


@entries
@pytest.mark.parametrize(
    ("method", "percentile", "key"),
    [
        ("entropy", None, "trt_entropy_amax"),
        ("mse", None, "mse_amax"),
        ("percentile", 99.9, "pct_99.9"),
        ("percentile", None, "pct_99.99"),
        ("percentile", 99.999, "pct_99.999"),
    ],
)
def test_thresholds_of_nvidia(
    golden: dict[str, Array], entry: dict[str, Any], method: str, percentile: float | None, key: str
) -> None:
    name = entry["name"]
    found = threshold(method, golden[f"h2048_{name}"], golden[f"e2048_{name}"], percentile=percentile)
    assert found == entry[key]


@entries
@pytest.mark.parametrize("bins", [(128, 128), (2048, 128), (8001, 255)], ids=str)
def test_entropy_of_onnxruntime(golden: dict[str, Array], entry: dict[str, Any], bins: tuple[int, int]) -> None:
    x = golden[f"x_{entry['name']}"]
    want = entry.get("ort_entropy_{}_{}".format(*bins))
    if want is None:
        assert bins == (8001, 255)
        return
    peak = np.abs(x).max()
    found = ort.entropy_range(*np.histogram(x, bins[0], range=(-peak, peak)), bins[1])
    assert clipped(*found, x) == want


@entries
@pytest.mark.parametrize("percentile", ["99.9", "99.99", "99.999"])
def test_percentile_of_onnxruntime(golden: dict[str, Array], entry: dict[str, Any], percentile: str) -> None:
    x = golden[f"x_{entry['name']}"]
    counts, edges = np.histogram(np.abs(x), 2048)
    asked = None if percentile == "99.999" else float(percentile)
    found = threshold("percentile-ort", counts, edges, percentile=asked)
    assert clipped(-found, found, x) == entry[f"ort_pct_{percentile}_sym"]


@entries
@pytest.mark.parametrize("bins", [128, 2048])
def test_entropy_ort_from_a_collector(golden: dict[str, Array], entry: dict[str, Any], bins: int) -> None:
    x = golden[f"x_{entry['name']}"]
    collector = Collector(1024, signed=True)
    collector.add(x)
    found = affine_range("entropy-ort", collector, num_bins=bins)
    want = entry[f"ort_entropy_{bins}_128"]
    width = float(np.abs(x).max()) / 1024
    # edges over [-T, T] are rounded otherwise; candidates reach one bin further up than down, and the larger
    # side is taken for both
    assert found[1] == pytest.approx(want[1], abs=1e-3 * width)
    assert want[0] - width * 1.001 <= found[0] <= want[0] + 1e-3 * width


def test_onnxruntime_by_default_does_nothing(golden: dict[str, Array]) -> None:
    for entry in ENTRIES:
        collector = collector_of(golden[f"x_{entry['name']}"])
        assert peak_of("entropy-ort", collector, num_bins=ort.NUM_BINS) == collector.absmax


def slow_divergences(counts: list[int], levels: int) -> list[float]:
    """From the description, with plain loops."""
    stats = pytest.importorskip("scipy.stats")
    bins = [counts[1], *counts[1:]]
    found = []
    for kept in range(START, len(bins) + 1):
        stretch = [[k for k in range(kept) if k * levels // kept == level] for level in range(levels)]
        q = [0.0] * kept
        for members in stretch:
            filled = [k for k in members if bins[k]]
            for k in filled:
                q[k] = sum(bins[j] for j in members) / len(filled)
        p = [float(n) for n in bins[:kept]]
        p[-1] += sum(bins[kept:])
        found.append(float(stats.entropy(p, q)) if any(q) else float("inf"))
    return found


@st.composite
def histograms(draw: st.DrawFn) -> Array:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    size, many = draw(st.integers(START, START + 40)), draw(st.sampled_from([3, 100, 100_000]))
    shape = draw(st.sampled_from([0.0, 0.01, 0.1]))
    means = many * np.exp(-shape * np.arange(size)) * (rng.random(size) < draw(st.sampled_from([0.1, 0.6, 1.0])))
    counts = rng.poisson(means)
    counts[-1] += 1
    return counts


@settings(max_examples=30)
@given(histograms(), st.sampled_from([2, 8, 128, 256]))
def test_entropy_is_the_slow_one(counts: Array, levels: int) -> None:
    want = np.array(slow_divergences(counts.tolist(), levels))
    bins = counts.astype(float)
    bins[0] = bins[1]
    kept = np.arange(START, len(counts) + 1)
    for found in (_divergences(bins, kept, levels), [divergence(bins, int(i), levels) for i in kept]):
        np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-12)
    chosen = entropy_bins(counts, levels)
    if np.all(np.isinf(want)):
        assert chosen == len(counts)
        return
    close = kept[want <= want.min() + 1e-12]
    assert chosen in close
    assert len(close) > 1 or chosen == close[0]


def test_the_last_of_equal_candidates_wins() -> None:
    counts = np.ones(START + 64, np.int64)
    counts[START + 10 :] = 0
    counts[2:] *= np.arange(len(counts) - 2) < 5
    # all values lie in the first bins, each a level of its own in every candidate: nothing differs
    want = slow_divergences(counts.tolist(), START)
    assert entropy_bins(counts, START) == len(counts) - int(np.argmin(want[::-1]))
    fine = 4 * len(counts)
    assert {divergence(counts.astype(float), i, fine) for i in (START, len(counts))} == {0.0}
    assert entropy_bins(counts, fine) == len(counts)


def test_outliers_where_nothing_was_kept_are_impossible() -> None:
    counts = np.zeros(300, np.int64)
    counts[[0, 1, 5, 299]] = 10, 10, 10, 1
    assert entropy_bins(counts, 128) == 300
    counts[:299] = 0
    assert entropy_bins(counts, 128) == 300


@methods
@pytest.mark.parametrize("bits", [2, 4, 8, 16])
def test_every_method_stays_within_the_data(method: str, bits: int) -> None:
    rng = np.random.default_rng(bits)
    collector = collector_of(rng.standard_normal(4000), rng.standard_t(3, 4000))
    peak = peak_of(method, collector, bits)
    assert 0 < peak <= collector.absmax
    low, high = affine_range(method, collector, bits)
    assert collector.low <= low < 0 < high <= collector.high
    scale, zero_point = parameters(collector, "int8", method)
    assert (scale, zero_point) == (np.float32(peak_of(method, collector) / 127), 0)
    scale, zero_point = parameters(collector, "uint8", method, symmetric=False)
    assert 0 < zero_point < 255
    assert -zero_point * scale == pytest.approx(affine_range(method, collector)[0], abs=float(scale))


@methods
def test_scaling_the_data_scales_the_threshold(method: str) -> None:
    x = np.random.default_rng(8).laplace(size=3000)
    one, other = (peak_of(method, collector_of(x * factor)) for factor in (1, 4))
    assert other == 4 * one


@methods
@pytest.mark.parametrize("batches", [[], [[0.0, 0.0]], [[1e-42]]], ids=["nothing", "zeros", "subnormal"])
def test_nothing_seen_gives_scale_one(method: str, batches: list[list[float]]) -> None:
    collector = collector_of(*batches)
    counts, edges = collector.signed_histogram() if METHODS[method].signed else (collector.counts, collector.edges)
    assert threshold(method, counts, edges) == 0.0
    for dtype in ("int8", "uint8", "fp8_e4m3fn", "int1"):
        for symmetric in (True, False):
            assert parameters(collector, dtype, method, symmetric) == (1, 0)


@methods
def test_a_constant_is_represented(method: str) -> None:
    collector = collector_of(np.full(100, 3.0))
    assert peak_of(method, collector) == pytest.approx(3.0, rel=1 / 2048)
    assert parameters(collector, "uint8", method, symmetric=False)[1] == 0


@given(st.lists(st.floats(0, 100, width=32), min_size=1, max_size=50), st.floats(0.001, 100))
def test_percentile_covers_what_it_says(values: list[float], percentile: float) -> None:
    collector = collector_of(values)
    found = threshold("percentile", collector.counts, collector.edges, percentile=percentile)
    if collector.edges[-1] == 0:
        return
    width = float(collector.edges[1])
    covered = np.mean(np.array(values) <= found + width * 1.001)
    assert covered >= percentile / 100 - 1e-9
    if percentile == 100:
        assert found == collector.edges[-1]


def test_percentile_of_mostly_zeros_keeps_a_range() -> None:
    collector = collector_of(np.zeros(999), [5.0])
    assert threshold("percentile", collector.counts, collector.edges, percentile=90) == collector.edges[1]


def test_percentiles_per_side() -> None:
    x = np.concatenate([np.linspace(-1, 0, 1000), np.linspace(0, 8, 1000)])
    low, high = affine_range("percentile", collector_of(x), percentile=90)
    assert low == pytest.approx(-0.9, abs=0.005)
    assert high == pytest.approx(7.2, abs=0.02)
    one_sided = collector_of(np.abs(x), signed=False)
    assert affine_range("percentile", one_sided, percentile=90)[1] < 8


def test_a_two_sided_histogram_is_added_up() -> None:
    collector = collector_of(np.random.default_rng(1).standard_normal(3000))
    for method in ("absmax", "percentile", "mse", "entropy"):
        both = threshold(method, *collector.signed_histogram())
        assert both == threshold(method, collector.counts, collector.edges)


def test_absmax_of_a_histogram_is_the_edge_above() -> None:
    assert threshold("absmax", np.array([1, 2, 0]), np.array([0, 1, 2, 3.0])) == 2.0


def test_unsigned_codes_have_twice_the_levels() -> None:
    x = np.abs(np.random.default_rng(2).standard_t(2, 20_000))
    counts, edges = (collector := collector_of(x)).counts, collector.edges
    for method in ("mse", "entropy"):
        assert threshold(method, counts, edges, 8, True) == threshold(method, counts, edges, 9)
        assert threshold(method, counts, edges, 4) < threshold(method, counts, edges, 8, True)


def test_binary_scale_is_the_mean_magnitude() -> None:
    collector = collector_of([1.0, -3.0], [0.0, 4.0])
    assert parameters(collector, "int1", "entropy") == (2.0, 0)
    assert parameters(collector, "fp8_e4m3fn") == (np.float32(4 / 448), 0)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"method": "entropi"}, "did you mean 'entropy'"),
        ({"percentile": 0.0}, "percentile 0; expected above 0, at most 100"),
        ({"percentile": 100.5}, "percentile 100.5"),
        ({"percentile": float("nan")}, "percentile nan"),
        ({"bits": 1}, "codes of 1 bits; expected 2 to 16"),
        ({"edges": np.zeros(3)}, "4 counts and 3 edges"),
        ({"method": "entropy-ort"}, r"expected counts over \[-T, T\]"),
        ({"edges": np.linspace(-1, 1, 4), "counts": np.ones(3)}, "3 bins over"),
        ({"num_quantized_bins": 1}, "too few bins"),
    ],
)
def test_what_does_not_fit_is_named(arguments: dict[str, Any], text: str) -> None:
    usual = {"method": "percentile", "counts": np.ones(4), "edges": np.arange(5.0)}
    with pytest.raises(UsageError, match=text):
        threshold(**{**usual, **arguments})


def test_all_problems_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        threshold("percentile", np.ones(2), np.arange(3.0), bits=40, percentile=-1)
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize("call", [affine_range, peak_of])
def test_unknown_method_in_other_entries(call: Any) -> None:
    with pytest.raises(UsageError, match="did you mean 'mse'"):
        call("msee", collector_of([1.0]))


def test_sides_need_a_signed_collector() -> None:
    collector = collector_of([-1.0, 1.0], signed=False)
    for method in ("percentile", "entropy-ort"):
        with pytest.raises(UsageError, match="signed=True"):
            affine_range(method, collector)
    with pytest.raises(UsageError, match="percentile 200"):
        affine_range("percentile", collector_of([-1.0, 1.0]), percentile=200)
