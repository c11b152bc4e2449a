"""Packets through a network, event by event: latency and throughput under load.

Each channel serves one flit per clock, a packet at a time in the order in which packets became ready (virtual cut-
through). Inputs have virtual channels of finite depth: a packet goes on when the whole of it fits into one of them, and
only the first packet of each may ask for an output. An input port sends one flit per clock. Places become free when the
last flit has left, and are known upstream a credit delay later. On rings a packet that crosses the closing link changes
to the upper half of the virtual channels, so that nothing waits in a circle (Dally, Seitz, IEEE Trans. Computers 1987).
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from accelsim.errors import UsageError
from accelsim.network.noc.routes import routes, zero_load
from accelsim.network.noc.topology import COINS, Network
from accelsim.seeds import generator
from accelsim.spec.network import Router
from accelsim.types import Floats, Ints


@dataclass(frozen=True)
class Traffic:
    """Packets in order of creation: source, destination, clock, and which way round where both are equally long."""

    source: Ints
    destination: Ints
    created: Ints
    coin: Ints


@dataclass(frozen=True)
class Outcome:
    """Measurements of a simulation. Loads and throughput in flits per clock and node, latency in clocks.

    ``latency``: mean of the packets created while it was measured, infinite when they did not get through, NaN when
    there were none; ``accepted`` [nodes]: flits that arrived per clock by the node that sent them; ``channel_load``:
    flits per clock of each channel; ``least``, ``most``: extremes of the latency; ``hops``: mean links of a packet.
    """

    load: float
    packets: int
    latency: float
    least: float
    most: float
    hops: float
    accepted: Floats
    channel_load: Floats


def draw(traffic: Floats, load: float, packet_flits: int, clocks: int, seed: int) -> Traffic:
    """Draw random packets: each node starts one with probability ``load`` / ``packet_flits`` per clock, to a
    destination drawn from its row of ``traffic``. The same seed gives the same packets."""
    rng = generator(seed)
    nodes = len(traffic)
    started = rng.random((clocks, nodes)) < load / packet_flits
    created, source = np.nonzero(started)
    edges = np.cumsum(traffic, 1) / traffic.sum(1, keepdims=True)
    edges[:, -1] = 1.0
    lot = rng.random(len(source))
    destination = np.zeros(len(source), np.int64)
    for node in range(nodes):
        mine = source == node
        destination[mine] = np.searchsorted(edges[node], lot[mine], side="right")
    return Traffic(source, destination, created, rng.integers(0, COINS, len(source)))


_ARRIVE, _LEAVE, _CREDIT, _TRY = range(4)
_ENDLESS = 1 << 60
MOST_LATENCY = 1000
"""Clocks in the network from which on a load counts as more than the network can take; twice those of the longest route
through the empty network, where they are more."""


def simulate(
    network: Network, router: Router, traffic: Floats, load: float, packet_flits: int, clocks: int = 4000, seed: int = 1
) -> Outcome:
    """Run random packets of ``traffic`` [nodes, nodes] at ``load`` flits per clock and node.

    Packets are created for ``clocks`` clocks; those of the first quarter warm the network up, the others are measured.
    UsageError for a load that is not between 0 and 1, or packets that no virtual channel holds.
    """
    if not 0 < load <= 1 or packet_flits < 1 or packet_flits > router.buffer_flits:
        what = f"load {load:g}, packets of {packet_flits} flits"
        expected = f"a load in (0, 1], packets of 1 to {router.buffer_flits} flits (a buffer)"
        raise UsageError(what, expected=expected)
    packets = draw(traffic, load, packet_flits, clocks, seed)
    return replay(network, router, packets, load, packet_flits, clocks)


def replay(network: Network, router: Router, packets: Traffic, load: float, packet_flits: int, clocks: int) -> Outcome:
    """Run given packets, until the measured ones have arrived or clearly cannot."""
    run = _Run(network, router, packets, packet_flits)
    warm = clocks // 4
    measured = packets.created >= warm
    run.until(clocks)
    accepted, channel_load = run.accepted(warm, clocks)
    crossed = (run.links >= 0).sum(1)
    run.until(clocks + max(MOST_LATENCY, 2 * int(zero_load(router, crossed.max(initial=0), packet_flits))))
    ended = np.array(run.ended, np.int64)
    latency = (ended - packets.created)[measured]
    if not len(latency) or (ended[measured] < 0).any():
        latency = np.array([np.inf if len(latency) else np.nan])
    return Outcome(
        load,
        int(measured.sum()),
        float(latency.mean()),
        float(latency.min()),
        float(latency.max()),
        float(crossed[measured].mean()) if measured.any() else 0.0,
        accepted,
        channel_load,
    )


@dataclass
class _Input:
    """The virtual channels at the end of a channel: packets in order of arrival, and free places as known upstream."""

    queues: list[deque[int]]
    free: list[int]
    busy_until: int = 0  # the port into the crossbar


@dataclass
class _Output:
    """A channel: packets that ask for it by the clock from which they do, and until when it is taken."""

    asking: list[tuple[int, int]] = field(default_factory=list)
    busy_until: int = 0
    next_try: int = _ENDLESS


class _Run:
    """The state of one simulation. Events are (clock, kind, two numbers); kinds of one clock come in their order."""

    def __init__(self, network: Network, router: Router, packets: Traffic, packet_flits: int) -> None:
        self.router, self.nodes, self.flits = router, network.nodes, packet_flits
        self.source: list[int] = packets.source.tolist()
        self.links = routes(network, packets.source, packets.destination, packets.coin)
        self.paths, self.classes = _paths(network, packets, self.links)
        count = len(self.source)
        self.hop, self.vc, self.ended = [0] * count, [-1] * count, [-1] * count
        self.arrived = [0] * count  # after the channel of the hop before
        depth, queues = router.buffer_flits, router.virtual_channels
        self.inputs = [_Input([deque() for _ in range(queues)], [depth] * queues) for _ in range(network.channels)]
        self.created: list[deque[int]] = [deque() for _ in range(network.nodes)]
        self.outputs = [_Output() for _ in range(network.channels)]
        self.starts: list[list[int]] = [[] for _ in range(network.channels)]
        self.choices = (range(queues), range(queues // 2), range(queues // 2, queues))
        self.delays = _delays(network, router)
        self.now = 0
        self.events: list[tuple[int, int, int, int]] = [
            (clock, _ARRIVE, index, 0) for index, clock in enumerate(packets.created.tolist())
        ]  # sorted by clock, hence a heap

    def until(self, clock: int) -> None:
        """Handle all events before ``clock``."""
        actions = (self._arrive, self._leave, self._credit, self._try)
        while self.events and self.events[0][0] < clock:
            self.now, kind, first, second = heapq.heappop(self.events)
            actions[kind](first, second)

    def accepted(self, start: int, end: int) -> tuple[Floats, Floats]:
        """Flits per clock within [start, end): that arrived, by sender, and on each channel."""
        scale = self.flits / (end - start)
        arrived, begun = np.zeros(self.nodes), np.zeros(len(self.starts))
        for source, clock in zip(self.source, self.ended, strict=True):
            arrived[source] += start <= clock < end
        for channel, clocks in enumerate(self.starts):
            begun[channel] = sum(start <= clock < end for clock in clocks)
        return arrived * scale, begun * scale

    def _arrive(self, packet: int, _: int) -> None:
        """Take the head of a packet from the channel of its last hop (or from its node)."""
        hop = self.hop[packet]
        if hop:
            before = self.inputs[self.paths[packet][hop - 1]]
            queue, wait = before.queues[self.vc[packet]], self.router.pipeline
        else:
            queue, wait = self.created[self.source[packet]], 0
        queue.append(packet)
        self.arrived[packet] = self.now
        if len(queue) == 1:
            self._ask(packet, self.now + wait)

    def _ask(self, packet: int, ready: int) -> None:
        channel = self.paths[packet][self.hop[packet]]
        heapq.heappush(self.outputs[channel].asking, (ready, packet))
        self._wake(channel, ready)

    def _wake(self, channel: int, clock: int) -> None:
        """See at ``clock``, or when the channel is free, whether it can take a packet."""
        output = self.outputs[channel]
        clock = max(clock, output.busy_until, self.now)
        if clock < output.next_try:
            output.next_try = clock
            heapq.heappush(self.events, (clock, _TRY, channel, 0))

    def _try(self, channel: int, _: int) -> None:
        output = self.outputs[channel]
        if output.next_try != self.now:
            return  # another try has taken the place of this one
        output.next_try = _ENDLESS
        if output.busy_until > self.now:
            self._wake(channel, output.busy_until)
            return
        chosen = self._choose(channel, output)
        if chosen is not None:
            self._start(channel, output, *chosen)

    def _choose(self, channel: int, output: _Output) -> tuple[int, int] | None:
        """The packet that has asked longest of those that can go, and its virtual channel after the channel."""
        passed: list[tuple[int, int]] = []
        chosen: tuple[int, int] | None = None
        again = _ENDLESS
        while chosen is None and output.asking and output.asking[0][0] <= self.now:
            entry = heapq.heappop(output.asking)
            vc, port_free = self._place(entry[1], channel), self._port_free(entry[1])
            if vc is not None and port_free <= self.now:
                chosen = entry[1], vc
            else:
                passed.append(entry)
                if vc is not None:  # without a place a credit wakes it
                    again = min(again, port_free)
        if chosen is None:
            again = min(again, output.asking[0][0]) if output.asking else again
        for entry in passed:
            heapq.heappush(output.asking, entry)
        if chosen is None and again < _ENDLESS:
            self._wake(channel, again)
        return chosen

    def _port_free(self, packet: int) -> int:
        hop = self.hop[packet]
        return self.inputs[self.paths[packet][hop - 1]].busy_until if hop else 0

    def _place(self, packet: int, channel: int) -> int | None:
        """Return the virtual channel after ``channel`` with most free places, if the packet fits; 0 at ejections."""
        if self._ejects(channel):
            return 0
        free = self.inputs[channel].free
        choices = self.choices[self.classes[packet][self.hop[packet]]]
        best = max(choices, key=lambda vc: (free[vc], -vc))
        return best if free[best] >= self.flits else None

    def _ejects(self, channel: int) -> bool:
        return self.nodes <= channel < 2 * self.nodes

    def _start(self, channel: int, output: _Output, packet: int, vc: int) -> None:
        """The packet goes: it takes the channel, leaves its queue, and takes places after the channel."""
        hop, gone = self.hop[packet], self.now + self.flits
        output.busy_until = gone
        self.starts[channel].append(self.now)
        if hop:
            before = self.paths[packet][hop - 1]
            self.inputs[before].busy_until = gone
            heapq.heappush(self.events, (gone, _LEAVE, before, self.vc[packet]))
        else:
            queue = self.created[self.source[packet]]
            queue.popleft()
            if queue:
                self._ask(queue[0], gone)
        if self._ejects(channel):
            self.ended[packet] = self.now + self.delays[channel] + self.flits - 1
        else:
            self.inputs[channel].free[vc] -= self.flits
            self.hop[packet], self.vc[packet] = hop + 1, vc
            heapq.heappush(self.events, (self.now + self.delays[channel], _ARRIVE, packet, 0))
        if output.asking:
            self._wake(channel, output.asking[0][0])

    def _leave(self, channel: int, vc: int) -> None:
        """The last flit of the first packet is through the crossbar: the next one, if it was there, has been in the
        pipeline for a clock.
        """
        queue = self.inputs[channel].queues[vc]
        queue.popleft()
        heapq.heappush(self.events, (self.now + self.router.credit, _CREDIT, channel, vc))
        if queue:
            since = max(self.now - 1, self.arrived[queue[0]])
            self._ask(queue[0], max(self.now, since + self.router.pipeline))

    def _credit(self, channel: int, vc: int) -> None:
        """Free the places after ``channel``."""
        self.inputs[channel].free[vc] += self.flits
        if self.outputs[channel].asking:
            self._wake(channel, self.outputs[channel].asking[0][0])


def _delays(network: Network, router: Router) -> list[int]:
    """Return the clocks from the start of a packet on a channel to the arrival of its head, by channel."""
    hop = router.traversal + router.link
    out = router.traversal + router.ejection_link + router.ejection
    return [router.injection] * network.nodes + [out] * network.nodes + [hop] * len(network.links)


def _paths(network: Network, packets: Traffic, links: Ints) -> tuple[list[list[int]], list[list[int]]]:
    """Channels of each packet, injection and ejection included, and which virtual channels it may use after them:
    0 any, on a ring 1 the lower half before its closing link and 2 the upper half from there on.
    """
    count, nodes = len(links), network.nodes
    crossed = (links >= 0).sum(1)
    table = np.full((count, links.shape[1] + 2), -1, np.int64)
    table[:, 0] = packets.source
    table[:, 1:-1] = np.where(links >= 0, links + 2 * nodes, -1)
    table[np.arange(count), crossed + 1] = nodes + packets.destination
    classes = np.zeros(table.shape, np.int64)
    for dimension in np.unique(network.dimension[network.wraps]):
        along = (links >= 0) & (network.dimension[links] == dimension)
        closed = np.logical_or.accumulate(along & network.wraps[links], axis=1)
        classes[:, 1:-1] += np.where(along, 1 + closed, 0)
    return cast(list[list[int]], table.tolist()), cast(list[list[int]], classes.tolist())
