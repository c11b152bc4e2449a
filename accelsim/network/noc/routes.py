"""Channels that packets cross, the load on each channel, multicast trees, and the latency that follows by formula.

The latency is exact for an empty network; under load it is the waiting time of a queue at each channel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from accelsim.errors import UsageError
from accelsim.network.noc.topology import Network
from accelsim.spec.network import Router
from accelsim.types import Floats, Ints


def _steps(network: Network, source: Ints, destination: Ints, coin: Ints) -> Iterator[tuple[Ints, Ints]]:
    """(indices of the packets that still travel, the link that each takes), hop by hop."""
    index, at = np.arange(len(source)), network.home[source]
    while True:
        going = at != network.home[destination[index]]
        index, at = index[going], at[going]
        if not len(index):
            return
        link = network.step(at, destination[index], coin[index])
        yield index, link
        at = network.next_router(link, destination[index])


def routes(network: Network, source: Ints, destination: Ints, coin: Ints | None = None) -> Ints:
    """Return the links that packets cross in order, [packets, most hops], padded with -1; ``coin``
    (default 0) chooses between equally long routes."""
    hops = list(_steps(network, source, destination, np.zeros_like(source) if coin is None else coin))
    table = np.full((len(source), len(hops)), -1, np.int64)
    for hop, (index, link) in enumerate(hops):
        table[index, hop] = link
    return table


def hops(network: Network) -> Ints:
    """Return the links between each pair of nodes, [nodes, nodes]; 0 for nodes of one router."""
    source, destination = _pairs(network)
    counts = np.zeros(len(source), np.int64)
    for index, _ in _steps(network, source, destination, np.zeros_like(source)):
        counts[index] += 1
    return counts.reshape(network.nodes, network.nodes)


def mean_hops(network: Network, traffic: Floats) -> float:
    """Return the mean links of a packet under ``traffic`` [nodes, nodes], self traffic included."""
    return float((hops(network) * traffic).sum() / traffic.sum())


def channel_load(network: Network, traffic: Floats) -> Floats:
    """Return flits per clock of each channel (injections, ejections, links) when node i sends traffic[i, j] to j per
    clock.

    UsageError when ``traffic`` is not [nodes, nodes] of numbers from 0.
    """
    if traffic.shape != (network.nodes, network.nodes) or not (traffic >= 0).all():
        shape = f"{network.nodes} x {network.nodes}"
        raise UsageError(f"a traffic matrix of {traffic.shape}", expected=f"{shape} of numbers from 0")
    source, destination = _pairs(network)
    rate = traffic.ravel()
    busy = rate > 0
    source, destination, rate = source[busy], destination[busy], rate[busy]
    load = np.zeros(network.channels)
    load[: network.nodes] = traffic.sum(1)
    load[network.nodes : 2 * network.nodes] = traffic.sum(0)
    for coin in range(network.coins):
        for index, link in _steps(network, source, destination, np.full_like(source, coin)):
            np.add.at(load, 2 * network.nodes + link, rate[index] / network.coins)
    return load


def rivals(network: Network, traffic: Floats) -> Floats:
    """Return for each channel the chance that two of its packets came from different channels. Only those wait for each
    other; packets of one channel come one after the other anyway. 0 for injections."""
    source, destination = np.nonzero(traffic)
    weight, first_link = traffic[source, destination] / network.coins, 2 * network.nodes
    codes, weights = [], []
    for coin in range(network.coins):
        before = source.astype(np.int64)
        for index, link in _steps(network, source, destination, np.full_like(source, coin)):
            codes.append(before[index] * network.channels + first_link + link)
            weights.append(weight[index])
            before[index] = first_link + link
        codes.append(before * network.channels + network.nodes + destination)
        weights.append(weight)
    pair, place = np.unique(np.concatenate(codes), return_inverse=True)
    flow = np.bincount(place, np.concatenate(weights))
    after, count = pair % network.channels, network.channels
    total = np.bincount(after, flow, count)
    alike = np.bincount(after, flow**2, count)
    return np.asarray(1.0 - np.divide(alike, total**2, where=total > 0, out=np.ones(count)))


def bound(network: Network, traffic: Floats) -> float:
    """Return the most flits per clock and node that the network can carry of ``traffic`` (rows add up to 1): 1 /
    largest load.

    Dally, Towles, "Principles and Practices of Interconnection Networks", 2004, section 3.3: no channel carries more
    than a flit per clock.
    """
    largest = float(channel_load(network, traffic).max())
    return 1.0 / largest if largest else float("inf")


def multicast(network: Network, source: int, destinations: Sequence[int]) -> Ints:
    """Return the links of the tree that one packet to many nodes crosses: those of all routes, each once, sorted."""
    to = np.array(sorted(set(destinations)), np.int64)
    table = routes(network, np.full(len(to), source), to)
    return np.unique(table[table >= 0])


def _pairs(network: Network) -> tuple[Ints, Ints]:
    every = np.arange(network.nodes)
    return np.repeat(every, network.nodes), np.tile(every, network.nodes)


def zero_load(router: Router, links: float | Ints, packet_flits: int) -> Floats:
    """Return the clocks of a packet of ``packet_flits`` that crosses so many links of an empty network, from its
    creation to the arrival of its last flit.

    Head: in, one router more than links, the wires, out; then one clock for each further flit (Dally, Towles, 2004,
    equation 3.11, with the stages of an input-queued router).
    """
    routers = np.asarray(links, np.float64) + 1
    stages = router.pipeline + router.traversal
    ends = router.injection + router.ejection + router.ejection_link
    return np.asarray(ends + routers * stages + (routers - 1) * router.link + packet_flits - 1)


def zero_load_mean(network: Network, router: Router, traffic: Floats, packet_flits: int) -> float:
    """Return the mean of ``zero_load`` over the packets of ``traffic`` [nodes, nodes]."""
    latency = zero_load(router, hops(network), packet_flits)
    return float((latency * traffic).sum() / traffic.sum())


def waits(load: Floats, packet_flits: int) -> Floats:
    """Return the mean clocks that a packet waits for a channel of that load (flits per clock), as in an M/D/1 queue:
    load x packet / (2 (1 - load)); infinite from a load of 1 on."""
    with np.errstate(divide="ignore", invalid="ignore"):
        waiting = load * packet_flits / (2 * (1 - load))
    return np.asarray(np.where(load < 1, waiting, np.inf))


def estimate(network: Network, router: Router, traffic: Floats, load: float, packet_flits: int) -> float:
    """Return the mean latency in clocks at ``load`` flits per clock and node: empty network plus the waiting at each
    channel on the route; infinite from the bound on.

    A channel is an M/D/1 queue, of whose waiting only the share counts that is for packets from another channel
    (``rivals``); at the injection a node waits for its own packet before, one clock less than the packet is long. Full
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
        links = routes(network, source, destination, np.full_like(source, coin))
        waiting = waiting + crossed[links].sum(1) / network.coins
    weight = traffic[source, destination] / traffic.sum()
    return zero_load_mean(network, router, traffic, packet_flits) + float((waiting * weight).sum())
