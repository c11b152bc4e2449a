"""The inner loop of the bank model, scheduled by commands in the order of time. Plain Python that numba can compile.

A queue issues one command after the other: of those that can go at the earliest clock the one for the oldest request,
be it ACT, PRE, RD or WR. So a PRE that is allowed goes before an access to the open row that must wait for its bus, as
in controllers that ask in every clock which command is ready; rows are closed earlier, and opened more often, than by
``bank_kernel``. A row that was opened for a request stays open until that request is served, whatever the direction
of the bus; the request gives its place in the window away when its row is opened. At one clock a RD or WR goes before
an ACT or PRE where these have a bus of their own. What a queue does at a clock is decided before the request that comes
in that clock is seen.
"""

from __future__ import annotations

# isort: off
from accelsim.dram.bank_bus import BUSES, free, on_edge, take
from accelsim.dram.bank_kernel import RD, admit, pending, remove, serve
from accelsim.dram.bank_rows import ACT, PRE, act_time, bus_act, close, expire, note, open_row, refresh
from accelsim.dram.bank_state import (
    ACTIVE, ACTIVES, ACT_CLOCKS, BANK, BUS, CAP, CLOCK, CLOSED, COLUMNS, COMING, CONTROLLERS, DATA, DRAINING, FRONT,
    GROUP_CAS, HANDOVER, HEAD, HIGH, HIT, INJECTED, INJECTION, IN_FLIGHT, LOGGED, LOW, MET, MY_BUS, MY_GROUP, MY_RANK,
    NEVER, NEXT, NEXT_ACT, NEXT_CAS, NEXT_PRE, NEXT_REF, NOW, N_CONFLICT, N_HIT, N_MISS, OPEN_ROW, OUTSTANDING, OWNER,
    PER_BANK, PER_RANK, QUEUE, RANK, RANKS, RANK_CAS, REACH, REQUEST, RFC, ROW, RP, RRD_OTHER, SINCE, SLOT, STARTED,
    USES, WAITING, WAITS, WINDOW, Ints,
)  # fmt: skip
# isort: on

LATER = 1 << 60
OLDEST = 1 << 59
"""Taken off the age of a request whose row is open for it: such requests come first."""


def waiting(queue: Ints, base: int) -> int:
    """Requests of a queue that hold a place of its window."""
    return int(queue[base + WAITING] - queue[base + STARTED])


def mode(p: Ints, queue: Ints, base: int) -> int:
    """Return whether reads (0) or writes (1) are served now: writes from the high watermark down to the low one."""
    reads, writes = waiting(queue, base), waiting(queue, base + p[QUEUE])
    if queue[base + DRAINING]:
        if writes == 0 or (writes <= p[LOW] and reads > 0):
            queue[base + DRAINING] = 0
    elif writes > 0 and (writes >= p[HIGH] or reads == 0):
        queue[base + DRAINING] = 1
    return int(queue[base + DRAINING])


def cas_time(
    p: Ints, bank: Ints, group: Ints, rank: Ints, ring: Ints, slot: Ints, k: int, s: int, d: int,
    last: int,
) -> int:  # fmt: skip
    """Earliest RD or WR of slot ``s``, whose row is open, from clock ``last`` on."""
    b = BANK * k
    t = max(last, bank[b + NEXT_CAS + d], slot[SLOT * s + SINCE])
    t = max(t, rank[bank[b + MY_RANK] + RANK_CAS + d], group[bank[b + MY_GROUP] + GROUP_CAS + d])
    if BUSES and p[BUS] > 0:
        t = on_edge(p, ring, bank[b + MY_BUS] + p[COLUMNS], t, 1)
    return int(t)


def other_row(bank: Ints, slot: Ints, k: int, d: int) -> int:
    """The oldest waiting slot of an open bank that wants another row, -1 when there is none."""
    s = bank[BANK * k + HEAD + d]
    while s >= 0 and slot[SLOT * s + ROW] == bank[BANK * k + OPEN_ROW]:
        s = slot[SLOT * s + NEXT]
    return int(s)


def lead(p: Ints) -> int:
    """Clocks from the first of an ACT on its bus, by which it is chosen, to its last, from which it is timed."""
    if BUSES and p[BUS] > 0:
        return int(p[ACT_CLOCKS] - 1)
    return 0


