"""Devices below PCIe switches, these below the root complexes of the processors, which a link joins."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from accelsim.cluster.shapes.draft import Built, Draft, End, fs_of
from accelsim.cluster.shapes.switch import at_switch
from accelsim.spec.cluster import Fabric


def build(draft: Draft, fabric: Fabric, ends: Sequence[End], name: str) -> Built:
    """``members`` per switch and switches evenly over ``roots``; without members the ends are at the roots."""
    roots = [draft.vertex(f"{name}.root{index}") for index in range(fabric.roots)]
    between_fs = fs_of(fabric.switch_latency)
    parts = -(-len(ends) // fabric.members) if fabric.members else len(ends)
    for part in range(parts):
        root = roots[part * fabric.roots // parts]
        if fabric.members is None:
            at_switch(draft, fabric, ends[part], root, name)
            continue
        switch = draft.vertex(f"{name}.switch{part}")
        draft.join(switch, root, name, fabric.uplink or fabric.link, latency_fs=between_fs)
        for end in ends[part * fabric.members : (part + 1) * fabric.members]:
            at_switch(draft, fabric, end, switch, name)
    for a, b in combinations(roots, 2):
        assert fabric.root_link is not None  # a law of the spec
        draft.join(a, b, name, fabric.root_link)
    return Built(tuple(roots))
