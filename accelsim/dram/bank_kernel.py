"""The inner loop of the bank model: FR-FCFS, event by event. Plain Python that numba can compile, one code for both.

``bank_compiled`` compiles what the LOOP of ``bank_bus``, ``bank_rows`` and this file lists. Time never ticks: a request
is accepted when its window has room, and the request that can have its data first is served next, the oldest on ties;
its activation lies as early as the rules allow, behind the data of others. The names of the entries are those of
``bank_state``.
"""

from __future__ import annotations

# isort: off
from accelsim.dram.bank_bus import BUSES, free, take, take_stretch
from accelsim.dram.bank_rows import act_time, bus_act, close, expire, note, open_row, refresh
from accelsim.dram.bank_state import (
    ACTIVE, ACTIVES, BANK, BEFORE, BUS, BUS_CLOCKS, CAP, CAS_GROUP, CAS_OTHER, CAS_RANK, CLOCK, CLOSED, COLUMNS,
    COMING, CONTROLLERS, DATA, DRAINING, END, EVERY, FIRST, FRONT, GROUP_CAS, HANDOVER, HEAD, HIGH, HIT, INJECTED,
    INJECTION, IN_FLIGHT, LAST_USE, LOGGED, LOW, MET, MY_BUS, MY_GROUP, MY_RANK, NEVER, NEXT, NEXT_CAS, NEXT_PRE,
    NEXT_REF, NOW, N_CONFLICT, N_HIT, N_MISS, N_RD, OPEN_ROW, OUTSTANDING, PER_RANK, PLACE, QUEUE, RANK, RANKS,
    RANK_CAS, RCD, REACH, REQUEST, ROW, SINCE, SLOT, STEP, TAIL, TIMEOUT, TO_PRE, USES, WAITING, WAITS, WINDOW, Ints,
)  # fmt: skip
# isort: on

RD = 2
LATER = 1 << 60


def pick(
    p: Ints, bank: Ints, group: Ints, rank: Ints, ring: Ints, queue: Ints, slot: Ints, base: int, d: int
) -> tuple[int, int, int, int]:
    """(bank, slot, clock of its RD or WR, clock of its ACT or NEVER) of the request of a queue to serve next."""
    best, best_slot, best_time, best_act, best_age = -1, -1, LATER, NEVER, LATER
    for place in range(base + ACTIVE, base + ACTIVE + queue[base + ACTIVES]):
        k = queue[place]
        b, act = BANK * k, NEVER
        s = bank[b + HIT + d]
        capped = s >= 0 and p[CAP] > 0 and bank[b + USES] >= p[CAP]
        if capped and slot[SLOT * bank[b + HEAD + d] + ROW] != bank[b + OPEN_ROW]:
            s = -1
        if s >= 0:
            t, x = bank[b + NEXT_CAS + d], slot[SLOT * s + SINCE]
            if x > t:
                t = x
        else:
            s = bank[b + HEAD + d]
            act = act_time(p, bank, group, rank, k, slot[SLOT * s + SINCE])
            t = act + p[RCD + d]
        if t > best_time:
            continue
        x = rank[bank[b + MY_RANK] + RANK_CAS + d]
        if x > t:
            t = x
        x = group[bank[b + MY_GROUP] + GROUP_CAS + d]
        if x > t:
            t = x
        age = slot[SLOT * s + REQUEST]
        if BUSES and act > NEVER and p[BUS] > 0 and (t < best_time or (t == best_time and age < best_age)):
            act = bus_act(p, bank, rank, ring, slot, k, s, act)
            t = max(t, act + p[RCD + d], act + 1)
        if t < best_time or (t == best_time and age < best_age):
            best, best_slot, best_time, best_act, best_age = k, s, t, act, age
    return best, best_slot, best_time, best_act


