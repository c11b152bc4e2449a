"""A wire between any two ends."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from accelsim.cluster.shapes.draft import Built, Draft, End
from accelsim.spec.cluster import Fabric

NAME = "fully-connected"


def build(draft: Draft, fabric: Fabric, ends: Sequence[End], name: str) -> Built:
    """``links`` of the link between each pair."""
    for a, b in combinations(ends, 2):
        draft.join(a.vertex, b.vertex, name, fabric.link, rate=draft.rate(fabric.link, fabric.links))
    return Built()
