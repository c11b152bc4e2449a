"""Changes of a service, each simulated: what binds it, and what would help most."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from accelsim.cluster.serving.what_if import faster_links
from accelsim.cluster.step.fleet import Fleet
from accelsim.serving.asked import Served, served
from accelsim.serving.replicas import Group
from accelsim.serving.service import Service
from accelsim.spec.chip import Chip
from accelsim.spec.site import Front
from accelsim.spec.yaml.load import override
from accelsim.units import spell

Played = TypeVar("Played")


class Lever(NamedTuple, Generic[Played]):
    """One change of a service. ``binds``: what limits a service that it helps; ``change``: in words; ``options``: of
    the command, that make it, where there are some; ``make``: simulates it."""

    binds: str
    change: str
    options: tuple[str, ...]
    make: Callable[[], Played]


def levers(found: Served) -> Iterator[Lever[Service]]:
    """Yield the changes that a service can have."""
    question, alone = found.question, found.devices.fleet.size == 1
    if not question.disaggregate:
        more = [replace(each, count=2 * each.count) for each in found.groups]
        twice = ("--replicas", str(2 * question.replicas))
        yield Lever("queue", "twice as many replicas", twice, partial(_again, found, more))
    room = [replace(each, blocks=2 * each.blocks) for each in found.groups]
    yield Lever("room", "twice the room for keys and values", (), partial(_again, found, room))
    for binds, change, sets in CHIPS:
        texts = sets(found.devices.fleet.chips[0])
        options = tuple(each for text in texts for each in ("--set", text)) if alone else ()
        yield Lever(binds, change, options, partial(_on, found, partial(_with, sets)))
    if found.last.times.plan.devices > 1:
        yield Lever("links", "links between devices twice as fast", (), partial(_on, found, faster_links))
    if found.front != Front():
        yield Lever(
            "host", "no time of host and network around the steps", (), partial(_again, found, found.groups, Front())
        )


def _again(found: Served, groups: Sequence[Group], front: Front | None = None) -> Service:
    return found.run(groups=groups, front=front)


def _on(found: Served, change: Callable[[Fleet], Fleet]) -> Service:
    return served(found.question, change).service


def _with(sets: Callable[[Chip], Sequence[str]], fleet: Fleet) -> Fleet:
    """Return the fleet with changed chips; equal ones stay one."""
    made = {id(chip): override(chip, sets(chip)) for chip in fleet.chips}
    return replace(fleet, chips=tuple(made[id(chip)] for chip in fleet.chips))


def _arithmetic(chip: Chip) -> list[str]:
    """Overrides for arithmetic at twice the rate: all clocks of the chip."""
    own = [
        f"{view.called(name)}.clock={spell(2 * spec.clock, 'Hz')}"
        for view in chip.views()
        for name, spec in view.engines.items()
        if spec.clock is not None
    ]
    return [f"clock={spell(2 * chip.clock, 'Hz')}", *own]


def _memories(chip: Chip) -> list[str]:
    """Overrides for twice the bandwidth of the memories beside the chip."""
    return [
        f"memories.{name}.memory.bandwidth={spell(2 * each.memory.bandwidth, 'B/s')}"
        for name, each in chip.memories.items()
        if each.link is None
    ]


CHIPS: tuple[tuple[str, str, Callable[[Chip], Sequence[str]]], ...] = (
    ("arithmetic", "twice the clock of the chip", _arithmetic),
    ("bandwidth", "twice the bandwidth of the memory", _memories),
)
"""Changes of chips: what binds a service that one helps, the change, and its overrides of the spec."""
