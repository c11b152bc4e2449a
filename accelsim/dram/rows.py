"""Commands of the bank model: when they may go, and what they change. Plain Python that numba can compile.

The constraints of the standard are in ``m.after``; ``follow`` applies them. What a controller chooses is up to a
scheduler (``schedule_bursts`` and others), when a row is closed up to a row policy (``row_policy``).
"""

from __future__ import annotations

from accelsim.dram.records import (
    ACT,
    ACTIVATIONS,
    BUS_CLOCKS,
    FRONT,
    LATER,
    NEVER,
    PRE,
    RD,
    REF,
    REFPB,
    Bank,
    Bus,
    Group,
    Memory,
    Rank,
)
from accelsim.dram.row_policy import idle_clocks

BUSES = True
"""True where there are command buses; linked once with and once without, which saves the question."""


def free(bus: Bus, clock: int, clocks: int) -> int:
    """Return the first clock from ``clock`` on with which ``clocks`` free ones end; not before what the ring knows."""
    t = max(clock, bus.latest - BUS_CLOCKS + clocks)
    x = t - clocks + 1
    while x <= t:
        if bus.taken[x & (BUS_CLOCKS - 1)] == x:
            t = x + clocks
        x += 1
    return t


def on_edge(edge: int, bus: Bus, clock: int, clocks: int) -> int:
    """Return the first free clock like ``free``, for a command that begins only at multiples of ``edge`` clocks."""
    t = free(bus, clock, clocks)
    while (t - clocks) % edge > 0:
        t = free(bus, t + 1, clocks)
    return t


def take(bus: Bus, clock: int, clocks: int) -> None:
    """Take the ``clocks`` that end with ``clock``."""
    for x in range(clock - clocks + 1, clock + 1):
        bus.taken[x & (BUS_CLOCKS - 1)] = x
    bus.latest = max(bus.latest, clock)


