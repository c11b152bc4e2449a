"""What a kernel books, by hand: 70 x 40 x 20 in fp16 on tiles of 64 x 32, steps of 8 of K, four warps two by two."""

from __future__ import annotations

import pytest

from accelsim.engines.simt.actions import Units, product_actions, warps
from accelsim.engines.simt.kernels import choose
from accelsim.program.commands import Tile
from tests.helpers.simt_cases import AROUND, GPU, product

BLOCKS, SUMS_B = 4, 64 * 32 * 4


def counts(sparse: tuple[int, int] = (1, 1)) -> dict[str, int]:
    spec = GPU.model_copy(update={"tiles": GPU.tiles[:1]})
    made = product(70, 40, 20, sparse=sparse)
    kernel = choose(spec, AROUND, made, "y", "l2").best
    found = product_actions(spec, Units("sm", "l2"), made, kernel, Tile(0, 1, 0, 70, 0, 40, 0, 20))
    assert {entry.component for entry in found} == {"sm", "l2"}
    return {f"{entry.component}.{entry.action}{entry.tensor and ' ' + entry.tensor}": entry.count for entry in found}


def test_dense() -> None:
    """Three steps of 8 for 20 of K; each operand goes through shared memory once, and from there to two warps."""
    a, b = BLOCKS * 24 * 64 * 2, BLOCKS * 24 * 32 * 2
    through = 2 * (a + b) + BLOCKS * 3 * SUMS_B
    assert counts() == {
        "sm.mac.fp16": 70 * 40 * 20, "sm.mac.padding": BLOCKS * 64 * 32 * 24 - 70 * 40 * 20,
        "sm.around.fp16": BLOCKS * 64 * 32 * 24,
        "sm.shared.write": a + b, "sm.shared.read": 2 * (a + b),
        "sm.register.write": through, "sm.register.read": through, "l2.read a": a, "l2.read b": b,
    }  # fmt: skip


def test_sparse() -> None:
    """Two of four weights are multiplied, so half as many steps; 32 columns of weights take 2.25 B each."""
    a, b, macs = BLOCKS * 24 * 64 * 2, BLOCKS * 12 * 32 * 9 // 4, 70 * 40 * 10
    through = 2 * (a + b) + BLOCKS * 3 * SUMS_B // 2
    assert counts((2, 4)) == {
        "sm.mac.fp16": macs, "sm.mac.skipped": macs, "sm.mac.padding": BLOCKS * 64 * 32 * 12 - macs,
        "sm.around.fp16": BLOCKS * 64 * 32 * 12,
        "sm.shared.write": a + b, "sm.shared.read": 2 * (a + b),
        "sm.register.write": through, "sm.register.read": through, "l2.read a": a, "l2.read b": b,
    }  # fmt: skip


@pytest.mark.parametrize("tile, expected", [(0, (2, 2)), (1, (1, 2)), (2, (1, 1))])
def test_warps_share_operands(tile: int, expected: tuple[int, int]) -> None:
    """Down and across; where both ways read alike, fewer down."""
    assert warps(GPU.tiles[tile]) == expected
