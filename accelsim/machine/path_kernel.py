"""The walk back along the critical path of commands that ``turns_kernel`` timed. Plain Python that numba can compile.

It does what ``EngineType.back`` of the engines does that have a timer, where no port of a buffer can run out: from the
end of a command to what let it start, the cause that came last. ``paths`` lays out what it needs beside the rows and
the state of the loop, and makes pieces of what it leaves.
"""

from __future__ import annotations

from typing import Any, NamedTuple

# isort: off
from accelsim.machine.turns_kernel import (
    A, ACC, AT, BEHIND, CACHE, COLUMNS, ENDS, ENGINE, FOLDS, FREE, HELD, HELD_BY, INTERVAL, KIND, LEAVING, LOAD, MADE,
    MORE, PORT, RELOAD, STEP, STREAMS, SUMS, W, WIDTH, Rows, State, at, edge_at,
)  # fmt: skip
# isort: on

WALKED, FULL, UNEXPLAINED = range(3)
"""What ``walk`` returns: it is at time 0; there is no room for further pieces; no cause explains a start."""
TIME, COMMAND, EVENT, PIECES, HIGH, IDEAL = range(6)
"""Where the walk stands: time, command (-1 at the beginning), which event of it, pieces so far, where the last ends;
whether memories take no time."""
END, READ_W, READ_A, ACCEPTED, STREAMED = range(5)
"""Events of commands."""

TRANSFER, DELAY, REQUESTS, HAND_OVER, HOST, PORT_WIDTH, FILL_DRAIN, STREAM, WEIGHT_SHIFT, VECTOR = range(10)
"""Kinds of pieces, as ``paths.KINDS``."""
NO_WHY, QUEUE, THE_PORT, START = range(-1, 3)
"""What the start of a piece waited for, beside reasons of tokens, which come behind these."""
REASONS = 3

UNIT, NAME = range(2)
"""Resources of an engine: its unit, itself."""
MEMORY, LINK, LINK_FS, PIPELINES = range(4)
"""Of a port, for its memory and for its cache: resources, latency of the link, whether requests overlap."""


class Path(NamedTuple):
    """``place`` of each number in the order of queues; ``engine`` of each written command, as the place of its record;
    ``first`` place of each engine and its first row of ``noted``; resources of engines and of ports.

    Pieces, latest first: when they ``begin``, which ``command``, ``what`` (kind, resource, why), ``edges`` of streams.
    ``stands``: the walk itself.
    """

    place: Any
    engine: Any
    first: Any
    engine_resource: Any
    port_resource: Any
    begin: Any
    command: Any
    what: Any
    edges: Any
    stands: Any


def emit(v: Path, start: int, number: int, kind: int, resource: int) -> bool:
    """The time from ``start`` to where the walk stands goes to this; whether that is any."""
    t, count = v.stands[TIME], v.stands[PIECES]
    start = max(0, min(start, t))
    v.stands[TIME] = start
    if start == t:
        return False
    if count == 0:
        v.stands[HIGH] = t
    v.begin[count] = start
    v.command[count] = number
    v.what[3 * count] = kind
    v.what[3 * count + 1] = resource
    v.what[3 * count + 2] = NO_WHY
    for at_edges in range(3 * count, 3 * count + 3):
        v.edges[at_edges] = 0
    v.stands[PIECES] = count + 1
    return True


def linked(v: Path, why: int) -> None:
    """Say of the latest piece why it could not begin earlier."""
    if v.stands[PIECES]:
        v.what[3 * v.stands[PIECES] - 1] = why


def to(v: Path, number: int, event: int) -> None:
    """Go on at an event of a command."""
    v.stands[COMMAND] = number
    v.stands[EVENT] = event


def before(p: Rows, v: Path, number: int) -> int:
    """The command before on the same engine, -1 for none."""
    place = v.place[number]
    return -1 if place == v.first[2 * v.engine[p.like[number]]] else int(p.order[place - 1])


def cause(p: Rows, s: State, number: int, why: int, delay: int) -> tuple[int, int]:
    """The token (of a kind) that was released last, -1 for none, and when it could be acquired."""
    found, latest, like = -1, 0, p.like[number]
    for token in range(p.token_at[like], p.token_at[like + 1]):
        if why < 0 or p.why[token] == why:
            other = p.awaited[token]
            other = other + number if other < 0 else other
            phase = p.phase[token]
            released = (s.w[other] if phase == 1 else s.a[other] if phase == 2 else s.end[other]) + delay
            if released > latest:
                found, latest = token, released
    return found, latest


def follow(p: Rows, s: State, v: Path, number: int, token: int, acquired: int, delay: int) -> None:
    """On to what a command waited for. What a clock edge ends may begin before its cause: that is cut off."""
    released = acquired - delay
    while v.stands[PIECES]:
        count = v.stands[PIECES]
        end = v.begin[count - 2] if count > 1 else v.stands[HIGH]
        if end > released:
            break
        v.stands[PIECES] = count - 1
    if v.stands[PIECES]:
        last = v.stands[PIECES] - 1
        v.begin[last] = max(v.begin[last], released)
    v.stands[TIME] = max(v.stands[TIME], released)
    linked(v, REASONS + p.why[token])
    emit(v, released, number, HAND_OVER, v.engine_resource[2 * v.engine[p.like[number]] + NAME])
    other = p.awaited[token]
    to(v, other + number if other < 0 else other, p.phase[token])


