"""Times of commands whose engines share the ports of caches, without events. Plain Python that numba can compile.

Queues are in order, and a port accepts one request per clock of the chip. So once everything
is timed that waits for nothing unknown, the request is next that a port can accept first: whoever asks later asks at a
later edge, since a token takes time to pass on (``token_delay``). Requests that meet go by rank. Lines are looked up as
a request is accepted. ``turns`` lays out what all this reads; times are fs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

NEVER = 1 << 62
DONE, STUCK, TOO_LONG = range(3)
"""What ``run`` returns."""

ENDS, FREE, STREAMS, ASKS = range(4)
"""Kinds of engines: one command at a time in clocks, or at any time; an array; one that asks ports."""
KIND, NUM, DEN, PLACE, UPTO, NOTED, LAST, LOADS, ROWS_FROM, EDGE, WHY, BUSY, UNTIL = range(13)
"""Entries of an engine: kind, clock period (NUM / DEN), its next command and the end of its queue in ``order``, row of
``noted``; last edge (or time) of its command, edges from which an array loads and streams; edge at which it asks its
port and what it waited for before; time that it was busy, and until when."""
ENGINE = 13
COLUMNS = 7

FRONT, FRONT_PIPELINED, FRONT_FREE, LATENCY, PIPELINED, BEHIND_FREE, ACCEPTS = range(7)
CACHE, SETS, WAYS, LINE_B, STAYS, SLOTS, LINES_FS, SEEN, TABLE = range(7, 16)
"""Entries of a port: latency and last data of the cache, of the memory, edge from which on it accepts; whether there is
a cache, its sets and ways, bytes of a line, whether stores stay, where what is its own begins in the tables."""
SERVED, HITS, MISSES, FETCHED, BACK, THROUGH_B, CHANGED_B = range(16, 23)
"""What a cache counts: transfers, lines that hit, missed, were fetched, were written back; see ``CacheStats``."""
NEWEST = 23
"""The transfer that it accepted last, + 1."""
PORT = 24

LOAD, RELOAD, STEP, INTERVAL, WIDTH, FOLDS, MORE, FILLED = range(8)
"""What is made of the work of an array: see ``engines.systolic.timer.Made``."""
HELD, LEAVING, BEHIND, HELD_BY, SUMS = range(8, 13)
"""The same, for ``path_kernel``, with the buffers whose ports are in the way."""
AT, WRITE, NBYTES, FRONT_FS, PASS_FS, PASS_LINK, RANK = range(7)
"""What is made of a transfer: its port, direction, bytes, times in the cache and in the memory alone, rank."""
MADE = 13

W, A, ACC, BUSY_PORT, NOTHING = range(5)
"""What a command may wait for; others follow."""
COUNT, SINCE = range(2)
"""What is told of what passed a cache: how much, and at which of its transfers for the first time."""


class Rows(NamedTuple):
    """What stays: lists, or arrays where numba runs the loop.

    By number: the written command ``like`` it, and which lines it touches (``touch``). ``order``: numbers engine by
    engine. By written command: ``made_of`` it what, ``tensor``, ``row`` of its step in tables of all tensors; from
    ``token_at`` on the numbers that it ``awaited`` (below 0: so many before its own), at which ``phase`` and ``why``.
    ``lines``, with ``nbytes`` of each, of a touch from ``touch_at`` on. ``lines_fs``: for a number of lines, load and
    store, the time in the memory and whether the link sets it.
    """

    like: Any
    touch: Any
    order: Any
    made_of: Any
    made: Any
    tensor: Any
    row: Any
    token_at: Any
    awaited: Any
    phase: Any
    why: Any
    touch_at: Any
    lines: Any
    nbytes: Any
    lines_fs: Any


class State(NamedTuple):
    """What changes: records of engines and ports; times of commands, when they have read ``w`` and ``a``, what their
    port accepted ``before``, which are ``done``.

    ``alone``: by which port, from 1 on, whose memory had nothing to do for a transfer, or was done before the cache.
    ``linked``: by written command, whether a link held it up. Figures ``noted``; time ``lost`` by engine and reason,
    and since when. Of caches, by way: line, who stored it (-1 where the memory has it too) and when it was ``used``. By
    step and tensor what was ``fetched``, ``passed`` through, written ``back``; by tensor when it was ``seen``.
    """

    engine: Any
    port: Any
    start: Any
    data: Any
    end: Any
    w: Any
    a: Any
    before: Any
    done: Any
    alone: Any
    linked: Any
    noted: Any
    lost: Any
    since: Any
    line: Any
    owner: Any
    used: Any
    fetched: Any
    passed: Any
    back: Any
    seen: Any


def at(s: State, e: int, edge: int) -> int:
    """Time of an edge of an engine's clock."""
    num, den = s.engine[e + NUM], s.engine[e + DEN]
    whole = edge // den
    return int(whole * num + (edge - whole * den) * num // den)


def edge_at(s: State, e: int, t: int) -> int:
    """First edge of an engine's clock at or after a time."""
    num, den = s.engine[e + NUM], s.engine[e + DEN]
    whole = t // num
    return int(whole * den - (whole * num - t) * den // num)


def known(p: Rows, s: State, number: int) -> bool:
    """Return whether the times of all that a command waits for are known."""
    like = p.like[number]
    for token in range(p.token_at[like], p.token_at[like + 1]):
        other = p.awaited[token]
        if not s.done[other + number if other < 0 else other]:
            return False
    return True


def latest(p: Rows, s: State, number: int, why: int, delay: int) -> tuple[int, int]:
    """When the last token of a kind (-1: of all) was there, 0 without one, and which kind it is of."""
    found, missing, like = 0, NOTHING, p.like[number]
    for token in range(p.token_at[like], p.token_at[like + 1]):
        if why >= 0 and p.why[token] != why:
            continue
        other = p.awaited[token]
        if other < 0:
            other += number
        phase = p.phase[token]
        released = (s.w[other] if phase == 1 else s.a[other] if phase == 2 else s.end[other]) + delay
        if released > found:
            found, missing = released, p.why[token]
    return found, missing


def waited(s: State, e: int, start: int, end: int, why: int) -> None:
    """An engine waited; where it was busy all the while, that does not count."""
    lost = end - max(start, s.engine[e + UNTIL])
    if lost > 0:
        reasons = len(s.lost) // (len(s.engine) // ENGINE)
        entry = e // ENGINE * reasons + why
        if s.lost[entry] == 0:
            s.since[entry] = start + 1
        s.lost[entry] += lost


def worked(s: State, e: int, start: int, end: int) -> None:
    """An engine was busy; what overlaps counts once."""
    until = s.engine[e + UNTIL]
    if end > until:
        s.engine[e + BUSY] += end - max(start, until)
        s.engine[e + UNTIL] = end


def in_clocks(p: Rows, s: State, e: int, number: int, delay: int) -> None:
    """A command of an engine that does one at a time, for a number of its clocks."""
    available, why = latest(p, s, number, -1, delay)
    last = s.engine[e + LAST]
    first = max(last + 1, edge_at(s, e, available))
    begin = at(s, e, first - 1)
    waited(s, e, at(s, e, last), begin, why)
    s.engine[e + LAST] = first + p.made[MADE * p.made_of[p.like[number]]] - 1
    s.start[number] = begin
    s.data[number] = begin
    s.end[number] = at(s, e, s.engine[e + LAST])
    worked(s, e, begin, s.end[number])


def at_once(p: Rows, s: State, e: int, number: int, delay: int) -> None:
    """A command of an engine that begins at any time."""
    available, why = latest(p, s, number, -1, delay)
    start = max(s.engine[e + LAST], available)
    waited(s, e, s.engine[e + LAST], start, why)
    s.engine[e + LAST] = start + p.made[MADE * p.made_of[p.like[number]]]
    s.start[number] = start
    s.data[number] = start
    s.end[number] = s.engine[e + LAST]
    worked(s, e, start, s.end[number])


def stream(p: Rows, s: State, e: int, number: int, delay: int) -> None:
    """A command of an array, see ``engines.systolic.timer``."""
    m, row = MADE * p.made_of[p.like[number]], COLUMNS * s.engine[e + NOTED]
    free, loads = s.engine[e + LAST], s.engine[e + LOADS]
    w = edge_at(s, e, latest(p, s, number, W, delay)[0])
    a = edge_at(s, e, latest(p, s, number, A, delay)[0])
    acc = edge_at(s, e, latest(p, s, number, ACC, delay)[0])
    load_first = max(loads, w)
    first = max(max(s.engine[e + ROWS_FROM], load_first + p.made[m + LOAD]), max(w, a), acc)
    last = first + p.made[m + MORE]
    streamed = last + p.made[m + WIDTH] - 1
    read = streamed
    if p.made[m + LOAD] and p.made[m + FOLDS] == 1:
        read = load_first + p.made[m + LOAD] - 1
    elif p.made[m + LOAD]:
        read = last - p.made[m + STEP] + p.made[m + RELOAD] + p.made[m + LOAD] - 1
    s.noted[row] = free
    s.noted[row + 1] = load_first
    s.noted[row + 2] = first
    s.noted[row + 3] = first + p.made[m + FILLED]
    s.noted[row + 4] = w
    s.noted[row + 5] = a
    s.noted[row + 6] = acc
    s.engine[e + NOTED] += 1
    s.start[number] = at(s, e, max(free, load_first) - 1)
    s.data[number] = at(s, e, first - 1)
    s.end[number] = at(s, e, first + p.made[m + FILLED])
    s.w[number] = at(s, e, read)
    s.a[number] = at(s, e, streamed)
    s.engine[e + LAST] = streamed + 1
    s.engine[e + LOADS] = last + p.made[m + RELOAD]
    s.engine[e + ROWS_FROM] = last + p.made[m + INTERVAL]


def note(table: Any, entry: int, count: int, served: int) -> None:
    """Add to what is told of what passed a cache."""
    if table[2 * entry + SINCE] == 0:
        table[2 * entry + SINCE] = served
    table[2 * entry + COUNT] += count


def look_up(p: Rows, s: State, q: int, like: int, touch: int, write: bool) -> tuple[int, int, int, int]:
    """Look up the lines of a transfer, one after the other: how many hit, their bytes, how many are fetched, and
    written back."""
    hits, bytes_hit, fetched, back = 0, 0, 0, 0
    sets, ways, served = s.port[q + SETS], s.port[q + WAYS], s.port[q + SERVED]
    stays = write and s.port[q + STAYS] > 0
    for place in range(p.touch_at[touch], p.touch_at[touch + 1]):
        line = p.lines[place]
        first = s.port[q + SLOTS] + line % sets * ways
        way, oldest = -1, first
        for slot in range(first, first + ways):
            if s.line[slot] == line:
                way = slot
            if s.used[slot] < s.used[oldest]:
                oldest = slot
        stamp = s.port[q + HITS] + s.port[q + MISSES] + 1
        if way >= 0:
            hits += 1
            bytes_hit += p.nbytes[place]
            s.port[q + HITS] += 1
            s.used[way] = stamp
            if stays:
                s.owner[way] = p.tensor[like]
            continue
        s.port[q + MISSES] += 1
        if write and not stays:
            continue
        if not write or p.nbytes[place] < s.port[q + LINE_B]:
            fetched += 1
        if s.owner[oldest] >= 0:
            back += 1
            note(s.back, s.port[q + TABLE] + p.row[like] + s.owner[oldest], 1, served)
        s.line[oldest] = line
        s.used[oldest] = stamp
        s.owner[oldest] = p.tensor[like] if write else -1
    return hits, bytes_hit, fetched, back


def move(s: State, q: int, at_fs: int, fs: int) -> int:
    """The first data of a request of the memory that takes so long, behind those before it."""
    free = s.port[q + BEHIND_FREE]
    if s.port[q + PIPELINED]:
        data = max(at_fs + s.port[q + LATENCY], free)
    else:
        data = max(at_fs, free) + s.port[q + LATENCY]
    s.port[q + BEHIND_FREE] = data + fs
    return int(data)


def serve(p: Rows, s: State, q: int, m: int, number: int, at_fs: int) -> tuple[int, int]:
    """First and last data of a transfer that a port accepts then, see ``machine.cached``."""
    like, write, link = p.like[number], p.made[m + WRITE] > 0, False
    if not s.port[q + CACHE]:
        data = move(s, q, at_fs, p.made[m + PASS_FS])
        s.linked[like] |= p.made[m + PASS_LINK]
        return data, int(s.port[q + BEHIND_FREE])
    s.port[q + SERVED] += 1
    served, looked_up = s.port[q + SERVED], at_fs + s.port[q + FRONT]
    if s.seen[s.port[q + SEEN] + p.tensor[like]] == 0:
        s.seen[s.port[q + SEEN] + p.tensor[like]] = served
    hits, bytes_hit, fetched, back = look_up(p, s, q, like, p.touch[number], write)
    came, came_end = -1, -1
    if fetched:
        entry = s.port[q + LINES_FS] + 4 * fetched
        came, link = move(s, q, looked_up, p.lines_fs[entry]), p.lines_fs[entry + 1] > 0
        note(s.fetched, s.port[q + TABLE] + p.row[like] + p.tensor[like], fetched, served)
        s.port[q + FETCHED] += fetched
    elif write and not s.port[q + STAYS]:
        came, link = move(s, q, looked_up, p.made[m + PASS_FS]), p.made[m + PASS_LINK] > 0
        note(s.passed, s.port[q + TABLE] + p.row[like] + p.tensor[like], bytes_hit, served)
        s.port[q + THROUGH_B] += p.made[m + NBYTES]
        s.port[q + CHANGED_B] += bytes_hit
    if came >= 0:
        came_end = s.port[q + BEHIND_FREE]
    if back:
        move(s, q, looked_up, p.lines_fs[s.port[q + LINES_FS] + 4 * back + 2])
        s.port[q + BACK] += back
    free = s.port[q + FRONT_FREE]
    if s.port[q + FRONT_PIPELINED]:
        data = max(looked_up, free)
    else:
        data = max(at_fs, free) + s.port[q + FRONT]
    if hits == 0 and not write:
        data = max(data, came)
    end = data + p.made[m + FRONT_FS]
    if came_end > end:
        end = came_end
        s.linked[like] |= link
    s.alone[number] = 1 + q // PORT if came < 0 or end > came_end else 0
    s.port[q + FRONT_FREE] = end
    return int(data), int(end)


def accept(p: Rows, s: State, e: int, edge: int) -> None:
    """The port of an engine's request accepts it at an edge."""
    number, asked, issued = p.order[s.engine[e + PLACE]], s.engine[e + EDGE], s.engine[e + LAST]
    m, accepted = MADE * p.made_of[p.like[number]], at(s, e, edge)
    data, end = serve(p, s, p.made[m + AT], m, number, accepted)
    if asked > issued + 1:
        waited(s, e, at(s, e, issued), at(s, e, asked - 1), s.engine[e + WHY])
    waited(s, e, at(s, e, asked - 1), accepted, BUSY_PORT)
    worked(s, e, accepted, end)
    s.engine[e + LAST] = edge
    s.engine[e + EDGE] = 0
    s.start[number] = accepted
    s.data[number] = data
    s.end[number] = end
    s.port[p.made[m + AT] + ACCEPTS] = edge + 1
    s.before[number] = s.port[p.made[m + AT] + NEWEST] - 1
    s.port[p.made[m + AT] + NEWEST] = number + 1


def go_on(p: Rows, s: State, delay: int) -> bool:
    """Time what waits for nothing unknown on engines that ask no port, let the others ask; False beyond ``NEVER``."""
    moved = True
    while moved:
        moved = False
        for e in range(0, len(s.engine), ENGINE):
            kind = s.engine[e + KIND]
            while s.engine[e + PLACE] < s.engine[e + UPTO] and not s.engine[e + EDGE]:
                number = p.order[s.engine[e + PLACE]]
                if not known(p, s, number):
                    break
                if kind == ASKS:
                    available, s.engine[e + WHY] = latest(p, s, number, -1, delay)
                    s.engine[e + EDGE] = max(s.engine[e + LAST] + 1, edge_at(s, e, available))
                    break
                if kind == STREAMS:
                    stream(p, s, e, number, delay)
                elif kind == ENDS:
                    in_clocks(p, s, e, number, delay)
                else:
                    at_once(p, s, e, number, delay)
                if not 0 <= s.end[number] <= NEVER:
                    return False
                s.done[number] = 1
                s.engine[e + PLACE] += 1
                moved = True
    return True


def first_turn(p: Rows, s: State) -> tuple[int, int]:
    """The request that is accepted next, by the record of its engine, and its edge; -1 where there is none."""
    found, found_at, found_port, found_rank = -1, 0, 0, 0
    for e in range(0, len(s.engine), ENGINE):
        if s.engine[e + EDGE]:
            m = MADE * p.made_of[p.like[p.order[s.engine[e + PLACE]]]]
            port, rank = p.made[m + AT], p.made[m + RANK]
            edge = max(s.engine[e + EDGE], s.port[port + ACCEPTS])
            same = edge == found_at and port == found_port and rank < found_rank
            if found < 0 or edge < found_at or same:
                found, found_at, found_port, found_rank = e, edge, port, rank
    return found, found_at


def run(p: Rows, s: State, delay: int) -> int:
    """Time all commands."""
    while True:
        if not go_on(p, s, delay):
            return TOO_LONG
        e, edge = first_turn(p, s)
        if e < 0:
            break
        number = p.order[s.engine[e + PLACE]]
        accept(p, s, e, edge)
        if not 0 <= s.end[number] <= NEVER:
            return TOO_LONG
        s.done[number] = 1
        s.engine[e + PLACE] += 1
    for e in range(0, len(s.engine), ENGINE):
        if s.engine[e + PLACE] < s.engine[e + UPTO]:
            return STUCK
    return DONE


LOOP = (
    at, edge_at, known, latest, waited, worked, in_clocks, at_once, stream, note, look_up, move, serve, accept, go_on,
    first_turn, run,
)  # fmt: skip
"""Every function, callees first."""
