"""Accesses of every port against ZigZag, with its mapping pinned and its rules named."""

from __future__ import annotations

from tests.helpers import zigzag_golden as zigzag


def test_layers_with_whole_lanes() -> None:
    found = [row for layer in zigzag.layers() if not zigzag.fractional(layer) for row in zigzag.rows(layer)]
    assert [row for row in found if row.ours != row.theirs] == []
    assert len(found) == 1608


def test_layers_with_a_mean_of_lanes() -> None:
    """ZigZag spreads 128 channels over 10 steps as 12.8 lanes, and rounds products of such lanes up; ours are 13."""
    found = [row for layer in zigzag.layers() if zigzag.fractional(layer) for row in zigzag.rows(layer)]
    assert (len(found), sum(row.ours == row.theirs for row in found)) == (1944, 1539)
    near = [row for row in found if abs(row.ours - row.theirs) <= 0.05 * row.theirs]
    assert len(near) == 1539 + 343
