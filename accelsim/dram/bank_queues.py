"""The inner loop of the bank model with a queue of commands for each bank. Plain Python that numba can compile.

A controller of two stages, as DRAMsim3 has it. Requests wait in one window of reads and one of writes; in each clock
the oldest that finds room moves into the queue of its bank, a read, or a write while writes are drained. The banks
take turns: the first one with a command that may go in this clock issues it. So reads and writes that have moved
compete, and the data bus turns round whenever the other direction can go first.

Time goes on clock by clock, but clocks in which nothing can happen are left out. The names of the entries are those of
``bank_state``; the queue of a bank is the list of its first direction, whatever the direction of the requests.
"""

from __future__ import annotations

# isort: off
from accelsim.dram.bank_bus import BUSES
from accelsim.dram.bank_kernel import RD, serve
from accelsim.dram.bank_rows import (
    ACT, PRE, REF, REFPB, act_time, beside_refresh, close, expire, note, open_row, refresh,
)  # fmt: skip
from accelsim.dram.bank_state import (
    ACTIVE, ACT_CLOCKS, ACT_REF, BANK, BEFORE, CAP, CLOCK, CLOSED, COLUMNS, COMING, CONTROLLERS, DATA, DEPTH, DRAINING,
    ELDEST, EVERY, FRONT, GROUP_CAS, HEAD, HELD, HIGH, INJECTED, INJECTION, IN_FLIGHT, LAST_ACT, LOGGED, LOW, MET,
    MY_GROUP, MY_RANK, NEXT, NEXT_ACT, NEXT_CAS, NEXT_PRE, NEXT_REF, NOW, N_CONFLICT, N_HIT, N_MISS, N_REF, N_REFPB,
    OPEN_ROW, OUTSTANDING, PER_BANK, PER_RANK, QUEUE, QUEUED, RANK, RANKS, RANK_CAS, REACH, REF_AT, REF_BANK,
    REF_BEFORE, REF_REF, REQUEST, RESTS, RFC, ROW, ROW_BUS, SINCE, SLOT, STARTED, TAIL, TAKEN, TIMEOUT, TURN, USES,
    WAITING, WAITS, WINDOW, YOUNGEST, Ints,
)  # fmt: skip
# isort: on

LATER = 1 << 60


def append(slot: Ints, ends: Ints, first: int, final: int, s: int) -> None:
    """Slot ``s`` behind the last of a list of slots, whose ends stand at two places of ``ends``."""
    e, last = SLOT * s, ends[final]
    slot[e + NEXT], slot[e + BEFORE] = -1, last
    if last >= 0:
        slot[SLOT * last + NEXT] = s
    else:
        ends[first] = s
    ends[final] = s


def remove(slot: Ints, ends: Ints, first: int, final: int, s: int) -> None:
    """Slot ``s`` out of such a list."""
    e = SLOT * s
    before, after = slot[e + BEFORE], slot[e + NEXT]
    if before >= 0:
        slot[SLOT * before + NEXT] = after
    else:
        ends[first] = after
    if after >= 0:
        slot[SLOT * after + BEFORE] = before
    else:
        ends[final] = before


def accept(p: Ints, queue: Ints, slot: Ints, at: Ints, place: int, row: int) -> None:
    """The next request, for ``row``, into the window of its direction, whose queue is at ``place``."""
    s = queue[place + ACTIVE + p[REACH] + queue[place + TAKEN]]
    e = SLOT * s
    queue[place + TAKEN] += 1
    queue[place + WAITING] += 1
    slot[e + ROW], slot[e + REQUEST], slot[e + MET] = row, at[COMING], 0
    append(slot, queue, place + ELDEST, place + YOUNGEST, s)
    at[INJECTED] += 1
    at[COMING] += 1
    at[IN_FLIGHT] += 1


