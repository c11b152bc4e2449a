"""Scheduler 'queues' of the bank model: a queue of commands for each bank. Plain Python that numba can compile.

A controller of two stages, as DRAMsim3 has it. Requests wait in one window of reads and one of writes; in each clock
the oldest that finds room moves into the queue of its bank, a read, or a write while writes are drained. The banks
take turns: the first one with a command that may go in this clock issues it. So reads and writes that have moved
compete, and the data bus turns round whenever the other direction can go first.

Time goes on clock by clock, but clocks in which nothing can happen are left out. The queue of a bank is the list of its
first direction, whatever the direction of the requests.
"""

from __future__ import annotations

from accelsim.dram.records import ACT, FRONT, LATER, PRE, RD, Memory
from accelsim.dram.row_policy import closes, gives_way
from accelsim.dram.rows import act_time, beside_refresh, close, expire, open_row, refreshed
from accelsim.dram.schedule_bursts import count, done, drop, free_slot, new_slot, pause, push


def accept(m: Memory, c: int, d: int) -> None:
    """Put the next request into the window of its direction."""
    push(m, m.queue[2 * c + d], 0, new_slot(m, c, d))
    m.queue[2 * c].clock = m.whole[0].now


def move(m: Memory, c: int, last: bool) -> bool:
    """Move the oldest request that may go and finds room from its window into the queue of its bank, if there is one.

    ``last``: no request comes before those are served that wait.
    """
    p, queue = m.rules[0], m.queue[2 * c]
    writes, reads, now = m.queue[2 * c + 1].waiting, queue.waiting, m.whole[0].now
    if queue.draining == 0 and writes > 0:
        idle = queue.started == 0
        if writes >= p.high or (idle and (writes > p.low or (last and reads == 0))):
            queue.draining = writes
    drained = queue.draining > 0
    window = m.queue[2 * c + 1 if drained else 2 * c]
    s = window.head[0]
    while s >= 0 and m.bank[m.requests.bank[m.slot[s].request]].queued >= p.depth:
        s = m.slot[s].after
    if s < 0:
        return False
    k = m.requests.bank[m.slot[s].request]
    b = m.bank[k]
    drop(m, window, 0, s)
    window.waiting -= 1
    if drained:
        queue.draining -= 1
    if b.head[0] < 0:
        expire(m, k, now)
    m.slot[s].since = now + FRONT
    push(m, b, 0, s)
    b.queued += 1
    b.rests = 0
    queue.started += 1
    return True


def opening(m: Memory, c: int, k: int, s: int) -> int:
    """Return when the closed bank ``k`` can be activated for slot ``s``; an ACT counts from the last of its clocks."""
    p, since = m.rules[0], m.slot[s].since
    t = act_time(m, k, since)
    if p.act_clocks > 1:
        t = max(t, since + p.act_clocks - 1, m.queue[2 * c].row_bus + p.act_clocks)
        if p.per_bank:
            t = beside_refresh(m, m.rank[m.bank[k].rank], t)
    return t


def candidate(m: Memory, c: int, k: int, hits_only: bool) -> tuple[int, int, int, int]:
    """Return (slot, command, direction, clock) of the first request of the queue of bank ``k`` that can go now.

    Where none can, the clock is the earliest at which one may.
    """
    b, now = m.bank[k], m.whole[0].now
    r, g, head = m.rank[b.rank], m.group[b.group], b.head[0]
    if b.open_row < 0:
        return head, ACT, 0, opening(m, c, k, head)
    best_slot, kind, way, best, hits = head, RD, 0, LATER, 0
    s = head
    while s >= 0:
        slot = m.slot[s]
        if slot.row == b.open_row:
            hits += 1
            d = m.requests.write[slot.request]
            x = RD + d
            t = max(b.earliest[x], slot.since, r.earliest[x], g.earliest[x])
            if t < best and best > now:
                best_slot, way, best = s, d, t
        s = slot.after
    if m.slot[head].row != b.open_row and (hits == 0 or gives_way(m, k)) and not hits_only:
        t = max(b.earliest[PRE], m.slot[head].since)
        if t <= now or t < best:
            best_slot, kind, way, best = head, PRE, 0, t
    return best_slot, kind, way, best


def refresh_step(m: Memory, r: int, first: int, past: int) -> int:
    """Close a bank for the refresh of the banks from ``first`` to ``past``, or give it, if that can be done now.

    Returns the clock of what was done, else the earliest of what is to be done.
    """
    p, rank, now = m.rules[0], m.rank[r], m.whole[0].now
    begin, soon, still = now, LATER, False
    for k in range(first, past):
        b = m.bank[k]
        if b.head[0] < 0:
            expire(m, k, now)
        if b.open_row < 0:
            begin = max(begin, b.earliest[ACT])
            continue
        still = True
        if p.waits and b.uses == 0 and b.head[0] >= 0:  # opened for a request that goes first
            continue
        if b.earliest[PRE] <= now:
            close(m, k, now)
            b.rests = 0
            return now
        soon = min(soon, b.earliest[PRE])
    if still:
        return soon
    if p.per_bank:
        begin = max(begin, rank.last_act + p.act_ref, rank.ref_at + p.ref_ref)
    if begin > now:
        return begin
    if p.per_bank:
        rank.ref_bank = (rank.ref_bank + 1) % p.banks
    refreshed(m, r, first, past, now)
    return now


