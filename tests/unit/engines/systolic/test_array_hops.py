"""Words from PE to PE: what an enumeration of every word's way says."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.engines.systolic.counts import counts, hops

SIZES = st.integers(1, 9)


def _load_hops(rows: int, cols: int, per_clock: int, wave: bool) -> int:
    """Steps of all stationary words of a fold behind the first PE that takes them in."""
    steps = 0
    for _ in range(cols):
        for row in range(rows):
            steps += row if wave else row // per_clock
    return steps


@settings(max_examples=150)
@given(SIZES, SIZES, SIZES, SIZES, SIZES, st.sampled_from(["ws", "is"]), st.sampled_from(["sequential", "overlapped"]),
       st.sampled_from(["column", "diagonal"]), st.integers(1, 3))  # fmt: skip
def test_stationary(
    rows: int, cols: int, M: int, N: int, K: int, flow: str, schedule: str, shadow: str, p: int
) -> None:
    wave = schedule == "overlapped" and shadow == "diagonal"
    p = 1 if wave else p
    spatial, streamed = (K, N, M)[:2] if flow == "ws" else (K, M), M if flow == "ws" else N
    folds = -(-spatial[0] // rows) * -(-spatial[1] // cols)
    right = sum(cols - 1 for _ in range(rows))  # a row's word passes all columns
    down = sum(rows - 1 for _ in range(cols))  # a sum passes all rows, then leaves
    found = hops(flow, counts(rows, cols, flow, schedule, M, N, K, shadow_load=shadow, load_rows_per_clock=p))
    assert found.operands == folds * (right * streamed + _load_hops(rows, cols, p, wave))
    assert found.sums == folds * down * streamed


@settings(max_examples=80)
@given(SIZES, SIZES, SIZES, SIZES, SIZES)
def test_output_stationary(rows: int, cols: int, M: int, N: int, K: int) -> None:
    folds = -(-M // rows) * -(-N // cols)
    moving = K * (rows * (cols - 1) + cols * (rows - 1))
    shifted_out = sum(rows - 1 - row for _ in range(cols) for row in range(rows))
    found = hops("os", counts(rows, cols, "os", "overlapped", M, N, K))
    assert (found.operands, found.sums) == (folds * moving, folds * shifted_out)
