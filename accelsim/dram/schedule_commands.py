"""Scheduler 'commands' of the bank model: commands in the order of time. Plain Python that numba can compile.

A controller issues one command after the other: of those that can go at the earliest clock the one for the oldest
request, be it ACT, PRE, RD or WR. So a PRE that is allowed goes before an access to the open row that must wait for its
bus, as in controllers that ask in every clock which command is ready; rows are closed earlier, and opened more often,
than by ``schedule_bursts``. A row that was opened for a request stays open until that request is served, whatever the
direction of the bus; the request gives its place in the window away when its row is opened. At one clock a RD or WR
goes before an ACT or PRE where these have a bus of their own. What a controller does at a clock is decided before the
request that comes in that clock is seen.
"""

from __future__ import annotations

from accelsim.dram.records import ACT, FRONT, LATER, NEVER, PRE, RD, Memory
from accelsim.dram.row_policy import closes, gives_way
from accelsim.dram.rows import BUSES, act_time, bus_act, close, free, on_edge, open_row, refresh, take
from accelsim.dram.schedule_bursts import (
    admit,
    count,
    direction,
    done,
    hold_until,
    next_clock,
    next_request,
    pause,
    remove,
    waiting,
)

OLDEST = 1 << 59
"""Taken off the age of a request whose row is open for it: such requests come first."""


def cas_time(m: Memory, k: int, s: int, d: int, last: int) -> int:
    """Return the earliest RD or WR of slot ``s``, whose row is open, from clock ``last`` on."""
    b, x = m.bank[k], RD + d
    t = max(last, b.earliest[x], m.slot[s].since, m.rank[b.rank].earliest[x], m.group[b.group].earliest[x])
    return on_edge(m.rules[0].edge, m.bus[b.bus + m.rules[0].columns], t, 1) if BUSES else t


def other_row(m: Memory, k: int, d: int) -> int:
    """Return the oldest waiting slot of an open bank that wants another row, -1 when there is none."""
    b = m.bank[k]
    s = b.head[d]
    while s >= 0 and m.slot[s].row == b.open_row:
        s = m.slot[s].after
    return s


def lead(m: Memory) -> int:
    """Return the clocks from the first of an ACT on its bus, by which it is chosen, to its last, which is timed."""
    return m.rules[0].act_clocks - 1 if BUSES else 0


def row_command(m: Memory, k: int, wanted: int, d: int, last: int) -> tuple[int, int, int]:
    """Return (slot, command, clock) of the ACT or PRE that bank ``k`` can have for a queue; clock LATER for none."""
    b = m.bank[k]
    if b.open_row < 0:
        s = b.head[d]
        t = act_time(m, k, max(last + lead(m), m.slot[s].since))
        return s, ACT, (bus_act(m, k, s, t) if BUSES else t) - lead(m)
    if wanted < 0 or b.owner >= 0:
        return -1, PRE, LATER
    t = max(last, b.earliest[PRE], m.slot[wanted].since)
    return wanted, PRE, free(m.bus[b.bus], t, 1) if BUSES else t


def next_command(m: Memory, c: int, d: int, due: int) -> tuple[int, int, int, int, int]:
    """Return (bank, slot, command, direction, first clock) of the next command of controller ``c``; bank -1 for none.

    Of ranks whose refresh is due by the clock ``due`` only requests count whose row was opened for them.
    """
    p, last = m.rules[0], m.queue[2 * c].clock
    found, found_slot, kind, way, best, best_age = -1, -1, 0, 0, LATER, LATER
    column = OLDEST // 2 if BUSES and p.columns > 0 else 0
    for turn in range(2):
        x = d if turn == 0 else 1 - d
        queue, first = m.queue[2 * c + x], (2 * c + x) * p.reach
        for place in range(first, first + queue.active):
            k = m.active[place]
            b = m.bank[k]
            owned = b.owner == x
            if not owned and (turn == 1 or m.rank[b.rank].next_ref <= due):
                continue
            s = b.hit[x]
            wanted = -1 if owned or b.open_row < 0 else other_row(m, k, x)
            if not owned and s >= 0 and wanted >= 0 and gives_way(m, k):
                s = -1
            if s >= 0:
                t = cas_time(m, k, s, x, last)
                age = m.slot[s].request - (OLDEST if owned else column)
                if t < best or (t == best and age < best_age):
                    found, found_slot, kind, way, best, best_age = k, s, RD, x, t, age
            if b.open_row < 0 and queue.started >= p.window:
                continue
            s, command, t = row_command(m, k, wanted, x, last)
            if t <= best and t < LATER:
                age = m.slot[s].request
                if t < best or age < best_age:
                    found, found_slot, kind, way, best, best_age = k, s, command, x, t, age
    return found, found_slot, kind, way, best


