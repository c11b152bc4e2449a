"""Kernels of several streams on the same multiprocessors, clock by clock: the rules of
``accelsim.engines.simt.sharing`` with nothing planned ahead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

MOST = 100_000
"""Edges after which something is wrong."""


class Piece(NamedTuple):
    """Multiprocessors that a piece wants, and its clocks where it has them."""

    wants: int
    clocks: int


class Asked(NamedTuple):
    """A kernel: its number, multiprocessors that it has blocks for, clocks of its launch, its pieces."""

    number: int
    width: int
    launch: int
    pieces: tuple[Piece, ...]


@dataclass
class Stream:
    """The queue of a stream. ``phase``: what its first kernel does ('asks' for its launch, 'launches', 'waits' for a
    multiprocessor, goes on to the 'next' piece, 'works'), ``at``: the edge at which it asks, has passed its launch or
    goes on; ``left``: what is left of its piece."""

    queue: list[Asked]
    phase: str = "asks"
    at: int = 1
    place: int = 0
    left: int = 0
    came: int = 0
    held: int = 0
    ended: dict[int, int] = field(default_factory=dict)

    @property
    def first(self) -> Asked:
        """Its kernel."""
        return self.queue[0]

    def work(self, edge: int) -> None:
        """A clock of its piece."""
        self.left -= min(self.held, self.first.pieces[self.place].wants)
        if self.left <= 0:
            self.leave(edge)

    def enter(self, edge: int) -> None:
        """Its next piece, whose first clock is its own."""
        piece = self.first.pieces[self.place]
        self.left, self.phase = piece.wants * (piece.clocks - 1), "works"
        if not self.left:
            self.leave(edge)

    def leave(self, edge: int) -> None:
        """A piece is done, and after the last the kernel."""
        self.place, self.phase, self.at = self.place + 1, "next", edge + 1
        if self.place == len(self.first.pieces):
            self.ended[self.queue.pop(0).number] = edge
            self.place, self.held, self.phase = 0, 0, "asks"


def ends(queues: Sequence[Sequence[Asked]], count: int, spacing: int) -> dict[int, int]:
    """Number of each kernel -> the edge at which its last piece is done; all are asked for from edge 1 on."""
    streams = [Stream(list(queue)) for queue in queues]
    edge, free = 0, 0
    while any(stream.queue for stream in streams):
        edge += 1
        assert edge < MOST, "it ends"
        for stream in _in(streams, "works"):
            stream.work(edge)
        for stream in _in(streams, "next", edge):
            stream.enter(edge)
        for stream in sorted(_in(streams, "asks", edge), key=lambda each: each.first.number):
            begin = max(edge, free)
            free = begin + min(spacing, stream.first.launch)
            stream.phase, stream.at = "launches", begin + stream.first.launch - 1
        for stream in _in(streams, "launches", edge):
            stream.phase, stream.came = "waits", edge
        _give(streams, count)
        for stream in _in(streams, "waits"):
            if stream.held:
                stream.phase, stream.at = "next", edge + 1
    return {number: end for stream in streams for number, end in stream.ended.items()}


def _in(streams: Sequence[Stream], phase: str, edge: int | None = None) -> list[Stream]:
    """Those in a phase, and of those that have an edge to wait for, at it."""
    return [each for each in streams if each.queue and each.phase == phase and edge in (None, each.at)]


def _give(streams: Sequence[Stream], count: int) -> None:
    """By when they came, then by number."""
    here = [stream for stream in streams if stream.queue and stream.phase in ("waits", "next", "works")]
    for stream in sorted(here, key=lambda each: (each.came, each.first.number)):
        stream.held = min(stream.first.width, count)
        count -= stream.held
