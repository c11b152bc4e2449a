"""The inner loop of the pattern model, second half: queues, drains of writes, and the pass over the bursts.

Requests are accepted in order, when the queue of their channel has room (head-of-line blocking). Reads are placed at
once. Writes wait; they are drained together, from the high watermark down to the low one, before the reads that are in
the queue then. Between two clocks at which the stream is blocked, no request leaves a queue.
"""

from __future__ import annotations

# isort: off
from accelsim.dram.pattern import TABLE_BITS
from accelsim.dram.pattern_kernel import INDEX, place, visit_of
from accelsim.dram.pattern_state import (
    ACTIVE, ACTS, AHEAD, ANY_ACT, APART, BANK, BANKS, BEFORE, BEFORE_END, B_ACT, B_COLUMN, B_GROUP, B_PRE,
    B_RANK, CALENDAR, CAP, BEGUN, BUSY, CHANNELS, CLOSED, COLUMN, COMMAND, DIRECTION, DUE, EACH, EVERY,
    FIRST_BANK, FIRST_GROUP, FIRST_RANK, FROM, FRONT, GRACE, GROUPS, HELD, HIGH, HOLD, H_ACCEPTED, H_BANK,
    H_READY, H_ROW, INJECTED, ITEM, ITS_CHANNEL, IT_ACCEPTED, IT_BANK, IT_COLUMN, IT_DUE, IT_FOUND, IT_OWN,
    IT_ROW, ITEM_BEFORE, LATEST, LOW, MASK, MY_CHANNEL, MY_GROUP, MY_QUEUE, MY_RANK, MY_RING, NEVER, NEXT_ACT,
    NEXT_ALL, NEXT_PRE, NOW, N_ACT, N_MISS, N_PRE, OPENED, OPEN_ROW, PACE, PASSED, PLACED, PLANNED, PLANNED_ROW,
    QUEUE, RANK, RANKS, RANK_ACT, RANK_FROM, RANK_LATEST, RAS, RC, RCD, READ, REF_END, RFC, RING, RING_SIZE,
    ROW_BITS, RP, RRD, RRD_ANY, SHARED, SLOT, SPAN, STEP, TO_PRE, TURN, TURN_GROUP, TURN_RANK, UNLIMITED, USES,
    VISIT, WAITING, WINDOW, WRITE, YOUNGEST, Ints,
)  # fmt: skip
# isort: on

TABLE = 1 << TABLE_BITS


def hold(m: Ints, q: int, d: int, b: int, row: int, accepted: int) -> None:
    """Let a request of direction ``d`` wait unplaced."""
    n = m[q + HELD + d]
    e = q + QUEUE + HOLD * (m[WINDOW] * d + n)
    m[e + H_BANK], m[e + H_ROW], m[e + H_ACCEPTED] = b, row, accepted
    m[q + HELD + d] = n + 1


def place_reads(m: Ints, slot: Ints, q: int) -> None:
    """Place the reads that wait, oldest first."""
    begin = q + QUEUE
    for e in range(begin, begin + HOLD * m[q + HELD], HOLD):
        place(m, slot, m[e + H_BANK], m[e + H_ROW], 0, m[e + H_ACCEPTED])
    m[q + HELD] = 0


def look(m: Ints, begin: int, end: int) -> None:
    """Return when each held write could be served, as its bank is now and with those of the bank before it."""
    free, step, each, opening, closing = NEVER, 1 << m[SLOT], m[STEP + 1], m[RCD + 1], m[RP]
    # from one column command to the next of another row: through the end of the first, or a whole cycle of the bank
    again = max(m[TO_PRE + 1] + closing + opening, m[RC])
    for e in range(begin, end, HOLD):
        x = m[(m[(m[e + H_BANK] & INDEX) + MY_RANK] & INDEX) + RANK_FROM]
        if x > free:
            free = x
    for e in range(begin, end, HOLD):
        b, row = m[e + H_BANK] & INDEX, m[e + H_ROW]
        planned = m[b + PLANNED]
        if planned > NEVER:
            t = planned + (each if m[b + PLANNED_ROW] == row else again)
        elif m[b + OPEN_ROW] == row:
            t = m[b + COLUMN]
        else:
            t = m[b + NEXT_ACT]
            if m[b + OPEN_ROW] >= 0 and m[b + NEXT_PRE] + closing > t:
                t = m[b + NEXT_PRE] + closing
            t += opening
        x = m[(m[b + MY_CHANNEL] & INDEX) + FROM]
        if x > t:
            t = x
        x = m[(m[b + MY_RANK] & INDEX) + RANK_FROM]
        if x > t:
            t = x
        if t <= free:
            t = free
            free += step
        m[e + H_READY] = m[b + PLANNED] = t
        m[b + PLANNED_ROW] = row
    for e in range(begin, end, HOLD):
        m[(m[e + H_BANK] & INDEX) + PLANNED] = NEVER