def to_queue(v: Path, number: int, event: int) -> None:
    """On to the command before on the engine, or to the start of the run."""
    linked(v, QUEUE if number >= 0 else START)
    to(v, number, event)


def back_at_once(p: Rows, s: State, v: Path, number: int, delay: int) -> bool:
    """Of an engine that begins at any time."""
    past = before(p, v, number)
    free = s.end[past] if past >= 0 else 0
    token, available = cause(p, s, number, -1, delay)
    emit(v, s.start[number], number, HOST, v.engine_resource[2 * v.engine[p.like[number]] + UNIT])
    if token < 0 or available <= free:
        to_queue(v, past, END)
        return bool(s.start[number] == free)
    linked(v, REASONS + p.why[token])
    emit(v, available - delay, number, HAND_OVER, v.engine_resource[2 * v.engine[p.like[number]] + NAME])
    other = p.awaited[token]
    to(v, other + number if other < 0 else other, p.phase[token])
    return bool(s.start[number] == available)


def back_in_clocks(p: Rows, s: State, v: Path, number: int, delay: int) -> bool:
    """Of an engine that does one command at a time, for a number of its clocks."""
    e = ENGINE * v.engine[p.like[number]]
    past = before(p, v, number)
    free = edge_at(s, e, s.end[past]) + 1 if past >= 0 else 1
    token, available = cause(p, s, number, -1, delay)
    first = max(free, edge_at(s, e, available))
    begin = at(s, e, first - 1)
    emit(v, begin, number, VECTOR, v.engine_resource[2 * v.engine[p.like[number]] + UNIT])
    if token >= 0 and first > free:
        follow(p, s, v, number, token, available, delay)
    else:
        to_queue(v, past, END)
    return bool(s.start[number] == begin)


