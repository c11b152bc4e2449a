"""The inner loop of the pattern model, first half: when a burst is served. Plain Python that numba can compile.

A burst is given the first slot of its channel's data bus at which its bank, bank group, rank and the direction of the
bus let it go. Slots may lie before those of older bursts, so a burst whose row is still to be opened delays none that
can go at once: what a scheduler that takes ready requests first comes to (FR-FCFS: Rixner et al., Memory Access
Scheduling, ISCA 2000), without a search among the requests that wait. Bank groups and activations of a rank are served
in the order of acceptance.

A *visit* is what a bank serves from one row before it opens another one. The names of the entries of ``m`` are those of
``pattern_state``; ``slot`` holds the calendars of the buses.
"""

from __future__ import annotations

# isort: off
from accelsim.dram.pattern_state import (
    ACTIVE, ACTS, ACT_CLOCKS, ANY_ACT, BEFORE, BEFORE_END, BEGUN, BUSY, B_ACT, B_COLUMN, B_GROUP, B_PRE, B_RANK,
    CALENDAR, CAP, CAS_CLOCKS, CLOSED, COLUMN, COMMAND, DUE, EVERY, EXCESS, FIRST_GROUP, FRACTION, FROM, GAP,
    GROUPS, HOLD, ITEM, IT_ACCEPTED, IT_BANK, IT_COLUMN, IT_DUE, IT_FOUND, IT_OWN, IT_ROW, LAST_RANK, LATEST,
    LOST, MASK, MIXED, MY_CHANNEL, MY_GROUP, MY_QUEUE, MY_RANK, MY_RING, NEVER, NEXT_ACT, NEXT_PRE, NEXT_REF,
    N_ACT, N_CONFLICT, N_MISS, N_PRE, OPENED, OPEN_ROW, PACE, PASSED, PER_BANK, PLACED, QUEUE, RANK_ACT,
    RANK_FROM, RANK_GAP, RANK_LATEST, RAS, RC, RCD, READ, REF_END, RFC, RING, RING_SIZE, RP, RRD, RRD_ANY, SLOT,
    STEP, TIMEOUT, TO_PRE, USES, VISIT, WINDOW, WINDOW_ACTS, WINDOW_CLOCKS, WRITE, YOUNGEST, Ints,
)  # fmt: skip
# isort: on

INDEX = (1 << 31) - 1
"""``x & INDEX`` tells the compiler that an index is not negative, so that it need not count from the end."""


def forget(m: Ints, b: int) -> None:
    """Bank ``b`` is closed, and what it served before is over."""
    m[b + OPEN_ROW] = -1
    for v in range(b + BEFORE, b + BEFORE_END, VISIT):
        m[v] = -1


def refresh(m: Ints, b: int, t: int) -> None:
    """Close bank ``b`` for the refreshes that were due by ``t``, behind what it has been given to do."""
    due = m[b + DUE] + (t - m[b + DUE]) // m[EVERY] * m[EVERY]
    if m[PER_BANK]:
        end = due + m[RP] + m[RFC]
        m[b + DUE] = due + m[EVERY]
    else:
        r = m[b + MY_RANK]
        if t >= m[r + NEXT_REF]:  # the first bank that meets it; what the rank has accepted goes first
            begin = max(due, m[r + RANK_ACT])
            for g in range(m[r + FIRST_GROUP], m[r + FIRST_GROUP] + m[GROUPS]):
                begin = max(begin, m[g])
            m[r + REF_END] = m[r + RANK_ACT] = begin + m[RP] + m[RFC]
            m[r + NEXT_REF] = due + m[EVERY]
        end = m[r + REF_END]
        m[b + DUE] = m[r + NEXT_REF]
    if m[b + OPEN_ROW] >= 0:
        end = max(end, m[b + NEXT_PRE] + m[RP] + m[RFC])
    m[b + NEXT_ACT] = max(m[b + NEXT_ACT], end)
    forget(m, b)