def move(
    p: Ints, bank: Ints, rank: Ints, queue: Ints, slot: Ints, at: Ints, banks: Ints, log: Ints, base: int, last: bool,
) -> bool:  # fmt: skip
    """The oldest request that may and finds room goes from its window into the queue of its bank; whether one did.

    ``last``: no request comes before those are served that wait.
    """
    reads, writes, size = queue[base + WAITING], queue[base + p[QUEUE] + WAITING], p[QUEUE]
    if queue[base + DRAINING] == 0 and writes > 0:
        idle = queue[base + STARTED] == 0
        if writes >= p[HIGH] or (idle and (writes > p[LOW] or (last and reads == 0))):
            queue[base + DRAINING] = writes
    place = base + (size if queue[base + DRAINING] > 0 else 0)
    s = queue[place + ELDEST]
    while s >= 0 and bank[BANK * banks[slot[SLOT * s + REQUEST]] + QUEUED] >= p[DEPTH]:
        s = slot[SLOT * s + NEXT]
    if s < 0:
        return False
    k = banks[slot[SLOT * s + REQUEST]]
    remove(slot, queue, place + ELDEST, place + YOUNGEST, s)
    queue[place + WAITING] -= 1
    if place > base:
        queue[base + DRAINING] -= 1
    b = BANK * k
    if bank[b + HEAD] < 0 and p[TIMEOUT] > 0:
        expire(p, bank, rank, at, log, k, at[NOW])
    slot[SLOT * s + SINCE] = at[NOW] + FRONT
    append(slot, bank, b + HEAD, b + TAIL, s)
    bank[b + QUEUED] += 1
    bank[b + RESTS] = 0
    queue[base + STARTED] += 1
    return True


def leave(p: Ints, bank: Ints, queue: Ints, slot: Ints, base: int, k: int, d: int, s: int) -> None:
    """Take the served slot ``s`` of direction ``d`` out of the queue of bank ``k``."""
    b, place = BANK * k, base + d * p[QUEUE]
    remove(slot, bank, b + HEAD, b + TAIL, s)
    bank[b + QUEUED] -= 1
    queue[base + STARTED] -= 1
    queue[place + TAKEN] -= 1
    queue[place + ACTIVE + p[REACH] + queue[place + TAKEN]] = s


def opening(
    p: Ints, bank: Ints, group: Ints, rank: Ints, queue: Ints, slot: Ints, base: int, k: int, s: int
) -> int:
    """Return when the closed bank ``k`` can be activated for slot ``s``; an ACT counts from the last of its clocks."""
    t = act_time(p, bank, group, rank, k, slot[SLOT * s + SINCE])
    if p[ACT_CLOCKS] > 1:
        t = max(t, slot[SLOT * s + SINCE] + p[ACT_CLOCKS] - 1, queue[base + ROW_BUS] + p[ACT_CLOCKS])
        if p[PER_BANK]:
            t = beside_refresh(p, rank, bank[BANK * k + MY_RANK], t)
    return int(t)


def candidate(
    p: Ints, bank: Ints, group: Ints, rank: Ints, queue: Ints, slot: Ints, writes: Ints, base: int, k: int, now: int,
    hits_only: bool,
) -> tuple[int, int, int, int]:  # fmt: skip
    """(slot, command, direction, clock) of the first request of the queue of bank ``k`` that can have a command now.

    Where none can, the clock is the earliest at which one may.
    """
    b = BANK * k
    head, row = bank[b + HEAD], bank[b + OPEN_ROW]
    if row < 0:
        return head, ACT, 0, opening(p, bank, group, rank, queue, slot, base, k, head)
    best_slot, kind, way, best, hits = head, RD, 0, LATER, 0
    s = head
    while s >= 0:
        if slot[SLOT * s + ROW] == row:
            hits += 1
            d = writes[slot[SLOT * s + REQUEST]]
            t = max(bank[b + NEXT_CAS + d], slot[SLOT * s + SINCE])
            t = max(t, rank[bank[b + MY_RANK] + RANK_CAS + d], group[bank[b + MY_GROUP] + GROUP_CAS + d])
            if t < best and best > now:
                best_slot, way, best = s, d, t
        s = slot[SLOT * s + NEXT]
    gives_way = hits == 0 or (p[CAP] > 0 and bank[b + USES] >= p[CAP])
    if slot[SLOT * head + ROW] != row and gives_way and not hits_only:
        t = max(bank[b + NEXT_PRE], slot[SLOT * head + SINCE])
        if t <= now or t < best:
            best_slot, kind, way, best = head, PRE, 0, t
    return best_slot, kind, way, best


