"""The critical path of a run that ``turns`` timed: what the walk back needs, and its pieces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from accelsim.machine import path_kernel as kernel
from accelsim.machine.run import LawError, Segment
from accelsim.machine.turns import Turns
from accelsim.program.lazy import Lazy
from accelsim.program.roles import unit_of
from accelsim.spec.link import link_name
from accelsim.time import FS_PER_S
from accelsim.types import Ints

KINDS = (
    "transfer", "latency", "requests", "hand_over", "host", "port_width", "fill_drain", "stream", "weight_shift",
    "vector",
)  # fmt: skip
"""Kinds of pieces, in the order of ``path_kernel``."""
ROOM = 1 << 12


class Columns(NamedTuple):
    """Pieces of a path in order of time, as arrays: begin and end, fs; whole number of the command; place of the kind,
    the resource and the reason; edges [pieces, 3]."""

    begin: Ints
    end: Ints
    command: Ints
    kind: Ints
    resource: Ints
    why: Ints
    edges: Ints


class Pieces(Lazy[Segment]):
    """Pieces of a path that are made when somebody asks; ``resources`` and ``whys``: names."""

    def __init__(self, columns: Columns, resources: list[str], whys: list[str]) -> None:
        self.columns, self.resources, self.whys = columns, resources, whys

    def __len__(self) -> int:
        return len(self.columns.begin)

    def at(self, index: int) -> Segment:
        """The piece at a place."""
        begin, end, command, kind, resource, why, edges = (each[index].tolist() for each in self.columns)
        return Segment(
            begin, end, command, KINDS[kind], self.resources[resource], tuple(edges), self.whys[why]
        )

    def __iter__(self) -> Iterator[Segment]:
        yield from map(self.at, range(len(self)))


def walked(turns: Turns, time_fs: int) -> Pieces:
    """The critical path of all commands that were timed. Raises LawError where no cause explains a start."""
    loop = _loop(turns)
    ends = turns.state.end
    last = int(np.flatnonzero(np.asarray(ends) == time_fs)[0])
    path = _laid_out(turns, last, time_fs)
    while (ended := loop.walk(turns.rows, turns.state, path, turns.delay_fs)) == kernel.FULL:
        path = path._replace(**{
            name: np.concatenate([held := getattr(path, name), np.zeros_like(held)])
            for name in ("begin", "command", "what", "edges")
        })  # fmt: skip
    if ended == kernel.UNEXPLAINED:
        raise LawError(f"command {path.stands[kernel.COMMAND]} has times that no cause explains")
    whys = ["queue", "port", "start", *turns.whys]
    return Pieces(_columns(path), list(turns.resources), [*whys, ""])


def _loop(turns: Turns) -> Any:
    if not turns.compiled:
        return kernel
    from accelsim.machine import turns_compiled

    return turns_compiled


def _laid_out(turns: Turns, last: int, time_fs: int) -> kernel.Path:
    order = np.asarray(turns.rows.order)
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    first, engines, ports, begin, noted = list[int](), list[int](), list[int](), 0, 0
    counts = np.bincount(turns.engines()[turns.like], minlength=len(turns.timers)).tolist()
    for (engine, timer), count in zip(turns.timers.items(), counts, strict=True):
        first += [begin, noted]
        engines += [
            turns.resource("host" if timer.kind == "free" else unit_of(engine)),
            turns.resource(engine),
        ]
        begin, noted = begin + count, noted + count * (timer.columns > 0)
    for port in dict.fromkeys(turns.ports.values()):
        for memory in (port.memory, port.cache or port.memory):
            attached = turns.chip.memories[memory]
            link_fs = int(attached.link.latency * FS_PER_S) if attached.link else 0
            link = link_name(attached.link) or memory
            ports += [turns.resource(memory), turns.resource(link), link_fs, int(attached.memory.pipelined)]
    stands = np.array([time_fs, last, kernel.END, 0, 0, turns.ideal], np.int64)
    return kernel.Path(
        place, turns.engines(), np.array(first), np.array(engines), np.array(ports), np.zeros(ROOM, np.int64),
        np.zeros(ROOM, np.int32), np.zeros(3 * ROOM, np.int16), np.zeros(3 * ROOM, np.int64), stands,
    )  # fmt: skip


def _columns(path: kernel.Path) -> Columns:
    count = int(path.stands[kernel.PIECES])
    begin, what = path.begin[:count][::-1], path.what[: 3 * count].reshape(-1, 3)[::-1]
    end = np.append(begin[1:], path.stands[kernel.HIGH]) if count else begin
    kind, resource, why = what.T
    edges = path.edges[: 3 * count].reshape(-1, 3)[::-1]
    return Columns(begin, end, path.command[:count][::-1], kind, resource, why, edges)
