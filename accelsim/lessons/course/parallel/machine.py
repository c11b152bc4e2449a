"""Devices that run lists of operations: a pipeline of stages, and ranks that send to and receive from each other."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import numpy as np
import simpy

from accelsim.types import Floats

Op = tuple[str, int]
"""('F', i) or ('B', i): forward or backward of micro-batch i."""
Move = tuple[Any, ...]
"""('send', rank, chunk) or ('recv', rank, chunk, 'add' or 'copy')."""
FORWARD, BACKWARD = 1, 2
"""Slots that a stage takes for a micro-batch, forward and backward."""


class Slot(NamedTuple):
    """Operations of a stage, in slots of time."""

    stage: int
    kind: str
    microbatch: int
    start: int
    end: int


def pipeline(orders: Sequence[Sequence[Op]]) -> list[Slot]:
    """Every stage works off its list in order; an operation begins when its inputs are there. Shorter than the lists
    where stages wait for each other for ever."""
    env, done, slots = simpy.Environment(), dict[tuple[str, int, int], simpy.Event](), list[Slot]()

    def event(kind: str, stage: int, number: int) -> simpy.Event:
        return done.setdefault((kind, stage, number), env.event())

    def inputs(kind: str, stage: int, number: int) -> list[simpy.Event]:
        if kind == "F":
            return [event("F", stage - 1, number)] if stage else []
        before = [event("F", stage, number)]
        return before + ([event("B", stage + 1, number)] if stage + 1 < len(orders) else [])

    def work(stage: int) -> Generator[simpy.Event, object, None]:
        for kind, number in orders[stage]:
            yield env.all_of(inputs(kind, stage, number))
            start = int(env.now)
            yield env.timeout(FORWARD if kind == "F" else BACKWARD)
            slots.append(Slot(stage, kind, number, start, int(env.now)))
            event(kind, stage, number).succeed()

    for stage in range(len(orders)):
        env.process(work(stage))
    env.run()
    return slots


def peak(order: Sequence[Op]) -> int:
    """The most micro-batches whose activations a stage keeps: from the begin of F to the end of B."""
    kept = np.cumsum([1 if kind == "F" else -1 for kind, _ in order])
    return int(kept.max(initial=0))


class Reduced(NamedTuple):
    """State of the ranks after their moves; bytes over each link (from, to); what each that did not end
    waits for."""

    values: Floats
    link_B: dict[tuple[int, int], int]
    stuck: dict[int, Move]


def ranks(moves: Sequence[Sequence[Move]], values: Floats, chunk_B: int) -> Reduced:
    """Every rank works off its moves in order. ``values``: [rank, chunk], not changed. A message holds a chunk as it is
    when it is sent; sending waits for nobody, receiving for the oldest message of that sender."""
    env, held = simpy.Environment(), values.copy()
    boxes = {(a, b): simpy.Store(env) for a in range(len(moves)) for b in range(len(moves))}
    link_B, at = dict[tuple[int, int], int](), dict[int, Move]()

    def work(rank: int) -> Generator[simpy.Event, Any, None]:
        for move in moves[rank]:
            at[rank], (what, other, chunk) = move, move[:3]
            if what == "send":
                boxes[rank, other].put(held[rank, chunk])
                link_B[rank, other] = link_B.get((rank, other), 0) + chunk_B
                yield env.timeout(0)
            else:
                got = yield boxes[other, rank].get()
                held[rank, chunk] = got + (held[rank, chunk] if move[3] == "add" else 0.0)
                yield env.timeout(1)
        del at[rank]

    for rank in range(len(moves)):
        at[rank] = ()
        env.process(work(rank))
    env.run()
    return Reduced(held, link_B, at)
