"""Fold timing: the rules by hand, vectors against scalars, published figures, whole networks."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.engines.systolic.dataflow import DATAFLOWS
from accelsim.engines.systolic.spec import SHADOW_LOADS
from accelsim.engines.systolic.timing import SCHEDULES, cycles, fold_timing, folds, spatial
from accelsim.errors import UsageError

TOPOLOGY = Path(__file__).parents[4] / "../shared/topologies/resnet50.csv"

BY_HAND = [
    ("ws", "sequential", "column", 4, 3, 10, (4, 15, 10, 5)),
    ("ws", "overlapped", "column", 4, 3, 10, (4, 4, 10, 5)),
    ("is", "overlapped", "diagonal", 4, 3, 10, (4, 0, 10, 5)),
    ("ws", "scalesim", "column", 4, 3, 10, (4, 15, 10, 5)),
    ("os", "sequential", "column", 4, 3, 10, (0, 0, 18, 8)),
    ("os", "overlapped", "column", 4, 3, 10, (0, 0, 13, 8)),
    ("os", "scalesim", "column", 4, 3, 10, (0, 0, 15, 5)),
]


@pytest.mark.parametrize(("flow", "schedule", "shadow", "R", "C", "T", "expected"), BY_HAND)
def test_fold_timing_by_hand(flow, schedule, shadow, R, C, T, expected):
    fold = fold_timing(R, C, flow, schedule, shadow, T)
    assert (fold.load, fold.reload, fold.interval, fold.drain) == expected
    assert all(type(edge) is int for edge in (fold.load, fold.reload, fold.interval, fold.drain, fold.step))


def test_step_is_the_slower_of_streaming_and_loading():
    assert fold_timing(8, 8, "ws", "overlapped", "column", 10).step == 16
    assert fold_timing(8, 8, "ws", "overlapped", "column", 40).step == 40
    assert fold_timing(8, 8, "ws", "overlapped", "diagonal", 3).step == 8
    assert fold_timing(8, 8, "os", "overlapped", "column", 10).step == 17


def test_tpu_v1_hides_the_load_behind_256_rows():
    """Jouppi et al., ISCA 2017: B rows take B cycles, and 256 edges of shifting hide behind 256 rows."""
    for rows in (256, 300, 2048):
        assert fold_timing(256, 256, "ws", "overlapped", "diagonal", rows).step == rows
    assert fold_timing(256, 256, "ws", "overlapped", "diagonal", 100).step == 256


def test_neuron_core_v2_interval_is_the_larger_of_columns_and_64():
    """NKI guide: max(N, 64) cycles per multiply, stationary operand loaded four times faster."""
    for columns in (1, 63, 64, 65, 128, 512):
        fold = fold_timing(128, 128, "ws", "overlapped", "diagonal", columns, 4, 64)
        assert fold.step == max(columns, 64)


sizes = st.integers(1, 300)


@given(
    st.sampled_from(sorted(DATAFLOWS)),
    st.sampled_from(sorted(SCHEDULES)),
    st.sampled_from(sorted(SHADOW_LOADS)),
    st.lists(st.tuples(sizes, sizes, sizes, sizes, sizes), min_size=1, max_size=6),
    st.integers(1, 5),
    st.integers(0, 80),
)
def test_vectors_equal_scalars(flow, schedule, shadow, cases, lanes, interval):
    options = {"load_rows_per_clock": lanes, "min_interval": interval, "cycles_per_row": 2}
    columns = np.array(cases, np.int64).T
    at_once = cycles(columns[0], columns[1], flow, schedule, shadow, *columns[2:], **options)
    one_by_one = [cycles(R, C, flow, schedule, shadow, *mnk, **options) for R, C, *mnk in cases]
    assert at_once.tolist() == one_by_one


@given(st.sampled_from(sorted(DATAFLOWS)), sizes, sizes, sizes, sizes, sizes)
def test_more_overlap_is_never_slower(flow, R, C, M, N, K):
    sequential, column, diagonal = (
        cycles(R, C, flow, schedule, shadow, M, N, K)
        for schedule, shadow in (("sequential", "column"), ("overlapped", "column"), ("overlapped", "diagonal"))
    )
    assert diagonal <= column <= sequential
    along_rows, along_cols = folds(R, C, flow, M, N, K)
    assert diagonal >= along_rows * along_cols * spatial(flow, M, N, K)[2]


@given(sizes, sizes, sizes, sizes, sizes, st.sampled_from(sorted(SCHEDULES)))
def test_input_stationary_is_weight_stationary_exchanged(R, C, M, N, K, schedule):
    here = cycles(R, C, "is", schedule, "column", M, N, K)
    assert here == cycles(R, C, "ws", schedule, "column", N, M, K)


@pytest.mark.parametrize(
    ("flow", "schedule", "shadow", "hint"),
    [
        ("sw", "overlapped", "column", "ws"),
        ("ws", "overlaped", "column", "overlapped"),
        ("ws", "overlapped", "diag", "diagonal"),
    ],
)
def test_unknown_names(flow, schedule, shadow, hint):
    with pytest.raises(UsageError, match="expected one of") as caught:
        fold_timing(4, 4, flow, schedule, shadow, 4)
    assert caught.value.problems[0].nearest == hint


def resnet50():
    if not TOPOLOGY.exists():
        pytest.skip(f"the layer list of ResNet-50 is not here ({TOPOLOGY})")
    with TOPOLOGY.open(newline="") as file:
        for row in list(csv.reader(file))[1:]:
            if len(row) < 8:
                continue
            height, width, kernel_h, kernel_w, channels, kernels, stride = (int(cell) for cell in row[1:8])
            out_h, out_w = (-(-(height - kernel_h + stride) // stride), -(-(width - kernel_w + stride) // stride))
            yield out_h * out_w, kernels, channels * kernel_h * kernel_w


def test_resnet50_at_128x128():
    layers = list(resnet50())
    assert len(layers) == 54

    def total(flow, schedule):
        return sum(cycles(128, 128, flow, schedule, "column", *layer) for layer in layers)

    assert total("os", "scalesim") == 611_561
    assert total("ws", "scalesim") == 876_832
    assert total("os", "overlapped") / 611_561 == pytest.approx(5 / 6, abs=0.01)
    assert total("ws", "overlapped") / 876_832 == pytest.approx(2 / 3, abs=0.04)
    assert total("os", "sequential") / 611_561 == pytest.approx(1.18, abs=0.005)
