"""The inner loop of the bank model, first half: rows are opened, closed and refreshed. See ``bank_kernel``."""

from __future__ import annotations

# isort: off
from accelsim.dram.bank_bus import BUSES, free, on_edge, take
from accelsim.dram.bank_state import (
    ACTS, ACT_CLOCKS, ACT_REF, BANK, BUS, BY_COMMAND, CLOSED_AT, EDGE, EVERY, FIRST_WINDOW, FRONT, GROUP_ACT, HEAD, HIT,
    LAST_ACT, LAST_USE, LOGGED, MY_BUS, MY_GROUP, MY_RANK, NEVER, NEXT, NEXT_ACT, NEXT_CAS, NEXT_PRE, NEXT_REF, NOW,
    N_ACT, N_PRE, N_REF, N_REFPB, OPENED, OPEN_BANKS, OPEN_CLOCKS, OPEN_ROW, PER_BANK, PER_RANK, RANK, RANKS,
    RANK_ACT, RAS, RC, RCD, REF_ACT, REF_AT, REF_BANK, REF_BEFORE, REF_REF, RFC, RING, ROW, RP, RRD_L, RRD_OTHER,
    RRD_S, SINCE, SLOT, TIMEOUT, USES, WAITS, WINDOWS, Ints,
)  # fmt: skip
# isort: on

ACT, PRE, REF, REFPB = 0, 1, 4, 5


def note(at: Ints, log: Ints, clock: int, command: int, bank: int, row: int) -> None:
    """Write a command to the log."""
    k = 4 * at[LOGGED]
    log[k], log[k + 1], log[k + 2], log[k + 3] = clock, command, bank, row
    at[LOGGED] += 1


def beside_refresh(p: Ints, rank: Ints, r: int, t: int) -> int:
    """Earliest activation from ``t`` on that the last refreshes of single banks of a rank, record ``r``, allow."""
    for last in range(REF_BEFORE, REF_AT - 1, -1):  # the older one first
        x = rank[r + last]
        if x - p[ACT_REF] < t < x + p[REF_ACT]:
            t = x + p[REF_ACT]
    return t


def act_time(p: Ints, bank: Ints, group: Ints, rank: Ints, k: int, since: int) -> int:
    """Earliest activation of bank ``k``, which is wanted since then; after its precharge where a row is open."""
    b, t = BANK * k, since
    if bank[b + OPEN_ROW] >= 0:
        if bank[b + NEXT_PRE] > t:
            t = bank[b + NEXT_PRE]
        t += p[RP]
    x = bank[b + NEXT_ACT]
    if x > t:
        t = x
    x = rank[bank[b + MY_RANK] + RANK_ACT]
    if x > t:
        t = x
    x = group[bank[b + MY_GROUP] + GROUP_ACT]
    if x > t:
        t = x
    if p[PER_BANK]:  # as beside_refresh, which would not be inlined here
        for last in range(REF_BEFORE, REF_AT - 1, -1):
            x = rank[bank[b + MY_RANK] + last]
            if x - p[ACT_REF] < t < x + p[REF_ACT]:
                t = x + p[REF_ACT]
    return t


def bus_act(p: Ints, bank: Ints, rank: Ints, ring: Ints, slot: Ints, k: int, s: int, act: int) -> int:
    """Return when bank ``k`` can be activated for slot ``s``, at ``act`` or later, given when the bus is free."""
    b, t, x = BANK * k, act, slot[SLOT * s + SINCE]
    bus, clocks = bank[b + MY_BUS], p[ACT_CLOCKS]
    if bank[b + OPEN_ROW] >= 0:
        if bank[b + NEXT_PRE] > x:
            x = bank[b + NEXT_PRE]
        x = free(ring, bus, x, 1) + max(p[RP], clocks)
    else:
        x += clocks - 1
    t = on_edge(p, ring, bus, max(t, x), clocks)
    while p[PER_BANK]:
        x = beside_refresh(p, rank, bank[b + MY_RANK], t)
        if x == t:
            break
        t = on_edge(p, ring, bus, x, clocks)
    return t


