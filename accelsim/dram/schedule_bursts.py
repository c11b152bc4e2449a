"""Scheduler 'bursts' of the bank model: FR-FCFS, event by event. Plain Python that numba can compile.

Time never ticks: a request is accepted when its window has room, and the request that can have its data first is
served next, the oldest on ties; its activation lies as early as the rules allow, behind the data of others. A scheduler
that serves requests in another order is a module with a ``pick`` of its own.
"""

from __future__ import annotations

from accelsim.dram.records import FRONT, LATER, NEVER, PRE, RD, Bank, Memory, Queue
from accelsim.dram.row_policy import closes, gives_way
from accelsim.dram.rows import (
    BUSES,
    access,
    act_time,
    bus_act,
    close,
    expire,
    free,
    note,
    open_row,
    refresh,
    take,
    take_stretch,
)


def push(m: Memory, ends: Bank | Queue, d: int, s: int) -> None:
    """Put slot ``s`` at the end of a list of slots, whose ends are ``ends.head[d]`` and ``ends.tail[d]``."""
    slot, last = m.slot[s], ends.tail[d]
    slot.after, slot.before = -1, last
    if last >= 0:
        m.slot[last].after = s
    else:
        ends.head[d] = s
    ends.tail[d] = s


def drop(m: Memory, ends: Bank | Queue, d: int, s: int) -> None:
    """Take slot ``s`` out of the list of a bank or queue."""
    before, after = m.slot[s].before, m.slot[s].after
    if before >= 0:
        m.slot[before].after = after
    else:
        ends.head[d] = after
    if after >= 0:
        m.slot[after].before = before
    else:
        ends.tail[d] = before


def burst_times(m: Memory, k: int, s: int, d: int, most: int) -> tuple[int, int]:
    """Return (clock of its RD or WR, clock of its ACT or NEVER) of slot ``s`` of bank ``k``, if it is served next.

    Where the first would be later than ``most``, it is at least so.
    """
    b, act, t, x = m.bank[k], NEVER, m.bank[k].earliest[RD + d], m.slot[s].since
    if m.slot[s].row != b.open_row:
        act = act_time(m, k, x)
        t = act + m.rules[0].rcd[d]
    elif x > t:  # plain Python takes longer for max()
        t = x
    if t > most:
        return t, act
    for x in (m.rank[b.rank].earliest[RD + d], m.group[b.group].earliest[RD + d]):
        if x > t:
            t = x
    if BUSES and act > NEVER and t <= most:
        act = bus_act(m, k, s, act)
        t = max(t, act + m.rules[0].rcd[d], act + 1)
    return t, act


def pick(m: Memory, c: int, d: int) -> tuple[int, int, int, int]:
    """Return (bank, slot, clock of its RD or WR, clock of its ACT or NEVER) of the request to serve next.

    It is one of those of controller ``c`` and direction ``d`` that wait; there is at least one.
    """
    first = (2 * c + d) * m.rules[0].reach
    best, best_slot, best_time, best_act, best_age = -1, -1, LATER, NEVER, LATER
    for place in range(first, first + m.queue[2 * c + d].active):
        k = m.active[place]
        b = m.bank[k]
        s = b.hit[d]
        if s < 0 or (m.slot[b.head[d]].row != b.open_row and gives_way(m, k)):
            s = b.head[d]
        t, act = burst_times(m, k, s, d, best_time)
        age = m.slot[s].request
        if t < best_time or (t == best_time and age < best_age):
            best, best_slot, best_time, best_act, best_age = k, s, t, act, age
    return best, best_slot, best_time, best_act


def new_slot(m: Memory, c: int, d: int) -> int:
    """Return a slot for the next request, of direction ``d``, of controller ``c``."""
    whole, todo, queue, i = m.whole[0], m.requests, m.queue[2 * c + d], m.whole[0].coming
    s = m.free[(2 * c + d) * m.rules[0].places + queue.used]
    slot = m.slot[s]
    slot.row, slot.since, slot.request, slot.met = todo.row[i], whole.now + FRONT, i, 0
    todo.slot_of[i] = s
    queue.used += 1
    queue.waiting += 1
    whole.injected += 1
    whole.coming += 1
    whole.in_flight += 1
    if len(todo.arrived) > 0:
        todo.arrived[i] = whole.now
    return s