def refresh_step(
    p: Ints, bank: Ints, rank: Ints, at: Ints, log: Ints, r: int, first: int, past: int, now: int
) -> int:
    """Close a bank for the refresh of the banks from ``first`` to ``past``, or give it, if that can be done now.

    The clock: of what was done, else the earliest of what is to be done.
    """
    begin, soon, still = now, LATER, False
    for k in range(first, past):
        b = BANK * k
        if p[TIMEOUT] > 0 and bank[b + HEAD] < 0:
            expire(p, bank, rank, at, log, k, now)
        if bank[b + OPEN_ROW] < 0:
            begin = max(begin, bank[b + NEXT_ACT])
            continue
        still = True
        if p[WAITS] and bank[b + USES] == 0 and bank[b + HEAD] >= 0:  # opened for a request that goes first
            continue
        if bank[b + NEXT_PRE] <= now:
            close(p, bank, rank, at, log, k, now)
            bank[b + RESTS] = 0
            return now
        soon = min(soon, bank[b + NEXT_PRE])
    if still:
        return soon
    e = RANK * r
    if p[PER_BANK]:
        begin = max(begin, rank[e + LAST_ACT] + p[ACT_REF], rank[e + REF_AT] + p[REF_REF])
    if begin > now:
        return begin
    for k in range(first, past):
        bank[BANK * k + NEXT_ACT] = max(bank[BANK * k + NEXT_ACT], now + p[RFC])
    if p[PER_BANK]:
        rank[e + REF_BEFORE], rank[e + REF_AT] = rank[e + REF_AT], now
        rank[e + REF_BANK] = (rank[e + REF_BANK] + 1) % p[PER_RANK]
    at[N_REFPB if p[PER_BANK] else N_REF] += 1
    if len(log) > 0:
        note(at, log, now, REFPB if p[PER_BANK] else REF, first, 0)
    rank[e + NEXT_REF] += p[EVERY]
    return now


def issue(
    p: Ints, bank: Ints, group: Ints, rank: Ints, ring: Ints, queue: Ints, slot: Ints, at: Ints, done: Ints, log: Ints,
    base: int, k: int, s: int, kind: int, d: int,
) -> None:  # fmt: skip
    """Issue a command for slot ``s`` of bank ``k`` now."""
    b, now, e = BANK * k, at[NOW], SLOT * s
    bank[b + RESTS] = 0
    if kind == PRE:
        slot[e + MET] = 1
        close(p, bank, rank, at, log, k, now)
    elif kind == ACT:
        open_row(p, bank, group, rank, ring, slot, at, log, k, s, now)
    else:
        at[N_HIT if bank[b + USES] > 0 else (N_CONFLICT if slot[e + MET] else N_MISS)] += 1
        leave(p, bank, queue, slot, base, k, d, s)
        serve(p, bank, group, rank, at, k, d, now, 1)
        if len(log) > 0:
            note(at, log, now, RD + d, k, bank[b + OPEN_ROW])
        if len(done) > 0:
            done[slot[e + REQUEST]] = now + p[DATA + d]
        if at[IN_FLIGHT] == p[OUTSTANDING]:
            at[HELD] = now + p[DATA + d]
        at[IN_FLIGHT] -= 1
        if p[CLOSED] > 0:
            close(p, bank, rank, at, log, k, bank[b + NEXT_PRE])
    if kind != RD or p[COLUMNS] == 0:
        queue[base + ROW_BUS] = now


