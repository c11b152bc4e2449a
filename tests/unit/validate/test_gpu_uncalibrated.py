"""Boards without constants of their own: what is claimed of their products holds, and is better than the peaks alone."""

from __future__ import annotations

from functools import cache

from accelsim.spec.yaml.load import load_chip
from tests.validation import gpu_uncalibrated
from tests.validation.gpu_uncalibrated import CLAIMED, boards, by_defaults, by_roofline, means

PEAKS_SUFFICE = {("rtx3090", "tensor"), ("b200-sxm", "lanes")}
"""Boards whose largest products run at the stated peak or above it, where a roofline is 1 point nearer."""


@cache
def own() -> dict[tuple[str, str], float]:
    return means(by_defaults())


def test_boards_have_no_constants_of_their_own() -> None:
    assert all(load_chip(each.chip).calibration is None for each in boards())


def test_they_are_as_near_as_is_claimed() -> None:
    assert own().keys() == CLAIMED.keys()
    for row, claimed in CLAIMED.items():
        assert 0.8 * claimed - 0.02 < own()[row] <= claimed, "neither more nor far less"


def test_defaults_are_nearer_than_a_roofline_with_the_stated_peaks() -> None:
    for row, plain in means(by_roofline()).items():
        assert own()[row] <= plain + 0.015 * (row in PEAKS_SUFFICE)


def test_every_row_of_the_check_is_told() -> None:
    found = gpu_uncalibrated.gpu_uncalibrated()
    assert found.equal == found.rows == len(found.details) == len(CLAIMED)
