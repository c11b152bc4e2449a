"""An engine that moves data: at most one request per edge, in order, without waiting for its earlier ones to end. Its
nodes are states that grow in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from accelsim.engines.base import EngineType, Lowering, Reason
from accelsim.engines.cpu.engine import host_fs
from accelsim.engines.device import PORT, QUEUE, Activity, Asked, Cause, Device, History, Process, Served
from accelsim.program.actions import WAYS, Action
from accelsim.program.commands import Command, Effect
from accelsim.program.roles import HOST, HOST_OWN_MEMORY
from accelsim.program.work import Duration, Transfer
from accelsim.program.writing.layout import Layout, Place
from accelsim.spec.chip import Chip
from accelsim.spec.levels import cache_of
from accelsim.spec.link import link_name
from accelsim.time import FS_PER_S, Clock, clock_of
from accelsim.workload.graph import Node

LATENCY = "latency of memories and links"


class Dma(EngineType):
    """Loads and stores through the ports of the off-chip memories."""

    type = "dma"
    rank = 4
    reasons = (
        Reason("transfer", "{resource} ({operand})", "moving {operand} ({resource})", "", ""),
        Reason("latency", "{resource} latency", "the latency of {resource}", LATENCY, "#e7298a", "xxxx"),
        Reason("requests", "requests ({resource})", "issuing requests ({resource})", "requests", "#bdb76b", "++++"),
    )
    pieces = (
        ("transfer", "data move, as fast as the memory or the link before it allows"),
        ("latency", "a request is under way, no data yet"),
        ("requests", "a DMA engine issues one request per clock, a port accepts one per clock"),
    )
    moves = True
    asks_spaces = True
    hue = "vermillion"

    def lower(self, lowering: Lowering) -> None:
        """Write new rows behind those of a state that grows in place."""
        _append(lowering.layout, lowering.index, lowering.node)

    def clock(self, chip: Chip, engine: str) -> Clock:
        """Return the clock of the chip: requests are issued at its edges."""
        return clock_of(chip.clock)

    def start(self, device: Device, engine: str, queue: Sequence[Command]) -> None:
        """Start one process."""
        device.env.process(self._run(device, engine, queue))

    def _run(self, device: Device, engine: str, queue: Sequence[Command]) -> Process:
        clock, log, issued, free_fs, before = device.clock, device.logs[engine], 0, 0, UNCAUSED
        ranks = {  # loads of a memory win against its stores, or the other way round
            (name, write): (int(write == (memory.arbitration == "loads_first")), engine)
            for name, memory in device.chip.memories.items()
            for write in (False, True)
        }
        routes = dict[tuple[str, bool, bool], _Route]()
        at, edge_of, released, ports = clock.at, clock.edge, device.released, device.ports
        for command in queue:
            work = cast(Transfer, command.work)
            memory, nbytes, write, *_ = work
            available, wait = released(command.waits) or (yield from device.available(command.waits))
            edge, cause = edge_of(available), before
            if edge <= issued:
                edge = issued + 1
            elif wait is not None and edge > issued + 1:
                cause = wait
            edge_fs, number = at(edge), command.id
            asked = Asked(nbytes, write, number)
            served: Served = yield ports[memory, write].request(ranks[memory, write], asked, edge_fs)
            accepted, data, end, by_link, by_cache, _ = served
            log.add(number, (free_fs, at(edge - 1), accepted, end), cause[2], "port")
            queued = free_fs if cause is before and before[0] >= 0 else -1
            key = memory, by_link, by_cache
            if key not in routes:
                routes[key] = _route(device.chip, engine, *key)
            history = _history(routes[key], cause, queued, edge_fs, served)
            issued, before = edge_of(accepted), (number, ACCEPTED, QUEUE)
            free_fs = at(issued)
            device.begin(command, accepted)
            device.complete(command, (accepted, data, end), history, data)


ACCEPTED = "accepted"
"""Event of a transfer: its port has taken the request."""
UNCAUSED: Cause = (-1, "", "")
"""Cause of a first request, which waits for nothing."""


class _Route(NamedTuple):
    """Activities of transfers that a memory, or the cache before it, serves: requests to the queue and to the port,
    then latencies of link (fs) and memory, and data."""

    queued: tuple[Activity, ...]
    asked: tuple[Activity, ...]
    moving: tuple[Activity, ...]
    link_fs: int


def _route(chip: Chip, engine: str, memory: str, by_link: bool, by_cache: bool) -> _Route:
    memory = cache_of(chip, memory) if by_cache else memory
    link = chip.memories[memory].link
    before = link_name(link) or memory
    asked = (Activity("requests", memory),)
    moving = (
        Activity("latency", before),
        Activity("latency", memory),
        Activity("transfer", before if by_link else memory),
    )
    return _Route((Activity("requests", engine), *asked), asked, moving, int(link.latency * FS_PER_S) if link else 0)


def _history(route: _Route, cause: Cause, queued: int, asked: int, served: Served) -> History:
    """Return how a transfer ended that was ``asked`` for (fs) once ``cause`` was there; ``queued``: when the request
    before was accepted, -1 where that was not the cause."""
    request, requests = (route.queued, (queued, asked)) if queued >= 0 else (route.asked, (asked,))
    begin = served.accepted if served.after is None else served.after[1]
    begins = begin, begin + route.link_fs, max(begin, served.data)
    if served.after is None:
        return History(cause, request + route.moving, requests + begins)
    early = (ACCEPTED, History(cause, request, requests))
    return History((served.after[0], "done", PORT), route.moving, begins, early)


def _append(layout: Layout, op: int, node: Node) -> None:
    """New rows go into the memory of their state, behind those that are there, and nothing else moves.

    On a chip whose state lies in the memory of a plain host the host copies them.
    """
    graph, builder = layout.graph, layout.builder
    (past, name), out = node.inputs, node.writes[0]
    home, new = layout.place(past).home, graph.tensors[name]
    assert home is not None
    memory = builder.regions[home].memory
    if memory in layout.roles.chip.memories:
        source = layout.source(op, name)
        effect = Effect("append", operands=((name, source),), tensor=out, last=True)
        layout.transfers.store(op, source, home, out, new.nbytes, effect)
    else:
        source = layout.store_whole(op, name, memory)
        effect = Effect("append", operands=((name, source),), tensor=out, last=True)
        fs = host_fs(layout.roles.chip.host, graph, node, 2 * new.nbytes)
        actions = [Action(HOST_OWN_MEMORY, way, out, new.nbytes) for way in WAYS]
        builder.emit("Host", HOST, op, node.name, Duration(fs), effect, [(source, "src")], [(home, "whole")], actions)
    layout.places[out] = Place(home=home)


ENGINE = Dma()