def due_rank(p: Ints, rank: Ints, c: int, now: int) -> tuple[int, int]:
    """(the rank of controller ``c`` that is to be refreshed now, -1 for none; when the next refresh is due)."""
    found, soon, since = -1, LATER, LATER
    for j in range(p[REACH] // p[PER_RANK]):
        r = (c + j // p[RANKS] * p[CONTROLLERS]) * p[RANKS] + j % p[RANKS]
        due = rank[RANK * r + NEXT_REF]
        if due > now:
            soon = min(soon, due)
        elif due < since:
            found, since = r, due
    return found, soon


def tick(
    p: Ints, bank: Ints, group: Ints, rank: Ints, ring: Ints, queue: Ints, slot: Ints, at: Ints,
    banks: Ints, writes: Ints, done: Ints, log: Ints, c: int, last: bool,
) -> int:  # fmt: skip
    """One clock of controller ``c``; the next clock in which it may have something to do."""
    now, base, of_channel = at[NOW], 2 * c * p[QUEUE], p[RANKS] * p[PER_RANK]
    r, soon = due_rank(p, rank, c, now)
    rows_free, columns_free = True, True
    first, past = 0, 0
    if r >= 0:
        first = r * p[PER_RANK]
        past = first + p[PER_RANK]
        if p[PER_BANK]:
            first += rank[RANK * r + REF_BANK]
            past = first + 1
        before = rank[RANK * r + NEXT_REF]
        t = refresh_step(p, bank, rank, at, log, r, first, past, now)
        if t <= now:
            rows_free, columns_free = False, p[COLUMNS] > 0
        else:
            soon = min(soon, t)
        if rank[RANK * r + NEXT_REF] > before:  # it has been given
            past = first
    j = queue[base + TURN]
    for _ in range(p[REACH] if queue[base + STARTED] > 0 and (rows_free or columns_free) else 0):
        j = j + 1 if j + 1 < p[REACH] else 0
        k = (c + j // of_channel * p[CONTROLLERS]) * of_channel + j % of_channel
        b = BANK * k
        if bank[b + HEAD] < 0:
            continue
        if bank[b + RESTS] > now:  # times of a bank only ever move on, so what was found holds
            soon = min(soon, bank[b + RESTS])
            continue
        refreshed = first <= k < past
        if refreshed and not (p[WAITS] and bank[b + OPEN_ROW] >= 0 and bank[b + USES] == 0):
            continue
        s, kind, d, t = candidate(p, bank, group, rank, queue, slot, writes, base, k, now, refreshed)
        if t > now:
            soon = min(soon, t)
            if not refreshed:
                bank[b + RESTS] = t
        elif columns_free if kind == RD else rows_free:
            issue(p, bank, group, rank, ring, queue, slot, at, done, log, base, k, s, kind, d)
            queue[base + TURN] = j
            rows_free = rows_free and kind == RD and p[COLUMNS] > 0
            columns_free = columns_free and kind != RD and p[COLUMNS] > 0
            if not (rows_free or columns_free):
                break
    moved = move(p, bank, rank, queue, slot, at, banks, log, base, last)
    return int(soon if rows_free and columns_free and not moved else now + 1)


def full(p: Ints, queue: Ints, at: Ints, place: int) -> bool:
    """Return whether no request can come now: as many are under way as may be, or the window at ``place`` has no
    room."""
    held = p[OUTSTANDING] > 0 and at[IN_FLIGHT] >= p[OUTSTANDING]
    return bool(held or queue[place + WAITING] >= p[WINDOW])


def nothing_left(p: Ints, queue: Ints) -> bool:
    """Return whether every request has been served."""
    for base in range(0, 2 * p[CONTROLLERS] * p[QUEUE], 2 * p[QUEUE]):
        if queue[base + WAITING] + queue[base + p[QUEUE] + WAITING] + queue[base + STARTED] > 0:
            return False
    return True


def run(
    p: Ints, bank: Ints, group: Ints, rank: Ints, ring: Ints, queue: Ints, slot: Ints, at: Ints,
    bases: Ints, banks: Ints, rows: Ints, writes: Ints, first: Ints, past: Ints, follow: Ints, slot_of: Ints,
    arrived: Ints, done: Ints, log: Ints,
) -> int:  # fmt: skip
    """Serve all requests; 0 when that is done, 1 when the log must be emptied before it goes on."""
    total, size = len(banks), p[QUEUE]
    most = len(log) - 4 * p[CONTROLLERS] * (3 * p[PER_RANK] + 8)
    while True:
        if len(log) > 0 and 4 * at[LOGGED] > most:
            return 1
        now = at[NOW]
        while at[COMING] < total and at[INJECTED] < p[INJECTION] and at[HELD] <= now:
            i = at[COMING]
            place = bases[i] + writes[i] * size
            if full(p, queue, at, place):
                break
            accept(p, queue, slot, at, place, rows[i])
            queue[bases[i] + CLOCK] = now
            if len(arrived) > 0:
                arrived[i] = now
        i = at[COMING]
        last = i >= total or (p[OUTSTANDING] > 0 and at[IN_FLIGHT] >= p[OUTSTANDING])
        soon = LATER
        for c in range(p[CONTROLLERS]):
            base = 2 * c * size
            left = last and queue[base + STARTED] == 0 and queue[base + size + WAITING] > 0
            if left or queue[base + CLOCK] <= now:
                queue[base + CLOCK] = tick(
                    p, bank, group, rank, ring, queue, slot, at, banks, writes, done, log, c, last
                )
            soon = min(soon, queue[base + CLOCK])
        if i >= total:
            if nothing_left(p, queue):
                return 0
        elif not full(p, queue, at, bases[i] + writes[i] * size):
            soon = min(soon, max(now + 1, at[HELD]))
        at[NOW], at[INJECTED] = soon, 0


ALSO = (BUSES, refresh)
"""What the model needs of the other half beside ``run``, and the name that is compiled in."""

LOOP = (
    append, remove, accept, move, leave, opening, candidate, refresh_step, issue, due_rank, tick, full,
    nothing_left, run,
)  # fmt: skip
"""Every function of this loop, callees first."""
