"""The eight GPUs of a DGX-1: two squares with their diagonals, joined corner by corner."""

from __future__ import annotations

from collections.abc import Sequence

from accelsim.cluster.shapes.draft import Built, Draft, End
from accelsim.spec.cluster import Fabric, bundled

SQUARE = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
MESH = (
    *SQUARE,
    *((a + 4, b + 4) for a, b in SQUARE),
    *((corner, corner + 4) for corner in range(4)),
)
"""Pairs that a wire joins: 16, four at each GPU."""
DOUBLED = {(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)}
"""Pairs with two links where a GPU has six (V100), so that each GPU has all of them in use."""


def build(draft: Draft, fabric: Fabric, ends: Sequence[End], name: str) -> Built:
    """One link per pair where a GPU has four (P100); of six, two each between the pairs of ``DOUBLED``."""
    more = bundled(fabric.link) > 4
    for a, b in MESH:
        rate = draft.rate(fabric.link, 1 + (more and (a, b) in DOUBLED))
        draft.join(ends[a].vertex, ends[b].vertex, name, fabric.link, rate=rate)
    return Built()
