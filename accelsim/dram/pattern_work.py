"""How long each resource of a channel is busy with each block of a stream: the bounds of the ``pattern`` model.

Resources of a channel, in this order: its *banks* (row cycles), its *bank groups* (column accesses, tCCD_L), its
*ranks* (activations: tRRD, tFAW, t32AW) and its *data bus* (tCCD_S, turn-around, change of rank).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from accelsim.dram.device import Command, Device, Level
from accelsim.dram.pattern_rows import Found, Groups, Turns

Array = np.ndarray[Any, Any]
ACT, PRE, RD, WR = Command.ACT, Command.PRE, Command.RD, Command.WR
_LOW, _HIGH = np.float64(1 << 16), np.float64(1 << 32)
"""Factors that put a second and a third sum above a first one of less than 2^16 in a float64."""

IDLE = np.float32(1e7)
"""Clocks subtracted from a resource that a block does not use, so that it cannot be the last to finish."""


class Plain(NamedTuple):
    """Some of ``Costs`` as floats: lists of two are indexed by direction."""

    bus: list[float]
    cas: list[float]
    to_cas: list[float]
    to_pre: list[float]
    ras: float
    rp: float
    act: float


class Costs:
    """Clocks of a device; arrays of two are indexed by direction (0 read, 1 write)."""

    def __init__(self, device: Device) -> None:
        sibling, rank, group, bank = (device.latency[level] for level in Level)
        self.bus = np.array([max(rank[RD][RD], device.burst), max(rank[WR][WR], device.burst)], float)
        self.cas = np.maximum(self.bus, [group[RD][RD], group[WR][WR]])
        self.to_cas = np.array([bank[ACT][RD], bank[ACT][WR]], float)
        self.to_pre = np.array([bank[RD][PRE], bank[WR][PRE]], float)
        self.to_data = np.array([device.timing["CL"], device.timing["CWL"]], float) + device.burst
        self._single = np.array([self.cas, self.to_cas, self.to_pre], np.float32)
        self.ras, self.rp = np.float32(bank[ACT][PRE]), np.float32(bank[PRE][ACT])
        self.act = max([rank[ACT][ACT], *(clocks / count for count, clocks in device.windows)])
        self.act_any = float(sibling[ACT][ACT])
        self.act_group = float(group[ACT][ACT])
        turns = ((RD, WR), (WR, RD))
        self.turn = np.array([max(0.0, rank[a][b] - self.bus[int(a == WR)]) for a, b in turns])
        self.turn_group = np.array(
            [max(0.0, max(rank[a][b], group[a][b]) - self.cas[int(a == WR)]) for a, b in turns]
        )
        self.rank_gap = max(0.0, sibling[RD][RD] - self.bus[0]) if device.geometry.ranks > 1 else 0.0
        self.choice = self._choice(device)
        self.shared = device.controller.shared
        self.closed = device.controller.page_policy == "closed"
        bus, cas, to_cas, to_pre = (each.tolist() for each in (self.bus, self.cas, self.to_cas, self.to_pre))
        self.plain = Plain(bus, cas, to_cas, to_pre, float(self.ras), float(self.rp), float(self.act))

    def _choice(self, device: Device) -> float:
        """How many bursts the scheduler can choose from, so as to stay in a rank: a third of the banks that are waited
        for and not busy with a row cycle, in random order on a full bus."""
        banks = device.geometry.ranks * device.geometry.banks_per_rank
        wanted = banks * (1 - math.exp(-device.controller.window / banks))
        return max(1.0, (wanted - float(self.ras + self.rp) / float(self.bus[0])) / 3)

    def rows(self, groups: Groups, hit: Array, miss: Array) -> tuple[Array, Array]:
        """(clocks that each group keeps its bank busy, of these those after its last column command), float32.

        Open page: [precharge, if another row was open,] activate, column commands tCCD_L apart; then the bank can be
        precharged. Closed page: each burst activates and precharges.
        """
        way = (
            int(groups.write[0])
            if groups.write.all() or not groups.write.any()
            else groups.write.astype(np.intp)
        )
        cas, to_cas, to_pre = self._single[0][way], self._single[1][way], self._single[2][way]
        bursts = groups.bursts.astype(np.float32)
        if self.closed:
            cycle = np.maximum(self.ras, to_cas + to_pre) + self.rp
            return bursts * cycle, np.broadcast_to(np.float32(cycle - to_cas), bursts.shape)
        bursts *= cas  # from here on, clocks of the column commands of a group
        tail = np.maximum(self.ras - to_cas + cas - bursts, to_pre)
        busy = bursts + (to_cas - cas + self.rp) + tail
        busy -= self.rp * miss
        return np.where(hit, bursts, busy), np.where(hit, to_pre, tail)


@dataclass(frozen=True)
class Shape:
    """Sizes: ``steps`` blocks of each of ``lanes`` stretches of the stream; channels; ranks, groups, banks of each."""

    steps: int
    lanes: int
    channels: int
    ranks: int
    groups: int
    banks: int

    @property
    def all_groups(self) -> int:
        """Bank groups of a channel."""
        return self.ranks * self.groups

    @property
    def all_banks(self) -> int:
        """Banks of a channel."""
        return self.all_groups * self.banks

    @property
    def kinds(self) -> tuple[int, int, int, int]:
        """Where banks, bank groups, ranks and the bus begin among the resources of a channel."""
        return 0, self.all_banks, self.all_banks + self.all_groups, self.resources - 1

    @property
    def resources(self) -> int:
        """Resources of a channel."""
        return self.all_banks + self.all_groups + self.ranks + 1


@dataclass
class Work:
    """Of each block, float32 arrays of shape (steps, channels, resources, lanes + 1).

    Lane 0 is empty: it stands before the stream. ``busy``: clocks. ``tail``: of these, those after the last column
    command, IDLE where there is none. ``share``: of the block's bursts (for ranks: activations) on this resource. Shape
    (steps, channels, lanes + 1): ``bursts``, ``acts``. ``group_bursts`` (steps, channels, groups, lanes + 1).
    ``turn`` (steps, 2, lanes + 1): 1 where the block begins with a change to [writes, reads], None without any.
    ``spread``: ranks that a channel's bursts of a block go to, as many as share them evenly.
    """

    shape: Shape
    busy: Array
    tail: Array
    share: Array
    bursts: Array
    acts: Array
    group_bursts: Array
    turn: Array | None
    spread: float = 1.0

    def half(self) -> Array:
        """Shape (steps, channels, 4, lanes + 1): clocks from the middle of the block's column commands until each kind
        of resource is free, weighted by share."""
        banks = slice(0, self.shape.all_banks)
        tail, busy = self.tail[:, :, banks], self.busy[:, :, banks]
        half = busy + tail
        half *= np.float32(0.5)
        np.maximum(half, tail, out=half)  # of an unused bank it is IDLE, and its share is 0
        half *= self.share[:, :, banks]
        kinds = [half.sum(2)]
        for begin, end in pairwise((*self.shape.kinds[1:], self.shape.resources)):
            kinds.append((self.share[:, :, begin:end] * self.busy[:, :, begin:end]).sum(2) * np.float32(0.5))
        return np.stack(kinds, 2)


def work(
    costs: Costs, shape: Shape, groups: Groups, bank: Array, acts: Array, found: Found, turns: Turns
) -> Work:
    """The work of all blocks of ``groups``; ``bank``: flat bank of each, ``acts``: its activations."""
    width, full = shape.lanes + 1, (shape.steps, shape.channels, shape.resources, shape.lanes + 1)
    number = np.arange(shape.steps * shape.lanes)
    corner = number % shape.steps * (shape.channels * shape.resources * width) + number // shape.steps + 1
    flat = np.arange(shape.channels * shape.all_banks)
    aside = (flat + flat // shape.all_banks * (shape.resources - shape.all_banks)) * width
    cell = corner[groups.block]
    cell += aside[bank]
    busy, tail = costs.rows(groups, *found)
    # one pass for three sums, which become the halves and quarters of an integer
    weights = busy * _HIGH
    weights += acts * _LOW
    weights += groups.bursts
    packed = np.bincount(cell, weights, math.prod(full)).astype("<i8")
    quarters = packed.view("<u2").reshape(*full, 4)
    share, opened = quarters[..., 0].astype(np.float32), quarters[:, :, : shape.all_banks, :, 1]
    sums = packed.view("<u4")[1::2].astype(np.float32).reshape(full)
    tails = np.full(packed.size, IDLE)
    tails[cell] = tail
    none = np.empty(0, np.float32)
    result = Work(shape, sums, tails.reshape(full), share, none, none, none, None)
    written = None
    if groups.write.any():
        weights = groups.bursts * groups.write
        written = (
            np.bincount(cell, weights, packed.size).astype(np.float32).reshape(full)[:, :, : shape.all_banks]
        )
    if turns.block.size:
        result.turn = np.zeros((shape.steps, 2, width), np.float32)
        result.turn[turns.block % shape.steps, 1 - turns.write, turns.block // shape.steps + 1] = 1
    _fill(costs, result, opened.astype(np.float32), written)
    return result


def _sum(table: Array, into: int) -> Array:
    """Adds up neighbours on axis 2, so that ``into`` sums are left."""
    steps, channels, _, lanes = table.shape
    return np.asarray(table.reshape(steps, channels, into, -1, lanes).sum(3))


def _fill(costs: Costs, result: Work, acts: Array, written: Array | None) -> None:
    """The resources beside the banks, and all shares, given as bursts. ``acts``, ``written``: by block and bank."""
    shape = result.shape
    bank, group, rank, bus = (
        slice(*ends) for ends in zip(shape.kinds, (*shape.kinds[1:], None), strict=True)
    )
    by_group, acts_group = (_sum(each, shape.all_groups) for each in (result.share[:, :, bank], acts))
    by_rank, acts_rank = _sum(by_group, shape.ranks), _sum(acts_group, shape.ranks)
    total, acts_all = _sum(by_rank, 1), _sum(acts_rank, 1)
    some = np.maximum(total, 1)
    result.busy[:, :, group] = by_group * costs.cas[0]
    result.busy[:, :, bus] = total * costs.bus[0]
    if written is not None:
        result.busy[:, :, group] += _sum(written, shape.all_groups) * (costs.cas[1] - costs.cas[0])
        result.busy[:, :, bus] += _sum(written, 1) * (costs.bus[1] - costs.bus[0])
    if result.turn is not None:
        turn = np.tensordot(result.turn, costs.turn, (1, 0))[:, None, None]
        result.busy[:, :, bus] += turn * (total > 0)
    if shape.ranks > 1:
        # how often the same rank follows in random order
        same = np.where(total > 1, (_sum(by_rank**2, 1) - total) / np.maximum(total * (total - 1), 1), 1)
        result.busy[:, :, bus] += costs.rank_gap * total * (1 - same) ** costs.choice
        result.spread = float((total / np.maximum(same, 1 / shape.ranks)).sum() / total.sum())
    within = acts_group.reshape(*acts_rank.shape[:3], shape.groups, -1).max(3)
    result.busy[:, :, rank] = np.maximum(acts_rank * costs.act, within * costs.act_group)
    if shape.ranks > 1:
        result.busy[:, :, rank] = np.maximum(result.busy[:, :, rank], acts_all * costs.act_any)
    if costs.shared > 1:
        commands = total + 2 * acts_all
        per_queue = commands.reshape(shape.steps, costs.shared, -1, *commands.shape[2:]).sum(1)
        np.maximum(
            result.busy[:, :, bus], np.tile(per_queue, (1, costs.shared, 1, 1)), out=result.busy[:, :, bus]
        )
    for where, count in ((group, by_group), (rank, acts_rank), (bus, total)):
        result.tail[:, :, where][count > 0] = 0
    result.share[:, :, bank] /= some
    result.share[:, :, group] = by_group / some
    result.share[:, :, rank] = acts_rank / np.maximum(acts_all, 1)
    result.share[:, :, bus] = total > 0
    result.bursts, result.acts, result.group_bursts = total[:, :, 0], acts_all[:, :, 0], by_group
