"""Closed forms of accesses: by hand on a small case, conservation laws, SCALE-Sim's own figures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.engines.systolic.counts import COUNTS, counts
from accelsim.engines.systolic.dataflow import DATAFLOWS
from accelsim.engines.systolic.timing import folds, spatial
from tests.validation.scalesim_report import scalesim_report

HARDWARE = [
    (flow, schedule, shadow)
    for flow in DATAFLOWS
    for schedule, shadow in (("sequential", "column"), ("overlapped", "column"), ("overlapped", "diagonal"))
]
size = st.integers(1, 60)
array = st.integers(1, 20)


def test_weight_stationary_by_hand():
    """3 x 4 x 5 on 2 x 3: 3 folds along K, 2 along N, 3 rows streamed."""
    c = counts(2, 3, "ws", "overlapped", 3, 4, 5)
    assert (c.macs, c.mac_padding) == (60, 6 * 18 - 60)
    assert (c.row_words, c.row_padding) == (2 * 15, 36 - 30)  # A once per column of folds
    assert (c.col_words, c.col_padding) == (20, 36 - 20)  # B once
    assert (c.output_words, c.accumulator_writes, c.accumulator_reads) == (36, 36, 24)
    assert (c.shadow_writes, c.shadow_reads) == (6 * 3 * 3, 6 * 3 * 1 + 36)
    assert (c.stationary_writes, c.stationary_reads) == (36, 108 - 36)


def test_output_stationary_by_hand():
    """3 x 4 x 5 on 2 x 3: 2 folds each way, 5 rows streamed; one result per column moves down one row."""
    c = counts(2, 3, "os", "overlapped", 3, 4, 5)
    assert (c.row_words, c.col_words) == (2 * 15, 2 * 20)
    assert (c.output_words, c.output_padding) == (12, 4 * 6 - 12)
    assert c.psum_writes == 4 * (30 + 3)
    assert c.psum_reads == 4 * (6 * 4 + 3 + 6)
    assert (c.accumulator_reads, c.accumulator_writes) == (0, 12)
    assert c.moving_reads == 4 * 5 * (2 * 2 + 1 * 3)


@pytest.mark.parametrize(("flow", "schedule", "shadow"), HARDWARE)
@given(R=array, C=array, M=size, N=size, K=size, lanes=st.integers(1, 4))
def test_conservation(flow, schedule, shadow, R, C, M, N, K, lanes):
    c = counts(R, C, flow, schedule, M, N, K, shadow_load=shadow, load_rows_per_clock=lanes)
    T = spatial(flow, M, N, K)[2]
    Fr, Fc = folds(R, C, flow, M, N, K)
    assert c.macs == M * N * K
    assert c.macs + c.mac_padding == Fr * Fc * R * C * T
    assert all(count >= 0 for count in c.as_dict().values())
    assert c.row_words + c.row_padding == Fr * Fc * R * T
    assert c.accumulator_writes - c.accumulator_reads == M * N
    assert c.accumulator_writes == c.output_words
    # every written word of the load is either entered at a port or read from another register
    loaded = c.shadow_writes if schedule == "overlapped" else c.stationary_writes
    if DATAFLOWS[flow].stationary:
        assert c.col_words + c.col_padding == Fr * Fc * R * C
        assert loaded >= c.col_words + c.col_padding
    else:
        assert loaded == 0


@given(st.sampled_from(HARDWARE), st.lists(st.tuples(array, array, size, size, size), min_size=1, max_size=5))
def test_vectors_equal_scalars(machine, cases):
    flow, schedule, shadow = machine
    R, C, M, N, K = np.array(cases, np.int64).T
    at_once = counts(R, C, flow, schedule, M, N, K, shadow_load=shadow).as_dict()
    for index, (r, c, m, n, k) in enumerate(cases):
        alone = counts(r, c, flow, schedule, m, n, k, shadow_load=shadow).as_dict()
        assert {name: int(at_once[name][index]) for name in COUNTS} == alone


def test_faster_load_passes_fewer_registers_in_a_chain_but_not_in_a_wave():
    column = [counts(8, 1, "ws", "overlapped", 8, 1, 8, load_rows_per_clock=p).shadow_writes for p in (1, 2, 8)]
    assert column == [36, 20, 8]
    wave = counts(8, 1, "ws", "overlapped", 8, 1, 8, shadow_load="diagonal", load_rows_per_clock=4)
    assert wave.shadow_writes == 36


def test_scalesim_never_counts_partial_sums_it_reads_again():
    report = scalesim_report(4, 4, "ws", 10, 4, 12)
    real = counts(4, 4, "ws", "sequential", 10, 4, 12)
    assert report.sram_ofmap_writes == real.accumulator_writes == 120
    assert real.accumulator_reads == 80
    assert report.sram_ifmap_reads == real.row_words


def test_scalesim_os_counts_too_many_outputs():
    report = scalesim_report(4, 8, "os", 10, 4, 12)
    real = counts(4, 8, "os", "sequential", 10, 4, 12)
    assert report.sram_ofmap_writes - real.output_words == 3 * (4 + 8)
