"""Latency by formula: of an empty network exactly, and under load by the waiting time of a queue at each channel."""

from __future__ import annotations

import numpy as np

from accelsim.network.noc.routes import channel_load, hops, rivals, routes
from accelsim.network.noc.topology import Network
from accelsim.spec.network import Router
from accelsim.types import Floats, Ints


def zero_load(router: Router, links: float | Ints, packet_flits: int) -> Floats:
    """Clocks of a packet of ``packet_flits`` that crosses so many links of an empty network, from its creation to the
    arrival of its last flit.

    Head: in, one router more than links, the wires, out; then one clock for each further flit (Dally, Towles, 2004,
    equation 3.11, with the stages of an input-queued router).
    """
    routers = np.asarray(links, np.float64) + 1
    stages = router.pipeline + router.traversal
    ends = router.injection + router.ejection + router.ejection_link
    return np.asarray(ends + routers * stages + (routers - 1) * router.link + packet_flits - 1)


def zero_load_mean(network: Network, router: Router, traffic: Floats, packet_flits: int) -> float:
    """Mean of ``zero_load`` over the packets of ``traffic`` [nodes, nodes]."""
    latency = zero_load(router, hops(network), packet_flits)
    return float((latency * traffic).sum() / traffic.sum())


def waits(load: Floats, packet_flits: int) -> Floats:
    """Mean clocks that a packet waits for a channel of that load (flits per clock), as in an M/D/1 queue:
    load x packet / (2 (1 - load)); infinite from a load of 1 on.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        waiting = load * packet_flits / (2 * (1 - load))
    return np.asarray(np.where(load < 1, waiting, np.inf))


def estimate(network: Network, router: Router, traffic: Floats, load: float, packet_flits: int) -> float:
    """Mean latency in clocks at ``load`` flits per clock and node: empty network plus the waiting at each channel on
    the way; infinite from the bound on.

    A channel is an M/D/1 queue, of whose waiting only the share counts that is for packets from another channel
    (``rivals``); at the way in a node waits for its own packet before, one clock less than the packet is long. Full
    buffers and virtual channels are left out, so that it is too low near the bound.
    """
    used = load * channel_load(network, traffic)
    if not (used < 1).all():
        return float("inf")
    per_channel = waits(used, packet_flits) * rivals(network, traffic)
    inside = slice(0, network.nodes)
    per_channel[inside] = waits(used[inside], packet_flits) * (packet_flits - 1) / packet_flits
    nodes = network.nodes
    source, destination = np.nonzero(traffic)
    crossed = np.append(per_channel[2 * nodes :], 0.0)  # -1 is no link
    waiting = per_channel[source] + per_channel[nodes + destination]
    for coin in range(network.coins):
        way = routes(network, source, destination, np.full_like(source, coin))
        waiting = waiting + crossed[way].sum(1) / network.coins
    weight = traffic[source, destination] / traffic.sum()
    return zero_load_mean(network, router, traffic, packet_flits) + float((waiting * weight).sum())
