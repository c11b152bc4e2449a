"""Leaf switches that hold some ends each, spine switches that join the leaves, with or without enough bandwidth."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from accelsim.cluster.shapes.draft import Built, Draft, End, fs_of
from accelsim.cluster.shapes.switch import at_switch
from accelsim.spec.cluster import Fabric


def build(draft: Draft, fabric: Fabric, ends: Sequence[End], name: str) -> Built:
    """The uplinks of a leaf carry what ``members`` ends can send, divided by the oversubscription, spread evenly over
    the spines. One leaf needs no spine."""
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
