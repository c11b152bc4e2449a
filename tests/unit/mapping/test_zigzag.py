"""Accesses of every port against ZigZag, with its mapping pinned and its rules named."""

from __future__ import annotations

import zigzag_golden as zigzag

LATCHED = ("ascend_like/resnet18/latency/lpf4", "/layer2/layer2.0/downsample/downsample.0/Conv")
"""All loops of the innermost level of the weights are irrelevant to them: ZigZag reads each once, not at every step."""


def test_layers_with_whole_lanes() -> None:
    found = [
        (layer, row)
        for layer in zigzag.layers()
        if not zigzag.fractional(layer)
        for row in zigzag.rows(layer)
    ]
    other = [(layer, row) for layer, row in found if row.ours != row.theirs]
    assert (len(found), len(other)) == (1608, 1)
    layer, row = other[0]
    assert (layer["run"], layer["layer"]) == LATCHED
    assert (row.operand, row.level, row.direction) == ("W", 0, "RD_OUT_TO_LOW")
    assert row.ours == 14 * row.theirs, "a loop of 14 output rows"


def test_layers_with_a_mean_of_lanes() -> None:
    """ZigZag spreads 128 channels over 10 steps as 12.8 lanes, and rounds products of such lanes up; ours are 13."""
    found = [row for layer in zigzag.layers() if zigzag.fractional(layer) for row in zigzag.rows(layer)]
    assert (len(found), sum(row.ours == row.theirs for row in found)) == (1944, 1537)