def free_slot(m: Memory, c: int, d: int, s: int) -> None:
    """Give the slot of a request that was served back."""
    queue = m.queue[2 * c + d]
    queue.used -= 1
    m.free[(2 * c + d) * m.rules[0].places + queue.used] = s
    m.whole[0].in_flight -= 1


def admit(m: Memory, c: int, d: int) -> None:
    """Put the next request into the queue of direction ``d`` of controller ``c``."""
    mine, k, now = 2 * c + d, m.requests.bank[m.whole[0].coming], m.whole[0].now
    b, queue, s = m.bank[k], m.queue[mine], new_slot(m, c, d)
    if b.tail[d] < 0:
        b.place[d] = mine * m.rules[0].reach + queue.active
        m.active[b.place[d]] = k
        queue.active += 1
        if b.head[1 - d] < 0:
            expire(m, k, now)
    push(m, b, d, s)
    if b.hit[d] < 0 and b.open_row == m.slot[s].row:
        b.hit[d] = s


def remove(m: Memory, c: int, k: int, d: int, s: int) -> None:
    """Take the served slot ``s`` of bank ``k`` out of the queue of direction ``d`` of controller ``c``."""
    b, mine = m.bank[k], 2 * c + d
    queue = m.queue[mine]
    if b.hit[d] == s:  # requests of one row are served in order
        request = m.requests.follow[m.slot[s].request]
        b.hit[d] = m.requests.slot_of[request] if request < m.whole[0].coming else -1
    drop(m, b, d, s)
    if b.head[d] < 0:
        queue.active -= 1
        moved = m.active[mine * m.rules[0].reach + queue.active]
        m.active[b.place[d]] = moved
        m.bank[moved].place[d] = b.place[d]
    queue.waiting -= 1
    free_slot(m, c, d, s)


def done(m: Memory, k: int, s: int, d: int, t: int) -> None:
    """Account the RD or WR at ``t`` for slot ``s`` of bank ``k``."""
    access(m, k, d, t, 1)
    note(m, t, RD + d, k, m.bank[k].open_row)
    if len(m.requests.done) > 0:
        m.requests.done[m.slot[s].request] = t + m.rules[0].data[d]


def count(m: Memory, hit: bool, conflict: bool) -> None:
    """Count a burst by what it found: its row open, another row, or a closed bank."""
    whole = m.whole[0]
    if hit:
        whole.hits += 1
    elif conflict:
        whole.conflicts += 1
    else:
        whole.misses += 1


def waiting(m: Memory, c: int, d: int) -> int:
    """Return the requests of a queue that hold a place of its window."""
    return m.queue[2 * c + d].waiting - m.queue[2 * c + d].started


def direction(m: Memory, c: int) -> int:
    """Return whether reads (0) or writes (1) are served now: writes from the high watermark down to the low one."""
    p, queue, reads, writes = m.rules[0], m.queue[2 * c], waiting(m, c, 0), waiting(m, c, 1)
    if queue.draining:
        if writes == 0 or (writes <= p.low and reads > 0):
            queue.draining = 0
    elif writes > 0 and (writes >= p.high or reads == 0):
        queue.draining = 1
    return queue.draining