def next_command(
    p: Ints, bank: Ints, group: Ints, rank: Ints, ring: Ints, queue: Ints, slot: Ints, base: int, d: int, due: int,
) -> tuple[int, int, int, int, int]:  # fmt: skip
    """(bank, slot, command, direction, first clock) of the next command of the queues at ``base``; bank -1 for none.

    Of ranks whose refresh is due by the clock ``due`` only requests count whose row was opened for them.
    """
    found, found_slot, kind, way, best, best_age = -1, -1, 0, 0, LATER, LATER
    last, ahead = queue[base + CLOCK], lead(p)
    column = OLDEST // 2 if BUSES and p[BUS] > 0 and p[COLUMNS] > 0 else 0
    for turn in range(2):
        x = d if turn == 0 else 1 - d
        mine = base + x * p[QUEUE]
        full = queue[mine + STARTED] >= p[WINDOW]
        for place in range(mine + ACTIVE, mine + ACTIVE + queue[mine + ACTIVES]):
            k = queue[place]
            b = BANK * k
            owned = bank[b + OWNER] == x
            if not owned and (turn == 1 or rank[bank[b + MY_RANK] + NEXT_REF] <= due):
                continue
            s = bank[b + HIT + x]
            wanted = -1 if owned or bank[b + OPEN_ROW] < 0 else other_row(bank, slot, k, x)
            if not owned and s >= 0 and wanted >= 0 and p[CAP] > 0 and bank[b + USES] >= p[CAP]:
                s = -1
            if s >= 0:
                t = cas_time(p, bank, group, rank, ring, slot, k, s, x, last)
                age = slot[SLOT * s + REQUEST] - (OLDEST if owned else column)
                if t < best or (t == best and age < best_age):
                    found, found_slot, kind, way, best, best_age = k, s, RD, x, t, age
            if bank[b + OPEN_ROW] < 0:
                s = bank[b + HEAD + x]
                if full:
                    continue
                t = act_time(p, bank, group, rank, k, max(last + ahead, slot[SLOT * s + SINCE]))
                if BUSES and p[BUS] > 0:
                    t = bus_act(p, bank, rank, ring, slot, k, s, t)
                t -= ahead
                age = slot[SLOT * s + REQUEST]
                if t < best or (t == best and age < best_age):
                    found, found_slot, kind, way, best, best_age = k, s, ACT, x, t, age
            elif wanted >= 0 and bank[b + OWNER] < 0:
                t = max(last, bank[b + NEXT_PRE], slot[SLOT * wanted + SINCE])
                if BUSES and p[BUS] > 0:
                    t = free(ring, bank[b + MY_BUS], t, 1)
                age = slot[SLOT * wanted + REQUEST]
                if t < best or (t == best and age < best_age):
                    found, found_slot, kind, way, best, best_age = k, wanted, PRE, x, t, age
    return found, found_slot, kind, way, best


def let_go(p: Ints, bank: Ints, queue: Ints, base: int, r: int) -> None:
    """Requests of rank ``r`` whose rows were closed by a refresh wait for them again."""
    for k in range(r * p[PER_RANK], (r + 1) * p[PER_RANK]):
        x = bank[BANK * k + OWNER]
        if x >= 0 and bank[BANK * k + OPEN_ROW] < 0:
            queue[base + x * p[QUEUE] + STARTED] -= 1
            bank[BANK * k + OWNER] = -1


def busy(p: Ints, bank: Ints, r: int) -> bool:
    """Return whether a row of rank ``r`` was opened for a request that still waits."""
    found = False
    for k in range(r * p[PER_RANK], (r + 1) * p[PER_RANK]):
        found = found or bank[BANK * k + OWNER] >= 0
    return found


def hold(p: Ints, bank: Ints, rank: Ints, c: int, due: int, after: int) -> None:
    """Hold the PRE and REF of channel ``c`` until ``after``; stack IDs have one REF, so one PRE, for all of them."""
    first, past = c * p[RANKS] * p[PER_RANK], (c + 1) * p[RANKS] * p[PER_RANK]
    ref = after
    if p[RRD_OTHER] > 0:
        for b in range(BANK * first, BANK * past, BANK):
            if bank[b + OPEN_ROW] >= 0 and rank[bank[b + MY_RANK] + NEXT_REF] <= due:
                after = max(after, bank[b + NEXT_PRE])
                ref = after + p[RP]
    for b in range(BANK * first, BANK * past, BANK):
        if rank[bank[b + MY_RANK] + NEXT_REF] <= due:
            bank[b + NEXT_PRE] = max(bank[b + NEXT_PRE], after)
            bank[b + NEXT_ACT] = max(bank[b + NEXT_ACT], ref)


def refresh_due(
    p: Ints, bank: Ints, group: Ints, rank: Ints, ring: Ints, queue: Ints, slot: Ints, at: Ints, log: Ints, base: int,
    due: int,
) -> bool:  # fmt: skip
    """Refresh the ranks of the queues at ``base`` that are due by then; not while one has requests to wait for.

    A queue sends its refreshes one after the other: rows of the next channel are closed when that before has its REF.
    """
    channel = base // (2 * p[QUEUE])
    past = channel + p[REACH] // (p[RANKS] * p[PER_RANK]) * p[CONTROLLERS]
    for c in range(channel, past if p[WAITS] else channel, p[CONTROLLERS]):
        for r in range(c * p[RANKS], (c + 1) * p[RANKS]):
            if rank[RANK * r + NEXT_REF] <= due and busy(p, bank, r):
                return False
    after = NEVER
    for c in range(channel, past, p[CONTROLLERS]):
        if not p[PER_BANK]:
            hold(p, bank, rank, c, due, after)
        for r in range(c * p[RANKS], (c + 1) * p[RANKS]):
            if rank[RANK * r + NEXT_REF] <= due:
                refresh(p, bank, group, rank, ring, slot, at, log, r)
                let_go(p, bank, queue, base, r)
                after = max(after, bank[BANK * r * p[PER_RANK] + NEXT_ACT] - p[RFC] + 1)
    return True


