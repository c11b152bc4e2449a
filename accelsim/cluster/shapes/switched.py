"""Shapes with switches: one, leaves below spines, PCIe switches below root complexes."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

from accelsim.cluster.shapes.draft import Built, Draft, End, fs_of, latency_of
from accelsim.spec.cluster import Fabric


def single(draft: Draft, fabric: Fabric, ends: Sequence[End], name: str) -> Built:
    """All ends at one switch that never blocks: NVSwitch, a small Ethernet switch.

    Each end has a wire up and one down, with half of the latency of its link, and the switch adds its own on the
    way down and up evenly.
    """
    hub = draft.vertex(f"{name}.switch")
    if fabric.sums:
        draft.summing.append(hub)
    for end in ends:
        at_switch(draft, fabric, end, hub, name, fs_of(fabric.switch_latency) // 2)
    return Built((hub,))


def at_switch(draft: Draft, fabric: Fabric, end: End, hub: int, name: str, more_fs: int = 0) -> None:
    """Join an end to a switch: all its ports, half of the latency of its link and ``more_fs``."""
    link = end.link or fabric.link
    rate = draft.rate(link, fabric.links if end.link is None else None) * end.ports
    draft.join(end.vertex, hub, name, link, rate=rate, latency_fs=latency_of(link) // 2 + more_fs)


def leaf_spine(draft: Draft, fabric: Fabric, ends: Sequence[End], name: str) -> Built:
    """Leaf switches that hold some ends each, and spine switches that join the leaves.

    The uplinks of a leaf carry what ``members`` ends can send, divided by the oversubscription, spread evenly over
    the spines. One leaf needs no spine.
    """
    assert fabric.members is not None  # a law of the spec
    leaves = [draft.vertex(f"{name}.leaf{index}") for index in range(-(-len(ends) // fabric.members))]
    for index, end in enumerate(ends):
        at_switch(draft, fabric, end, leaves[index // fabric.members], name)
    if len(leaves) == 1:
        return Built(tuple(leaves))
    spines = [draft.vertex(f"{name}.spine{index}") for index in range(fabric.spines)]
    uplink = fabric.uplink or fabric.link
    rate = fabric.members * draft.rate(ends[0].link or fabric.link) * ends[0].ports
    rate /= Fraction(str(fabric.oversubscription)) * fabric.spines
    for leaf in leaves:
        for spine in spines:
            draft.join(leaf, spine, name, uplink, rate=rate, latency_fs=fs_of(fabric.switch_latency))
    return Built(tuple(spines))


def pcie_tree(draft: Draft, fabric: Fabric, ends: Sequence[End], name: str) -> Built:
    """Devices below PCIe switches, these below the root complexes of the processors, which a link joins.

    ``members`` per switch and switches evenly over ``roots``; without members the ends are at the roots.
    """
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
