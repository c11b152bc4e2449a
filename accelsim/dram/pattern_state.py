"""What the loop of the pattern model works on: one flat sequence of integers, and the names of its entries.

A list where Python runs the loop, an int64 array where numba does. Rules come first, then the records of channels,
queues, ranks, bank groups and banks; a record is known by where it begins. All times are clocks. A *direction* is 0 for
reads and 1 for writes; an entry that says '[2]' has one value for each.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from accelsim.dram.device import Command, Device, Level
from accelsim.dram.standards import STANDARDS

Ints = Any
"""A list of int, or an int64 array."""
NEVER, LATER, UNLIMITED = -(1 << 40), 1 << 60, 1 << 40
FRONT = 1
"""Clocks from the acceptance of a request to its first command, and from a freed place to its next request."""
READ, WRITE, GAP = 1, 2, 4
"""What a slot of a data bus holds; 0 where it is free."""
BUSY, OPENED = 7, 8
"""All of these; beside them, OPENED << direction: a request leaves its queue, as its row is opened."""

# Sizes: channels, channels that share a queue, ranks of one, bank groups of a rank, slots of a calendar less one, bits
# of a row, lowest bits of an address that are of no account, where the records of the banks begin.
CHANNELS, SHARED, RANKS, GROUPS, MASK, ROW_BITS, SPAN, BANKS = range(8)
# Controller: requests in a window, watermarks of writes, page policy (0: not so), whether single banks are refreshed,
# clocks between refreshes (0: none) and of one.
WINDOW, HIGH, LOW, CLOSED, CAP, TIMEOUT, PER_BANK, EVERY, RFC = range(8, 17)
# A slot of the bus has 2 to the power of SLOT clocks. Then clocks: PRE to ACT, ACT to ACT of a bank, ACT to
# PRE, ACT to ACT of a rank and of any rank; in 1/FRACTION, what a burst is longer than a slot.
SLOT, RP, RC, RAS, RRD, RRD_ANY, EXCESS = range(17, 24)
# Clocks that an ACT holds the command bus (0: no bus counts), and that a RD or WR does.
ACT_CLOCKS, CAS_CLOCKS = 24, 25
# By direction: the next burst of the bank group, ACT to RD or WR, RD or WR to PRE, a change of rank (1/FRACTION). [2]
STEP, RCD, TO_PRE, RANK_GAP = range(26, 34, 2)
# By direction that the bus turns to: last burst of the other direction to the first of this one, in any rank, in the
# same rank, in the same bank group. [2]
TURN, TURN_RANK, TURN_GROUP = range(34, 40, 2)
# Activations in a window, its clocks. [2]
WINDOW_ACTS, WINDOW_CLOCKS = 40, 42
# The whole: clock of the injection, requests injected in it, whether the batch has writes; then what is counted.
NOW, INJECTED, MIXED, N_ACT, N_PRE, N_MISS, N_CONFLICT = range(44, 51)
# Banks of a channel; slots between the place in the queue of a request that opened a row and its burst [2] (0: none).
EACH, ACTIVE = 51, 52
# Clocks for which a refresh lets bursts to open rows go on.
GRACE = 54
RULES = 55
FRACTION = 1024

# Record of a channel: earliest column command of this direction, latest so far, clocks (1/FRACTION) that the bus has
# lost, rank of the last burst, earliest ACT, where its slots and the records of its ranks and banks begin.
FROM, LATEST, LOST, LAST_RANK, ANY_ACT, CALENDAR, FIRST_RANK, FIRST_BANK, CHANNEL = range(9)
# Record of a queue: slots before PASSED are over; requests in it [2]; direction; requests that wait unplaced [2] (reads
# behind a drain, writes before one); where the next read is noted; clock of its command bus; its first channel, and
# how far apart the others are; next refresh of all its ranks; requests that have left it before their burst
# [2].
PASSED, WAITING, DIRECTION, HELD, PLACED, COMMAND, ITS_CHANNEL, APART, NEXT_ALL, AHEAD, QUEUE = (
    0, 1, 3, 4, 6, 7, 8, 9, 10, 11, 13
)  # fmt: skip
# Behind it, WINDOW times each: held reads, held writes (with the clock at which each could be served), and the reads
# that were placed last, each with what was true before: of its bank, of its group and of its rank.
H_BANK, H_ROW, H_ACCEPTED, H_READY, HOLD = range(5)
IT_BANK, IT_ROW, IT_COLUMN, IT_FOUND, IT_ACCEPTED, IT_OWN, IT_DUE, ITEM_BEFORE = range(8)
B_COLUMN, B_PRE, B_ACT, B_GROUP, B_RANK, ITEM = range(ITEM_BEFORE, ITEM_BEFORE + 6)
# Record of a rank: next refresh, end of the last, earliest ACT, number of activations, where its bank groups (one entry
# each: earliest column command) begin, earliest and latest column command of this direction, clocks of the last
# activations: as many as a window counts, and as many as may be taken back.
NEXT_REF, REF_END, RANK_ACT, ACTS, FIRST_GROUP, RANK_FROM, RANK_LATEST, RING = range(8)
RING_SIZE = 64
RANK = RING + RING_SIZE
# Record of a bank: the visit to its open row (row or -1, earliest column command, bursts, first column command),
# earliest PRE and ACT, next refresh that it has not seen; where the records of its channel, queue, rank, of the rank
# whose windows count, and of its bank group are; last column command and row of the writes that a drain looks at; then
# the visits before, in a ring whose youngest is at YOUNGEST.
OPEN_ROW, COLUMN, USES, BEGUN, VISIT = range(5)
(
    NEXT_PRE,
    NEXT_ACT,
    DUE,
    MY_CHANNEL,
    MY_QUEUE,
    MY_RANK,
    MY_RING,
    MY_GROUP,
    YOUNGEST,
    PLANNED,
    PLANNED_ROW,
    PACE,
    BEFORE,
) = range(4, 17)
BANK = BEFORE_END = BEFORE + 4 * VISIT


def one_window(device: Device) -> Device:
    """Return the same device with one window in place of the two stages of scheduler 'queues'; any other as it is.

    What waits in front of the banks and the queue of one bank are reordered together, and a row that others wait for
    gives way when its requests in that queue are served.
    """
    c = device.controller
    if c.scheduler != "queues":
        return device
    whole = c.window + c.depth
    share = c.window / whole
    one = replace(c, scheduler="bursts", window=whole, cap=c.depth, high=c.high * share, low=c.low * share)
    return replace(device, controller=one)


def rules(device: Device) -> list[int]:
    """The constants of a device, from its tables; room for what changes."""
    g, c = device.geometry, device.controller
    sibling, rank, group, bank = (device.latency[level] for level in Level)
    act, pre, rd, wr = Command.ACT, Command.PRE, Command.RD, Command.WR
    burst = max(rank[rd][rd], rank[wr][wr], device.burst)
    slot = burst.bit_length() - 1
    step = [max(burst, group[kind][kind], bank[kind][kind]) for kind in (rd, wr)]
    cycle = max(bank[act][act], bank[act][pre] + bank[pre][act])
    every, rfc = refresh(device)
    farthest = (c.window * (cycle + step[1] + bank[act][rd]) + 4 * rfc) >> slot
    windows = [*device.windows, *[(1, 0)] * 2][:2]
    several = g.ranks > 1
    gaps = [round(FRACTION * _rank_gap(device, burst, cycle, kind)) if several else 0 for kind in (rd, wr)]
    known = STANDARDS.get(device.standard)
    turns = [(wr, rd), (rd, wr)]
    turn = [max(min(level[b][a] for level in ((sibling, rank) if several else (rank,))), 1) for b, a in turns]
    values = [
        g.channels, c.shared, g.ranks, g.groups, (1 << (2 * farthest).bit_length()) - 1, g.rows.bit_length() - 1, 0, 0,
        c.window, max(1, math.ceil(round(c.high * c.window, 6))), int(c.low * c.window), int(c.page_policy == "closed"),
        c.cap if c.page_policy == "capped" else UNLIMITED, c.timeout if c.page_policy == "timeout" else 0,
        int(c.refresh == "per_bank"), every, rfc,
        slot, bank[pre][act], cycle, bank[act][pre], max(rank[act][act], 1), sibling[act][act] if several else 0,
        FRACTION * (burst - (1 << slot)),
        c.act_clocks, int(c.act_clocks > 0 and not (known and known.row_bus)),
        *step, bank[act][rd], bank[act][wr], bank[rd][pre], bank[wr][pre], *gaps, *turn,
        *[rank[b][a] for b, a in turns], *[max(group[b][a], bank[b][a]) for b, a in turns],
        windows[0][0], windows[1][0], windows[0][1], windows[1][1],
    ]  # fmt: skip
    values += [0] * (RULES - len(values))
    values[EACH] = g.ranks * g.banks_per_rank
    values[GRACE] = bank[rd][pre] if c.refresh_waits else 0
    if c.scheduler == "commands":
        values[ACTIVE : ACTIVE + 2] = [bank[act][rd] >> slot, bank[act][wr] >> slot]
    return values


def refresh(device: Device) -> tuple[int, int]:
    """(clocks between two refreshes of a bank, 0 without; clocks that it takes)."""
    kind, timing = device.controller.refresh, device.timing
    if kind == "none":
        return 0, 0
    if kind != "per_bank":
        return timing["tREFI"], device.latency[Level.RANK][Command.REF][Command.ACT]
    banks = device.geometry.banks_per_rank
    each = timing.get("tREFIpb") or max(1, timing["tREFI"] // banks)
    return each * banks, device.latency[Level.BANK][Command.REFPB][Command.ACT]


def _rank_gap(device: Device, burst: int, cycle: int, kind: Command) -> float:
    """Clocks that a burst behind one of another rank costs, as the controller often finds one of the same rank.

    It can choose among a third of the banks that are waited for and not busy with a row cycle (bursts come in random
    order on a full bus); each has even chances to be in the rank.
    """
    banks = device.geometry.ranks * device.geometry.banks_per_rank
    wanted = banks * (1 - math.exp(-device.controller.window / banks))
    choice = max(1.0, (wanted - cycle / burst) / 3)
    gap = max(0, device.latency[Level.SIBLING][kind][kind] - burst)
    return float(gap * 0.5 ** (choice - 1))


def fresh(device: Device) -> tuple[list[int], int]:
    """(the state of an idle device, all banks closed; how many slots all calendars have)."""
    g, refreshed = device.geometry, device.controller.refresh
    m = rules(device)
    size, queues, window = m[MASK] + 1, g.channels // m[SHARED], m[WINDOW]
    channels = [len(m) + CHANNEL * k for k in range(g.channels)]
    together = m[EVERY] > 0 and (refreshed == "all_bank" or (refreshed == "staggered" and g.ranks == 1))
    queue_size = QUEUE + (2 * HOLD + ITEM) * window
    first = len(m) + CHANNEL * g.channels
    ranks = [first + queue_size * queues + RANK * k for k in range(g.channels * g.ranks)]
    for k in range(g.channels):
        m += [NEVER, NEVER, 0, -1, NEVER, k * size, ranks[k * g.ranks], 0]
    for k in range(queues):
        head = [
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            NEVER,
            channels[k],
            CHANNEL * queues,
            m[EVERY] if together else LATER,
            0,
            0,
        ]
        m += head + [NEVER] * (queue_size - QUEUE)
    due = [m[EVERY] if m[EVERY] and not together else LATER] * len(ranks)
    if refreshed == "staggered" and not together:
        due = [each + m[EVERY] * (k % g.ranks) // g.ranks for k, each in enumerate(due)]
    groups = len(m) + RANK * len(ranks)
    for k, each in enumerate(due):
        m += [each, NEVER, NEVER, RING_SIZE, groups + k * g.groups, NEVER, NEVER, *[NEVER] * RING_SIZE]
    m += [NEVER] * (g.channels * g.ranks * g.groups)
    m[BANKS] = len(m)
    for k, channel in enumerate(channels):
        m[channel + FIRST_BANK] = m[BANKS] + BANK * m[EACH] * k
    for k in range(g.channels * g.ranks * g.banks_per_rank):
        rank, channel = k // g.banks_per_rank, k // (g.ranks * g.banks_per_rank)
        mine = (k % g.banks_per_rank + 1) * (m[EVERY] // g.banks_per_rank) if m[PER_BANK] else due[rank]
        records = [
            channels[channel],
            first + channel % queues * queue_size,
            ranks[rank],
            ranks[channel * g.ranks] if m[RRD_ANY] else ranks[rank],
            groups + k // g.banks,
        ]
        visits = [-1, NEVER, 0, NEVER] * ((BEFORE_END - BEFORE) // VISIT)
        m += [-1, NEVER, 0, NEVER, NEVER, NEVER, mine, *records, BEFORE, NEVER, -1, NEVER, *visits]
    return m, size * g.channels
