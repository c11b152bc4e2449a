"""Collectives by ASTRA-sim's conventions on links that are congested, event by event."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np

from accelsim.cluster.collectives.algorithms import COLLECTIVES
from accelsim.cluster.collectives.algorithms.trees import trees
from accelsim.cluster.collectives.base import Members, messages
from accelsim.cluster.collectives.play import by_rounds
from accelsim.cluster.collectives.rounds import Program, Rounds, doubling, halving, rounds
from accelsim.cluster.network.play import MessageGraph, Rules, play, starts
from accelsim.cluster.network.topology import Topology, Wire
from accelsim.types import Ints
from tests.helpers.message_graphs import plain_messages, side_by_side
from tests.validation.astrasim_settings import NO_MEMORY, NS, Dimension, Settings


def played_ns(kind: str, nbytes: int, dimension: Dimension, settings: Settings) -> int:
    """Time of a collective aware of congestion, ns; its ``splits`` are of ``nbytes`` each."""
    net = _network(dimension, settings.endpoint_ns)
    program, size = _program(kind, nbytes, dimension)
    everybody = range(dimension.devices)
    endpoint = settings.endpoint_ns * NS
    if settings.splits == 1 and settings.memory_GBps == NO_MEMORY:
        found = by_rounds(net, program, everybody, size, given=partial(_rules, dimension, settings))
        if found is not None:
            return (found.time_fs + endpoint) // NS
    graph = _in_turns(messages(program, size), dimension.devices, settings)
    adds = graph.reduces & ((graph.round > 0) | (dimension.algorithm != "halvingDoubling"))
    sizes, classes = np.unique(graph.nbytes * 2 + adds, return_inverse=True)
    hops = _rules(dimension, settings, sizes // 2, sizes % 2)
    end = play(net, graph, hops=hops, classes=classes).end_fs[graph.target < dimension.devices]
    return (int(end.max(initial=0)) + endpoint) // NS


def _program(kind: str, nbytes: int, dimension: Dimension) -> tuple[Program, int]:
    """Rounds and bytes of a whole buffer, as this package counts them."""
    many, how = dimension.devices, dimension.algorithm
    size = nbytes * many if kind == "all_gather" else nbytes
    if how == "doubleBinaryTree":
        return Program(many, 1, tuple(_tree(many))), size
    if kind == "all_to_all" and how == "ring":
        turns = range(many * (many - 1) // 2)
        following = rounds(range(many), np.roll(np.arange(many), -1), 0)
        return Program(many, many, tuple(following for _ in turns), blocking=True), size
    if how == "halvingDoubling" and kind != "all_to_all":
        scatter, gather = (halving(_near_first(many)), doubling(_near_first(many)))
        parts = {"all_reduce": scatter + gather, "reduce_scatter": scatter, "all_gather": gather}
        return Program(many, many, tuple(parts[kind])), size
    name = "ring" if how == "ring" else "direct"
    return COLLECTIVES[name].rounds(kind, Members(many, (0,) * many)), size


def _near_first(many: int) -> Ints:
    """Devices in an order in which those half as far away each time are twice as far away: bits reversed."""
    bits = many.bit_length() - 1
    return np.array([[int(f"{i:0{bits}b}"[::-1], 2) if bits else 0 for i in range(many)]], np.int64)


def _tree(many: int) -> list[Rounds]:
    parents = trees(many)[0]
    edges = [(rank, parent, rank & -rank) for rank, parent in enumerate(parents) if parent is not None]
    bits = sorted({bit for _, _, bit in edges})
    up = [
        rounds([r for r, _, b in edges if b == bit], [p for _, p, b in edges if b == bit], 0, 1, True) for bit in bits
    ]
    return [*up, *(rounds(each.target, each.source) for each in reversed(up))]


def _in_turns(graph: MessageGraph, devices: int, settings: Settings) -> MessageGraph:
    """All splits: at first ``active`` of them; a device begins another one when it is done with one of them.

    Being done takes the delay of a step: a message from device i to its double, device n + i.
    """
    splits = [graph] * settings.splits
    if settings.splits <= settings.active:
        return side_by_side(splits)
    many, device = len(graph), np.arange(devices)
    first = np.flatnonzero(np.diff(graph.needs_start) == 0)
    arrivals = [np.flatnonzero(graph.target == each) for each in device]
    gates = plain_messages(
        np.tile(device, settings.splits).tolist(), np.tile(device + devices, settings.splits).tolist(),
        [0] * (devices * settings.splits),
        [(each + split * many).tolist() for split in range(settings.splits) for each in arrivals],
    )  # fmt: skip
    waiting = range(settings.active, settings.splits)
    who = np.concatenate([first + split * many for split in waiting])
    gate = many * settings.splits + np.concatenate(
        [graph.source[first] + (split - settings.active) * devices for split in waiting]
    )
    both = side_by_side([side_by_side(splits), replace(gates, needs=gates.needs - many * settings.splits)])
    return _also(both, who, gate)


def _also(graph: MessageGraph, who: Ints, need: Ints) -> MessageGraph:
    """The same, where messages that wait for nothing wait for one each."""
    counts = np.diff(graph.needs_start)
    counts[who] = 1
    needs = np.empty(int(counts.sum()), np.int64)
    begins = starts(counts)
    added = np.zeros(len(needs), bool)
    added[begins[who]] = True
    needs[added], needs[~added] = need[np.argsort(who, kind="stable")], graph.needs
    return replace(graph, needs_start=begins, needs=needs)


def _network(dimension: Dimension, endpoint_ns: int) -> Topology:
    """Devices, then their doubles, then the switch; wires of the dimension, then from each device to its double."""
    many, ends = dimension.devices, _ends(dimension)
    labels = (*(f"npu{i}" for i in range(many)), *(f"double{i}" for i in range(many)), "switch")
    wires = tuple(Wire(a, b, 0, Fraction(1), 0.0, "link") for a, b in ends)
    router = partial(_around, many) if dimension.shape == "Ring" else None
    return Topology(
        dimension.shape, 2 * many, labels, wires, (0,) * 2 * many, "store-and-forward", endpoint_ns * NS, router
    )


def _ends(dimension: Dimension) -> list[tuple[int, int]]:
    many, switch = dimension.devices, 2 * dimension.devices
    doubles = [(i, many + i) for i in range(many)]
    if dimension.shape == "Switch":
        return [(i, switch) for i in range(many)] + [(switch, i) for i in range(many)] + doubles
    if dimension.shape == "Ring":
        up, down = [(i, (i + 1) % many) for i in range(many)], [(i, (i - 1) % many) for i in range(many)]
        return up + down + doubles
    return [(a, b) for a in range(many) for b in range(many) if a != b] + doubles


def _around(many: int, a: int, b: int) -> list[int]:
    """Wires of the shorter way around; of two alike, the one upwards; to its double each device has one of its own."""
    if b >= many:
        return [2 * many + a]
    up = (b - a) % many
    if up <= many - up:
        return [(a + k) % many for k in range(up)]
    return [many + (a - k) % many for k in range(many - up)]


def _rules(dimension: Dimension, settings: Settings, sizes: Ints, adds: Ints | None = None) -> Rules:
    """Wires of three kinds: to a switch; to a device, where what comes may be added; to a double, which takes no time.
    A column per size and ``adds``."""
    flags = np.zeros_like(sizes) if adds is None else adds
    busy = np.array([int(dimension.moving_ns(size)) for size in sizes.tolist()], np.int64) * NS
    hop = np.array([dimension.message_ns(size, 1) for size in sizes.tolist()], np.int64) * NS
    done = np.array([settings.adding_ns(size) for size in sizes.tolist()], np.int64) * flags * NS
    many = dimension.devices
    kinds = [2 if many <= b < 2 * many else int(b < many) for _, b in _ends(dimension)]
    none = np.zeros_like(busy)
    return Rules(
        np.array(kinds, np.int64), np.zeros(3, np.int64), np.stack([busy, busy, none]),
        np.stack([hop, hop + done, none]), np.stack([hop, hop, none]),
    )  # fmt: skip
