"""The event loop over messages on wires, in plain Python that numba can compile.

An event is a message whose head asks for the next wire of its route. Events are taken by (time, message number); a wire
is given to messages in this order, each from the moment when it is free. An event that comes of another one of the same
instant (over a wire without latency) takes its place among those that are not taken yet.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

NEVER = 1 << 62


Column = list[int]
"""Whole numbers, one for each message, wire, route or entry of a table: a list, or an array where numba compiles."""


def run(
    route_start: Column, wires: Column, kind_of: Column, size_of: Column, sizes: int, busy: Column, through: Column,
    onward: Column, latency: Column, route_of: Column, waits: Column, after_start: Column, after: Column,
    ready: Column, overhead: int, free: Column, start: Column, end: Column,
) -> int:  # fmt: skip
    """Fill ``free``, ``start`` and ``end``. Return the number of messages that arrived, or -1 where time ran over
    ``NEVER``.

    ``wires[route_start[r]:route_start[r + 1]]``: those of route r. ``kind_of``: of each wire; ``size_of``: of each
    message; the tables ``busy``, ``through`` and ``onward`` hold at ``kind * sizes + size`` how long a message occupies
    a wire, when its end is at the other end, and when its head asks for the next wire, fs from its start. ``ready``
    becomes the time from which a message may leave, ``waits`` how many others it still waits for.
    """
    heap = [(0, 0)]
    heap.pop()
    for message in range(len(waits)):
        if waits[message] == 0:
            heap.append((ready[message] + overhead, message))
    heapify(heap)
    at = [0] * len(waits)
    arrived = 0
    while heap:
        time, message = heappop(heap)
        if time > NEVER:
            return -1
        route = route_of[message]
        first, last = route_start[route], route_start[route + 1]
        hop = first + at[message]
        if hop < last:
            wire = wires[hop]
            kind = kind_of[wire]
            entry = kind * sizes + size_of[message]
            begin = free[wire] if free[wire] > time else time
            free[wire] = begin + busy[entry]
            tail = begin + through[entry]
            if hop == first:
                start[message] = begin
            elif end[message] + latency[kind] > tail:
                tail = end[message] + latency[kind]
            end[message] = tail
            at[message] += 1
            if hop + 1 < last:
                heappush(heap, (begin + onward[entry], message))
                continue
        else:  # from a device to itself
            start[message] = end[message] = time - overhead
        arrived += 1
        done = end[message]
        for place in range(after_start[message], after_start[message + 1]):
            other = after[place]
            if done > ready[other]:
                ready[other] = done
            waits[other] -= 1
            if waits[other] == 0:
                heappush(heap, (ready[other] + overhead, other))
    return arrived