def leave_last(m: Ints, begin: int, end: int, left: int) -> None:
    """Mark the writes that are not to be placed now by NEVER as their H_READY: the ``left`` that could be served last,
    of those that are ready at one clock the youngest."""
    for _ in range(left):
        last = begin
        for e in range(begin, end, HOLD):
            if m[e + H_READY] >= m[last + H_READY]:
                last = e
        m[last + H_READY] = NEVER


def leave_but_one(m: Ints, begin: int, end: int) -> None:
    """Do the same for all but one, which is what most drains come to."""
    first = begin
    for e in range(begin + HOLD, end, HOLD):
        if m[e + H_READY] < m[first + H_READY]:
            m[first + H_READY] = NEVER
            first = e
        else:
            m[e + H_READY] = NEVER


def place_writes(m: Ints, slot: Ints, q: int, left: int) -> None:
    """Place the writes that wait, oldest first, but for ``left`` of them: those that could be served last."""
    n, begin = m[q + HELD + 1], q + QUEUE + HOLD * m[WINDOW]
    end = begin + HOLD * n
    if left > 0:
        look(m, begin, end)
        if n == left + 1:
            leave_but_one(m, begin, end)
        else:
            leave_last(m, begin, end, left)
    to = begin
    for e in range(begin, end, HOLD):
        if left > 0 and m[e + H_READY] == NEVER:
            if to < e:
                m[to + H_BANK], m[to + H_ROW], m[to + H_ACCEPTED] = (
                    m[e + H_BANK],
                    m[e + H_ROW],
                    m[e + H_ACCEPTED],
                )
            to += HOLD
        else:
            place(m, slot, m[e + H_BANK], m[e + H_ROW], 1, m[e + H_ACCEPTED])
    m[q + HELD + 1] = left


def latest(m: Ints, q: int) -> int:
    """Clock of the last column command of the channels of a queue."""
    t = NEVER
    for h in range(m[SHARED]):
        t = max(t, m[m[q + ITS_CHANNEL] + h * m[q + APART] + LATEST])
    return t


def turn(m: Ints, q: int, d: int) -> None:
    """The buses of a queue change to direction ``d``."""
    m[q + DIRECTION] = d
    for h in range(m[SHARED]):
        c = m[q + ITS_CHANNEL] + h * m[q + APART]
        m[c + FROM] = m[c + LATEST] + m[TURN + d]
        first = m[c + FIRST_RANK]
        for r in range(first, first + RANK * m[RANKS], RANK):
            m[r + RANK_FROM] = m[r + RANK_LATEST] + m[TURN_RANK + d]
            other, after = m[STEP + 1 - d], m[TURN_GROUP + d]
            for g in range(m[r + FIRST_GROUP], m[r + FIRST_GROUP] + m[GROUPS]):
                m[g] = min(m[g] - other, m[r + RANK_LATEST]) + after


def forget_act(m: Ints, ring: int, own: int) -> None:
    """Take the activation at ``own`` out of a record of activations."""
    n = m[ring + ACTS] - 1
    k, carried = n, NEVER
    for _ in range(m[WINDOW]):
        e = ring + RING + (k & (RING_SIZE - 1))
        x = m[e]
        m[e] = carried
        if x <= own:
            break
        carried = x
        k -= 1
    m[ring + ACTS] = n


