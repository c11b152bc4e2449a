"""Each end wired to the next, the last to the first."""

from __future__ import annotations

from collections.abc import Sequence

from accelsim.cluster.shapes.draft import Built, Draft, End
from accelsim.spec.cluster import Fabric

NAME = "ring"


def build(draft: Draft, fabric: Fabric, ends: Sequence[End], name: str) -> Built:
    """Two ends have one wire each way between them, not two."""
    rate = draft.rate(fabric.link, fabric.links)
    for index in range(len(ends) if len(ends) > 2 else len(ends) - 1):
        draft.join(ends[index].vertex, ends[(index + 1) % len(ends)].vertex, name, fabric.link, rate=rate)
    return Built()