def served_by(p: Rows, s: State, v: Path, number: int, q: int) -> int:
    """Where the resources of the memory begin whose data a transfer waited for, or of the cache before it."""
    return int(8 * (q // PORT) + (4 if s.port[q + CACHE] and s.alone[number] else 0))


def back_transfer(p: Rows, s: State, v: Path, number: int, event: int, delay: int) -> bool:
    """Of an engine that asks ports."""
    like = p.like[number]
    q, e = p.made[MADE * p.made_of[like] + AT], ENGINE * v.engine[like]
    m = served_by(p, s, v, number, q)
    start, data, past = s.start[number], s.data[number], s.before[number]
    if event == END:
        front = 8 * (q // PORT) + (4 if s.port[q + CACHE] else 0)
        free = s.end[past] if past >= 0 else -1
        late = free != data and (v.port_resource[front + PIPELINES] > 0 or start >= free)
        if late or v.stands[IDEAL]:
            past = -1
        begin = free if past >= 0 else start
        link = v.port_resource[m + LINK]
        memory = v.port_resource[m + MEMORY]
        emit(v, max(begin, data), number, TRANSFER, link if s.linked[like] else memory)
        emit(v, begin + v.port_resource[m + LINK_FS], number, DELAY, memory)
        emit(v, begin, number, DELAY, link)
        if past >= 0:
            linked(v, THE_PORT)
            to(v, past, END)
            return True
        linked(v, NO_WHY)
    past = before(p, v, number)
    issued = edge_at(s, e, s.start[past]) if past >= 0 else 0
    token, available = cause(p, s, number, -1, delay)
    ready = edge_at(s, e, available)
    asked = max(issued + 1, ready)
    emit(v, at(s, e, asked), number, REQUESTS, v.port_resource[m + MEMORY])
    if token >= 0 and ready > issued + 1:
        follow(p, s, v, number, token, available, delay)
    elif past < 0:
        to(v, -1, END)
    else:
        emit(v, s.start[past], number, REQUESTS, v.engine_resource[2 * v.engine[like] + NAME])
        linked(v, QUEUE)
        to(v, past, ACCEPTED)
    return bool(at(s, e, asked) <= start)


def stream_back(p: Rows, s: State, v: Path, number: int, e: int, row: int, until: int) -> None:
    """The edges from the first row of an array's command to ``until``, see ``engines.systolic.records``."""
    m = MADE * p.made_of[p.like[number]]
    first, several = s.noted[row + 2], p.made[m + FOLDS] > 1
    edges, step, rows = max(0, until - first + 1), p.made[m + STEP], p.made[m + WIDTH]
    folds, rest = (edges // step, edges % step) if several else (0, edges)
    held = folds * p.made[m + HELD] + min(rest, rows) * p.made[m + HELD] // max(1, rows)
    sums = folds * p.made[m + LEAVING] if several else 0
    if several:
        sums += max(0, rest - step + p.made[m + LEAVING])
    emit(v, at(s, e, until - sums), number, PORT_WIDTH, p.made[m + SUMS])
    emit(v, at(s, e, until - sums - held), number, PORT_WIDTH, p.made[m + HELD_BY])
    shifted, idle, streamed = 0, 0, edges
    if several:
        gap = step - rows
        shift = min(gap, max(0, min(p.made[m + LOAD], p.made[m + RELOAD] + p.made[m + LOAD] - rows)))
        filling = max(0, rest - rows)
        streamed = folds * rows + min(rest, rows)
        idle = folds * (gap - shift) + min(filling, gap - shift)
        shifted = folds * shift + max(0, filling - (gap - shift))
    unit = v.engine_resource[2 * v.engine[p.like[number]] + UNIT]
    if emit(v, at(s, e, first - 1), number, STREAM, unit):
        count = v.stands[PIECES] - 1
        v.edges[3 * count] = streamed - held
        v.edges[3 * count + 1] = shifted
        v.edges[3 * count + 2] = idle - sums


def back_array(p: Rows, s: State, v: Path, number: int, event: int, delay: int) -> bool:
    """Of an array, see ``engines.systolic.path``."""
    like = p.like[number]
    mine, m = v.engine[like], MADE * p.made_of[like]
    e, unit = ENGINE * mine, v.engine_resource[2 * mine + UNIT]
    row = COLUMNS * (v.place[number] - v.first[2 * mine] + v.first[2 * mine + 1])
    load_first, first, load = s.noted[row + 1], s.noted[row + 2], p.made[m + LOAD]
    past, interval, earliest = before(p, v, number), 1, 1
    streamed_before = 0
    if past >= 0:
        n = MADE * p.made_of[p.like[past]]
        last = s.noted[row - COLUMNS + 2] + p.made[n + MORE]
        interval, earliest = last + p.made[n + INTERVAL], last + p.made[n + RELOAD]
        streamed_before = last + p.made[n + WIDTH] - 1
    loading = event == READ_W and load > 0 and p.made[m + FOLDS] == 1  # released before its first row
    if loading:
        emit(v, at(s, e, load_first - 1), number, WEIGHT_SHIFT, unit)
    else:
        last = first + p.made[m + MORE] + p.made[m + WIDTH] - 1
        behind = p.made[m + BEHIND] if event == END else p.made[m + LEAVING]
        emit(
            v,
            at(s, e, max(last, edge_at(s, e, v.stands[TIME]) - behind)),
            number,
            PORT_WIDTH,
            p.made[m + SUMS],
        )
        emit(v, at(s, e, last), number, FILL_DRAIN, unit)
        stream_back(p, s, v, number, e, row, min(edge_at(s, e, v.stands[TIME]), last))
        shifted = load_first + load if load else 0
        w, a, acc = s.noted[row + 4], s.noted[row + 5], s.noted[row + 6]
        if first != max(max(interval, shifted), max(w, a), acc):
            return False
        if first == interval:
            to_queue(v, past, STREAMED)
            return True
        if first != shifted:
            why = W if w == first else A if a == first else ACC
            token, acquired = cause(p, s, number, why, delay)
            follow(p, s, v, number, token, acquired, delay)
            return bool(token >= 0)
        if past >= 0 and load_first == earliest:
            start = max(at(s, e, load_first - 1), at(s, e, streamed_before))
            emit(v, start, number, WEIGHT_SHIFT, unit)
            linked(v, QUEUE)
            to(v, past, STREAMED)
            return True
        emit(v, at(s, e, load_first - 1), number, WEIGHT_SHIFT, unit)
    if load_first != max(earliest, s.noted[row + 4]):
        return False
    if load_first == earliest:
        to_queue(v, past, STREAMED)
        return True
    token, acquired = cause(p, s, number, W, delay)
    follow(p, s, v, number, token, acquired, delay)
    return bool(token >= 0)


def walk(p: Rows, s: State, v: Path, delay: int) -> int:
    """Walk on until the beginning of the run, or as long as there is room."""
    room = len(v.begin) - 8
    while v.stands[COMMAND] >= 0:
        if v.stands[PIECES] > room:
            return FULL
        number, event = v.stands[COMMAND], v.stands[EVENT]
        kind = s.engine[ENGINE * v.engine[p.like[number]] + KIND]
        if kind == STREAMS:
            explained = back_array(p, s, v, number, event, delay)
        elif kind == ENDS:
            explained = back_in_clocks(p, s, v, number, delay)
        elif kind == FREE:
            explained = back_at_once(p, s, v, number, delay)
        else:
            explained = back_transfer(p, s, v, number, event, delay)
        if not explained:
            v.stands[COMMAND] = number
            return UNEXPLAINED
        if v.stands[COMMAND] < 0:
            emit(v, 0, number, HAND_OVER, v.engine_resource[2 * v.engine[p.like[number]] + NAME])
    return WALKED


LOOP = (
    emit, linked, to, before, cause, follow, to_queue, back_at_once, back_in_clocks, served_by, back_transfer,
    stream_back, back_array, walk,
)  # fmt: skip
"""Every function, callees first."""
