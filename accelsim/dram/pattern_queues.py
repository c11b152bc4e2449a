"""The inner loop of the pattern model, second half: queues, drains of writes, and the pass over the bursts.

Requests are accepted in order, when the queue of their channel has room (head-of-line blocking). Reads are placed at
once. Writes wait; they are drained together, from the high watermark down to the low one, before the reads that are in
the queue then. Between two clocks at which the stream is blocked, no request leaves a queue.
"""

from __future__ import annotations

# isort: off
from accelsim.dram.locator import TABLE_BITS
from accelsim.dram.pattern_kernel import INDEX, place, visit_of
from accelsim.dram.pattern_state import (
    ACTS, ANY_ACT, APART, BANK, BANKS, BEFORE, BEFORE_END, CALENDAR, CAP, CHANNELS, CLOSED, COLUMN, COMMAND,
    DIRECTION, FIRST_RANK, FROM, FRONT, HELD, HIGH, HOLD, H_ACCEPTED, H_BANK, H_ROW, INJECTED, ITEM, ITS_CHANNEL,
    IT_ACT, IT_BANK, IT_COLUMN, IT_FOUND, IT_ROW, LATEST, LOW, MASK, MY_CHANNEL, MY_GROUP, MY_QUEUE, MY_RING, NEVER,
    NEXT_ACT, NEXT_PRE, NOW, N_ACT, N_MISS, N_PRE, OPEN_ROW, PASSED, PLACED, QUEUE, RANK, RANKS, RANK_ACT, READ,
    RING, RING_SIZE, ROW_BITS, RP, SHARED, SINCE, SLOT, SPAN, TURN, UNLIMITED, USES, VISIT, WAITING, WINDOW,
    WINDOW_ACTS, WINDOW_CLOCKS, YOUNGEST, Ints,
)  # fmt: skip
# isort: on

TABLE = 1 << TABLE_BITS


def hold(m: Ints, q: int, d: int, b: int, row: int, accepted: int) -> None:
    """Let a request of direction ``d`` wait unplaced."""
    n = m[q + HELD + d]
    e = q + QUEUE + HOLD * (m[WINDOW] * d + n)
    m[e + H_BANK], m[e + H_ROW], m[e + H_ACCEPTED] = b, row, accepted
    m[q + HELD + d] = n + 1


def place_held(m: Ints, slot: Ints, q: int, d: int, since: int, left: int) -> None:
    """Place the requests that wait, oldest first, but for the last ``left``; none before ``since``."""
    n, begin = m[q + HELD + d], q + QUEUE + HOLD * m[WINDOW] * d
    for e in range(begin, begin + HOLD * (n - left), HOLD):
        place(m, slot, m[e + H_BANK], m[e + H_ROW], d, max(since, m[e + H_ACCEPTED]))
    for e in range(begin, begin + HOLD * left):
        m[e] = m[e + HOLD * (n - left)]
    m[q + HELD + d] = left


def latest(m: Ints, q: int) -> int:
    """Clock of the last column command of the channels of a queue."""
    t = NEVER
    for h in range(m[SHARED]):
        t = max(t, m[m[q + ITS_CHANNEL] + h * m[q + APART] + LATEST])
    return t


def turn(m: Ints, q: int, d: int) -> None:
    """The buses of a queue change to direction ``d``, when all of them have served the other one."""
    end = latest(m, q)
    m[q + DIRECTION] = d
    for h in range(m[SHARED]):
        c = m[q + ITS_CHANNEL] + h * m[q + APART]
        m[c + FROM] = max(m[c + LATEST] + m[TURN + d], end)


def undo(m: Ints, b: int, found: int, now: int) -> None:
    """Take back the activation that opened the row of bank ``b``."""
    ring, v = m[b + MY_RING], b + m[b + YOUNGEST]
    m[N_ACT] -= 1
    m[ring + ACTS] -= 1
    m[ring + RING + (m[ring + ACTS] & (RING_SIZE - 1))] = NEVER
    if found == N_MISS or m[v] < 0:
        m[b + OPEN_ROW] = -1
    else:
        for k in range(VISIT):
            m[b + k] = m[v + k]
        m[v], m[v + COLUMN] = -1, NEVER
        m[b + YOUNGEST] = v - b - VISIT if v - b > BEFORE else BEFORE_END - VISIT
        m[N_PRE] -= 1
    m[b + NEXT_PRE] = min(m[b + NEXT_PRE], now)
    m[b + NEXT_ACT] = min(m[b + NEXT_ACT], now)