def take_stretch(bus: Bus, clock: int, step: int, n: int) -> None:
    """Take ``n`` single clocks, ``step`` apart, that end with ``clock``; as many of them as the ring remembers."""
    for j in range(min(n, (BUS_CLOCKS - 1) // step + 1)):
        x = clock - j * step
        bus.taken[x & (BUS_CLOCKS - 1)] = x
    bus.latest = clock


def note(m: Memory, clock: int, command: int, k: int, row: int) -> None:
    """Write a command for bank ``k`` to the log, where there is one."""
    log, whole = m.requests.log, m.whole[0]
    if len(log) > 0:
        x = 4 * whole.logged
        log[x], log[x + 1], log[x + 2], log[x + 3] = clock, command, k, row
        whole.logged += 1


def put_off(m: Memory, of: Bank | Group | Rank, t: int, first: int, past: int) -> None:
    """Put off what may follow a command at ``t`` in ``of``, by the constraints from ``first`` to ``past``."""
    for x in range(first, past):
        row = m.constraint[x]
        clock = t + row.clocks
        if clock > of.earliest[row.following]:  # plain Python takes longer for max()
            of.earliest[row.following] = clock


def follow(m: Memory, k: int, command: int, t: int) -> None:
    """Put off what may follow a command for bank ``k`` at ``t``: in its bank, group and rank, and in other ranks."""
    b, first = m.bank[k], m.after[command].first
    put_off(m, b, t, first[0], first[1])
    put_off(m, m.group[b.group], t, first[1], first[2])
    put_off(m, m.rank[b.rank], t, first[2], first[3])
    ranks = m.rules[0].ranks
    if ranks > 1 and first[4] > first[3]:
        channel = b.rank - b.rank % ranks
        for other in range(channel, channel + ranks):
            if other != b.rank:
                put_off(m, m.rank[other], t, first[3], first[4])


def beside_refresh(m: Memory, r: Rank, t: int) -> int:
    """Return the earliest ACT from ``t`` on that the last refreshes of single banks of a rank allow."""
    p = m.rules[0]
    for x in (r.ref_before, r.ref_at):
        if x - p.act_ref < t < x + p.ref_act:
            t = x + p.ref_act
    return t


def act_time(m: Memory, k: int, since: int) -> int:
    """Return the earliest ACT of bank ``k``, wanted since then; after its PRE where a row is open."""
    p, b, t = m.rules[0], m.bank[k], since
    r = m.rank[b.rank]
    if b.open_row >= 0:
        t = max(t, b.earliest[PRE]) + p.rp
    for x in (b.earliest[ACT], r.earliest[ACT], m.group[b.group].earliest[ACT]):
        if x > t:
            t = x
    return beside_refresh(m, r, t) if p.per_bank else t


def bus_act(m: Memory, k: int, s: int, act: int) -> int:
    """Return when bank ``k`` can be activated for slot ``s``, at ``act`` or later, given when the bus is free."""
    p, b, x = m.rules[0], m.bank[k], m.slot[s].since
    bus, clocks = m.bus[b.bus], p.act_clocks
    if b.open_row >= 0:
        x = free(bus, max(x, b.earliest[PRE]), 1) + max(p.rp, clocks)
    else:
        x += clocks - 1
    t = on_edge(p.edge, bus, max(act, x), clocks)
    while p.per_bank:
        x = beside_refresh(m, m.rank[b.rank], t)
        if x == t:
            break
        t = on_edge(p.edge, bus, x, clocks)
    return t


def close(m: Memory, k: int, clock: int) -> None:
    """Precharge the open bank ``k`` at ``clock``."""
    b = m.bank[k]
    r = m.rank[b.rank]
    m.whole[0].pre += 1
    note(m, clock, PRE, k, b.open_row)
    b.open_row = b.hit[0] = b.hit[1] = -1
    follow(m, k, PRE, clock)
    r.open_banks -= 1
    r.closed_at = max(r.closed_at, clock)  # banks are not closed in the order of time
    if r.open_banks == 0:
        r.open_clocks += r.closed_at - r.opened


def count_act(m: Memory, k: int, act: int) -> None:
    """Note an ACT of bank ``k``, and when the next may follow by the windows of four or 32 activations."""
    p, first, past = m.rules[0], m.bank[k].rank, m.bank[k].rank + 1
    r = m.rank[first]
    if r.open_banks == 0:
        if act < r.closed_at:  # behind the data of others, so two times with open banks become one
            r.open_clocks -= r.closed_at - max(act, r.opened)
        r.opened = act
    r.open_banks += 1
    r.last_act = act
    if p.act_other > 0:  # stack IDs are more banks of one supply
        first -= first % p.ranks
        past = first + p.ranks
    r = m.rank[first]
    r.recent[r.activations & (ACTIVATIONS - 1)] = act
    r.activations += 1
    after = NEVER
    for w in range(len(m.windows)):
        n = m.windows[w].activations
        if r.activations >= n:
            after = max(after, r.recent[(r.activations - n) & (ACTIVATIONS - 1)] + m.windows[w].clocks)
    for other in range(first, past):
        m.rank[other].earliest[ACT] = max(m.rank[other].earliest[ACT], after)


def expire(m: Memory, k: int, now: int) -> None:
    """Close bank ``k``, for which nothing waits, if its row has not been used for so long by ``now``."""
    b, most = m.bank[k], idle_clocks(m)
    if most > 0 and b.open_row >= 0:
        idle = max(b.earliest[PRE], b.last_use + most)
        if idle < now:
            close(m, k, idle)


def open_row(m: Memory, k: int, s: int, act: int) -> None:
    """Activate the row that slot ``s`` wants at ``act``; bank ``k`` is precharged first where another row is open."""
    p, b, row = m.rules[0], m.bank[k], m.slot[s].row
    if b.open_row >= 0:
        pre = max(b.earliest[PRE], m.slot[s].since)
        if BUSES:
            pre = free(m.bus[b.bus], pre, 1)
            take(m.bus[b.bus], pre, 1)
        close(m, k, pre)
    if BUSES:
        take(m.bus[b.bus], act, p.act_clocks)
    if idle_clocks(m) > 0:
        for other in range(b.rank * p.banks, (b.rank + 1) * p.banks):
            if m.bank[other].head[0] < 0 and m.bank[other].head[1] < 0:
                expire(m, other, min(act, m.whole[0].now))
    m.whole[0].act += 1
    note(m, act, ACT, k, row)
    follow(m, k, ACT, act)
    count_act(m, k, act)
    b.open_row, b.uses = row, 0
    for d in range(2):
        hit = b.head[d]
        while hit >= 0 and m.slot[hit].row != row:
            hit = m.slot[hit].after
        b.hit[d] = hit


def access(m: Memory, k: int, d: int, t: int, times: int) -> None:
    """Account ``times`` RD or WR of the open row of bank ``k``, the last of them at ``t``."""
    b, whole = m.bank[k], m.whole[0]
    follow(m, k, RD + d, t)
    b.last_use = t
    b.uses += times
    whole.accesses[d] += times
    end = t + m.rules[0].data[d]
    if end > whole.end:
        whole.end = end
    if end < whole.first:
        whole.first = end


def open_ahead(m: Memory, r: int, due: int) -> None:
    """Open the rows that the controller has opened by ``due`` for requests that still wait; the refresh closes them."""
    banks = m.rules[0].banks
    for k in range(r * banks, (r + 1) * banks):
        for d in range(2):
            b = m.bank[k]
            s = b.head[d]
            if s >= 0 and b.hit[0] < 0 and b.hit[1] < 0:
                act = act_time(m, k, m.slot[s].since)
                if BUSES:
                    act = bus_act(m, k, s, act)
                if act < due:
                    open_row(m, k, s, act)


def wanted_since(m: Memory, k: int, otherwise: int) -> int:
    """Return since when other rows of the open bank ``k`` are wanted; ``otherwise`` when none is, or its own too."""
    since, b = otherwise, m.bank[k]
    for d in range(2):
        if b.hit[d] >= 0:
            return otherwise
        if b.head[d] >= 0:
            since = min(since, m.slot[b.head[d]].since)
    return since


def refresh(m: Memory, r: int) -> None:
    """Refresh rank ``r``, or the bank of it whose turn it is, at the clock when that is due or as soon as it can be."""
    p, rank = m.rules[0], m.rank[r]
    due, first, past = rank.next_ref, r * p.banks, (r + 1) * p.banks
    begin = due
    if p.per_bank:
        first += rank.ref_bank
        past = first + 1
        rank.ref_bank = (rank.ref_bank + 1) % p.banks
        begin = max(due, rank.last_act + p.act_ref)
    elif not p.waits and not p.by_command:
        open_ahead(m, r, due)
    for k in range(first, past):
        b = m.bank[k]
        if b.open_row >= 0:
            since = due if p.by_command else wanted_since(m, k, due + FRONT)
            close(m, k, max(b.earliest[PRE], since))
        begin = max(begin, b.earliest[ACT])  # what is true of an ACT is true of REF
    begin += (1 - begin) % p.edge
    if p.per_bank:
        begin = max(begin, rank.ref_at + p.ref_ref)
    refreshed(m, r, first, past, begin)


def refreshed(m: Memory, r: int, first: int, past: int, begin: int) -> None:
    """Account a REF or REFPB of the banks of rank ``r`` from ``first`` to ``past`` at ``begin``."""
    p, rank, whole = m.rules[0], m.rank[r], m.whole[0]
    for k in range(first, past):
        m.bank[k].earliest[ACT] = max(m.bank[k].earliest[ACT], begin + p.rfc)
    if p.per_bank:
        rank.ref_before, rank.ref_at = rank.ref_at, begin
        whole.refpb += 1
    else:
        whole.ref += 1
    note(m, begin, REFPB if p.per_bank else REF, first, 0)
    rank.next_ref += p.every


def idle_until(m: Memory, at: int) -> None:
    """Close rows and refresh ranks for what fell due since the last batch.

    The first round of refreshes closes the banks, the last one counts for what follows; those between are only counted.
    """
    p, whole = m.rules[0], m.whole[0]
    turn = p.banks if p.per_bank else 1
    for k in range(len(m.bank)):
        expire(m, k, at)
    for r in range(len(m.rank) if p.every else 0):
        missed = (at - m.rank[r].next_ref) // p.every + 1
        skipped = max(0, missed - 2 * turn) // turn * turn
        for k in range(missed - skipped):
            if k == turn:
                m.rank[r].next_ref += skipped * p.every
                if p.per_bank:
                    whole.refpb += skipped
                else:
                    whole.ref += skipped
            refresh(m, r)


def open_clocks(m: Memory, at: int) -> int:
    """Return the clocks until ``at`` in which any bank of a rank was open, added up over all ranks."""
    total = 0
    for k in range(len(m.rank)):
        r = m.rank[k]
        total += r.open_clocks
        if r.open_banks:
            total += max(0, at - r.opened)
        else:  # the last precharge may lie after ``at``
            total -= max(0, r.closed_at - max(at, r.opened))
    return total


def counts(m: Memory) -> tuple[int, ...]:
    """Return the counts so far, in the order of ``served.COUNTS``."""
    x = m.whole[0]
    return x.act, x.pre, x.accesses[0], x.accesses[1], x.ref, x.refpb, x.hits, x.misses, x.conflicts


def begin(m: Memory, at: int) -> tuple[int, tuple[int, ...]]:
    """Begin a batch at clock ``at``; return ``open_clocks`` until then, and the counts of those before."""
    before, whole = counts(m), m.whole[0]
    idle_until(m, at)
    whole.now = whole.end = whole.held = at
    whole.injected = whole.coming = 0
    whole.first = whole.stop = LATER
    return open_clocks(m, at), before


def finish(m: Memory) -> tuple[int, int, int, tuple[int, ...]]:
    """Return clocks of the last and the first data, ``open_clocks`` and the counts at the end of a batch.

    Ranks that nobody addressed are refreshed too.
    """
    whole = m.whole[0]
    idle_until(m, whole.end)
    return whole.end, whole.first, open_clocks(m, whole.end), counts(m)


def mark(m: Memory, stop: int) -> tuple[int, int, tuple[int, ...]]:
    """Make the loop pause at request ``stop``; return the next request, the clock and the counts so far."""
    whole = m.whole[0]
    whole.stop = stop
    return whole.coming, whole.now, counts(m)


def empty_log(m: Memory) -> int:
    """Empty the log of commands and return its number of rows."""
    rows = m.whole[0].logged
    m.whole[0].logged = 0
    return rows
