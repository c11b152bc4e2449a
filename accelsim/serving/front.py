"""The serving engine around the steps of a model: its work on the host, and the way from a client to its queue."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Hashable

import numpy as np

from accelsim.serving.replica import Cost, Row
from accelsim.serving.requests import Request
from accelsim.serving.schedulers.base import Batch
from accelsim.serving.tables import BLOCK
from accelsim.serving.times import StepTimes
from accelsim.spec.site import Front
from accelsim.types import Floats

MOST = 1 << 20
"""Costs that are kept."""


def hosted(times: StepTimes, factor: float, front: Front) -> Cost:
    """Return the cost of steps, ``factor`` times as long, with the work of the host, for which the chips wait."""

    def whole(batch: Batch) -> tuple[float, ...]:
        seconds, *others = times.scaled(factor, batch)
        return seconds + front.step + front.sequence * (batch.decoding + len(batch.chunks)), *others

    def decoded(decoding: int, mean: int) -> tuple[int, Floats, Floats]:
        first, seconds, joules = times.decoded(factor, decoding, mean)
        return first, seconds + front.step + front.sequence * decoding, joules

    plain = times.draft is None and not times.stages
    return whole if times.plan.ep > 1 else ByMean(whole, decoded if plain else None)


class ByMean:
    """The cost of steps, of which those that only decode depend on no more than the number of sequences and the mean of
    their tokens (and adapters, see ``Batch.mix``). These are kept. ``decoded``: computes those of a number of sequences
    for a mean and its neighbours, with the first of them."""

    def __init__(self, cost: Cost, decoded: Callable[[int, int], tuple[int, Floats, Floats]] | None) -> None:
        self._cost, self._decoded, self._left = cost, decoded, MOST
        self._kept = defaultdict[tuple[Hashable, int], list[tuple[int, Row, Row]]](list)

    def __call__(self, batch: Batch) -> tuple[float, ...]:
        """Return the cost of a step."""
        if batch.chunks or batch.moved:
            return self._cost(batch)
        at, seconds, joules = self._found(batch)
        return seconds[at], joules[at], 0.0

    def alike(self, batch: Batch, most: int) -> tuple[Row, Row]:
        """Return times (s) and energies (J) of a step that only decodes and of some after it, which add a token to the
        same sequences, ``most`` in all."""
        at, seconds, joules = self._found(batch)
        if 2 * (batch.context % batch.decoding) == batch.decoding:  # rounded to even, the next mean is not one more
            most = 1
        return seconds[at : at + most], joules[at : at + most]

    def _found(self, batch: Batch) -> tuple[int, Row, Row]:
        """Return the place of a step among neighbours, and what they cost."""
        mean = round(batch.context / batch.decoding)
        known = self._kept[batch.mix, mean >> BLOCK]
        for first, seconds, joules in known:
            if 0 <= mean - first < len(seconds):
                return mean - first, seconds, joules
        plain = self._decoded if not batch.adapted.tokens else None
        first, *columns = plain(batch.decoding, mean) if plain else (mean, *self._alone(batch))
        seconds, joules = (array("d", each.tobytes()) for each in columns)
        self._left -= len(seconds)
        if self._left < 0:
            self._left = MOST
            self._kept.clear()
        known.append((first, seconds, joules))
        return mean - first, seconds, joules

    def _alone(self, batch: Batch) -> tuple[Floats, Floats]:
        seconds, joules, _ = self._cost(batch)
        return np.array([seconds]), np.array([joules])


def stretched(front: Front, end: int) -> Front:
    """Return a front whose way to the queue is as short (-1) or as long (1) as it may be (90 %)."""
    factor = front.factor**end
    return front.model_copy(update={"request": factor * front.request, "token": factor * front.token})


class Way:
    """The way between a client and the queue."""

    def __init__(self, front: Front) -> None:
        self._front, self._known = front, set[int | str]()

    def __call__(self, request: Request) -> float:
        """Return the time that a request spends there, s; called in order of arrival."""
        again = sum(tokens for name, tokens in request.prefix if name in self._known)
        self._known.update(name for name, _ in request.prefix)
        return self._front.request + self._front.token * (request.prompt - again)