def forward(m: Memory, c: int, k: int, d: int, t: int) -> None:
    """Serve at once what is left of a stretch in one open row, while nothing else can come in between.

    After a hit at ``t`` with a full window of hits of the same stretch, the next ones are served every ``step`` clocks
    and each makes room for one more: the same state, later. So ``n`` of them cost as much as a few.
    """
    p, whole, todo, b = m.rules[0], m.whole[0], m.requests, m.bank[k]
    i, s, step, count = whole.coming, b.head[d], p.step[d], m.queue[2 * c + d].waiting
    oldest = m.slot[s].request
    late = whole.now != t + p.handover or whole.injected > 0
    if late or todo.first[i] > oldest or m.slot[s].since > t + step:
        return
    n = todo.past[i] - i - 1  # the last one lets another stretch in, perhaps of another queue
    if p.every > 0:
        n = min(n, (m.rank[b.rank].next_ref - 1 - t) // step)
    if n <= count:
        return
    last = t + n * step
    if BUSES:
        bus = m.bus[b.bus + p.columns]
        if bus.latest > t:  # of another channel, or what was not served yet
            return
        take_stretch(bus, last, step, n)
    if len(todo.done) > 0:
        for j in range(n):
            todo.arrived[i + j] = t + j * step + p.handover
            todo.done[oldest + j] = t + (j + 1) * step + p.data[d]
    request = oldest + n
    while s >= 0:
        slot = m.slot[s]
        slot.request = request
        slot.since = t + (request - i) * step + p.handover + FRONT
        todo.slot_of[request] = s
        request += 1
        s = slot.after
    access(m, k, d, last, n)
    whole.hits += n
    whole.coming += n
    whole.now = last + p.handover


def alone(m: Memory, c: int, k: int, d: int) -> bool:
    """Return whether all requests of a queue are for the open row of bank ``k``, and so is the one that comes."""
    queue, i = m.queue[2 * c + d], m.whole[0].coming
    if queue.active != 1 or queue.waiting < 2 or m.bank[k].head[d] < 0:
        return False
    return m.requests.bank[i] == k and m.bank[k].open_row == m.requests.row[i]


def pause(m: Memory) -> int:
    """Return 1 where the log has no room for what may come at once, 2 where a request that is marked comes, else 0."""
    log, p, whole = len(m.requests.log), m.rules[0], m.whole[0]
    if log > 0 and 4 * whole.logged > log - 4 * p.controllers * (3 * p.reach + 8):
        return 1
    return 2 if whole.coming >= whole.stop else 0


def next_request(m: Memory) -> tuple[int, int]:
    """Return (controller, direction) of the request that comes next.

    Where none can come, the direction is -1, and the controller one that has something to serve, -1 for none.
    """
    p, whole = m.rules[0], m.whole[0]
    i = whole.coming
    if i < len(m.requests.bank) and (p.outstanding == 0 or whole.in_flight < p.outstanding):
        return m.requests.controller[i], m.requests.write[i]
    for c in range(p.controllers):
        if m.queue[2 * c].waiting + m.queue[2 * c + 1].waiting > 0:
            return c, -1
    return -1, -1


def may_serve(m: Memory, c: int) -> bool:
    """Return whether controller ``c`` may have something to serve before now."""
    reads = m.queue[2 * c]
    return reads.clock < m.whole[0].now and reads.waiting + m.queue[2 * c + 1].waiting > 0


def next_clock(m: Memory) -> None:
    """Go on to the next clock of the injection where this one has as many requests as it can."""
    whole = m.whole[0]
    if whole.injected == m.rules[0].injection:
        whole.now += 1
        whole.injected = 0


def hold_until(m: Memory, ready: int) -> None:
    """Let the next request come at ``ready`` at the earliest."""
    whole = m.whole[0]
    if ready > whole.now:
        whole.now, whole.injected = ready, 0


def run(m: Memory) -> int:
    """Serve all requests; 0 when that is done, else why it pauses."""
    p, whole = m.rules[0], m.whole[0]
    quick = len(m.requests.log) == 0 and p.outstanding == 0
    while pause(m) == 0:
        c, coming = next_request(m)
        if c < 0:
            return 0
        room = coming >= 0 and m.queue[2 * c + coming].waiting < p.window
        if room:
            next_clock(m)
        reads, t, d = m.queue[2 * c], LATER, 0
        was = reads.draining
        if not room or (p.controllers > 1 and may_serve(m, c)):
            d = direction(m, c)
            k, s, t, act = pick(m, c, d)
        if room and t >= whole.now:  # what the queue does before this request comes has been done
            reads.draining = was
            admit(m, c, coming)
            i = whole.coming - 1
            x = whole.now + FRONT + (p.rcd[coming] if m.bank[m.requests.bank[i]].hit[coming] < 0 else 0)
            reads.clock = min(x, t if t < LATER else reads.clock)
            continue
        b = m.bank[k]
        if BUSES:
            t = free(m.bus[b.bus + p.columns], t, 1)
        if (act if p.waits and act > NEVER else t) >= m.rank[b.rank].next_ref:
            refresh(m, b.rank)
            continue
        count(m, act == NEVER, b.open_row >= 0)
        if act > NEVER:
            open_row(m, k, s, act)
        if BUSES:
            take(m.bus[b.bus + p.columns], t, 1)
        remove(m, c, k, d, s)
        done(m, k, s, d, t)
        reads.clock = t
        if closes(m, k):
            close(m, k, b.earliest[PRE])
        if not room and (p.outstanding > 0 or d == coming):
            hold_until(m, t + (p.data[d] if p.outstanding > 0 else p.handover))
        if quick and not room and d == coming and alone(m, c, k, d):
            forward(m, c, k, d, t)
    return pause(m)
