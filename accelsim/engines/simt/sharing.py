"""Kernels of several streams on the same multiprocessors.

A kernel has blocks for so many multiprocessors (its *width*). From the end of its launch to that of its last piece it
holds them, also while it waits for memory: what its blocks have of a multiprocessor nobody else gets. At its launch it
takes what those before it have left. Whenever one ends, those that have less than they have blocks for take more, in
the order in which they came (of those that came at one edge in that of their numbers), so that nobody ever loses any.
Of a piece of ``width`` x clocks a kernel that holds fewer does as much less at each clock. Where nothing is left at all
a launch ends when something is: no block is there that could ask for its operands.

The first clock of a piece is its own and takes nothing from others, so that a kernel that nobody disturbs ends when it
would on an engine of its own.

Launches pass one after the other, too: those of different streams at a distance of ``spacing``, of those that are asked
for at one edge the kernel with the lowest number first.

Everything is decided after all other events of an instant, what passes before who gets multiprocessors.
"""

from __future__ import annotations

from dataclasses import dataclass

import simpy

from accelsim.engines.device import LAST, Yields, late
from accelsim.time import Clock

Until = Yields[int]
"""Ends with the edge until which something took."""


@dataclass
class Kernel:
    """A kernel in flight: the edge at which it came, multiprocessors that it has blocks for, and that it holds.
    ``begun`` fires when it holds the first; of its piece: how many it wants, what is left of it, multiprocessors x
    clocks, and ``done``."""

    came: int
    width: int
    begun: simpy.Event
    held: int = 0
    wants: int = 0
    left: int = 0
    done: simpy.Event | None = None

    @property
    def rate(self) -> int:
        """Return what it does of its piece in a clock."""
        return min(self.held, self.wants) if self.done is not None else 0


class Sharing:
    """Resources that the streams of one engine share: ``count`` multiprocessors, held by kernels in the order of their
    arrival, and the launcher, which launches one kernel each ``spacing`` clocks.

    ``_since``: the edge until which pieces are worked off; ``_plan``: the number of the latest look ahead, which others
    have replaced; ``_open``: whether multiprocessors are given out anew at the end of this instant; ``_asked``: number,
    clocks and event of launches that wait.
    """

    def __init__(self, env: simpy.Environment, clock: Clock, count: int, spacing: int) -> None:
        self._env, self._clock, self._count, self._spacing = env, clock, count, spacing
        self._kernels: dict[int, Kernel] = {}
        self._asked: list[tuple[int, int, simpy.Event]] = []
        self._since = self._plan = self._free = 0
        self._open = False

    def launch(self, number: int, width: int, clocks: int, edge: int) -> Until:
        """Launch a kernel, which takes ``clocks``, the first of them until ``edge``, which is now; end when the kernel
        holds a multiprocessor."""
        passes = self._env.event()
        if not self._asked:
            late(self._env, int(self._env.now), lambda _: self._launch_asked(edge))
        self._asked.append((number, clocks, passes))
        ends: int = yield passes
        yield self._env.timeout(self._clock.at(ends) - self._env.now)
        return (yield from self._begin(number, width, ends))

    def _launch_asked(self, edge: int) -> None:
        """All launches that were asked for at this edge, in order."""
        for _, clocks, passes in sorted(self._asked, key=lambda each: each[0]):
            begin = max(edge, self._free)
            self._free = begin + min(self._spacing, clocks)
            passes.succeed(begin + clocks - 1)
        self._asked = []

    def _begin(self, number: int, width: int, edge: int) -> Until:
        """A kernel comes at ``edge``, which is now; ends when it holds a multiprocessor."""
        self._pass(edge)
        self._kernels[number] = kernel = Kernel(edge, width, self._env.event())
        begun: int = yield kernel.begun
        return begun

    def work(self, number: int, width: int, clocks: int, edge: int) -> Until:
        """A piece of a kernel, one without a launch too, that takes so many clocks where the kernel holds all that it
        wants; its first ends at ``edge``, which is now."""
        if number not in self._kernels:
            edge = yield from self._begin(number, width, edge)
        if clocks == 1:
            return edge
        self._pass(edge)
        kernel = self._kernels[number]
        kernel.wants, kernel.left, kernel.done = width, width * (clocks - 1), self._env.event()
        done: int = yield kernel.done
        return done

    def end(self, number: int, edge: int) -> None:
        """End a kernel, whose last piece ends at ``edge``, which is now."""
        self._pass(edge)
        del self._kernels[number]

    def _pass(self, edge: int) -> None:
        """Advance all kernels to ``edge``; then share the multiprocessors anew."""
        for kernel in self._kernels.values():
            kernel.left -= kernel.rate * (edge - self._since)
        self._since = edge
        if not self._open:
            self._open = True
            late(self._env, int(self._env.now), self._give, LAST)  # a launch of one clock ends now

    def _give(self, _: simpy.Event) -> None:
        """Share the multiprocessors, earliest kernel first; look again when the first piece is done."""
        self._open, free = False, self._count
        self._kernels = dict(sorted(self._kernels.items(), key=lambda each: (each[1].came, each[0])))
        for kernel in self._kernels.values():
            kernel.held = min(kernel.width, free)
            free -= kernel.held
            if kernel.held and not kernel.begun.triggered:
                kernel.begun.succeed(self._since)
        self._plan += 1
        ends = [-(-kernel.left // kernel.rate) for kernel in self._kernels.values() if kernel.rate]
        if ends:
            self._look(self._since + min(ends), self._plan)

    def _look(self, edge: int, plan: int) -> None:
        event = self._env.timeout(self._clock.at(edge) - self._env.now)
        event.callbacks.append(lambda _: self._done(edge, plan))

    def _done(self, edge: int, plan: int) -> None:
        """Pieces that are done; nothing where something has changed since this was planned."""
        if plan != self._plan:
            return
        self._pass(edge)
        for kernel in self._kernels.values():
            if kernel.done is not None and kernel.left <= 0:
                kernel.done.succeed(edge)
                kernel.done = None