def issue(
    p: Ints, bank: Ints, group: Ints, rank: Ints, ring: Ints, queue: Ints, slot: Ints, at: Ints, log: Ints,
    base: int, k: int, s: int, kind: int, d: int, t: int,
) -> bool:  # fmt: skip
    """Issue a command, but for what an access does to its queue; whether a place of the window became free."""
    b, place = BANK * k, base + d * p[QUEUE]
    # a RD or WR may go with an ACT or PRE behind it in the same clock, not the other way round
    queue[base + CLOCK] = t + 1 if BUSES and p[BUS] > 0 and kind != RD else t
    if kind == PRE:
        if BUSES and p[BUS] > 0:
            take(ring, bank[b + MY_BUS], t, 1)
        slot[SLOT * s + MET] = 1
        close(p, bank, rank, at, log, k, t)
        return False
    if kind == ACT:
        open_row(p, bank, group, rank, ring, slot, at, log, k, s, t + lead(p))
        bank[b + OWNER] = d
        queue[place + STARTED] += 1
        return True
    if BUSES and p[BUS] > 0:
        take(ring, bank[b + MY_BUS] + p[COLUMNS], t, 1)
    if bank[b + OWNER] == d:
        bank[b + OWNER] = -1
        queue[place + STARTED] -= 1
        at[N_CONFLICT if slot[SLOT * s + MET] else N_MISS] += 1
        return False
    at[N_HIT] += 1
    return True


def run(
    p: Ints, bank: Ints, group: Ints, rank: Ints, ring: Ints, queue: Ints, slot: Ints, at: Ints,
    bases: Ints, banks: Ints, rows: Ints, writes: Ints, first: Ints, past: Ints, follow: Ints, slot_of: Ints,
    arrived: Ints, done: Ints, log: Ints,
) -> int:  # fmt: skip
    """Serve all requests; 0 when that is done, 1 when the log must be emptied before it goes on."""
    total, window, outstanding, size = len(banks), p[WINDOW], p[OUTSTANDING], p[QUEUE]
    most = len(log) - 4 * (2 * p[REACH] + 8)
    logging, recording, closed = len(log) > 0, len(done) > 0, p[CLOSED] > 0
    while True:
        if logging and 4 * at[LOGGED] > most:
            return 1
        i, blocked, room = at[COMING], -1, False
        if i < total and (outstanding == 0 or at[IN_FLIGHT] < outstanding):
            base, blocked = bases[i], writes[i]
            place = base + blocked * size
            room = queue[place + WAITING] < 2 * window and waiting(queue, place) < window
            if room and at[INJECTED] == p[INJECTION]:
                at[NOW] += 1
                at[INJECTED] = 0
        else:
            base = pending(p, queue)
            if base < 0:
                return 0
        k, t = -1, LATER
        if not room or queue[base + CLOCK] <= at[NOW]:
            d = mode(p, queue, base)
            k, s, kind, x, t = next_command(p, bank, group, rank, ring, queue, slot, base, d, NEVER)
        if room and t > at[NOW]:  # what the queue does before this request comes has been done
            admit(p, bank, rank, queue, slot, at, log, slot_of, place, banks[i], blocked, rows[i])
            queue[base + CLOCK] = max(queue[base + CLOCK], at[NOW] + FRONT)
            if recording:
                arrived[i] = at[NOW]
            continue
        mine = bank[BANK * k + MY_RANK]
        if t >= rank[mine + NEXT_REF]:
            due = rank[mine + NEXT_REF]
            if refresh_due(p, bank, group, rank, ring, queue, slot, at, log, base, due):
                continue
            k, s, kind, x, t = next_command(p, bank, group, rank, ring, queue, slot, base, d, due)
        freed = issue(p, bank, group, rank, ring, queue, slot, at, log, base, k, s, kind, x, t)
        if kind == RD:
            remove(p, bank, queue, slot, at, follow, slot_of, base + x * size, k, x, s)
            serve(p, bank, group, rank, at, k, x, t, 1)
            if logging:
                note(at, log, t, RD + x, k, bank[BANK * k + OPEN_ROW])
            at[IN_FLIGHT] -= 1
            if recording:
                done[slot[SLOT * s + REQUEST]] = t + p[DATA + x]
            if closed and bank[BANK * k + OWNER] < 0:
                close(p, bank, rank, at, log, k, bank[BANK * k + NEXT_PRE])
        if outstanding > 0:
            freed, ready = kind == RD, t + p[DATA + x]
        else:
            freed, ready = freed and x == blocked, t + p[HANDOVER]
        if freed and not room and ready > at[NOW]:
            at[NOW] = ready
            at[INJECTED] = 0


ALSO = (expire,)
"""What the model needs of the other half beside ``run`` and ``refresh``."""

LOOP = (
    waiting, mode, cas_time, other_row, lead, next_command, let_go, busy, hold, refresh_due, issue, run,
)  # fmt: skip
"""Every function of this loop, callees first."""