def undo(m: Ints, e: int, b: int, found: int) -> None:
    """Take back the activation that opened the row of bank ``b`` for the read noted at ``e``."""
    v = b + m[b + YOUNGEST]
    m[N_ACT] -= 1
    m[found] -= 1
    if m[b + DUE] != m[e + IT_DUE]:  # it has been refreshed since
        return
    if m[CLOSED]:
        m[N_PRE] -= 1
    elif m[b + OPEN_ROW] != m[e + IT_ROW]:
        return
    elif found == N_MISS or m[v] < 0:
        m[b + OPEN_ROW] = -1
    else:
        for k in range(VISIT):
            m[b + k] = m[v + k]
        m[v], m[v + COLUMN] = -1, NEVER
        m[b + YOUNGEST] = v - b - VISIT if v - b > BEFORE else BEFORE_END - VISIT
        m[N_PRE] -= 1
    m[b + NEXT_PRE], m[b + NEXT_ACT] = m[e + B_PRE], m[e + B_ACT]


def pull(m: Ints, slot: Ints, e: int) -> None:
    """Take the read that is noted at ``e`` off the bus."""
    b, t, found = m[e + IT_BANK], m[e + IT_COLUMN], m[e + IT_FOUND]
    calendar, s, mask = m[m[b + MY_CHANNEL] + CALENDAR], t >> m[SLOT], m[MASK]
    while slot[calendar + (s & mask)] & READ == 0 and s <= (t >> m[SLOT]) + mask:  # it has been moved
        s += 1
    slot[calendar + (s & mask)] &= ~BUSY & 255
    s = (t >> m[SLOT]) - m[ACTIVE]
    if found and m[ACTIVE] and s >= m[m[b + MY_QUEUE] + PASSED]:
        slot[calendar + (s & mask)] &= ~OPENED & 255
    m[e + IT_COLUMN] = NEVER
    if m[CAP] < UNLIMITED:
        v = b if m[b + OPEN_ROW] == m[e + IT_ROW] else visit_of(m, b, m[e + IT_ROW], NEVER, UNLIMITED)
        if v:
            m[v + USES] -= 1
    m[m[b + MY_GROUP]] = min(m[m[b + MY_GROUP]], m[e + B_GROUP])
    if found:
        r = m[b + MY_RANK]
        if m[r + RANK_ACT] > m[r + REF_END]:
            m[r + RANK_ACT] = max(m[r + REF_END], m[e + B_RANK])
        forget_act(m, m[b + MY_RING], m[e + IT_OWN])
        undo(m, e, b, found)
    elif m[b + OPEN_ROW] == m[e + IT_ROW] and m[e + B_COLUMN] > NEVER:
        m[b + COLUMN] = m[e + B_COLUMN]
        m[b + NEXT_PRE] = min(m[b + NEXT_PRE], m[e + B_PRE])


def pace_again(m: Ints, q: int) -> None:
    """The next activation of each rank follows the last one that was not taken back."""
    for h in range(m[SHARED]):
        c = m[q + ITS_CHANNEL] + h * m[q + APART]
        first, after = m[c + FIRST_RANK], NEVER
        for r in range(first, first + RANK * m[RANKS], RANK):
            x = m[r + RING + ((m[r + ACTS] - 1) & (RING_SIZE - 1))]
            if m[RRD_ANY]:
                after = max(after, x + m[RRD_ANY])
            else:
                m[r + RANK_ACT] = max(m[r + REF_END], x + m[RRD])
        if m[RRD_ANY]:
            m[c + ANY_ACT] = after


