"""Cores of the host: each works on one item at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import simpy

from accelsim.serving.items.line import Item, Line


class Stage(NamedTuple):
    """Work on the host: seconds that a core needs for the item of a number, the field of ``Item`` that counts them,
    and what happens to the item afterwards."""

    seconds: Callable[[int], float]
    field: str
    then: Callable[[Item], None]


class Cores:
    """Alike cores with one line. ``busy_s``: seconds of work that they began, in all."""

    def __init__(self, env: simpy.Environment, count: int, line: Line) -> None:
        self._env, self._free, self._line = env, count, line
        self._stages: dict[Item, Stage] = {}
        self.busy_s = 0.0

    def take(self, item: Item, stage: Stage) -> None:
        """Let a core work on an item; work of 0 s needs none."""
        seconds = stage.seconds(item.number)
        if not seconds:
            stage.then(item)
        elif self._free:
            self._free -= 1
            self._begin(item, stage, seconds)
        else:
            self._stages[item] = stage
            self._line.join(item)

    def _begin(self, item: Item, stage: Stage, seconds: float) -> None:
        self.busy_s += seconds
        setattr(item, stage.field, seconds)

        def end(event: simpy.Event) -> None:
            self._next()
            stage.then(item)

        self._env.timeout(seconds).callbacks.append(end)

    def _next(self) -> None:
        """A core is free: it takes who waits."""
        item = self._line.take()
        if item is None:
            self._free += 1
            return
        stage = self._stages.pop(item)
        self._begin(item, stage, stage.seconds(item.number))
