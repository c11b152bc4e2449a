"""Effects of a faster network on serving: links, and the library that runs the collectives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from accelsim.cluster.serving.devices import Devices
from accelsim.cluster.serving.serve import Served, serve
from accelsim.cluster.step.fleet import Fleet
from accelsim.spec.collectives import Collectives

LATENCIES = ("base", "inside", "between", "tree_base", "tree_inside", "tree_between", "least")
"""Times of a protocol that have nothing to do with the number of bytes."""


class Change(NamedTuple):
    """A change in words, and the shares by which the time to the first token and the time per token shrink (None: no
    further tokens)."""

    words: str
    first: float
    token: float | None


def faster_links(fleet: Fleet) -> Fleet:
    """Return the fleet with wires of twice the rate."""
    wires = tuple(wire._replace(rate=2 * wire.rate) for wire in fleet.topology.wires)
    return replace(fleet, topology=replace(fleet.topology, wires=wires))


def quicker_library(fleet: Fleet) -> Fleet:
    """Return the fleet with a library of half the latency."""
    return replace(fleet, software=halved(fleet.software))


def halved(software: Collectives) -> Collectives:
    """Return the library with half of every time that does not depend on bytes."""
    protocols = {}
    for name, protocol in software.protocols.items():
        known = {key: value for key in LATENCIES if (value := getattr(protocol, key)) is not None}
        protocols[name] = protocol.model_copy(update={key: value / 2 for key, value in known.items()})
    launch, message = software.launch / 2, software.message / 2
    return software.model_copy(update={"launch": launch, "message": message, "protocols": protocols})


CHANGES: Mapping[str, Callable[[Fleet], Fleet]] = {
    "links twice as fast": faster_links,
    "half the latency of the library": quicker_library,
}
"""Change in words -> function that makes it."""


def what_ifs(found: Served, devices: Devices) -> list[Change]:
    """Simulate every change of a cluster that has a network. ``devices``: those of ``found``, whose kernels stay."""
    found_changes = []
    for words, change in CHANGES.items() if found.plan.devices > 1 else ():
        fleet = change(found.fleet)
        asked = replace(found.asked, ignore_capacity=True)
        other = serve(found.model, fleet, found.plan, asked, devices=replace(devices, fleet=fleet))
        first = 1 - other.time_to_first_token_s / found.time_to_first_token_s
        token = None if found.token_s is None or other.token_s is None else 1 - other.token_s / found.token_s
        found_changes.append(Change(words, first, token))
    return found_changes