def take_back(m: Ints, slot: Ints, q: int, now: int) -> None:
    """Hold the reads that have not left the queue: writes are drained before them. The youngest is undone first."""
    window, n = m[WINDOW], 0
    m[q + COMMAND] = min(m[q + COMMAND], now)
    for h in range(m[SHARED]):
        c = m[q + ITS_CHANNEL] + h * m[q + APART]
        m[c + LATEST] = min(m[c + LATEST], now)
        first = m[c + FIRST_RANK]
        for r in range(first, first + RANK * m[RANKS], RANK):
            m[r + RANK_LATEST] = min(m[r + RANK_LATEST], now)
    noted, held, place_ = q + QUEUE + 2 * HOLD * window, q + QUEUE, m[q + PLACED]
    for _ in range(window):
        place_ = place_ - 1 if place_ > 0 else window - 1
        e = noted + ITEM * place_
        if m[e + IT_COLUMN] >> m[SLOT] < m[q + PASSED]:
            continue
        n += 1
        to = held + HOLD * (window - n)
        m[to + H_BANK], m[to + H_ROW], m[to + H_ACCEPTED] = m[e + IT_BANK], m[e + IT_ROW], m[e + IT_ACCEPTED]
        pull(m, slot, e)
    pace_again(m, q)
    for e in range(held, held + HOLD * n):
        m[e] = m[e + HOLD * (window - n)]
    m[q + HELD] = n


def put_off(m: Ints, begin: int, end: int, due: int, move: int) -> None:
    """Clocks beyond ``due`` among the entries from ``begin`` to ``end`` are later by ``move``."""
    for e in range(begin, end):
        if m[e] > due:
            m[e] += move


def first_of(m: Ints, slot: Ints, c: int, due: int) -> int:
    """The first slot of channel ``c`` from ``due`` on that has a burst; 0 if none has."""
    e, mask, banks = m[c + CALENDAR], m[MASK], m[c + FIRST_BANK]
    s, end = max(due >> m[SLOT], m[m[banks + MY_QUEUE] + PASSED]), m[c + LATEST]
    for b in range(banks, banks + BANK * m[EACH], BANK):
        end = max(end, m[b + COLUMN])
    while s <= end >> m[SLOT]:
        if slot[e + (s & mask)] & (READ | WRITE):
            return int(s)
        s += 1
    return 0