def expire(m: Ints, b: int, accepted: int) -> None:
    """Close bank ``b`` if its row has not been used for too long."""
    idle = m[b + COLUMN] + m[TIMEOUT]
    if m[b + OPEN_ROW] >= 0 and accepted > idle:
        m[b + NEXT_ACT] = max(m[b + NEXT_ACT], idle + m[RP])
        m[N_PRE] += 1
        forget(m, b)


def visit_of(m: Ints, b: int, row: int, since: int, most: int) -> int:
    """Return where the last visit to ``row`` is among those before the open one that last beyond ``since``; 0: nowhere.

    Visits of ``most`` bursts or more do not count.
    """
    found, end = 0, since
    for v in range(b + BEFORE, b + BEFORE_END, VISIT):
        if m[v] == row and m[v + COLUMN] > end and m[v + USES] < most:
            found, end = v, m[v + COLUMN]
    return found


def delay(m: Ints, slot: Ints, b: int, v: int, step: int) -> None:
    """Visit ``v`` of bank ``b`` begins and ends a step later: its first burst moves to its end."""
    e, mask, s, end = (
        m[m[b + MY_CHANNEL] + CALENDAR],
        m[MASK],
        m[v + BEGUN] >> m[SLOT],
        m[v + COLUMN] >> m[SLOT],
    )
    s = max(s, m[m[b + MY_QUEUE] + PASSED])
    m[v + BEGUN] += step
    m[v + COLUMN] += step
    while s < end and slot[e + (s & mask)] & (READ | WRITE) == 0:
        s += 1
    if s >= end:
        return
    kind = slot[e + (s & mask)] & BUSY
    slot[e + (s & mask)] &= ~BUSY & 255
    while slot[e + (end & mask)] & BUSY:
        end += 1
    slot[e + (end & mask)] |= kind


def join(m: Ints, slot: Ints, b: int, v: int, d: int) -> int:
    """Earliest column command of a burst that joins visit ``v`` when later ones of the bank have been planned.

    It makes that visit a step longer, and all later ones begin a step later.
    """
    step, w = m[STEP + d], b + m[b + YOUNGEST]
    t: int = m[v + COLUMN]
    delay(m, slot, b, b, step)
    m[b + NEXT_PRE] += step
    m[b + PACE] += step
    while w != v:
        delay(m, slot, b, w, step)
        w = w - VISIT if w > b + BEFORE else b + BEFORE_END - VISIT
    m[v + COLUMN] += step
    m[v + USES] += 1
    return t


def activate(m: Ints, b: int, row: int, d: int, accepted: int) -> int:
    """Open ``row`` in bank ``b``; returns the clock of the activation."""
    b, act = b & INDEX, accepted
    if m[b + OPEN_ROW] >= 0:
        if m[b + NEXT_PRE] > act:
            act = m[b + NEXT_PRE]
        act += m[RP]
        v = (b + m[b + YOUNGEST] + VISIT) & INDEX
        if v == b + BEFORE_END:
            v = b + BEFORE
        m[b + YOUNGEST] = v - b
        for k in range(VISIT):
            m[v + k] = m[b + k]
        m[N_PRE] += 1
    if m[b + NEXT_ACT] > act:
        act = m[b + NEXT_ACT]
    r = m[b + MY_RANK] & INDEX
    # a rank opens rows in the order of acceptance, whenever the bank is ready
    ring, own = m[b + MY_RING] & INDEX, m[r + RANK_ACT]
    n = m[ring + ACTS]
    if accepted > own:
        own = accepted
    x = m[ring + RING + ((n - m[WINDOW_ACTS]) & (RING_SIZE - 1))] + m[WINDOW_CLOCKS]
    if x > own:
        own = x
    if m[WINDOW_CLOCKS + 1]:
        x = m[ring + RING + ((n - m[WINDOW_ACTS + 1]) & (RING_SIZE - 1))] + m[WINDOW_CLOCKS + 1]
        if x > own:
            own = x
    if m[RRD_ANY]:
        c = m[b + MY_CHANNEL] & INDEX
        own = max(own, m[c + ANY_ACT])
        m[c + ANY_ACT] = own + m[RRD_ANY]
    m[ring + RING + (n & (RING_SIZE - 1))] = own
    m[ring + ACTS] = n + 1
    m[r + RANK_ACT] = own + m[RRD]
    if own > act:
        act = own
    m[b + OPEN_ROW] = row
    m[b + USES] = 0
    m[b + COLUMN] = m[b + BEGUN] = act + m[RCD + d]
    m[b + NEXT_PRE] = act + m[RAS]
    m[b + NEXT_ACT] = act + m[RC]
    m[N_ACT] += 1
    return act


