"""Devices of a cluster and the network between them, for training and serving: costs of pieces, collectives."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import NamedTuple

from accelsim.cluster.collectives.choice import factor_of, library_of
from accelsim.cluster.collectives.reach import ring_edges
from accelsim.cluster.collectives.software import estimate
from accelsim.cluster.network.topology import Topology
from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.shapes.building import Share, build, devices, hosts, speeds
from accelsim.cluster.step.costs import PLAIN, Costs, Setting
from accelsim.errors import AccelsimError
from accelsim.spec.chip import Chip
from accelsim.spec.cluster import ClusterSpec
from accelsim.spec.collectives import Collectives
from accelsim.spec.yaml.clusters import is_cluster, load_devices
from accelsim.time import FS_PER_S

Group = tuple[int, ...]
"""Ranks that take part in a collective, in their order."""


SHARED: ContextVar[list[Costs] | None] = ContextVar("shared costs", default=None)
MOST_SHARED = 32
"""Pairs of a chip and a setting whose costs are shared; the oldest go first."""


@contextmanager
def sharing(known: list[Costs]) -> Iterator[None]:
    """Within the block all fleets take the costs of equal chips by equal settings from ``known``, and leave theirs."""
    token = SHARED.set(known)
    try:
        yield
    finally:
        SHARED.reset(token)


def costs_on(chip: Chip, setting: Setting) -> Costs:
    """Return the shared costs of an equal chip by the same setting, else new ones."""
    known = SHARED.get()
    found = next((each for each in known or () if each.setting == setting and each.chip == chip), None)
    if found is None:
        found = Costs(chip, setting)
        if known is not None:
            known[:] = [*known[1 - MOST_SHARED :], found]
    return found


SILENT = Collectives.model_construct(title="none: software costs nothing")
"""A library that costs nothing."""


def _has(text: str, devices: int) -> bool:
    """Return whether a text names a cluster or a chip of so many devices."""
    with suppress(AccelsimError):
        nodes = load_devices(text).nodes.values()
        return sum(node.count * each.count for node in nodes for each in node.devices.values()) == devices
    return False


class Wall(NamedTuple):
    """Power of servers beside their devices: ``each_W`` of host, fans, switches and cards per device that takes part,
    and the share of power at the wall that supplies pass on."""

    each_W: float
    supply: float

    def joules(self, boards_J: float, devices: int, seconds: float) -> float:
        """Return the energy at the wall of devices that draw ``boards_J`` together, with their share of the servers."""
        return (boards_J + self.each_W * devices * seconds) / self.supply


class Comm(NamedTuple):
    """A collective of several groups at once: time of the slowest, time that wires are taken, joules of all, bytes over
    all wires by the name of their link, and the widest factor of an interval (infinity: one is not known)."""

    time_fs: int = 0
    taken_fs: int = 0
    energy_J: float = 0.0
    by_link_B: tuple[tuple[str, int], ...] = ()
    factor: float = 1.0

    @staticmethod
    def joined(comms: Iterable[Comm]) -> Comm:
        """Return several collectives, one after the other."""
        time = taken = 0
        joules, links, factor = 0.0, list[tuple[str, int]](), 1.0
        for one in comms:
            time, taken, joules = time + one.time_fs, taken + one.taken_fs, joules + one.energy_J
            links += one.by_link_B
            factor = max(factor, one.factor)
        return Comm(time, taken, joules, tuple(links), factor)

    def repeated(self, times: int) -> Comm:
        """Return the collective ``times`` times, one after the other."""
        links = tuple((name, nbytes * times) for name, nbytes in self.by_link_B)
        return Comm(self.time_fs * times, self.taken_fs * times, self.energy_J * times, links, self.factor)


@dataclass(frozen=True)
class Fleet:
    """Devices by rank, their network, and how they compute. ``speeds``: pace of each as a share of its chip's;
    ``wall``: power of servers beside them, None where a node does not say; ``hosts``: by rank the share in the memory
    of its host, () or None where that is the chip's."""

    name: str
    title: str
    topology: Topology
    chips: tuple[Chip, ...]
    speeds: tuple[float, ...]
    software: Collectives = SILENT
    wall: Wall | None = None
    setting: Setting = PLAIN
    hosts: tuple[Share | None, ...] = ()

    @property
    def size(self) -> int:
        """Number of devices."""
        return len(self.chips)

    def extent(self, devices: int) -> str:
        """Return 'one node' or 'many nodes': where the first ``devices`` lie."""
        return "one node" if len(set(self.topology.groups[:devices])) == 1 else "many nodes"

    def resized(self, devices: int) -> str:
        """Return a text that names the cluster with so many devices, '' where there is none such, or it has them."""
        if devices == self.size or self.size == 1:
            return ""
        found = next((text for text in self._names(devices) if _has(text, devices)), "")
        return f"; or --on '{found}'" if found else ""

    def _names(self, devices: int) -> Iterator[str]:
        """Yield names that may be those of the cluster with so many devices."""
        whole = self.name.partition("?")[0]
        bare = re.sub(r"^\d+x-", "", whole)
        for name in filter(is_cluster, dict.fromkeys((bare, whole))):
            each = max(node.size for node in load_devices(name).nodes.values())
            if devices <= each:
                yield from (f"{name}?devices={devices}", f"{name}?nodes=1,devices={devices}")
            elif devices % each == 0:
                yield f"{name}?nodes={devices // each}"
        if devices == 1 and len({chip.name for chip in self.chips}) == 1:
            yield self.chips[0].name
        yield f"{devices}x-{bare}"

    def first(self, count: int) -> Fleet:
        """Return its first devices, on the same network; known results are kept."""
        return self._changed("_known", "_alike", chips=self.chips[:count], speeds=self.speeds[:count])

    def with_speeds(self, speeds: tuple[float, ...]) -> Fleet:
        """Return the fleet with its devices at other paces."""
        return self._changed("_known", "_alike", speeds=speeds)

    def with_topology(self, topology: Topology) -> Fleet:
        """Return the fleet on another network."""
        return self._changed(topology=topology)

    def silent(self) -> Fleet:
        """Return the fleet with a communication library that costs nothing."""
        return self._changed(software=SILENT)

    def _changed(self, *known: str, **fields: object) -> Fleet:
        made = replace(self, **fields)  # type: ignore[arg-type]
        vars(made).update({name: getattr(self, name) for name in ("_costs", *known)})
        return made

    @cached_property
    def _costs(self) -> dict[int, Costs]:
        chips = {id(chip): chip for chip in self.chips}
        return {kind: costs_on(chip, self.setting) for kind, chip in chips.items()}

    def costs(self, rank: int) -> Costs:
        """Return the costs of pieces on the chip of a rank, without its pace."""
        return self._costs[id(self.chips[rank])]

    @property
    def kinds(self) -> list[Costs]:
        """Costs of pieces, once for each kind of chip."""
        return list(self._costs.values())

    @property
    def flash(self) -> bool:
        """Return whether attention is one kernel on all chips."""
        return all(costs.flash for costs in self.kinds)

    @cached_property
    def _known(self) -> dict[tuple[object, ...], Comm]:
        return {}

    @cached_property
    def _alike(self) -> dict[object, int]:
        return {}

    def collective(self, kind: str, nbytes: int, groups: Sequence[Group]) -> Comm:
        """Return a collective of ``nbytes`` in each of several groups at once, which share common wires. Groups of one
        send nothing. ``kind``: see ``accelsim.cluster.collectives.software.KINDS``."""
        groups = [group for group in groups if len(group) > 1]
        if not groups or not nbytes:
            return Comm()
        key = (kind, nbytes, *sorted(Counter(map(self.likeness, groups)).items()))
        if (found := self._known.get(key)) is None:
            found = self._known[key] = self._together(kind, nbytes, groups)
        return found

    def _together(self, kind: str, nbytes: int, groups: Sequence[Group]) -> Comm:
        loads = [self.loads(kind, group) for group in groups]
        alone = max(self._slowest(load) for load in loads)
        every: dict[int, float] = {}
        for load in loads:
            for wire, share in load.items():
                every[wire] = every.get(wire, 0) + share
        crowd = self._slowest(every) / alone if alone else 1.0
        time = taken = 0
        joules, links = 0.0, Counter[str]()
        known: dict[int, tuple[int, int, float, float]] = {}
        for group, load in zip(groups, loads, strict=True):
            likeness = self.likeness(group)
            if likeness not in known:
                one = estimate(self.topology, self.software, kind, nbytes, group)
                moving = (one.time_s - one.latency_s) * crowd
                known[likeness] = (_fs(one.latency_s + moving), _fs(moving), one.energy_J, one.bus_Bps * one.time_s)
            own, busy, energy, passed = known[likeness]
            time, taken, joules = max(time, own), max(taken, busy), joules + energy
            for wire, share in load.items():
                links[self.topology.wires[wire].link] += round(passed * share)
        factor = max(factor_of(self.topology, self.software, nbytes, group) or inf for group in groups)
        return Comm(time, taken, joules, tuple(sorted(links.items())), factor)

    def passed_on(self, plan: Plan, stage: int, nbytes: int, gathers: bool = True) -> Comm:
        """Return the message from a stage to the next, of ``nbytes`` in each replica; all replicas send at once. Each
        device of a tensor-parallel group sends its part, which the next group ``gathers`` (Narayanan et al., SC21,
        4.1)."""
        pairs, groups = plan.to_next(stage)
        sent = self.collective("send_recv", -(-nbytes // plan.tp), pairs)
        if plan.tp == 1 or not gathers:
            return sent
        joined = self.collective("all_gather", nbytes, groups)
        return Comm.joined([sent, joined])._replace(taken_fs=sent.taken_fs)

    def _slowest(self, load: Mapping[int, float]) -> float:
        rates = self.topology.rates_Bps
        return max((share / rates[wire] for wire, share in load.items()), default=0.0)

    def loads(self, kind: str, group: Group) -> dict[int, float]:
        """Wire -> share of the bytes passed on by a rank that cross this wire, by the library's rings; a single message
        takes one route."""
        found: dict[int, float] = {}
        edges = [(group[0], group[1], 1.0)] if kind == "send_recv" else self._edges(group)
        for a, b, share in edges:
            for wire in self.topology.route(a, b):
                found[wire] = found.get(wire, 0.0) + share
        return found

    def _edges(self, group: Group) -> list[tuple[int, int, float]]:
        """Steps of the rings of a group, and the share of the bytes that each carries."""
        rings = ring_edges(self.topology, group)
        inside = [(a, b, rings.share) for a, b in rings.inside]
        return inside + [(a, b, 1 / rings.channels) for a, b in rings.between]

    def likeness(self, group: Group) -> int:
        """Return a number that is equal for groups whose members are joined by equal wires in equal order."""
        found = self._alike.get(group)
        if found is None:
            route_kind = self.topology.route_kind
            routes = Counter((route_kind(a, b), share) for a, b, share in self._edges(group))
            whole = (len(group), frozenset(routes.items()))
            found = self._alike[group] = self._alike.setdefault(whole, len(self._alike))
        return found


def _fs(seconds: float) -> int:
    return round(seconds * FS_PER_S)


def fleet_of(cluster: ClusterSpec, setting: Setting = PLAIN, library: str = "") -> Fleet:
    """Return the devices of a cluster. ``library``: runs their collectives ('': the cluster's own). Raises SpecError
    for chips that cannot be read, UsageError for an unknown library."""
    return Fleet(
        cluster.name, cluster.title, build(cluster), devices(cluster), speeds(cluster),
        library_of(cluster, library), wall_of(cluster), setting, hosts(cluster),
    )  # fmt: skip


def wall_of(cluster: ClusterSpec) -> Wall | None:
    """Return the power of a cluster's nodes beside their devices, the mean of kinds that differ; None where one does
    not say."""
    watts = lost = 0.0
    for node in cluster.nodes.values():
        if node.power is None:
            return None
        watts += float(node.power.idle) * node.count
        lost += node.count * node.size / node.power.supply
    return Wall(watts / cluster.size, cluster.size / lost)
