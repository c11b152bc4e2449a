"""All ends at one switch that never blocks: NVSwitch, a small Ethernet switch."""

from __future__ import annotations

from collections.abc import Sequence

from accelsim.cluster.shapes.draft import Built, Draft, End, fs_of, latency_of
from accelsim.spec.cluster import Fabric


def build(draft: Draft, fabric: Fabric, ends: Sequence[End], name: str) -> Built:
    """Each end has a wire up and one down, with half of the latency of its link, and the switch adds its own on the
    way down and up evenly."""
    hub = draft.vertex(f"{name}.switch")
    for end in ends:
        at_switch(draft, fabric, end, hub, name, fs_of(fabric.switch_latency) // 2)
    return Built((hub,))


def at_switch(draft: Draft, fabric: Fabric, end: End, hub: int, name: str, more_fs: int = 0) -> None:
    """Join an end to a switch: all its ports, half of the latency of its link and ``more_fs``."""
    link = end.link or fabric.link
    rate = draft.rate(link, fabric.links if end.link is None else None) * end.ports
    draft.join(end.vertex, hub, name, link, rate=rate, latency_fs=latency_of(link) // 2 + more_fs)