def closed_by(m: Ints, c: int, d: int, due: int) -> int:
    """Return when all banks of channel ``c``, which moves data in direction ``d``, close for a refresh at ``due``."""
    banks, t = m[c + FIRST_BANK], due + max(FRONT, m[TO_PRE + d] - m[STEP + d] // 2)
    for b in range(banks, banks + BANK * m[EACH], BANK):
        if m[b + OPEN_ROW] >= 0 and m[b + COLUMN] - m[STEP + d] < due:
            t = max(t, m[b + NEXT_PRE])
        for v in range(b + BEFORE - VISIT, b + BEFORE_END, VISIT):
            act = m[(v if v >= b + BEFORE else b) + BEGUN] - m[RCD + d]
            if act < due:
                t = max(t, act + m[RAS])
    return int(t)


def clear_bus(m: Ints, slot: Ints, c: int, first: int, back: int) -> int:
    """Move what the bus of channel ``c`` has from its slot ``first`` on to ``back``, clocks, or later; by how much."""
    e, mask, banks, end = m[c + CALENDAR], m[MASK], m[c + FIRST_BANK], m[c + LATEST]
    n = (back - (first << m[SLOT]) + (1 << m[SLOT]) - 1) >> m[SLOT]
    if first == 0 or n <= 0:
        return 0
    for b in range(banks, banks + BANK * m[EACH], BANK):
        end = max(end, m[b + COLUMN])
    s = end >> m[SLOT]
    while slot[e + (s & mask)] & BUSY:
        s += 1
    while s > first:
        s -= 1
        slot[e + ((s + n) & mask)] = slot[e + (s & mask)]
        slot[e + (s & mask)] = 0
    return int(n << m[SLOT])


def close_all(m: Ints, c: int, d: int, due: int, over: int, move: int) -> None:
    """The banks of channel ``c`` are closed at ``due``; rows that are wanted further on are opened again."""
    banks = m[c + FIRST_BANK]
    for b in range(banks, banks + BANK * m[EACH], BANK):
        if m[b + COLUMN] - m[STEP + d] >= due:
            m[b + PACE] = max(m[b + PACE] + move, over + m[RCD + d])
            m[b + NEXT_PRE] += move
            m[b + NEXT_ACT] = max(m[b + NEXT_ACT] + move, over)
        else:
            if m[b + OPEN_ROW] >= 0:
                m[b + NEXT_ACT] = max(m[b + NEXT_ACT], m[b + NEXT_PRE] + m[RP] + m[RFC])
            m[b + NEXT_ACT] = max(m[b + NEXT_ACT], over)
        for k in range(BEFORE - VISIT, BEFORE_END, VISIT):
            v = b + k if k >= BEFORE else b
            if m[v + COLUMN] - m[STEP + d] < due:
                m[v] = -1
            else:
                m[N_ACT] += m[v] >= 0 and m[v + BEGUN] - m[RCD + d] < due
                put_off(m, v + BEGUN, v + BEGUN + 1, due, move)
                m[v + COLUMN] += move


def refresh_all(m: Ints, slot: Ints, q: int, t: int) -> None:
    """Refresh all ranks of a queue for what was due by ``t``: what had been planned for later goes behind it."""
    due, d = m[q + NEXT_ALL] + (t - m[q + NEXT_ALL]) // m[EVERY] * m[EVERY], m[q + DIRECTION]
    m[q + NEXT_ALL], noted, move = due + m[EVERY], q + QUEUE + 2 * HOLD * m[WINDOW], 0
    for h in range(m[SHARED]):
        c = m[q + ITS_CHANNEL] + h * m[q + APART]
        first = first_of(m, slot, c, due)
        if first:
            d = (slot[m[c + CALENDAR] + (first & m[MASK])] & WRITE) // WRITE
        over = closed_by(m, c, d, due) + m[RP] + m[RFC]
        move = clear_bus(m, slot, c, first, over + m[RCD + d])
        put_off(m, c + FROM, c + LATEST + 1, due, move)
        close_all(m, c, d, due, over, move)
        put_off(m, c + ANY_ACT, c + ANY_ACT + 1, due, move)
        for r in range(m[c + FIRST_RANK], m[c + FIRST_RANK] + RANK * m[RANKS], RANK):
            put_off(m, m[r + FIRST_GROUP], m[r + FIRST_GROUP] + m[GROUPS], due, move)
            put_off(m, r + RANK_FROM, r + RANK, due, move)
            put_off(m, r + RANK_ACT, r + RANK_ACT + 1, due, move)
            m[r + REF_END] = over
            m[r + RANK_ACT] = max(m[r + RANK_ACT], over)
        for e in range(noted, noted + ITEM * m[WINDOW], ITEM):
            if m[e + IT_COLUMN] >= due and m[m[e + IT_BANK] + MY_CHANNEL] == c:
                m[e + IT_COLUMN] += move
                put_off(m, e + IT_OWN, e + IT_OWN + 1, due, move)
                put_off(m, e + ITEM_BEFORE, e + ITEM, due, move)
                m[e + B_ACT] = max(m[e + B_ACT], over)
                if m[e + B_COLUMN] > NEVER:
                    m[e + B_COLUMN] = max(m[e + B_COLUMN], over + m[RCD])
    put_off(m, q + COMMAND, q + COMMAND + 1, due, move)


def departures(m: Ints, q: int, kind: int, d: int) -> int:
    """Requests of direction ``d`` that leave a queue in a slot that holds ``kind``: some have when a row opened."""
    n = (kind >> d) & 1
    if n and m[q + AHEAD + d] > 0:
        m[q + AHEAD + d] -= 1
        n = 0
    if kind & (OPENED << d):
        m[q + AHEAD + d] += 1
        n += 1
    return int(n)


def leave(m: Ints, slot: Ints, q: int, until: int, d: int) -> int:
    """Requests leave the queue in the slots before ``until``, and after it as long as there is no room for one of
    direction ``d``. Returns the slots that are over."""
    q, mask = q & INDEX, m[MASK] & INDEX
    s: int = m[q + PASSED]
    if until - s > mask:
        s = until - mask - 1  # every place of the calendar once
    waiting, other, window = m[q + WAITING + d], m[q + WAITING + 1 - d], m[WINDOW]
    while s < until or waiting >= window:
        if s << m[SLOT] >= m[q + NEXT_ALL] + m[GRACE]:
            m[q + PASSED] = s
            refresh_all(m, slot, q, s << m[SLOT])
        for h in range(m[SHARED]):
            e = (m[(m[q + ITS_CHANNEL] + h * m[q + APART] + CALENDAR) & INDEX] + (s & mask)) & INDEX
            if m[ACTIVE]:
                waiting -= departures(m, q, slot[e], d)
                other -= departures(m, q, slot[e], 1 - d)
            else:
                waiting -= (slot[e] >> d) & 1
                other -= (slot[e] >> (1 - d)) & 1
            slot[e] = 0
        s += 1
    m[q + WAITING + d], m[q + WAITING + 1 - d], m[q + PASSED] = waiting, other, s
    return s


def drain(m: Ints, slot: Ints, q: int, now: int) -> None:
    """Place writes where the controller serves them: from the high watermark on, or when no read waits."""
    if m[q + DIRECTION] == 0 and (m[q + HELD + 1] >= m[HIGH] or m[q + WAITING] + m[q + AHEAD] == 0):
        if m[WINDOW] > 1:
            take_back(m, slot, q, now)
        turn(m, q, 1)
    if m[q + DIRECTION] == 1:
        left = m[LOW] if m[q + WAITING] + m[q + AHEAD] > 0 else 0
        if m[q + HELD + 1] > left:
            place_writes(m, slot, q, left)


def resume(m: Ints, slot: Ints, q: int) -> None:
    """Reads go on after a drain."""
    turn(m, q, 0)
    place_reads(m, slot, q)


def place_of(tables: Ints, line: int) -> int:
    """Flat bank << row bits | row of an address without its ``Locator.span`` lowest bits; see there for ``tables``."""
    place, table = 0, 0
    while table < len(tables):
        place ^= tables[(table + (line & (TABLE - 1))) & INDEX]
        line >>= TABLE_BITS
        table += TABLE
    return place


def run(m: Ints, slot: Ints, tables: Ints, addresses: Ints, writes: Ints) -> None:
    """Serve all bursts, in order: ``addresses`` one byte of each, ``writes`` its direction."""
    now, injected, channels, window, shift = m[NOW], m[INJECTED], m[CHANNELS], m[WINDOW], m[SLOT]
    bits, span, banks, over = m[ROW_BITS], m[SPAN], m[BANKS], now >> shift
    mask = (1 << bits) - 1
    for i in range(len(addresses)):
        at = place_of(tables, addresses[i] >> span)
        b, row, d = (banks + BANK * (at >> bits)) & INDEX, at & mask, writes[i] & 1
        if injected == channels:
            now += 1
            injected = 0
        q = m[b + MY_QUEUE] & INDEX
        if m[q + DIRECTION] == 1 and (d == 0 or m[q + HELD] > 0):
            end = latest(m, q)
            if d == 0 or now > end:
                resume(m, slot, q)
        if m[q + WAITING + d] >= window or m[q + PASSED] < over:
            passed = leave(m, slot, q, over, d)
            if ((passed - 1) << shift) + FRONT > now:
                now = ((passed - 1) << shift) + FRONT
                injected = 0
                over = passed - 1
        injected += 1
        m[q + WAITING + d] += 1
        if d == 0:
            place(m, slot, b, row, 0, now + FRONT)
        else:
            hold(m, q, 1, b, row, now + FRONT)
            drain(m, slot, q, now + FRONT)
    m[NOW], m[INJECTED] = now, injected


def finish(m: Ints, slot: Ints, q: int) -> None:
    """Serve what still waits in a queue; nothing comes before it any more."""
    if m[q + HELD + 1] > 0:
        if m[q + DIRECTION] == 0:
            turn(m, q, 1)
        place_writes(m, slot, q, 0)
    if m[q + HELD] > 0:
        resume(m, slot, q)
    noted = q + QUEUE + 2 * HOLD * m[WINDOW]
    for e in range(noted, noted + ITEM * m[WINDOW], ITEM):
        m[e + IT_COLUMN] = NEVER