def let_go(m: Memory, c: int, r: int) -> None:
    """Let requests of rank ``r`` whose rows were closed by a refresh wait for them again."""
    banks = m.rules[0].banks
    for k in range(r * banks, (r + 1) * banks):
        b = m.bank[k]
        if b.owner >= 0 and b.open_row < 0:
            m.queue[2 * c + b.owner].started -= 1
            b.owner = -1


def busy(m: Memory, r: int) -> bool:
    """Return whether a row of rank ``r`` was opened for a request that still waits."""
    banks, found = m.rules[0].banks, False
    for k in range(r * banks, (r + 1) * banks):
        found = found or m.bank[k].owner >= 0
    return found


def hold(m: Memory, c: int, due: int, after: int) -> None:
    """Hold the PRE and REF of channel ``c`` until ``after``; stack IDs have one REF, so one PRE, for all of them."""
    p, ref = m.rules[0], after
    first, past = c * p.ranks * p.banks, (c + 1) * p.ranks * p.banks
    if p.act_other > 0:
        for k in range(first, past):
            b = m.bank[k]
            if b.open_row >= 0 and m.rank[b.rank].next_ref <= due:
                after = max(after, b.earliest[PRE])
                ref = after + p.rp
    for k in range(first, past):
        b = m.bank[k]
        if m.rank[b.rank].next_ref <= due:
            b.earliest[PRE] = max(b.earliest[PRE], after)
            b.earliest[ACT] = max(b.earliest[ACT], ref)


def refresh_due(m: Memory, c: int, due: int) -> bool:
    """Refresh the ranks of controller ``c`` that are due by then; not while one has requests to wait for.

    It sends its refreshes one after the other: rows of the next channel are closed when that before has its REF.
    """
    p = m.rules[0]
    past = c + p.reach // (p.ranks * p.banks) * p.controllers
    for channel in range(c, past if p.waits else c, p.controllers):
        for r in range(channel * p.ranks, (channel + 1) * p.ranks):
            if m.rank[r].next_ref <= due and busy(m, r):
                return False
    after = NEVER
    for channel in range(c, past, p.controllers):
        if not p.per_bank:
            hold(m, channel, due, after)
        for r in range(channel * p.ranks, (channel + 1) * p.ranks):
            if m.rank[r].next_ref <= due:
                refresh(m, r)
                let_go(m, c, r)
                after = max(after, m.bank[r * p.banks].earliest[ACT] - p.rfc + 1)
    return True


def issue(m: Memory, c: int, k: int, s: int, kind: int, d: int, t: int) -> bool:
    """Issue a command; return whether a place of the window became free."""
    b, queue = m.bank[k], m.queue[2 * c + d]
    # a RD or WR may go with an ACT or PRE after it in the same clock, not the other way round
    m.queue[2 * c].clock = t + 1 if BUSES and kind != RD else t
    if kind == PRE:
        if BUSES:
            take(m.bus[b.bus], t, 1)
        m.slot[s].met = 1
        close(m, k, t)
        return False
    if kind == ACT:
        open_row(m, k, s, t + lead(m))
        b.owner = d
        queue.started += 1
        return True
    if BUSES:
        take(m.bus[b.bus + m.rules[0].columns], t, 1)
    owned = b.owner == d
    count(m, not owned, m.slot[s].met > 0)
    if owned:
        b.owner = -1
        queue.started -= 1
    remove(m, c, k, d, s)
    done(m, k, s, d, t)
    if closes(m, k) and b.owner < 0:
        close(m, k, b.earliest[PRE])
    return not owned


def run(m: Memory) -> int:
    """Serve all requests; 0 when that is done, else why it pauses."""
    p, whole = m.rules[0], m.whole[0]
    while pause(m) == 0:
        c, coming = next_request(m)
        if c < 0:
            return 0
        room = False
        if coming >= 0:
            room = m.queue[2 * c + coming].waiting < 2 * p.window and waiting(m, c, coming) < p.window
        if room:
            next_clock(m)
        reads, k, t, d = m.queue[2 * c], -1, LATER, 0
        if not room or reads.clock <= whole.now:
            d = direction(m, c)
            k, s, kind, x, t = next_command(m, c, d, NEVER)
        if room and t > whole.now:  # what the controller does before this request comes has been done
            admit(m, c, coming)
            reads.clock = max(reads.clock, whole.now + FRONT)
            continue
        due = m.rank[m.bank[k].rank].next_ref
        if t >= due:
            if refresh_due(m, c, due):
                continue
            k, s, kind, x, t = next_command(m, c, d, due)
        freed, ready = issue(m, c, k, s, kind, x, t) and x == coming, t + p.handover
        if p.outstanding > 0:
            freed, ready = kind == RD, t + p.data[x]
        if freed and not room:
            hold_until(m, ready)
    return pause(m)