def admit(
    p: Ints, bank: Ints, rank: Ints, queue: Ints, slot: Ints, at: Ints, log: Ints, slot_of: Ints,
    base: int, k: int, d: int, row: int,
) -> None:  # fmt: skip
    """Put the next request, for ``row`` of bank ``k``, into the queue at ``base``."""
    b, now = BANK * k, at[NOW]
    s = queue[base + ACTIVE + p[REACH] + queue[base + WAITING]]
    queue[base + WAITING] += 1
    e, last = SLOT * s, bank[b + TAIL + d]
    slot[e + ROW] = row
    slot[e + SINCE] = now + FRONT
    slot[e + REQUEST] = at[COMING]
    slot_of[at[COMING]] = s
    slot[e + NEXT] = -1
    slot[e + BEFORE] = last
    slot[e + MET] = 0
    if last >= 0:
        slot[SLOT * last + NEXT] = s
    else:
        bank[b + HEAD + d] = s
        bank[b + PLACE + d] = base + ACTIVE + queue[base + ACTIVES]
        queue[bank[b + PLACE + d]] = k
        queue[base + ACTIVES] += 1
        if p[TIMEOUT] > 0 and bank[b + HEAD + 1 - d] < 0:
            expire(p, bank, rank, at, log, k, now)
    bank[b + TAIL + d] = s
    if bank[b + HIT + d] < 0 and bank[b + OPEN_ROW] == row:
        bank[b + HIT + d] = s
    at[INJECTED] += 1
    at[COMING] += 1
    at[IN_FLIGHT] += 1


def remove(
    p: Ints, bank: Ints, queue: Ints, slot: Ints, at: Ints, follow: Ints, slot_of: Ints, base: int, k: int, d:
    int, s: int,
) -> None:  # fmt: skip
    """Take the served slot ``s`` of bank ``k`` out of the queue at ``base``."""
    b, e = BANK * k, SLOT * s
    after, before = slot[e + NEXT], slot[e + BEFORE]
    if bank[b + HIT + d] == s:  # requests of one row are served in order
        request = follow[slot[e + REQUEST]]
        bank[b + HIT + d] = slot_of[request] if request < at[COMING] else -1
    if before >= 0:
        slot[SLOT * before + NEXT] = after
    else:
        bank[b + HEAD + d] = after
    if after >= 0:
        slot[SLOT * after + BEFORE] = before
    else:
        bank[b + TAIL + d] = before
    if before < 0 and after < 0:
        place = bank[b + PLACE + d]
        queue[base + ACTIVES] -= 1
        moved = queue[base + ACTIVE + queue[base + ACTIVES]]
        queue[place] = moved
        bank[BANK * moved + PLACE + d] = place
    queue[base + WAITING] -= 1
    queue[base + ACTIVE + p[REACH] + queue[base + WAITING]] = s


def direction(p: Ints, queue: Ints, base: int) -> int:
    """Return whether reads (0) or writes (1) are served now: writes from the high watermark down to the low one."""
    writes = queue[base + p[QUEUE] + WAITING]
    if queue[base + DRAINING]:
        if writes == 0 or (writes <= p[LOW] and queue[base + WAITING] > 0):
            queue[base + DRAINING] = 0
            return 0
        return 1
    if writes > 0 and (writes >= p[HIGH] or queue[base + WAITING] == 0):
        queue[base + DRAINING] = 1
        return 1
    return 0


def serve(p: Ints, bank: Ints, group: Ints, rank: Ints, at: Ints, k: int, d: int, t: int, times: int) -> None:
    """Account ``times`` RD or WR of the open row of bank ``k``, the last of them at ``t``."""
    b = BANK * k
    g, mine = bank[b + MY_GROUP] + GROUP_CAS, bank[b + MY_RANK]
    for after in range(2):
        pair = 2 * d + after
        x = t + p[CAS_GROUP + pair]
        if x > group[g + after]:
            group[g + after] = x
        x = t + p[CAS_RANK + pair]
        if x > rank[mine + RANK_CAS + after]:
            rank[mine + RANK_CAS + after] = x
        if p[RANKS] > 1:
            first, x = mine - mine % (RANK * p[RANKS]), t + p[CAS_OTHER + pair]
            for other in range(first, first + RANK * p[RANKS], RANK):
                if other != mine and x > rank[other + RANK_CAS + after]:
                    rank[other + RANK_CAS + after] = x
    x = t + p[TO_PRE + d]
    if x > bank[b + NEXT_PRE]:
        bank[b + NEXT_PRE] = x
    bank[b + LAST_USE] = t
    bank[b + USES] += times
    at[N_RD + d] += times
    x = t + p[DATA + d]
    if x > at[END]:
        at[END] = x
    if x < at[FIRST]:
        at[FIRST] = x


