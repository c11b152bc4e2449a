"""Bridges between pairs of ends: NVLink bridges over PCIe cards. Other pairs need another fabric."""

from __future__ import annotations

from collections.abc import Sequence

from accelsim.cluster.shapes.draft import Built, Draft, End
from accelsim.spec.cluster import Fabric

NAME = "pairs"


def build(draft: Draft, fabric: Fabric, ends: Sequence[End], name: str) -> Built:
    """The first with the second, the third with the fourth."""
    rate = draft.rate(fabric.link, fabric.links)
    for a, b in zip(ends[::2], ends[1::2], strict=True):
        draft.join(a.vertex, b.vertex, name, fabric.link, rate=rate)
    return Built()
