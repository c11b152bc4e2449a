"""The serving engine around the steps of a model: its work on the host, and the way from a client to its queue."""

from __future__ import annotations

from collections import defaultdict

from accelsim.serving.replica import Cost
from accelsim.serving.requests import Request
from accelsim.serving.schedulers.base import Batch
from accelsim.spec.site import Front

MOST = 1 << 17
"""Costs that are kept."""


def hosted(cost: Cost, front: Front, by_mean: bool = False) -> Cost:
    """Return the cost of steps with the work of the host, for which the chips wait. ``by_mean``: see ``ByMean``."""

    def whole(batch: Batch) -> tuple[float, ...]:
        seconds, *others = cost(batch)
        sequences = batch.decoding + len(batch.chunks)
        return seconds + front.step + front.sequence * sequences, *others

    return ByMean(whole) if by_mean else whole


class ByMean:
    """The cost of steps, of which those that only decode depend on no more than the number of sequences and the mean of
    their tokens, and are kept in ``rows`` by both."""

    def __init__(self, cost: Cost) -> None:
        self._cost, self._left = cost, MOST
        self.rows = defaultdict[int, dict[int, tuple[float, ...]]](dict)

    def __call__(self, batch: Batch) -> tuple[float, ...]:
        """Return the cost of a step."""
        if batch.chunks or batch.moved:
            return self._cost(batch)
        row, mean = self.rows[batch.decoding], round(batch.context / batch.decoding)
        if mean not in row:
            if not self._left:
                self.rows.clear()
                row, self._left = self.rows[batch.decoding], MOST
            row[mean] = self._cost(batch)
            self._left -= 1
        return row[mean]


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