def close(p: Ints, bank: Ints, rank: Ints, at: Ints, log: Ints, k: int, clock: int) -> None:
    """Precharge the open bank ``k`` at ``clock``."""
    b = BANK * k
    r = bank[b + MY_RANK]
    at[N_PRE] += 1
    if len(log) > 0:
        note(at, log, clock, PRE, k, bank[b + OPEN_ROW])
    bank[b + OPEN_ROW] = -1
    bank[b + HIT] = -1
    bank[b + HIT + 1] = -1
    if clock + p[RP] > bank[b + NEXT_ACT]:
        bank[b + NEXT_ACT] = clock + p[RP]
    rank[r + OPEN_BANKS] -= 1
    if clock > rank[r + CLOSED_AT]:  # banks are not closed in the order of time
        rank[r + CLOSED_AT] = clock
    if rank[r + OPEN_BANKS] == 0:
        rank[r + OPEN_CLOCKS] += rank[r + CLOSED_AT] - rank[r + OPENED]


def count_act(p: Ints, rank: Ints, ring: Ints, r: int, act: int) -> None:
    """Note an activation in rank ``r`` and when the next may follow, with the windows of four or 32 activations."""
    e, first = RANK * r, r
    if p[RRD_OTHER] > 0:  # stack IDs are more banks of one supply
        first -= r % p[RANKS]
    n = rank[RANK * first + ACTS] + 1
    if rank[e + OPEN_BANKS] == 0:
        if act < rank[e + CLOSED_AT]:  # behind the data of others, so two times with open banks become one
            rank[e + OPEN_CLOCKS] -= rank[e + CLOSED_AT] - max(act, rank[e + OPENED])
        rank[e + OPENED] = act
    rank[e + OPEN_BANKS] += 1
    rank[RANK * first + ACTS] = n
    rank[e + LAST_ACT] = act
    ring[first * p[RING] + (n - 1) % p[RING]] = act
    after = NEVER
    for w in range(FIRST_WINDOW, FIRST_WINDOW + 2 * p[WINDOWS], 2):
        if n >= p[w]:
            x = ring[first * p[RING] + (n - p[w]) % p[RING]] + p[w + 1]
            if x > after:
                after = x
    if p[RRD_OTHER] > 0:
        after = max(after, act + p[RRD_OTHER])
        for other in range(first, first + p[RANKS]):
            if after > rank[RANK * other + RANK_ACT]:
                rank[RANK * other + RANK_ACT] = after
    rank[e + RANK_ACT] = max(after, act + p[RRD_S])


def expire(p: Ints, bank: Ints, rank: Ints, at: Ints, log: Ints, k: int, now: int) -> None:
    """Close bank ``k`` if its row has not been used for so long by ``now``."""
    b = BANK * k
    if bank[b + OPEN_ROW] >= 0:
        idle = max(bank[b + NEXT_PRE], bank[b + LAST_USE] + p[TIMEOUT])
        if idle < now:
            close(p, bank, rank, at, log, k, idle)


def open_row(
    p: Ints, bank: Ints, group: Ints, rank: Ints, ring: Ints, slot: Ints, at: Ints, log: Ints, k: int, s: int,
    act: int,
) -> None:  # fmt: skip
    """Activate the row that slot ``s`` wants at ``act``; bank ``k`` is precharged first where another row is open."""
    b, row = BANK * k, slot[SLOT * s + ROW]
    r = bank[b + MY_RANK] // RANK
    if bank[b + OPEN_ROW] >= 0:
        pre, since = bank[b + NEXT_PRE], slot[SLOT * s + SINCE]
        if since > pre:
            pre = since
        if BUSES and p[BUS] > 0:
            bus = bank[BANK * k + MY_BUS]
            pre = free(ring, bus, pre, 1)
            take(ring, bus, pre, 1)
        close(p, bank, rank, at, log, k, pre)
    if BUSES and p[BUS] > 0:
        take(ring, bank[BANK * k + MY_BUS], act, p[ACT_CLOCKS])
    if p[TIMEOUT] > 0:
        for other in range(r * p[PER_RANK], (r + 1) * p[PER_RANK]):
            if bank[BANK * other + HEAD] < 0 and bank[BANK * other + HEAD + 1] < 0:
                expire(p, bank, rank, at, log, other, min(act, at[NOW]))
    at[N_ACT] += 1
    if len(log) > 0:
        note(at, log, act, ACT, k, row)
    count_act(p, rank, ring, r, act)
    group[bank[b + MY_GROUP] + GROUP_ACT] = act + p[RRD_L]
    bank[b + OPEN_ROW] = row
    bank[b + USES] = 0
    bank[b + NEXT_ACT] = act + p[RC]
    bank[b + NEXT_PRE] = act + p[RAS]
    for d in range(2):
        bank[b + NEXT_CAS + d] = act + p[RCD + d]
        hit = bank[b + HEAD + d]
        while hit >= 0 and slot[SLOT * hit + ROW] != row:
            hit = slot[SLOT * hit + NEXT]
        bank[b + HIT + d] = hit