def command(m: Ints, q: int, found: int, accepted: int) -> int:
    """Clock of a queue's command bus, which has one command after the other, in the order of acceptance."""
    x = m[q + COMMAND]
    if accepted > x:
        x = accepted
    m[q + COMMAND] = x + m[CAS_CLOCKS] + (m[ACT_CLOCKS] if found else 0) + (found == N_CONFLICT)
    return int(x)


def lose(m: Ints, slot: Ints, c: int, s: int) -> None:
    """The bus of channel ``c`` has lost the time of a slot: it idles for one from ``s`` on."""
    m[c + LOST] -= FRACTION << m[SLOT]
    e = m[c + CALENDAR]
    while slot[e + (s & m[MASK])] & BUSY:
        s += 1
    slot[e + (s & m[MASK])] |= GAP


def settle(m: Ints, b: int, row: int, accepted: int) -> None:
    """Refreshes and timeouts that change bank ``b`` before a burst on ``row`` is looked at."""
    x = accepted
    if m[b + OPEN_ROW] != row and m[PER_BANK] == 0:
        x = max(x, m[(m[b + MY_RANK] & INDEX) + RANK_ACT])
        if m[RRD_ANY]:
            x = max(x, m[(m[b + MY_CHANNEL] & INDEX) + ANY_ACT])
    if x >= m[b + DUE]:
        refresh(m, b, x)
    if m[TIMEOUT]:
        expire(m, b, accepted)


def in_turn(m: Ints, c: int, r: int, g: int, d: int, t: int, accepted: int) -> int:
    """``t``, or later: not before the bus has turned to direction ``d``, and one by one in bank group ``g``."""
    x = accepted
    if m[c + FROM] > x:
        x = m[c + FROM]
    if m[r + RANK_FROM] > x:
        x = m[r + RANK_FROM]
    if m[g] > x:
        x = m[g]
    m[g] = x + m[STEP + d]
    return x if x > t else t


def charge(m: Ints, slot: Ints, b: int, c: int, d: int, s: int) -> None:
    """Time that the bus of channel ``c`` loses with a burst of bank ``b`` in slot ``s``: another rank, a long burst."""
    if m[RANK_GAP + d] and m[c + LAST_RANK] != m[b + MY_RANK]:
        m[c + LAST_RANK] = m[b + MY_RANK]
        m[c + LOST] += m[RANK_GAP + d]
    m[c + LOST] += m[EXCESS]
    if m[c + LOST] >= FRACTION << m[SLOT]:
        lose(m, slot, c, s + 1)


