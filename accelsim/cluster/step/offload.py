"""Activations that wait in the memory of the host from the forward to the backward pass.

What a block keeps leaves the device while later blocks run, and comes back while the backward pass of later blocks
runs; room for two blocks stays on the device, one at work and one on its way. Each direction takes the bytes of a
microbatch at the rate of the link to the host, or at the device's share of the bandwidth of the host's memory where
that is less. A pass hides as much of it as it lasts, less what its other transfers take of the same link; it is copied
by engines of its own, so that nothing else gets slower.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from accelsim.cluster.shapes.building import Share
from accelsim.cluster.step.fleet import Fleet
from accelsim.errors import Problem
from accelsim.spec.link import Link
from accelsim.time import FS_PER_S

HOST = "host"
"""Name of the contents of a memory that a chip reaches over a link to its host."""


class ToHost(NamedTuple):
    """Way of a device to the memory of its host: the link, bytes per second in one direction, bytes of it."""

    link: Link
    rate_Bps: float
    capacity_B: int

    def sent_fs(self, nbytes: int) -> int:
        """Return the time of so many bytes in one direction."""
        return round(nbytes / self.rate_Bps * FS_PER_S)

    @property
    def name(self) -> str:
        """Name of the link in tables of bytes, other than those of the network."""
        return f"{HOST} {self.link.kind}"


def to_host(fleet: Fleet, rank: int) -> ToHost | None:
    """Return how a device reaches its host, None where its chip has no link to one. The host's memory is what the
    cluster says of the node, shared by its devices, else what the chip says."""
    for attached in fleet.chips[rank].memories.values():
        if attached.link is not None and HOST in attached.holds:
            own = Share(float(attached.memory.rate_Bps), attached.memory.capacity)
            share = (fleet.hosts[rank] if fleet.hosts else None) or own
            return ToHost(
                attached.link, min(float(attached.link.bandwidth), share.rate_Bps), share.capacity_B
            )
    return None


def problems(fleet: Fleet, tokens: int, name: str) -> Iterator[Problem]:
    """Yield what is wrong with offloading for a model whose samples have ``tokens``, and for a cluster."""
    option = "--offload-activations"
    if not tokens:
        yield Problem(f"activations of {name} in the memory of a host", option, "a decoder")
    ranks = {chip.name: rank for rank, chip in enumerate(fleet.chips)}
    for chip, rank in ranks.items():
        if to_host(fleet, rank) is None:
            yield Problem(f"{chip} has no link to the memory of a host", option, "a chip with one")
