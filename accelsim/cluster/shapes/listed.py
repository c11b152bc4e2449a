"""The wires that a spec lists one by one."""

from __future__ import annotations

from collections.abc import Sequence

from accelsim.cluster.shapes.draft import Built, Draft, End
from accelsim.spec.cluster import Fabric

NAME = "list"


def build(draft: Draft, fabric: Fabric, ends: Sequence[End], name: str) -> Built:
    """A wire each way per entry, with all of the latency of its link."""
    known = {end.label: end.vertex for end in ends}
    switches = {each: draft.vertex(f"{name}.{each}") for each in fabric.switches}
    known |= switches
    for wire in fabric.wires or ():
        a, b = (known[label] for label in wire.ends)
        link = wire.link or fabric.link
        draft.join(a, b, name, link, rate=draft.rate(link, wire.links))
    return Built(tuple(switches.values()))