def open_ahead(
    p: Ints, bank: Ints, group: Ints, rank: Ints, ring: Ints, slot: Ints, at: Ints, log: Ints, r: int, due: int,
) -> None:  # fmt: skip
    """Open the rows that the controller has opened by ``due`` for requests that still wait; the refresh closes them."""
    for k in range(r * p[PER_RANK], (r + 1) * p[PER_RANK]):
        for d in range(2):
            b = BANK * k
            s = bank[b + HEAD + d]
            if s >= 0 and bank[b + HIT] < 0 and bank[b + HIT + 1] < 0:
                act = act_time(p, bank, group, rank, k, slot[SLOT * s + SINCE])
                if BUSES and p[BUS] > 0:
                    act = bus_act(p, bank, rank, ring, slot, k, s, act)
                if act < due:
                    open_row(p, bank, group, rank, ring, slot, at, log, k, s, act)


def wanted_since(bank: Ints, slot: Ints, k: int, otherwise: int) -> int:
    """Since when other rows of the open bank ``k`` are wanted; ``otherwise`` when none is, or its own row too."""
    since, b = otherwise, BANK * k
    for d in range(2):
        if bank[b + HIT + d] >= 0:
            return otherwise
        if bank[b + HEAD + d] >= 0:
            since = min(since, slot[SLOT * bank[b + HEAD + d] + SINCE])
    return since


def refresh(
    p: Ints, bank: Ints, group: Ints, rank: Ints, ring: Ints, slot: Ints, at: Ints, log: Ints, r: int
) -> None:
    """Refresh rank ``r``, or the bank of it whose turn it is, at the clock when that is due or as soon as it can be."""
    due, first, past = rank[RANK * r + NEXT_REF], r * p[PER_RANK], (r + 1) * p[PER_RANK]
    if p[PER_BANK]:
        first += rank[RANK * r + REF_BANK]
        past = first + 1
        rank[RANK * r + REF_BANK] = (rank[RANK * r + REF_BANK] + 1) % p[PER_RANK]
    elif not p[WAITS] and not p[BY_COMMAND]:
        open_ahead(p, bank, group, rank, ring, slot, at, log, r, due)
    begin = due
    if p[PER_BANK]:
        begin = max(due, rank[RANK * r + LAST_ACT] + p[ACT_REF])
    for k in range(first, past):
        b = BANK * k
        if bank[b + OPEN_ROW] >= 0:
            pre = max(bank[b + NEXT_PRE], due if p[BY_COMMAND] else wanted_since(bank, slot, k, due + FRONT))
            close(p, bank, rank, at, log, k, pre)
        begin = max(begin, bank[b + NEXT_ACT])  # what is true of an ACT is true of REF
    begin += (1 - begin) % p[EDGE]
    if p[PER_BANK]:
        begin = max(begin, rank[RANK * r + REF_AT] + p[REF_REF])
        rank[RANK * r + REF_BEFORE] = rank[RANK * r + REF_AT]
        rank[RANK * r + REF_AT] = begin
    for k in range(first, past):
        bank[BANK * k + NEXT_ACT] = max(bank[BANK * k + NEXT_ACT], begin + p[RFC])
    at[N_REFPB if p[PER_BANK] else N_REF] += 1
    if len(log) > 0:
        note(at, log, begin, REFPB if p[PER_BANK] else REF, first, 0)
    rank[RANK * r + NEXT_REF] = due + p[EVERY]


LOOP = (
    note, beside_refresh, act_time, bus_act, close, count_act, expire, open_row, open_ahead, wanted_since, refresh,
)  # fmt: skip
"""Every function of this half, callees first."""