def forward(
    p: Ints, bank: Ints, group: Ints, rank: Ints, ring: Ints, queue: Ints, slot: Ints, at: Ints,
    first: Ints, past: Ints, slot_of: Ints, arrived: Ints, done: Ints, base: int, k: int, d: int, t: int,
) -> None:  # fmt: skip
    """Serve at once what is left of a stretch in one open row, while nothing else can come in between.

    After a hit at ``t`` with a full window of hits of the same stretch, the next ones are served every ``step`` clocks
    and each makes room for one more: the same state, later. So ``n`` of them cost as much as a few.
    """
    i, s, step, count = at[COMING], bank[BANK * k + HEAD + d], p[STEP + d], queue[base + WAITING]
    if s < 0:  # that was the last one of the bank
        return
    late = at[NOW] != t + p[HANDOVER] or at[INJECTED] > 0
    if late or first[i] > slot[SLOT * s + REQUEST] or slot[SLOT * s + SINCE] > t + step:
        return
    n = past[i] - i - 1  # the last one lets another stretch in, perhaps of another queue
    if p[EVERY] > 0:
        n = min(n, (rank[bank[BANK * k + MY_RANK] + NEXT_REF] - 1 - t) // step)
    if n <= count:
        return
    oldest, last = slot[SLOT * s + REQUEST], t + n * step
    if BUSES and p[BUS] > 0:
        bus = bank[BANK * k + MY_BUS] + p[COLUMNS]
        if ring[bus + BUS_CLOCKS] > t:  # of another channel, or what was not served yet
            return
        take_stretch(ring, bus, last, step, n)
    if len(done) > 0:
        for j in range(n):
            arrived[i + j] = t + j * step + p[HANDOVER]
            done[oldest + j] = t + (j + 1) * step + p[DATA + d]
    request = oldest + n
    while s >= 0:
        slot[SLOT * s + REQUEST] = request
        slot_of[request] = s
        slot[SLOT * s + SINCE] = t + (request - i) * step + p[HANDOVER] + FRONT
        request += 1
        s = slot[SLOT * s + NEXT]
    serve(p, bank, group, rank, at, k, d, last, n)
    at[N_HIT] += n
    at[COMING] += n
    at[NOW] = last + p[HANDOVER]


def pending(p: Ints, queue: Ints) -> int:
    """Return where a queue of reads begins that (or whose queue of writes) has requests, -1 when all are served."""
    for controller in range(p[CONTROLLERS]):
        base = int(2 * controller * p[QUEUE])
        if queue[base + WAITING] + queue[base + p[QUEUE] + WAITING] > 0:
            return base
    return -1


def behind(p: Ints, queue: Ints, base: int, now: int) -> bool:
    """Return whether a queue may have something to serve before ``now``."""
    return bool(queue[base + CLOCK] < now and queue[base + WAITING] + queue[base + p[QUEUE] + WAITING] > 0)


def run(
    p: Ints, bank: Ints, group: Ints, rank: Ints, ring: Ints, queue: Ints, slot: Ints, at: Ints,
    bases: Ints, banks: Ints, rows: Ints, writes: Ints, first: Ints, past: Ints, follow: Ints, slot_of: Ints,
    arrived: Ints, done: Ints, log: Ints,
) -> int:  # fmt: skip
    """Serve all requests; 0 when that is done, 1 when the log must be emptied before it goes on.

    One long function: with what ends a request in functions of their own, a compiled burst takes half as long again.
    """
    total, window, outstanding, size = len(banks), p[WINDOW], p[OUTSTANDING], p[QUEUE]
    most = len(log) - 4 * (3 * p[PER_RANK] + 8)
    logging, recording, closed, waits = len(log) > 0, len(done) > 0, p[CLOSED] > 0, p[WAITS] > 0
    quick = not (logging or closed or outstanding > 0)
    several = p[CONTROLLERS] > 1
    while True:
        if logging and 4 * at[LOGGED] > most:
            return 1
        i, blocked = at[COMING], -1
        if i < total and (outstanding == 0 or at[IN_FLIGHT] < outstanding):
            base, blocked = bases[i], writes[i]
            place = base + blocked * size
            room = queue[place + WAITING] < window
            if room and at[INJECTED] == p[INJECTION]:
                at[NOW] += 1
                at[INJECTED] = 0
        else:
            room, base = False, pending(p, queue)
            if base < 0:
                return 0
        was = queue[base + DRAINING]
        if not room or (several and behind(p, queue, base, at[NOW])):
            d = direction(p, queue, base)
            k, s, t, act = pick(p, bank, group, rank, ring, queue, slot, base + d * size, d)
        else:
            t = LATER
        if room and t >= at[NOW]:  # what the queue does before this request comes has been done
            queue[base + DRAINING] = was
            admit(p, bank, rank, queue, slot, at, log, slot_of, place, banks[i], blocked, rows[i])
            x = at[NOW] + FRONT
            if bank[BANK * banks[i] + HIT + blocked] < 0:
                x += p[RCD + blocked]
            queue[base + CLOCK] = min(x, t if t < LATER else queue[base + CLOCK])
            if recording:
                arrived[i] = at[NOW]
            continue
        place = base + d * size
        if BUSES and p[BUS] > 0:
            t = free(ring, bank[BANK * k + MY_BUS] + p[COLUMNS], t, 1)
        mine = bank[BANK * k + MY_RANK]
        if (act if waits and act > NEVER else t) >= rank[mine + NEXT_REF]:
            refresh(p, bank, group, rank, ring, slot, at, log, mine // RANK)
            continue
        if act > NEVER:
            at[N_CONFLICT if bank[BANK * k + OPEN_ROW] >= 0 else N_MISS] += 1
            open_row(p, bank, group, rank, ring, slot, at, log, k, s, act)
        else:
            at[N_HIT] += 1
        if BUSES and p[BUS] > 0:
            take(ring, bank[BANK * k + MY_BUS] + p[COLUMNS], t, 1)
        remove(p, bank, queue, slot, at, follow, slot_of, place, k, d, s)
        serve(p, bank, group, rank, at, k, d, t, 1)
        queue[base + CLOCK] = t
        if logging:
            note(at, log, t, RD + d, k, bank[BANK * k + OPEN_ROW])
        at[IN_FLIGHT] -= 1
        if recording:
            done[slot[SLOT * s + REQUEST]] = t + p[DATA + d]
        if closed:
            close(p, bank, rank, at, log, k, bank[BANK * k + NEXT_PRE])
        ready = t + p[DATA + d] if outstanding else t + p[HANDOVER]
        if (outstanding > 0 or d == blocked) and not room and ready > at[NOW]:
            at[NOW] = ready
            at[INJECTED] = 0
        alone = (
            quick and not room and d == blocked and queue[place + ACTIVES] == 1 and queue[place + WAITING] > 1
        )
        if alone and banks[i] == k and bank[BANK * k + OPEN_ROW] == rows[i]:
            forward(
                p, bank, group, rank, ring, queue, slot, at, first, past, slot_of, arrived, done, place, k, d, t,
            )  # fmt: skip


LOOP = (
    pick, admit, remove, direction, serve, forward, pending, behind, run,
)  # fmt: skip
"""Every function of this half, callees first."""
