"""Numbers of a link that must agree: a stated bandwidth with that of its packets."""

from __future__ import annotations

from collections.abc import Iterator

from accelsim.spec.chip import Chip
from accelsim.spec.laws.finding import Finding
from accelsim.spec.link import Link, agree, payload_Bps
from accelsim.units import show


def link_rates_agree(chip: Chip) -> Iterator[Finding]:
    """A link's stated bandwidth is that of its packets, and it has one sort of packets."""
    for name, attached in chip.memories.items():
        for finding in link_findings(attached.link) if attached.link else ():
            yield finding._replace(path=("memories", name, "link", *finding.path))


def link_findings(link: Link) -> Iterator[Finding]:
    """Yield what contradicts itself in one link: two sorts of packets, or a bandwidth unlike that of its packets."""
    if link.pcie is not None and link.packets is not None:
        yield Finding(("packets",), "the link has packets of PCI Express already", "pcie: or packets:")
    if link.protocol is not None and not agree(link.bandwidth, derived := payload_Bps(link.protocol)):
        what = f"stated {show(link.bandwidth, 'B/s')} contradicts the packets of the link"
        yield Finding(("bandwidth",), what, f"{show(derived, 'B/s')} (the better direction)", claim=True)