def place(m: Ints, slot: Ints, b: int, row: int, d: int, accepted: int) -> int:
    """Give a burst of direction ``d`` its slot; returns the clock of its column command."""
    b, d = b & INDEX, d & 1
    c, q, g = m[b + MY_CHANNEL] & INDEX, m[b + MY_QUEUE] & INDEX, m[b + MY_GROUP] & INDEX
    settle(m, b, row, accepted)
    act, v, found = NEVER, 0, 0
    r = m[b + MY_RANK] & INDEX
    column, pre, may, paced = m[b + COLUMN], m[b + NEXT_PRE], m[b + NEXT_ACT], m[r + RANK_ACT]
    if m[b + OPEN_ROW] != row:
        if m[b + OPEN_ROW] >= 0:
            v = visit_of(m, b, row, max(accepted, m[c + FROM]), m[CAP])
        if v == 0:
            found = N_MISS if m[b + OPEN_ROW] < 0 else N_CONFLICT
            act = activate(m, b, row, d, accepted)
            m[found] += 1
    t = m[b + COLUMN] if v == 0 else join(m, slot, b, v, d)
    if found == 0 and v == 0 and m[STEP + d] & ((1 << m[SLOT]) - 1):
        t = min(t, m[b + PACE])
    step, grouped = m[STEP + d], m[g]
    t = in_turn(m, c, r, g, d, t, accepted)
    if m[ACT_CLOCKS]:
        x = command(m, q, found, accepted)
        if x > t:
            t = x
    s, e, mask = t >> m[SLOT], m[c + CALENDAR] & INDEX, m[MASK] & INDEX
    if m[q + PASSED] > s:
        s = m[q + PASSED]
    wanted = max(t, s << m[SLOT])
    if slot[e + (s & mask)] & BUSY:
        wanted = (wanted + (1 << m[SLOT]) - 1) >> m[SLOT] << m[SLOT]
    while slot[e + (s & mask)] & BUSY:
        s += 1
    slot[e + (s & mask)] |= READ << d
    if found and s - m[ACTIVE + d] >= m[q + PASSED] and m[ACTIVE + d]:
        slot[e + ((s - m[ACTIVE + d]) & mask)] |= OPENED << d
    late = t - (s << m[SLOT])
    if late < 0:
        t -= late
    elif act != NEVER and d == 0:  # lost where the bus idled before, if bursts follow: a quarter is counted
        m[c + LOST] += late * (FRACTION // 4) * (slot[e + ((s - 1) & mask)] & BUSY == 0)
    charge(m, slot, b, c, d, s)
    if v == 0:
        occupy(m, b, t, d, act)
        m[b + PACE] = min(t, wanted) + step
    elif t + step > m[v + COLUMN]:
        m[v + COLUMN] = t + step
    if t > m[c + LATEST]:
        m[c + LATEST] = t
    if t > m[r + RANK_LATEST]:
        m[r + RANK_LATEST] = t
    if d == 0 and m[MIXED]:
        e = keep(m, q, b, row, t, found, accepted)
        m[e + B_COLUMN] = NEVER if v else column
        m[e + B_PRE], m[e + B_ACT], m[e + B_GROUP], m[e + B_RANK] = pre, may, grouped, paced
    return t


def occupy(m: Ints, b: int, t: int, d: int, act: int) -> None:
    """The open row of bank ``b`` serves a burst at ``t``, the first one if it was opened for it."""
    m[b + COLUMN] = t + m[STEP + d]
    m[b + USES] += 1
    if act != NEVER:
        m[b + BEGUN] = t
    if t + m[TO_PRE + d] > m[b + NEXT_PRE]:
        m[b + NEXT_PRE] = t + m[TO_PRE + d]
    if m[CLOSED]:
        m[b + OPEN_ROW] = -1
        m[b + NEXT_ACT] = max(m[b + NEXT_ACT], m[b + NEXT_PRE] + m[RP])
        m[N_PRE] += 1


def keep(m: Ints, q: int, b: int, row: int, t: int, found: int, accepted: int) -> int:
    """Note a read that was placed, in case a drain of writes comes before it; returns where."""
    n = m[q + PLACED]
    e = (q + QUEUE + 2 * HOLD * m[WINDOW] + ITEM * n) & INDEX
    m[e + IT_BANK], m[e + IT_ROW], m[e + IT_COLUMN] = b, row, t
    m[e + IT_FOUND], m[e + IT_ACCEPTED] = found, accepted
    m[e + IT_OWN], m[e + IT_DUE] = m[m[b + MY_RANK] + RANK_ACT] - m[RRD], m[b + DUE]
    m[q + PLACED] = n + 1 if n + 1 < m[WINDOW] else 0
    return int(e)