def issue(m: Memory, c: int, k: int, s: int, kind: int, d: int) -> None:
    """Issue a command for slot ``s`` of bank ``k`` now."""
    p, b, whole = m.rules[0], m.bank[k], m.whole[0]
    now = whole.now
    b.rests = 0
    if kind == PRE:
        m.slot[s].met = 1
        close(m, k, now)
    elif kind == ACT:
        open_row(m, k, s, now)
    else:
        count(m, b.uses > 0, m.slot[s].met > 0)
        if whole.in_flight == p.outstanding:
            whole.held = now + p.data[d]
        drop(m, b, 0, s)
        b.queued -= 1
        m.queue[2 * c].started -= 1
        free_slot(m, c, d, s)
        done(m, k, s, d, now)
        if closes(m, k):
            close(m, k, b.earliest[PRE])
    if kind != RD or p.columns == 0:
        m.queue[2 * c].row_bus = now


def due_rank(m: Memory, c: int) -> tuple[int, int]:
    """Return (the rank of controller ``c`` that is to be refreshed now, -1 for none; when the next refresh is due)."""
    p, now = m.rules[0], m.whole[0].now
    found, soon, since = -1, LATER, LATER
    for j in range(p.reach // p.banks):
        r = (c + j // p.ranks * p.controllers) * p.ranks + j % p.ranks
        due = m.rank[r].next_ref
        if due > now:
            soon = min(soon, due)
        elif due < since:
            found, since = r, due
    return found, soon


def refresh_now(m: Memory, c: int) -> tuple[bool, int, int, int]:
    """Do what a refresh that is due needs: (whether that took this clock, its banks, from and to; the next clock)."""
    p, (r, soon) = m.rules[0], due_rank(m, c)
    if r < 0:
        return False, 0, 0, soon
    first, due = r * p.banks, m.rank[r].next_ref
    past = first + p.banks
    if p.per_bank:
        first += m.rank[r].ref_bank
        past = first + 1
    t = refresh_step(m, r, first, past)
    if m.rank[r].next_ref > due:  # it has been given
        past = first
    if t <= m.whole[0].now:
        return True, first, past, soon
    return False, first, past, min(soon, t)


def tick(m: Memory, c: int, last: bool) -> int:
    """Do what controller ``c`` does in this clock; return the next clock in which it may have something to do."""
    p, now, queue = m.rules[0], m.whole[0].now, m.queue[2 * c]
    taken, first, past, soon = refresh_now(m, c)
    of_channel, rows_free, columns_free = p.ranks * p.banks, not taken, not taken or p.columns > 0
    j = queue.turn
    for _ in range(p.reach if queue.started > 0 and (rows_free or columns_free) else 0):
        j = j + 1 if j + 1 < p.reach else 0
        k = (c + j // of_channel * p.controllers) * of_channel + j % of_channel
        b = m.bank[k]
        if b.head[0] < 0:
            continue
        if b.rests > now:  # times of a bank only ever move on, so what was found holds
            soon = min(soon, b.rests)
            continue
        awaited = first <= k < past
        if awaited and not (p.waits and b.open_row >= 0 and b.uses == 0):
            continue
        s, kind, d, t = candidate(m, c, k, awaited)
        if t > now:
            soon = min(soon, t)
            if not awaited:
                b.rests = t
        elif columns_free if kind == RD else rows_free:
            issue(m, c, k, s, kind, d)
            queue.turn = j
            rows_free = rows_free and kind == RD and p.columns > 0
            columns_free = columns_free and kind != RD and p.columns > 0
            if not (rows_free or columns_free):
                break
    moved = move(m, c, last)
    return soon if rows_free and columns_free and not moved else now + 1


def full(m: Memory) -> bool:
    """Return whether the next request finds no room: as many are under way as may be, or its window is full."""
    p, whole, todo = m.rules[0], m.whole[0], m.requests
    i = whole.coming
    held = p.outstanding > 0 and whole.in_flight >= p.outstanding
    return held or m.queue[2 * todo.controller[i] + todo.write[i]].waiting >= p.window


def nothing_left(m: Memory) -> bool:
    """Return whether every request has been served."""
    left = 0
    for q in range(len(m.queue)):
        left += m.queue[q].waiting + m.queue[q].started
    return left == 0


def run(m: Memory) -> int:
    """Serve all requests; 0 when that is done, else why it pauses."""
    p, whole, total = m.rules[0], m.whole[0], len(m.requests.bank)
    while pause(m) == 0:
        now = whole.now
        while whole.coming < total and whole.injected < p.injection and whole.held <= now and not full(m):
            i = whole.coming
            accept(m, m.requests.controller[i], m.requests.write[i])
        last = whole.coming >= total or (p.outstanding > 0 and whole.in_flight >= p.outstanding)
        soon = LATER
        for c in range(p.controllers):
            reads = m.queue[2 * c]
            left = last and reads.started == 0 and m.queue[2 * c + 1].waiting > 0
            if left or reads.clock <= now:
                reads.clock = tick(m, c, last)
            soon = min(soon, reads.clock)
        if whole.coming >= total:
            if nothing_left(m):
                return 0
        elif not full(m):
            soon = min(soon, max(now + 1, whole.held))
        whole.now, whole.injected = soon, 0
    return pause(m)