def rewind(m: Ints, r: int, now: int) -> None:
    """The activations of rank ``r`` so far came at the pace that the windows allow, up to ``now``."""
    if m[r + RANK_ACT] <= now:
        return
    m[r + RANK_ACT] = now
    for k in range(1, RING_SIZE + 1):
        x = NEVER
        for w in range(2):
            if m[WINDOW_CLOCKS + w]:
                x = max(x, now - k * m[WINDOW_CLOCKS + w] // m[WINDOW_ACTS + w])
        e = r + RING + ((m[r + ACTS] - k) & (RING_SIZE - 1))
        m[e] = min(m[e], x)


def pull(m: Ints, slot: Ints, e: int, now: int) -> None:
    """Take the read that is noted at ``e`` off the bus."""
    b, t, found = m[e + IT_BANK], m[e + IT_COLUMN], m[e + IT_FOUND]
    calendar, s, mask = m[m[b + MY_CHANNEL] + CALENDAR], t >> m[SLOT], m[MASK]
    while slot[calendar + (s & mask)] & READ == 0 and s <= (t >> m[SLOT]) + mask:  # it has been moved
        s += 1
    slot[calendar + (s & mask)] = 0
    m[e + IT_COLUMN] = NEVER
    if m[CAP] < UNLIMITED:
        v = b if m[b + OPEN_ROW] == m[e + IT_ROW] else visit_of(m, b, m[e + IT_ROW], now, UNLIMITED)
        if v:
            m[v + USES] -= 1
    m[m[b + MY_GROUP]] = min(m[m[b + MY_GROUP]], now)
    if found:
        m[found] -= 1
    if found and (m[e + IT_ACT] > now or m[CLOSED]):
        undo(m, b, found, now)
    else:
        m[b + COLUMN] = min(m[b + COLUMN], now)
        m[b + NEXT_PRE] = min(m[b + NEXT_PRE], max(m[b + NEXT_ACT] - m[RP], now))


def take_back(m: Ints, slot: Ints, q: int, now: int) -> None:
    """Hold the reads that have not left the queue: writes are drained before them.

    Rows that were opened by ``now`` stay open; what has been planned for later is undone, the youngest first.
    """
    window, n = m[WINDOW], 0
    m[q + COMMAND] = min(m[q + COMMAND], now)
    for h in range(m[SHARED]):
        c = m[q + ITS_CHANNEL] + h * m[q + APART]
        m[c + LATEST] = min(m[c + LATEST], now)
        m[c + ANY_ACT] = min(m[c + ANY_ACT], now)
    noted, held, place_ = q + QUEUE + 2 * HOLD * window, q + QUEUE, m[q + PLACED]
    for _ in range(window):
        place_ = place_ - 1 if place_ > 0 else window - 1
        e = noted + ITEM * place_
        if m[e + IT_COLUMN] >> m[SLOT] < m[q + PASSED]:
            continue
        n += 1
        to = held + HOLD * (window - n)
        m[to + H_BANK], m[to + H_ROW], m[to + H_ACCEPTED] = m[e + IT_BANK], m[e + IT_ROW], now
        pull(m, slot, e, now)
    for h in range(m[SHARED]):
        first = m[m[q + ITS_CHANNEL] + h * m[q + APART] + FIRST_RANK]
        for r in range(first, first + RANK * m[RANKS], RANK):
            rewind(m, r, now)
    for e in range(held, held + HOLD * n):
        m[e] = m[e + HOLD * (window - n)]
    m[q + HELD] = n


def leave(m: Ints, slot: Ints, q: int, until: int, d: int) -> int:
    """Requests leave the queue in the slots before ``until``, and after it as long as there is no room for one of
    direction ``d``. Returns the slots that are over."""
    q, mask = q & INDEX, m[MASK] & INDEX
    s: int = m[q + PASSED]
    if until - s > mask:
        s = until - mask - 1  # every place of the calendar once
    waiting, other, window = m[q + WAITING + d], m[q + WAITING + 1 - d], m[WINDOW]
    while s < until or waiting >= window:
        for h in range(m[SHARED]):
            e = (m[(m[q + ITS_CHANNEL] + h * m[q + APART] + CALENDAR) & INDEX] + (s & mask)) & INDEX
            waiting -= (slot[e] >> d) & 1
            other -= (slot[e] >> (1 - d)) & 1
            slot[e] = 0
        s += 1
    m[q + WAITING + d], m[q + WAITING + 1 - d], m[q + PASSED] = waiting, other, s
    return s


def drain(m: Ints, slot: Ints, q: int, now: int) -> None:
    """Place writes where the controller serves them: from the high watermark on, or when no read waits.

    Their rows may be opened as soon as the stream was blocked last.
    """
    if m[q + DIRECTION] == 0 and (m[q + HELD + 1] >= m[HIGH] or m[q + WAITING] == 0):
        m[q + SINCE] = m[q + PASSED] << m[SLOT]
        if m[WINDOW] > 1:
            take_back(m, slot, q, now)
        turn(m, q, 1)
    if m[q + DIRECTION] == 1:
        left = m[LOW] if m[q + WAITING] > 0 else 0
        if m[q + HELD + 1] > left:
            place_held(m, slot, q, 1, m[q + SINCE], left)


def resume(m: Ints, slot: Ints, q: int, clock: int) -> None:
    """Reads go on after a drain."""
    turn(m, q, 0)
    place_held(m, slot, q, 0, clock, 0)


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
                resume(m, slot, q, min(now, end) + FRONT)
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
        place_held(m, slot, q, 1, m[NOW] + FRONT, 0)
    if m[q + HELD] > 0:
        resume(m, slot, q, m[NOW] + FRONT)
    noted = q + QUEUE + 2 * HOLD * m[WINDOW]
    for e in range(noted, noted + ITEM * m[WINDOW], ITEM):
        m[e + IT_COLUMN] = NEVER


LOOP = (
    hold, place_held, latest, turn, undo, rewind, pull, take_back, leave, drain, resume, place_of, run, finish,
)  # fmt: skip
"""Every function of this half, callees first."""
