"""Patterns against arrays written out index by index; conflicts by hand; buffers of spec files."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from accelsim.errors import UsageError
from accelsim.sram import banks as banks_module
from accelsim.sram.banks import Banking, conflicts, degrees
from accelsim.sram.patterns import IDLE, Pattern, accumulate, feed, im2col, strided
from tests.helpers.sram_banks import bank_loads, strided_clocks


def every(pattern: Pattern) -> np.ndarray:
    return pattern.at(np.arange(pattern.clocks))


@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
def test_a_feed_reads_each_element_once_and_in_time(dataflow: str) -> None:
    rows, length, stride, size = 3, 5, 40, 2
    found = every(feed(dataflow, rows, length, stride, size, start_B=8))
    assert found.shape == (length + rows - 1, rows)
    for clock in range(length + rows - 1):
        for port in range(rows):
            step = clock - port
            at = (step, port) if dataflow == "ws" else (port, step)
            expected = 8 + at[0] * stride + at[1] * size if 0 <= step < length else IDLE
            assert found[clock, port] == expected
    straight = feed(dataflow, rows, length, stride, size, skewed=False)
    assert straight.clocks == length and IDLE not in every(straight)


@pytest.mark.parametrize("stride", [1, 2])
def test_im2col_reads_what_a_convolution_multiplies(stride: int) -> None:
    height, width, channels, kernel, first = 6, 7, 3, 3, 5
    image = np.arange(height * width * channels).reshape(height, width, channels)
    windows = np.array([
        image[y : y + kernel, x : x + kernel].ravel()
        for y in range(0, height - kernel + 1, stride)
        for x in range(0, width - kernel + 1, stride)
    ])  # fmt: skip
    pattern = im2col(30, height, width, channels, kernel, stride, 1, first=first)
    found = every(pattern)
    for port in range(30):
        column = found[port : port + len(windows), port]
        if first + port < windows.shape[1]:
            assert column.tolist() == windows[:, first + port].tolist()
            assert (found[:port, port] == IDLE).all()
        else:
            assert (found[:, port] == IDLE).all()


def test_an_accumulator_writes_what_it_read_before() -> None:
    cols, length, latency = 4, 6, 2
    pattern = accumulate(cols, length, 16, 4, latency=latency)
    found = every(pattern)
    reads, writes = found[:, ~pattern.writes], found[:, pattern.writes]
    assert (writes[latency:] == reads[:-latency]).all()
    assert (writes[:latency] == IDLE).all()
    assert sorted(reads[reads != IDLE]) == [4 * i for i in range(cols * length)]


def test_updates_collide_in_single_ported_banks() -> None:
    pattern = accumulate(4, 100, 16, 4)
    one = conflicts(pattern, Banking(4, 4, 1))
    two = conflicts(pattern, Banking(4, 4, 2))
    assert two.slowdown == 1 and two.stalls == 0
    assert one.degrees[2] == one.stalls == one.conflicting
    assert one.slowdown > Fraction(19, 10)
    assert one.words == two.words == 2 * 4 * 100
    assert conflicts(accumulate(4, 100, 16, 4, skewed=False), Banking(8, 4, 1)).slowdown == 1, (
        "rows alternate between two halves of the banks, so a read never meets a write"
    )


def test_lanes_that_read_one_word_share_it() -> None:
    assert conflicts(strided(16, 1), Banking(2, 8)).words == 2
    assert conflicts(strided(16, 0), Banking(2, 8)).taken == 1
    straight = feed("ws", 64, 10, 64, 1, skewed=False)
    assert conflicts(straight, Banking(4, 16)).slowdown == 1
    assert conflicts(straight, Banking(2, 16)).slowdown == 2


def test_a_skewed_feed_of_wide_words_wastes_them() -> None:
    """Every port is in another row, so each takes a whole word for one byte."""
    assert conflicts(feed("ws", 64, 200, 64, 1), Banking(4, 16)).slowdown > 10
    assert conflicts(feed("ws", 64, 200, 64, 1), Banking(64, 1)).slowdown == 1


def test_rows_of_a_power_of_two_want_xor_or_padding() -> None:
    column = feed("os", 8, 64, 64, 1, skewed=False)
    assert conflicts(column, Banking(8, 1, interleave="low")).slowdown == 8
    assert conflicts(column, Banking(8, 1, interleave="row", row_words=64)).slowdown == 1
    padded = feed("os", 8, 64, 65, 1, skewed=False)
    assert conflicts(padded, Banking(8, 1)).slowdown == 1
    tall = feed("os", 8, 64, 8, 1, skewed=False)
    assert conflicts(tall, Banking(8, 1)).slowdown == 8
    assert conflicts(tall, Banking(8, 1, interleave="xor")).slowdown == 1


def test_long_patterns_are_cut_without_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    pattern, banking = im2col(27, 20, 20, 3, 3, 2), Banking(8, 4, 2)
    whole = degrees(pattern, banking)
    monkeypatch.setattr(banks_module, "CHUNK", 100)
    pieces = degrees(pattern, banking)
    assert (whole[0] == pieces[0]).all() and (whole[1] == pieces[1]).all()
    assert bank_loads(pattern, banking, 50).sum() == whole[1][50]


def test_banks_do_not_change_a_run() -> None:
    import accelsim

    runs = [
        accelsim.run("gemm?M=16,N=8,K=8", on="edu-4x4", values="off", set=overrides)
        for overrides in ([], ["act_sram.banks=2"])
    ]
    assert runs[0].time_fs == runs[1].time_fs and runs[0].ledger == runs[1].ledger


@pytest.mark.parametrize(
    ("make", "where"),
    [
        (lambda: Banking(0, 0, 0), "banks word_B ports"),
        (lambda: Banking(2, 4, interleave="xorr"), "interleave"),
        (lambda: Banking(6, 4, interleave="xor"), "banks"),
        (lambda: feed("sw", 4, 4, 4), "dataflow"),
        (lambda: feed("ws", 0, 0, 4), "rows length"),
        (lambda: feed("ws", 4, 4, 5, 2), "stride_B"),
        (lambda: im2col(4, 3, 3, 1, 4), "kernel"),
        (lambda: conflicts(feed("ws", 4, 4, 6, 3), Banking(2, 4)), "word_B"),
    ],
)
def test_what_makes_no_sense_is_refused(make, where: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError) as error:
        make()
    assert [problem.where for problem in error.value.problems] == where.split()


def test_closed_form_by_hand() -> None:
    assert strided_clocks(32, 1, 32) == 1
    assert strided_clocks(32, 2, 32) == 2
    assert strided_clocks(32, 33, 32) == 1
    assert strided_clocks(32, 32, 32) == 32
    assert strided_clocks(32, 32, 32, ports=2) == 16
    assert strided_clocks(32, 0, 32) == 1


def test_a_read_and_a_write_of_one_word_are_two() -> None:
    """Column 1 reads row t - 1 while column 0 writes it; both sums lie in one word of 8 bytes."""
    found = conflicts(accumulate(2, 1, 8, 4), Banking(1, 8))
    assert found.words == 4 and found.degrees == {1: 2, 2: 1}
    assert conflicts(accumulate(2, 1, 8, 4), Banking(1, 8, 2)).slowdown == 1
