"""Batches of items on chips, by the rules of Triton's dynamic batcher."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from typing import NamedTuple

import simpy

from accelsim.serving.items.line import Item, Line


class Dynamic(NamedTuple):
    """Rules of Triton's dynamic batcher (triton-inference-server/core, src/dynamic_batch_scheduler.cc).

    ``most``: items of a batch; ``delay_s``: how long the oldest item waits for a preferred size; ``prefer``: those
    sizes, the largest batch by itself if none is given; ``instances``: copies of the model on each chip; ``queue``:
    items that wait at most.
    """

    most: int = 32
    delay_s: float = 0.0
    prefer: tuple[int, ...] = ()
    instances: int = 1
    queue: float = inf

    def size(self, waiting: int, due: bool) -> int:
        """Return how many of the waiting items go as a batch, 0 to wait. ``due``: the oldest waits for ``delay_s``.

        The largest preferred size that is there goes at once. Without one, and whenever an item is due, all that wait
        go, up to the largest batch.
        """
        pending = min(waiting, self.most)
        if self.delay_s and due:
            return pending
        best = max((size for size in self.prefer or (self.most,) if size <= pending), default=0)
        return best or (0 if self.delay_s else pending)


class Cost(NamedTuple):
    """A batch alone on a chip: its time, s; what of it goes to transfers from and to the host, s; how long the link is
    busy, s, behind other work or not; energy without static power, J."""

    seconds: float
    transfer_s: float = 0.0
    link_s: float = 0.0
    joules: float = 0.0

    def scaled(self, factor: float) -> Cost:
        """Return the cost if everything takes ``factor`` times as long, for the same joules."""
        return Cost(factor * self.seconds, factor * self.transfer_s, factor * self.link_s, self.joules)


class Batch(NamedTuple):
    """A batch that ran: start and end, s, items, what it cost."""

    start_s: float
    end_s: float
    size: int
    cost: Cost


class _Chip:
    """A chip: instances without a batch, and when its link and the chip itself have time again, s."""

    def __init__(self, instances: int) -> None:
        self.idle, self.link_s, self.chip_s = instances, 0.0, 0.0

    def run(self, now_s: float, cost: Cost) -> tuple[float, float]:
        """Reserve link and chip for a batch; return how long it waits for them, and when it ends, s.

        One batch is on the link at a time, and one on the chip; a batch begins on the chip when its own transfer is
        done, which hides behind another batch on the chip.
        """
        link = max(now_s, self.link_s)
        self.link_s = link + cost.link_s
        begin = max(link + cost.transfer_s, self.chip_s)
        self.chip_s = begin + cost.seconds - cost.transfer_s
        return begin - cost.transfer_s - now_s, self.chip_s


class Batcher:
    """Chips with one line in front. ``done`` is told of each item of a batch that has ended."""

    def __init__(
        self,
        env: simpy.Environment,
        rules: Dynamic,
        cost: Callable[[int], Cost],
        chips: int,
        line: Line,
        done: Callable[[Item], None],
    ) -> None:
        self._env, self._rules, self._cost, self._line, self._done = env, rules, cost, line, done
        self._chips = [_Chip(rules.instances) for _ in range(chips)]
        self._together = False
        self._woken_s = self._asked_s = -inf  # items due until then may go; the last time to look again
        self.batches: list[Batch] = []

    def take(self, item: Item) -> None:
        """Let an item wait for its batch."""
        item.joined_s = self._env.now
        self._line.join(item)
        self._look()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Let several items join before a batch may begin."""
        self._together = True
        yield
        self._together = False
        self._look()

    def _look(self) -> None:
        """Begin the batches that may begin now, or look again when the oldest item is due."""
        while not self._together and (chip := max(self._chips, key=lambda each: each.idle)).idle:
            self._line.drop()
            due_s = self._line.oldest_s(self._rules.most) + self._rules.delay_s
            size = self._rules.size(len(self._line), max(self._env.now, self._woken_s) >= due_s)
            if not size:
                if self._woken_s < due_s < inf:
                    self._wake(due_s)
                return
            self._begin(chip, [item for _ in range(size) if (item := self._line.take()) is not None])

    def _wake(self, due_s: float) -> None:
        """Look again when an item is due; whoever joins until then asks for no second look at that time."""
        if self._asked_s == due_s:
            return
        self._asked_s = due_s

        def look(event: simpy.Event) -> None:
            self._woken_s = max(self._woken_s, due_s)
            self._look()

        self._env.timeout(max(0.0, due_s - self._env.now)).callbacks.append(look)

    def _begin(self, chip: _Chip, items: list[Item]) -> None:
        if not items:
            return
        chip.idle -= 1
        now, cost = self._env.now, self._cost(len(items))
        waited_s, end_s = chip.run(now, cost)
        self.batches.append(Batch(now, end_s, len(items), cost))
        for item in items:
            item.queue_s += waited_s
            item.transfer_s, item.chip_s = cost.transfer_s, cost.seconds - cost.transfer_s

        def end(event: simpy.Event) -> None:
            chip.idle += 1
            for item in items:
                item.done_s = self._env.now
                self._done(item)
            self._look()

        self._env.timeout(end_s - now).callbacks.append(end)
