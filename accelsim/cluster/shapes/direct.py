"""Shapes that wire ends to each other directly, by a rule or as a spec lists it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from accelsim.cluster.shapes.draft import Built, Draft, End
from accelsim.spec.cluster import Fabric


def fully_connected(draft: Draft, fabric: Fabric, ends: Sequence[End], name: str) -> Built:
    """Wire any two ends by ``links`` of the link."""
    for a, b in combinations(ends, 2):
        draft.join(a.vertex, b.vertex, name, fabric.link, rate=draft.rate(fabric.link, fabric.links))
    return Built()


def ring(draft: Draft, fabric: Fabric, ends: Sequence[End], name: str) -> Built:
    """Wire each end to the next, the last to the first. Two ends have one wire each way between them, not two."""
    rate = draft.rate(fabric.link, fabric.links)
    for index in range(len(ends) if len(ends) > 2 else len(ends) - 1):
        draft.join(ends[index].vertex, ends[(index + 1) % len(ends)].vertex, name, fabric.link, rate=rate)
    return Built()


def pairs(draft: Draft, fabric: Fabric, ends: Sequence[End], name: str) -> Built:
    """Wire the first end to the second, the third to the fourth, as NVLink bridges over PCIe cards do. Other pairs need
    another fabric."""
    rate = draft.rate(fabric.link, fabric.links)
    for a, b in zip(ends[::2], ends[1::2], strict=True):
        draft.join(a.vertex, b.vertex, name, fabric.link, rate=rate)
    return Built()


def listed(draft: Draft, fabric: Fabric, ends: Sequence[End], name: str) -> Built:
    """Wire what a spec lists: a wire each way per entry, with all of the latency of its link."""
    known = {end.label: end.vertex for end in ends}
    switches = {each: draft.vertex(f"{name}.{each}") for each in fabric.switches}
    known |= switches
    for wire in fabric.wires or ():
        a, b = (known[label] for label in wire.ends)
        link = wire.link or fabric.link
        draft.join(a, b, name, link, rate=draft.rate(link, wire.links))
    return Built(tuple(switches.values()))
